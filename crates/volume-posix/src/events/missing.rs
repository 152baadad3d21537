//! Why a volume has no events of changes by others.

use rustix::io::Errno;

/// The reason why the host does not report changes by others in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MissingEvents {
    /// The host has no fanotify group left for this user.
    #[error("the host has no fanotify group left for this user")]
    NoGroup,
    /// The host has no fanotify mark left for this user.
    #[error("the host has no fanotify mark left for this user")]
    NoMark,
    /// The file system reports no changes, or not all.
    #[error("its file system ({0}) does not report all changes")]
    FileSystem(&'static str),
    /// The host refuses fanotify to this process.
    #[error("the host refuses fanotify: {0}")]
    Refused(Errno),
}

impl MissingEvents {
    /// The reason behind an error of fanotify_init(2).
    pub(super) fn of_group(errno: Errno) -> MissingEvents {
        match errno {
            Errno::MFILE => MissingEvents::NoGroup,
            other => MissingEvents::Refused(other),
        }
    }

    /// The reason behind an error of fanotify_mark(2) on a file system of this kind.
    pub(super) fn of_mark(errno: Errno, kind: &'static str) -> MissingEvents {
        match errno {
            Errno::NOSPC => MissingEvents::NoMark,
            Errno::NODEV | Errno::XDEV | Errno::OPNOTSUPP | Errno::INVAL | Errno::OVERFLOW => {
                MissingEvents::FileSystem(kind)
            }
            other => MissingEvents::Refused(other),
        }
    }

    /// The advice to the administrator, as the end of a sentence.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            MissingEvents::NoGroup => "raise fs.fanotify.max_user_groups by sysctl and restart the server",
            MissingEvents::NoMark => "raise fs.fanotify.max_user_marks by sysctl and restart the server",
            MissingEvents::FileSystem(_) => "share a directory on another file system, such as ext4 or XFS",
            MissingEvents::Refused(_) => {
                "let the service call fanotify_init and fanotify_mark, with Linux 5.13 or later"
            }
        }
    }
}
