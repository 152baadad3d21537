//! Writing down what is noted of opens.
//!
//! What cannot be written is not lost: the table in memory is right, and the next attempt writes the whole
//! of it in the place of all that the journal has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use volume::journal::{Journal, JournalPosition, MAX_RECORD};

use crate::Caching;
use crate::caching::grants::{Grant, Holder};
use crate::lasting::ledger::Ledger;
use crate::lasting::record::{Ahead, Record, Right, VERSION};
use crate::ranked::{Mutex, Rank};

/// A journal is not written anew before it has so many bytes.
const SMALLEST_COMPACTED: u64 = 256 * 1024;
/// Before it has so many, only who waits for the disk in any case writes it anew.
const LARGE: u64 = 16 * 1024 * 1024;
/// Nor before it is so many times as large as what is live.
const WASTE: u64 = 4;

/// Where a share's opens are recorded.
pub(crate) struct Recorder {
    journal: Arc<dyn Journal>,
    noted: Mutex<Noted>,
    /// Says without the lock what is still to be written.
    unwritten: AtomicU8,
    /// Held while something is written, so that records stand in the order in which they were noted.
    writer: Mutex<Writer>,
}

/// Nothing is to be written, or nothing that anybody waits for.
const NOTHING: u8 = 0;
/// What is to be written before the client that asked for it is told of it, or others go on because of it.
pub(crate) const BEFORE_TOLD: u8 = 1;
/// What is to be written at once.
pub(crate) const AT_ONCE: u8 = 2;

struct Noted {
    ledger: Ledger,
    /// Encoded records that are not written yet.
    unwritten: Vec<Vec<u8>>,
}

struct Writer {
    /// The journal lacks something that was noted.
    lacks: bool,
    /// Bytes of the records when it was last written anew.
    live: u64,
    /// Up to where everything is written.
    at: JournalPosition,
}

impl Recorder {
    /// Goes on with what `journal` has, from which `ledger` was read; `changes` came after that.
    ///
    /// A server starts with all its shares at once, and there may be hundreds. So the disk is waited for only where the journal is to be
    /// written anew: when it is of an earlier version, or mostly of the past. One that has nothing yet is written with the first change.
    pub fn new(
        journal: Arc<dyn Journal>,
        ledger: Ledger,
        changes: Vec<Record>,
    ) -> Result<Recorder, volume::Failure> {
        let version = ledger.version;
        let live = ledger.snapshot().iter().map(|record| record.len() as u64).sum();
        let writer = Writer { lacks: version.is_none(), live, at: JournalPosition::default() };
        let noted = Mutex::new(Rank::Noted, Noted { ledger, unwritten: Vec::new() });
        let unwritten = AtomicU8::new(NOTHING);
        let recorder = Recorder { journal, noted, unwritten, writer: Mutex::new(Rank::RecordWriter, writer) };
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
    pub fn note(&self, record: Record) {
        self.note_in(&mut self.noted.lock(), record);
    }

    fn note_in(&self, noted: &mut Noted, record: Record) {
        self.note_until(AT_ONCE, noted, record);
    }

    /// The same for what has until then to be written.
    fn note_until(&self, then: u8, noted: &mut Noted, record: Record) {
        self.note_for_later(noted, record);
        self.unwritten.fetch_max(then, Ordering::AcqRel);
    }

    /// The same for what need not be written before anybody goes on.
    fn note_for_later(&self, noted: &mut Noted, record: Record) {
        noted.unwritten.push(record.encode());
        noted.ledger.apply(record);
    }

    /// Writes what was noted; it survives the process then.
    pub fn write(&self) -> Result<JournalPosition, volume::Failure> {
        let mut writer = self.writer.lock();
        if writer.lacks {
            self.write_anew(&mut writer)?;
        }
        let unwritten = std::mem::take(&mut self.noted.lock().unwritten);
        // Together, so that what belongs together is there or not.
        let appended = joined(unwritten).iter().try_for_each(|records| {
            writer.at = self.journal.append(records)?;
            Ok(())
        });
        writer.lacks |= appended.is_err();
        // Only now, so that whoever noted one of these does not go on before it is written.
        let noted = self.noted.lock();
        if noted.unwritten.is_empty() {
            self.unwritten.store(NOTHING, Ordering::Release);
        }
        drop(noted);
        appended.map(|()| writer.at)
    }

    /// Puts what is live in the place of everything.
    fn write_anew(&self, writer: &mut Writer) -> Result<(), volume::Failure> {
        let mut noted = self.noted.lock();
        let records = noted.ledger.snapshot();
        noted.unwritten.clear();
        drop(noted);
        // Until it is done, what was noted is nowhere else.
        writer.lacks = true;
        self.journal.replace(&mut records.into_iter())?;
        (writer.lacks, writer.live) = (false, self.journal.size());
        Ok(())
    }

    /// Writes the journal anew when most of it is of the past. May block.
    pub fn compact(&self) -> Result<(), volume::Failure> {
        let mut writer = self.writer.lock();
        if self.journal.size() <= SMALLEST_COMPACTED.max(writer.live.saturating_mul(WASTE)) {
            return Ok(());
        }
        self.write_anew(&mut writer)
    }

    /// Notes together what has until then to be written.
    pub fn note_all(&self, then: u8, records: impl Iterator<Item = Record>) {
        let mut noted = self.noted.lock();
        records.for_each(|record| self.note_until(then, &mut noted, record));
    }

    /// Notes something that need not be on record at once where it is given back by a client that will say itself what it had.
    pub fn note_given_back(&self, is_claimed: bool, record: Record) {
        let mut noted = self.noted.lock();
        self.note_given_back_in(is_claimed, &mut noted, record);
    }

    fn note_given_back_in(&self, is_claimed: bool, noted: &mut Noted, record: Record) {
        if is_claimed { self.note_for_later(noted, record) } else { self.note_in(noted, record) }
    }

    /// Notes that versions run ahead of the host's clock, in a run that began then (wall ns).
    pub fn note_ahead(&self, began: u64) {
        let mut noted = self.noted.lock();
        let since = noted.ledger.ahead.map_or(u64::MAX, |ahead| ahead.since).min(began);
        self.note_in(&mut noted, Record::Ahead(Ahead { since, until: None }));
    }

    /// Notes the right of a holder, if an open of it is recorded.
    pub fn note_right(&self, holder: Holder, grant: Option<Grant>) {
        let mut noted = self.noted.lock();
        let Some(known) = noted.ledger.rights.get(&holder).copied() else { return };
        let right = grant.map_or(Right { state: Caching::empty(), ..known }, right_of);
        if right != known {
            self.note_in(&mut noted, Record::Right { holder, right });
        }
    }

    /// Notes in one step that byte ranges were taken or released, and what is beside the open from now on.
    pub fn note_ranges(&self, is_claimed: bool, changes: Vec<Record>, note: Option<Record>) {
        let mut noted = self.noted.lock();
        for change in changes {
            let is_given_back = matches!(change, Record::Released { .. });
            self.note_given_back_in(is_claimed && is_given_back, &mut noted, change);
        }
        if let Some(note) = note {
            self.note_in(&mut noted, note);
        }
    }

    /// For how long an open is kept that is recorded, and what is beside it.
    pub fn kept_with(&self, id: u64) -> Option<(u64, Vec<u8>)> {
        let noted = self.noted.lock();
        noted.ledger.live.get(&id).map(|entry| (entry.made.keep_ns, entry.made.note.clone()))
    }

    /// Whether something is to be written by then.
    pub fn must_write(&self, then: u8) -> bool {
        self.unwritten.load(Ordering::Acquire) >= then
    }

    /// Whether anything was noted that is not written.
    pub fn lags(&self) -> bool {
        !self.noted.lock().unwritten.is_empty()
    }

    /// Returns when all that was noted before is on stable storage. May block.
    pub fn commit(&self) -> Result<(), volume::Failure> {
        let place = self.write()?;
        self.journal.commit(place)
    }

    /// Whether it is worth looking whether most of the journal is of the past.
    pub fn is_large(&self) -> bool {
        self.journal.size() > LARGE
    }
}

/// A right as it comes back after a restart. Others wait until a right to write is given back, and any that is given back
/// as a whole; what else is broken they may have gone past already, and the notice may be lost with the process.
pub(crate) fn right_of(grant: Grant) -> Right {
    let Grant { state: held, epoch, parent, breaking, whole } = grant;
    let is_waited_for = whole || held.contains(Caching::WRITE);
    let state = breaking.filter(|_| !is_waited_for).unwrap_or(held);
    Right { state, epoch: epoch.unwrap_or(0), counts: epoch.is_some(), parent }
}

/// Records one behind the other, as many as go into one of the journal.
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
