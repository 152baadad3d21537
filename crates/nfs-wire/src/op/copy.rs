//! COPY and the related COPY_NOTIFY, OFFLOAD_STATUS and OFFLOAD_CANCEL (RFC 7862 15.2, 15.3, 15.8, 15.9).

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
        /// The stateid of the source.
        src_stateid: StateId,
        /// The stateid of the destination.
        dst_stateid: StateId,
        /// The offset in the source.
        src_offset: u64,
        /// The offset in the destination.
        dst_offset: u64,
        /// The number of bytes. Zero means up to the end of the source.
        count: u64,
        /// Whether bytes must be copied in order.
        consecutive: bool,
        /// Whether the reply must wait for the copy.
        synchronous: bool,
        /// The servers with the source. Empty if it is on this server.
        source_server: List<'a, NetLoc<'a>>,
    }
}

xdr_struct! {
    /// The extent of a copy (write_response4).
    pub struct WriteResponse of "write_response4" {
        /// Identifies the copy while it is in progress. None if it is complete.
        callback_id: Option<StateId>,
        /// Number of bytes.
        count: u64,
        /// The stability of the data.
        committed: StableHow,
        /// The write verifier, as in WRITE.
        writeverf: Verifier,
    }
}

xdr_struct! {
    /// The requirements that a copy meets (copy_requirements4).
    pub struct Requirements of "copy_requirements4" {
        /// Whether bytes are copied in order.
        consecutive: bool,
        /// Whether the reply waits for the copy.
        synchronous: bool,
    }
}

xdr_struct! {
    /// COPY4resok.
    pub struct ResOk of "COPY4resok" {
        /// The extent of the copy.
        response: WriteResponse,
        /// The requirements that it meets.
        requirements: Requirements,
    }
}

/// COPY4res.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Res {
    /// The copy is complete or in progress.
    Ok(ResOk),
    /// NFS4ERR_OFFLOAD_NO_REQS: the server meets only these requirements.
    NoReqs(Requirements),
    /// Any other status.
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
        /// The stateid of the source.
        src_stateid: StateId,
        /// The server that will read the source.
        destination_server: NetLoc<'a>,
    }
}

xdr_struct! {
    /// COPY_NOTIFY4resok.
    pub struct NotifyResOk<'a> of "COPY_NOTIFY4resok" {
        /// The time that the destination has to begin.
        lease_time: NfsTime,
        /// The stateid that the destination uses.
        stateid: StateId,
        /// The addresses from which the destination reads.
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
        /// Number of bytes copied so far.
        count: u64,
        /// The result. None while the copy is in progress.
        complete: Option<NfsStat>,
    }
}
