//! The reasons why a call on a volume fails: one for each case that callers tell apart.

/// The result of a call on a volume.
pub type Result<T> = std::result::Result<T, Failure>;

/// The reason why a volume refused a call or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failure {
    /// The data is not in memory. Ask again with [`crate::Patience::Block`] on a thread that may wait.
    #[error("would have to wait for the device")]
    WouldBlock,
    /// No such name.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("the name exists")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotADirectory,
    /// Something else than a directory was needed.
    #[error("is a directory")]
    IsADirectory,
    /// The name is a symbolic link, and links must not be followed here.
    #[error("is a symbolic link")]
    IsALink,
    /// The directory is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The host does not allow it, the file is immutable, or the node is not open for it.
    #[error("permission denied by the host")]
    Denied,
    /// The file system is mounted read-only.
    #[error("read-only file system")]
    ReadOnly,
    /// No space is left.
    #[error("no space left")]
    NoSpace,
    /// The owner's quota is used up.
    #[error("quota exceeded")]
    Quota,
    /// Larger than the file system or the process may have.
    #[error("file too large")]
    TooLarge,
    /// The name is longer than the file system takes.
    #[error("name too long")]
    NameTooLong,
    /// The file system does not take these bytes as a name.
    #[error("the file system refuses the name")]
    BadName,
    /// Source and target are on different file systems.
    #[error("crosses file systems")]
    CrossDevice,
    /// A directory cannot be moved below itself, or an argument is out of range.
    #[error("invalid argument")]
    Invalid,
    /// The file system cannot do this.
    #[error("not supported by the file system")]
    NotSupported,
    /// More links to a file than the file system allows.
    #[error("too many links")]
    TooManyLinks,
    /// The process has no descriptor or memory left.
    #[error("out of resources")]
    Exhausted,
    /// The node is changing at this moment, or is still being looked for. The call can be repeated soon.
    #[error("busy")]
    Busy,
    /// The host is using the node: another file system is mounted on it, or it is a device that is in
    /// use.
    #[error("in use by the host")]
    InUse,
    /// The file is a program that the host is running.
    #[error("a program that runs")]
    Running,
    /// A program of the host holds a lease or lock on the file (fcntl(2)) and was asked to release it.
    /// The host waits for it for a limited time; until then the call can be repeated.
    #[error("a program of the host keeps the file for itself")]
    HostKeeps,
    /// The node was removed or its file system is gone.
    #[error("the node is gone")]
    Stale,
    /// The device failed.
    #[error("input/output error")]
    Io,
}
