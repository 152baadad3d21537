//! The users and groups of the host, and the address by which clients reach it.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::Silent;
use identity::host::{HostAccounts, HostUser, Nss};
use parking_lot::Mutex;

/// The id of this boot of the host, with the line end that the kernel writes. A later boot has another one.
///
/// # Errors
/// The host's error, with the file.
pub fn boot_id() -> std::io::Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    std::fs::read_to_string(path)
        .map_err(|error| std::io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// The id of this host's installation (machine-id(5)). Empty if the host has none, as in many containers.
pub fn machine_id() -> String {
    let text = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(text.trim()).filter(is_id).unwrap_or_default().to_owned()
}

/// The longest wait for the host's user database.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The users and groups of the host, as its own configuration (nsswitch.conf) finds them.
pub struct UserDatabase {
    accounts: HostAccounts,
}

/// The ids of a user on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Further group ids.
    pub groups: Vec<u32>,
}

impl UserDatabase {
    /// The database of this host.
    ///
    /// # Errors
    /// The host's error if it gives no thread.
    pub fn of_host() -> std::io::Result<UserDatabase> {
        Ok(UserDatabase { accounts: accounts()? })
    }

    /// The ids for `name`. They are `uid` and `gid` if given. Otherwise they are those of the host's user of
    /// that name if the server runs as root, and else those of the process. As root, a user whom the host
    /// does not know has none.
    ///
    /// # Errors
    /// [`Silent`] if the host's database does not answer. A user whom it may know must not act as the
    /// process.
    pub fn ids(&self, name: &str, uid: Option<u32>, gid: Option<u32>) -> Result<Option<Ids>, Silent> {
        let root = rustix::process::geteuid().is_root();
        self.ids_for(name, uid, gid, root, own())
    }

    fn ids_for(
        &self,
        name: &str,
        uid: Option<u32>,
        gid: Option<u32>,
        root: bool,
        own: (u32, u32),
    ) -> Result<Option<Ids>, Silent> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        let found = match uid {
            Some(uid) => {
                let unknown = || HostUser { name: String::new(), uid, gid: uid, groups: Vec::new() };
                Some(self.accounts.user(uid, deadline)?.unwrap_or_else(unknown))
            }
            None if root => self.accounts.user_named(name, deadline)?,
            None => None,
        };
        Ok(match found {
            Some(user) => Some(Ids { uid: user.uid, gid: gid.unwrap_or(user.gid), groups: user.groups }),
            None if root => None,
            None => Some(Ids { uid: own.0, gid: gid.unwrap_or(own.1), groups: Vec::new() }),
        })
    }
}

/// The threads that ask the host's user database. The process has them once.
///
/// # Errors
/// The host's error if it gives no thread.
pub fn accounts() -> std::io::Result<HostAccounts> {
    static ACCOUNTS: Mutex<Option<HostAccounts>> = Mutex::new(None);
    let mut accounts = ACCOUNTS.lock();
    if let Some(accounts) = &*accounts {
        return Ok(accounts.clone());
    }
    Ok(accounts.insert(HostAccounts::start(Arc::new(Nss))?).clone())
}

/// The users and groups of the host's own files, which can be listed. Those of a directory cannot.
pub fn listed_names() -> smb::HostNames {
    let of = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(name_and_id).collect()
    };
    smb::HostNames { users: of("/etc/passwd"), groups: of("/etc/group") }
}

/// Name and number of a line of /etc/passwd or /etc/group.
fn name_and_id(line: &str) -> Option<(String, u32)> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    Some((name.to_owned(), fields.nth(1)?.parse().ok()?))
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
    use std::io::{Error, ErrorKind};

    use identity::host::{HostDatabase, HostGroup};

    use super::*;

    /// A database with one user, which fails for the name `slow`.
    struct OnlyAnn;

    impl HostDatabase for OnlyAnn {
        fn user_named(&self, name: &str) -> std::io::Result<Option<HostUser>> {
            match name {
                "ann" => self.user(1000),
                "slow" => Err(Error::from(ErrorKind::TimedOut)),
                _ => Ok(None),
            }
        }
        fn user(&self, uid: u32) -> std::io::Result<Option<HostUser>> {
            let ann = HostUser { name: "ann".to_owned(), uid: 1000, gid: 100, groups: vec![29] };
            Ok((uid == 1000).then_some(ann))
        }
        fn group_named(&self, _: &str) -> std::io::Result<Option<HostGroup>> {
            Ok(None)
        }
        fn group(&self, _: u32) -> std::io::Result<Option<HostGroup>> {
            Ok(None)
        }
    }

    #[test]
    fn ids_come_from_the_setting_the_host_or_the_process() {
        let accounts = UserDatabase { accounts: HostAccounts::start(Arc::new(OnlyAnn)).unwrap() };
        let ids = |uid, gid, groups: &[u32]| Ok(Some(Ids { uid, gid, groups: groups.to_vec() }));
        assert_eq!(accounts.ids_for("ann", None, None, true, (0, 0)), ids(1000, 100, &[29]));
        assert_eq!(accounts.ids_for("ann", None, None, false, (5, 6)), ids(5, 6, &[]));
        assert_eq!(accounts.ids_for("x", Some(1000), None, false, (5, 6)), ids(1000, 100, &[29]));
        assert_eq!(accounts.ids_for("x", Some(7), Some(8), true, (0, 0)), ids(7, 8, &[]));
        assert_eq!(accounts.ids_for("x", Some(7), None, true, (0, 0)), ids(7, 7, &[]));
        assert_eq!(accounts.ids_for("x", Some(0), None, true, (0, 0)), ids(0, 0, &[]));
        // Neither a name that the host does not know makes somebody root, nor a silent database.
        assert_eq!(accounts.ids_for("x", None, None, true, (0, 0)), Ok(None));
        assert_eq!(accounts.ids_for("x", None, Some(7), true, (0, 0)), Ok(None));
        assert!(accounts.ids_for("slow", None, None, true, (0, 0)).is_err());
    }

    #[test]
    fn names_of_files_are_listed() {
        assert_eq!(name_and_id("ann:x:1000:100:Ann:/home/ann:/bin/sh"), Some(("ann".to_owned(), 1000)));
        assert_eq!((name_and_id("broken"), name_and_id(":x:5:")), (None, None));
    }
}
