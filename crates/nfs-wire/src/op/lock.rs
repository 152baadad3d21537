//! LOCK, LOCKT and LOCKU (RFC 8881 18.10 to 18.12).

use crate::Malformed;
use crate::macros::{xdr_struct, xdr_union};
use crate::op::outcome::Outcome;
use crate::status::NfsStat;
use crate::types::{LockType, StateId, StateOwner};
use crate::xdr::{Decode, Encode};
use wire::Cursor;

xdr_struct! {
    /// A lock-owner's first lock under an open (open_to_lock_owner4).
    pub struct OpenToLockOwner<'a> of "open_to_lock_owner4" {
        /// Ignored in 4.1.
        open_seqid: u32,
        /// The open.
        open_stateid: StateId,
        /// Ignored in 4.1.
        lock_seqid: u32,
        /// The lock-owner.
        lock_owner: StateOwner<'a>,
    }
}

xdr_struct! {
    /// A lock-owner's further lock (exist_lock_owner4).
    pub struct ExistLockOwner of "exist_lock_owner4" {
        /// The lock stateid of the file.
        lock_stateid: StateId,
        /// Ignored in 4.1.
        lock_seqid: u32,
    }
}

xdr_union! {
    /// The lock-owner of a request (locker4).
    pub enum Locker<'a> of "locker4" {
        void {}
        data {
            /// A lock-owner with a lock stateid of this file.
            Existing(ExistLockOwner) = 0,
            /// A lock-owner without one.
            New(OpenToLockOwner<'a>) = 1,
        }
    }
}

xdr_struct! {
    /// LOCK4args.
    pub struct Args<'a> of "LOCK4args" {
        /// The type of the lock.
        locktype: LockType,
        /// Whether it reclaims a lock from before a restart of the server.
        reclaim: bool,
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range. All ones means up to the end.
        length: u64,
        /// The lock-owner.
        locker: Locker<'a>,
    }
}

xdr_struct! {
    /// The lock in conflict (LOCK4denied).
    pub struct Denied<'a> of "LOCK4denied" {
        /// Offset of its range.
        offset: u64,
        /// Bytes of its range.
        length: u64,
        /// The type of the lock.
        locktype: LockType,
        /// Its owner.
        owner: StateOwner<'a>,
    }
}

xdr_struct! {
    /// LOCKT4args.
    pub struct TestArgs<'a> of "LOCKT4args" {
        /// The type of the lock.
        locktype: LockType,
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The lock-owner.
        owner: StateOwner<'a>,
    }
}

xdr_struct! {
    /// LOCKU4args.
    pub struct UnlockArgs of "LOCKU4args" {
        /// The type of the lock.
        locktype: LockType,
        /// Ignored in 4.1.
        seqid: u32,
        /// The lock stateid.
        lock_stateid: StateId,
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
    }
}

xdr_struct! {
    /// LOCK4resok and LOCKU4res.
    pub struct ResOk of "LOCK4resok" {
        /// The lock stateid of the file.
        lock_stateid: StateId,
    }
}

/// LOCK4res with [`ResOk`], LOCKT4res with nothing in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Res<'a, T> {
    /// The range was locked, or would be granted.
    Ok(T),
    /// NFS4ERR_DENIED.
    Denied(Denied<'a>),
    /// Any other status.
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
