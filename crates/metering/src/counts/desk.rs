//! The counters of one connection: the share of each request, the time of its reply, and the time when the
//! reply was sent.
//!
//! Start with [`Desk`].

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::habits::{Habit, Habits};
use super::of_share::{Counted, Counts};
use super::record::{About, Record, Recording, Sampled};
use super::transaction::{Family, Noted};

/// The most replies whose sending is timed. If a client does not read its replies, the oldest ones beyond
/// this number get no time of sending.
const MOST_LEAVING: usize = 4096;
/// A queue that was longer than this returns its memory when it is empty.
const KEPT_LEAVING: usize = 128;

/// The index of a share in a [`Desk`]. The first one stands for requests of no share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place(u16);

/// The counters that a connection has for one share.
struct Sheet {
    share: u64,
    counts: Arc<Counts>,
    habits: Arc<Habits>,
    /// The name of the share, if requests are recorded.
    name: Option<Arc<str>>,
}

/// A reply that the host has not sent yet.
struct Leaving {
    /// The end of the reply in the stream of all replies, or a position behind it.
    end: u64,
    arrived_ns: u64,
    place: Place,
    operation: u8,
    authentication: u8,
}

/// The activity of a connection on one share.
struct Visit {
    share: Weak<dyn Counted>,
    habits: Arc<Habits>,
}

/// The shares that a connection has used and its activity on each. Other threads read it.
#[derive(Default)]
pub struct Visits {
    /// The number of requests that were in progress at once.
    depth: Habits,
    shares: Mutex<Vec<Visit>>,
}

impl Visits {
    /// The number of requests in progress, and the activity on each share by the share's name.
    #[must_use]
    pub fn read(&self) -> (Habit, Vec<(String, Habit)>) {
        let shares = self.shares.lock();
        let read = |visit: &Visit| Some((visit.share.upgrade()?.name(), visit.habits.read()));
        (self.depth.read(), shares.iter().filter_map(read).collect())
    }
}

/// The counters of one connection.
pub struct Desk {
    family: &'static Family,
    /// The first entry is for requests of no share.
    sheets: Vec<Sheet>,
    /// The share that was looked up last.
    last: Place,
    visits: Arc<Visits>,
    leaving: VecDeque<Leaving>,
    /// How many of `leaving`, counted from its end, belong to this batch.
    fresh: usize,
    /// Requests that came in this batch.
    requests: u64,
    /// None: requests are not recorded.
    recording: Option<Box<Recording>>,
}

impl Desk {
    /// The counters of a new connection. `rest` counts the requests of no share.
    #[must_use]
    pub fn new(rest: &Arc<Counts>) -> Desk {
        let none = Sheet { share: 0, counts: Arc::clone(rest), habits: Arc::default(), name: None };
        Desk {
            family: rest.family(),
            sheets: vec![none],
            last: Place::default(),
            visits: Arc::default(),
            leaving: VecDeque::new(),
            fresh: 0,
            requests: 0,
            recording: rest.recorder().map(|recorder| Box::new(Recording::new(recorder))),
        }
    }

    /// The part that other threads may read.
    #[must_use]
    pub fn visits(&self) -> &Arc<Visits> {
        &self.visits
    }

    /// The index of a share. A share that is new here is added.
    #[inline]
    pub fn place<S: Counted + 'static>(&mut self, share: &Arc<S>) -> Place {
        self.known(share.number()).unwrap_or_else(|| self.add(share))
    }

    /// The index of the share with this number ([`Counted::number`]), if the connection has used it.
    #[inline]
    pub fn known(&mut self, number: u64) -> Option<Place> {
        if self.sheets.get(usize::from(self.last.0)).is_some_and(|sheet| sheet.share == number) {
            return Some(self.last);
        }
        let at = self.sheets.iter().position(|sheet| sheet.share == number)?;
        self.last = Place(u16::try_from(at).ok()?);
        Some(self.last)
    }

    #[cold]
    fn add<S: Counted + 'static>(&mut self, share: &Arc<S>) -> Place {
        let Ok(at) = u16::try_from(self.sheets.len()) else { return Place::default() };
        let habits: Arc<Habits> = Arc::default();
        let visit = Visit { share: Arc::<S>::downgrade(share), habits: Arc::clone(&habits) };
        self.visits.shares.lock().push(visit);
        let name = self.recording.is_some().then(|| share.name().into());
        self.sheets.push(Sheet { share: share.number(), counts: share.counts(self.family), habits, name });
        Place(at)
    }

    /// Counts a message that has arrived.
    #[inline]
    pub fn begin(&mut self) {
        self.requests += 1;
    }

    /// Counts a transaction. `arrived_ns` (monotonic) is the time when the request was taken up. With it the
    /// duration is measured too. The reply is sent with those of this batch.
    #[inline]
    pub fn note(&mut self, place: Place, noted: &Noted, arrived_ns: Option<u64>) {
        let Some(sheet) = self.sheets.get(usize::from(place.0)) else { return };
        sheet.counts.note(noted);
        sheet.habits.note(noted.kind, noted.data);
        let Some(arrived_ns) = arrived_ns.filter(|_| noted.response.is_success()) else { return };
        let Noted { operation, authentication, .. } = *noted;
        if self.leaving.len() >= MOST_LEAVING {
            self.leaving.pop_front();
        }
        self.leaving.push_back(Leaving { end: u64::MAX, arrived_ns, place, operation, authentication });
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
    pub fn record(&mut self, place: Place, noted: &Noted, arrived_ns: u64, is_timed: bool, about: About) {
        let (Some(recording), Some(sheet)) = (&mut self.recording, self.sheets.get(usize::from(place.0)))
        else {
            return;
        };
        recording.note(Record {
            share: sheet.name.clone(),
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
        let first = self.leaving.len().saturating_sub(std::mem::take(&mut self.fresh));
        for leaving in self.leaving.range_mut(first..) {
            leaving.end = end;
            let Some(sheet) = self.sheets.get(usize::from(leaving.place.0)) else { continue };
            let ns = ended_ns.saturating_sub(leaving.arrived_ns);
            sheet.counts.took(leaving.operation, leaving.authentication, ns);
        }
        if let Some(recording) = &mut self.recording {
            recording.turned(ended_ns, end);
        }
        let came = std::mem::take(&mut self.requests);
        if came > 0 {
            self.visits.depth.note_depth(came + waiting as u64);
        }
    }

    /// The host has taken `taken` bytes of all replies.
    pub fn sent(&mut self, taken: u64, at_ns: u64) {
        while self.leaving.front().is_some_and(|leaving| leaving.end <= taken)
            && let Some(leaving) = self.leaving.pop_front()
        {
            let Some(sheet) = self.sheets.get(usize::from(leaving.place.0)) else { continue };
            let ns = at_ns.saturating_sub(leaving.arrived_ns);
            sheet.counts.took_with_sending(leaving.operation, leaving.authentication, ns);
        }
        if let Some(recording) = &mut self.recording {
            recording.sent(taken, at_ns);
        }
        if self.leaving.is_empty() && self.leaving.capacity() > KEPT_LEAVING {
            self.leaving = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use crate::limits::ResponseType;

    static FAMILY: Family = Family { name: "F", operations: &["One", "Two"], authentications: &["Key"] };
    const DONE: Noted = Noted {
        operation: 1,
        authentication: 0,
        kind: Kind::Write,
        response: ResponseType::Success,
        ingress: 10,
        egress: 20,
        data: 5,
    };

    #[test]
    fn what_took_how_long_is_known_when_it_was_answered_and_when_it_was_sent() {
        let rest = Counts::new(&FAMILY);
        let mut desk = Desk::new(&rest);
        let nowhere = Place::default();
        desk.begin();
        desk.note(nowhere, &DONE, Some(1_000_000));
        desk.note(nowhere, &Noted { response: ResponseType::ClientOtherError, ..DONE }, Some(1_000_000));
        desk.turned(3_000_000, 100, 0);
        desk.begin();
        desk.begin();
        desk.note(nowhere, &DONE, Some(4_000_000));
        desk.turned(5_000_000, 200, 4);
        let sums = || {
            let transactions = &rest.read().transactions[0];
            [&transactions.took, &transactions.took_with_sending].map(|all| (all.count(), all.sum_ns))
        };
        assert_eq!(sums(), [(2, 3_000_000), (0, 0)]);
        desk.sent(199, 6_000_000);
        assert_eq!(sums(), [(2, 3_000_000), (1, 5_000_000)]);
        desk.sent(200, 7_000_000);
        assert_eq!(sums(), [(2, 3_000_000), (2, 8_000_000)]);
        let (depth, _) = desk.visits().read();
        assert_eq!((depth.turns, depth.at_once, depth.most_at_once), (2, 7, 6));
    }

    #[test]
    fn answers_that_nobody_takes_do_not_pile_up() {
        let rest = Counts::new(&FAMILY);
        let mut desk = Desk::new(&rest);
        for turn in 0..3 * MOST_LEAVING as u64 {
            desk.note(Place::default(), &DONE, Some(turn));
            desk.turned(turn + 1, turn + 1, 0);
        }
        assert_eq!(desk.leaving.len(), MOST_LEAVING);
        desk.sent(u64::MAX - 1, u64::MAX);
        let read = rest.read().transactions[0].clone();
        assert_eq!(
            (read.took.count(), read.took_with_sending.count()),
            (3 * MOST_LEAVING as u64, MOST_LEAVING as u64)
        );
        assert!(desk.leaving.capacity() <= KEPT_LEAVING);
    }
}
