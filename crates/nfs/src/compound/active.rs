//! A COMPOUND as its connection sees it: active, suspended, or finished.

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::compound::Operations;
use nfs_wire::op::Args;
use nfs_wire::rpc::record::{MARK, RecordMark};
use nfs_wire::rpc::{Accepted, RpcReply, SUCCESS_HEADER};
use wire::Frame;

use super::{CompoundProgress, Run};
use crate::compound::transactions::CompoundTransactions;
use crate::limits::MAX_CACHED_REPLY;
use crate::state::session::Session;

/// Bytes of a finished reply before the part that a slot keeps: record mark and RPC header.
pub const REPLY_HEAD: usize = MARK + SUCCESS_HEADER;

/// An active COMPOUND. It always ends in its slot, whatever happens to its thread or its connection. A slot
/// that stayed busy would be lost to its session.
pub struct ActiveCompound(Option<Run>);

impl ActiveCompound {
    /// Wraps a COMPOUND that begins.
    #[must_use]
    pub fn new(run: Run) -> ActiveCompound {
        ActiveCompound(Some(run))
    }

    /// The COMPOUND. None once it has ended.
    pub fn run(&mut self) -> Option<&mut Run> {
        self.0.as_mut()
    }

    /// Ends it. None if it had ended before.
    #[must_use]
    pub fn finish(mut self) -> Option<Finished> {
        self.0.take().map(Run::finish)
    }
}

/// A COMPOUND that has ended.
pub struct Finished {
    /// The reply.
    pub frame: Frame,
    /// The session that it used.
    pub session: Option<Arc<Session>>,
    /// Its transactions.
    pub transactions: CompoundTransactions,
}

impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finished").field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl Drop for ActiveCompound {
    fn drop(&mut self) {
        let Some(run) = self.0.take() else { return };
        // An operation that did not begin, because nobody would see its reply, can be sent again.
        run.abandon(if std::thread::panicking() { NfsStat::ServerFault } else { NfsStat::Delay });
    }
}

/// A COMPOUND that waits.
pub struct SuspendedCompound {
    /// The operations that have run, and their results.
    pub active: ActiveCompound,
    /// The operations that are left, encoded.
    pub rest: Vec<u8>,
    /// Number of operations left.
    pub left: u32,
}

impl SuspendedCompound {
    /// Bytes of memory that it holds.
    pub(crate) fn memory_bytes(&mut self) -> usize {
        let frame = self.active.run().map_or(0, |run| run.writer.held());
        size_of::<Run>() + self.rest.capacity() + frame
    }

    /// Runs the operations that are left.
    pub fn dispatch(&mut self) -> Option<CompoundProgress> {
        let run = self.active.run()?;
        let progress = run.dispatch(Operations::<Args<'_>>::new(&self.rest, run.minor, self.left));
        Some(progress)
    }

    /// Drops the operations that have run since.
    pub fn advance(mut self, position: usize, left: u32) -> SuspendedCompound {
        self.rest.drain(..position.min(self.rest.len()));
        SuspendedCompound { left, ..self }
    }
}

impl Run {
    /// Ends a COMPOUND of which nothing more will run. Its slot keeps the outcome, so a retry gets that reply
    /// and repeats nothing.
    // RFC 8881 2.10.6.1.3
    fn abandon(mut self, status: NfsStat) {
        let (Some(serving), Some((mark, number))) = (&mut self.serving, self.current_op) else { return };
        self.writer.truncate(mark);
        self.writer.put_status(number, status);
        serving.cache |= self.writer.len() <= MAX_CACHED_REPLY as usize;
        self.status = status;
        drop(self.finish());
    }

    /// Ends it. The slot keeps the reply if the client asked for that.
    #[must_use]
    fn finish(self) -> Finished {
        let transactions = self.transactions;
        if let Some(replay) = self.replay {
            let mut frame = self.writer.finish(NfsStat::Ok);
            frame.truncate(0);
            let out = frame.tail();
            out.extend_from_slice(&RecordMark::whole(replay.len() + REPLY_HEAD - 4));
            RpcReply::accepted(self.xid, Accepted::Success(&replay)).write(out);
            return Finished { frame, session: self.session, transactions };
        }
        let frame = self.writer.finish(self.status);
        if let (Some(serving), Some(session)) = (self.serving, &self.session)
            && let Some(slot) = session.slots.get(serving.slot as usize)
        {
            slot.finish(serving.cache.then(|| &frame.bytes()[REPLY_HEAD..]));
        }
        Finished { frame, session: self.session, transactions }
    }
}

impl std::fmt::Debug for SuspendedCompound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SuspendedCompound").field("left", &self.left).finish_non_exhaustive()
    }
}
