//! ONC RPC version 2 (RFC 5531), which carries every COMPOUND.
//!
//! [`record`] cuts a byte stream into messages. [`Message::parse`] distinguishes a [`RpcCall`] from a
//! [`RpcReply`], since both arrive on one connection once it carries a back channel. [`auth`] has the
//! credentials.

pub mod auth;
mod call;
pub mod record;
mod reply;

pub use auth::{AuthSys, Credential, Flavor, OpaqueAuth};
pub use call::{CallError, RpcCall};
pub use reply::{Accepted, AuthStat, Rejected, RpcReply, SUCCESS_HEADER};

use crate::Malformed;
use crate::xdr::Decode;
use wire::Cursor;

/// The program number of NFS.
pub const NFS_PROGRAM: u32 = 100_003;
/// The version of NFS that has COMPOUND.
pub const NFS_V4: u32 = 4;
/// The procedure that does nothing.
pub const PROC_NULL: u32 = 0;
/// The procedure for all other requests, of NFS and of its callback program.
pub const PROC_COMPOUND: u32 = 1;
/// The version of the callback program (RFC 8881 20).
pub const CALLBACK_VERSION: u32 = 1;

const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;

/// One message: the bytes between two record marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A call of the peer.
    Call(Result<RpcCall<'a>, CallError>),
    /// A reply of the peer.
    Reply(RpcReply<'a>),
}

impl<'a> Message<'a> {
    /// Reads a message from its transaction number on.
    ///
    /// # Errors
    /// [`Malformed`] if it is neither a call nor a reply, or has no valid transaction number. The connection
    /// cannot continue then.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Cursor::new(message);
        let xid = u32::decode(&mut r).map_err(|e| e.within("rpc_msg", "xid"))?;
        match u32::decode(&mut r).map_err(|e| e.within("rpc_msg", "mtype"))? {
            CALL => Ok(Message::Call(RpcCall::parse(xid, &mut r))),
            REPLY => RpcReply::parse(xid, &mut r).map(Message::Reply),
            _ => Err(Malformed::new("rpc_msg", "mtype")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_call_nor_reply_cannot_be_answered() {
        assert!(Message::parse(&[0; 7]).is_err());
        assert!(Message::parse(&[0, 0, 0, 1, 0, 0, 0, 2]).is_err());
    }

    #[test]
    fn a_call_of_another_rpc_version_and_a_call_cut_short_keep_their_number() {
        let other = [0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Message::parse(&other), Ok(Message::Call(Err(CallError::RpcMismatch { xid: 9 }))));
        let short = [0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0];
        assert_eq!(Message::parse(&short), Ok(Message::Call(Err(CallError::Garbage { xid: 9 }))));
    }
}
