//! The path of a frame through its connection: [`receive`] decrypts it, [`run`] answers one request after
//! the other. A request that waits continues by [`wake`] or [`job_done`].

use smallvec::SmallVec;
use smb_wire::NtStatus;
use smb_wire::header::{Packet, transform};
use wire::{Frame, Now, Output};

use crate::cmd::negotiate;
use crate::connection::{AdmissionRefusal, Connection};
use crate::dispatch;
use crate::exchange::compound::expected_size;
use crate::exchange::parked::{Parked, Parking};
use crate::exchange::remaining::{First, RemainingMessages};
use crate::exchange::{CommandOutcome, Compound, Exchange, ParkReason, Request, RequestState};
use crate::state::{Completion, Event};

/// The continuation after one request of a frame.
enum NextStep {
    /// The next request, or the end of the frame.
    Next,
    /// The request is put aside.
    Parked(ParkReason),
    /// The connection ends.
    Closed,
}

/// Answers all requests of one frame.
pub(crate) fn receive(connection: &mut Connection, frame: &mut [u8], now: Now, out: &mut Output<Event>) {
    match Packet::classify(frame) {
        Some(Packet::Smb2) => start(connection, frame, None, now, out),
        Some(Packet::Transform) => match connection.unseal(frame) {
            Some(session_id) => start(connection, &mut frame[transform::SIZE..], Some(session_id), now, out),
            None => connection.hang_up("a sealed frame that cannot be opened", now, out),
        },
        Some(Packet::Smb1) => negotiate::from_smb1(connection, frame, now, out),
        Some(Packet::Compressed) => connection.hang_up("compression was not negotiated", now, out),
        None => connection.hang_up("not an SMB message", now, out),
    }
}

fn start(
    connection: &mut Connection,
    messages: &mut [u8],
    sealed_by: Option<u64>,
    now: Now,
    out: &mut Output<Event>,
) {
    let frame = out.pool.take(expected_size(messages));
    let compound = Compound::new(frame, sealed_by);
    run(
        connection,
        Exchange { compound, remaining: RemainingMessages::new(messages), request: None },
        now,
        out,
    );
}

/// Answers the remaining requests one after the other. The first one may be a resumed request.
fn run(connection: &mut Connection, mut exchange: Exchange<'_>, now: Now, out: &mut Output<Event>) {
    let _scope = share::RequesterScope::enter(connection.handle.peer.remote.ip());
    while !exchange.remaining.bytes().is_empty() {
        match run_one(connection, &mut exchange, now, out) {
            NextStep::Next => {}
            NextStep::Closed => return,
            NextStep::Parked(aside) => {
                // The notices go before the replies so far. Those may leave together with the interim
                // response of this request.
                connection.send_own_notices(now, out);
                match connection.put_aside(exchange, aside, out) {
                    Some(goes_on) => exchange = goes_on,
                    None => return,
                }
            }
        }
    }
    connection.send_own_notices(now, out);
    connection.finish(exchange.compound, out);
}

/// Answers the first of the remaining requests.
fn run_one(
    connection: &mut Connection,
    exchange: &mut Exchange<'_>,
    now: Now,
    out: &mut Output<Event>,
) -> NextStep {
    let left = exchange.remaining.bytes().len();
    let Some(Ok(first)) = exchange.remaining.first() else {
        connection.hang_up("a malformed header", now, out);
        return NextStep::Closed;
    };
    let First { header, message, signature } = first;
    let (len, compound) = (message.len(), &mut exchange.compound);
    let mut request_state = match exchange.request.take() {
        Some(resumed) => resumed,
        None => match connection.admit(&first, compound, now) {
            Ok(signed) => RequestState::new(header, signed, len, now),
            Err(AdmissionRefusal::Ignore) => {
                exchange.remaining.pass(len);
                return NextStep::Next;
            }
            Err(AdmissionRefusal::Close(why)) => {
                connection.hang_up(why, now, out);
                return NextStep::Closed;
            }
            Err(AdmissionRefusal::Answer { status, signed }) => {
                connection.refuse(compound, RequestState::new(header, signed, len, now), status);
                exchange.remaining.pass(len);
                return NextStep::Next;
            }
        },
    };
    let bare = len == left && !request_state.signed && !request_state.resumed && compound.is_bare();
    let mut request = Request::new(&mut request_state, message, compound, connection.origin(), now);
    connection.sample(&mut request);
    (request.signature, request.bare) = (signature, bare);
    let outcome = dispatch::handle(connection, &mut request, out);
    let Request { related, claim, attached, counted, sign_answer, .. } = request;
    // A CREATE that has ended leaves no claim to the next request.
    compound.claim = claim.filter(|_| matches!(outcome, CommandOutcome::Parked(_)));
    compound.related = related;
    request_state.signed |= sign_answer && compound.sealed_by.is_none();
    match outcome {
        CommandOutcome::Disconnect(why) => {
            connection.hang_up(why, now, out);
            return NextStep::Closed;
        }
        CommandOutcome::Parked(aside) => {
            if request_state.outstanding.is_none() {
                request_state.outstanding = connection.outstanding(counted, &request_state.header);
            }
            exchange.request = Some(request_state);
            return NextStep::Parked(aside);
        }
        CommandOutcome::Silent => {
            compound.abandon(request_state.at);
            connection.note(&mut request_state, NtStatus::SUCCESS, 0);
        }
        CommandOutcome::Answered(answered) => {
            // A lone bare reply may end with a piece of a file.
            request_state.transaction.attached = attached.as_ref().map_or(0, |range| range.len);
            connection.answer(compound, &mut request_state, answered);
            if let Some(range) = attached {
                compound.frame.attach(range);
            }
        }
    }
    exchange.remaining.pass(len);
    NextStep::Next
}

/// Handles a wake-up of a waiting request: tries it again, or sends its reply.
pub(crate) fn wake(connection: &mut Connection, async_id: u64, now: Now, out: &mut Output<Event>) {
    let parked = connection.parked.remove_if(async_id, Parked::ends_by_wake);
    let Some(Parked { mut exchange, mut request, parking }) = parked else { return };
    if let Some(met) = parking.hold().and_then(|hold| hold.released()) {
        request.transaction.met = met;
    }
    match parking {
        Parking::Answer(status, hold) => {
            drop(hold);
            return complete(connection, exchange, request, Ok(status), now, out);
        }
        Parking::LogOnDelay(queued) => request.queued_attempt = Some(queued),
        Parking::Limits(hold) => {
            request.transaction.charge = hold.go();
            if exchange.compound.is_empty() {
                exchange.compound.frame = out.pool.take(expected_size(exchange.remaining.bytes()));
            }
        }
        Parking::Engine(..) | Parking::LogOn | Parking::Home | Parking::Pool => {}
    }
    connection.end_silence(async_id);
    exchange.request = Some(request);
    run(connection, exchange, now, out);
}

/// Handles the end of work on the blocking pool: sends the reply and runs the remaining requests of the
/// frame.
pub(crate) fn job_done(
    connection: &mut Connection,
    async_id: u64,
    frame: Frame,
    completion: Completion,
    now: Now,
    out: &mut Output<Event>,
) {
    let Some(Parked { mut exchange, request, .. }) = connection.parked.remove(async_id) else { return };
    exchange.compound.frame = frame;
    complete(connection, exchange, request, completion, now, out);
}

/// Answers a completed request and runs the remaining requests.
fn complete(
    connection: &mut Connection,
    mut exchange: Exchange<'static>,
    mut request: RequestState,
    completion: Completion,
    now: Now,
    out: &mut Output<Event>,
) {
    connection.answer(&mut exchange.compound, &mut request, completion.into());
    drop(request);
    run(connection, exchange, now, out);
}

/// Resumes the delayed log-ons that are due.
pub(crate) fn resume_log_ons(connection: &mut Connection, now: Now, out: &mut Output<Event>) {
    let due =
        connection.parked.log_ons().filter(|(_, at_ns)| at_ns.is_some_and(|at_ns| at_ns <= now.mono_ns));
    let mut due: SmallVec<[u64; 1]> = due.map(|(async_id, _)| async_id).collect();
    due.sort_unstable();
    for async_id in due {
        wake(connection, async_id, now, out);
    }
}
