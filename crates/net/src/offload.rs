//! Decides whether a connection's batches run inline or on the blocking pool.
//!
//! Inline is several times cheaper, but a slow call stops every connection of the worker. So the connection's
//! next batches run on the pool after a very slow batch, or after a second slow batch shortly after a first.
//! They return after a run of quick ones. A single slow batch proves nothing: on a busy host the thread may
//! just have been without a processor. Only the batches after such a one check that
//! ([`OffloadPolicy::measures`]), since the check takes six system calls. A batch in which the thread neither
//! ran nor waited for long is not slow. A connection that becomes slow again soon after has to prove itself
//! for longer.

use crate::batch::BatchReport;

/// Quick batches in a row after which a connection runs inline again, at first.
const PROBATION: u32 = 16;
/// The same after many relapses.
const PROBATION_MAX: u32 = 1024;
/// Inline batches without a slow one after which earlier relapses are forgotten.
const FORGIVEN_AFTER: u32 = 4096;
/// Number of inline batches for which a slow one is remembered.
const MEMORY: u32 = 16;
/// The same for one that was far too slow, as when a disk stalls once in a while.
const LONG_MEMORY: u32 = 1024;
/// A batch this many times over its bound is proof enough by itself, unless it moved much data. Such a batch
/// is better measured first, since its work costs a tenth more on the pool.
const VERY_SLOW: u64 = 50;
/// Bytes from which a batch counts as having moved much.
const MUCH: u64 = 32 * 1024;
/// A batch that takes longer than this many times the bound of one call is slow, however many calls it had.
const BATCH_CALLS: u64 = 25;
/// Allowance of time for each byte of a batch (ns): copying it takes as long on another thread, and longer
/// from another processor's cache.
const NS_FOR_A_BYTE: u64 = 1;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct OffloadPolicy {
    /// The bound of one call (ns).
    slow_call_ns: u64,
    /// Quick batches still missing before batches run inline. Zero means inline.
    to_prove: u32,
    /// The value for `to_prove` at the next slow batch.
    probation: u32,
    /// Inline batches since the last slow one.
    quick_batches: u32,
    /// Inline batches for which the last slow one still counts.
    warned: u32,
}

impl OffloadPolicy {
    pub(crate) fn new(slow_call_ns: u64) -> OffloadPolicy {
        OffloadPolicy { slow_call_ns, to_prove: 0, probation: PROBATION, quick_batches: 0, warned: 0 }
    }

    /// Whether the next batch runs on the pool.
    pub(crate) fn uses_pool(&self) -> bool {
        self.to_prove > 0
    }

    /// Whether to measure the thread's work ([`crate::thread_work::ThreadWork`]) in the next batch.
    pub(crate) fn measures(&self) -> bool {
        self.warned > 0 || self.uses_pool()
    }

    /// Notes the duration of a batch, and the work of the thread if it was measured.
    pub(crate) fn note(&mut self, batch: &BatchReport) {
        let BatchReport { calls, bytes, took_ns, thread_work, .. } = *batch;
        let bound_ns = self.slow_call_ns.saturating_mul(calls.clamp(1, BATCH_CALLS));
        let work_ns = bound_ns.saturating_add(bytes.saturating_mul(NS_FOR_A_BYTE));
        let is_slow = took_ns > bound_ns
            && thread_work.is_none_or(|thread_work| thread_work.exceeds(work_ns, bound_ns, took_ns));
        match (is_slow, self.uses_pool()) {
            (true, false) => {
                self.quick_batches = 0;
                let is_proof = thread_work.is_some() || bytes < MUCH;
                let is_very_slow = took_ns > bound_ns.saturating_mul(VERY_SLOW);
                if self.warned == 0 && !(is_very_slow && is_proof) {
                    self.warned = if is_very_slow { LONG_MEMORY } else { MEMORY };
                    return;
                }
                self.warned = 0;
                self.to_prove = self.probation;
                self.probation = (self.probation * 2).min(PROBATION_MAX);
            }
            (true, true) => self.to_prove = self.to_prove.max(PROBATION),
            (false, true) => self.to_prove -= 1,
            (false, false) => {
                self.warned = self.warned.saturating_sub(1);
                self.quick_batches = self.quick_batches.saturating_add(1);
                if self.quick_batches == FORGIVEN_AFTER {
                    self.probation = PROBATION;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_work::ThreadWork;

    const CALL: u64 = 200_000;

    fn batch(calls: u64, took_ns: u64) -> BatchReport {
        BatchReport { calls, took_ns, ..BatchReport::default() }
    }

    /// Two slow batches, then quick ones until the connection runs inline again. Returns the number of the
    /// quick ones.
    fn away(policy: &mut OffloadPolicy) -> u32 {
        policy.note(&batch(1, 10 * CALL));
        policy.note(&batch(1, 10 * CALL));
        let mut turns = 0;
        while policy.uses_pool() {
            policy.note(&batch(1, 1000));
            turns += 1;
        }
        turns
    }

    #[test]
    fn slow_turns_send_the_next_ones_away_and_quick_ones_bring_them_back() {
        let mut policy = OffloadPolicy::new(CALL);
        policy.note(&batch(10, 10 * CALL));
        policy.note(&batch(10, 10 * CALL));
        assert!(!policy.uses_pool(), "at the bound is not over it");
        assert_eq!(away(&mut policy), PROBATION);
    }

    #[test]
    fn one_slow_turn_now_and_then_proves_nothing_but_a_very_slow_one_does() {
        let mut policy = OffloadPolicy::new(CALL);
        for _ in 0..100 {
            policy.note(&batch(1, 10 * CALL));
            assert!(!policy.uses_pool());
            (0..MEMORY).for_each(|_| policy.note(&batch(1, 1000)));
        }
        policy.note(&batch(1, VERY_SLOW * CALL + 1));
        assert!(policy.uses_pool());
    }

    #[test]
    fn a_large_record_is_looked_at_before_it_is_called_slow() {
        let large =
            |thread_work| BatchReport { bytes: 1 << 20, thread_work, ..batch(1, 100 * VERY_SLOW * CALL) };
        let waited = Some(ThreadWork { waits: 1, ..ThreadWork::default() });
        let put_aside =
            Some(ThreadWork { waits: 1, put_aside_ns: 100 * VERY_SLOW * CALL, ..ThreadWork::default() });
        let mut policy = OffloadPolicy::new(CALL);
        assert!(!policy.measures());
        policy.note(&large(None));
        assert!(policy.measures() && !policy.uses_pool(), "it may have been put aside");
        policy.note(&large(put_aside));
        assert!(!policy.uses_pool());
        (0..LONG_MEMORY - 2).for_each(|_| policy.note(&BatchReport { bytes: 1 << 20, ..batch(1, 1000) }));
        assert!(policy.measures(), "a disk that stalls once in a while is found out");
        policy.note(&large(waited));
        assert!(policy.uses_pool());
    }

    #[test]
    fn a_relapse_takes_longer_until_it_is_forgiven() {
        let mut policy = OffloadPolicy::new(CALL);
        let (first, second) = (away(&mut policy), away(&mut policy));
        assert!(second > first);
        (0..FORGIVEN_AFTER).for_each(|_| policy.note(&batch(1, 1000)));
        assert_eq!(away(&mut policy), first);
    }

    #[test]
    fn a_slow_turn_on_the_pool_keeps_it_there() {
        let mut policy = OffloadPolicy::new(CALL);
        (0..2).for_each(|_| policy.note(&batch(1, 10 * CALL)));
        policy.note(&batch(1, 1000));
        policy.note(&batch(1, 10 * CALL));
        for _ in 0..PROBATION {
            assert!(policy.uses_pool());
            policy.note(&batch(1, 1000));
        }
        assert!(!policy.uses_pool());
    }

    #[test]
    fn many_calls_do_not_excuse_a_long_turn() {
        let mut policy = OffloadPolicy::new(CALL);
        (0..2).for_each(|_| policy.note(&batch(64, 64 * CALL)));
        assert!(policy.uses_pool());
    }

    #[test]
    fn who_was_only_put_aside_is_not_slow() {
        let mut policy = OffloadPolicy::new(CALL);
        for _ in 0..100 {
            policy.note(&batch(1, 10 * CALL));
            assert!(policy.measures() && !policy.uses_pool());
            policy.note(&BatchReport { thread_work: Some(ThreadWork::default()), ..batch(1, 10 * CALL) });
            assert!(!policy.uses_pool());
            (0..MEMORY).for_each(|_| policy.note(&batch(1, 1000)));
            assert!(!policy.measures());
        }
    }

    #[test]
    fn to_copy_much_is_not_slow_but_to_wait_long_meanwhile_is() {
        let mut policy = OffloadPolicy::new(CALL);
        let took_ns = 4 * CALL;
        let of_a_mib = |cpu_ns| {
            let thread_work = Some(ThreadWork { cpu_ns, waits: 1, ..ThreadWork::default() });
            BatchReport { bytes: 1 << 20, thread_work, ..batch(1, took_ns) }
        };
        (0..10).for_each(|_| policy.note(&of_a_mib(took_ns - CALL + 1)));
        assert!(!policy.uses_pool(), "it waited for a moment");
        (0..2).for_each(|_| policy.note(&of_a_mib(took_ns - CALL)));
        assert!(policy.uses_pool());
    }
}
