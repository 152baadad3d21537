//! The users and groups of the host, and the address by which clients reach it.

use std::net::{IpAddr, UdpSocket};

/// The users and groups of the host's own files.
#[derive(Debug, Default)]
pub struct UserDatabase {
    passwd: String,
    group: String,
}

/// The ids of a user on the host.
#[derive(Debug, PartialEq, Eq)]
pub struct Ids {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Further group ids.
    pub groups: Vec<u32>,
}

impl UserDatabase {
    /// Reads `/etc/passwd` and `/etc/group`; a file that is missing counts as empty.
    pub fn read() -> UserDatabase {
        let file = |path| std::fs::read_to_string(path).unwrap_or_default();
        UserDatabase { passwd: file("/etc/passwd"), group: file("/etc/group") }
    }

    /// The ids for `name`. They are `uid` and `gid` if given. Otherwise they are those of the host's user of
    /// that name if the server runs as root, and else those of the process.
    pub fn ids(&self, name: &str, uid: Option<u32>, gid: Option<u32>) -> Ids {
        let root = rustix::process::geteuid().is_root();
        self.ids_for(name, uid, gid, root, own())
    }

    fn ids_for(&self, name: &str, uid: Option<u32>, gid: Option<u32>, root: bool, own: (u32, u32)) -> Ids {
        let by_name = || if root { self.user(|user, _| user == name) } else { None };
        let found = match uid {
            Some(uid) => self.user(|_, id| id == uid).or(Some((String::new(), uid, uid))),
            None => by_name(),
        };
        match found {
            Some((user, uid, group)) => Ids { uid, gid: gid.unwrap_or(group), groups: self.groups(&user) },
            None => Ids { uid: own.0, gid: gid.unwrap_or(own.1), groups: Vec::new() },
        }
    }

    /// All users and groups by name.
    pub fn names(&self) -> smb::HostNames {
        let of = |text: &str| -> Vec<(String, u32)> {
            let one = |line: &str| {
                let mut fields = line.split(':');
                let name = fields.next().filter(|name| !name.is_empty())?;
                Some((name.to_owned(), fields.nth(1)?.parse().ok()?))
            };
            text.lines().filter_map(one).collect()
        };
        smb::HostNames { users: of(&self.passwd), groups: of(&self.group) }
    }

    /// Name, uid and gid of the first user that `wanted` accepts.
    fn user(&self, wanted: impl Fn(&str, u32) -> bool) -> Option<(String, u32, u32)> {
        self.passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            wanted(name, uid).then(|| (name.to_owned(), uid, gid))
        })
    }

    /// The groups that list `user` as a member.
    fn groups(&self, user: &str) -> Vec<u32> {
        let groups = self.group.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let gid = fields.nth(2)?.parse().ok()?;
            fields.next()?.split(',').any(|member| !user.is_empty() && member == user).then_some(gid)
        });
        groups.collect()
    }
}

/// User and group id of this process.
pub fn own() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// The address by which others most likely reach this host: that of the default route. Sends nothing.
pub fn main_address() -> Option<IpAddr> {
    let towards = |bind: &str, far: &str| {
        let socket = UdpSocket::bind(bind).ok()?;
        socket.connect(far).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_unspecified()).then_some(address)
    };
    // RFC 5737, RFC 3849
    towards("0.0.0.0:0", "203.0.113.1:9").or_else(|| towards("[::]:0", "[2001:db8::1]:9"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_from_the_setting_the_host_or_the_process() {
        let accounts = UserDatabase {
            passwd: "root:x:0:0::/:/bin/sh\nbroken\nann:x:1000:100:Ann:/home/ann:/bin/sh\n".to_owned(),
            group: "users:x:100:\naudio:x:29:bob,ann\nempty:x:30:\n".to_owned(),
        };
        let ids = |uid, gid, groups: &[u32]| Ids { uid, gid, groups: groups.to_vec() };
        let names = accounts.names();
        assert_eq!(names.users, [("root".to_owned(), 0), ("ann".to_owned(), 1000)]);
        assert_eq!(names.groups[1], ("audio".to_owned(), 29));
        assert_eq!(accounts.ids_for("ann", None, None, true, (0, 0)), ids(1000, 100, &[29]));
        assert_eq!(accounts.ids_for("ann", None, None, false, (5, 6)), ids(5, 6, &[]));
        assert_eq!(accounts.ids_for("x", Some(1000), None, false, (5, 6)), ids(1000, 100, &[29]));
        assert_eq!(accounts.ids_for("x", Some(7), Some(8), true, (0, 0)), ids(7, 8, &[]));
        assert_eq!(accounts.ids_for("x", Some(7), None, true, (0, 0)), ids(7, 7, &[]));
        assert_eq!(accounts.ids_for("x", None, None, true, (0, 0)), ids(0, 0, &[]));
    }
}
