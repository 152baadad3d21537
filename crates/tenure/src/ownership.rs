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
    /// The length of a term.
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
            retry: (term / 20).clamp(Duration::from_millis(50), Duration::from_secs(1)),
            pause: term.max(Duration::from_secs(5)),
        }
    }
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    Watch(Duration),
    /// Ask the store for the tenure.
    Take {
        /// Whether it is asked for though it is reserved for another node.
        overrides_reservation: bool,
    },
    /// Fence these former owners. Nothing of the state directory may be read before.
    Fence(Vec<NodeOwner>),
    /// Open the state directory and serve, for a term that ends at `until`.
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
    /// The end of the term, less the margin.
    until: BootTime,
    /// The time of the next renewal. None while one is under way, or if the term has no end.
    renew_at: Option<BootTime>,
    /// The last failure of a renewal.
    last_error: Option<StoreError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// It waits until this time, or for the watch.
    Waiting {
        until: BootTime,
    },
    Taking,
    Fencing(Tenure),
    Starting(Tenure),
    Serving(Tenure),
    /// It sends nothing more.
    Quieting(Tenure, Option<String>),
    Releasing(Tenure),
    /// It gives back a tenure under which it has served nothing, and goes on waiting.
    GivingUp,
    Ended,
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
    /// The time at which this node first found the tenure free and reserved for another node.
    reserved_since: Option<BootTime>,
    hindrance: Option<Hindrance>,
}

impl Ownership {
    /// A node that waits. Its first deadline is now.
    #[must_use]
    pub fn new(node: String, times: Times, now: BootTime) -> Ownership {
        Ownership { node, times, phase: Phase::Waiting { until: now }, reserved_since: None, hindrance: None }
    }

    /// The present activity of the node.
    #[must_use]
    pub fn stage(&self) -> OwnershipStage {
        match &self.phase {
            Phase::Waiting { .. } | Phase::Taking | Phase::GivingUp => OwnershipStage::Waiting,
            Phase::Fencing(_) => OwnershipStage::Fencing,
            Phase::Starting(_) => OwnershipStage::Starting,
            Phase::Serving(_) => OwnershipStage::Serving,
            Phase::Quieting(..) | Phase::Releasing(_) => OwnershipStage::Releasing,
            Phase::Ended => OwnershipStage::Ended,
        }
    }

    /// The record of the tenure that this node has.
    #[must_use]
    pub fn record(&self) -> Option<&TenureRecord> {
        self.tenure().map(|tenure| &tenure.record)
    }

    /// The reason why this node does not serve, once for each new reason.
    pub fn take_hindrance(&mut self) -> Option<Hindrance> {
        self.hindrance.take()
    }

    /// The time at which [`OwnershipEvent::Woken`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<BootTime> {
        match &self.phase {
            Phase::Waiting { until } => Some(*until),
            _ => self.tenure().map(|tenure| tenure.renew_at.map_or(tenure.until, |at| at.min(tenure.until))),
        }
        .filter(|at| *at != BootTime::NEVER)
    }

    /// Handles an event at the time `now`.
    pub fn handle(&mut self, event: OwnershipEvent, now: BootTime) -> Vec<Action> {
        // A term that is over ends everything, whatever has come.
        if let Some(tenure) = self.tenure().filter(|tenure| now >= tenure.until) {
            let why = tenure.last_error.as_ref().map_or_else(
                || "this process or its host stood still for too long".to_owned(),
                ToString::to_string,
            );
            self.phase = Phase::Ended;
            return vec![Action::End(EndReason::TermOver(why))];
        }
        match event {
            OwnershipEvent::Woken => self.woken(now),
            OwnershipEvent::Took { asked, outcome } => self.took(asked, outcome, now),
            OwnershipEvent::Fenced(outcome) => self.fenced(outcome),
            OwnershipEvent::Started(outcome) => self.started(outcome),
            OwnershipEvent::Renewed { asked, outcome } => self.renewed(asked, outcome, now),
            OwnershipEvent::Updated(outcome) => self.updated(outcome),
            OwnershipEvent::Leave { to } => self.leave(to),
            OwnershipEvent::Quiet => self.quiet(),
            OwnershipEvent::Released(outcome) => self.released(outcome, now),
        }
    }

    fn tenure(&self) -> Option<&Tenure> {
        match &self.phase {
            Phase::Fencing(tenure)
            | Phase::Starting(tenure)
            | Phase::Serving(tenure)
            | Phase::Quieting(tenure, _)
            | Phase::Releasing(tenure) => Some(tenure),
            Phase::Waiting { .. } | Phase::Taking | Phase::GivingUp | Phase::Ended => None,
        }
    }

    fn tenure_mut(&mut self) -> Option<&mut Tenure> {
        match &mut self.phase {
            Phase::Fencing(tenure)
            | Phase::Starting(tenure)
            | Phase::Serving(tenure)
            | Phase::Quieting(tenure, _)
            | Phase::Releasing(tenure) => Some(tenure),
            Phase::Waiting { .. } | Phase::Taking | Phase::GivingUp | Phase::Ended => None,
        }
    }

    /// The end of a term of this length that was asked for at `asked`, less the margin.
    fn end_of(&self, asked: BootTime, term: Option<Duration>) -> BootTime {
        term.map_or(BootTime::NEVER, |term| asked.plus(term.saturating_sub(self.times.margin)))
    }

    fn wait(&mut self, pause: Duration, now: BootTime) -> Vec<Action> {
        self.phase = Phase::Waiting { until: now.plus(pause) };
        vec![Action::Watch(pause)]
    }

    fn woken(&mut self, now: BootTime) -> Vec<Action> {
        if matches!(self.phase, Phase::Waiting { .. }) {
            self.phase = Phase::Taking;
            let term = self.times.term;
            let overrides_reservation = self.reserved_since.is_some_and(|since| now.since(since) >= term);
            return vec![Action::Take { overrides_reservation }];
        }
        let Some(tenure) = self.tenure_mut() else { return Vec::new() };
        match tenure.renew_at {
            Some(at) if at <= now => {
                tenure.renew_at = None;
                vec![Action::Renew(tenure.record.epoch)]
            }
            _ => Vec::new(),
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
            Ok(TakeOutcome::Owned(record)) => {
                let is_reserved = record.owner.is_none() && record.reserved_for.is_some();
                self.reserved_since = is_reserved.then(|| self.reserved_since.unwrap_or(now));
                self.hindrance = Some(Hindrance::Owned(record));
                return self.wait(self.times.term, now);
            }
            Err(error) => {
                self.hindrance = Some(Hindrance::Store(error));
                return self.wait(self.times.retry, now);
            }
        };
        self.reserved_since = None;
        let until = self.end_of(asked, term);
        let renew_at = term.map(|_| asked.plus(self.times.renew));
        let former = record.unfenced.clone();
        let tenure = Tenure { record, until, renew_at, last_error: None };
        if former.is_empty() {
            return self.start(tenure);
        }
        self.phase = Phase::Fencing(tenure);
        vec![Action::Fence(former)]
    }

    fn start(&mut self, tenure: Tenure) -> Vec<Action> {
        let (epoch, guid) = (tenure.record.epoch, tenure.record.guid.clone());
        let start = Action::Start { epoch, until: tenure.until, guid };
        self.phase = Phase::Starting(tenure);
        vec![start]
    }

    fn fenced(&mut self, outcome: Result<(), String>) -> Vec<Action> {
        let Phase::Fencing(tenure) = &self.phase else { return Vec::new() };
        let mut tenure = tenure.clone();
        match outcome {
            Ok(()) => {
                tenure.record = tenure.record.fenced();
                let update = Action::Update(tenure.record.clone());
                let mut actions = self.start(tenure);
                actions.push(update);
                actions
            }
            Err(why) => {
                let former = tenure.record.unfenced.clone();
                self.hindrance = Some(Hindrance::Fence { former, why });
                self.give_up(tenure)
            }
        }
    }

    fn started(&mut self, outcome: Result<String, String>) -> Vec<Action> {
        let Phase::Starting(tenure) = &self.phase else { return Vec::new() };
        let mut tenure = tenure.clone();
        match outcome {
            Ok(guid) => {
                let is_new = tenure.record.guid != guid;
                tenure.record.guid = guid;
                let update = is_new.then(|| Action::Update(tenure.record.clone()));
                self.phase = Phase::Serving(tenure);
                update.into_iter().collect()
            }
            Err(why) => {
                self.hindrance = Some(Hindrance::Start(why));
                self.give_up(tenure)
            }
        }
    }

    /// Gives back a tenure under which nothing was served. Owners that were not fenced stay on record.
    fn give_up(&mut self, tenure: Tenure) -> Vec<Action> {
        self.phase = Phase::GivingUp;
        vec![Action::Release(tenure.record.released(None))]
    }

    fn renewed(
        &mut self,
        asked: BootTime,
        outcome: Result<Option<Duration>, StoreError>,
        now: BootTime,
    ) -> Vec<Action> {
        let times = self.times;
        let until = outcome.as_ref().ok().map(|term| self.end_of(asked, *term));
        let Some(tenure) = self.tenure_mut() else { return Vec::new() };
        match outcome {
            Ok(term) => {
                tenure.last_error = None;
                tenure.renew_at = term.map(|_| asked.plus(times.renew).max(now));
                // A delayed reply never shortens a term.
                tenure.until = tenure.until.max(until.unwrap_or_default());
                vec![Action::Extend(tenure.until)]
            }
            Err(StoreError::NotOwner(why)) => {
                self.phase = Phase::Ended;
                vec![Action::End(EndReason::NotOwner(why))]
            }
            Err(error) => {
                tenure.last_error = Some(error);
                tenure.renew_at = Some(now.plus(times.retry));
                Vec::new()
            }
        }
    }

    fn updated(&mut self, outcome: Result<(), StoreError>) -> Vec<Action> {
        match (self.tenure(), outcome) {
            (Some(_), Err(StoreError::NotOwner(why))) => {
                self.phase = Phase::Ended;
                vec![Action::End(EndReason::NotOwner(why))]
            }
            // A record that could not be written names owners to fence that are fenced already.
            // The next owner fences them again.
            _ => Vec::new(),
        }
    }

    fn leave(&mut self, to: Option<String>) -> Vec<Action> {
        match &self.phase {
            Phase::Serving(tenure) => {
                self.phase = Phase::Quieting(tenure.clone(), to);
                vec![Action::Quiet]
            }
            Phase::Waiting { .. } => {
                self.phase = Phase::Ended;
                vec![Action::End(EndReason::Released)]
            }
            _ => Vec::new(),
        }
    }

    fn quiet(&mut self) -> Vec<Action> {
        let Phase::Quieting(tenure, to) = &self.phase else { return Vec::new() };
        let release = Action::Release(tenure.record.clone().released(to.clone()));
        self.phase = Phase::Releasing(tenure.clone());
        vec![release]
    }

    fn released(&mut self, outcome: Result<(), StoreError>, now: BootTime) -> Vec<Action> {
        match &self.phase {
            Phase::GivingUp => self.wait(self.times.pause, now),
            Phase::Releasing(_) => {
                self.phase = Phase::Ended;
                let reason = match outcome {
                    Ok(()) => EndReason::Released,
                    Err(error) => EndReason::TermOver(error.to_string()),
                };
                vec![Action::End(reason)]
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
