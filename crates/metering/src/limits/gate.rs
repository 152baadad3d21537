//! A gate: a rate, and the requests that wait for it.

use super::bucket::{Bucket, Bursting, SLACK_NS};
use super::fair_queue::{Flow, Queue};

/// The part of a limit that must be in use before the limit counts as near: nine tenths.
const NEAR: (u64, u64) = (9, 10);
/// The time over which nearness is measured, in nanoseconds.
const NEAR_NS: u64 = 100_000_000;

/// The rate of a gate.
#[derive(Debug, Clone)]
pub enum Meter {
    /// A single rate.
    Plain(Bucket),
    /// A rate that can be exceeded for a time.
    Bursting(Bursting),
    /// One rate, with a warning when its limit is near.
    Watched {
        /// The rate.
        rate: Bucket,
        /// A bucket that is empty when the limit is near.
        near: Bucket,
    },
}

impl Meter {
    /// A plain rate.
    #[must_use]
    pub fn plain(rate: u64, now_ns: u64) -> Meter {
        Meter::Plain(Bucket::new(rate, SLACK_NS, now_ns))
    }

    /// A rate with a warning.
    #[must_use]
    pub fn watched(rate: u64, now_ns: u64) -> Meter {
        let near = Bucket::new(near(rate), NEAR_NS, now_ns);
        Meter::Watched { rate: Bucket::new(rate, SLACK_NS, now_ns), near }
    }

    /// Takes over the rates of `other` from now on. Levels, credits and debts stay.
    pub fn become_like(&mut self, other: Meter, now_ns: u64) {
        match (self, other) {
            (Meter::Plain(own), Meter::Plain(new)) => own.take_rate_of(&new, now_ns),
            (Meter::Bursting(own), Meter::Bursting(new)) => own.take_rates_of(&new, now_ns),
            (Meter::Watched { rate, near }, Meter::Watched { rate: new, near: new_near }) => {
                rate.take_rate_of(&new, now_ns);
                near.take_rate_of(&new_near, now_ns);
            }
            (own, new) => *own = new,
        }
    }

    fn refill(&mut self, now_ns: u64) {
        match self {
            Meter::Plain(rate) => {
                rate.refill(now_ns);
            }
            Meter::Bursting(rate) => rate.refill(now_ns),
            Meter::Watched { rate, near } => {
                rate.refill(now_ns);
                near.refill(now_ns);
            }
        }
    }

    fn is_ready(&self) -> bool {
        match self {
            Meter::Plain(rate) | Meter::Watched { rate, .. } => rate.is_ready(),
            Meter::Bursting(rate) => rate.is_ready(),
        }
    }

    fn ready_at(&self) -> u64 {
        match self {
            Meter::Plain(rate) | Meter::Watched { rate, .. } => rate.ready_at(),
            Meter::Bursting(rate) => rate.ready_at(),
        }
    }

    /// Takes tokens, even if there are too few; the rest is then a debt.
    pub fn take(&mut self, cost: u64) {
        match self {
            Meter::Plain(rate) => rate.take(cost),
            Meter::Bursting(rate) => rate.take(cost),
            Meter::Watched { rate, near } => {
                rate.take(cost);
                near.take(cost);
                near.forgive();
            }
        }
    }
}

fn near(rate: u64) -> u64 {
    (rate * NEAR.0 / NEAR.1).max(1)
}

/// A rate and its waiters.
#[derive(Debug)]
pub struct RateGate<T> {
    /// Its rate.
    pub meter: Meter,
    waiting: Queue<T>,
    /// When the gate is due to be checked; none if nothing waits.
    pub due_ns: Option<u64>,
}

impl<T> RateGate<T> {
    /// A gate where nothing waits.
    #[must_use]
    pub fn new(meter: Meter) -> RateGate<T> {
        RateGate { meter, waiting: Queue::default(), due_ns: None }
    }

    /// Passes at once if nothing waits and the rate allows it.
    pub fn pass(&mut self, cost: u64, now_ns: u64) -> bool {
        self.meter.refill(now_ns);
        let passes = self.waiting.is_empty() && self.meter.is_ready();
        if passes {
            self.meter.take(cost);
        }
        passes
    }

    /// Adds a waiter.
    pub fn wait(&mut self, flow: Flow, item: T) {
        self.waiting.push(flow, item);
    }

    /// Lets the next waiter pass, if the rate allows it. `cost` gives the tokens that it takes: none for a
    /// waiter that has left.
    pub fn next(&mut self, now_ns: u64, cost: impl FnOnce(&T) -> u64) -> Option<T> {
        self.meter.refill(now_ns);
        if !self.meter.is_ready() {
            return None;
        }
        let mut taken = 0;
        let item = self.waiting.pop(|item| {
            taken = cost(item);
            taken
        })?;
        self.meter.take(taken);
        Some(item)
    }

    /// When the next waiter may pass; none if nothing waits.
    #[must_use]
    pub fn ready_at(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then(|| self.meter.ready_at())
    }

    /// Returns tokens that were taken and not used.
    pub fn give_back(&mut self, count: u64) {
        if let Meter::Plain(rate) = &mut self.meter {
            rate.give_back(count);
        }
    }

    /// The tokens that may be taken now without waiting, for a plain rate. A negative number is a debt.
    pub fn left(&mut self, now_ns: u64) -> Option<i64> {
        self.meter.refill(now_ns);
        if let Meter::Plain(rate) = &self.meter { Some(rate.left()) } else { None }
    }

    /// Whether the limit is near.
    #[must_use]
    pub fn is_near(&self) -> bool {
        matches!(&self.meter, Meter::Watched { near, .. } if !near.is_ready())
    }

    /// Whether a new gate in its place would be the same.
    pub fn is_idle(&mut self, now_ns: u64) -> bool {
        self.meter.refill(now_ns);
        self.waiting.is_empty() && matches!(&self.meter, Meter::Plain(rate) if rate.is_full())
    }
}
