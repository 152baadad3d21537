//! Counts and records: what is noted of a request when it is answered ([`crate::counting`]).

use share::counts::{CompletedTransaction, TransactionKind};
use smb_wire::{Command, NtStatus, header, read};
use wire::{Frame, Now, Output};

use super::Connection;
use crate::counting::{FAMILY, is_metadata, response};
use crate::exchange::UnderWay;
use crate::state::Event;

impl Connection {
    /// Notes a request whose answer has so many bytes.
    pub(crate) fn note(&mut self, request: &mut UnderWay, status: NtStatus, answer: usize) {
        let has_waited = request.told().is_some();
        let UnderWay { header, course, .. } = request;
        let command = header.command();
        let response = response(status, course.met);
        let kind = match command {
            Command::Read => TransactionKind::Read,
            Command::Write => TransactionKind::Write,
            command if is_metadata(command) => TransactionKind::Metadata,
            _ => TransactionKind::Other,
        };
        let data = match kind {
            TransactionKind::Read if response.is_success() => {
                answer.saturating_sub(header::SIZE + read::RESPONSE_FIXED)
            }
            TransactionKind::Write if response.is_success() => course.written,
            _ => 0,
        };
        let last = FAMILY.operations.len() as u16 - 1;
        let noted = CompletedTransaction {
            operation: command.get().min(last) as u8,
            authentication: course.authentication,
            kind,
            response,
            ingress: course.len as u64,
            egress: answer as u64,
            data: data as u64,
        };
        // What waits for others to do something tells nothing of how quick anybody is.
        let is_patient = match command {
            Command::ChangeNotify | Command::Cancel => true,
            Command::Lock => has_waited,
            _ => false,
        };
        self.desk.note(course.place, &noted, (!is_patient).then_some(course.arrived_ns));
        if let Some(sample) = course.sample.take() {
            let about = self.about(header, status, &noted, *sample);
            self.desk.record(course.place, &noted, course.arrived_ns, !is_patient, about);
        }
    }

    /// Sends what is still to be told of this turn, and counts the frames that were queued behind the first `before`.
    pub(crate) fn end_turn(&mut self, before: usize, now: Now, out: &mut Output<Event>) {
        self.send_own_notices(now, out);
        let queued = out.frames.get(before..).unwrap_or_default();
        self.handle.counters.sent(queued.iter().map(Frame::len).sum());
    }
}
