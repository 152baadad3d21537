//! The records of opens that outlive the process.
//!
//! A change is noted under the lock that orders it ([`Share::note_change`], which takes a leaf lock and does
//! no I/O). It is written after that lock is released ([`Share::write_changes`]). Before the server promises
//! persistence to a client it calls [`Share::commit_records`]. That returns when all that was noted before is
//! on stable storage.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::journal::MAX_RECORD;
use volume::{NodeId, Time};

use crate::caching::grants::{Grant, Holder};
use crate::engine::Share;
use crate::engine::parts::file::{Deletion, File, FileState, HardLinkedName};
use crate::engine::parts::persistence::{AT_ONCE, BEFORE_TOLD, Recorder, right_of};
use crate::persistence::MAX_NOTE;
use crate::persistence::record::{JournalRecord, OpenRecord, RemovalMark};
use crate::{LockOwner, LockRule, Open, RangeRequest, Refusal};

/// Bytes of an address's record without the address.
const MAX_AROUND_ADDRESS: usize = 13;

/// The means to find the file of an open again.
enum FoundBy<'a> {
    Path { path: Vec<volume::Name>, born: Option<volume::Time> },
    Address(&'a [u8]),
}

impl Share {
    /// The recorder of opens; none if they end with the process.
    fn recorder(&self) -> Option<&Recorder> {
        self.persistence().recorder()
    }

    /// Whether opens can be made to outlive the process.
    pub fn keeps_opens(&self) -> bool {
        self.recorder().is_some()
    }

    /// Records an open from now on. After a restart it is there again for `keep_ns` nanoseconds, with its
    /// `note`. It is not yet sure to survive: see [`Share::commit_records`].
    ///
    /// # Errors
    /// [`Refusal::NotSupported`] if the share records nothing; [`Refusal::Invalid`] for a directory, or if
    /// there is too much to record; [`Refusal::Gone`] if it is closed; the host's error. The open is not
    /// recorded then.
    pub fn record(&self, open: &Arc<Open>, keep_ns: u64, note: Vec<u8>) -> Result<(), Refusal> {
        let recorder = self.recorder().ok_or(Refusal::NotSupported)?;
        if open.is_directory() {
            return Err(Refusal::Invalid);
        }
        let found = FoundBy::Path { path: open.path(), born: open.node.stat()?.born };
        self.note_new_file(open, found, keep_ns, note)?;
        if let Err(why) = recorder.write() {
            self.unrecord(open);
            return Err(why.into());
        }
        Ok(())
    }

    /// Records an open of a client that claims its state itself after a restart. Its file is found by the
    /// `address` that the volume gave it, whatever its name is then. [`Share::write_changes`] writes the
    /// record and must be called before the client gets its reply. The same holds for a close of the open.
    ///
    /// # Errors
    /// As [`Share::record`], but for the host's.
    pub fn enlist(&self, open: &Arc<Open>, address: &[u8], note: Vec<u8>) -> Result<(), Refusal> {
        if open.is_directory() {
            return Err(Refusal::Invalid);
        }
        self.note_new_file(open, FoundBy::Address(address), 0, note)
    }

    /// Notes the full state of an open.
    fn note_new_file(
        &self,
        open: &Arc<Open>,
        found: FoundBy<'_>,
        keep_ns: u64,
        note: Vec<u8>,
    ) -> Result<(), Refusal> {
        let recorder = self.recorder().ok_or(Refusal::NotSupported)?;
        let (paths, born, address) = match found {
            FoundBy::Path { path, born } => (vec![path], born, Vec::new()),
            // The path says under which name it counts, if that still leads to it.
            FoundBy::Address(address) => (vec![open.path()], None, address.to_vec()),
        };
        let party = open.party.read().clone();
        let mut state = open.file.state.lock();
        if open.is_closed() {
            return Err(Refusal::Gone);
        }
        let stream = state.stream(&open.stream);
        let requester = party.requester;
        let holder = requester.client.zip(requester.key).map(|(client, (key, keyed))| (client, key, keyed));
        let grant = holder.and_then(|(client, key, keyed)| stream.grants.of(client, key, keyed));
        let held: Vec<_> = stream.ranges.held().filter(|held| held.open == open.id).copied().collect();
        let goes = going(&mut state, open);
        let made = OpenRecord {
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
            key: requester.key,
            parent: requester.parent,
            right: grant.map(right_of),
            goes,
            keep_ns,
            note,
            address: Vec::new(),
        };
        // The note may grow later.
        let room_for_note = MAX_NOTE.saturating_sub(made.note.len());
        let record = JournalRecord::Made(Box::new(made));
        if record.encode().len() + room_for_note + address.len() + MAX_AROUND_ADDRESS > MAX_RECORD {
            return Err(Refusal::Invalid);
        }
        open.claimed.store(!address.is_empty(), Ordering::Relaxed);
        open.persistent.store(true, Ordering::Release);
        // A caller that enlists an open writes the record itself before its client gets the reply.
        let then = if address.is_empty() { AT_ONCE } else { BEFORE_TOLD };
        let address = (!address.is_empty()).then_some(JournalRecord::Address { id: open.id, address });
        let held = held.into_iter().map(|held| taken(open, held.owner, held.rule, vec![held.range]));
        recorder.note_all(then, std::iter::once(record).chain(address).chain(held));
        Ok(())
    }

    /// Records the full state of an open again after its stream was renamed.
    pub(crate) fn record_again(&self, open: &Arc<Open>) -> Result<(), Refusal> {
        let Some(recorder) = self.recorder().filter(|_| open.is_persistent()) else { return Ok(()) };
        match recorder.kept_with(open.id) {
            Some((keep_ns, note)) => self.record(open, keep_ns, note),
            None => Ok(()),
        }
    }

    /// Changes the note of a recorded open. The change is sure to survive after [`Share::commit_records`].
    pub fn set_record_note(&self, open: &Open, note: Vec<u8>) {
        if open.is_persistent() {
            self.note_change(JournalRecord::Note { id: open.id, note });
        }
    }

    /// Changes the note of a recorded open. The change is written with the next one, or at the next tick.
    pub fn set_record_note_lazily(&self, open: &Open, note: Vec<u8>) {
        if let Some(recorder) = self.recorder().filter(|_| open.is_persistent()) {
            recorder.note_lazily(JournalRecord::Note { id: open.id, note });
        }
    }

    /// Stops recording an open, which goes on.
    pub fn unrecord(&self, open: &Open) {
        if !open.is_persistent() {
            return;
        }
        let _state = open.file.state.lock();
        if open.persistent.swap(false, Ordering::AcqRel)
            && let Some(recorder) = self.recorder()
        {
            recorder
                .note_released(open.claimed.load(Ordering::Relaxed), JournalRecord::Closed { id: open.id });
        }
    }

    /// Returns when all records made before are on stable storage. May block.
    ///
    /// # Errors
    /// The host's error; the records are not sure to survive then.
    pub fn commit_records(&self) -> Result<(), Refusal> {
        let Some(recorder) = self.recorder() else { return Ok(()) };
        recorder.commit()?;
        if let Err(why) = recorder.compact() {
            tracing::warn!(share = %self.name(), %why, "the record of opens could not be made smaller");
        }
        Ok(())
    }

    /// Notes a change of a recorded open. The caller holds the lock that orders it.
    pub(crate) fn note_change(&self, record: JournalRecord) {
        if let Some(recorder) = self.recorder() {
            recorder.note(record);
        }
    }

    /// Writes the noted changes that cannot wait, so that they survive the process. The caller holds no lock.
    pub fn write_changes(&self) {
        self.write_from(BEFORE_TOLD);
    }

    /// Whether the last change could not be written. The journal lacks changes then, until one is written.
    pub fn are_records_failing(&self) -> bool {
        self.recorder().is_some_and(Recorder::has_failed)
    }

    /// Writes the noted changes that cannot wait, but not those that only their own client waits for. The
    /// caller that replies to that client writes them, and may enlist more before.
    pub(crate) fn write_urgent(&self) {
        self.write_from(AT_ONCE);
    }

    fn write_from(&self, least: u8) {
        let Some(recorder) = self.recorder() else { return };
        let must_be_stable = self.config().stable_records;
        // Another thread may have written what this one must not tell before it is stored.
        let must_store = must_be_stable && recorder.is_unstable();
        if !recorder.must_write(least) && !must_store {
            return;
        }
        let written = match must_be_stable {
            true => recorder.commit(),
            false => recorder.write().map(|_| ()),
        };
        recorder.log_failure(&self.name(), written);
    }

    /// Writes all noted changes, also those that can wait. Call it periodically.
    pub fn write_noted(&self) {
        let Some(recorder) = self.recorder() else { return };
        if !recorder.lags() {
            return;
        }
        recorder.log_failure(&self.name(), recorder.write().map(|_| ()));
    }

    /// Writes all noted changes, unless another thread is writing some, perhaps to a slow disk. Returns
    /// whether the journal has all of them now.
    ///
    /// # Errors
    /// The host's error. The journal lacks changes then.
    pub fn try_write_noted(&self) -> Result<bool, volume::Failure> {
        self.recorder().map_or(Ok(true), Recorder::try_write)
    }

    /// Compacts the journal if it is large and mostly outdated. Call it periodically. May block.
    pub fn compact_record(&self) {
        let Some(recorder) = self.recorder().filter(|recorder| recorder.is_large()) else {
            return;
        };
        if let Err(why) = recorder.compact() {
            tracing::warn!(share = %self.name(), %why, "the record of opens could not be made smaller");
        }
    }

    /// The version of a file with the time of change `changed` and with `changes` counted since it was
    /// opened.
    pub(crate) fn issue_version(&self, id: NodeId, changed: Time, changes: u64) -> u64 {
        let (version, is_first_ahead) = self.open_files().versions().issue(id, changed, changes);
        if is_first_ahead {
            self.note_ahead();
        }
        version
    }

    /// Records that versions run ahead of the host's clock, before the first of them is given out.
    pub(crate) fn note_ahead(&self) {
        let Some(recorder) = self.recorder() else { return };
        recorder.note_ahead(self.open_files().versions().began());
        self.write_changes();
    }

    /// Notes the right of a holder, if an open of it is recorded. The caller holds the file's lock.
    pub(crate) fn note_right(&self, holder: Holder, grant: Option<Grant>) {
        if let Some(recorder) = self.recorder() {
            recorder.note_right(holder, grant);
        }
    }

    /// Notes in one step that byte ranges were locked or released through an open, and the note of the open
    /// from now on. The caller holds the file's lock.
    pub(crate) fn note_ranges(&self, open: &Open, changes: Vec<JournalRecord>, note: Option<Vec<u8>>) {
        if let Some(recorder) = self.recorder() {
            let note = note.map(|note| JournalRecord::Note { id: open.id, note });
            recorder.note_ranges(open.claimed.load(Ordering::Relaxed), changes, note);
        }
    }

    /// Notes the marks for deletion of a file. The caller holds its lock.
    pub(crate) fn note_marks(&self, state: &mut FileState) {
        if !self.keeps_opens() {
            return;
        }
        let opens: Vec<_> = state.members.iter().filter_map(|member| member.open.upgrade()).collect();
        for open in opens.iter().filter(|open| open.is_persistent()) {
            let goes = going(state, open);
            self.note_change(JournalRecord::Goes { id: open.id, goes });
        }
    }

    /// The recorded opens through a name.
    pub(crate) fn persistent_through(&self, file: &File, link: &Arc<HardLinkedName>) -> Vec<Arc<Open>> {
        if !self.keeps_opens() {
            return Vec::new();
        }
        let state = file.state.lock();
        let through = state.members.iter().filter(|m| m.link.as_ref().is_some_and(|l| Arc::ptr_eq(l, link)));
        through.filter_map(|m| m.open.upgrade()).filter(|open| open.is_persistent()).collect()
    }

    /// Notes the path of the file of some opens, or two alternative paths, and writes that.
    pub(crate) fn note_places(&self, opens: &[Arc<Open>], paths: &[Vec<volume::Name>]) {
        for open in opens {
            let record = JournalRecord::Paths { id: open.id, paths: paths.to_vec() };
            if record.encode().len() <= MAX_RECORD {
                self.note_change(record);
            }
        }
        self.write_changes();
    }
}

fn taken(open: &Open, owner: LockOwner, rule: LockRule, ranges: Vec<RangeRequest>) -> JournalRecord {
    JournalRecord::Taken { id: open.id, owner, rule, ranges }
}

/// Whether the object of an open is marked for deletion.
fn going(state: &mut FileState, open: &Open) -> Option<RemovalMark> {
    if open.stream.is_named {
        return state.stream(&open.stream).delete.then_some(RemovalMark::WithLast);
    }
    let how = state.link(open.link.as_ref()?)?.delete?;
    Some(if how == Deletion::WithOpen(open.id) { RemovalMark::WithOpen } else { RemovalMark::WithLast })
}
