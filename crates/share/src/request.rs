//! What a client asks when it opens something.

use bitflags::bitflags;
use volume::Name;
use volume::security::{Descriptor, Rights};

use crate::{Attributes, CacheKey, Caching};

/// What to do when the name exists, and when it does not.
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
    /// What others may not do while this open lives.
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
    /// How an open is made and what becomes of it.
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
        /// A symbolic link on the way stops the walk with `StoppedAtLink` instead of being followed.
        const STOP_AT_LINKS = 1 << 4;
        /// Names match exactly, whatever the share's setting.
        const EXACT_CASE = 1 << 5;
        /// Writes return after they are on stable storage.
        const WRITE_THROUGH = 1 << 6;
        /// For backup: a privileged caller reads and writes past descriptors.
        const BACKUP = 1 << 7;
        /// Rather fail with a sharing conflict than make anybody give a caching right back.
        const NO_WAIT_FOR_BREAK = 1 << 8;
        /// Refuse an object that has extended attributes which the caller cannot interpret.
        const NO_EA_KNOWLEDGE = 1 << 9;
        /// Neither access nor deny counts against other opens (attribute-only opens get this by themselves).
        const UNSHARED_METADATA = 1 << 10;
        /// With `DELETE_ON_CLOSE`: the name goes when this very open is closed, whoever else has it open.
        const DELETE_AT_ONCE = 1 << 11;
        /// Byte ranges that merge ([`crate::LockRule::Merging`]) do not stand in the way of its data access:
        /// among those who take such ranges they are a convention.
        const MERGING_RANGES = 1 << 12;
        /// What looks read-only only because the host's permission bits let its owner not write keeps nobody from
        /// writing whom these bits, or the descriptor, let write.
        const MODE_DECIDES = 1 << 13;
        /// Attributes are told to everybody who gets to the file, as on the host: no right is asked for them.
        const ATTRIBUTES_FOR_ALL = 1 << 18;
        /// Refused ([`crate::Refusal::OwnerAway`]) as long as an open that outlives the process waits for its client, unless
        /// another client's right to write back and to keep the file open can be asked for first.
        const NOT_BESIDE_ABSENT = 1 << 14;
        /// A directory is renamed although the same client has something open below it.
        const MOVES_BESIDE_OWN = 1 << 15;
        /// A symbolic link was followed on the way to it. The engine says so; nobody asks for it.
        const BY_LINK = 1 << 16;
        /// The permission bits of something new take from a list that it inherits what they do not give, and add nothing to it.
        const MODE_LIMITS = 1 << 17;
    }
}

/// A caching right that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachingRequest {
    /// Opens under one key share one right and never break each other.
    pub key: CacheKey,
    /// What is wanted.
    pub want: Caching,
    /// True: the right belongs to the key, several opens share it, it can be raised later, and each
    /// of its breaks counts an epoch. False: it belongs to this one open, and only whole levels exist:
    /// READ, READ|WRITE, READ|WRITE|HANDLE.
    pub keyed: bool,
    /// Key of the right on the parent directory which this client's own changes do not break.
    pub parent: Option<CacheKey>,
    /// Epoch to begin with, if the client counts along; its notices carry 0 otherwise.
    pub epoch: Option<u16>,
    /// The right is only ever given back as a whole, and before anybody else opens the file for writing; it
    /// is not given while somebody else has it open so, nor without HANDLE.
    pub whole: bool,
    /// The connection over which the holder is answered, by a number of its protocol; [`crate::BreakNotice::via`] names it.
    pub via: u64,
}

/// A request to open something.
#[derive(Debug, Clone)]
pub struct OpenRequest<'a> {
    /// Components from the root of the share; empty for the root itself.
    pub path: &'a [Name],
    /// A named stream; none for the file's own data.
    pub stream: Option<&'a Name>,
    /// What the caller wants to do, generic rights and MAXIMUM_ALLOWED included.
    pub access: Rights,
    /// What others may not do.
    pub deny: Deny,
    /// What to do about existence.
    pub disposition: Disposition,
    /// How.
    pub options: Options,
    /// Attribute bits of a new or overwritten file.
    pub attributes: Attributes,
    /// Permission bits of a new file, when the client sets them itself.
    pub mode: Option<u32>,
    /// Descriptor of a new file.
    pub descriptor: Option<&'a Descriptor>,
    /// Extended attributes of a new or overwritten file.
    pub extended: &'a [(Vec<u8>, Vec<u8>)],
    /// Bytes to back with storage at creation.
    pub allocation: u64,
    /// A caching right.
    pub caching: Option<CachingRequest>,
}
