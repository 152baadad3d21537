//! The operations of NFSv4.0 only: SETCLIENTID, SETCLIENTID_CONFIRM, RENEW, OPEN_CONFIRM and
//! RELEASE_LOCKOWNER (RFC 7530 16). They are parsed completely, so that a 4.1 server can reply
//! NFS4ERR_NOTSUPP to each.

use crate::Malformed;
use crate::macros::xdr_struct;
use crate::op::outcome::Outcome;
use crate::status::NfsStat;
use crate::types::{ClientId, Identity, NetAddr, StateId, StateOwner, Verifier};
use crate::xdr::{Decode, Encode};
use wire::Cursor;

xdr_struct! {
    /// SETCLIENTID4args.
    pub struct SetClientIdArgs<'a> of "SETCLIENTID4args" {
        /// Changes when the client restarts.
        verifier: Verifier,
        /// Stays the same over restarts.
        id: Identity<'a>,
        /// Program number of callbacks.
        cb_program: u32,
        /// The address for callbacks.
        cb_location: NetAddr<'a>,
        /// The identifier that callbacks repeat.
        callback_ident: u32,
    }
}

xdr_struct! {
    /// SETCLIENTID4resok and SETCLIENTID_CONFIRM4args.
    pub struct SetClientIdConfirm of "SETCLIENTID4resok" {
        /// The client ID.
        clientid: ClientId,
        /// The verifier for the confirmation.
        setclientid_confirm: Verifier,
    }
}

/// SETCLIENTID4res.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetClientIdRes<'a> {
    /// The client ID, to be confirmed.
    Ok(SetClientIdConfirm),
    /// NFS4ERR_CLID_INUSE, with the address of the client that uses it.
    InUse(NetAddr<'a>),
    /// Any other status.
    Failed(NfsStat),
}

impl<'d> Outcome<'d> for SetClientIdRes<'d> {
    fn status(&self) -> NfsStat {
        match self {
            SetClientIdRes::Ok(_) => NfsStat::Ok,
            SetClientIdRes::InUse(_) => NfsStat::ClidInUse,
            SetClientIdRes::Failed(status) => *status,
        }
    }

    fn encode_rest(&self, out: &mut Vec<u8>) {
        match self {
            SetClientIdRes::Ok(ok) => ok.encode(out),
            SetClientIdRes::InUse(addr) => addr.encode(out),
            SetClientIdRes::Failed(_) => {}
        }
    }

    fn decode_rest(status: NfsStat, r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        match status {
            NfsStat::Ok => SetClientIdConfirm::decode(r).map(SetClientIdRes::Ok),
            NfsStat::ClidInUse => NetAddr::decode(r).map(SetClientIdRes::InUse),
            status => Ok(SetClientIdRes::Failed(status)),
        }
    }
}

xdr_struct! {
    /// RENEW4args.
    pub struct RenewArgs of "RENEW4args" {
        /// The client.
        clientid: ClientId,
    }
}

xdr_struct! {
    /// OPEN_CONFIRM4args.
    pub struct OpenConfirmArgs of "OPEN_CONFIRM4args" {
        /// The open.
        open_stateid: StateId,
        /// The sequence ID of the open-owner.
        seqid: u32,
    }
}

xdr_struct! {
    /// OPEN_CONFIRM4resok.
    pub struct OpenConfirmResOk of "OPEN_CONFIRM4resok" {
        /// The open.
        open_stateid: StateId,
    }
}

xdr_struct! {
    /// RELEASE_LOCKOWNER4args.
    pub struct ReleaseLockOwnerArgs<'a> of "RELEASE_LOCKOWNER4args" {
        /// The lock-owner.
        lock_owner: StateOwner<'a>,
    }
}
