//! The counters of one connection: the share of each request, the time of its reply, and the time when the
//! reply was sent.
//!
//! Start with [`ConnectionCounters`].

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::access_pattern::{AccessPattern, AccessPatternCounters};
use super::record::{Record, Recording, RequestDescription, Sampled};
use super::share_counts::{CountedShare, Counts};
use super::transaction::{CompletedTransaction, Family};

/// The most replies whose sending is timed. If a client does not read its replies, the oldest ones beyond
/// this number get no time of sending.
const MOST_UNSENT: usize = 4096;
/// A queue that was longer than this returns its memory when it is empty.
const KEPT_UNSENT: usize = 128;

/// The index of a share in a [`ConnectionCounters`]. The first one stands for requests of no share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShareIndex(u16);

/// The counters that a connection has for one share.
struct ShareCounters {
    share: u64,
    counts: Arc<Counts>,
    pattern: Arc<AccessPatternCounters>,
    /// The name of the share, if requests are recorded.
    name: Option<Arc<str>>,
}

/// A reply that the host has not sent yet.
struct UnsentReply {
    /// The end of the reply in the stream of all replies, or a position behind it.
    end: u64,
    arrived_ns: u64,
    share_index: ShareIndex,
    operation: u8,
    authentication: u8,
}

/// The activity of a connection on one share.
struct ShareActivity {
    share: Weak<dyn CountedShare>,
    pattern: Arc<AccessPatternCounters>,
}

/// The shares that a connection has used and its activity on each. Other threads read it.
#[derive(Default)]
pub struct ConnectionActivity {
    /// The number of requests that were in progress at once.
    depth: AccessPatternCounters,
    shares: Mutex<Vec<ShareActivity>>,
}

impl ConnectionActivity {
    /// The number of requests in progress, and the activity on each share by the share's name.
    #[must_use]
    pub fn read(&self) -> (AccessPattern, Vec<(String, AccessPattern)>) {
        let shares = self.shares.lock();
        let read =
            |activity: &ShareActivity| Some((activity.share.upgrade()?.name(), activity.pattern.read()));
        (self.depth.read(), shares.iter().filter_map(read).collect())
    }
}

/// The counters of one connection.
pub struct ConnectionCounters {
    family: &'static Family,
    /// The first entry is for requests of no share.
    shares: Vec<ShareCounters>,
    /// The share that was looked up last.
    last: ShareIndex,
    activity: Arc<ConnectionActivity>,
    unsent: VecDeque<UnsentReply>,
    /// How many of `unsent`, counted from its end, belong to this batch.
    fresh: usize,
    /// Requests that came in this batch.
    requests: u64,
    /// None: requests are not recorded.
    recording: Option<Box<Recording>>,
}

impl ConnectionCounters {
    /// The counters of a new connection. `rest` counts the requests of no share.
    #[must_use]
    pub fn new(rest: &Arc<Counts>) -> ConnectionCounters {
        let none = ShareCounters { share: 0, counts: Arc::clone(rest), pattern: Arc::default(), name: None };
        ConnectionCounters {
            family: rest.family(),
            shares: vec![none],
            last: ShareIndex::default(),
            activity: Arc::default(),
            unsent: VecDeque::new(),
            fresh: 0,
            requests: 0,
            recording: rest.recorder().map(|recorder| Box::new(Recording::new(recorder))),
        }
    }

    /// The part that other threads may read.
    #[must_use]
    pub fn activity(&self) -> &Arc<ConnectionActivity> {
        &self.activity
    }

    /// The index of a share. A share that is new here is added.
    #[inline]
    pub fn share_index<S: CountedShare + 'static>(&mut self, share: &Arc<S>) -> ShareIndex {
        self.known(share.number()).unwrap_or_else(|| self.add(share))
    }

    /// The index of the share with this number ([`CountedShare::number`]), if the connection has used it.
    #[inline]
    pub fn known(&mut self, number: u64) -> Option<ShareIndex> {
        if self.shares.get(usize::from(self.last.0)).is_some_and(|counters| counters.share == number) {
            return Some(self.last);
        }
        let at = self.shares.iter().position(|counters| counters.share == number)?;
        self.last = ShareIndex(u16::try_from(at).ok()?);
        Some(self.last)
    }

    #[cold]
    fn add<S: CountedShare + 'static>(&mut self, share: &Arc<S>) -> ShareIndex {
        let Ok(at) = u16::try_from(self.shares.len()) else { return ShareIndex::default() };
        let pattern: Arc<AccessPatternCounters> = Arc::default();
        let activity = ShareActivity { share: Arc::<S>::downgrade(share), pattern: Arc::clone(&pattern) };
        self.activity.shares.lock().push(activity);
        let name = self.recording.is_some().then(|| share.name().into());
        self.shares.push(ShareCounters {
            share: share.number(),
            counts: share.counts(self.family),
            pattern,
            name,
        });
        ShareIndex(at)
    }

    /// Counts a message that has arrived.
    #[inline]
    pub fn begin(&mut self) {
        self.requests += 1;
    }

    /// Counts a transaction. `arrived_ns` (monotonic) is the time when the request was taken up. With it the
    /// duration is measured too. The reply is sent with those of this batch.
    #[inline]
    pub fn note(&mut self, share_index: ShareIndex, noted: &CompletedTransaction, arrived_ns: Option<u64>) {
        let Some(counters) = self.shares.get(usize::from(share_index.0)) else { return };
        counters.counts.note(noted);
        counters.pattern.note(noted.kind, noted.data);
        let Some(arrived_ns) = arrived_ns.filter(|_| noted.response.is_success()) else { return };
        let CompletedTransaction { operation, authentication, .. } = *noted;
        if self.unsent.len() >= MOST_UNSENT {
            self.unsent.pop_front();
        }
        self.unsent.push_back(UnsentReply {
            end: u64::MAX,
            arrived_ns,
            share_index,
            operation,
            authentication,
        });
        self.fresh += 1;
    }

    /// Selects those of the next `count` requests that are to be recorded. None: no request is.
    #[inline]
    pub fn sample(&mut self, count: u64) -> Option<Sampled> {
        self.recording.as_mut()?.sample(count)
    }

    /// Records a request that was taken up at `arrived_ns` (monotonic). With `is_timed` the record gets its
    /// duration. The reply is sent with those of this batch.
    #[cold]
    pub fn record(
        &mut self,
        share_index: ShareIndex,
        noted: &CompletedTransaction,
        arrived_ns: u64,
        is_timed: bool,
        about: RequestDescription,
    ) {
        let (Some(recording), Some(counters)) =
            (&mut self.recording, self.shares.get(usize::from(share_index.0)))
        else {
            return;
        };
        recording.note(Record {
            share: counters.name.clone(),
            family: self.family,
            noted: *noted,
            arrived_ns,
            server_ns: is_timed.then_some(0),
            whole_ns: None,
            about,
        });
    }

    /// Ends a batch. Its replies end at `end` in the stream of all replies; `waiting` requests are still in
    /// progress.
    pub fn turned(&mut self, ended_ns: u64, end: u64, waiting: usize) {
        let first = self.unsent.len().saturating_sub(std::mem::take(&mut self.fresh));
        for unsent in self.unsent.range_mut(first..) {
            unsent.end = end;
            let Some(counters) = self.shares.get(usize::from(unsent.share_index.0)) else { continue };
            let ns = ended_ns.saturating_sub(unsent.arrived_ns);
            counters.counts.took(unsent.operation, unsent.authentication, ns);
        }
        if let Some(recording) = &mut self.recording {
            recording.turned(ended_ns, end);
        }
        let came = std::mem::take(&mut self.requests);
        if came > 0 {
            self.activity.depth.note_depth(came + waiting as u64);
        }
    }

    /// The host has taken `taken` bytes of all replies.
    pub fn sent(&mut self, taken: u64, at_ns: u64) {
        while self.unsent.front().is_some_and(|unsent| unsent.end <= taken)
            && let Some(unsent) = self.unsent.pop_front()
        {
            let Some(counters) = self.shares.get(usize::from(unsent.share_index.0)) else { continue };
            let ns = at_ns.saturating_sub(unsent.arrived_ns);
            counters.counts.took_with_sending(unsent.operation, unsent.authentication, ns);
        }
        if let Some(recording) = &mut self.recording {
            recording.sent(taken, at_ns);
        }
        if self.unsent.is_empty() && self.unsent.capacity() > KEPT_UNSENT {
            self.unsent = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TransactionKind;
    use super::*;
    use crate::limits::ResponseType;

    static FAMILY: Family = Family { name: "F", operations: &["One", "Two"], authentications: &["Key"] };
    const DONE: CompletedTransaction = CompletedTransaction {
        operation: 1,
        authentication: 0,
        kind: TransactionKind::Write,
        response: ResponseType::Success,
        ingress: 10,
        egress: 20,
        data: 5,
    };

    #[test]
    fn what_took_how_long_is_known_when_it_was_answered_and_when_it_was_sent() {
        let rest = Counts::new(&FAMILY);
        let mut counters = ConnectionCounters::new(&rest);
        let nowhere = ShareIndex::default();
        counters.begin();
        counters.note(nowhere, &DONE, Some(1_000_000));
        counters.note(
            nowhere,
            &CompletedTransaction { response: ResponseType::ClientOtherError, ..DONE },
            Some(1_000_000),
        );
        counters.turned(3_000_000, 100, 0);
        counters.begin();
        counters.begin();
        counters.note(nowhere, &DONE, Some(4_000_000));
        counters.turned(5_000_000, 200, 4);
        let sums = || {
            let transactions = &rest.read().transactions[0];
            [&transactions.took, &transactions.took_with_sending].map(|all| (all.count(), all.sum_ns))
        };
        assert_eq!(sums(), [(2, 3_000_000), (0, 0)]);
        counters.sent(199, 6_000_000);
        assert_eq!(sums(), [(2, 3_000_000), (1, 5_000_000)]);
        counters.sent(200, 7_000_000);
        assert_eq!(sums(), [(2, 3_000_000), (2, 8_000_000)]);
        let (depth, _) = counters.activity().read();
        assert_eq!((depth.turns, depth.at_once, depth.most_at_once), (2, 7, 6));
    }

    #[test]
    fn answers_that_nobody_takes_do_not_pile_up() {
        let rest = Counts::new(&FAMILY);
        let mut counters = ConnectionCounters::new(&rest);
        for turn in 0..3 * MOST_UNSENT as u64 {
            counters.note(ShareIndex::default(), &DONE, Some(turn));
            counters.turned(turn + 1, turn + 1, 0);
        }
        assert_eq!(counters.unsent.len(), MOST_UNSENT);
        counters.sent(u64::MAX - 1, u64::MAX);
        let read = rest.read().transactions[0].clone();
        assert_eq!(
            (read.took.count(), read.took_with_sending.count()),
            (3 * MOST_UNSENT as u64, MOST_UNSENT as u64)
        );
        assert!(counters.unsent.capacity() <= KEPT_UNSENT);
    }
}
