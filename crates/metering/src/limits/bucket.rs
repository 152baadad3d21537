//! Token buckets, which fill with time: one with a single rate, and one with a second, higher rate that burst
//! credits pay for.
//!
//! Levels are counted in billionths, so that a rate times nanoseconds is exact.

/// Billionths in one token, the unit of levels.
const ONE: i128 = 1_000_000_000;

/// The time for which an unused rate can be made up, in nanoseconds. It is longer than the thread that owns
/// the clock is ever late. It is so short that no ten seconds get more than half a percent above the rate.
pub const SLACK_NS: u64 = 50_000_000;

/// A bucket with one rate.
#[derive(Debug, Clone)]
pub struct Bucket {
    rate: u64,
    depth: i128,
    level: i128,
    at_ns: u64,
}

impl Bucket {
    /// A full bucket with this rate a second. It holds the tokens that come in `depth_ns`.
    #[must_use]
    pub fn new(rate: u64, depth_ns: u64, now_ns: u64) -> Bucket {
        let depth = i128::from(rate) * i128::from(depth_ns);
        Bucket { rate, depth, level: depth, at_ns: now_ns }
    }

    /// Takes over the rate of another bucket from now on. The level, or the debt, stays.
    pub fn take_rate_of(&mut self, other: &Bucket, now_ns: u64) {
        self.refill(now_ns);
        (self.rate, self.depth) = (other.rate, other.depth);
        self.level = self.level.min(self.depth);
    }

    /// Lets time pass. Returns the tokens that did not fit, in billionths.
    pub fn refill(&mut self, now_ns: u64) -> i128 {
        let passed = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        self.level += i128::from(self.rate) * i128::from(passed);
        let over = (self.level - self.depth).max(0);
        self.level -= over;
        over
    }

    /// Whether something may be taken. It may be more than the level; the rest is then a debt.
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

    /// Takes `count` tokens.
    pub fn take(&mut self, count: u64) {
        self.level -= i128::from(count) * ONE;
    }

    /// Returns tokens that were taken and not used.
    pub fn give_back(&mut self, count: u64) {
        self.level = (self.level + i128::from(count) * ONE).min(self.depth);
    }

    /// Limits the debt to the depth of the bucket.
    pub fn forgive(&mut self) {
        self.level = self.level.max(-self.depth);
    }

    /// The tokens that may be taken without waiting, rounded down. A negative number is a debt.
    #[must_use]
    pub fn left(&self) -> i64 {
        i64::try_from(self.level.div_euclid(ONE)).unwrap_or(i64::MIN)
    }

    /// Whether the bucket is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.level == self.depth
    }
}

/// A rate that can be exceeded, up to a higher rate, as long as there are burst credits. The unused part of
/// the rate becomes credits.
#[derive(Debug, Clone)]
pub struct Bursting {
    base: Bucket,
    fastest: Bucket,
    /// In billionths.
    burst_credits: i128,
    most: i128,
    /// While this is set, the unused rate becomes no credits: another limit holds the share back.
    withheld: bool,
}

impl Bursting {
    /// A bucket with `burst_credits` credits, of at most `most`.
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

    /// Takes over the rates of another bucket from now on. Credits stay, as far as the new maximum allows.
    pub fn take_rates_of(&mut self, other: &Bursting, now_ns: u64) {
        self.refill(now_ns);
        self.base.take_rate_of(&other.base, now_ns);
        self.fastest.take_rate_of(&other.fastest, now_ns);
        self.most = other.most;
        self.burst_credits = self.burst_credits.min(self.most);
    }

    /// Sets whether another limit holds the share back.
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

    /// The number of whole credits.
    #[must_use]
    pub fn burst_credits(&self) -> u64 {
        u64::try_from(self.burst_credits / ONE).unwrap_or(0)
    }

    /// Whether one operation may be done.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.fastest.is_ready() && (self.base.is_ready() || self.burst_credits >= ONE)
    }

    /// When one operation may be done, as far as is known now.
    #[must_use]
    pub fn ready_at(&self) -> u64 {
        let fastest = self.fastest.ready_at();
        if self.burst_credits >= ONE { fastest } else { fastest.max(self.base.ready_at()) }
    }

    /// Takes the tokens or credits of `count` operations.
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
        // A multiple of three: the first request exceeds the tokens by at most one request.
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
        // 300 a second, of which 200 are paid for by credits: five seconds, and the slack.
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
