//! The state machine of one node: from waiting for a virtual server to the end of serving it.
//!
//! ```text
//!            Owned                    failed
//!          ┌───────┐           ┌──────────────────┐
//!          ▼       │           ▼                  │
//!       Waiting ► Taking ► Fencing ► Starting ► Serving ► Quieting ► Releasing ► Ended
//!                             └─────────┴──────────┴─ the term is over ───────────► Ended
//! ```
//!
//! After a fence or a start that failed, the node gives the tenure back and pauses (`GivingUp`).
//!
//! [`Ownership::handle`] takes an [`OwnershipEvent`] and returns the [`Action`]s to carry out.
//! [`Ownership::deadline`] is
//! the time of the next [`OwnershipEvent::Woken`]. Terms are renewed from the moment in which one was
//! taken. The end of
//! the term is counted from before the store was asked, less a margin, so it is never later than the
//! end that
//! the store sees.

use std::time::Duration;

use crate::{BootTime, Epoch, NodeOwner, StoreError, TakeOutcome, Taken, TenureRecord};

/// The times of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The length of the term to ask for. The store may grant a shorter one, whose renewals come sooner.
    pub term: Duration,
    /// The part of a term at its end in which nothing is sent any more: for the time between the last
    /// look at
    /// the clock and the send, and for clocks that differ in speed.
    pub margin: Duration,
    /// The time between two renewals.
    pub renew: Duration,
    /// The pause after a failed renewal, and before the next attempt to take a tenure.
    pub retry: Duration,
    /// The pause after a fence or a start that failed. Other nodes may try meanwhile.
    pub pause: Duration,
}

impl Times {
    /// The usual times for a term of this length.
    #[must_use]
    pub fn of_term(term: Duration) -> Times {
        Times {
            term,
            margin: (term / 10).max(Duration::from_millis(100)),
            renew: term / 3,
            retry: (term / 20).clamp(LEAST_PAUSE, Duration::from_secs(1)),
            pause: term.max(Duration::from_secs(5)),
        }
    }

    /// The times for a term that the store has granted. A shorter one than was asked for is renewed sooner,
    /// and has a shorter margin.
    fn for_granted(self, granted: Duration) -> Times {
        let Times { margin, renew, retry, .. } = Times::of_term(granted);
        Times {
            margin: margin.min(self.margin),
            // The rest of a grant that nobody extends becomes shorter with each renewal.
            renew: renew.min(self.renew).max(LEAST_PAUSE),
            retry: retry.min(self.retry),
            ..self
        }
    }
}

/// The shortest time between two calls to the store.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "few exist at a time")]
pub enum OwnershipEvent {
    /// The deadline was reached, or the watch has returned.
    Woken,
    /// The store's reply to [`Action::Take`], which was sent at `asked`.
    Took {
        /// The time right before the store was asked.
        asked: BootTime,
        /// Its reply.
        outcome: Result<TakeOutcome, StoreError>,
    },
    /// The outcome of [`Action::Fence`]: all former owners are fenced, or the reason why not.
    Fenced(Result<(), String>),
    /// The outcome of [`Action::Start`], with the GUID of the state directory.
    Started(Result<String, String>),
    /// The store's reply to [`Action::Renew`], which was sent at `asked`.
    Renewed {
        /// The time right before the store was asked.
        asked: BootTime,
        /// Its reply: the length of the term, none if it has no end.
        outcome: Result<Option<Duration>, StoreError>,
    },
    /// The store's reply to [`Action::Update`].
    Updated(Result<(), StoreError>),
    /// An administrator wants the virtual server to leave this node, to any node or to this one.
    Leave {
        /// The name of the next node.
        to: Option<String>,
    },
    /// The outcome of [`Action::Quiet`]: the server sends nothing more and has written everything.
    Quiet,
    /// The store's reply to [`Action::Release`].
    Released(Result<(), StoreError>),
}

/// Something for the caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Wait until the tenure may be free, at most for this time, then report [`OwnershipEvent::Woken`].
    /// A watch that returns at once does no harm: the pauses between attempts are kept by
    /// [`Ownership::deadline`].
    Watch(Duration),
    /// Ask the store for the tenure.
    Take {
        /// Whether it is asked for though it is reserved for another node.
        overrides_reservation: bool,
    },
    /// Fence these former owners. Nothing of the state directory may be read before. One of them may be
    /// an earlier boot of this very node. The caller looks at the clock right before it fences: an owner
    /// whose term is over may fence the next one.
    Fence(Vec<NodeOwner>),
    /// Open the state directory and serve, for a term that ends at `until`. A start that has failed has
    /// left nothing that still writes, since its owner is not fenced.
    Start {
        /// The epoch of the term.
        epoch: Epoch,
        /// The end of the term, less the margin.
        until: BootTime,
        /// The GUID that the state directory must have. Empty if it is not known yet.
        guid: String,
    },
    /// The term now ends at this time, less the margin.
    Extend(BootTime),
    /// Ask the store to renew the term.
    Renew(Epoch),
    /// Write the record of the present owner to the store.
    Update(TenureRecord),
    /// Send nothing more to clients, remove the addresses, and write what is not written yet. The
    /// connections
    /// stay open.
    Quiet,
    /// Give the tenure back, with this record.
    Release(TenureRecord),
    /// End at once. Nothing more may be sent.
    End(EndReason),
}

/// The reason of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The tenure was given back.
    Released,
    /// The term is over, since the store could not be asked in time. The text is its last error.
    TermOver(String),
    /// The store says that this node does not own the virtual server.
    NotOwner(String),
}

/// A line for the log: the reason why this node does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "few exist at a time")]
pub enum Hindrance {
    /// Another node owns the virtual server, or it is reserved for one.
    Owned(TenureRecord),
    /// The store failed.
    Store(StoreError),
    /// A former owner could not be fenced.
    Fence {
        /// The owners that are not fenced.
        former: Vec<NodeOwner>,
        /// The reason.
        why: String,
    },
    /// The server could not be started.
    Start(String),
}

/// The tenure that this node has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tenure {
    record: TenureRecord,
    /// The time at which the store was asked for the tenure. Earlier renewals belong to an earlier one.
    asked: BootTime,
    /// The end of the term, less the margin.
    until: BootTime,
    /// The times for the last term that the store has granted. Their margin never becomes shorter.
    times: Times,
    /// The time of the next renewal. None while one is under way, or if the term has no end.
    renew_at: Option<BootTime>,
    /// The last failure of a renewal.
    last_error: Option<StoreError>,
    /// Whether the store has an older record than this one.
    owes_update: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a process has one")]
enum Phase {
    /// It waits until this time, or for the watch, but not less than until `not_before`.
    Waiting {
        until: BootTime,
        not_before: BootTime,
    },
    Taking,
    /// It has the tenure.
    Owning(Tenure, OwnerStep),
    /// It gives back a tenure under which it has served nothing, and goes on waiting. The tenure has ended
    /// at this time in any case.
    GivingUp {
        until: BootTime,
    },
    Ended,
}

/// The activity of a node that has the tenure.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnerStep {
    Fencing,
    Starting,
    Serving,
    /// It sends nothing more.
    Quieting(LeaveRequest),
    Releasing {
        to: LeaveRequest,
        /// The time of the next attempt. None while one is under way.
        retry_at: Option<BootTime>,
    },
}

/// The wish of an administrator that the virtual server leaves this node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeaveRequest {
    /// The name of the next node.
    to: Option<String>,
}

/// The present activity of a node, for status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnershipStage {
    /// It waits for the tenure.
    Waiting,
    /// It fences former owners.
    Fencing,
    /// It starts the server.
    Starting,
    /// It serves.
    Serving,
    /// It gives the tenure back.
    Releasing,
    /// It has ended.
    Ended,
}

/// The state machine of one node, for one virtual server.
#[derive(Debug)]
pub struct Ownership {
    node: String,
    times: Times,
    phase: Phase,
    /// The epoch that left a reservation for another node, and the time at which this node found it first.
    reserved_since: Option<(Epoch, BootTime)>,
    /// A wish to leave that came when the tenure was taken, but nothing was served yet.
    leaving: Option<LeaveRequest>,
    hindrance: Option<Hindrance>,
    /// The last hindrance that was told.
    told: Option<Hindrance>,
    /// Whether another program decides which node serves, and extends its term.
    is_external: bool,
}

impl Ownership {
    /// A node that waits. Its first deadline is now.
    #[must_use]
    pub fn new(node: String, times: Times, now: BootTime) -> Ownership {
        let phase = Phase::Waiting { until: now, not_before: now };
        let (leaving, hindrance, told) = (None, None, None);
        let (reserved_since, is_external) = (None, false);
        Ownership { node, times, phase, reserved_since, leaving, hindrance, told, is_external }
    }

    /// The same node, whose term another program extends by `trunkline node hold`.
    #[must_use]
    pub fn decided_elsewhere(self) -> Ownership {
        Ownership { is_external: true, ..self }
    }

    /// The present activity of the node.
    #[must_use]
    pub fn stage(&self) -> OwnershipStage {
        match &self.phase {
            Phase::Waiting { .. } | Phase::Taking | Phase::GivingUp { .. } => OwnershipStage::Waiting,
            Phase::Owning(_, OwnerStep::Fencing) => OwnershipStage::Fencing,
            Phase::Owning(_, OwnerStep::Starting) => OwnershipStage::Starting,
            Phase::Owning(_, OwnerStep::Serving) => OwnershipStage::Serving,
            Phase::Owning(_, OwnerStep::Quieting(_) | OwnerStep::Releasing { .. }) => {
                OwnershipStage::Releasing
            }
            Phase::Ended => OwnershipStage::Ended,
        }
    }

    /// The record of the tenure that this node has.
    #[must_use]
    pub fn record(&self) -> Option<&TenureRecord> {
        self.tenure().map(|tenure| &tenure.record)
    }

    /// The end of the term of this node, less the margin. Its caller compares it with the clock right before
    /// it carries out [`Action::Fence`] or [`Action::Start`].
    #[must_use]
    pub fn until(&self) -> Option<BootTime> {
        self.tenure().map(|tenure| tenure.until)
    }

    /// The reason why this node does not serve, once for each new reason.
    pub fn take_hindrance(&mut self) -> Option<Hindrance> {
        self.hindrance.take()
    }

    fn hinder(&mut self, hindrance: Hindrance) {
        if self.told.as_ref() != Some(&hindrance) {
            self.told = Some(hindrance.clone());
            self.hindrance = Some(hindrance);
        }
    }

    /// The time at which [`OwnershipEvent::Woken`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<BootTime> {
        match &self.phase {
            Phase::Waiting { until, .. } | Phase::GivingUp { until } => Some(*until),
            Phase::Owning(tenure, OwnerStep::Releasing { retry_at, .. }) => {
                Some(retry_at.unwrap_or(tenure.until).min(tenure.until))
            }
            _ => self.tenure().map(|tenure| tenure.renew_at.unwrap_or(tenure.until).min(tenure.until)),
        }
        .filter(|at| *at != BootTime::NEVER)
    }

    /// Handles an event at the time `now`.
    pub fn handle(&mut self, event: OwnershipEvent, now: BootTime) -> Vec<Action> {
        // A term that is over ends everything, whatever has come.
        if let Some(tenure) = self.tenure().filter(|tenure| now >= tenure.until) {
            let why = tenure.last_error.as_ref().map_or_else(|| self.silence(), ToString::to_string);
            let is_released = matches!(&self.phase, Phase::Owning(_, OwnerStep::Releasing { .. }))
                && matches!(&event, OwnershipEvent::Released(Ok(())));
            return self.end(if is_released { EndReason::Released } else { EndReason::TermOver(why) });
        }
        match event {
            OwnershipEvent::Woken => self.woken(now),
            OwnershipEvent::Took { asked, outcome } => self.took(asked, outcome, now),
            OwnershipEvent::Fenced(outcome) => self.fenced(outcome),
            OwnershipEvent::Started(outcome) => self.started(outcome),
            OwnershipEvent::Renewed { asked, outcome } => self.renewed(asked, outcome, now),
            OwnershipEvent::Updated(outcome) => self.updated(outcome, now),
            OwnershipEvent::Leave { to } => self.leave(LeaveRequest { to }),
            OwnershipEvent::Quiet => self.quiet(),
            OwnershipEvent::Released(outcome) => self.released(outcome, now),
        }
    }

    /// The reason of a term that is over without a failure.
    fn silence(&self) -> String {
        let why = match self.is_external {
            true => {
                "nobody has extended it by `trunkline node hold` in time (or this process or its host stood \
                 still)"
            }
            false => "this process or its host stood still for too long",
        };
        why.to_owned()
    }

    fn tenure(&self) -> Option<&Tenure> {
        match &self.phase {
            Phase::Owning(tenure, _) => Some(tenure),
            _ => None,
        }
    }

    fn end(&mut self, reason: EndReason) -> Vec<Action> {
        self.phase = Phase::Ended;
        vec![Action::End(reason)]
    }

    /// Waits for the watch, for a term at most.
    fn watch(&mut self, now: BootTime) -> Vec<Action> {
        let Times { term, retry, .. } = self.times;
        self.phase = Phase::Waiting { until: now.plus(term), not_before: now.plus(retry) };
        vec![Action::Watch(term)]
    }

    /// Waits for this time, whether the tenure is free or not.
    fn pause(&mut self, pause: Duration, now: BootTime) -> Vec<Action> {
        let until = now.plus(pause);
        self.phase = Phase::Waiting { until, not_before: until };
        Vec::new()
    }

    fn woken(&mut self, now: BootTime) -> Vec<Action> {
        let Times { term, pause, .. } = self.times;
        match &mut self.phase {
            Phase::Waiting { until, not_before } if now < *not_before => {
                // The watch has returned. The deadline brings the attempt.
                *until = *not_before;
                Vec::new()
            }
            Phase::Waiting { .. } => {
                self.phase = Phase::Taking;
                let is_over = |(_, since): (Epoch, BootTime)| now.since(since) >= term;
                vec![Action::Take { overrides_reservation: self.reserved_since.is_some_and(is_over) }]
            }
            Phase::GivingUp { until } if now >= *until => self.gave_up(pause, now),
            Phase::Owning(tenure, OwnerStep::Releasing { to, retry_at }) => match *retry_at {
                Some(at) if at <= now => {
                    *retry_at = None;
                    vec![Action::Release(tenure.record.clone().released(to.to.clone()))]
                }
                _ => Vec::new(),
            },
            Phase::Owning(tenure, _) => match tenure.renew_at {
                Some(at) if at <= now => {
                    tenure.renew_at = None;
                    vec![Action::Renew(tenure.record.epoch)]
                }
                _ => Vec::new(),
            },
            Phase::Taking | Phase::GivingUp { .. } | Phase::Ended => Vec::new(),
        }
    }

    fn took(
        &mut self,
        asked: BootTime,
        outcome: Result<TakeOutcome, StoreError>,
        now: BootTime,
    ) -> Vec<Action> {
        if self.phase != Phase::Taking {
            return Vec::new();
        }
        let Taken { record, term } = match outcome {
            Ok(TakeOutcome::Taken(taken)) => taken,
            Ok(TakeOutcome::Owned(record)) => return self.not_taken(Ok(record), now),
            Err(error) => return self.not_taken(Err(error), now),
        };
        self.reserved_since = None;
        let times = term.map_or(self.times, |term| self.times.for_granted(term));
        let until = end_of(asked, term, times);
        if now >= until {
            // Another node may own it by now, so nobody is fenced and nothing is read.
            let late = StoreError::Unreachable("its reply came after the end of the term".to_owned());
            return self.not_taken(Err(late), now);
        }
        let renew_at = term.map(|_| asked.plus(times.renew));
        let former = record.to_fence();
        let (last_error, owes_update) = (None, false);
        let tenure = Tenure { record, asked, until, times, renew_at, last_error, owes_update };
        if let Some(to) = self.leaving.take() {
            return self.release(tenure, to);
        }
        if former.is_empty() {
            return self.start(tenure);
        }
        self.phase = Phase::Owning(tenure, OwnerStep::Fencing);
        vec![Action::Fence(former)]
    }

    /// Waits for the next attempt, or ends if this node is to leave.
    fn not_taken(&mut self, found: Result<TenureRecord, StoreError>, now: BootTime) -> Vec<Action> {
        if self.leaving.is_some() {
            return self.end(EndReason::Released);
        }
        match found {
            Ok(record) => {
                let is_reserved = record.owner.is_none() && record.reserved_for.is_some();
                let before = self.reserved_since.filter(|(epoch, _)| *epoch == record.epoch);
                self.reserved_since = is_reserved.then(|| before.unwrap_or((record.epoch, now)));
                self.hinder(Hindrance::Owned(record));
                self.watch(now)
            }
            Err(error) => {
                self.hinder(Hindrance::Store(error));
                self.pause(self.times.retry, now)
            }
        }
    }

    fn start(&mut self, tenure: Tenure) -> Vec<Action> {
        let (epoch, guid) = (tenure.record.epoch, tenure.record.guid.clone());
        let start = Action::Start { epoch, until: tenure.until, guid };
        self.phase = Phase::Owning(tenure, OwnerStep::Starting);
        vec![start]
    }

    fn fenced(&mut self, outcome: Result<(), String>) -> Vec<Action> {
        let Phase::Owning(tenure, OwnerStep::Fencing) = &self.phase else { return Vec::new() };
        let mut tenure = tenure.clone();
        match outcome {
            Ok(()) => {
                // The store hears of it when the server has started. So a tenure has one update at most,
                // and one that arrives late changes nothing.
                tenure.record = tenure.record.fenced();
                match self.leaving.take() {
                    Some(to) => self.release(tenure, to),
                    None => self.start(tenure),
                }
            }
            Err(why) => {
                let former = tenure.record.to_fence();
                tenure.record = tenure.record.after_failure(&format!("the fence failed: {why}"));
                self.hinder(Hindrance::Fence { former, why });
                self.give_up(tenure)
            }
        }
    }

    fn started(&mut self, outcome: Result<String, String>) -> Vec<Action> {
        let Phase::Owning(tenure, OwnerStep::Starting) = &self.phase else { return Vec::new() };
        let mut tenure = tenure.clone();
        let guid = match outcome {
            Ok(guid) => guid,
            Err(why) => {
                tenure.record = tenure.record.after_failure(&why);
                self.hinder(Hindrance::Start(why));
                return self.give_up(tenure);
            }
        };
        if tenure.record.guid.is_empty() {
            tenure.record.guid = guid;
        } else if tenure.record.guid != guid {
            let why = format!("the state directory has the GUID {guid}, its record {}", tenure.record.guid);
            return self.end(EndReason::NotOwner(why));
        }
        tenure.record = tenure.record.started();
        self.told = None;
        let update = Action::Update(tenure.record.clone());
        self.phase = Phase::Owning(tenure, OwnerStep::Serving);
        let leave = self.leaving.take().map_or_else(Vec::new, |to| self.leave(to));
        std::iter::once(update).chain(leave).collect()
    }

    /// Gives back a tenure under which nothing was served. Owners that were not fenced stay on record.
    fn give_up(&mut self, tenure: Tenure) -> Vec<Action> {
        if let Some(to) = self.leaving.take() {
            return self.release(tenure, to);
        }
        self.phase = Phase::GivingUp { until: tenure.until };
        vec![Action::Release(tenure.record.released(None))]
    }

    fn gave_up(&mut self, pause: Duration, now: BootTime) -> Vec<Action> {
        match self.leaving {
            Some(_) => self.end(EndReason::Released),
            None => self.pause(pause, now),
        }
    }

    fn release(&mut self, tenure: Tenure, to: LeaveRequest) -> Vec<Action> {
        let release = Action::Release(tenure.record.clone().released(to.to.clone()));
        self.phase = Phase::Owning(tenure, OwnerStep::Releasing { to, retry_at: None });
        vec![release]
    }

    fn renewed(
        &mut self,
        asked: BootTime,
        outcome: Result<Option<Duration>, StoreError>,
        now: BootTime,
    ) -> Vec<Action> {
        let usual = self.times;
        let is_releasing = matches!(self.phase, Phase::Owning(_, OwnerStep::Releasing { .. }));
        let is_serving = matches!(self.phase, Phase::Owning(_, OwnerStep::Serving));
        let tenure = match &mut self.phase {
            Phase::Owning(tenure, _) if asked > tenure.asked => tenure,
            _ => return Vec::new(),
        };
        match outcome {
            Ok(term) => {
                tenure.last_error = None;
                let times = term.map_or(usual, |term| usual.for_granted(term));
                tenure.times = Times { margin: times.margin.max(tenure.times.margin), ..times };
                tenure.renew_at = term.map(|_| asked.plus(tenure.times.renew).max(now));
                // A delayed reply never shortens a term.
                tenure.until = tenure.until.max(end_of(asked, term, tenure.times));
                let owes_update = is_serving && std::mem::take(&mut tenure.owes_update);
                let update = owes_update.then(|| Action::Update(tenure.record.clone()));
                std::iter::once(Action::Extend(tenure.until)).chain(update).collect()
            }
            // The release was done before this renewal. Its own reply tells.
            Err(StoreError::NotOwner(_)) if is_releasing => Vec::new(),
            Err(StoreError::NotOwner(why)) => self.end(EndReason::NotOwner(why)),
            Err(error) => {
                tenure.last_error = Some(error);
                tenure.renew_at = Some(now.plus(tenure.times.retry));
                Vec::new()
            }
        }
    }

    fn updated(&mut self, outcome: Result<(), StoreError>, now: BootTime) -> Vec<Action> {
        match (&mut self.phase, outcome) {
            (
                Phase::Owning(_, OwnerStep::Serving | OwnerStep::Quieting(_)),
                Err(StoreError::NotOwner(why)),
            ) => self.end(EndReason::NotOwner(why)),
            // The next owner would fence again, so it is written after the next renewal.
            (Phase::Owning(tenure, OwnerStep::Serving), Err(_)) => {
                tenure.owes_update = true;
                if tenure.until == BootTime::NEVER {
                    // A term without end is renewed for this alone.
                    tenure.renew_at = Some(now.plus(tenure.times.retry));
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn leave(&mut self, request: LeaveRequest) -> Vec<Action> {
        if request.to.as_deref() == Some(self.node.as_str()) {
            return Vec::new();
        }
        match &self.phase {
            Phase::Owning(tenure, OwnerStep::Serving) => {
                self.phase = Phase::Owning(tenure.clone(), OwnerStep::Quieting(request));
                vec![Action::Quiet]
            }
            Phase::Waiting { .. } => self.end(EndReason::Released),
            Phase::Taking
            | Phase::Owning(_, OwnerStep::Fencing | OwnerStep::Starting)
            | Phase::GivingUp { .. } => {
                self.leaving.get_or_insert(request);
                Vec::new()
            }
            Phase::Owning(_, OwnerStep::Quieting(_) | OwnerStep::Releasing { .. }) | Phase::Ended => {
                Vec::new()
            }
        }
    }

    fn quiet(&mut self) -> Vec<Action> {
        let Phase::Owning(tenure, OwnerStep::Quieting(to)) = &self.phase else { return Vec::new() };
        let (tenure, to) = (tenure.clone(), to.clone());
        self.release(tenure, to)
    }

    fn released(&mut self, outcome: Result<(), StoreError>, now: BootTime) -> Vec<Action> {
        let Times { retry, pause, .. } = self.times;
        match (&mut self.phase, outcome) {
            (Phase::GivingUp { .. }, _) => self.gave_up(pause, now),
            // The term runs, so only an earlier attempt can have ended the tenure.
            (Phase::Owning(_, OwnerStep::Releasing { .. }), Ok(()) | Err(StoreError::NotOwner(_))) => {
                self.end(EndReason::Released)
            }
            (Phase::Owning(tenure, OwnerStep::Releasing { .. }), Err(error))
                if tenure.until == BootTime::NEVER =>
            {
                self.end(EndReason::TermOver(error.to_string()))
            }
            (Phase::Owning(tenure, OwnerStep::Releasing { retry_at, .. }), Err(error)) => {
                tenure.last_error = Some(error);
                *retry_at = Some(now.plus(retry));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The name of this node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }
}

/// The end of a term of this length that was asked for at `asked`, less the margin.
fn end_of(asked: BootTime, term: Option<Duration>, times: Times) -> BootTime {
    term.map_or(BootTime::NEVER, |term| asked.plus(term.saturating_sub(times.margin)))
}
