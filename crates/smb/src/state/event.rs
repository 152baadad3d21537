//! What reaches a connection besides messages.

use smb_wire::NtStatus;
use wire::Frame;

use super::notice::Notice;

/// How work ended: with a body and this status, or without one and that status.
pub type Completion = Result<NtStatus, NtStatus>;

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
    /// Tell the client to give a caching right back (MS-SMB2 2.2.23).
    Break(Notice),
    /// A session has ended on another connection: forget it here.
    SessionGone {
        /// The session.
        session_id: u64,
    },
    /// Close the connection.
    Close,
}
