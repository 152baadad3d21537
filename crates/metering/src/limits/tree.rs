//! The limits of one account, its shares and their files, and all requests that wait there.
//!
//! Start with [`ShareLimits::ask`] and [`Limits::release`]. A request walks along its path ([`super::path`])
//! until a gate stops it. A released request walks on from there. One lock guards a whole account; only
//! requests to limited shares take it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use wire::Now;

use super::bucket::Bursting;
use super::charge::Charge;
use super::fair_queue::Flow;
use super::formula::{AccountProvision, Provision, Throughput};
use super::gate::{Meter, RateGate};
use super::outcome::ResponseType;
use super::path::{GatePath, GateUnit, Key, Owner};
use crate::{ClientKey, Waiter};

pub use super::path::MeteredWork;

/// Files whose gates are kept before idle ones are looked for.
const KEPT_FILES: usize = 1024;

/// Calls [`Limits::release`] at the time that was set.
pub trait Alarm: Send + Sync {
    /// Asks for a call at this time (monotonic ns) or soon after it, unless an earlier one is set. The caller
    /// holds no lock.
    fn set(&self, at_ns: u64);
}

/// A request that asks to pass.
#[derive(Debug, Clone, Copy)]
pub struct ThrottleRequest<'a> {
    /// The client.
    pub client: ClientKey,
    /// The connection that it came over.
    pub connection: u64,
    /// The work of the request.
    pub work: MeteredWork,
    /// The waiter to wake if the request is held.
    pub waiter: &'a Waiter,
}

/// The answer to [`ShareLimits::ask`].
#[derive(Debug)]
#[must_use]
pub enum ThrottleDecision {
    /// It goes on at once, with the tokens that it has taken.
    Go(ResponseType, Charge),
    /// It is woken when it may go on.
    Held(Hold),
}

/// A request that is held. If it is dropped, it leaves its gate and takes no bytes, unless the requested work
/// is [done](Hold::is_done).
pub struct Hold {
    limits: Arc<Limits>,
    /// None when it has gone on.
    id: Option<u64>,
    is_done: bool,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hold").field(&self.id).finish()
    }
}

impl Hold {
    /// The requested work is done already, or will be without waiting. It is then charged even if nobody
    /// waits for the reply any more. So a client cannot avoid the limits by dropping its connection.
    #[must_use]
    pub fn is_done(mut self) -> Hold {
        self.is_done = true;
        self
    }

    /// The limit that it has met; none while it is still held.
    #[must_use]
    pub fn released(&self) -> Option<ResponseType> {
        let state = self.limits.state.lock();
        state.held.get(&self.id?).filter(|held| held.waiter.is_none()).map(|held| held.met)
    }

    /// Goes on, with the tokens that it has taken. A request that is not released yet stops waiting; the
    /// tokens that it lacks become a debt.
    pub fn go(mut self) -> Charge {
        let Some(held) = self.leave(true) else { return Charge::default() };
        Charge::of(ShareLimits { limits: Arc::clone(&self.limits), share: held.share }, held.work)
    }

    /// Leaves the gate. Returns the request if its share still exists.
    fn leave(&mut self, is_done: bool) -> Option<ThrottledRequest> {
        let id = self.id.take()?;
        let (left, at) = {
            let mut state = self.limits.state.lock();
            (state.leave(id, is_done), state.arm())
        };
        if let Some(at) = at {
            self.limits.alarm.set(at);
        }
        left.filter(|held| held.path.step(0).is_some())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.leave(self.is_done));
    }
}

/// A request that waits at a gate, or that has passed the last gate and was woken.
#[derive(Debug)]
struct ThrottledRequest {
    share: u32,
    work: MeteredWork,
    flow: Flow,
    /// Empty when its share was removed.
    path: GatePath,
    /// The index of its gate on the path.
    at: usize,
    since_ns: u64,
    /// The longest time at one gate, and the outcome for that gate.
    longest_ns: u64,
    met: ResponseType,
    /// None when it was woken.
    waiter: Option<Waiter>,
}

#[derive(Debug)]
struct LimitedShareState {
    provision: Provision,
    /// Requests of the share that wait at gates for which [`Key::withholds`] is true.
    withheld: usize,
    waiting: usize,
    counts: [u64; ResponseType::ALL.len()],
}

/// The state of a limited share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareState {
    /// The provisioned limits.
    pub provision: Provision,
    /// The burst credits.
    pub burst_credits: u64,
    /// Requests that are held now.
    pub held: usize,
    /// Requests until now, in the order of [`ResponseType::ALL`].
    pub counts: [u64; ResponseType::ALL.len()],
}

#[derive(Debug, Default)]
struct LimitsState {
    account: Option<AccountProvision>,
    shares: BTreeMap<u32, LimitedShareState>,
    gates: HashMap<Key, RateGate<u64>>,
    /// Gates where requests wait, by the time when they are due.
    due: BTreeSet<(u64, Key)>,
    held: HashMap<u64, ThrottledRequest>,
    next: u64,
    /// The time for which the alarm is set; none if it is not set.
    armed_ns: Option<u64>,
    files: usize,
    most_files: usize,
}

/// The limits of one account.
pub struct Limits {
    state: Mutex<LimitsState>,
    alarm: Arc<dyn Alarm>,
}

impl std::fmt::Debug for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits").finish_non_exhaustive()
    }
}

impl Limits {
    /// The limits of an account without shares. `account` limits all its shares together.
    #[must_use]
    pub fn new(account: Option<AccountProvision>, alarm: Arc<dyn Alarm>, now: Now) -> Arc<Limits> {
        let mut state = LimitsState { most_files: KEPT_FILES, ..LimitsState::default() };
        state.set_account(account, now.mono_ns);
        Arc::new(Limits { state: Mutex::new(state), alarm })
    }

    /// Changes the limits of all shares together.
    pub fn set_account(&self, account: Option<AccountProvision>, now: Now) {
        self.state.lock().set_account(account, now.mono_ns);
        self.rearm(now);
    }

    /// Adds a share or changes its limits. A new share has `burst_credits`, or the most that it may hold. An
    /// existing share keeps its credits.
    pub fn set_share(
        self: &Arc<Limits>,
        share: u32,
        provision: Provision,
        burst_credits: Option<u64>,
        now: Now,
    ) -> ShareLimits {
        self.state.lock().set_share(share, provision, burst_credits, now.mono_ns);
        self.rearm(now);
        ShareLimits { limits: Arc::clone(self), share }
    }

    /// Removes a share. Requests that are held there go on.
    pub fn remove_share(&self, share: u32) {
        let woken = self.state.lock().remove_share(share);
        woken.iter().for_each(wake);
    }

    /// The limits of a share of this account.
    #[must_use]
    pub fn share(self: &Arc<Limits>, share: u32) -> Option<ShareLimits> {
        let is_there = self.state.lock().shares.contains_key(&share);
        is_there.then(|| ShareLimits { limits: Arc::clone(self), share })
    }

    /// The shares of the account.
    #[must_use]
    pub fn shares(&self) -> Vec<u32> {
        self.state.lock().shares.keys().copied().collect()
    }

    /// Wakes the requests that may pass now. Returns the time of the next call; none: at the time for which
    /// the alarm is set.
    pub fn release(&self, now: Now) -> Option<u64> {
        let mut woken = Vec::new();
        let next = {
            let mut state = self.state.lock();
            state.release(now.mono_ns, &mut woken);
            state.armed_ns = state.due.first().map(|(at, _)| *at);
            state.armed_ns
        };
        woken.iter().for_each(wake);
        next
    }

    /// The limits have changed, so gates may be due earlier.
    fn rearm(&self, now: Now) {
        let at = {
            let mut state = self.state.lock();
            let waiting: Vec<Key> = state.due.iter().map(|(_, key)| *key).collect();
            waiting.into_iter().for_each(|key| state.schedule(key));
            state.arm()
        };
        if let Some(at) = at {
            self.alarm.set(at.max(now.mono_ns));
        }
    }
}

fn wake(waiter: &Waiter) {
    waiter.wake.wake(waiter.token);
}

/// The limits of one share.
#[derive(Debug, Clone)]
pub struct ShareLimits {
    limits: Arc<Limits>,
    share: u32,
}

impl ShareLimits {
    /// Asks for a request to pass.
    pub fn ask(&self, ask: &ThrottleRequest<'_>, now: Now) -> ThrottleDecision {
        let (answer, at) = {
            let mut state = self.limits.state.lock();
            let answer = match state.ask(self.share, ask, now.mono_ns) {
                Ok(met) => ThrottleDecision::Go(met, Charge::of(self.clone(), ask.work)),
                Err(id) => ThrottleDecision::Held(Hold {
                    limits: Arc::clone(&self.limits),
                    id: Some(id),
                    is_done: false,
                }),
            };
            (answer, state.arm())
        };
        if let Some(at) = at {
            self.limits.alarm.set(at);
        }
        answer
    }

    /// Takes the cost of `work` without waiting. Later requests wait longer instead.
    pub fn charge(&self, work: MeteredWork, now: Now) -> Charge {
        self.limits.state.lock().charge(self.share, work, now.mono_ns);
        Charge::of(self.clone(), work)
    }

    /// The bytes that may be transferred now without waiting, at each gate on the path of `work` that counts
    /// bytes, from the narrowest to the widest. A negative number is a debt.
    #[must_use]
    pub fn bytes_left(&self, work: MeteredWork, now: Now) -> Vec<i64> {
        self.limits.state.lock().bytes_left(self.share, work, now.mono_ns)
    }

    /// Returns `unused` of the bytes that `work` has taken.
    pub(super) fn give_back(&self, work: MeteredWork, unused: u64) {
        let at = {
            let mut state = self.limits.state.lock();
            state.give_back(self.share, work, unused);
            state.arm()
        };
        if let Some(at) = at {
            self.limits.alarm.set(at);
        }
    }

    /// The state of the share; none when it was removed.
    #[must_use]
    pub fn state(&self, now: Now) -> Option<ShareState> {
        self.limits.state.lock().share_state(self.share, now.mono_ns)
    }

    /// The limits of the share's account.
    #[must_use]
    pub fn account(&self) -> &Arc<Limits> {
        &self.limits
    }
}

/// The gates for the data of one owner.
fn data_gates(owner: Owner, operations: Meter, throughput: Throughput, now_ns: u64) -> Vec<(Key, Meter)> {
    let mut gates = vec![(Key { owner, passing: GateUnit::Operations }, operations)];
    let mut add = |passing, rate| gates.push((Key { owner, passing }, Meter::plain(rate, now_ns)));
    match throughput {
        Throughput::Together(rate) => add(GateUnit::Bytes, rate),
        Throughput::Apart { ingress, egress } => {
            add(GateUnit::Ingress, ingress);
            add(GateUnit::Egress, egress);
        }
    }
    gates
}

impl LimitsState {
    fn set_account(&mut self, account: Option<AccountProvision>, now_ns: u64) {
        let gates = account.map_or_else(Vec::new, |provision| {
            let operations = Meter::plain(provision.operations, now_ns);
            data_gates(Owner::Account, operations, provision.throughput, now_ns)
        });
        self.account = account;
        self.set_gates(gates, now_ns);
    }

    fn set_share(&mut self, share: u32, provision: Provision, burst_credits: Option<u64>, now_ns: u64) {
        let most = provision.burst_credits;
        let burst_credits = burst_credits.unwrap_or(most);
        let operations = Bursting::new(provision.operations, provision.burst, burst_credits, most, now_ns);
        let owner = Owner::Share(share);
        let mut gates = data_gates(owner, Meter::Bursting(operations), provision.throughput, now_ns);
        gates.push((Key { owner, passing: GateUnit::Metadata }, Meter::watched(provision.metadata, now_ns)));
        for (key, gate) in &mut self.gates {
            if let Key { owner: Owner::File(of, _), passing } = *key
                && of == share
            {
                gate.meter.become_like(file_meter(&provision, passing, now_ns), now_ns);
            }
        }
        match self.shares.get_mut(&share) {
            Some(known) => known.provision = provision,
            None => {
                let new = LimitedShareState { provision, withheld: 0, waiting: 0, counts: [0; _] };
                self.shares.insert(share, new);
            }
        }
        self.set_gates(gates, now_ns);
    }

    /// Gives one owner these gates. A gate that exists keeps its level and its waiters, even if it is on no
    /// request's path any more.
    fn set_gates(&mut self, gates: Vec<(Key, Meter)>, now_ns: u64) {
        for (key, meter) in gates {
            match self.gates.get_mut(&key) {
                Some(gate) => gate.meter.become_like(meter, now_ns),
                None => {
                    self.gates.insert(key, RateGate::new(meter));
                }
            }
        }
    }

    fn remove_share(&mut self, share: u32) -> Vec<Waiter> {
        let waiting: Vec<u64> =
            self.held.iter().filter(|(_, held)| held.share == share).map(|(id, _)| *id).collect();
        let mut woken = Vec::new();
        for id in waiting {
            self.stops_waiting(id);
            let Some(held) = self.held.get_mut(&id) else { continue };
            // The gates of the share and its files are dropped, with the tokens taken there. The account
            // keeps what was taken from its own gates.
            (held.path, held.at) = (GatePath::default(), 0);
            woken.extend(held.waiter.take());
        }
        let is_its = |key: &Key| match key.owner {
            Owner::File(of, _) | Owner::Share(of) => of == share,
            Owner::Account => false,
        };
        self.gates.retain(|key, _| !is_its(key));
        self.due.retain(|(_, key)| !is_its(key));
        self.files = self.gates.keys().filter(|key| matches!(key.owner, Owner::File(..))).count();
        self.shares.remove(&share);
        woken
    }

    fn ask(&mut self, share: u32, ask: &ThrottleRequest<'_>, now_ns: u64) -> Result<ResponseType, u64> {
        let Some(of) = self.shares.get(&share) else { return Ok(ResponseType::Success) };
        let path = GatePath::of(share, ask.work, &of.provision, self.account.as_ref());
        let flow = Flow { client: ask.client, connection: ask.connection, file: ask.work.file() };
        let id = self.next;
        self.next += 1;
        let mut held = ThrottledRequest {
            share,
            work: ask.work,
            flow,
            path,
            at: 0,
            since_ns: now_ns,
            longest_ns: 0,
            met: ResponseType::Success,
            waiter: None,
        };
        if self.walk(id, &mut held, now_ns) {
            self.count(share, held.met);
            return Ok(held.met);
        }
        held.waiter = Some(ask.waiter.clone());
        self.held.insert(id, held);
        Err(id)
    }

    /// Passes gates until one stops the request. Returns true if none does.
    fn walk(&mut self, id: u64, held: &mut ThrottledRequest, now_ns: u64) -> bool {
        while let Some(step) = held.path.step(held.at) {
            let Some(gate) = self.gate(step.key, now_ns) else {
                held.at += 1;
                continue;
            };
            if !gate.pass(step.cost, now_ns) {
                gate.wait(held.flow, id);
                held.since_ns = now_ns;
                self.waits(held.share, step.key, now_ns);
                self.schedule(step.key);
                return false;
            }
            if gate.is_near() && held.met == ResponseType::Success {
                held.met = ResponseType::SuccessWithMetadataWarning;
            }
            held.at += 1;
        }
        true
    }

    /// The gate with this key. The gate of a file is created when a request first comes to it.
    fn gate(&mut self, key: Key, now_ns: u64) -> Option<&mut RateGate<u64>> {
        if let Owner::File(share, _) = key.owner
            && !self.gates.contains_key(&key)
        {
            self.forget_idle_files(now_ns);
            let provision = &self.shares.get(&share)?.provision;
            let meter = file_meter(provision, key.passing, now_ns);
            self.gates.insert(key, RateGate::new(meter));
            self.files += 1;
        }
        self.gates.get_mut(&key)
    }

    fn forget_idle_files(&mut self, now_ns: u64) {
        if self.files < self.most_files {
            return;
        }
        let is_file = |key: &Key| matches!(key.owner, Owner::File(..));
        self.gates.retain(|key, gate| !is_file(key) || !gate.is_idle(now_ns));
        self.files = self.gates.keys().filter(|key| is_file(key)).count();
        self.most_files = (2 * self.files).max(KEPT_FILES);
    }

    /// Enters the time when a gate is due.
    fn schedule(&mut self, key: Key) {
        let Some(gate) = self.gates.get_mut(&key) else { return };
        let (before, after) = (gate.due_ns, gate.ready_at());
        gate.due_ns = after;
        if before != after {
            before.map(|at| self.due.remove(&(at, key)));
            after.map(|at| self.due.insert((at, key)));
        }
    }

    /// The time for which the alarm has to be set anew.
    fn arm(&mut self) -> Option<u64> {
        let (at, _) = *self.due.first()?;
        if self.armed_ns.is_some_and(|armed| armed <= at) {
            return None;
        }
        self.armed_ns = Some(at);
        Some(at)
    }

    fn release(&mut self, now_ns: u64, woken: &mut Vec<Waiter>) {
        while let Some(&(at, key)) = self.due.first()
            && at <= now_ns
        {
            while let Some(id) = self.next_at(key, now_ns) {
                let Some(mut held) = self.held.remove(&id) else { continue };
                self.waited(&mut held, now_ns);
                held.at += 1;
                if self.walk(id, &mut held, now_ns) {
                    self.count(held.share, held.met);
                    woken.extend(held.waiter.take());
                }
                self.held.insert(id, held);
            }
            self.schedule(key);
        }
    }

    /// The next request that passes this gate. A request that has left takes nothing.
    fn next_at(&mut self, key: Key, now_ns: u64) -> Option<u64> {
        let held = &self.held;
        let cost = |id: &u64| {
            let step = held.get(id).and_then(|held| held.path.step(held.at));
            step.filter(|step| step.key == key).map_or(0, |step| step.cost)
        };
        self.gates.get_mut(&key)?.next(now_ns, cost)
    }

    /// A request has passed the gate where it waited.
    fn waited(&mut self, held: &mut ThrottledRequest, now_ns: u64) {
        let Some(step) = held.path.step(held.at) else { return };
        let waited_ns = now_ns.saturating_sub(held.since_ns);
        if waited_ns >= held.longest_ns {
            (held.longest_ns, held.met) = (waited_ns, step.met);
        }
        self.waits_no_more(held.share, step.key, now_ns);
    }

    fn waits(&mut self, share: u32, key: Key, now_ns: u64) {
        let Some(of) = self.shares.get_mut(&share) else { return };
        of.waiting += 1;
        of.withheld += usize::from(key.withholds());
        if key.withholds() && of.withheld == 1 {
            self.withhold(share, true, now_ns);
        }
    }

    fn waits_no_more(&mut self, share: u32, key: Key, now_ns: u64) {
        let Some(of) = self.shares.get_mut(&share) else { return };
        of.waiting = of.waiting.saturating_sub(1);
        of.withheld = of.withheld.saturating_sub(usize::from(key.withholds()));
        if key.withholds() && of.withheld == 0 {
            self.withhold(share, false, now_ns);
        }
    }

    fn withhold(&mut self, share: u32, withheld: bool, now_ns: u64) {
        let key = Key { owner: Owner::Share(share), passing: GateUnit::Operations };
        if let Some(RateGate { meter: Meter::Bursting(rate), .. }) = self.gates.get_mut(&key) {
            rate.withhold(withheld, now_ns);
        }
    }

    /// A request stops waiting without having passed.
    fn stops_waiting(&mut self, id: u64) {
        let Some(held) = self.held.get(&id).filter(|held| held.waiter.is_some()) else { return };
        if let Some(step) = held.path.step(held.at) {
            let (share, since_ns) = (held.share, held.since_ns);
            self.waits_no_more(share, step.key, since_ns);
        }
    }

    /// A request is given up, or its outcome is known. Its entry in the queue is passed over later.
    fn leave(&mut self, id: u64, is_done: bool) -> Option<ThrottledRequest> {
        self.stops_waiting(id);
        let held = self.held.remove(&id)?;
        if is_done {
            for step in held.path.steps().skip(held.at) {
                self.owe(step.key, step.cost);
            }
        } else {
            for step in held.path.steps().take(held.at) {
                self.give_back_at(step.key, step.cost);
            }
        }
        Some(held)
    }

    /// Takes the tokens of work that was done without waiting. Other requests pass when the debt is paid.
    fn owe(&mut self, key: Key, cost: u64) {
        if let Some(gate) = self.gates.get_mut(&key) {
            gate.meter.take(cost);
            self.schedule(key);
        }
    }

    /// Takes the whole cost of some work.
    fn charge(&mut self, share: u32, work: MeteredWork, now_ns: u64) {
        let Some(of) = self.shares.get(&share) else { return };
        let path = GatePath::of(share, work, &of.provision, self.account.as_ref());
        for step in path.steps() {
            if self.gate(step.key, now_ns).is_some() {
                self.owe(step.key, step.cost);
            }
        }
    }

    fn count(&mut self, share: u32, met: ResponseType) {
        if let Some(of) = self.shares.get_mut(&share) {
            of.counts[met as usize] += 1;
        }
    }

    fn give_back(&mut self, share: u32, work: MeteredWork, unused: u64) {
        let Some(of) = self.shares.get(&share) else { return };
        let path = GatePath::of(share, work, &of.provision, self.account.as_ref());
        for step in path.steps() {
            self.give_back_at(step.key, unused);
        }
    }

    /// The bytes that may be taken now at one gate, if it counts bytes.
    fn give_back_at(&mut self, key: Key, unused: u64) {
        if key.passing.is_bytes()
            && let Some(gate) = self.gates.get_mut(&key)
        {
            gate.give_back(unused);
            self.schedule(key);
        }
    }

    fn bytes_left(&mut self, share: u32, work: MeteredWork, now_ns: u64) -> Vec<i64> {
        let Some(of) = self.shares.get(&share) else { return Vec::new() };
        let path = GatePath::of(share, work, &of.provision, self.account.as_ref());
        let counted = path.steps().filter(|step| step.key.passing.is_bytes());
        counted.filter_map(|step| self.gate(step.key, now_ns)?.left(now_ns)).collect()
    }

    fn share_state(&mut self, share: u32, now_ns: u64) -> Option<ShareState> {
        let of = self.shares.get(&share)?;
        let key = Key { owner: Owner::Share(share), passing: GateUnit::Operations };
        let burst_credits = match self.gates.get_mut(&key) {
            Some(RateGate { meter: Meter::Bursting(rate), .. }) => {
                rate.refill(now_ns);
                rate.burst_credits()
            }
            _ => 0,
        };
        let (provision, held, counts) = (of.provision, of.waiting, of.counts);
        Some(ShareState { provision, burst_credits, held, counts })
    }
}

fn file_meter(provision: &Provision, passing: GateUnit, now_ns: u64) -> Meter {
    match passing {
        GateUnit::Operations => Meter::plain(provision.file_operations, now_ns),
        _ => Meter::plain(provision.file_bytes, now_ns),
    }
}
