//! The mounts that this process sees, and what systemd hides from a service by them.
//!
//! Start with [`file_error`], the message about a file that cannot be opened.

use std::path::{Path, PathBuf};

use super::setting::os_error;

/// The message of an error of the host about the file `path`, without the number. If the file is missing
/// because systemd hides it from the service, the message says that: an administrator finds it there.
pub fn file_error(path: &Path, error: &std::io::Error) -> String {
    let text = os_error(error);
    if error.kind() != std::io::ErrorKind::NotFound {
        return text;
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match Mounts::read().reason_hidden(&path) {
        Some(why) => format!("{text}: {why}"),
        None => text,
    }
}

/// The mounts of the host. A bind mount shows the same files at another path, and its parents are not those
/// of the original directory.
#[derive(Debug)]
pub struct Mounts(Vec<Mount>);

#[derive(Debug)]
struct Mount {
    /// The file system.
    device: String,
    /// The mounted directory of that file system.
    root: PathBuf,
    at: PathBuf,
    /// The kind of the file system, the device, and the options of the file system.
    file_system: String,
}

impl Mounts {
    /// The mounts of this host. Empty if the host does not report them.
    pub fn read() -> Mounts {
        Mounts::parse(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    // proc_pid_mountinfo(5)
    pub(super) fn parse(text: &[u8]) -> Mounts {
        let one = |line: &[u8]| {
            let mut fields = line.split(|byte| *byte == b' ').skip(2);
            let device = String::from_utf8_lossy(fields.next()?).into_owned();
            let (root, at) = (unescaped(fields.next()?), unescaped(fields.next()?));
            let line = String::from_utf8_lossy(line);
            let file_system = line.split_once(" - ").map_or_else(String::new, |(_, rest)| rest.to_owned());
            Some(Mount { device, root, at, file_system })
        };
        Mounts(text.split(|byte| *byte == b'\n').filter_map(one).collect())
    }

    /// Whether systemd has put its inaccessible directory over a path or one above it, as it does for
    /// `ProtectHome=yes` and `InaccessiblePaths=` (systemd.exec(5)).
    pub fn are_hiding(&self, path: &Path) -> bool {
        let at = self.locate(path).map(|(_, inside)| inside);
        at.is_some_and(|inside| inside.ancestors().any(|at| at.ends_with("systemd/inaccessible/dir")))
    }

    /// Whether systemd has given this process a directory of its own in place of the host's `/tmp` or
    /// `/var/tmp` over the path, as it does for `PrivateTmp=yes` (systemd.exec(5)).
    fn are_private(&self, path: &Path) -> bool {
        self.mount_of(path).is_some_and(|mount| {
            let above = mount.root.parent().and_then(Path::file_name);
            let is_made = above.is_some_and(|name| name.to_string_lossy().starts_with("systemd-private-"));
            is_made && [Path::new("/tmp"), Path::new("/var/tmp")].contains(&&*mount.at)
        })
    }

    /// The reason why the service does not find what the host has at this path.
    fn reason_hidden(&self, path: &Path) -> Option<&'static str> {
        if self.are_private(path) {
            return Some(
                "the service does not see the `/tmp` and `/var/tmp` of the host (`PrivateTmp=` in its unit), \
                 so the path must lie elsewhere",
            );
        }
        self.are_hiding(path).then_some(
            "systemd hides it from this service (`ProtectHome=` in the unit), so the path must lie elsewhere",
        )
    }

    /// Whether a path is on a mount by Linux's own client of Ceph without `wsync`. That client answers for a
    /// new or removed name before Ceph knows of it, and forgets it when the machine dies.
    pub fn forget_names(&self, path: &Path) -> bool {
        let mut words = self.mount_of(path).map_or("", |mount| &mount.file_system).split(' ');
        let (kind, _device, options) = (words.next(), words.next(), words.next().unwrap_or_default());
        kind == Some("ceph") && options.split(',').all(|option| option != "wsync")
    }

    /// The file system of a path, and the path within it.
    pub fn locate(&self, path: &Path) -> Option<(&str, PathBuf)> {
        let mount = self.mount_of(path)?;
        let inside = path.strip_prefix(&mount.at).ok()?;
        Some((&mount.device, mount.root.join(inside)))
    }

    fn mount_of(&self, path: &Path) -> Option<&Mount> {
        // Among several mounts on one directory the last one is visible.
        let over = self.0.iter().filter(|mount| path.starts_with(&mount.at));
        over.max_by_key(|mount| mount.at.components().count())
    }
}

/// Decodes a path of mountinfo, in which blanks and similar characters are three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut path = Vec::with_capacity(text.len());
    let mut left = text;
    while let Some((first, rest)) = left.split_first() {
        let digits =
            rest.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(byte.unwrap_or(*first));
        left = if byte.is_some() { &rest[3..] } else { rest };
    }
    std::ffi::OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_systemd_hides_is_told_from_an_empty_one() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/a rw\n\
                     40 22 0:25 /systemd/inaccessible/dir /home ro,nosuid - tmpfs tmpfs rw\n\
                     41 22 0:41 / /srv rw - tmpfs t rw\n";
        let mounts = Mounts::parse(text);
        assert!(mounts.are_hiding(Path::new("/home")) && mounts.are_hiding(Path::new("/home/ann/docs")));
        assert!(!mounts.are_hiding(Path::new("/srv")) && !mounts.are_hiding(Path::new("/homes")));
    }

    #[test]
    fn a_mount_of_ceph_keeps_its_names_with_wsync_alone() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/a rw\n\
                     40 22 0:41 / /lazy rw,noatime shared:1 - ceph a@.files=/ rw,name=a,secret=<hidden>,acl\n\
                     41 22 0:42 / /kept rw,noatime - ceph a@.files=/ rw,name=a,wsync,acl\n\
                     42 22 0:43 / /fuse rw,noatime - fuse.ceph-fuse ceph-fuse rw,allow_other\n";
        let mounts = Mounts::parse(text);
        assert!(mounts.forget_names(Path::new("/lazy/state")));
        assert!(["/kept", "/fuse/x", "/srv"].iter().all(|path| !mounts.forget_names(Path::new(path))));
    }

    #[test]
    fn a_tmp_of_the_service_alone_is_told_from_that_of_the_host() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/a rw\n\
                     40 22 8:1 /tmp/systemd-private-1f-trunkline.service-Ab3/tmp /tmp rw - ext4 /dev/a rw\n\
                     41 22 0:41 /systemd-private-1f-trunkline.service-Cd4/tmp /var/tmp rw - tmpfs t rw\n";
        let mounts = Mounts::parse(text);
        let of = |path: &str| mounts.reason_hidden(Path::new(path));
        for path in ["/tmp/pw", "/tmp/a/b", "/var/tmp/x"] {
            assert!(of(path).unwrap().contains("PrivateTmp="), "{path}");
        }
        assert_eq!((of("/srv/tmp/pw"), of("/tmpx")), (None, None));
        let host = Mounts::parse(b"22 1 8:1 / / rw - ext4 /dev/a rw\n30 22 0:30 / /tmp rw - tmpfs t rw\n");
        assert_eq!(host.reason_hidden(Path::new("/tmp/pw")), None);
        assert_eq!(host.reason_hidden(Path::new("/tmp/systemd-private-1f-x/tmp/pw")), None);
    }

    #[test]
    fn only_what_is_missing_gets_a_further_reason() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(file_error(Path::new("/none/such"), &missing), "entity not found");
    }
}
