//! A gate: a rate, and those that wait to pass.

use super::bucket::{Bucket, Bursting, SLACK_NS};
use super::turns::{Flow, Queue};

/// Of a limit, the part in use from which on it is said to be near: nine tenths.
const NEAR: (u64, u64) = (9, 10);
/// Over how long that is looked at, in nanoseconds.
const NEAR_NS: u64 = 100_000_000;

/// How fast things pass.
#[derive(Debug, Clone)]
pub enum Meter {
    /// At one rate.
    Plain(Bucket),
    /// At one rate, which can be exceeded for a time.
    Bursting(Bursting),
    /// At one rate, and it is seen when that comes near.
    Watched {
        /// The rate.
        rate: Bucket,
        /// What is empty when it is near.
        near: Bucket,
    },
}

impl Meter {
    /// A plain rate.
    #[must_use]
    pub fn plain(rate: u64, now_ns: u64) -> Meter {
        Meter::Plain(Bucket::new(rate, SLACK_NS, now_ns))
    }

    /// A rate that is watched.
    #[must_use]
    pub fn watched(rate: u64, now_ns: u64) -> Meter {
        let near = Bucket::new(near(rate), NEAR_NS, now_ns);
        Meter::Watched { rate: Bucket::new(rate, SLACK_NS, now_ns), near }
    }

    /// The rates of `other` from here on; what is in it, saved or owed stays.
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

    /// Takes, also what is not there: it is owed then.
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

/// A gate.
#[derive(Debug)]
pub struct Gate<T> {
    /// Its rate.
    pub meter: Meter,
    waiting: Queue<T>,
    /// When it is looked at next; none when nobody waits.
    pub due_ns: Option<u64>,
}

impl<T> Gate<T> {
    /// With nobody waiting.
    #[must_use]
    pub fn new(meter: Meter) -> Gate<T> {
        Gate { meter, waiting: Queue::default(), due_ns: None }
    }

    /// Passes at once if nobody waits and the rate allows it.
    pub fn pass(&mut self, cost: u64, now_ns: u64) -> bool {
        self.meter.refill(now_ns);
        let passes = self.waiting.is_empty() && self.meter.is_ready();
        if passes {
            self.meter.take(cost);
        }
        passes
    }

    /// Waits.
    pub fn wait(&mut self, flow: Flow, item: T) {
        self.waiting.push(flow, item);
    }

    /// Lets the next one pass, if the rate allows it. `cost` says what it takes; nothing for one that has left.
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

    /// When the next one may pass; none when nobody waits.
    #[must_use]
    pub fn ready_at(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then(|| self.meter.ready_at())
    }

    /// Gives back what was taken and not used.
    pub fn give_back(&mut self, count: u64) {
        if let Meter::Plain(rate) = &mut self.meter {
            rate.give_back(count);
        }
    }

    /// What may pass at this time without waiting, at one rate; less than nothing is owed.
    pub fn left(&mut self, now_ns: u64) -> Option<i64> {
        self.meter.refill(now_ns);
        if let Meter::Plain(rate) = &self.meter { Some(rate.left()) } else { None }
    }

    /// Whether the limit is near.
    #[must_use]
    pub fn is_near(&self) -> bool {
        matches!(&self.meter, Meter::Watched { near, .. } if !near.is_ready())
    }

    /// Whether a new one in its place would be the same.
    pub fn is_idle(&mut self, now_ns: u64) -> bool {
        self.meter.refill(now_ns);
        self.waiting.is_empty() && matches!(&self.meter, Meter::Plain(rate) if rate.is_full())
    }
}
