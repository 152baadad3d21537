//! Where a copy comes from or goes to: a path of this host, `smb://USER@HOST[:PORT]/SHARE[/PATH]` or
//! `nfs://HOST[:PORT]/EXPORT[/PATH]`.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::str::FromStr;

use client::written;

/// One end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A path of this host.
    Local(PathBuf),
    /// A path of a share.
    Smb(Remote),
    /// A path of an export.
    Nfs(Remote),
}

/// A path at a server, and who goes there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The user; none over NFS.
    pub user: String,
    /// The user's domain, or nothing.
    pub domain: String,
    /// Name or address of the server.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The share, or the first part of the path to an export.
    pub share: String,
    /// The path in it, parts divided by `/`; nothing for its root.
    pub path: String,
}

const SMB: &str = "write smb://USER@HOST[:PORT]/SHARE[/PATH]";
const NFS: &str = "write nfs://HOST[:PORT]/EXPORT[/PATH]";

impl Place {
    /// The user whose password is needed.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self {
            Place::Smb(remote) => Some(&remote.user),
            _ => None,
        }
    }

    /// Whether `self` is `other` or lies in it, by their names and by where their hosts are.
    pub(crate) fn is_within(&self, other: &Place) -> bool {
        let within = |a: &Remote, b: &Remote, fold: fn(&str) -> String| {
            let same = (a.port, fold(&a.share)) == (b.port, fold(&b.share));
            let (inner, outer) = (fold(&a.path), fold(&b.path));
            let below = inner.strip_prefix(&outer);
            let below =
                outer.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            same && below && is_same_host(&a.host, &b.host)
        };
        match (self, other) {
            (Place::Local(a), Place::Local(b)) => real(a).starts_with(real(b)),
            (Place::Smb(a), Place::Smb(b)) => within(a, b, str::to_lowercase),
            (Place::Nfs(a), Place::Nfs(b)) => within(a, b, str::to_owned),
            _ => false,
        }
    }
}

impl Place {
    /// Whether one of the two may lie in the other without their names telling: by two protocols, by two shares of one
    /// host, or by what this host has mounted.
    pub(crate) fn is_doubtful_with(&self, other: &Place) -> bool {
        let differ = |a: &Remote, b: &Remote, fold: fn(&str) -> String| {
            (a.port, fold(&a.share)) != (b.port, fold(&b.share)) && is_same_host(&a.host, &b.host)
        };
        match (self, other) {
            (Place::Local(_), Place::Local(_)) => false,
            (Place::Smb(a), Place::Smb(b)) => differ(a, b, str::to_lowercase),
            (Place::Nfs(a), Place::Nfs(b)) => differ(a, b, str::to_owned),
            (Place::Smb(a), Place::Nfs(b)) | (Place::Nfs(a), Place::Smb(b)) => is_same_host(&a.host, &b.host),
            (Place::Local(path), Place::Smb(there) | Place::Nfs(there))
            | (Place::Smb(there) | Place::Nfs(there), Place::Local(path)) => {
                is_this_host(&there.host) || is_mounted_from_afar(&real(path))
            }
        }
    }
}

/// Whether a name is one of this host's own.
fn is_this_host(host: &str) -> bool {
    let addresses = (host, 0).to_socket_addrs();
    // Nobody can listen at somebody else's address.
    addresses.is_ok_and(|mut all| all.any(|address| UdpSocket::bind(address).is_ok()))
}

/// Whether a path, as far as it exists, is that of a file system that a server or a program has.
fn is_mounted_from_afar(path: &std::path::Path) -> bool {
    // NFS, CIFS, SMB2 and FUSE, as statfs(2) calls them.
    const AFAR: [u32; 4] = [0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x6573_5546];
    let found = path.ancestors().find_map(|above| rustix::fs::statfs(above).ok());
    found.is_some_and(|found| AFAR.contains(&(found.f_type as u32)))
}

/// Whether two names are those of one host, as far as its addresses tell.
fn is_same_host(a: &str, b: &str) -> bool {
    let addresses = |host: &str| -> Vec<IpAddr> {
        // One that is not known is told when the copy goes there.
        (host, 0).to_socket_addrs().map(|found| found.map(|it| it.ip()).collect()).unwrap_or_default()
    };
    if a.eq_ignore_ascii_case(b) {
        return true;
    }
    let known = addresses(a);
    addresses(b).iter().any(|address| known.contains(address))
}

/// `path` without links and dots, as far as it exists.
pub(crate) fn real(path: &std::path::Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        if let Ok(found) = above.canonicalize() {
            return match absolute.strip_prefix(above) {
                Ok(rest) if !rest.as_os_str().is_empty() => found.join(rest),
                _ => found,
            };
        }
    }
    absolute
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, remote) = match self {
            Place::Local(path) => return path.display().fmt(f),
            Place::Smb(remote) => ("smb", remote),
            Place::Nfs(remote) => ("nfs", remote),
        };
        let Remote { user, host, port, share, path, .. } = remote;
        let at = if user.is_empty() { "" } else { "@" };
        let colon = if host.contains(':') { ("[", "]") } else { ("", "") };
        let slash = if path.is_empty() { "" } else { "/" };
        write!(f, "{scheme}://{user}{at}{}{host}{}:{port}/{share}{slash}{path}", colon.0, colon.1)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if let Some(rest) = text.strip_prefix("smb://") {
            let (authority, path) = rest.split_once('/').ok_or(format!("no share; {SMB}"))?;
            let (user, place) = authority.rsplit_once('@').ok_or(format!("no user; {SMB}"))?;
            let (domain, user) = written::login(user)?;
            if user.is_empty() {
                return Err(format!("the user is empty; {SMB}"));
            }
            return Ok(Place::Smb(remote(user, domain, place, 445, path, SMB)?));
        }
        if let Some(rest) = text.strip_prefix("nfs://") {
            let (authority, path) = rest.split_once('/').ok_or(format!("no export; {NFS}"))?;
            if authority.contains('@') {
                return Err(format!("NFS has no login; use --uid; {NFS}"));
            }
            return Ok(Place::Nfs(remote("", "", authority, 2049, path, NFS)?));
        }
        match text.split_once("://") {
            Some((scheme, _)) if !scheme.contains('/') => Err(format!(
                "{scheme}:// is not known; {SMB}, or {NFS}, or a path (./{text} for a file of that name)"
            )),
            _ if text.is_empty() => Err("an empty path".to_owned()),
            _ => Ok(Place::Local(PathBuf::from(text))),
        }
    }
}

fn remote(
    user: &str,
    domain: &str,
    place: &str,
    usual: u16,
    path: &str,
    form: &str,
) -> Result<Remote, String> {
    let (host, port) = written::place(place, usual)?;
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let share = parts.next().unwrap_or_default().to_owned();
    let rest: Vec<&str> = parts.collect();
    if rest.contains(&"..") || share == ".." {
        return Err("a path with .. in it".to_owned());
    }
    if host.is_empty() || share.is_empty() {
        return Err(format!("the host or the share is empty; {form}"));
    }
    let (user, domain, path) = (user.to_owned(), domain.to_owned(), rest.join("/"));
    Ok(Remote { user, domain, host, port, share, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_schemes_and_paths_are_read_and_written_the_same() {
        for (text, shown) in [
            ("smb://ann@files/x", "smb://ann@files:445/x"),
            ("smb://ann@[::1]:4450/x/y//z/", "smb://ann@[::1]:4450/x/y/z"),
            ("nfs://files/x/y", "nfs://files:2049/x/y"),
            ("a/b", "a/b"),
            ("./odd://name", "./odd://name"),
        ] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        for (wrong, why) in [
            ("smb://h/x", "no user"),
            ("smb://a:secret@h/x", "--password-file"),
            ("smb://a@h", "no share"),
            ("smb://a@h/x/../y", ".."),
            ("smb://a@h:0/x", "no port"),
            ("nfs://a@h/x", "--uid"),
            ("nfs://h/", "empty"),
            ("http://h/x", "not known"),
            ("", "empty"),
        ] {
            let said = wrong.parse::<Place>().unwrap_err();
            assert!(said.contains(why) && !said.contains("secret"), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_place_knows_what_lies_in_it() {
        let place = |text: &str| text.parse::<Place>().unwrap();
        assert!(place("smb://a@h/Docs/x").is_within(&place("smb://b@H/docs")));
        assert!(!place("smb://a@h/docs/xy").is_within(&place("smb://a@h/docs/x")));
        assert!(!place("nfs://h/x").is_within(&place("smb://a@h/x")));
        assert!(place("nfs://Files.invalid/x/y").is_within(&place("nfs://files.INVALID/x")));
        assert!(!place("nfs://h.invalid/X").is_within(&place("nfs://h.invalid/x")));
        assert!(place("nfs://localhost/x/y").is_within(&place("nfs://127.0.0.1/x")));
        assert!(place("smb://a@[::ffff:127.0.0.1]/x").is_within(&place("smb://a@[::ffff:7f00:1]/x")));
        assert!(!place("smb://a@127.0.0.2/x").is_within(&place("smb://a@127.0.0.1/x")));
        let doubtful = |a: &str, b: &str| place(a).is_doubtful_with(&place(b));
        assert!(
            doubtful("nfs://localhost/x/sub", "smb://u@127.0.0.1/x") && doubtful("/", "nfs://127.0.0.1/x")
        );
        assert!(
            doubtful("smb://u@h.invalid/x", "smb://u@H.invalid/y") && doubtful("smb://u@[::1]/x", "/tmp")
        );
        assert!(!doubtful("smb://u@h.invalid/x/a", "smb://u@h.invalid/X/b") && !doubtful("/a", "/b"));
        assert!(
            !doubtful("nfs://127.0.0.1/x", "smb://u@192.0.2.1/x") && !doubtful("/proc", "nfs://192.0.2.1/x")
        );
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (Place::Local(dir.path().to_owned()), Place::Local(dir.path().join("new/deep")));
        assert!(inner.is_within(&outer) && !outer.is_within(&inner));
    }
}
