//! Decides when a worker gives a connection to another one: when it has more to do than a processor can, for long enough to
//! tell, and the host has a processor to spare.
//!
//! Connections of one client begin on one worker (`census.rs`). There they share its caches and wake it together, and what
//! they do to one file and one session does not go from processor to processor; so as long as one processor is enough, several
//! connections cost what one does. Where it is not enough, they spread until it is. Where all processors are taken, by clients
//! on the same host or by others, another thread would bring nothing but its price.
//!
//! Time is looked at in spans. [`Balance`] is a worker's account of its last two, [`Share`] is a connection's.

/// Length of a span (ns).
const SPAN_NS: u64 = 12_500_000;
/// How many spans in a row a worker must be full. At the end of each the host is asked for a processor to spare, and a
/// moment's answer says little.
const SPANS: u32 = 16;
/// Of a processor's time, in thousandths, from which on a worker is full.
const FULL: u64 = 900;
/// By how much less than this worker the other one must have to do afterwards, and the least that is worth moving.
const GAIN: u64 = 50;

/// What a connection has done in the span that runs, and in the one before.
#[derive(Debug, Default)]
pub(crate) struct Share {
    span: u64,
    now_ns: u64,
    last_ns: u64,
}

impl Share {
    /// Counts turns of `took_ns` in `span`.
    fn add(&mut self, span: u64, took_ns: u64) {
        if self.span != span {
            self.last_ns = if self.span.wrapping_add(1) == span { self.now_ns } else { 0 };
            (self.span, self.now_ns) = (span, 0);
        }
        self.now_ns = self.now_ns.saturating_add(took_ns);
    }
}

/// What a worker has done in the span that runs, and in the one before.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    span: u64,
    began_ns: u64,
    began_cpu_ns: u64,
    now_ns: u64,
    last_ns: u64,
    /// Of a processor's time in the last span, in thousandths.
    busy: u64,
    /// For how many spans in a row it was full while the host had a processor to spare.
    full_for: u32,
}

impl Balance {
    /// Counts a turn of a connection. True when the span is over.
    pub(crate) fn count(&mut self, share: &mut Share, took_ns: u64, ended_ns: u64) -> bool {
        share.add(self.span, took_ns);
        self.now_ns = self.now_ns.saturating_add(took_ns);
        ended_ns.saturating_sub(self.began_ns) >= SPAN_NS
    }

    /// Ends a span, at which the thread had used `cpu_ns` of processor time in all; answers how much of a processor it took, in
    /// thousandths. `is_spare`: whether the host has a processor that does nothing.
    pub(crate) fn end_span(&mut self, ended_ns: u64, cpu_ns: u64, is_spare: impl FnOnce() -> bool) -> u64 {
        let took_ns = ended_ns.saturating_sub(self.began_ns).max(1);
        self.busy = (cpu_ns.saturating_sub(self.began_cpu_ns).saturating_mul(1000) / took_ns).min(1000);
        self.full_for = if self.busy >= FULL && is_spare() { self.full_for.saturating_add(1) } else { 0 };
        (self.began_ns, self.began_cpu_ns) = (ended_ns, cpu_ns);
        (self.last_ns, self.now_ns) = (self.now_ns, 0);
        self.span = self.span.wrapping_add(1);
        self.busy
    }

    /// Whether it is to give a connection away.
    pub(crate) fn is_full(&self) -> bool {
        self.full_for >= SPANS
    }

    /// How much a worker may have to do, in thousandths of a processor, that this connection goes to; none when it is better
    /// where it is.
    pub(crate) fn room_for(&self, share: &Share) -> Option<u64> {
        let last_ns = if share.span == self.span { share.last_ns } else { 0 };
        let part = self.busy * last_ns.min(self.last_ns) / self.last_ns.max(1);
        (part >= GAIN).then(|| self.busy.checked_sub(part + GAIN)).flatten()
    }

    /// A connection leaves. Whether that was enough is looked at anew.
    pub(crate) fn relieved(&mut self) {
        self.full_for = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker on which connections work for so many thousandths of each span, for `spans`.
    fn after(spans: u64, works: &[u64], is_spare: bool) -> (Balance, Vec<Share>) {
        let mut balance = Balance::default();
        let mut shares: Vec<Share> = works.iter().map(|_| Share::default()).collect();
        let (mut now_ns, mut cpu_ns) = (1_000_000_000, 7);
        balance.end_span(now_ns, cpu_ns, || is_spare);
        for span in 0..=spans {
            for (share, work) in shares.iter_mut().zip(works) {
                let took_ns = work * SPAN_NS / 1000;
                (now_ns, cpu_ns) = (now_ns + took_ns, cpu_ns + took_ns);
                assert!(!balance.count(share, took_ns, now_ns) || works.iter().sum::<u64>() == 1000);
            }
            if span < spans {
                now_ns += SPAN_NS - works.iter().sum::<u64>() * SPAN_NS / 1000;
                balance.end_span(now_ns, cpu_ns, || is_spare);
            }
        }
        (balance, shares)
    }

    #[test]
    fn a_worker_is_full_when_it_was_for_some_time_and_a_processor_is_to_spare() {
        let spans = u64::from(SPANS);
        assert!(after(spans, &[500, 450], true).0.is_full());
        assert!(!after(spans - 1, &[500, 450], true).0.is_full());
        assert!(!after(spans, &[500, 450], false).0.is_full());
        assert!(!after(spans, &[500, 350], true).0.is_full());
        let (mut balance, _) = after(spans, &[500, 450], true);
        balance.relieved();
        assert!(!balance.is_full());
    }

    #[test]
    fn a_connection_goes_where_it_makes_the_busiest_less_busy() {
        let room = |works: &[u64], at: usize| {
            let (balance, shares) = after(u64::from(SPANS), works, true);
            balance.room_for(&shares[at])
        };
        assert_eq!(room(&[250, 250, 250, 250], 0), Some(700));
        assert_eq!(room(&[600, 400], 0), Some(350));
        assert_eq!(room(&[1000], 0), None, "it alone would be as much to do elsewhere");
        assert_eq!(room(&[970, 30], 1), None, "it is not worth it");
    }

    #[test]
    fn what_a_connection_did_long_ago_does_not_count() {
        let (mut balance, mut shares) = after(u64::from(SPANS), &[500, 500], true);
        assert!(balance.room_for(&shares[0]).is_some());
        for _ in 0..2 {
            balance.end_span(balance.began_ns + SPAN_NS, balance.began_cpu_ns + SPAN_NS, || true);
        }
        assert_eq!(balance.room_for(&shares[0]), None);
        balance.count(&mut shares[0], 1, balance.began_ns);
        assert_eq!(balance.room_for(&shares[0]), None);
    }
}
