//! Decides whether a connection polls its socket for a moment before it sleeps.
//!
//! Going to sleep and waking up takes longer than most requests, and far longer on a virtual machine. A
//! connection whose client sends one request after the other therefore keeps polling for
//! [`Config::busy_poll`](crate::Config) after each reply. Only the result shows whether that pays: a client
//! on the same processor cannot send meanwhile, and a distant one takes longer. After a miss the connection
//! sleeps at once for the next requests, eight times as many with each further miss. Three hits make up for a
//! miss. A connection that answers several requests at once never polls, since fewer and larger batches cost
//! less.

use std::time::Duration;

/// Number of single requests in a row before polling is tried.
const ALONE: u32 = 16;
/// The weight of a miss. A hit weighs one.
const MISS: u32 = 3;
/// The most sleeps between two attempts, as a power of two.
const MOST_PASSED: u32 = 12;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    /// The time of polling (ns). Zero: never.
    span_ns: u64,
    /// The start of polling (monotonic ns).
    since_ns: Option<u64>,
    /// Single requests in a row.
    alone: u32,
    /// The weight of the misses since then, less the hits.
    missed: u32,
    /// Sleeps before the next attempt.
    passed: u32,
    /// A request was answered since it last polled or slept.
    has_answered: bool,
    /// Time spent polling that was not reported yet (ns).
    spent_ns: u64,
}

impl BusyPoll {
    pub(crate) fn new(span: Duration) -> BusyPoll {
        let span_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        BusyPoll { span_ns, since_ns: None, alone: 0, missed: 0, passed: 0, has_answered: false, spent_ns: 0 }
    }

    /// Notes the number of requests that a batch has answered.
    pub(crate) fn answered(&mut self, requests: u64) {
        self.has_answered |= requests > 0;
        match requests {
            0 => {}
            1 => self.alone = self.alone.saturating_add(1),
            _ => self.alone = 0,
        }
    }

    /// Whether it polls at present.
    pub(crate) fn is_on(&self) -> bool {
        self.since_ns.is_some()
    }

    /// Notes that something arrived while it polled.
    pub(crate) fn hit(&mut self, now_ns: impl Fn() -> u64) {
        self.stop(now_ns);
        self.missed = self.missed.saturating_sub(1);
    }

    /// Nothing has arrived yet: whether to poll again rather than sleep. The clock is read only if the
    /// decision depends on it.
    pub(crate) fn keeps_polling(&mut self, now_ns: impl Fn() -> u64) -> bool {
        let answered = std::mem::take(&mut self.has_answered);
        if let Some(since_ns) = self.since_ns {
            if now_ns().saturating_sub(since_ns) < self.span_ns {
                return true;
            }
            self.stop(now_ns);
            self.missed = (self.missed + MISS).min(MOST_PASSED);
            self.passed = 1 << self.missed;
            return false;
        }
        if !answered || self.span_ns == 0 || self.alone < ALONE {
            return false;
        }
        if self.passed > 0 {
            self.passed -= 1;
            return false;
        }
        self.since_ns = Some(now_ns());
        true
    }

    /// Stops polling.
    pub(crate) fn stop(&mut self, now_ns: impl Fn() -> u64) {
        if let Some(since_ns) = self.since_ns.take() {
            self.spent_ns += now_ns().saturating_sub(since_ns);
        }
    }

    /// The time spent polling since the last call (ns).
    pub(crate) fn take_spent_ns(&mut self) -> u64 {
        std::mem::take(&mut self.spent_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN_NS: u64 = 50_000;

    /// A connection that has answered single requests for long enough.
    fn settled() -> BusyPoll {
        let mut poll = BusyPoll::new(Duration::from_nanos(SPAN_NS));
        (0..ALONE).for_each(|_| poll.answered(1));
        poll
    }

    /// Answers a request whose successor arrives `after_ns` later, and polls every microsecond meanwhile.
    /// Returns the time spent polling.
    fn request(poll: &mut BusyPoll, after_ns: u64) -> u64 {
        poll.answered(1);
        let mut now_ns = 1_000_000;
        while poll.keeps_polling(|| now_ns) {
            if now_ns - 1_000_000 >= after_ns {
                poll.hit(|| now_ns);
                break;
            }
            now_ns += 1_000;
        }
        now_ns - 1_000_000
    }

    #[test]
    fn a_client_that_asks_again_at_once_is_waited_for() {
        let mut poll = settled();
        for _ in 0..1_000 {
            assert_eq!(request(&mut poll, 20_000), 20_000);
        }
    }

    #[test]
    fn a_client_that_takes_longer_costs_next_to_nothing() {
        let mut poll = settled();
        let asked_ns: u64 = (0..100_000).map(|_| request(&mut poll, 10 * SPAN_NS)).sum();
        assert!(asked_ns <= 30 * SPAN_NS, "{asked_ns} ns for 100,000 requests");
    }

    #[test]
    fn a_client_that_comes_in_time_half_of_the_time_is_soon_left_alone() {
        let mut poll = settled();
        let mut asked_ns = 0;
        for n in 0..10_000 {
            asked_ns += request(&mut poll, if n % 2 == 0 { 10_000 } else { 10 * SPAN_NS });
        }
        assert!(asked_ns <= 40 * SPAN_NS, "{asked_ns} ns for 10,000 requests");
    }

    #[test]
    fn a_miss_is_made_up_for_by_hits() {
        let mut poll = settled();
        request(&mut poll, 10 * SPAN_NS);
        let asked: Vec<u64> = (0..2 << MISS).map(|_| request(&mut poll, 10_000)).collect();
        assert!(asked[..1 << MISS].iter().all(|&asked_ns| asked_ns == 0), "it sleeps at once");
        assert!(asked[1 << MISS..].iter().all(|&asked_ns| asked_ns == 10_000));
        assert_eq!(poll.missed, 0);
    }

    #[test]
    fn requests_that_come_together_are_not_taken_apart() {
        let mut poll = settled();
        poll.answered(2);
        for _ in 0..ALONE - 1 {
            assert_eq!(request(&mut poll, 10_000), 0);
        }
        assert_eq!(request(&mut poll, 10_000), 10_000);
    }

    #[test]
    fn nothing_is_asked_without_an_answer_or_without_time_for_it() {
        let mut poll = settled();
        request(&mut poll, 10_000);
        assert!(!poll.keeps_polling(|| 2_000_000), "it was woken for nothing");
        let mut never = BusyPoll::new(Duration::ZERO);
        (0..100).for_each(|_| assert_eq!(request(&mut never, 10_000), 0));
    }
}
