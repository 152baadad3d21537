//! What fills up by time and is taken from: one rate, and one with a second rate that burst credits pay for.
//!
//! Levels are counted in billionths, so that a rate times nanoseconds is exact.

/// Billionths in one.
const ONE: i128 = 1_000_000_000;

/// For how long a rate that was not used can be made up for, in nanoseconds: longer than whoever owns the time is late,
/// and so short that no ten seconds see more than half a percent of it.
pub const SLACK_NS: u64 = 50_000_000;

/// A rate.
#[derive(Debug, Clone)]
pub struct Bucket {
    rate: u64,
    depth: i128,
    level: i128,
    at_ns: u64,
}

impl Bucket {
    /// A full one of this rate a second, which holds what comes in `depth_ns`.
    #[must_use]
    pub fn new(rate: u64, depth_ns: u64, now_ns: u64) -> Bucket {
        let depth = i128::from(rate) * i128::from(depth_ns);
        Bucket { rate, depth, level: depth, at_ns: now_ns }
    }

    /// Has the rate of another one from here on; what is in it or owed stays.
    pub fn take_rate_of(&mut self, other: &Bucket, now_ns: u64) {
        self.refill(now_ns);
        (self.rate, self.depth) = (other.rate, other.depth);
        self.level = self.level.min(self.depth);
    }

    /// Lets time pass, and gives what has run over, in billionths.
    pub fn refill(&mut self, now_ns: u64) -> i128 {
        let passed = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        self.level += i128::from(self.rate) * i128::from(passed);
        let over = (self.level - self.depth).max(0);
        self.level -= over;
        over
    }

    /// Whether something may be taken: what is taken may be more than there is, and is then owed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.level > 0
    }

    /// When something may be taken, as far as is known now.
    #[must_use]
    pub fn ready_at(&self) -> u64 {
        if self.level > 0 {
            return self.at_ns;
        }
        let wait = -self.level / i128::from(self.rate.max(1)) + 1;
        self.at_ns.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Takes.
    pub fn take(&mut self, count: u64) {
        self.level -= i128::from(count) * ONE;
    }

    /// Gives back what was taken and not used.
    pub fn give_back(&mut self, count: u64) {
        self.level = (self.level + i128::from(count) * ONE).min(self.depth);
    }

    /// Never owes more than it holds.
    pub fn forgive(&mut self) {
        self.level = self.level.max(-self.depth);
    }

    /// What may be taken without waiting, rounded down; less than nothing is owed.
    #[must_use]
    pub fn left(&self) -> i64 {
        i64::try_from(self.level.div_euclid(ONE)).unwrap_or(i64::MIN)
    }

    /// Whether nothing is missing.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.level == self.depth
    }
}

/// A rate that can be exceeded, up to another one, as long as there are burst credits. What the rate leaves unused
/// becomes credits.
#[derive(Debug, Clone)]
pub struct Bursting {
    base: Bucket,
    fastest: Bucket,
    /// In billionths.
    burst_credits: i128,
    most: i128,
    /// What is left unused becomes nothing: the share is held back by something else.
    withheld: bool,
}

impl Bursting {
    /// With so many credits, of at most `most`.
    #[must_use]
    pub fn new(rate: u64, burst: u64, burst_credits: u64, most: u64, now_ns: u64) -> Bursting {
        Bursting {
            base: Bucket::new(rate, SLACK_NS, now_ns),
            fastest: Bucket::new(burst, SLACK_NS, now_ns),
            burst_credits: i128::from(burst_credits.min(most)) * ONE,
            most: i128::from(most) * ONE,
            withheld: false,
        }
    }

    /// Has the rates of another one from here on; credits stay, as far as there is room for them.
    pub fn take_rates_of(&mut self, other: &Bursting, now_ns: u64) {
        self.refill(now_ns);
        self.base.take_rate_of(&other.base, now_ns);
        self.fastest.take_rate_of(&other.fastest, now_ns);
        self.most = other.most;
        self.burst_credits = self.burst_credits.min(self.most);
    }

    /// Says whether the share is held back by something else.
    pub fn withhold(&mut self, withheld: bool, now_ns: u64) {
        self.refill(now_ns);
        self.withheld = withheld;
    }

    /// Lets time pass.
    pub fn refill(&mut self, now_ns: u64) {
        self.fastest.refill(now_ns);
        let over = self.base.refill(now_ns);
        if !self.withheld {
            self.burst_credits = (self.burst_credits + over).min(self.most);
        }
    }

    /// How many whole credits there are.
    #[must_use]
    pub fn burst_credits(&self) -> u64 {
        u64::try_from(self.burst_credits / ONE).unwrap_or(0)
    }

    /// Whether one operation may be done.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.fastest.is_ready() && (self.base.is_ready() || self.burst_credits >= ONE)
    }

    /// When that is, as far as is known now.
    #[must_use]
    pub fn ready_at(&self) -> u64 {
        let fastest = self.fastest.ready_at();
        if self.burst_credits >= ONE { fastest } else { fastest.max(self.base.ready_at()) }
    }

    /// Does `count` operations.
    pub fn take(&mut self, count: u64) {
        self.fastest.take(count);
        if self.base.is_ready() {
            self.base.take(count);
        } else {
            self.burst_credits -= i128::from(count) * ONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_bucket_gives_its_rate_to_the_last_one() {
        let mut bucket = Bucket::new(7, 1, 0);
        let mut taken = 0;
        let mut now = 0;
        while now < 1000 * S {
            bucket.refill(now);
            if bucket.is_ready() {
                bucket.take(3);
                taken += 3;
            }
            now = bucket.ready_at().max(now + 1);
        }
        // A multiple of three, the first not exceeding what has come by more than one turn.
        assert!((7000..7003).contains(&taken), "{taken}");
    }

    #[test]
    fn what_is_left_unused_is_spent_above_the_rate() {
        let mut bucket = Bursting::new(100, 300, 0, 1000, 0);
        bucket.refill(4 * S);
        assert_eq!(bucket.burst_credits(), 400);
        bucket.refill(100 * S);
        assert_eq!(bucket.burst_credits(), 1000, "no more than there is room for");
        let mut now = 100 * S;
        let mut done = 0;
        while bucket.burst_credits() > 0 {
            bucket.refill(now);
            if bucket.is_ready() {
                bucket.take(1);
                done += 1;
            }
            now = bucket.ready_at().max(now + 1);
        }
        // 300 a second, of which 200 are paid for: five seconds, and what the slack holds.
        assert!((1500..=1520).contains(&done), "{done}");
    }

    #[test]
    fn nothing_accrues_while_it_is_withheld() {
        let mut bucket = Bursting::new(100, 300, 50, 1000, 0);
        bucket.withhold(true, 0);
        bucket.refill(60 * S);
        assert_eq!(bucket.burst_credits(), 50);
        bucket.withhold(false, 60 * S);
        bucket.refill(61 * S);
        assert_eq!(bucket.burst_credits(), 150);
    }

    #[test]
    fn other_rates_keep_what_there_is_room_for() {
        let mut bucket = Bursting::new(100, 300, 900, 1000, 0);
        bucket.take_rates_of(&Bursting::new(200, 400, 0, 700, 0), 0);
        assert_eq!(bucket.burst_credits(), 700);
        let mut plain = Bucket::new(10, S, 0);
        plain.take(30); // 20 are owed
        plain.take_rate_of(&Bucket::new(20, S, 0), 0);
        assert_eq!(plain.ready_at(), S + 1, "what is owed stays owed");
    }
}
