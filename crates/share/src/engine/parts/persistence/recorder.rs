//! The recorder of opens, which writes their records to a journal.
//!
//! A failed write loses nothing: the table in memory is right, and the next attempt writes the whole table in
//! the place of all records of the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use volume::journal::{Journal, JournalPosition, MAX_RECORD};

use crate::Caching;
use crate::caching::grants::{Grant, Holder};
use crate::persistence::RecordFreeze;
use crate::persistence::ledger::Ledger;
use crate::persistence::record::{AheadSpan, JournalRecord, OpenRecord, RecordedRight, VERSION};
use crate::ranges::table::LockedRange;
use crate::ranked::{Mutex, Rank};

/// A journal is not compacted before it has this many bytes.
const SMALLEST_COMPACTED: u64 = 256 * 1024;
/// Below this size, only a thread that waits for the disk in any case compacts it.
const LARGE: u64 = 16 * 1024 * 1024;
/// A journal is not compacted before it is this many times as large as its live records.
const WASTE: u64 = 4;

/// The recorder of a share's opens.
pub(crate) struct Recorder {
    journal: Arc<dyn Journal>,
    /// Held for reading while a change is noted.
    freeze: Arc<RecordFreeze>,
    noted: Mutex<NotedRecords>,
    /// The most urgent deadline of the unwritten records, readable without the lock.
    unwritten: AtomicU8,
    /// Held while records are written, so that they are in the order in which they were noted.
    writer: Mutex<Writer>,
    /// The position up to which records are written, and that up to which they are on stable storage.
    written: AtomicU64,
    stable: AtomicU64,
    /// Some of the journal was damaged, so it may have said that an open was closed.
    is_doubtful: bool,
    /// The last attempt to write or to store changes failed.
    has_failed: AtomicBool,
    /// That was logged.
    is_failure_logged: AtomicBool,
}

/// The recorded state of an open.
pub(crate) struct RecordedState {
    pub made: OpenRecord,
    pub ranges: Vec<LockedRange>,
    /// The key of its caching right, and the right.
    pub right: Option<(Holder, RecordedRight)>,
}

/// Nothing is to be written, or nothing that a client waits for.
const NOTHING: u8 = 0;
/// Records to be written before the reply to the client, or before others go on because of them.
pub(crate) const BEFORE_TOLD: u8 = 1;
/// Records to be written at once.
pub(crate) const AT_ONCE: u8 = 2;

struct NotedRecords {
    ledger: Ledger,
    /// Encoded records that are not written yet.
    unwritten: Vec<Vec<u8>>,
}

struct Writer {
    /// The journal lacks a record that was noted.
    lacks: bool,
    /// Bytes of the records when it was last compacted.
    live: u64,
    /// The position up to which all is written.
    at: JournalPosition,
}

impl Recorder {
    /// Continues a `journal` from which `ledger` was read. `changes` came after that.
    ///
    /// A server starts with all its shares at once, and there may be hundreds. So this waits for the disk
    /// only if the journal has to be rewritten: if it is of an earlier version, or mostly outdated. An empty
    /// journal is written with the first change.
    pub fn new(
        journal: Arc<dyn Journal>,
        ledger: Ledger,
        changes: Vec<JournalRecord>,
        freeze: Arc<RecordFreeze>,
    ) -> Result<Recorder, volume::Failure> {
        let version = ledger.version;
        let live = ledger.snapshot().iter().map(|record| record.len() as u64).sum();
        let writer = Writer { lacks: version.is_none(), live, at: JournalPosition::default() };
        let noted = Mutex::new(Rank::Noted, NotedRecords { ledger, unwritten: Vec::new() });
        let unwritten = AtomicU8::new(NOTHING);
        let writer = Mutex::new(Rank::RecordWriter, writer);
        let (written, stable) = (AtomicU64::new(0), AtomicU64::new(0));
        let is_doubtful = journal.lacks_some();
        let (has_failed, is_failure_logged) = (AtomicBool::new(false), AtomicBool::new(false));
        let recorder = Recorder {
            journal,
            freeze,
            noted,
            unwritten,
            writer,
            written,
            stable,
            is_doubtful,
            has_failed,
            is_failure_logged,
        };
        for change in changes {
            recorder.note(change);
        }
        match version {
            None => {}
            Some(VERSION) => {
                recorder.write()?;
                recorder.compact()?;
            }
            Some(_) => recorder.write_anew(&mut recorder.writer.lock())?,
        }
        Ok(recorder)
    }

    /// Notes a change. Takes a leaf lock only.
    pub fn note(&self, record: JournalRecord) {
        let _may_note = self.freeze.note();
        self.note_in(&mut self.noted.lock(), record);
    }

    fn note_in(&self, noted: &mut NotedRecords, record: JournalRecord) {
        self.note_until(AT_ONCE, noted, record);
    }

    /// Notes a change that may wait for the next write, whoever causes it.
    pub fn note_lazily(&self, record: JournalRecord) {
        let _may_note = self.freeze.note();
        self.note_until(NOTHING, &mut self.noted.lock(), record);
    }

    /// Notes a change that has to be written by `then`.
    fn note_until(&self, then: u8, noted: &mut NotedRecords, record: JournalRecord) {
        noted.unwritten.push(record.encode());
        noted.ledger.apply(record);
        self.unwritten.fetch_max(then, Ordering::AcqRel);
    }

    /// Whether the last attempt to write changes failed. The journal lacks changes then.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Writes the noted records. They survive the process then.
    pub fn write(&self) -> Result<JournalPosition, volume::Failure> {
        self.write_as(&mut self.writer.lock())
    }

    /// Logs that changes cannot be written to the journal, once until one is written again: a full disk must
    /// not fill the log too.
    pub fn log_failure(&self, share: &str, written: Result<(), volume::Failure>) {
        match written {
            Ok(())
                if self.is_failure_logged.load(Ordering::Relaxed)
                    && self.is_failure_logged.swap(false, Ordering::AcqRel) =>
            {
                tracing::info!(share, "changes of opens that are kept are recorded again");
            }
            Err(why) if !self.is_failure_logged.swap(true, Ordering::AcqRel) => {
                tracing::warn!(share, %why, "changes of opens that are kept cannot be recorded");
            }
            _ => {}
        }
    }

    /// Writes the noted records, unless another thread is writing some. Returns whether it has.
    pub fn try_write(&self) -> Result<bool, volume::Failure> {
        let Some(mut writer) = self.writer.try_lock() else { return Ok(false) };
        self.write_as(&mut writer).map(|_| true)
    }

    fn write_as(&self, writer: &mut Writer) -> Result<JournalPosition, volume::Failure> {
        let written = self.append_noted(writer);
        if written.is_err() || self.has_failed() {
            self.has_failed.store(written.is_err(), Ordering::Release);
        }
        written
    }

    fn append_noted(&self, writer: &mut Writer) -> Result<JournalPosition, volume::Failure> {
        if writer.lacks {
            self.write_anew(writer)?;
        }
        let unwritten = std::mem::take(&mut self.noted.lock().unwritten);
        // Together, so that records that belong together are all there or none.
        let appended = joined(unwritten).iter().try_for_each(|records| {
            writer.at = self.journal.append(records)?;
            Ok(())
        });
        if appended.is_err() {
            writer.lacks = true;
            // Before another thread finds nothing unwritten and takes its own records for written.
            self.has_failed.store(true, Ordering::Release);
        }
        self.written.fetch_max(writer.at.0, Ordering::AcqRel);
        // Only now, so that a thread that noted one of these does not go on before it is written.
        let noted = self.noted.lock();
        if noted.unwritten.is_empty() {
            self.unwritten.store(NOTHING, Ordering::Release);
        }
        drop(noted);
        appended.map(|()| writer.at)
    }

    /// Replaces the whole journal by the live records.
    fn write_anew(&self, writer: &mut Writer) -> Result<(), volume::Failure> {
        let mut noted = self.noted.lock();
        let records = noted.ledger.snapshot();
        noted.unwritten.clear();
        drop(noted);
        // Until it is done, the noted records are nowhere else.
        writer.lacks = true;
        self.journal.replace(&mut records.into_iter())?;
        (writer.lacks, writer.live) = (false, self.journal.size());
        Ok(())
    }

    /// Compacts the journal if most of it is outdated. May block.
    pub fn compact(&self) -> Result<(), volume::Failure> {
        let mut writer = self.writer.lock();
        if self.journal.size() <= SMALLEST_COMPACTED.max(writer.live.saturating_mul(WASTE)) {
            return Ok(());
        }
        self.write_anew(&mut writer)
    }

    /// Notes several records together that have to be written by `then`.
    pub fn note_all(&self, then: u8, records: impl Iterator<Item = JournalRecord>) {
        let _may_note = self.freeze.note();
        let mut noted = self.noted.lock();
        records.for_each(|record| self.note_until(then, &mut noted, record));
    }

    /// Notes a release. If its client will claim its state itself, only the reply to that client waits for
    /// the record.
    pub fn note_released(&self, is_claimed: bool, record: JournalRecord) {
        let _may_note = self.freeze.note();
        let mut noted = self.noted.lock();
        self.note_released_in(is_claimed, &mut noted, record);
    }

    fn note_released_in(&self, is_claimed: bool, noted: &mut NotedRecords, record: JournalRecord) {
        self.note_until(if is_claimed { BEFORE_TOLD } else { AT_ONCE }, noted, record);
    }

    /// Notes that versions run ahead of the host's clock since `began` (wall ns).
    pub fn note_ahead(&self, began: u64) {
        let _may_note = self.freeze.note();
        let mut noted = self.noted.lock();
        let since = noted.ledger.ahead.map_or(u64::MAX, |ahead| ahead.since).min(began);
        self.note_in(&mut noted, JournalRecord::Ahead(AheadSpan { since, until: None }));
    }

    /// Notes the right of a holder, if an open of it is recorded.
    pub fn note_right(&self, holder: Holder, grant: Option<Grant>) {
        let _may_note = self.freeze.note();
        let mut noted = self.noted.lock();
        let Some(known) = noted.ledger.rights.get(&holder).copied() else { return };
        let right = grant.map_or(RecordedRight { state: Caching::empty(), ..known }, right_of);
        if right != known {
            self.note_in(&mut noted, JournalRecord::Right { holder, right });
        }
    }

    /// Notes in one step that byte ranges were locked or released, and the note of the open from now on.
    pub fn note_ranges(&self, is_claimed: bool, changes: Vec<JournalRecord>, note: Option<JournalRecord>) {
        let _may_note = self.freeze.note();
        let mut noted = self.noted.lock();
        for change in changes {
            let is_released = matches!(change, JournalRecord::Released { .. });
            self.note_released_in(is_claimed && is_released, &mut noted, change);
        }
        if let Some(note) = note {
            self.note_in(&mut noted, note);
        }
    }

    /// The time for which a recorded open is kept, and its note.
    pub fn kept_with(&self, id: u64) -> Option<(u64, Vec<u8>)> {
        let noted = self.noted.lock();
        noted.ledger.live.get(&id).map(|entry| (entry.made.keep_ns, entry.made.note.clone()))
    }

    /// The recorded state of an open.
    pub fn recorded(&self, id: u64) -> Option<RecordedState> {
        let noted = self.noted.lock();
        let entry = noted.ledger.live.get(&id)?;
        let right = entry.holder().and_then(|holder| Some((holder, *noted.ledger.rights.get(&holder)?)));
        let ranges = entry.ranges.held().copied().collect();
        Some(RecordedState { made: entry.made.clone(), ranges, right })
    }

    /// Whether some of the journal was damaged when it was read.
    pub fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Whether records have to be written by then.
    pub fn must_write(&self, then: u8) -> bool {
        self.unwritten.load(Ordering::Acquire) >= then
    }

    /// Whether the journal lacks a noted record.
    pub fn lags(&self) -> bool {
        self.has_failed() || !self.noted.lock().unwritten.is_empty()
    }

    /// Returns when all records noted before are on stable storage. May block.
    pub fn commit(&self) -> Result<(), volume::Failure> {
        let position = self.write()?;
        if let Err(why) = self.journal.commit(position) {
            // Nobody knows which records are stored.
            self.writer.lock().lacks = true;
            self.has_failed.store(true, Ordering::Release);
            return Err(why);
        }
        self.stable.fetch_max(position.0, Ordering::AcqRel);
        Ok(())
    }

    /// Whether another thread has written records and not had them stored yet.
    pub fn is_unstable(&self) -> bool {
        self.written.load(Ordering::Acquire) > self.stable.load(Ordering::Acquire)
    }

    /// Whether the journal is large enough to check how much of it is outdated.
    pub fn is_large(&self) -> bool {
        self.journal.size() > LARGE
    }
}

/// A right as it is restored after a restart. Other requests wait for the release of a right to write, and of
/// any right that is released as a whole. For other breaks they may have gone on already, and the notice may
/// be lost with the process.
pub(crate) fn right_of(grant: Grant) -> RecordedRight {
    let Grant { state: held, epoch, parent, breaking, whole } = grant;
    let is_waited_for = whole || held.contains(Caching::WRITE);
    let state = breaking.filter(|_| !is_waited_for).unwrap_or(held);
    RecordedRight { state, epoch: epoch.unwrap_or(0), counts: epoch.is_some(), parent }
}

/// Records joined into as few journal records as possible.
fn joined(records: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut joined: Vec<Vec<u8>> = Vec::new();
    for record in records {
        match joined.last_mut() {
            Some(last) if last.len() + record.len() <= MAX_RECORD => last.extend_from_slice(&record),
            _ => joined.push(record),
        }
    }
    joined
}
