//! Interim responses, which tell a client that its request takes time (MS-SMB2 3.3.4.2).

use auth::crypto::SigningAlgorithm;
use smallvec::SmallVec;
use smb_wire::{Header, NtStatus, SmbCommand};
use wire::{Now, Output};

use super::Connection;
use crate::exchange::parked::Parked;
use crate::exchange::{Compound, RequestState};
use crate::state::Event;

/// How long a request may wait without an interim response, in nanoseconds. It is longer than a holder of a
/// lease has for its acknowledgment, and shorter than clients wait for any reply.
const SILENT_NS: u64 = 40_000_000_000;

/// Whether a waiting request gets an interim response at once. The last request of a compound does, and a
/// CREATE anywhere in it. A SET_INFO does not, as in Windows, whose clients take any reply to it for the
/// last one. A CLOSE does not either, since it waits for operations that are nearly done.
// MS-SMB2 3.3.4.2 and 3.3.5.2.7 with notes 240 and 266
pub(super) fn at_once(command: SmbCommand, is_last: bool) -> bool {
    command == SmbCommand::Create || is_last && !matches!(command, SmbCommand::SetInfo | SmbCommand::Close)
}

impl Connection {
    /// Records a waiting request without an interim response. It arrived at `arrived_ns`.
    pub(crate) fn announce_later(&mut self, async_id: u64, arrived_ns: u64) {
        self.silent.push((arrived_ns.saturating_add(SILENT_NS), async_id));
    }

    /// Removes a request from the silent ones.
    pub(crate) fn end_silence(&mut self, async_id: u64) {
        self.silent.retain(|&(_, id)| id != async_id);
    }

    /// When the next silent request gets its interim response.
    pub(crate) fn silence_ends(&self) -> Option<u64> {
        self.silent.iter().map(|&(at_ns, _)| at_ns).min()
    }

    /// Sends interim responses for the requests that have waited too long.
    pub(crate) fn announce_silent(&mut self, now: Now, out: &mut Output<Event>) {
        let due: SmallVec<[u64; 1]> =
            self.silent.iter().filter(|&&(at_ns, _)| at_ns <= now.mono_ns).map(|&(_, id)| id).collect();
        for async_id in due {
            self.end_silence(async_id);
            let Some(Parked { mut exchange, mut request, parking }) = self.parked.remove(async_id) else {
                continue;
            };
            if parking.can_be_taken_back() && !request.announced {
                self.announce(&mut exchange.compound, &mut request, async_id, out);
                out.pool.fit(&mut exchange.compound.frame);
            }
            self.parked.insert(async_id, Parked { exchange, request, parking });
        }
    }

    /// Sends the replies so far, then an interim response for this request.
    pub(crate) fn announce(
        &mut self,
        compound: &mut Compound,
        request: &mut RequestState,
        async_id: u64,
        out: &mut Output<Event>,
    ) {
        request.announced = true;
        let header = &request.header;
        let (related, sealed_by, claim) = (compound.related, compound.sealed_by, compound.claim.take());
        self.finish(std::mem::take(compound), out);
        let mut notice = Compound::new(out.pool.take(0), sealed_by);
        let at = notice.begin();
        self.error_body(&[], notice.frame.tail());
        let mut interim = Header::response_to(header, NtStatus::PENDING);
        if header.session_id() == u64::MAX {
            interim.set_session_id(related.session_id);
        }
        interim.set_async_id(async_id);
        interim.set_credits(self.window.grant(header.credits()));
        // GMAC takes its nonce from the MessageId. The final response has the same id, and one nonce must
        // not sign two messages. No client checks the signature of an interim response (MS-SMB2 3.2.5.1.3).
        let gmac = self.negotiated.is_some_and(|n| n.protection.signing == SigningAlgorithm::AesGmac);
        notice.end(at, interim, request.signed && !gmac);
        self.finish(notice, out);
        *compound = Compound::new(out.pool.take(0), sealed_by);
        (compound.related, compound.claim) = (related, claim);
    }
}
