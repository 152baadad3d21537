//! The parameters of a request to open.

use bitflags::bitflags;
use volume::Name;
use volume::security::{Descriptor, Rights};

use crate::{Attributes, AuditedOperation, CacheKey, Caching};

/// The action if the name exists, and if it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Replace it, else create it.
    Supersede,
    /// Open it, else refuse.
    Open,
    /// Refuse, else create it.
    Create,
    /// Open it, else create it.
    OpenOrCreate,
    /// Cut it to nothing, else refuse.
    Overwrite,
    /// Cut it to nothing, else create it.
    OverwriteOrCreate,
}

bitflags! {
    /// The access that this open denies to others.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Deny: u8 {
        /// Nobody else reads or executes.
        const READ = 1;
        /// Nobody else writes or appends.
        const WRITE = 2;
        /// Nobody else deletes or renames.
        const DELETE = 4;
    }
}

bitflags! {
    /// Options of an open.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Options: u32 {
        /// It must be (or become) a directory.
        const DIRECTORY = 1 << 0;
        /// It must not be a directory.
        const NOT_DIRECTORY = 1 << 1;
        /// The name is removed when the last open is closed.
        const DELETE_ON_CLOSE = 1 << 2;
        /// A symbolic link at the end of the path is opened itself.
        const OPEN_LINK = 1 << 3;
        /// A symbolic link on the path stops the walk with `StoppedAtLink` instead of being followed.
        const STOP_AT_LINKS = 1 << 4;
        /// Names match exactly, whatever the share's setting.
        const EXACT_CASE = 1 << 5;
        /// Writes return after they are on stable storage.
        const WRITE_THROUGH = 1 << 6;
        /// For backup: a privileged caller reads and writes without regard to descriptors.
        const BACKUP = 1 << 7;
        /// Fails with a sharing conflict rather than break a caching right.
        const NO_WAIT_FOR_BREAK = 1 << 8;
        /// Refuses an object with extended attributes, which the caller cannot interpret.
        const NO_EA_KNOWLEDGE = 1 << 9;
        /// Neither access nor denials count against other opens (attribute-only opens get this by
        /// themselves).
        const UNSHARED_METADATA = 1 << 10;
        /// With `DELETE_ON_CLOSE`: the name is removed when this very open is closed, whoever else has it
        /// open.
        const DELETE_AT_ONCE = 1 << 11;
        /// Byte ranges that merge ([`crate::LockRule::Merging`]) do not conflict with its data access: among
        /// users of such ranges they are a convention.
        const MERGING_RANGES = 1 << 12;
        /// A file may look read-only only because the host's permission bits do not let its owner write. That
        /// keeps no one from writing whom these bits, or the descriptor, let write.
        const MODE_DECIDES = 1 << 13;
        /// Attributes are visible to everyone who can reach the file, as on the host: they need no right.
        const ATTRIBUTES_FOR_ALL = 1 << 18;
        /// The request is refused ([`crate::Refusal::OwnerAway`]) while a persistent open waits for its
        /// client. The exception is another client's right to hold writes back and to keep the file open,
        /// which is broken first.
        const NOT_BESIDE_ABSENT = 1 << 14;
        /// A directory is renamed although the same client has a file open below it.
        const MOVES_BESIDE_OWN = 1 << 15;
        /// A symbolic link on the path was followed. The engine sets it; no client asks for it.
        const BY_LINK = 1 << 16;
        /// The permission bits of a new object take from an inherited list the rights that they do not give,
        /// and add none to it.
        const MODE_LIMITS = 1 << 17;
        /// The open serves one operation only ([`OpenRequest::step_of`]). The engine sets it; no client asks
        /// for it.
        const STEP = 1 << 19;
    }
}

/// A requested caching right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachingRequest {
    /// Opens under one key share one right and never break each other.
    pub key: CacheKey,
    /// The requested right.
    pub want: Caching,
    /// True: the right belongs to the key, several opens share it, it can be raised later, and each of its
    /// breaks counts an epoch. False: it belongs to this one open, and only whole levels exist: READ,
    /// READ|WRITE, READ|WRITE|HANDLE.
    pub keyed: bool,
    /// Key of the right on the parent directory that this client's own changes do not break.
    pub parent: Option<CacheKey>,
    /// Epoch to begin with, if the client counts epochs. Otherwise its notices carry 0.
    pub epoch: Option<u16>,
    /// The right is only ever released as a whole, and before another client opens the file for writing. It
    /// is not granted while another client has it open so, nor without HANDLE.
    pub whole: bool,
    /// The connection over which the holder gets the reply, by a number of its protocol;
    /// [`crate::BreakNotice::via`] names it.
    pub via: u64,
}

/// A request to open an object.
#[derive(Debug, Clone)]
pub struct OpenRequest<'a> {
    /// Components from the root of the share; empty for the root itself.
    pub path: &'a [Name],
    /// A named stream; none for the file's own data.
    pub stream: Option<&'a Name>,
    /// The requested rights, generic ones and MAXIMUM_ALLOWED included.
    pub access: Rights,
    /// The access to deny to others.
    pub deny: Deny,
    /// The action if the name exists or does not.
    pub disposition: Disposition,
    /// The options.
    pub options: Options,
    /// Attribute bits of a new or overwritten file.
    pub attributes: Attributes,
    /// Permission bits of a new file, if the client sets them itself.
    pub mode: Option<u32>,
    /// Descriptor of a new file.
    pub descriptor: Option<&'a Descriptor>,
    /// Extended attributes of a new or overwritten file.
    pub extended: &'a [(Vec<u8>, Vec<u8>)],
    /// Bytes to back with storage at creation.
    pub allocation: u64,
    /// The requested caching right.
    pub caching: Option<CachingRequest>,
    /// The operation for which the protocol opens the object and closes it again. The audit tells of that
    /// operation, and of no open. None: the client asked for the open itself.
    pub step_of: Option<AuditedOperation>,
}
