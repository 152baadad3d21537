//! A COMPOUND from outside: under way, held, or over.

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::compound::Operations;
use nfs_wire::op::Args;
use nfs_wire::rpc::record::{MARK, RecordMark};
use nfs_wire::rpc::{Accepted, Reply, SUCCESS_HEADER};
use wire::Frame;

use super::{Flow, Run};
use crate::compound::course::Course;
use crate::limits::MAX_CACHED_REPLY;
use crate::state::session::Session;

/// Bytes of a finished reply in front of what a slot keeps: record mark and RPC header.
pub const REPLY_HEAD: usize = MARK + SUCCESS_HEADER;

/// A COMPOUND that ends in its slot whatever becomes of the thread that does it, or of the connection it came on: a
/// slot that stayed busy would be lost to its session.
pub struct UnderWay(Option<Run>);

impl UnderWay {
    /// One that begins.
    #[must_use]
    pub fn new(run: Run) -> UnderWay {
        UnderWay(Some(run))
    }

    /// What is under way; none when it is over.
    pub fn run(&mut self) -> Option<&mut Run> {
        self.0.as_mut()
    }

    /// How it has ended; none when it was over before.
    #[must_use]
    pub fn finish(mut self) -> Option<Finished> {
        self.0.take().map(Run::finish)
    }
}

/// A COMPOUND that is over.
pub struct Finished {
    /// The reply.
    pub frame: Frame,
    /// The session that it used.
    pub session: Option<Arc<Session>>,
    /// What is counted of it.
    pub course: Course,
}

impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finished").field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Some(run) = self.0.take() else { return };
        // What was never begun, since nobody would have heard of it, can be asked for again.
        run.abandon(if std::thread::panicking() { NfsStat::ServerFault } else { NfsStat::Delay });
    }
}

/// A COMPOUND that is held.
pub struct Held {
    /// What of it has been done.
    pub under_way: UnderWay,
    /// The operations that are left.
    pub rest: Vec<u8>,
    /// How many they are.
    pub left: u32,
}

impl Held {
    /// Bytes that it keeps.
    pub(crate) fn keeps(&mut self) -> usize {
        let frame = self.under_way.run().map_or(0, |run| run.writer.held());
        size_of::<Run>() + self.rest.capacity() + frame
    }

    /// Goes on with what is left.
    pub fn go(&mut self) -> Option<Flow> {
        let run = self.under_way.run()?;
        let flow = run.go(Operations::<Args<'_>>::new(&self.rest, run.minor, self.left));
        Some(flow)
    }

    /// What is left from where it has stopped.
    pub fn cut(mut self, position: usize, left: u32) -> Held {
        self.rest.drain(..position.min(self.rest.len()));
        Held { left, ..self }
    }
}

impl Run {
    /// Ends a COMPOUND that nothing more is done of: what it came to is kept in its slot, so that a retry is told of it
    /// and does nothing again.
    // RFC 8881 2.10.6.1.3
    fn abandon(mut self, status: NfsStat) {
        let (Some(serving), Some((mark, number))) = (&mut self.serving, self.doing) else { return };
        self.writer.truncate(mark);
        self.writer.put_status(number, status);
        serving.cache |= self.writer.len() <= MAX_CACHED_REPLY as usize;
        self.status = status;
        drop(self.finish());
    }

    /// Ends it; the slot keeps the reply where the client wants that.
    #[must_use]
    fn finish(self) -> Finished {
        let course = self.course;
        if let Some(replay) = self.replay {
            let mut frame = self.writer.finish(NfsStat::Ok);
            frame.truncate(0);
            let out = frame.tail();
            out.extend_from_slice(&RecordMark::whole(replay.len() + REPLY_HEAD - 4));
            Reply::accepted(self.xid, Accepted::Success(&replay)).write(out);
            return Finished { frame, session: self.session, course };
        }
        let frame = self.writer.finish(self.status);
        if let (Some(serving), Some(session)) = (self.serving, &self.session)
            && let Some(slot) = session.slots.get(serving.slot as usize)
        {
            slot.finish(serving.cache.then(|| &frame.bytes()[REPLY_HEAD..]));
        }
        Finished { frame, session: self.session, course }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("left", &self.left).finish_non_exhaustive()
    }
}
