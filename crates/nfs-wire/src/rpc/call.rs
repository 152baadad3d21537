//! Calls (RFC 5531 9).

use super::{CALL, Credential, OpaqueAuth, RPC_VERSION};
use crate::Malformed;
use crate::xdr::{Decode, Encode};
use wire::Cursor;

/// A call, up to the arguments of its procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// The transaction number; the reply has the same.
    pub xid: u32,
    /// Which program is meant.
    pub program: u32,
    /// Which version of it.
    pub version: u32,
    /// Which procedure.
    pub procedure: u32,
    /// Who calls.
    pub credential: OpaqueAuth<'a>,
    /// The proof of that.
    pub verifier: OpaqueAuth<'a>,
    /// The arguments.
    pub body: &'a [u8],
}

/// A call that is answered without looking at its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not RPC version 2: [`super::Rejected::RpcMismatch`].
    #[error("call {xid:#x} is of another version of RPC")]
    RpcMismatch {
        /// Its transaction number.
        xid: u32,
    },
    /// Cut short in its header, or with an oversized credential: [`super::Accepted::GarbageArgs`].
    #[error("call {xid:#x} has no whole header")]
    Garbage {
        /// Its transaction number.
        xid: u32,
    },
}

impl<'a> Call<'a> {
    pub(super) fn parse(xid: u32, r: &mut Cursor<'a>) -> Result<Self, CallError> {
        let garbage = |_: Malformed| CallError::Garbage { xid };
        if u32::decode(r).map_err(garbage)? != RPC_VERSION {
            return Err(CallError::RpcMismatch { xid });
        }
        Ok(Call {
            xid,
            program: u32::decode(r).map_err(garbage)?,
            version: u32::decode(r).map_err(garbage)?,
            procedure: u32::decode(r).map_err(garbage)?,
            credential: OpaqueAuth::decode(r).map_err(garbage)?,
            verifier: OpaqueAuth::decode(r).map_err(garbage)?,
            body: r.rest(),
        })
    }

    /// Appends the header of a call; the arguments follow.
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
