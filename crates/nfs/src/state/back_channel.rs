//! The back channel of a session: slots in which the server calls the client (RFC 8881 2.10.3).
//!
//! A call goes out on any connection that is bound to the back channel. When that connection is lost or silent before the
//! client has answered, the call is made again on another one. What the client refuses, or cannot be told for want of a
//! connection, its delegation remembers (`DelegationState::recall_again_at`): it is asked again by `Server::tick`, or when
//! it binds a connection, until it gives the delegation back or the engine takes it away.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use wire::Now;

use crate::limits::{RECALL_AGAIN_NS, RECALL_SILENT_NS};
use crate::state::callback::{End, Errand};
use crate::state::client::Client;
use crate::state::session::Session;
use crate::state::way::{Mail, Way};

/// Calls of one session that wait for a slot.
const MAX_WAITING: usize = 4096;

/// A call on its way.
#[derive(Clone)]
pub struct Call {
    /// The session.
    pub session: Arc<Session>,
    /// The slot.
    pub slot: u32,
    /// Its number.
    pub sequence: u32,
    /// Tells it from others in its slot.
    number: u64,
    /// What for.
    pub errand: Errand,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("slot", &self.slot)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// One slot.
#[derive(Default)]
struct Slot {
    /// Number of the last call that was taken, or is under way.
    sequence: u32,
    /// How often the client had another number in mind, the last times.
    misordered: u32,
    /// No call was taken since the client and we were found not to agree on the slot.
    is_faulty: bool,
    running: Option<Running>,
}

/// A call that is under way.
struct Running {
    number: u64,
    errand: Errand,
    /// The connection that it was given to last.
    way: u64,
    /// Since when it is there (monotonic ns).
    since_ns: Option<u64>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    next_number: u64,
    waiting: VecDeque<Errand>,
}

impl Slots {
    fn running(&mut self, slot: u32, number: u64) -> Option<&mut Running> {
        let running = self.slots.get_mut(slot as usize)?.running.as_mut();
        running.filter(|running| running.number == number)
    }
}

/// The slots of a back channel, and whether one of them is faulty.
#[derive(Default)]
pub struct Back(Mutex<Slots>, AtomicBool);

impl Back {
    /// With so many slots.
    #[must_use]
    pub fn new(slots: u32) -> Back {
        let slots = (0..slots).map(|_| Slot::default()).collect();
        Back(Mutex::new(Slots { slots, ..Slots::default() }), AtomicBool::default())
    }

    /// Whether the client is to be told that it had better make another session.
    // RFC 8881 18.46.3
    pub fn is_faulty(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    /// Takes a slot, or lets the errand wait for one: then nothing. An error when neither can be.
    fn begin(&self, session: &Arc<Session>, errand: &Errand) -> Result<Option<Call>, ()> {
        let mut back = self.0.lock();
        let Some(at) = back.slots.iter().position(|slot| slot.running.is_none()) else {
            if back.waiting.len() >= MAX_WAITING {
                return Err(());
            }
            back.waiting.push_back(errand.clone());
            return Ok(None);
        };
        back.next_number += 1;
        let number = back.next_number;
        let slot = &mut back.slots[at];
        slot.sequence = slot.sequence.wrapping_add(1);
        slot.running = Some(Running { number, errand: errand.clone(), way: 0, since_ns: None });
        let (session, errand) = (Arc::clone(session), errand.clone());
        Ok(Some(Call { session, slot: at as u32, sequence: slot.sequence, number, errand }))
    }

    /// A call is over, or never will be. Gives the errand that goes next, if it was under way until now.
    fn finish(&self, slot: u32, number: u64, end: End) -> Option<Option<Errand>> {
        let mut back = self.0.lock();
        back.running(slot, number)?;
        let slot = back.slots.get_mut(slot as usize)?;
        slot.running = None;
        slot.sequence = match end {
            End::Done | End::Refused => slot.sequence,
            End::NotTaken | End::Unknown => slot.sequence.wrapping_sub(1),
            // One too far, or the client has begun anew.
            End::Misordered if slot.misordered > 0 => 0,
            End::Misordered => slot.sequence.saturating_sub(2),
        };
        slot.misordered = if end == End::Misordered { slot.misordered.saturating_add(1) } else { 0 };
        slot.is_faulty = match end {
            End::Done | End::Refused => false,
            End::NotTaken => slot.is_faulty,
            End::Unknown => true,
            // Neither the number before nor the first one is right.
            End::Misordered => slot.is_faulty || slot.misordered > 2,
        };
        let is_faulty = back.slots.iter().any(|slot| slot.is_faulty);
        self.1.store(is_faulty, Ordering::Relaxed);
        Some(back.waiting.pop_front())
    }

    /// The session has ended: what its client was called for, or was to be.
    fn end(&self) -> Vec<Errand> {
        let mut back = self.0.lock();
        let waiting: Vec<_> = back.waiting.drain(..).collect();
        let running = back.slots.iter_mut().filter_map(|slot| slot.running.take());
        running.map(|running| running.errand).chain(waiting).collect()
    }

    /// A call is given to a connection.
    fn give(&self, call: &Call, way: &Way, since_ns: Option<u64>) {
        if let Some(running) = self.0.lock().running(call.slot, call.number) {
            (running.way, running.since_ns) = (way.id, since_ns);
        }
    }

    /// A connection sends a call. False when it is over, or was given to another meanwhile.
    pub fn sends(&self, call: &Call, way: u64, now: Now) -> bool {
        let mut back = self.0.lock();
        let running = back.running(call.slot, call.number).filter(|running| running.way == way);
        running.map(|running| running.since_ns = Some(now.mono_ns)).is_some()
    }

    /// Calls that are with a connection for too long, or with one that is gone, and that connection.
    fn stuck(&self, session: &Arc<Session>, ways: &[Arc<Way>], now: Now) -> Vec<(Call, u64)> {
        let mut stuck = Vec::new();
        for (at, slot) in self.0.lock().slots.iter_mut().enumerate() {
            let Some(running) = &mut slot.running else { continue };
            let since = *running.since_ns.get_or_insert(now.mono_ns);
            let is_silent = now.mono_ns.saturating_sub(since) >= RECALL_SILENT_NS;
            if is_silent || !ways.iter().any(|way| way.id == running.way) {
                let (session, errand) = (Arc::clone(session), running.errand.clone());
                let (slot, sequence, number) = (at as u32, slot.sequence, running.number);
                stuck.push((Call { session, slot, sequence, number, errand }, running.way));
            }
        }
        stuck
    }
}

/// Gives a call to the first of these connections that takes it. False when none does.
fn post(call: &Call, ways: &[Arc<Way>], since_ns: Option<u64>) -> bool {
    ways.iter().any(|way| {
        // Before it has it: it looks whether the call is its own.
        call.session.calls.give(call, way, since_ns);
        way.post(Mail::Call(Box::new(call.clone())))
    })
}

/// Calls a client on any connection of a session. False when there is none.
fn send(session: &Arc<Session>, errand: &Errand) -> bool {
    let ways = session.back_ways();
    if ways.is_empty() || session.has_ended() {
        return false;
    }
    let Ok(begun) = session.calls.begin(session, errand) else { return false };
    let Some(call) = begun else { return true };
    if post(&call, &ways, None) {
        return true;
    }
    // No connection takes what would go next either.
    if let Some(Some(next)) = session.calls.finish(call.slot, call.number, End::NotTaken) {
        next.keep(0);
    }
    false
}

/// A session has ended: its client is called over another.
pub fn end(session: &Session) {
    session.calls.end().iter().for_each(|errand| errand.keep(0));
}

/// A call is answered; what waited for its slot goes out. What the client has refused it is asked again: it may not
/// have known the delegation yet, whose grant is on its way on another connection, or have been busy.
// RFC 8881 20.2.3, 20.9.3
pub fn over(call: &Call, end: End, now: Now) {
    let Some(next) = call.session.calls.finish(call.slot, call.number, end) else { return };
    if end != End::Done {
        call.errand.keep(now.mono_ns.saturating_add(RECALL_AGAIN_NS));
    }
    if let Some(next) = next {
        self::call(&call.session.client, &next);
    }
}

/// The connection is gone that a call was given to: another one takes it, with the same number, so that a client that
/// has heard it knows it again.
pub fn lost(call: &Call, way: u64, now: Now) {
    let is_there = call.session.calls.0.lock().running(call.slot, call.number).is_some_and(|r| r.way == way);
    if !is_there || (!call.session.has_ended() && post(call, &call.session.back_ways(), Some(now.mono_ns))) {
        return;
    }
    if let Some(next) = call.session.calls.finish(call.slot, call.number, End::NotTaken) {
        self::call(&call.session.client, &call.errand);
        if let Some(next) = next {
            self::call(&call.session.client, &next);
        }
    }
}

/// Gives calls of a session to another connection whose own is silent or gone.
// RFC 8881 2.10.5, 2.10.6.2
pub fn look_after(session: &Arc<Session>, now: Now) {
    let ways = session.back_ways();
    for (call, with) in session.calls.stuck(session, &ways, now) {
        match ways.iter().position(|way| way.id == with) {
            None => lost(&call, with, now),
            // What was taken away meanwhile need not be called for: its slot is free when the connection answers or is gone.
            Some(_) if !call.errand.is_of_use() => {}
            // In turn, so that none is left out.
            Some(at) => {
                let others: Vec<_> = ways[at + 1..].iter().chain(&ways[..at]).map(Arc::clone).collect();
                // Alone it goes on waiting.
                if !others.is_empty() && !post(&call, &others, Some(now.mono_ns)) {
                    call.session.calls.give(&call, &ways[at], Some(now.mono_ns));
                }
            }
        }
    }
}

/// Calls a client on any session; when it cannot be called now, a recall is made as soon as it can.
pub fn call(client: &Client, errand: &Errand) {
    if !client.sessions().iter().any(|session| send(session, errand)) {
        errand.keep(0);
    }
}
