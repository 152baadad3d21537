//! Calls (RFC 5531 9).

use super::{CALL, Credential, OpaqueAuth, RPC_VERSION};
use crate::Malformed;
use crate::xdr::{Decode, Encode};
use wire::Cursor;

/// A call. The arguments of its procedure are not parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcCall<'a> {
    /// The transaction number. The reply has the same.
    pub xid: u32,
    /// The program number.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The procedure number.
    pub procedure: u32,
    /// The credential of the caller.
    pub credential: OpaqueAuth<'a>,
    /// The verifier of the credential.
    pub verifier: OpaqueAuth<'a>,
    /// The arguments.
    pub body: &'a [u8],
}

/// An invalid call that gets a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not RPC version 2: [`super::Rejected::RpcMismatch`].
    #[error("call {xid:#x} is of another version of RPC")]
    RpcMismatch {
        /// The transaction number.
        xid: u32,
    },
    /// The header is cut short, or a credential is too long: [`super::Accepted::GarbageArgs`].
    #[error("call {xid:#x} has no whole header")]
    Garbage {
        /// The transaction number.
        xid: u32,
    },
}

impl<'a> RpcCall<'a> {
    pub(super) fn parse(xid: u32, r: &mut Cursor<'a>) -> Result<Self, CallError> {
        let garbage = |_: Malformed| CallError::Garbage { xid };
        if u32::decode(r).map_err(garbage)? != RPC_VERSION {
            return Err(CallError::RpcMismatch { xid });
        }
        Ok(RpcCall {
            xid,
            program: u32::decode(r).map_err(garbage)?,
            version: u32::decode(r).map_err(garbage)?,
            procedure: u32::decode(r).map_err(garbage)?,
            credential: OpaqueAuth::decode(r).map_err(garbage)?,
            verifier: OpaqueAuth::decode(r).map_err(garbage)?,
            body: r.rest(),
        })
    }

    /// Appends the header of a call. The arguments follow.
    pub fn write_header(
        xid: u32,
        program: u32,
        version: u32,
        procedure: u32,
        credential: &Credential<'_>,
        out: &mut Vec<u8>,
    ) {
        [xid, CALL, RPC_VERSION, program, version, procedure].iter().for_each(|word| word.encode(out));
        credential.encode(out);
        OpaqueAuth::NONE.encode(out);
    }
}
