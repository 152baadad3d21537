//! Replies: accepted or rejected, with every defined reason (RFC 5531 9).

use super::{OpaqueAuth, REPLY, RPC_VERSION};
use crate::Malformed;
use crate::macros::xdr_enum;
use crate::xdr::{Decode, Encode};
use wire::Cursor;

const MSG_ACCEPTED: u32 = 0;
const MSG_DENIED: u32 = 1;

xdr_enum! {
    /// The reason for refusing a credential or verifier (auth_stat).
    pub enum AuthStat {
        /// Not an error.
        Ok = 0,
        BadCred = 1,
        RejectedCred = 2,
        BadVerf = 3,
        RejectedVerf = 4,
        TooWeak = 5,
        InvalidResp = 6,
        Failed = 7,
        RpcSecGssCredProblem = 13,
        RpcSecGssCtxProblem = 14,
    }
}

/// The result of an accepted call (accept_stat).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted<'a> {
    /// The call succeeded. The results follow.
    Success(&'a [u8]),
    /// The server does not have the program.
    ProgUnavail,
    /// The server does not have this version of the program.
    ProgMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// The program does not have the procedure.
    ProcUnavail,
    /// The arguments could not be read.
    GarbageArgs,
    /// Another error of the server.
    SystemErr,
}

/// The reason for rejecting a call (reject_stat).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The server does not support this version of RPC.
    RpcMismatch {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// The authentication failed.
    AuthError(AuthStat),
}

/// A reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcReply<'a> {
    /// The transaction number of the call.
    pub xid: u32,
    /// The verifier, of a reply to an accepted call.
    pub verifier: OpaqueAuth<'a>,
    /// The result of the call.
    pub outcome: Result<Accepted<'a>, Rejected>,
}

/// Bytes of a reply before the results, if the call succeeded.
pub const SUCCESS_HEADER: usize = 24;

impl<'a> RpcReply<'a> {
    /// A reply to an accepted call.
    #[must_use]
    pub const fn accepted(xid: u32, accepted: Accepted<'a>) -> Self {
        RpcReply { xid, verifier: OpaqueAuth::NONE, outcome: Ok(accepted) }
    }

    /// A reply to a rejected call.
    #[must_use]
    pub const fn rejected(xid: u32, rejected: Rejected) -> Self {
        RpcReply { xid, verifier: OpaqueAuth::NONE, outcome: Err(rejected) }
    }

    /// A reply to a call of another version of RPC.
    #[must_use]
    pub const fn rpc_mismatch(xid: u32) -> Self {
        RpcReply::rejected(xid, Rejected::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION })
    }

    pub(super) fn parse(xid: u32, r: &mut Cursor<'a>) -> Result<Self, Malformed> {
        let at = |field| move |e: Malformed| e.within("reply_body", field);
        match u32::decode(r).map_err(at("stat"))? {
            MSG_ACCEPTED => {
                let verifier = OpaqueAuth::decode(r).map_err(at("verf"))?;
                let accepted = Accepted::parse(r).map_err(at("reply_data"))?;
                Ok(RpcReply { xid, verifier, outcome: Ok(accepted) })
            }
            MSG_DENIED => Ok(RpcReply::rejected(xid, Rejected::parse(r).map_err(at("rejected_reply"))?)),
            _ => Err(Malformed::new("reply_body", "stat")),
        }
    }

    /// Appends the reply.
    pub fn write(&self, out: &mut Vec<u8>) {
        [self.xid, REPLY].iter().for_each(|word| word.encode(out));
        match self.outcome {
            Ok(accepted) => {
                MSG_ACCEPTED.encode(out);
                self.verifier.encode(out);
                accepted.write(out);
            }
            Err(rejected) => {
                MSG_DENIED.encode(out);
                rejected.write(out);
            }
        }
    }
}

impl<'a> Accepted<'a> {
    fn parse(r: &mut Cursor<'a>) -> Result<Self, Malformed> {
        Ok(match u32::decode(r)? {
            0 => Accepted::Success(r.rest()),
            1 => Accepted::ProgUnavail,
            2 => Accepted::ProgMismatch { low: u32::decode(r)?, high: u32::decode(r)? },
            3 => Accepted::ProcUnavail,
            4 => Accepted::GarbageArgs,
            5 => Accepted::SystemErr,
            _ => return Err(Malformed::nameless("accept_stat")),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Accepted::Success(results) => {
                0u32.encode(out);
                out.extend_from_slice(results);
            }
            Accepted::ProgUnavail => 1u32.encode(out),
            Accepted::ProgMismatch { low, high } => [2, low, high].iter().for_each(|word| word.encode(out)),
            Accepted::ProcUnavail => 3u32.encode(out),
            Accepted::GarbageArgs => 4u32.encode(out),
            Accepted::SystemErr => 5u32.encode(out),
        }
    }
}

impl Rejected {
    fn parse(r: &mut Cursor<'_>) -> Result<Self, Malformed> {
        match u32::decode(r)? {
            0 => Ok(Rejected::RpcMismatch { low: u32::decode(r)?, high: u32::decode(r)? }),
            1 => AuthStat::decode(r).map(Rejected::AuthError),
            _ => Err(Malformed::nameless("reject_stat")),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Rejected::RpcMismatch { low, high } => [0, low, high].iter().for_each(|word| word.encode(out)),
            Rejected::AuthError(stat) => {
                1u32.encode(out);
                stat.encode(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Message;
    use super::*;

    #[test]
    fn every_outcome_comes_back_as_it_went_and_no_cut_reply_is_another() {
        let outcomes = [
            Ok(Accepted::Success(b"")),
            Ok(Accepted::ProgUnavail),
            Ok(Accepted::ProgMismatch { low: 3, high: 4 }),
            Ok(Accepted::ProcUnavail),
            Ok(Accepted::GarbageArgs),
            Ok(Accepted::SystemErr),
            Err(Rejected::RpcMismatch { low: 2, high: 2 }),
            Err(Rejected::AuthError(AuthStat::TooWeak)),
            Err(Rejected::AuthError(AuthStat::Unknown(99))),
        ];
        for outcome in outcomes {
            let reply = RpcReply { xid: 0x0102_0304, verifier: OpaqueAuth::NONE, outcome };
            let mut out = Vec::new();
            reply.write(&mut out);
            assert_eq!(Message::parse(&out), Ok(Message::Reply(reply)));
            for len in 0..out.len() {
                assert!(Message::parse(&out[..len]).is_err(), "{outcome:?} cut at {len}");
            }
        }
    }

    #[test]
    fn a_success_has_its_results_behind_the_header() {
        let mut out = Vec::new();
        RpcReply::accepted(1, Accepted::Success(b"data")).write(&mut out);
        assert_eq!(&out[SUCCESS_HEADER..], b"data");
    }
}
