//! One record for each request, or for one request in every N, for readers who want to see single requests.
//!
//! Connections pass their answered requests to a [`Recorder`] ([`super::ConnectionCounters::record`]), which
//! passes them on to a [`RecordSink`]. A connection never waits for that.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::transaction::{CompletedTransaction, Family};

/// Records of one connection that may wait until their replies are sent. Older ones beyond this number go out
/// without that time.
const MOST_WAITING: usize = 4096;

/// The record of a request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The name of the share; none if the request was of no share.
    pub share: Option<Arc<str>>,
    /// The family of the operation.
    pub family: &'static Family,
    /// The counted values of the request.
    pub noted: CompletedTransaction,
    /// When the request was taken up (monotonic ns).
    pub arrived_ns: u64,
    /// The time until the reply; none if the request waited for other clients.
    pub server_ns: Option<u64>,
    /// The time until the host had taken the reply; none if it is not known.
    pub whole_ns: Option<u64>,
    /// The details that the protocol gives.
    pub about: RequestDescription,
}

/// Details of a request in the terms of its protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestDescription {
    /// The address of the client that sent the request.
    pub client: SocketAddr,
    /// The address of ours at which it arrived.
    pub server: SocketAddr,
    /// The version of the protocol, if it is negotiated.
    pub version: Option<&'static str>,
    /// The object of the request: a path within the share, with slashes. None if it is not known or not to be
    /// recorded.
    pub path: Option<String>,
    /// The status, as it is sent.
    pub status: u32,
    /// The name of the status.
    pub status_text: String,
    /// Further numbers, by their names.
    pub numbers: Vec<(&'static str, u64)>,
    /// Further words, by their names.
    pub words: Vec<(&'static str, String)>,
}

/// A selection among several requests: those that are to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampled {
    first: u64,
    every: u64,
    /// Whether a record may hold paths and names.
    pub with_paths: bool,
}

impl Sampled {
    /// Whether the request at this index is selected.
    #[must_use]
    pub fn takes(&self, at: u64) -> bool {
        at.checked_sub(self.first).is_some_and(|behind| behind % self.every == 0)
    }
}

/// A path in the form of [`RequestDescription::path`], followed by the named stream if there is one.
#[must_use]
pub fn path_text<N: AsRef<[u8]>>(path: &[N], stream: Option<&N>) -> String {
    let parts: Vec<_> = path.iter().map(|name| String::from_utf8_lossy(name.as_ref())).collect();
    let path = parts.join("/");
    match stream {
        Some(stream) => format!("{path}:{}", String::from_utf8_lossy(stream.as_ref())),
        None => path,
    }
}

/// A range of bytes in the form of Azure's records.
#[must_use]
pub fn range_text(length: u64, offset: u64) -> String {
    format!("{length:#x} bytes at offset {offset:#x}")
}

/// Receives records.
pub trait RecordSink: Send + Sync {
    /// Called with each record, in the thread of its connection. It must not wait.
    fn put(&self, record: &Record);
}

/// Selects the requests to record.
pub struct Recorder {
    sample: u64,
    with_paths: bool,
    sink: Box<dyn RecordSink>,
    /// Connections until now. Each starts at another offset, so that connections do not all select the same
    /// of their requests.
    connections: AtomicU64,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("sample", &self.sample).finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder that selects one in every `sample` requests for `sink`. The records hold paths and names
    /// only if `with_paths` is set.
    #[must_use]
    pub fn new(sample: u64, with_paths: bool, sink: Box<dyn RecordSink>) -> Arc<Recorder> {
        Arc::new(Recorder { sample: sample.max(1), with_paths, sink, connections: AtomicU64::default() })
    }
}

/// The recording state of one connection.
pub(super) struct Recording {
    recorder: Arc<Recorder>,
    /// Requests until the next one that is recorded.
    skips: u64,
    waiting: VecDeque<(u64, Record)>,
    /// How many of `waiting`, counted from its end, belong to this batch.
    fresh: usize,
}

impl Recording {
    pub(super) fn new(recorder: &Arc<Recorder>) -> Recording {
        let skips = recorder.connections.fetch_add(1, Ordering::Relaxed) % recorder.sample;
        Recording { recorder: Arc::clone(recorder), skips, waiting: VecDeque::new(), fresh: 0 }
    }

    /// Selects those of the next `count` requests that are to be recorded. None: no request is.
    pub(super) fn sample(&mut self, count: u64) -> Option<Sampled> {
        let (first, every) = (self.skips, self.recorder.sample);
        let Some(behind) = count.checked_sub(first + 1) else {
            self.skips -= count;
            return None;
        };
        self.skips = every - 1 - behind % every;
        Some(Sampled { first, every, with_paths: self.recorder.with_paths })
    }

    pub(super) fn note(&mut self, record: Record) {
        if self.waiting.len() >= MOST_WAITING
            && let Some((_, oldest)) = self.waiting.pop_front()
        {
            self.recorder.sink.put(&oldest);
            self.fresh = self.fresh.min(self.waiting.len());
        }
        self.waiting.push_back((u64::MAX, record));
        self.fresh += 1;
    }

    pub(super) fn turned(&mut self, ended_ns: u64, end: u64) {
        let first = self.waiting.len().saturating_sub(std::mem::take(&mut self.fresh));
        for (ends, record) in self.waiting.range_mut(first..) {
            *ends = end;
            record.server_ns = record.server_ns.map(|_| ended_ns.saturating_sub(record.arrived_ns));
        }
    }

    pub(super) fn sent(&mut self, taken: u64, at_ns: u64) {
        while self.waiting.front().is_some_and(|(end, _)| *end <= taken)
            && let Some((_, mut record)) = self.waiting.pop_front()
        {
            record.whole_ns = record.server_ns.map(|_| at_ns.saturating_sub(record.arrived_ns));
            self.recorder.sink.put(&record);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        for (_, record) in self.waiting.drain(..) {
            self.recorder.sink.put(&record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConnectionCounters, Counts, ShareIndex, TransactionKind};
    use super::*;
    use crate::limits::ResponseType;

    /// Records that a test takes out.
    #[derive(Clone, Default)]
    struct Taken(Arc<std::sync::Mutex<Vec<Record>>>);

    impl RecordSink for Taken {
        fn put(&self, record: &Record) {
            self.0.lock().unwrap().push(record.clone());
        }
    }

    impl Taken {
        fn recorder(&self, sample: u64) -> Arc<Recorder> {
            Recorder::new(sample, true, Box::new(self.clone()))
        }

        fn all(&self) -> Vec<Record> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    static FAMILY: Family = Family { name: "F", operations: &["One"], authentications: &["Key"] };
    const DONE: CompletedTransaction = CompletedTransaction {
        operation: 0,
        authentication: 0,
        kind: TransactionKind::Read,
        response: ResponseType::Success,
        ingress: 10,
        egress: 20,
        data: 5,
    };

    fn about(status: u32) -> RequestDescription {
        let client = SocketAddr::from(([192, 0, 2, 1], 700));
        let (path, numbers, words) = (None, Vec::new(), Vec::new());
        RequestDescription {
            client,
            server: client,
            version: None,
            path,
            status,
            status_text: String::new(),
            numbers,
            words,
        }
    }

    /// Counts a batch with these statuses, one request for each.
    fn asks(counters: &mut ConnectionCounters, statuses: std::ops::Range<u32>, arrived_ns: u64) {
        for status in statuses {
            if counters.sample(1).is_some() {
                counters.record(ShareIndex::default(), &DONE, arrived_ns, status % 2 == 0, about(status));
            }
        }
    }

    #[test]
    fn a_record_has_the_times_of_its_answer() {
        let taken = Taken::default();
        let recorder = taken.recorder(1);
        let rest = Counts::new(&FAMILY);
        assert!(ConnectionCounters::new(&rest).sample(1).is_none(), "nobody records");
        rest.set_recorder(Arc::clone(&recorder));
        let mut counters = ConnectionCounters::new(&rest);
        asks(&mut counters, 0..2, 100);
        counters.turned(150, 1000, 0);
        asks(&mut counters, 2..3, 200);
        counters.turned(260, 2000, 0);
        assert!(taken.all().is_empty(), "nothing was sent yet");
        counters.sent(1999, 300);
        let times = |record: Record| (record.about.status, record.server_ns, record.whole_ns);
        let got: Vec<_> = taken.all().into_iter().map(times).collect();
        assert_eq!(got, [(0, Some(50), Some(200)), (1, None, None)]);
        drop(counters);
        let got: Vec<_> = taken.all().into_iter().map(times).collect();
        assert_eq!(got, [(2, Some(60), None)], "its connection was lost");
    }

    #[test]
    fn of_several_at_once_the_same_are_taken_as_one_by_one() {
        let recorder = Taken::default().recorder(3);
        let of = |counts: &[u64]| -> Vec<bool> {
            recorder.connections.store(1, Ordering::Relaxed);
            let mut recording = Recording::new(&recorder);
            let of_some = |count| {
                let sampled = recording.sample(count);
                (0..count).map(|at| sampled.is_some_and(|it| it.takes(at))).collect::<Vec<_>>()
            };
            counts.iter().copied().flat_map(of_some).collect()
        };
        let one_by_one = of(&[1; 14]);
        assert_eq!(one_by_one[..5], [false, true, false, false, true]);
        assert_eq!(of(&[0, 1, 5, 2, 0, 6]), one_by_one);
    }

    #[test]
    fn one_of_so_many_is_taken_and_old_ones_go_out_without_their_whole_time() {
        let taken = Taken::default();
        let recorder = taken.recorder(4);
        let rest = Counts::new(&FAMILY);
        rest.set_recorder(Arc::clone(&recorder));
        let mut statuses = Vec::new();
        for _connection in 0..4 {
            let mut counters = ConnectionCounters::new(&rest);
            asks(&mut counters, 0..9, 0);
            drop(counters);
            statuses.extend(taken.all().into_iter().map(|record| record.about.status));
        }
        assert_eq!(statuses, [0, 4, 8, 1, 5, 2, 6, 3, 7]);
        let mut counters = ConnectionCounters::new(&rest);
        asks(&mut counters, 0..4 * MOST_WAITING as u32 + 4, 0);
        counters.turned(1, 1, 0);
        counters.sent(1, 2);
        let whole = |record: &Record| record.whole_ns.is_some();
        let all = taken.all();
        assert!(!whole(&all[0]), "the oldest had to go before its answer was sent");
        assert_eq!(
            (all.len(), all.iter().filter(|record| whole(record)).count()),
            (MOST_WAITING + 1, MOST_WAITING)
        );
    }
}
