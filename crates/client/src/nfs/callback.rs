//! The client's end of the back channel: it answers the server's calls, and returns delegations (RFC 8881
//! 20).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use nfs_wire::callback::{self, Args, Call, OpNum, SequenceArgs, SequenceResOk};
use nfs_wire::compound::{CallWriter, ReplyWriter};
use nfs_wire::op::delegation::ReturnArgs;
use nfs_wire::op::filehandle::PutArgs;
use nfs_wire::op::open::Delegation;
use nfs_wire::rpc::record::RecordMark;
use nfs_wire::rpc::{self, Accepted, Message, PROC_COMPOUND, PROC_NULL};
use nfs_wire::types::{FileHandle, StateId};
use nfs_wire::{NfsStat, op};
use wire::Frame;

use super::link::Link;
use crate::Error;
use crate::error::Result;
use crate::nfs::client_core::ClientCore;

/// The program number of callbacks, from the range that anybody may use (RFC 5531 8.4.2).
pub(crate) const CB_PROGRAM: u32 = 0x4000_0000;
/// The slots of the back channel.
pub(crate) const BACK_SLOTS: u32 = 16;

/// Answers calls of the server.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    client: OnceLock<Weak<ClientCore>>,
    state: Mutex<BackChannelState>,
}

#[derive(Debug, Default)]
struct BackChannelState {
    /// The last reply of each slot.
    slots: HashMap<u32, Replied>,
    /// The delegations that the client holds, with their files.
    delegations: HashMap<[u8; 12], HeldDelegation>,
}

#[derive(Debug)]
struct Replied {
    sequence: u32,
    results: Vec<u8>,
}

#[derive(Debug, Clone)]
struct HeldDelegation {
    stateid: StateId,
    handle: Arc<[u8]>,
}

impl Responder {
    /// Starts to answer for `client`.
    pub(crate) fn serve(&self, client: &Arc<ClientCore>) {
        self.client.get_or_init(|| Arc::downgrade(client));
    }

    fn lock(&self) -> MutexGuard<'_, BackChannelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a delegation that came with an OPEN of the file `handle`.
    pub(crate) fn hold(&self, delegation: &Delegation<'_>, handle: &Arc<[u8]>) {
        let stateid = match delegation {
            Delegation::Read(read) | Delegation::ReadAttrs(read) => read.stateid,
            Delegation::Write(write) | Delegation::WriteAttrs(write) => write.stateid,
            Delegation::None | Delegation::NoneExt(_) => return,
        };
        self.lock().delegations.insert(stateid.other, HeldDelegation { stateid, handle: Arc::clone(handle) });
    }

    /// The number of delegations held.
    pub(crate) fn held(&self) -> usize {
        self.lock().delegations.len()
    }

    /// Answers a call that arrived over `link`.
    ///
    /// # Errors
    /// When the call cannot be answered.
    pub(crate) fn answer(&self, link: &Arc<Link>, message: &[u8]) -> Result<()> {
        let Message::Call(Ok(call)) = Message::parse(message)? else {
            return Err(Error::Protocol("a callback without a header"));
        };
        let frame = link.lock().frames.take(1024);
        let refuse = |frame, accepted| link.post(plain(frame, call.xid, accepted));
        // RFC 5531 9
        if call.program != CB_PROGRAM {
            return refuse(frame, Accepted::ProgUnavail);
        }
        if call.version != rpc::CALLBACK_VERSION {
            let (low, high) = (rpc::CALLBACK_VERSION, rpc::CALLBACK_VERSION);
            return refuse(frame, Accepted::ProgMismatch { low, high });
        }
        match call.procedure {
            PROC_NULL => refuse(frame, Accepted::Success(&[])),
            PROC_COMPOUND => match Call::parse(call.body) {
                Ok(compound) => link.post(self.compound(frame, call.xid, &compound)),
                Err(_) => refuse(frame, Accepted::GarbageArgs),
            },
            _ => refuse(frame, Accepted::ProcUnavail),
        }
    }

    fn compound(&self, frame: Frame, xid: u32, call: &Call<'_>) -> Frame {
        let mut writer = ReplyWriter::begin(frame, xid, call.tag);
        let mut slot = None;
        let mut status = NfsStat::Ok;
        for operation in call.operations() {
            let Ok(operation) = operation else {
                status = NfsStat::BadXdr;
                break;
            };
            status = match operation {
                Args::Sequence(_) if !writer.is_empty() => NfsStat::SequencePos,
                Args::Sequence(args) => match self.sequence(&args) {
                    Ok(Some(results)) => return again(xid, &results),
                    Ok(None) => {
                        slot = Some((args.slotid, args.sequenceid));
                        writer.put(OpNum::Sequence, &accepted(&args));
                        continue;
                    }
                    Err(status) => status,
                },
                _ if slot.is_none() => NfsStat::OpNotInSession,
                Args::Recall(args) => self.recall(args.stateid),
                // The client never holds any of these, or the call is advice.
                Args::RecallAny(_) | Args::RecallSlot(_) | Args::NotifyLock(_) => NfsStat::Ok,
                Args::Illegal(_) => NfsStat::OpIllegal,
                _ => NfsStat::NotSupp,
            };
            match operation {
                Args::Illegal(_) => writer.put_illegal(),
                _ => writer.put_status(operation.number().get(), status),
            }
            if !status.is_ok() {
                break;
            }
        }
        let frame = writer.finish(status);
        if let Some((slot, sequence)) = slot {
            self.lock().slots.insert(slot, Replied { sequence, results: frame.bytes().to_vec() });
        }
        frame
    }

    /// The stored reply, if this is a retry.
    fn sequence(&self, args: &SequenceArgs<'_>) -> std::result::Result<Option<Vec<u8>>, NfsStat> {
        // RFC 8881 20.9.3
        let client = self.client.get().and_then(Weak::upgrade).ok_or(NfsStat::BadSession)?;
        if client.session().map_err(|_| NfsStat::BadSession)?.id != args.sessionid {
            return Err(NfsStat::BadSession);
        }
        if args.slotid >= BACK_SLOTS {
            return Err(NfsStat::BadSlot);
        }
        let state = self.lock();
        let last = state.slots.get(&args.slotid);
        let before = last.map_or(0, |last| last.sequence);
        match last {
            _ if args.sequenceid == before.wrapping_add(1) => Ok(None),
            Some(last) if args.sequenceid == before => Ok(Some(last.results.clone())),
            _ => Err(NfsStat::SeqMisordered),
        }
    }

    /// Resets the slots for a new session.
    pub(crate) fn begin_session(&self) {
        self.lock().slots.clear();
    }

    /// Forgets all delegations. The server no longer has them.
    pub(crate) fn lose_delegations(&self) {
        self.lock().delegations.clear();
    }

    /// Returns a delegation after this call has been answered.
    fn recall(&self, stateid: StateId) -> NfsStat {
        // RFC 8881 20.2.3
        let Some(held) = self.lock().delegations.remove(&stateid.other) else { return NfsStat::BadStateId };
        let Some(client) = self.client.get().and_then(Weak::upgrade) else { return NfsStat::BadStateId };
        tokio::spawn(async move {
            let push = |writer: &mut CallWriter| {
                let delegation = ReturnArgs { deleg_stateid: held.stateid };
                writer.push(&op::Args::PutFh(PutArgs { object: FileHandle(&held.handle) }));
                writer.push(&op::Args::DelegReturn(delegation));
            };
            // If this fails, the server revokes the delegation.
            client.change(1, &push).await.map(drop)
        });
        NfsStat::Ok
    }
}

fn accepted(args: &SequenceArgs<'_>) -> std::result::Result<SequenceResOk, NfsStat> {
    Ok(callback::SequenceResOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: BACK_SLOTS - 1,
        target_highest_slotid: BACK_SLOTS - 1,
    })
}

/// A reply without a COMPOUND.
fn plain(mut frame: Frame, xid: u32, accepted: Accepted<'_>) -> Frame {
    let out = frame.tail();
    rpc::RpcReply::accepted(xid, accepted).write(out);
    let mark = RecordMark::whole(frame.len());
    frame.prepend(mark.len()).copy_from_slice(&mark);
    frame
}

/// A stored reply with the transaction ID of the retry.
fn again(xid: u32, reply: &[u8]) -> Frame {
    let mut frame = Frame::with_capacity(reply.len());
    frame.tail().extend_from_slice(reply);
    frame.bytes_mut()[4..8].copy_from_slice(&xid.to_be_bytes());
    frame
}
