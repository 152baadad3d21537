//! Caching rights: who may keep what of a node in memory, and how that is taken back.
//!
//! The values that callers see are here. [`grants`] is the state machine of one stream: pure, without
//! I/O and without a clock. It is asked under the node's lock; the notices it returns are sent when
//! that lock is no longer held.

pub(crate) mod grants;

use bitflags::bitflags;
use volume::NodeId;

use crate::{ClientKey, Origin};

bitflags! {
    /// What a client may do from memory without asking.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub struct Caching: u8 {
        /// Answer reads.
        const READ = 1;
        /// Keep the file open after its last user closed it.
        const HANDLE = 2;
        /// Keep writes back.
        const WRITE = 4;
    }
}

/// Opens of one client under one key share a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey(pub u128);

/// Tells a holder to give a right back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakNotice {
    /// The file.
    pub node: NodeId,
    /// Whose right.
    pub client: ClientKey,
    /// Under which key.
    pub key: CacheKey,
    /// Whether the right belongs to the key (else to one open).
    pub keyed: bool,
    /// What they have.
    pub from: Caching,
    /// What they may keep.
    pub to: Caching,
    /// Counted up with each change of the right.
    pub epoch: u16,
    /// Whether the engine waits for an answer.
    pub answer: bool,
    /// Whether it is broken since what a directory lists has changed. Who changed that goes on at once.
    pub entries: bool,
    /// Whether the open that changed it holds rights under a key itself, and could have named the directory's.
    pub by_keyed: bool,
    /// The connection over which the holder was last told what it holds ([`crate::CachingRequest::via`]), where somebody
    /// of another protocol takes it away, or of the host. Over another connection the notice could come before that
    /// answer, which would then be taken for what holds.
    pub via: Option<u64>,
    /// Over which connection the request came that breaks it: a holder who asked for that is to be told there, and before
    /// the answer.
    pub origin: Option<Origin>,
}
