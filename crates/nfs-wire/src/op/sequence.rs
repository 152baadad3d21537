//! SEQUENCE: the session, slot and sequence ID of a request (RFC 8881 18.46).

use crate::macros::{xdr_flags, xdr_struct};
use crate::types::SessionId;

xdr_struct! {
    /// SEQUENCE4args.
    pub struct Args of "SEQUENCE4args" {
        /// The session.
        sessionid: SessionId,
        /// The sequence ID of the request in its slot.
        sequenceid: u32,
        /// The slot.
        slotid: u32,
        /// The highest slot that the client uses now.
        highest_slotid: u32,
        /// Whether to keep the reply for a retry.
        cachethis: bool,
    }
}

xdr_flags! {
    /// The status flags for the client (SEQ4_STATUS_*).
    pub struct StatusFlags {
        CB_PATH_DOWN = 0x0000_0001,
        CB_GSS_CONTEXTS_EXPIRING = 0x0000_0002,
        CB_GSS_CONTEXTS_EXPIRED = 0x0000_0004,
        EXPIRED_ALL_STATE_REVOKED = 0x0000_0008,
        EXPIRED_SOME_STATE_REVOKED = 0x0000_0010,
        ADMIN_STATE_REVOKED = 0x0000_0020,
        RECALLABLE_STATE_REVOKED = 0x0000_0040,
        LEASE_MOVED = 0x0000_0080,
        RESTART_RECLAIM_NEEDED = 0x0000_0100,
        CB_PATH_DOWN_SESSION = 0x0000_0200,
        BACKCHANNEL_FAULT = 0x0000_0400,
        DEVID_CHANGED = 0x0000_0800,
        DEVID_DELETED = 0x0000_1000,
    }
}

xdr_struct! {
    /// SEQUENCE4resok.
    pub struct ResOk of "SEQUENCE4resok" {
        /// The session.
        sessionid: SessionId,
        /// The sequence ID of the request.
        sequenceid: u32,
        /// The slot.
        slotid: u32,
        /// The highest slot that exists.
        highest_slotid: u32,
        /// The highest slot that the client should use.
        target_highest_slotid: u32,
        /// The status flags for the client.
        status_flags: StatusFlags,
    }
}
