//! Caching rights: the permission of a client to keep parts of a node in memory, and the break that takes it
//! back.
//!
//! The public values are here. [`grants`] is the state machine of one stream. It is pure: it does no I/O and
//! has no clock. It is called under the node's lock. The notices that it returns are sent after that lock is
//! released.

pub(crate) mod grants;

use bitflags::bitflags;
use volume::NodeId;

use crate::{ClientKey, Origin};

bitflags! {
    /// The operations that a client may do from memory without a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub struct Caching: u8 {
        /// Answer reads.
        const READ = 1;
        /// Keep the file open after its last user has closed it.
        const HANDLE = 2;
        /// Hold writes back.
        const WRITE = 4;
    }
}

/// The key of a caching right. Opens of one client under one key share the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey(pub u128);

/// The notice that asks a holder to release a right, wholly or in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakNotice {
    /// The file.
    pub node: NodeId,
    /// The client that holds the right.
    pub client: ClientKey,
    /// The key of the right.
    pub key: CacheKey,
    /// Whether the right belongs to the key. Otherwise it belongs to one open.
    pub keyed: bool,
    /// The right that the holder has.
    pub from: Caching,
    /// The right that the holder may keep.
    pub to: Caching,
    /// A counter that grows with each change of the right.
    pub epoch: u16,
    /// Whether the engine waits for an acknowledgment.
    pub answer: bool,
    /// Whether the break is due to a change of a directory's entries. The request that changed them goes on
    /// at once.
    pub entries: bool,
    /// Whether the open that changed the entries holds rights under a key itself, and could have named the
    /// directory's key.
    pub by_keyed: bool,
    /// The connection over which the holder last learned its right ([`crate::CachingRequest::via`]). It is
    /// set if a client of another protocol, or the host, breaks the right. Over another connection the notice
    /// could arrive before that reply, and the holder would then take the older reply for its current right.
    pub via: Option<u64>,
    /// The connection of the request that breaks the right. If the holder sent that request itself, its
    /// notice has to go out there, before the reply.
    pub origin: Option<Origin>,
}
