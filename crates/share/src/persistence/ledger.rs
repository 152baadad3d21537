//! The table of opens that outlive the process, as a journal's records make it.
//!
//! It is pure. [`Ledger::apply`] takes a record, whether it was just made or read after a restart, so the
//! restored table is the old one. [`Ledger::snapshot`] writes the same table in the fewest records.

use std::collections::{BTreeMap, HashMap};

use super::Unreadable;
use super::record::{AheadSpan, JournalRecord, OLDEST, OpenRecord, RecordError, RecordedRight, VERSION};
use crate::caching::grants::Holder;
use crate::memory::MemoryAccount;
use crate::ranges::table::{LockedRange, Ranges};
use crate::{ClientKey, LockOwner, LockRule, RangeRequest};

/// Most ranges in one record of a snapshot.
const RANGES_IN_RECORD: usize = 1024;

/// One open.
#[derive(Debug)]
pub struct RecordedOpen {
    /// The latest record of all its state but its ranges and its right.
    pub made: OpenRecord,
    pub ranges: Ranges,
}

/// The recorded state of all opens.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The version of the records that it was read from; none without any.
    pub version: Option<u32>,
    pub live: BTreeMap<u64, RecordedOpen>,
    pub rights: HashMap<Holder, RecordedRight>,
    pub ahead: Option<AheadSpan>,
    /// The number of opens of each holder, whose right ends with the last.
    sharers: HashMap<Holder, usize>,
}

impl RecordedOpen {
    pub fn holder(&self) -> Option<Holder> {
        self.made.key.map(|(key, keyed)| (self.made.client, key, keyed))
    }
}

impl Ledger {
    /// Reads all records of a journal.
    ///
    /// # Errors
    /// [`Unreadable`], which names the record.
    pub fn read(records: &[Vec<u8>]) -> Result<Ledger, Unreadable> {
        let mut ledger = Ledger::default();
        for (at, bytes) in records.iter().enumerate() {
            let records = JournalRecord::decode_all(bytes).map_err(|bad| match bad {
                RecordError::Kind(kind) => Unreadable::Kind(at, kind),
                RecordError::Content => Unreadable::Broken(at),
            })?;
            for record in records {
                match (at, record) {
                    (0, JournalRecord::Version(version @ OLDEST..=VERSION)) => ledger.version = Some(version),
                    (_, JournalRecord::Version(other)) => return Err(Unreadable::Version(other)),
                    (0, _) => return Err(Unreadable::Broken(0)),
                    (_, record) => ledger.apply(record),
                }
            }
        }
        Ok(ledger)
    }

    /// Applies a change. A change of an open that does not exist is ignored.
    pub fn apply(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Version(_) => {}
            JournalRecord::Made(made) => {
                let made = *made;
                let holder = made.key.map(|(key, keyed)| (made.client, key, keyed));
                if let Some((holder, right)) = holder.zip(made.right) {
                    self.rights.insert(holder, right);
                }
                self.join(holder);
                let replaced = self.live.insert(made.id, RecordedOpen { made, ranges: Ranges::default() });
                let holder = replaced.and_then(|entry| entry.holder());
                self.leave(holder);
            }
            JournalRecord::Taken { id, owner, rule, ranges } => self.taken(id, owner, rule, &ranges),
            JournalRecord::Released { id, owner, rule, range } => {
                if let Some(entry) = self.live.get_mut(&id) {
                    // It was held, or there would be no such record.
                    let _ = entry.ranges.unlock(owner, rule, &[range]);
                }
            }
            JournalRecord::Right { holder, right } => {
                if let Some(known) = self.rights.get_mut(&holder) {
                    *known = right;
                }
            }
            JournalRecord::Moved { id, client } => self.moved(id, client),
            JournalRecord::Note { id, note } => self.change(id, |made| made.note = note),
            JournalRecord::Paths { id, paths } => self.change(id, |made| made.paths = paths),
            JournalRecord::Goes { id, goes } => self.change(id, |made| made.goes = goes),
            JournalRecord::Closed { id } => self.closed(id),
            JournalRecord::Address { id, address } => self.change(id, |made| made.address = address),
            JournalRecord::Ahead(ahead) => self.ahead = Some(ahead),
        }
    }

    fn change(&mut self, id: u64, how: impl FnOnce(&mut OpenRecord)) {
        if let Some(entry) = self.live.get_mut(&id) {
            how(&mut entry.made);
        }
    }

    fn taken(&mut self, id: u64, owner: LockOwner, rule: LockRule, ranges: &[RangeRequest]) {
        if let Some(entry) = self.live.get_mut(&id) {
            // It was granted, and its conflicts then are no longer there.
            let _ = entry.ranges.lock(owner, id, MemoryAccount::NOBODY, rule, ranges);
        }
    }

    fn moved(&mut self, id: u64, client: ClientKey) {
        let Some(entry) = self.live.get_mut(&id) else { return };
        let was = entry.holder();
        entry.made.client = client;
        let now = entry.holder();
        if let (Some(was), Some(now)) = (was, now)
            && let Some(right) = self.rights.remove(&was)
        {
            self.rights.insert(now, right);
        }
        self.join(now);
        self.leave(was);
    }

    fn closed(&mut self, id: u64) {
        let holder = self.live.remove(&id).and_then(|entry| entry.holder());
        self.leave(holder);
    }

    /// Counts one more open of a holder.
    fn join(&mut self, holder: Option<Holder>) {
        if let Some(holder) = holder {
            *self.sharers.entry(holder).or_default() += 1;
        }
    }

    /// Counts one open of a holder less. Its right ends with the last.
    fn leave(&mut self, holder: Option<Holder>) {
        let Some(holder) = holder else { return };
        let left = self.sharers.get_mut(&holder).map(|count| {
            *count -= 1;
            *count
        });
        if left.is_none_or(|left| left == 0) {
            self.sharers.remove(&holder);
            self.rights.remove(&holder);
        }
    }

    /// Records from which [`Ledger::read`] makes this table.
    pub fn snapshot(&self) -> Vec<Vec<u8>> {
        let mut records = vec![JournalRecord::Version(VERSION).encode()];
        records.extend(self.ahead.map(|ahead| JournalRecord::Ahead(ahead).encode()));
        for entry in self.live.values() {
            let right = entry.holder().and_then(|holder| self.rights.get(&holder)).copied();
            let made = OpenRecord { right, ..entry.made.clone() };
            let id = made.id;
            let address = made.address.clone();
            let mut bytes = JournalRecord::Made(Box::new(made)).encode();
            if !address.is_empty() {
                bytes.extend_from_slice(&JournalRecord::Address { id, address }.encode());
            }
            records.push(bytes);
            let same = |a: &LockedRange, b: &LockedRange| (a.owner, a.rule) == (b.owner, b.rule);
            let held: Vec<LockedRange> = entry.ranges.held().copied().collect();
            for held in held.chunk_by(same).flat_map(|group| group.chunks(RANGES_IN_RECORD)) {
                let LockedRange { owner, rule, .. } = held[0];
                let ranges = held.iter().map(|held| held.range).collect();
                records.push(JournalRecord::Taken { id, owner, rule, ranges }.encode());
            }
        }
        records
    }
}
