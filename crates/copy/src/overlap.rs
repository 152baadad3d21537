//! Whether one end of a copy lies in the other, as far as names and addresses tell.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;

use client::{Scheme, Url};

/// Folds a name of a protocol for comparison. SMB names have no case.
fn folded(scheme: Scheme, name: &str) -> String {
    if scheme == Scheme::Smb { name.to_lowercase() } else { name.to_owned() }
}

/// The port and the share of a URL, for comparison.
fn share(url: &Url) -> (u16, String) {
    (url.port, folded(url.scheme, &url.share))
}

/// Whether `inner` is `outer` or lies in it, by their names and the addresses of their hosts.
pub(crate) fn is_within(inner: &Url, outer: &Url) -> bool {
    if inner.scheme != outer.scheme {
        return false;
    }
    if inner.scheme == Scheme::Local {
        return real(inner.path.as_ref()).starts_with(real(outer.path.as_ref()));
    }
    let [path, above] = [inner, outer].map(|it| folded(it.scheme, &it.path));
    let below = path.strip_prefix(&above);
    let below = above.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    below && share(inner) == share(outer) && is_same_host(&inner.host, &outer.host)
}

/// Whether one of the two may lie in the other although their names do not show it: by two protocols, by two
/// shares of one host, or by a mount of this host.
pub(crate) fn is_doubtful(one: &Url, other: &Url) -> bool {
    match (one.scheme, other.scheme) {
        (Scheme::Local, Scheme::Local) => false,
        (Scheme::Local, _) => is_this_host(&other.host) || is_mounted_from_afar(&real(one.path.as_ref())),
        (_, Scheme::Local) => is_doubtful(other, one),
        (a, b) => (a != b || share(one) != share(other)) && is_same_host(&one.host, &other.host),
    }
}

/// Whether a name is one of this host.
fn is_this_host(host: &str) -> bool {
    let addresses = (host, 0).to_socket_addrs();
    // Nobody can listen at another host's address.
    addresses.is_ok_and(|mut all| all.any(|address| UdpSocket::bind(address).is_ok()))
}

/// Whether a path, as far as it exists, is in a file system of a server or a program.
fn is_mounted_from_afar(path: &std::path::Path) -> bool {
    // NFS, CIFS, SMB2 and FUSE, as statfs(2) calls them.
    const AFAR: [u32; 4] = [0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x6573_5546];
    let found = path.ancestors().find_map(|above| rustix::fs::statfs(above).ok());
    found.is_some_and(|found| AFAR.contains(&(found.f_type as u32)))
}

/// Whether two names belong to one host, as far as its addresses tell.
fn is_same_host(a: &str, b: &str) -> bool {
    let addresses = |host: &str| -> Vec<IpAddr> {
        // An unknown name is reported when the copy connects.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_knows_what_lies_in_it() {
        let url = |text: &str| text.parse::<Url>().unwrap();
        let within = |a: &str, b: &str| is_within(&url(a), &url(b));
        assert!(within("smb://a@h/Docs/x", "smb://b@H/docs"));
        assert!(!within("smb://a@h/docs/xy", "smb://a@h/docs/x"));
        assert!(!within("nfs://h/x", "smb://a@h/x"));
        assert!(within("nfs://Files.invalid/x/y", "nfs://files.INVALID/x"));
        assert!(!within("nfs://h.invalid/X", "nfs://h.invalid/x"));
        assert!(within("nfs://localhost/x/y", "nfs://127.0.0.1/x"));
        assert!(within("smb://a@[::ffff:127.0.0.1]/x", "smb://a@[::ffff:7f00:1]/x"));
        assert!(!within("smb://a@127.0.0.2/x", "smb://a@127.0.0.1/x"));
        let doubtful = |a: &str, b: &str| is_doubtful(&url(a), &url(b));
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
        let outer = dir.path().display().to_string();
        let inner = format!("{outer}/new/deep");
        assert!(within(&inner, &outer) && !within(&outer, &inner));
    }
}
