//! The reasons for which the engine refuses a request: one for each case that some client must be able to
//! distinguish. Each protocol maps them to its own status codes in one exhaustive table.

use volume::Failure;

/// The reason why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The last component of the path does not exist.
    #[error("no such name")]
    NotFound,
    /// A directory on the path does not exist, or is not a directory.
    #[error("no such path")]
    PathNotFound,
    /// The name is taken.
    #[error("the name exists")]
    Exists,
    /// A directory was requested, and this is none.
    #[error("not a directory")]
    NotADirectory,
    /// Another kind of object than a directory was requested.
    #[error("is a directory")]
    IsADirectory,
    /// The directory is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The descriptor, the share's settings or the host do not permit it.
    #[error("access denied")]
    AccessDenied,
    /// The right needs a privilege that the caller lacks.
    #[error("privilege not held")]
    PrivilegeNotHeld,
    /// The caller may not make this SID an owner.
    #[error("not a possible owner")]
    BadOwner,
    /// Another open denies this access, or this one denies an access that another has.
    #[error("sharing conflict")]
    SharingConflict,
    /// A byte range of another owner conflicts with the access.
    #[error("byte range is locked")]
    RangeConflict,
    /// A byte range is not available at once.
    #[error("byte range not granted")]
    RangeNotGranted,
    /// This owner does not hold the range.
    #[error("byte range not held")]
    RangeNotHeld,
    /// The range runs over the end of the number space.
    #[error("invalid byte range")]
    BadRange,
    /// It is marked for deletion, and cannot be opened any more.
    #[error("delete pending")]
    DeletePending,
    /// It may not be removed: read-only attribute, the root, mapped elsewhere.
    #[error("cannot be deleted")]
    CannotDelete,
    /// It is not a valid name here.
    #[error("bad name")]
    BadName,
    /// The name is too long.
    #[error("name too long")]
    NameTooLong,
    /// There is a symbolic link on the path, and the caller wants to resolve it itself. It has the link's
    /// text, and the number of components of the path (counted from the end) that were not looked at.
    #[error("stopped at a symbolic link")]
    StoppedAtLink {
        /// Text of the link.
        text: Vec<u8>,
        /// Components behind the link.
        left: usize,
    },
    /// There is a reparse point on the path that only its owner understands.
    #[error("stopped at a reparse point")]
    StoppedAtReparse {
        /// Its bytes, the tag first.
        data: Vec<u8>,
        /// Components behind the reparse point.
        left: usize,
    },
    /// Links form a circle or lead out of the share.
    #[error("symbolic link leads nowhere")]
    BadLink,
    /// No space.
    #[error("no space left")]
    NoSpace,
    /// Quota.
    #[error("quota exceeded")]
    Quota,
    /// Too large.
    #[error("file too large")]
    TooLarge,
    /// The share or its file system is read-only.
    #[error("read-only")]
    ReadOnly,
    /// The objects are on two file systems or two shares.
    #[error("crosses file systems")]
    CrossVolume,
    /// More hard links than the file system allows.
    #[error("too many links")]
    TooManyLinks,
    /// An argument does not fit the object or the other arguments.
    #[error("invalid argument")]
    Invalid,
    /// Not possible on this object or this file system.
    #[error("not supported")]
    NotSupported,
    /// An extended attribute has a bad name.
    #[error("bad extended attribute name")]
    BadAttributeName,
    /// Extended attributes do not fit.
    #[error("extended attributes too large")]
    AttributesTooLarge,
    /// The extended attribute does not exist.
    #[error("no such extended attribute")]
    NoSuchAttribute,
    /// The note (object id, reparse point) does not exist.
    #[error("no such note")]
    NoSuchNote,
    /// The data is not in memory. Only for callers that asked not to wait.
    #[error("would have to wait for the device")]
    WouldBlock,
    /// At or behind the end of the file.
    #[error("end of file")]
    EndOfFile,
    /// No further entries, or none that match.
    #[error("no more entries")]
    NoMoreEntries,
    /// Changes were lost. The client must list again.
    #[error("too many changes to tell")]
    WatchOverflow,
    /// A limit of this server or the host was reached.
    #[error("out of resources")]
    Exhausted,
    /// The caller cancelled the request.
    #[error("cancelled")]
    Cancelled,
    /// The open was closed, or its file has vanished from the host.
    #[error("the open is gone")]
    Gone,
    /// It changes at this moment, or is still being looked for. This is soon over.
    #[error("busy")]
    Busy,
    /// The host uses it as it stands, and nothing here ends that: another file system is mounted there.
    #[error("in use by the host")]
    InUse,
    /// It is a program that runs on the host. It may not be written to while it runs.
    #[error("a program that runs")]
    Running,
    /// A program of the host keeps the file for itself. Only for callers that cannot wait.
    #[error("a program of the host keeps the file for itself")]
    HostKeeps,
    /// A persistent open of the file waits for its client to come back.
    #[error("the file is kept for a client that is away")]
    OwnerAway,
    /// The client does not hold this caching right, or no break of it runs.
    #[error("no such caching right")]
    NoSuchGrant,
    /// It is more than the break allows to keep.
    #[error("caching right is being broken to less")]
    TooMuchKept,
    /// The device failed.
    #[error("input/output error")]
    Io,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::WouldBlock => Refusal::WouldBlock,
            Failure::NotFound => Refusal::NotFound,
            Failure::Exists => Refusal::Exists,
            Failure::NotADirectory => Refusal::NotADirectory,
            Failure::IsADirectory => Refusal::IsADirectory,
            Failure::IsALink => Refusal::BadLink,
            Failure::NotEmpty => Refusal::NotEmpty,
            Failure::Denied => Refusal::AccessDenied,
            Failure::ReadOnly => Refusal::ReadOnly,
            Failure::NoSpace => Refusal::NoSpace,
            Failure::Quota => Refusal::Quota,
            Failure::TooLarge => Refusal::TooLarge,
            Failure::NameTooLong => Refusal::NameTooLong,
            Failure::BadName => Refusal::BadName,
            Failure::CrossDevice => Refusal::CrossVolume,
            Failure::Invalid => Refusal::Invalid,
            Failure::NotSupported => Refusal::NotSupported,
            Failure::TooManyLinks => Refusal::TooManyLinks,
            Failure::Exhausted => Refusal::Exhausted,
            Failure::Busy => Refusal::Busy,
            Failure::InUse => Refusal::InUse,
            Failure::Running => Refusal::Running,
            Failure::HostKeeps => Refusal::HostKeeps,
            Failure::Stale => Refusal::Gone,
            Failure::Io => Refusal::Io,
        }
    }
}
