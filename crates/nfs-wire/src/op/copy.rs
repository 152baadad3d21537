//! COPY and what belongs to it: COPY_NOTIFY, OFFLOAD_STATUS and OFFLOAD_CANCEL (RFC 7862 15.2, 15.3, 15.8, 15.9).

use crate::Malformed;
use crate::macros::xdr_struct;
use crate::op::outcome::Outcome;
use crate::status::NfsStat;
use crate::types::{NetLoc, NfsTime, StableHow, StateId, Verifier};
use crate::xdr::{Decode, Encode, List};
use wire::Cursor;

xdr_struct! {
    /// COPY4args. The saved filehandle is the source, the current one the destination.
    pub struct Args<'a> of "COPY4args" {
        /// State of the source.
        src_stateid: StateId,
        /// State of the destination.
        dst_stateid: StateId,
        /// Where to read.
        src_offset: u64,
        /// Where to write.
        dst_offset: u64,
        /// Bytes; zero means up to the end of the source.
        count: u64,
        /// Whether bytes must be copied in their order.
        consecutive: bool,
        /// Whether the reply must wait for the copy.
        synchronous: bool,
        /// Where the source lies; empty when it is here.
        source_server: List<'a, NetLoc<'a>>,
    }
}

xdr_struct! {
    /// What was written (write_response4).
    pub struct WriteResponse of "write_response4" {
        /// Names the copy while it goes on; none when it is done.
        callback_id: Option<StateId>,
        /// Bytes.
        count: u64,
        /// How safe they are.
        committed: StableHow,
        /// As in WRITE.
        writeverf: Verifier,
    }
}

xdr_struct! {
    /// What the server can do (copy_requirements4).
    pub struct Requirements of "copy_requirements4" {
        /// Whether bytes are copied in their order.
        consecutive: bool,
        /// Whether the reply waits.
        synchronous: bool,
    }
}

xdr_struct! {
    /// COPY4resok.
    pub struct ResOk of "COPY4resok" {
        /// What was written.
        response: WriteResponse,
        /// How.
        requirements: Requirements,
    }
}

/// COPY4res.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Res {
    /// Done or begun.
    Ok(ResOk),
    /// NFS4ERR_OFFLOAD_NO_REQS: not as asked for, but like this.
    NoReqs(Requirements),
    /// Anything else.
    Failed(NfsStat),
}

impl Outcome<'_> for Res {
    fn status(&self) -> NfsStat {
        match self {
            Res::Ok(_) => NfsStat::Ok,
            Res::NoReqs(_) => NfsStat::OffloadNoReqs,
            Res::Failed(status) => *status,
        }
    }

    fn encode_rest(&self, out: &mut Vec<u8>) {
        match self {
            Res::Ok(ok) => ok.encode(out),
            Res::NoReqs(requirements) => requirements.encode(out),
            Res::Failed(_) => {}
        }
    }

    fn decode_rest(status: NfsStat, r: &mut Cursor<'_>) -> Result<Self, Malformed> {
        match status {
            NfsStat::Ok => ResOk::decode(r).map(Res::Ok),
            NfsStat::OffloadNoReqs => Requirements::decode(r).map(Res::NoReqs),
            status => Ok(Res::Failed(status)),
        }
    }
}

xdr_struct! {
    /// COPY_NOTIFY4args.
    pub struct NotifyArgs<'a> of "COPY_NOTIFY4args" {
        /// State of the source.
        src_stateid: StateId,
        /// Who will read it.
        destination_server: NetLoc<'a>,
    }
}

xdr_struct! {
    /// COPY_NOTIFY4resok.
    pub struct NotifyResOk<'a> of "COPY_NOTIFY4resok" {
        /// How long the destination has to begin.
        lease_time: NfsTime,
        /// What it shall use.
        stateid: StateId,
        /// Where it shall read.
        source_server: List<'a, NetLoc<'a>>,
    }
}

xdr_struct! {
    /// OFFLOAD_CANCEL4args and OFFLOAD_STATUS4args.
    pub struct OffloadArgs of "OFFLOAD_STATUS4args" {
        /// The copy.
        stateid: StateId,
    }
}

xdr_struct! {
    /// OFFLOAD_STATUS4resok.
    pub struct OffloadStatusResOk of "OFFLOAD_STATUS4resok" {
        /// Bytes copied until now.
        count: u64,
        /// The result; none while it goes on.
        complete: Option<NfsStat>,
    }
}
