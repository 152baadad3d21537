//! The back channel of a session: slots in which the server calls the client (RFC 8881 2.10.3).
//!
//! A call goes out on any connection that is bound to the back channel. When that connection is lost or silent before the
//! client has answered, the call is made again on another one. What the client refuses, or cannot be told for want of a
//! connection, its delegation remembers (`DelegationState::recall_again_at`): it is asked again by `Server::tick`, or when
//! it binds a connection, until it gives the delegation back or the engine takes it away.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_wire::compound::Reply;
use nfs_wire::op::backchannel_ctl::SecParms;
use nfs_wire::rpc::{self, Accepted, AuthSys, Credential};
use nfs_wire::xdr::List;
use nfs_wire::{NfsStat, callback};
use parking_lot::Mutex;
use share::BreakNotice;
use wire::Now;

use crate::connection::Way;
use crate::connection::event::Event;
use crate::limits::{RECALL_AGAIN_NS, RECALL_SILENT_NS};
use crate::state::question::{Question, Told};
use crate::state::session::Session;
use crate::state::stateid::State;

/// Calls of one session that wait for a slot.
const MAX_WAITING: usize = 4096;

/// Who the server is when it calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Nobody.
    None,
    /// A user whom the client has named.
    Sys {
        /// The name of the host.
        machine: Box<[u8]>,
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
    },
}

impl Caller {
    /// The first way that a client offers and we know; none when there is none.
    #[must_use]
    pub fn first_of(offered: &List<'_, SecParms<'_>>) -> Option<Caller> {
        offered.iter().find_map(|one| match one {
            SecParms::None => Some(Caller::None),
            SecParms::Sys(sys) => {
                Some(Caller::Sys { machine: sys.machine_name.into(), uid: sys.uid, gid: sys.gid })
            }
            SecParms::Gss(_) => None,
        })
    }

    /// As it goes over the wire.
    #[must_use]
    pub fn credential(&self) -> Credential<'_> {
        match self {
            Caller::None => Credential::None,
            Caller::Sys { machine, uid, gid } => Credential::Sys(AuthSys::new(machine, *uid, *gid, &[])),
        }
    }
}

/// How the server calls a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calling {
    /// Program number of callbacks.
    pub program: u32,
    /// Minor version: that of the session.
    pub minor: u32,
    /// Who calls.
    pub caller: Caller,
}

/// Why a client is called.
#[derive(Clone)]
pub struct Errand {
    /// The delegation.
    pub state: Arc<State>,
    /// The reason.
    pub what: What,
}

/// The reason for which a client is called.
#[derive(Clone)]
pub enum What {
    /// To give the delegation back (CB_RECALL), as the engine has said.
    Recall(BreakNotice),
    /// To tell what it keeps of the file (CB_GETATTR).
    Attributes(Arc<Question>),
}

impl Errand {
    /// To recall a delegation.
    #[must_use]
    pub fn recall(state: &Arc<State>, notice: BreakNotice) -> Errand {
        Errand { state: Arc::clone(state), what: What::Recall(notice) }
    }

    /// To ask for what the holder keeps.
    #[must_use]
    pub fn ask(question: &Arc<Question>) -> Errand {
        Errand { state: Arc::clone(&question.state), what: What::Attributes(Arc::clone(question)) }
    }

    /// Whether the answer is still of use.
    fn is_of_use(&self) -> bool {
        match &self.what {
            What::Recall(notice) => self.state.export.engine.awaits(notice),
            What::Attributes(question) => question.answered().is_none(),
        }
    }
}

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

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client has done what it was called for.
    Done,
    /// It has taken the call, and refused what it was called for.
    Refused,
    /// It has not taken the call: the number is not used up.
    NotTaken,
    /// It has not taken the call because of its number.
    Misordered,
    /// It has not taken the call because it does not know the session or the slot.
    Unknown,
}

impl End {
    /// What a client's reply says.
    // RFC 8881 20.9.3
    #[must_use]
    pub fn of(reply: &rpc::Reply<'_>) -> End {
        let Ok(Accepted::Success(body)) = reply.outcome else { return End::NotTaken };
        let Ok(answer) = Reply::parse(body) else { return End::NotTaken };
        let sequence = match answer.callback_results().next() {
            Some(Ok(callback::Res::Sequence(Ok(_)))) => NfsStat::Ok,
            Some(Ok(callback::Res::Sequence(Err(status)))) => status,
            _ => return End::NotTaken,
        };
        match (sequence, answer.status) {
            (NfsStat::Ok, NfsStat::Ok) => End::Done,
            (NfsStat::Ok, _) => End::Refused,
            (NfsStat::SeqMisordered, _) => End::Misordered,
            (NfsStat::BadSession | NfsStat::DeadSession | NfsStat::BadSlot, _) => End::Unknown,
            _ => End::NotTaken,
        }
    }
}

/// What a client's reply to CB_GETATTR tells; none when it tells nothing.
#[must_use]
pub fn attributes_of(reply: &rpc::Reply<'_>) -> Option<Told> {
    let Ok(Accepted::Success(body)) = reply.outcome else { return None };
    let answer = Reply::parse(body).ok()?;
    match answer.callback_results().nth(1)?.ok()? {
        callback::Res::GetAttr(Ok(given)) => Told::read(&given.obj_attributes),
        _ => None,
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
        way.post(Event::Call(Box::new(call.clone())))
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
        keep(&next, 0);
    }
    false
}

/// Nobody has heard a call: a recall is made again, not before this time (monotonic ns); who has asked something is told that
/// there will be no answer.
fn keep(errand: &Errand, at_ns: u64) {
    match &errand.what {
        What::Recall(_) => {
            if let Some(delegation) = errand.state.delegation() {
                delegation.recall_again_at(at_ns);
            }
        }
        What::Attributes(question) => question.answer(None),
    }
}

/// A session has ended: its client is called over another.
pub fn end(session: &Session) {
    session.calls.end().iter().for_each(|errand| keep(errand, 0));
}

/// A call is answered; what waited for its slot goes out. What the client has refused it is asked again: it may not
/// have known the delegation yet, whose grant is on its way on another connection, or have been busy.
// RFC 8881 20.2.3, 20.9.3
pub fn over(call: &Call, end: End, now: Now) {
    let Some(next) = call.session.calls.finish(call.slot, call.number, end) else { return };
    if end != End::Done {
        keep(&call.errand, now.mono_ns.saturating_add(RECALL_AGAIN_NS));
    }
    if let Some(next) = next {
        self::call(&next);
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
        self::call(&call.errand);
        if let Some(next) = next {
            self::call(&next);
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

/// Calls the holder of a delegation on any session; when it cannot be called now, a recall is made as soon as it can.
pub fn call(errand: &Errand) {
    let client = errand.state.delegation().and_then(|delegation| delegation.client.upgrade());
    let is_sent = client.is_some_and(|c| c.sessions().iter().any(|session| send(session, errand)));
    if !is_sent {
        keep(errand, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_way_that_is_known_is_taken() {
        let sys = AuthSys::new(b"host", 7, 8, &[]);
        let offered = [SecParms::Sys(sys), SecParms::None];
        let taken = Caller::first_of(&List::of(&offered)).unwrap();
        assert_eq!(taken, Caller::Sys { machine: b"host"[..].into(), uid: 7, gid: 8 });
        assert!(matches!(taken.credential(), Credential::Sys(sys) if sys.uid == 7));
        assert_eq!(Caller::first_of(&List::of(&offered[1..])), Some(Caller::None));
        assert_eq!(Caller::first_of(&List::EMPTY), None);
    }
}
