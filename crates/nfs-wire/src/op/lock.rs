//! LOCK, LOCKT and LOCKU (RFC 8881 18.10 to 18.12).

use crate::Malformed;
use crate::macros::{xdr_struct, xdr_union};
use crate::op::outcome::Outcome;
use crate::status::NfsStat;
use crate::types::{LockType, Owner, StateId};
use crate::xdr::{Decode, Encode};
use wire::Cursor;

xdr_struct! {
    /// A lock-owner's first lock in an open (open_to_lock_owner4).
    pub struct OpenToLockOwner<'a> of "open_to_lock_owner4" {
        /// Not looked at in 4.1.
        open_seqid: u32,
        /// The open.
        open_stateid: StateId,
        /// Not looked at in 4.1.
        lock_seqid: u32,
        /// The lock-owner.
        lock_owner: Owner<'a>,
    }
}

xdr_struct! {
    /// A lock-owner's further lock (exist_lock_owner4).
    pub struct ExistLockOwner of "exist_lock_owner4" {
        /// Its locks in this file.
        lock_stateid: StateId,
        /// Not looked at in 4.1.
        lock_seqid: u32,
    }
}

xdr_union! {
    /// Who locks (locker4).
    pub enum Locker<'a> of "locker4" {
        void {}
        data {
            /// One who holds locks of this file.
            Existing(ExistLockOwner) = 0,
            /// One who does not yet.
            New(OpenToLockOwner<'a>) = 1,
        }
    }
}

xdr_struct! {
    /// LOCK4args.
    pub struct Args<'a> of "LOCK4args" {
        /// Kind of the lock.
        locktype: LockType,
        /// Whether it was held before the server began anew.
        reclaim: bool,
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range; all ones means up to the end.
        length: u64,
        /// Who locks.
        locker: Locker<'a>,
    }
}

xdr_struct! {
    /// The lock in the way (LOCK4denied).
    pub struct Denied<'a> of "LOCK4denied" {
        /// Where its range begins.
        offset: u64,
        /// Bytes of its range.
        length: u64,
        /// Its kind.
        locktype: LockType,
        /// Whose it is.
        owner: Owner<'a>,
    }
}

xdr_struct! {
    /// LOCKT4args.
    pub struct TestArgs<'a> of "LOCKT4args" {
        /// Kind of the lock.
        locktype: LockType,
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// Who would lock.
        owner: Owner<'a>,
    }
}

xdr_struct! {
    /// LOCKU4args.
    pub struct UnlockArgs of "LOCKU4args" {
        /// Kind of the lock.
        locktype: LockType,
        /// Not looked at in 4.1.
        seqid: u32,
        /// The lock-owner's locks.
        lock_stateid: StateId,
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        length: u64,
    }
}

xdr_struct! {
    /// LOCK4resok and LOCKU4res.
    pub struct ResOk of "LOCK4resok" {
        /// The lock-owner's locks in this file.
        lock_stateid: StateId,
    }
}

/// LOCK4res with [`ResOk`], LOCKT4res with nothing in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Res<'a, T> {
    /// Locked, or free.
    Ok(T),
    /// NFS4ERR_DENIED.
    Denied(Denied<'a>),
    /// Anything else.
    Failed(NfsStat),
}

impl<'d, T: Encode + Decode<'d>> Outcome<'d> for Res<'d, T> {
    fn status(&self) -> NfsStat {
        match self {
            Res::Ok(_) => NfsStat::Ok,
            Res::Denied(_) => NfsStat::Denied,
            Res::Failed(status) => *status,
        }
    }

    fn encode_rest(&self, out: &mut Vec<u8>) {
        match self {
            Res::Ok(ok) => ok.encode(out),
            Res::Denied(denied) => denied.encode(out),
            Res::Failed(_) => {}
        }
    }

    fn decode_rest(status: NfsStat, r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        match status {
            NfsStat::Ok => T::decode(r).map(Res::Ok),
            NfsStat::Denied => Denied::decode(r).map(Res::Denied),
            status => Ok(Res::Failed(status)),
        }
    }
}
