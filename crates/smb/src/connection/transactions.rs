//! Counts and records each request when it is answered ([`crate::counting`]).

use share::counts::{CompletedTransaction, TransactionKind};
use smb_wire::{NtStatus, SmbCommand, header, read};
use wire::{Frame, Now, Output};

use super::Connection;
use crate::counting::{FAMILY, is_metadata, response};
use crate::exchange::RequestState;
use crate::state::Event;

impl Connection {
    /// Counts a request. `answer` is the length of its reply.
    pub(crate) fn note(&mut self, request: &mut RequestState, status: NtStatus, answer: usize) {
        let has_waited = request.pending_id().is_some();
        let RequestState { header, transaction, .. } = request;
        let command = header.command();
        let response = response(status, transaction.met);
        let kind = match command {
            SmbCommand::Read => TransactionKind::Read,
            SmbCommand::Write => TransactionKind::Write,
            command if is_metadata(command) => TransactionKind::Metadata,
            _ => TransactionKind::Other,
        };
        let data = match kind {
            TransactionKind::Read if response.is_success() => {
                answer.saturating_sub(header::SIZE + read::RESPONSE_FIXED)
            }
            TransactionKind::Write if response.is_success() => transaction.written,
            _ => 0,
        };
        let last = FAMILY.operations.len() as u16 - 1;
        let noted = CompletedTransaction {
            operation: command.get().min(last) as u8,
            authentication: transaction.authentication,
            kind,
            response,
            ingress: transaction.len as u64,
            egress: answer as u64,
            data: data as u64,
        };
        // The latency of a request that waits for other clients says nothing about the server.
        let is_patient = match command {
            SmbCommand::ChangeNotify | SmbCommand::Cancel => true,
            SmbCommand::Lock => has_waited,
            _ => false,
        };
        self.desk.note(transaction.share_index, &noted, (!is_patient).then_some(transaction.arrived_ns));
        if let Some(sample) = transaction.sample.take() {
            let about = self.details(header, status, &noted, *sample);
            self.desk.record(transaction.share_index, &noted, transaction.arrived_ns, !is_patient, about);
        }
    }

    /// Sends the remaining notices of this batch, and counts the frames that were queued after the first
    /// `before`.
    pub(crate) fn end_batch(&mut self, before: usize, now: Now, out: &mut Output<Event>) {
        self.send_own_notices(now, out);
        let queued = out.frames.get(before..).unwrap_or_default();
        self.handle.counters.sent(queued.iter().map(Frame::len).sum());
    }
}
