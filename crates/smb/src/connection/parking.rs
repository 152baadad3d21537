//! Requests that are not answered at once. [`Connection::put_aside`] moves a request and its exchange into
//! the connection's map. `run.rs` moves it out when it goes on, and [`Connection::cancel`] when its client
//! cancels it.

use share::{Share, Ticket};
use smb_wire::{FileId, NtStatus, SmbCommand};
use wire::Output;

use super::{Connection, interim};
use crate::exchange::parked::{Parked, Parking};
use crate::exchange::{Exchange, ParkReason, RequestState};
use crate::limits::{MAX_WAITING, MAX_WAITING_BYTES, SMALL_HELD, SMALL_WAITING};
use crate::state::Event;

impl Connection {
    /// Puts the first remaining request aside. Returns the exchange if the request may not wait.
    pub(crate) fn put_aside<'m>(
        &mut self,
        mut exchange: Exchange<'m>,
        aside: ParkReason,
        out: &mut Output<Event>,
    ) -> Option<Exchange<'m>> {
        let Some(mut request) = exchange.request.take() else { return Some(exchange) };
        let async_id = self.async_id(&mut request);
        request.resumed = true;
        if let Some(status) = self.must_not_wait(&aside, &exchange, &request) {
            return Some(self.refuse_to_wait(exchange, request, aside, status));
        }
        let parking = match aside {
            ParkReason::Wait(engine, ticket) => {
                exchange.compound.abandon(request.at);
                self.announce_or_note(&mut exchange, &mut request, async_id, out);
                Parking::Engine(engine, ticket)
            }
            ParkReason::LogOnDelay(queued) => {
                exchange.compound.abandon(request.at);
                Parking::LogOnDelay(queued)
            }
            ParkReason::LogOn(job) => {
                exchange.compound.abandon(request.at);
                run_then_wake(job, async_id, out, Parking::LogOn)
            }
            ParkReason::Home(job) => {
                exchange.compound.abandon(request.at);
                run_then_wake(job, async_id, out, Parking::Home)
            }
            ParkReason::Work(work) | ParkReason::Persist(work) => {
                exchange.remaining.pass(request.transaction.len);
                let mut frame = std::mem::take(&mut exchange.compound.frame);
                let outstanding = request.outstanding.take();
                out.run(move || {
                    let completion = work(frame.tail());
                    // A lost channel may take the reply late or never, but the work itself is done now.
                    drop(outstanding);
                    Event::JobDone { async_id, frame, completion }
                });
                Parking::Pool
            }
            ParkReason::Hold(hold) => {
                exchange.compound.abandon(request.at);
                let keeps = exchange.remaining.bytes().len();
                if keeps > SMALL_HELD && keeps + self.parked.bytes() > MAX_WAITING_BYTES {
                    // There is no space to delay so much data. Only a hostile client sends that much. The
                    // request is carried out now, and its charge is owed.
                    request.transaction.charge = hold.go();
                    exchange.request = Some(request);
                    return Some(exchange);
                }
                if exchange.compound.is_empty() {
                    // The buffer for a reply is taken later.
                    out.pool.give_back(std::mem::take(&mut exchange.compound.frame));
                }
                Parking::Limits(hold)
            }
            ParkReason::Answer(status, hold) => {
                exchange.remaining.pass(request.transaction.len);
                Parking::Answer(status, hold)
            }
        };
        if parking.hold().is_none() {
            out.pool.fit(&mut exchange.compound.frame);
        }
        self.parked.insert(async_id, Parked { exchange: exchange.keep(), request, parking });
        None
    }

    /// The status of a request that may not be put aside after all.
    fn must_not_wait(
        &self,
        aside: &ParkReason,
        exchange: &Exchange<'_>,
        request: &RequestState,
    ) -> Option<NtStatus> {
        // MS-SMB2 3.3.4.2: within a compound only a request that waits for a break may wait, as in Windows.
        let may_last = matches!(request.header.command(), SmbCommand::ChangeNotify | SmbCommand::Lock);
        let left = exchange.remaining.bytes().len();
        let keeps = left + exchange.compound.frame.len();
        // The number of small requests is bounded.
        let is_too_much = keeps > SMALL_WAITING && keeps + self.parked.bytes() > MAX_WAITING_BYTES;
        let has_room = self.parked.waiting() < MAX_WAITING && !is_too_much;
        match aside {
            // The transport, the credits or the log-ons of a connection bound the number of these.
            ParkReason::LogOn(_) | ParkReason::Persist(_) | ParkReason::Hold(_) | ParkReason::Answer(..) => {
                None
            }
            _ if !has_room => Some(NtStatus::INSUFFICIENT_RESOURCES),
            ParkReason::Wait(..) if may_last && left > request.transaction.len => {
                Some(NtStatus::INTERNAL_ERROR)
            }
            _ => None,
        }
    }

    /// Answers a request that may not wait.
    fn refuse_to_wait<'m>(
        &mut self,
        mut exchange: Exchange<'m>,
        mut request: RequestState,
        aside: ParkReason,
        status: NtStatus,
    ) -> Exchange<'m> {
        if let ParkReason::Wait(engine, ticket) = aside {
            engine.cancel(ticket);
        }
        // The client gets this refusal, so a late first copy must have no effect either.
        self.note_ended(&request.header, exchange.compound.related.file_id, exchange.remaining.bytes());
        exchange.compound.claim = None;
        exchange.remaining.pass(request.transaction.len);
        self.answer(&mut exchange.compound, &mut request, Err(status).into());
        exchange
    }

    /// Sends an interim response for a waiting request, now or later.
    fn announce_or_note(
        &mut self,
        exchange: &mut Exchange<'_>,
        request: &mut RequestState,
        async_id: u64,
        out: &mut Output<Event>,
    ) {
        if request.announced {
            return;
        }
        let is_last = exchange.remaining.bytes().len() == request.transaction.len;
        if interim::at_once(request.header.command(), is_last) {
            self.announce(&mut exchange.compound, request, async_id, out);
        } else {
            self.announce_later(async_id, request.transaction.arrived_ns);
        }
    }

    /// Whether a small request may be put aside. A larger one most probably may too.
    pub(crate) fn has_room_to_wait(&self) -> bool {
        self.parked.waiting() < MAX_WAITING && self.parked.bytes() < MAX_WAITING_BYTES / 2
    }

    /// Cancels a waiting request and answers it (MS-SMB2 3.3.5.16). Work that has begun is answered when it
    /// is done. A CLOSE is not cancelled either: its client forgets the handle in any case.
    pub(crate) fn cancel(&mut self, async_id: u64, out: &mut Output<Event>) {
        let is_meant = |parked: &Parked| {
            parked.parking.can_be_taken_back() && parked.request.header.command() != SmbCommand::Close
        };
        let Some(Parked { exchange, mut request, parking }) = self.parked.remove_if(async_id, is_meant)
        else {
            return;
        };
        self.controls.wake(async_id);
        self.end_silence(async_id);
        let mut compound = exchange.compound;
        match parking {
            Parking::Engine(engine, ticket) => self.take_back(&engine, ticket, compound.related.file_id),
            Parking::Limits(_) if compound.is_empty() => compound.frame = out.pool.take(0),
            _ => {}
        }
        request.at = compound.begin();
        self.answer(&mut compound, &mut request, Err(NtStatus::CANCELLED).into());
        self.finish(compound, out);
    }

    /// Cancels all waiting requests when the connection ends. A CREATE that its client may replay on another
    /// channel keeps its claim as long as it would have waited. Until then the replay gets the status
    /// for a later retry, as it would if the channel were not lost.
    // MS-SMB2 3.3.7.1
    pub(crate) fn release_waiting(&mut self) {
        self.controls.end();
        for (async_id, Parked { mut exchange, request, parking }) in self.parked.take_all() {
            let Parking::Engine(engine, ticket) = parking else { continue };
            let session = self.server.session(request.header.session_id());
            let has_others = session.is_some_and(|session| session.channels().len() > 1);
            match exchange.compound.claim.take().filter(|_| has_others) {
                Some(claim) => {
                    self.handle.left.lock().insert(async_id, claim);
                    // The request may have been woken before its claim was in the map.
                    if !engine.is_waiting(ticket) {
                        self.handle.left.lock().remove(&async_id);
                    }
                }
                None => self.take_back(&engine, ticket, exchange.compound.related.file_id),
            }
        }
    }

    /// Cancels a wait on an Open. If the request was woken before, a byte range may have become free for it.
    /// Then the next waiter is woken in its place.
    fn take_back(&self, engine: &Share, ticket: Ticket, id: Option<FileId>) {
        if engine.cancel(ticket) {
            return;
        }
        let open = id.and_then(|id| self.server.opens.get(id.volatile).filter(|open| open.id == id));
        if let Some((engine, file)) = open.as_ref().and_then(|open| open.file()) {
            engine.wake_ready_waiters(file);
        }
    }
}

/// Runs a job on the blocking pool, and then resumes its request, which waits as `parking` says.
fn run_then_wake(
    job: Box<dyn FnOnce() + Send>,
    async_id: u64,
    out: &mut Output<Event>,
    parking: Parking,
) -> Parking {
    out.run(move || {
        job();
        Event::Wake { async_id }
    });
    parking
}
