//! The back channel of a session: the slots in which the server calls the client (RFC 8881 2.10.3).
//!
//! A callback goes out on any connection that is bound to the back channel. If that connection is lost or
//! silent before the client has replied, the callback is sent again on another one. The delegation remembers
//! a recall that the client has refused, or that no connection could carry
//! (`DelegationState::recall_again_at`). `Server::tick` then sends the recall again, as does the next
//! connection that the client binds, until the client returns the delegation or the engine revokes it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use wire::Now;

use crate::limits::{RECALL_AGAIN_NS, RECALL_SILENT_NS};
use crate::state::callback::{CallbackOutcome, CallbackRequest};
use crate::state::client::Client;
use crate::state::connection_handle::{ConnectionHandle, Mail};
use crate::state::session::Session;

/// Callbacks of one session that wait for a slot.
const MAX_WAITING: usize = 4096;

/// A callback that is under way.
#[derive(Clone)]
pub struct Call {
    /// The session.
    pub session: Arc<Session>,
    /// The number of the slot.
    pub slot: u32,
    /// Its sequence ID.
    pub sequence: u32,
    /// Distinguishes it from others in its slot.
    number: u64,
    /// The purpose of the callback.
    pub request: CallbackRequest,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("slot", &self.slot)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// One slot of the back channel.
#[derive(Default)]
struct CallbackSlot {
    /// Sequence ID of the last callback that the client took, or that is under way.
    sequence: u32,
    /// How often in a row the client expected another sequence ID.
    misordered: u32,
    /// True if the client has taken no callback since it and the server disagreed about the slot.
    is_faulty: bool,
    running: Option<CallbackInFlight>,
}

/// A callback that is under way.
struct CallbackInFlight {
    number: u64,
    request: CallbackRequest,
    /// The connection that it was last given to.
    connection: u64,
    /// The time since when that connection has had it (monotonic ns).
    since_ns: Option<u64>,
}

#[derive(Default)]
struct CallbackSlots {
    slots: Vec<CallbackSlot>,
    next_number: u64,
    waiting: VecDeque<CallbackRequest>,
}

impl CallbackSlots {
    fn running(&mut self, slot: u32, number: u64) -> Option<&mut CallbackInFlight> {
        let running = self.slots.get_mut(slot as usize)?.running.as_mut();
        running.filter(|running| running.number == number)
    }
}

/// The slots of a back channel, and whether one of them is faulty.
#[derive(Default)]
pub struct BackChannel(Mutex<CallbackSlots>, AtomicBool);

impl BackChannel {
    /// A back channel with this many slots.
    #[must_use]
    pub fn new(slots: u32) -> BackChannel {
        let slots = (0..slots).map(|_| CallbackSlot::default()).collect();
        BackChannel(Mutex::new(CallbackSlots { slots, ..CallbackSlots::default() }), AtomicBool::default())
    }

    /// Whether to tell the client that it should create a new session.
    // RFC 8881 18.46.3
    pub fn is_faulty(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    /// Takes a slot. If none is free, the request waits for one and the result is none. An error means that
    /// it can do neither.
    fn begin(&self, session: &Arc<Session>, request: &CallbackRequest) -> Result<Option<Call>, ()> {
        let mut back = self.0.lock();
        let Some(at) = back.slots.iter().position(|slot| slot.running.is_none()) else {
            if back.waiting.len() >= MAX_WAITING {
                return Err(());
            }
            back.waiting.push_back(request.clone());
            return Ok(None);
        };
        back.next_number += 1;
        let number = back.next_number;
        let slot = &mut back.slots[at];
        slot.sequence = slot.sequence.wrapping_add(1);
        slot.running =
            Some(CallbackInFlight { number, request: request.clone(), connection: 0, since_ns: None });
        let (session, request) = (Arc::clone(session), request.clone());
        Ok(Some(Call { session, slot: at as u32, sequence: slot.sequence, number, request }))
    }

    /// Ends a callback. If it was still under way, the result is the request that gets its slot next.
    fn finish(&self, slot: u32, number: u64, end: CallbackOutcome) -> Option<Option<CallbackRequest>> {
        let mut back = self.0.lock();
        back.running(slot, number)?;
        let slot = back.slots.get_mut(slot as usize)?;
        slot.running = None;
        slot.sequence = match end {
            CallbackOutcome::Done | CallbackOutcome::Refused => slot.sequence,
            CallbackOutcome::NotTaken | CallbackOutcome::Unknown => slot.sequence.wrapping_sub(1),
            // The server is one ahead, or the client has started from the beginning.
            CallbackOutcome::Misordered if slot.misordered > 0 => 0,
            CallbackOutcome::Misordered => slot.sequence.saturating_sub(2),
        };
        slot.misordered =
            if end == CallbackOutcome::Misordered { slot.misordered.saturating_add(1) } else { 0 };
        slot.is_faulty = match end {
            CallbackOutcome::Done | CallbackOutcome::Refused => false,
            CallbackOutcome::NotTaken => slot.is_faulty,
            CallbackOutcome::Unknown => true,
            // Neither the sequence ID before nor the first one is right.
            CallbackOutcome::Misordered => slot.is_faulty || slot.misordered > 2,
        };
        let is_faulty = back.slots.iter().any(|slot| slot.is_faulty);
        self.1.store(is_faulty, Ordering::Relaxed);
        Some(back.waiting.pop_front())
    }

    /// Ends the back channel with its session. Returns the requests that were under way or waiting.
    fn end(&self) -> Vec<CallbackRequest> {
        let mut back = self.0.lock();
        let waiting: Vec<_> = back.waiting.drain(..).collect();
        let running = back.slots.iter_mut().filter_map(|slot| slot.running.take());
        running.map(|running| running.request).chain(waiting).collect()
    }

    /// Notes that a callback is given to a connection.
    fn give(&self, call: &Call, connection: &ConnectionHandle, since_ns: Option<u64>) {
        if let Some(running) = self.0.lock().running(call.slot, call.number) {
            (running.connection, running.since_ns) = (connection.id, since_ns);
        }
    }

    /// Notes that a connection sends a callback. Returns false if the callback has ended, or was given to
    /// another connection meanwhile.
    pub fn sends(&self, call: &Call, connection: u64, now: Now) -> bool {
        let mut back = self.0.lock();
        let running = back.running(call.slot, call.number).filter(|running| running.connection == connection);
        running.map(|running| running.since_ns = Some(now.mono_ns)).is_some()
    }

    /// Callbacks whose connection is gone or has been silent for too long, each with that connection.
    fn stuck(
        &self,
        session: &Arc<Session>,
        connections: &[Arc<ConnectionHandle>],
        now: Now,
    ) -> Vec<(Call, u64)> {
        let mut stuck = Vec::new();
        for (at, slot) in self.0.lock().slots.iter_mut().enumerate() {
            let Some(running) = &mut slot.running else { continue };
            let since = *running.since_ns.get_or_insert(now.mono_ns);
            let is_silent = now.mono_ns.saturating_sub(since) >= RECALL_SILENT_NS;
            if is_silent || !connections.iter().any(|connection| connection.id == running.connection) {
                let (session, request) = (Arc::clone(session), running.request.clone());
                let (slot, sequence, number) = (at as u32, slot.sequence, running.number);
                stuck.push((Call { session, slot, sequence, number, request }, running.connection));
            }
        }
        stuck
    }
}

/// Gives a callback to the first of these connections that accepts it. Returns false if none does.
fn post(call: &Call, connections: &[Arc<ConnectionHandle>], since_ns: Option<u64>) -> bool {
    connections.iter().any(|connection| {
        // Note the connection first: it checks whether the callback is its own.
        call.session.calls.give(call, connection, since_ns);
        connection.post(Mail::Call(Box::new(call.clone())))
    })
}

/// Calls a client on any connection of a session. Returns false if there is none.
fn send(session: &Arc<Session>, request: &CallbackRequest) -> bool {
    let connections = session.back_connections();
    if connections.is_empty() || session.has_ended() {
        return false;
    }
    let Ok(begun) = session.calls.begin(session, request) else { return false };
    let Some(call) = begun else { return true };
    if post(&call, &connections, None) {
        return true;
    }
    // No connection would take the next request either.
    if let Some(Some(next)) = session.calls.finish(call.slot, call.number, CallbackOutcome::NotTaken) {
        next.keep(0);
    }
    false
}

/// Ends the back channel of a session. Its client is called over another session.
pub fn end(session: &Session) {
    session.calls.end().iter().for_each(|request| request.keep(0));
}

/// Handles the end of a callback and sends the request that waits for its slot. A recall that the client
/// refused is sent again: the client may have been busy, or may not know the delegation yet, because the
/// reply that grants it is still on its way on another connection.
// RFC 8881 20.2.3, 20.9.3
pub fn call_ended(call: &Call, end: CallbackOutcome, now: Now) {
    let Some(next) = call.session.calls.finish(call.slot, call.number, end) else { return };
    call.request.note_outcome(end);
    if end != CallbackOutcome::Done {
        call.request.keep(now.mono_ns.saturating_add(RECALL_AGAIN_NS));
    }
    if let Some(next) = next {
        self::call(&call.session.client, &next);
    }
}

/// Handles the loss of the connection that a callback was given to. Another connection sends the callback
/// with the same sequence ID, so a client that has received it recognises the retry.
pub fn connection_lost(call: &Call, connection: u64, now: Now) {
    let is_there = call
        .session
        .calls
        .0
        .lock()
        .running(call.slot, call.number)
        .is_some_and(|r| r.connection == connection);
    if !is_there
        || (!call.session.has_ended() && post(call, &call.session.back_connections(), Some(now.mono_ns)))
    {
        return;
    }
    if let Some(next) = call.session.calls.finish(call.slot, call.number, CallbackOutcome::NotTaken) {
        self::call(&call.session.client, &call.request);
        if let Some(next) = next {
            self::call(&call.session.client, &next);
        }
    }
}

/// Moves the callbacks of silent or lost connections to other connections of the session.
// RFC 8881 2.10.5, 2.10.6.2
pub fn move_stuck_calls(session: &Arc<Session>, now: Now) {
    let connections = session.back_connections();
    for (call, with) in session.calls.stuck(session, &connections, now) {
        match connections.iter().position(|connection| connection.id == with) {
            None => connection_lost(&call, with, now),
            // A recall of a revoked delegation need not be repeated. Its slot is freed by the connection's
            // reply or end.
            Some(_) if !call.request.is_of_use() => {}
            // Round-robin, so that no connection is left out.
            Some(at) => {
                let others: Vec<_> =
                    connections[at + 1..].iter().chain(&connections[..at]).map(Arc::clone).collect();
                // The only connection keeps waiting.
                if !others.is_empty() && !post(&call, &others, Some(now.mono_ns)) {
                    call.session.calls.give(&call, &connections[at], Some(now.mono_ns));
                }
            }
        }
    }
}

/// Calls a client on any session. If that is impossible now, a recall is repeated as soon as it is possible.
pub fn call(client: &Client, request: &CallbackRequest) {
    if !client.sessions().iter().any(|session| send(session, request)) {
        request.keep(0);
    }
}
