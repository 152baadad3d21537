//! What reaches a connection besides messages.

use smb_wire::FileId;
use smb_wire::create::OplockLevel;
use wire::Frame;

use crate::suspend::Completion;

/// Something for one connection to do, on its own thread.
#[derive(Debug)]
pub enum Event {
    /// A request that waits is to be tried again.
    Wake {
        /// The request's async id.
        async_id: u64,
    },
    /// Work on the blocking pool is done.
    JobDone {
        /// The request's async id.
        async_id: u64,
        /// The frame with the answers so far and this one's body.
        frame: Frame,
        /// How it ended.
        completion: Completion,
    },
    /// Tell the client to give an oplock back (MS-SMB2 2.2.23.1).
    OplockBreak {
        /// Session of the Open.
        session_id: u64,
        /// The Open.
        file_id: FileId,
        /// What it may keep.
        level: OplockLevel,
    },
    /// Tell the client to give a lease back (MS-SMB2 2.2.23.2).
    LeaseBreak(LeaseBreak),
    /// A session has ended on another connection: forget it here.
    SessionGone {
        /// The session.
        session_id: u64,
    },
    /// Close the connection.
    Close,
}

/// A lease break on its way to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseBreak {
    /// The lease.
    pub lease_key: [u8; 16],
    /// What the client has.
    pub current: u32,
    /// What it may keep.
    pub new: u32,
    /// Counted up with each change (version 2), else 0.
    pub epoch: u16,
    /// Whether the client must answer.
    pub ack: bool,
}
