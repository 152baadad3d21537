//! The promises that hold in a world at each step, and the count of each event.

use std::ops::AddAssign;

use crate::clock::{SECOND, TrueTime};

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// The storage accepted an append of two owners of one epoch.
    TwoOwners,
    /// The storage accepted an append of an owner whose journal a later one had read.
    LateAppend,
    /// A reply was sent when the tenure store had ended the term, or a later owner had read the journal.
    ReplyAfterTerm,
    /// A client read older data than somebody had been told before it asked.
    StaleRead,
    /// Two clients had the same lock.
    GrantedTwice,
    /// A later owner did not find what a client had been told.
    LostRecord,
    /// A server served the state directory of another.
    WrongState,
    /// A node asked for the tenure without a pause.
    BusyLoop,
    /// A server was not served in time after the last fault had healed.
    NotServed,
    /// A term ended though nothing was in the way of its renewal.
    EndedInCalm,
}

impl Breach {
    pub const ALL: [Breach; 10] = [
        Breach::TwoOwners,
        Breach::LateAppend,
        Breach::ReplyAfterTerm,
        Breach::StaleRead,
        Breach::GrantedTwice,
        Breach::LostRecord,
        Breach::WrongState,
        Breach::BusyLoop,
        Breach::NotServed,
        Breach::EndedInCalm,
    ];
}

/// How often what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenureTally {
    pub worlds: u64,
    pub events: u64,
    pub faults: u64,
    pub taken: u64,
    pub renewed: u64,
    /// Calls that the store carried out and whose caller heard of no reply.
    pub unheard: u64,
    /// Calls that the store refused, since they came from an earlier owner.
    pub refused_calls: u64,
    pub fences: u64,
    pub failed_fences: u64,
    /// Appends that arrived after their writer was fenced.
    pub fenced_appends: u64,
    pub appends: u64,
    pub replies: u64,
    /// Replies that were not sent, since the term was over.
    pub withheld: u64,
    /// Replies whose sender was paused between its look at the clock and the send.
    pub paused_in_send: u64,
    pub grants: u64,
    pub moves: u64,
    pub ends: u64,
    /// The longest time from the last fault's end until a server served again, in nanoseconds.
    pub longest_ns: u64,
}

impl AddAssign for TenureTally {
    fn add_assign(&mut self, other: TenureTally) {
        self.worlds += other.worlds;
        self.events += other.events;
        self.faults += other.faults;
        self.taken += other.taken;
        self.renewed += other.renewed;
        self.unheard += other.unheard;
        self.refused_calls += other.refused_calls;
        self.fences += other.fences;
        self.failed_fences += other.failed_fences;
        self.fenced_appends += other.fenced_appends;
        self.appends += other.appends;
        self.replies += other.replies;
        self.withheld += other.withheld;
        self.paused_in_send += other.paused_in_send;
        self.grants += other.grants;
        self.moves += other.moves;
        self.ends += other.ends;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

impl TenureTally {
    /// Whether everything happened that the simulation is for.
    pub fn shows_all(&self) -> bool {
        let all = [
            self.taken,
            self.renewed,
            self.unheard,
            self.refused_calls,
            self.fences,
            self.failed_fences,
            self.fenced_appends,
            self.withheld,
            self.paused_in_send,
            self.grants,
            self.moves,
            self.ends,
        ];
        all.iter().all(|count| *count > 0)
    }
}

/// The breaches and the tally of one world, and its log if somebody wants it.
#[derive(Debug, Default)]
pub struct Checks {
    pub breaches: Vec<(Breach, String)>,
    pub tally: TenureTally,
    pub log: Option<String>,
}

/// More breaches of one world than these are not kept.
const ENOUGH: usize = 20;

impl Checks {
    pub fn must(&mut self, holds: bool, breach: Breach, now: TrueTime, what: impl FnOnce() -> String) {
        if !holds && self.breaches.len() < ENOUGH {
            let text = format!("{breach:?} at {}: {}", seconds(now), what());
            self.line(now, || text.clone());
            self.breaches.push((breach, text));
        }
    }

    /// Adds a line to the log.
    pub fn line(&mut self, now: TrueTime, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push_str(&seconds(now));
            log.push_str("  ");
            log.push_str(&what());
            log.push('\n');
        }
    }
}

fn seconds(now: TrueTime) -> String {
    format!("{:>5}.{:06}", now / SECOND, now % SECOND / 1000)
}
