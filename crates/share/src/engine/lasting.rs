//! Recording opens that outlive the process.
//!
//! A change is noted under the lock that orders it ([`Share::note_change`], which takes a leaf lock and
//! does no I/O), and written when that lock is no longer held ([`Share::write_changes`]). Who promises
//! something to a client calls [`Share::make_last`] first, which returns when all that was noted before is on
//! stable storage.
//!
//! What cannot be written is not lost: the table in memory is right, and the next attempt writes the whole
//! of it in the place of all that the journal has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use volume::journal::{Journal, MAX_RECORD, Place};

use super::Share;
use super::file::{Deletion, File, Link, State};
use crate::caching::grants::Grant;
use crate::lasting::ledger::Ledger;
use crate::lasting::record::{Ahead, Goes, Holder, Made, Record, Right, VERSION};
use crate::ranked::{Mutex, Rank};
use crate::{Caching, LockOwner, LockRule, Open, RangeRequest, Refusal};

/// A journal is not written anew before it has so many bytes.
const SMALLEST_COMPACTED: u64 = 256 * 1024;
/// Before it has so many, only who waits for the disk in any case writes it anew.
const LARGE: u64 = 16 * 1024 * 1024;
/// Nor before it is so many times as large as what is live.
const WASTE: u64 = 4;
/// Bytes of the record of an address without the address.
const MAX_AROUND_ADDRESS: usize = 13;

/// Where a share's opens are recorded.
pub(crate) struct Keeping {
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
const BEFORE_TOLD: u8 = 1;
/// What is to be written at once.
const AT_ONCE: u8 = 2;

/// How the file of an open is found again.
enum FoundBy<'a> {
    Path { path: Vec<volume::Name>, born: Option<volume::Time> },
    Address(&'a [u8]),
}

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
    at: Place,
}

impl Keeping {
    /// Goes on with what `journal` has, from which `ledger` was read; `changes` came after that.
    ///
    /// A server starts with all its shares at once, and there may be hundreds. So the disk is waited for only where the journal is to be
    /// written anew: when it is of an earlier version, or mostly of the past. One that has nothing yet is written with the first change.
    pub fn new(
        journal: Arc<dyn Journal>,
        ledger: Ledger,
        changes: Vec<Record>,
    ) -> Result<Keeping, volume::Failure> {
        let version = ledger.version;
        let live = ledger.snapshot().iter().map(|record| record.len() as u64).sum();
        let writer = Writer { lacks: version.is_none(), live, at: Place::default() };
        let noted = Mutex::new(Rank::Noted, Noted { ledger, unwritten: Vec::new() });
        let unwritten = AtomicU8::new(NOTHING);
        let keeping = Keeping { journal, noted, unwritten, writer: Mutex::new(Rank::RecordWriter, writer) };
        for change in changes {
            keeping.note(change);
        }
        match version {
            None => {}
            Some(VERSION) => {
                keeping.write()?;
                keeping.compact()?;
            }
            Some(_) => keeping.write_anew(&mut keeping.writer.lock())?,
        }
        Ok(keeping)
    }

    /// Notes a change. Takes a leaf lock only.
    fn note(&self, record: Record) {
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
    fn write(&self) -> Result<Place, volume::Failure> {
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
    fn compact(&self) -> Result<(), volume::Failure> {
        let mut writer = self.writer.lock();
        if self.journal.size() <= SMALLEST_COMPACTED.max(writer.live.saturating_mul(WASTE)) {
            return Ok(());
        }
        self.write_anew(&mut writer)
    }
}

impl Share {
    /// Whether opens can be made to outlive the process.
    pub fn keeps_opens(&self) -> bool {
        self.keeping.get().is_some()
    }

    /// Records an open from now on, so that after a restart it is there again for `keep_ns` nanoseconds, and
    /// with it `note`. It is not yet sure to survive: see [`Share::make_last`].
    ///
    /// # Errors
    /// [`Refusal::NotSupported`] when the share records nothing; [`Refusal::Invalid`] for a directory, or
    /// when there is too much to record; [`Refusal::Gone`] when it is closed; as the host says. It is not
    /// recorded then.
    pub fn record(&self, open: &Arc<Open>, keep_ns: u64, note: Vec<u8>) -> Result<(), Refusal> {
        let keeping = self.keeping.get().ok_or(Refusal::NotSupported)?;
        if open.is_directory() {
            return Err(Refusal::Invalid);
        }
        let found = FoundBy::Path { path: self.path_of(open), born: open.node.stat()?.born };
        self.note_made(open, found, keep_ns, note)?;
        if let Err(why) = keeping.write() {
            self.unrecord(open);
            return Err(why.into());
        }
        Ok(())
    }

    /// The same for a client that says itself after a restart what it had. Its file is found by the `address` that the
    /// volume gave it, whatever it is called then. Written by
    /// [`Share::write_changes`], which is to be called before anybody is told of it; that it was closed, or a range of it
    /// released, is written some time later ([`Share::write_noted`]).
    ///
    /// # Errors
    /// As [`Share::record`], but for the host's.
    pub fn enlist(&self, open: &Arc<Open>, address: &[u8], note: Vec<u8>) -> Result<(), Refusal> {
        if open.is_directory() {
            return Err(Refusal::Invalid);
        }
        self.note_made(open, FoundBy::Address(address), 0, note)
    }

    /// Notes all of an open.
    fn note_made(
        &self,
        open: &Arc<Open>,
        found: FoundBy<'_>,
        keep_ns: u64,
        note: Vec<u8>,
    ) -> Result<(), Refusal> {
        let keeping = self.keeping.get().ok_or(Refusal::NotSupported)?;
        let (paths, born, address) = match found {
            FoundBy::Path { path, born } => (vec![path], born, Vec::new()),
            // The path says by which name it counts, if that still leads to it.
            FoundBy::Address(address) => (vec![self.path_of(open)], None, address.to_vec()),
        };
        let party = open.party.read().clone();
        let mut state = open.file.state.lock();
        if open.is_closed() {
            return Err(Refusal::Gone);
        }
        let stream = state.stream(&open.stream);
        let asker = party.asker;
        let holder = asker.client.zip(asker.key).map(|(client, (key, keyed))| (client, key, keyed));
        let grant = holder.and_then(|(client, key, keyed)| stream.grants.of(client, key, keyed));
        let held: Vec<_> = stream.ranges.held().filter(|held| held.open == open.id).copied().collect();
        let goes = going(&mut state, open);
        let made = Made {
            id: open.id,
            client: party.client,
            user: party.identity.sid,
            inode: open.file.id.inode,
            born,
            paths,
            stream: open.stream.name(),
            granted: open.granted.bits(),
            deny: open.deny.bits(),
            options: open.options.bits(),
            opened_at: open.opened_at,
            key: asker.key,
            parent: asker.parent,
            right: grant.map(right_of),
            goes,
            keep_ns,
            note,
            address: Vec::new(),
        };
        let record = Record::Made(Box::new(made));
        if record.encode().len() + address.len() + MAX_AROUND_ADDRESS > MAX_RECORD {
            return Err(Refusal::Invalid);
        }
        open.claimed.store(!address.is_empty(), Ordering::Relaxed);
        open.lasting.store(true, Ordering::Release);
        // Who enlists an open says itself when its client is told.
        let then = if address.is_empty() { AT_ONCE } else { BEFORE_TOLD };
        let mut noted = keeping.noted.lock();
        keeping.note_until(then, &mut noted, record);
        if !address.is_empty() {
            keeping.note_until(then, &mut noted, Record::Address { id: open.id, address });
        }
        for held in held {
            keeping.note_until(then, &mut noted, taken(open, held.owner, held.rule, vec![held.range]));
        }
        Ok(())
    }

    /// Records all of an open again, whose stream has another name.
    pub(super) fn record_again(&self, open: &Arc<Open>) -> Result<(), Refusal> {
        let Some(keeping) = self.keeping.get().filter(|_| open.is_lasting()) else { return Ok(()) };
        let known =
            keeping.noted.lock().ledger.live.get(&open.id).map(|e| (e.made.keep_ns, e.made.note.clone()));
        match known {
            Some((keep_ns, note)) => self.record(open, keep_ns, note),
            None => Ok(()),
        }
    }

    /// Changes what is recorded beside an open. Sure to survive after [`Share::make_last`].
    pub fn annotate(&self, open: &Open, note: Vec<u8>) {
        if open.is_lasting() {
            self.note_change(Record::Note { id: open.id, note });
        }
    }

    /// No longer records an open, which goes on.
    pub fn unrecord(&self, open: &Open) {
        if !open.is_lasting() {
            return;
        }
        let _state = open.file.state.lock();
        if open.lasting.swap(false, Ordering::AcqRel)
            && let Some(keeping) = self.keeping.get()
        {
            let record = Record::Closed { id: open.id };
            let mut noted = keeping.noted.lock();
            if open.claimed.load(Ordering::Relaxed) {
                keeping.note_for_later(&mut noted, record);
            } else {
                keeping.note_in(&mut noted, record);
            }
        }
    }

    /// Returns when all that was recorded before is on stable storage. May block.
    ///
    /// # Errors
    /// As the host says; what was recorded is not sure to survive then.
    pub fn make_last(&self) -> Result<(), Refusal> {
        let Some(keeping) = self.keeping.get() else { return Ok(()) };
        let place = keeping.write()?;
        keeping.journal.commit(place)?;
        if let Err(why) = keeping.compact() {
            tracing::warn!(share = %self.name(), %why, "the record of opens could not be made smaller");
        }
        Ok(())
    }

    /// Notes a change of an open that is recorded; under the lock that orders it.
    pub(super) fn note_change(&self, record: Record) {
        if let Some(keeping) = self.keeping.get() {
            keeping.note(record);
        }
    }

    /// Writes what was noted and cannot wait, so that it survives the process. With no lock held.
    pub fn write_changes(&self) {
        self.write_from(BEFORE_TOLD);
    }

    /// The same, but what only its own client waits for is left to whoever tells that client, who may enlist more before.
    pub(super) fn write_urgent(&self) {
        self.write_from(AT_ONCE);
    }

    fn write_from(&self, least: u8) {
        let Some(keeping) = self.keeping.get() else { return };
        if keeping.unwritten.load(Ordering::Acquire) < least {
            return;
        }
        if let Err(why) = keeping.write() {
            tracing::warn!(share = %self.name(), %why, "a change of an open that is kept could not be recorded");
        }
    }

    /// Writes everything that was noted, also what can wait. To be called now and then.
    pub fn write_noted(&self) {
        let Some(keeping) = self.keeping.get() else { return };
        if keeping.noted.lock().unwritten.is_empty() {
            return;
        }
        if let Err(why) = keeping.write() {
            tracing::warn!(share = %self.name(), %why, "a change of an open that is kept could not be recorded");
        }
    }

    /// Makes the record smaller when it is large and most of it is of the past. To be called now and then. May block.
    pub fn compact_record(&self) {
        let Some(keeping) = self.keeping.get().filter(|keeping| keeping.journal.size() > LARGE) else {
            return;
        };
        if let Err(why) = keeping.compact() {
            tracing::warn!(share = %self.name(), %why, "the record of opens could not be made smaller");
        }
    }

    /// Notes that versions run ahead of the host's clock, before the first that does is told.
    pub(super) fn note_ahead(&self) {
        let Some(keeping) = self.keeping.get() else { return };
        let mut noted = keeping.noted.lock();
        let since = noted.ledger.ahead.map_or(u64::MAX, |ahead| ahead.since).min(self.versions.began());
        keeping.note_in(&mut noted, Record::Ahead(Ahead { since, until: None }));
        drop(noted);
        self.write_changes();
    }

    /// Notes the right of a holder, if an open of it is recorded. Under the file's lock.
    pub(super) fn note_right(&self, holder: Holder, grant: Option<Grant>) {
        let Some(keeping) = self.keeping.get() else { return };
        let mut noted = keeping.noted.lock();
        let Some(known) = noted.ledger.rights.get(&holder).copied() else { return };
        let right = grant.map_or(Right { state: Caching::empty(), ..known }, right_of);
        if right != known {
            keeping.note_in(&mut noted, Record::Right { holder, right });
        }
    }

    /// Notes in one step that byte ranges were taken or released through an open, and what is beside it from now on.
    /// Under the file's lock.
    pub(super) fn note_ranges(&self, open: &Open, changes: Vec<Record>, note: Option<Vec<u8>>) {
        let Some(keeping) = self.keeping.get() else { return };
        let mut noted = keeping.noted.lock();
        for change in changes {
            if open.claimed.load(Ordering::Relaxed) && matches!(change, Record::Released { .. }) {
                keeping.note_for_later(&mut noted, change);
            } else {
                keeping.note_in(&mut noted, change);
            }
        }
        if let Some(note) = note {
            keeping.note_in(&mut noted, Record::Note { id: open.id, note });
        }
    }

    /// Notes what of a file is marked to go, or no longer. Under its lock.
    pub(super) fn note_marks(&self, state: &mut State) {
        if !self.keeps_opens() {
            return;
        }
        let opens: Vec<_> = state.members.iter().filter_map(|member| member.open.upgrade()).collect();
        for open in opens.iter().filter(|open| open.is_lasting()) {
            let goes = going(state, open);
            self.note_change(Record::Goes { id: open.id, goes });
        }
    }

    /// The opens through a name that are recorded.
    pub(super) fn lasting_through(&self, file: &File, link: &Arc<Link>) -> Vec<Arc<Open>> {
        if !self.keeps_opens() {
            return Vec::new();
        }
        let state = file.state.lock();
        let through = state.members.iter().filter(|m| m.link.as_ref().is_some_and(|l| Arc::ptr_eq(l, link)));
        through.filter_map(|m| m.open.upgrade()).filter(|open| open.is_lasting()).collect()
    }

    /// Notes where the file of some opens is found, at one place or at either of two, and writes that.
    pub(super) fn note_places(&self, opens: &[Arc<Open>], paths: &[Vec<volume::Name>]) {
        for open in opens {
            let record = Record::Paths { id: open.id, paths: paths.to_vec() };
            if record.encode().len() <= MAX_RECORD {
                self.note_change(record);
            }
        }
        self.write_changes();
    }
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

fn taken(open: &Open, owner: LockOwner, rule: LockRule, ranges: Vec<RangeRequest>) -> Record {
    Record::Taken { id: open.id, owner, rule, ranges }
}

/// A right as it comes back after a restart. Others wait until a right to write is given back, and any that is given back
/// as a whole; what else is broken they may have gone past already, and the notice may be lost with the process.
fn right_of(grant: Grant) -> Right {
    let Grant { state: held, epoch, parent, breaking, whole } = grant;
    let is_waited_for = whole || held.contains(Caching::WRITE);
    let state = breaking.filter(|_| !is_waited_for).unwrap_or(held);
    Right { state, epoch: epoch.unwrap_or(0), counts: epoch.is_some(), parent }
}

/// Whether what an open is of is marked to go.
fn going(state: &mut State, open: &Open) -> Option<Goes> {
    if open.stream.is_named {
        return state.stream(&open.stream).delete.then_some(Goes::WithLast);
    }
    let how = state.link(open.link.as_ref()?)?.delete?;
    Some(if how == Deletion::WithOpen(open.id) { Goes::WithOpen } else { Goes::WithLast })
}
