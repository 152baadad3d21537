//! Decides when a worker hands a connection to another one: when it has had more work than a processor can do
//! for long enough, and the host has processor time to spare.
//!
//! Connections of one client begin on one worker (`registry.rs`). They share its caches and its wake-ups, and
//! their common files and sessions do not move between processors. As long as one processor is enough,
//! several connections therefore cost as much as one. If it is not enough, they spread until it is. If
//! clients on the same host or other programs use all processors, another thread brings only its overhead.
//!
//! Time is divided into spans. [`Balance`] measures the last two of a worker, [`ConnectionLoad`] those of a
//! connection.

/// Length of a span (ns).
const SPAN_NS: u64 = 50_000_000;
/// Number of consecutive spans in which a worker must be full.
const SPANS: u32 = 4;
/// A worker is full if it uses this much of a processor, in thousandths.
const FULL: u64 = 900;
/// The idle processor time that the host must have had meanwhile, in thousandths of a processor. Another
/// thread has a price. With a quarter of a processor idle, large reads over four connections (plain, signed
/// and sealed) are a quarter to a third quicker and cost a tenth less. With an eighth idle, small reads cost
/// up to a tenth more. (Measured on two processors, with client and server on one host.)
const SPARE: u64 = 200;
/// The least difference between this worker and the other one after the move, and the least load that is
/// worth moving.
const GAIN: u64 = 50;

/// The time that a connection took in the current span and in the one before.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLoad {
    span: u64,
    now_ns: u64,
    last_ns: u64,
}

impl ConnectionLoad {
    /// Adds batches that took `took_ns` in `span`.
    fn add(&mut self, span: u64, took_ns: u64) {
        if self.span != span {
            self.last_ns = if self.span.wrapping_add(1) == span { self.now_ns } else { 0 };
            (self.span, self.now_ns) = (span, 0);
        }
        self.now_ns = self.now_ns.saturating_add(took_ns);
    }
}

/// The time that a worker took in the current span and in the one before.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    span: u64,
    began_ns: u64,
    began_cpu_ns: u64,
    now_ns: u64,
    last_ns: u64,
    /// Use of a processor in the last span, in thousandths.
    busy: u64,
    /// Number of consecutive spans in which it was full.
    full_for: u32,
    /// The start of those spans, and the idle time of the host's processors by then (ns), if the host reports
    /// it.
    full_since: (u64, Option<u64>),
    /// Whether it was full for long enough while the host had processor time to spare.
    moves_one: bool,
}

impl Balance {
    /// Adds a batch of a connection. Returns true if the span is over.
    pub(crate) fn count(&mut self, share: &mut ConnectionLoad, took_ns: u64, ended_ns: u64) -> bool {
        share.add(self.span, took_ns);
        self.now_ns = self.now_ns.saturating_add(took_ns);
        ended_ns.saturating_sub(self.began_ns) >= SPAN_NS
    }

    /// Ends a span. `cpu_ns` is the processor time that the thread has used in all. Returns its use of a
    /// processor in the span, in thousandths. `idle_ns` returns the idle time of the host's processors in
    /// all, if the host reports it.
    pub(crate) fn end_span(
        &mut self,
        ended_ns: u64,
        cpu_ns: u64,
        idle_ns: impl FnOnce() -> Option<u64>,
    ) -> u64 {
        let took_ns = ended_ns.saturating_sub(self.began_ns).max(1);
        self.busy = (cpu_ns.saturating_sub(self.began_cpu_ns).saturating_mul(1000) / took_ns).min(1000);
        self.moves_one = false;
        if self.busy < FULL {
            self.full_for = 0;
        } else {
            self.look(ended_ns, idle_ns);
        }
        (self.began_ns, self.began_cpu_ns) = (ended_ns, cpu_ns);
        (self.last_ns, self.now_ns) = (self.now_ns, 0);
        self.span = self.span.wrapping_add(1);
        self.busy
    }

    /// Handles the end of a span in which the worker was full.
    fn look(&mut self, ended_ns: u64, idle_ns: impl FnOnce() -> Option<u64>) {
        self.full_for += 1;
        if self.full_for == 1 {
            self.full_since = (ended_ns, idle_ns());
            return;
        }
        if self.full_for <= SPANS {
            return;
        }
        let now_idle_ns = idle_ns();
        let (since_ns, was_idle_ns) = self.full_since;
        let passed_ns = ended_ns.saturating_sub(since_ns).max(1);
        let idle = was_idle_ns.zip(now_idle_ns).map(|(was, now)| now.saturating_sub(was) * 1000 / passed_ns);
        // If the host does not report idle time, the move is tried.
        self.moves_one = idle.is_none_or(|idle| idle >= SPARE);
        (self.full_for, self.full_since) = (1, (ended_ns, now_idle_ns));
    }

    /// Whether to hand a connection over in the current span.
    pub(crate) fn moves_one(&self) -> bool {
        self.moves_one
    }

    /// The load up to which another worker may take this connection, in thousandths of a processor. None if
    /// the connection is better off here.
    pub(crate) fn room_for(&self, share: &ConnectionLoad) -> Option<u64> {
        let last_ns = if share.span == self.span { share.last_ns } else { 0 };
        let part = self.busy * last_ns.min(self.last_ns) / self.last_ns.max(1);
        (part >= GAIN).then(|| self.busy.checked_sub(part + GAIN)).flatten()
    }

    /// Notes that a connection has moved away. The load is then measured again.
    pub(crate) fn connection_moved(&mut self) {
        (self.moves_one, self.full_for) = (false, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of spans after which a full worker is known to be full.
    const LONG: u64 = SPANS as u64 + 1;

    /// Simulates a worker for `spans`. Its connections work for these thousandths of each span, and the
    /// host's processors are idle for `idle` thousandths.
    fn after(spans: u64, works: &[u64], idle: Option<u64>) -> (Balance, Vec<ConnectionLoad>) {
        let mut balance = Balance::default();
        let mut shares: Vec<ConnectionLoad> = works.iter().map(|_| ConnectionLoad::default()).collect();
        let (mut now_ns, mut cpu_ns) = (1_000_000_000, 7);
        let idle_ns = |now_ns: u64| idle.map(|idle| 5 + now_ns * idle / 1000);
        balance.end_span(now_ns, cpu_ns, || idle_ns(now_ns));
        for span in 0..=spans {
            for (share, work) in shares.iter_mut().zip(works) {
                let took_ns = work * SPAN_NS / 1000;
                (now_ns, cpu_ns) = (now_ns + took_ns, cpu_ns + took_ns);
                assert!(!balance.count(share, took_ns, now_ns) || works.iter().sum::<u64>() == 1000);
            }
            if span < spans {
                now_ns += SPAN_NS - works.iter().sum::<u64>() * SPAN_NS / 1000;
                balance.end_span(now_ns, cpu_ns, || idle_ns(now_ns));
            }
        }
        (balance, shares)
    }

    #[test]
    fn a_worker_is_full_when_it_was_for_some_time_and_a_processor_is_to_spare() {
        let moves_one = |spans, works: &[u64], idle| after(spans, works, idle).0.moves_one();
        assert!(moves_one(LONG, &[500, 450], Some(SPARE + 1)));
        assert!(!moves_one(LONG - 1, &[500, 450], Some(1000)));
        assert!(!moves_one(LONG + 1, &[500, 450], Some(1000)), "in the span behind it alone");
        assert!(!moves_one(LONG, &[500, 450], Some(SPARE - 1)));
        assert!(!moves_one(LONG, &[500, 350], Some(1000)));
        assert!(moves_one(LONG, &[500, 450], None), "the host does not tell");
        assert!(moves_one(LONG + u64::from(SPANS), &[500, 450], Some(1000)), "it is asked again and again");
        let (mut balance, _) = after(LONG, &[500, 450], None);
        balance.connection_moved();
        assert!(!balance.moves_one());
    }

    #[test]
    fn a_connection_goes_where_it_makes_the_busiest_less_busy() {
        let room = |works: &[u64], at: usize| {
            let (balance, shares) = after(LONG, works, Some(1000));
            balance.room_for(&shares[at])
        };
        assert_eq!(room(&[250, 250, 250, 250], 0), Some(700));
        assert_eq!(room(&[600, 400], 0), Some(350));
        assert_eq!(room(&[1000], 0), None, "it alone would be as much to do elsewhere");
        assert_eq!(room(&[970, 30], 1), None, "it is not worth it");
    }

    #[test]
    fn what_a_connection_did_long_ago_does_not_count() {
        let (mut balance, mut shares) = after(LONG, &[500, 500], Some(1000));
        assert!(balance.room_for(&shares[0]).is_some());
        for _ in 0..2 {
            balance.end_span(balance.began_ns + SPAN_NS, balance.began_cpu_ns + SPAN_NS, || None);
        }
        assert_eq!(balance.room_for(&shares[0]), None);
        balance.count(&mut shares[0], 1, balance.began_ns);
        assert_eq!(balance.room_for(&shares[0]), None);
    }
}
