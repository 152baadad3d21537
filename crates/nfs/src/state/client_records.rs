//! The client records: a journal of all clients that outlives the process, so that the server recognises them
//! after a restart (RFC 8881 8.4.2.1).
//!
//! A client is added when it creates its first session, before the reply. It is removed when it ends. Both
//! are rare, and both are on stable storage before anybody relies on them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use share::ClientKey;
use volume::journal::{CompleteMark, Journal, JournalPosition};
use wire::Shrink;

use crate::state::record::{ClientRecord, OLDEST, RecordedIdentity, VERSION};

/// The journal is not compacted below this many bytes.
const SMALLEST_COMPACTED: u64 = 64 * 1024;
/// The journal is compacted above this many bytes for each client.
const WASTE: u64 = 1024;

/// The reason why the client records cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Another version of the program wrote them.
    #[error("its records are of version {0}, this program knows {VERSION}")]
    Version(u32),
    /// A record cannot be decoded.
    #[error("record {0} cannot be read")]
    Broken(usize),
    /// The host refused to write.
    #[error("it cannot be written: {0}")]
    Host(#[from] volume::Failure),
}

/// The clients from before the restart.
#[derive(Debug, Default)]
pub struct PreviousClients {
    /// The clients.
    pub clients: Vec<RecordedIdentity>,
    /// Whether the host has restarted too. The last records of opens may be lost then.
    pub is_host_new: bool,
}

/// The journal and the clients in it.
///
/// The client IDs in the journal count only if the mark beside it is set. Without it, all clients reclaim.
/// The mark is cleared before a reply relies on a change that could not be recorded, and is set again once
/// the journal lacks nothing.
#[derive(Default)]
pub struct ClientRecords {
    storage: OnceLock<RecordStorage>,
    kept: Mutex<RecordedClients>,
    /// The journal lacks changes, or the mark is not set.
    lags: AtomicBool,
    /// Client IDs in the journal would count after a restart and must not.
    has_false_ids: AtomicBool,
    forgotten_ids: ForgottenIds,
}

/// The stable storage of the client records.
pub struct RecordStorage {
    /// The records.
    pub journal: Arc<dyn Journal>,
    /// The mark beside the journal.
    pub mark: Arc<dyn CompleteMark>,
}

#[derive(Default)]
struct RecordedClients {
    boot: Box<[u8]>,
    clients: HashMap<ClientKey, RecordedIdentity>,
}

/// Numbers of clients that cannot resume any more.
#[derive(Default)]
struct ForgottenIds {
    /// Their number so far.
    forgotten: AtomicU64,
    /// The number of those whose records say so.
    recorded: AtomicU64,
    /// Locked while that is recorded.
    recording: Mutex<()>,
}

impl RecordedClients {
    /// Writes all clients anew.
    fn replace(&self, journal: &dyn Journal) -> volume::Result<()> {
        let head = ClientRecord::Head { version: VERSION, boot: self.boot.clone() };
        let clients = self.clients.values().map(|known| ClientRecord::Confirmed(known.clone()));
        journal.replace(&mut std::iter::once(head).chain(clients).map(|record| record.encode()))
    }

    fn forget_ids(&mut self) {
        self.clients.values_mut().for_each(|known| known.id = 0);
    }
}

impl RecordStorage {
    /// Writes all clients anew, and sets the mark.
    fn replace(&self, kept: &RecordedClients) -> volume::Result<()> {
        kept.replace(&*self.journal)?;
        self.mark.set()
    }
}

impl ClientRecords {
    /// Continues a journal that holds `records`. `boot` identifies the present boot of the host.
    ///
    /// # Errors
    /// [`Unreadable`]. Nothing was changed then.
    pub fn begin(
        &self,
        storage: RecordStorage,
        records: &[Vec<u8>],
        boot: &[u8],
    ) -> Result<PreviousClients, Unreadable> {
        let mut was = None;
        let mut clients = HashMap::new();
        for (at, bytes) in records.iter().enumerate() {
            match ClientRecord::decode(bytes).map_err(|_| Unreadable::Broken(at))? {
                ClientRecord::Head { version: OLDEST..=VERSION, boot } if at == 0 => was = Some(boot),
                ClientRecord::Head { version, .. } => return Err(Unreadable::Version(version)),
                _ if at == 0 => return Err(Unreadable::Broken(0)),
                ClientRecord::Confirmed(known) => drop(clients.insert(known.key, known)),
                ClientRecord::Gone(key) => drop(clients.remove(&key)),
            }
        }
        // A host that does not tell its boot may have restarted.
        let is_host_new = was.is_some_and(|was| *was != *boot || boot.is_empty());
        let mut kept = self.kept.lock();
        *kept = RecordedClients { boot: boot.into(), clients };
        if is_host_new || !storage.mark.is_set() {
            // The new records name this boot. A restart of this boot must not let the clients resume either.
            kept.forget_ids();
        }
        let before = PreviousClients { clients: kept.clients.values().cloned().collect(), is_host_new };
        kept.replace(&*storage.journal)?;
        self.lags.store(storage.mark.set().is_err(), Ordering::Release);
        let _ = self.storage.set(storage);
        Ok(before)
    }

    /// Whether clients are recorded at all.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.storage.get().is_some()
    }

    /// Adds a client, as `known` describes it. The record is on stable storage when this returns. May block.
    pub fn add(&self, known: impl FnOnce() -> RecordedIdentity) {
        let mut kept = self.kept.lock();
        let known = known();
        if kept.clients.insert(known.key, known.clone()).as_ref() != Some(&known) {
            self.write(kept, &[ClientRecord::Confirmed(known)]);
        }
    }

    /// Removes clients. May block, once for all of them.
    pub fn remove(&self, keys: &[ClientKey]) {
        let mut kept = self.kept.lock();
        let known = keys.iter().filter(|key| kept.clients.remove(key).is_some());
        let gone: Vec<_> = known.map(|key| ClientRecord::Gone(*key)).collect();
        kept.clients.shrink();
        self.write(kept, &gone);
    }

    /// Forgets all client IDs, so that no client can resume. This needs no room on the disk. May block.
    ///
    /// # Errors
    /// The error of the host. Clients would resume after a restart then.
    pub fn forget_ids(&self) -> volume::Result<()> {
        let mut kept = self.kept.lock();
        // Another thread may have forgotten them. Nobody goes on before that is stored.
        if kept.clients.values().all(|known| known.id == 0) && !self.has_false_ids() {
            return Ok(());
        }
        kept.forget_ids();
        self.clear_mark(&kept)
    }

    /// Counts a client that cannot resume any more. Its record says so after
    /// [`record_forgotten`](Self::record_forgotten).
    pub fn count_forgotten(&self) {
        if self.is_recording() {
            self.forgotten_ids.forgotten.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Calls `record` unless the records of all counted clients say that they cannot resume. No caller
    /// returns before the record that another thread writes is stored. May block.
    pub fn record_forgotten(&self, record: impl FnOnce()) {
        let ForgottenIds { forgotten, recorded, recording } = &self.forgotten_ids;
        if recorded.load(Ordering::Acquire) == forgotten.load(Ordering::Acquire) {
            return;
        }
        let _one_by_one = recording.lock();
        let all = forgotten.load(Ordering::Acquire);
        record();
        recorded.store(all, Ordering::Release);
    }

    /// Whether client IDs of the journal would count after a restart and must not.
    #[must_use]
    pub fn has_false_ids(&self) -> bool {
        self.has_false_ids.load(Ordering::Acquire)
    }

    /// Writes what the host refused to write before. May block.
    pub fn write_again(&self) {
        let Some(storage) = self.storage.get().filter(|_| self.lags.load(Ordering::Acquire)) else { return };
        let kept = self.kept.lock();
        if storage.replace(&kept).is_ok() {
            self.lags.store(false, Ordering::Release);
            self.has_false_ids.store(false, Ordering::Release);
        }
    }

    /// Makes the client IDs of the journal count no more.
    fn clear_mark(&self, kept: &RecordedClients) -> volume::Result<()> {
        let Some(storage) = self.storage.get() else { return Ok(()) };
        self.lags.store(true, Ordering::Release);
        let cleared = storage.mark.clear();
        // The journal may still take the records if its directory changes no more.
        let done = cleared.or_else(|why| kept.replace(&*storage.journal).map_err(|_| why));
        if let Err(why) = &done
            && !self.has_false_ids()
        {
            tracing::error!(
                %why,
                "the state directory takes no changes; NFS clients get no locks until it does, because they \
                 could lose them with a restart"
            );
        }
        self.has_false_ids.store(done.is_err(), Ordering::Release);
        done
    }

    /// Appends records in the order in which the clients changed, and stores them.
    fn write(&self, kept: MutexGuard<'_, RecordedClients>, records: &[ClientRecord]) {
        let Some(storage) = self.storage.get().filter(|_| !records.is_empty()) else { return };
        let journal = &storage.journal;
        let appended =
            records.iter().try_fold(JournalPosition::default(), |_, record| journal.append(&record.encode()));
        // Other clients need not wait for the disk.
        drop(kept);
        let written = appended.and_then(|at| journal.commit(at));
        let kept = self.kept.lock();
        let live = WASTE * kept.clients.len() as u64;
        let written = match written {
            // The new journal holds the records that could not be appended.
            Err(_) => kept.replace(&**journal),
            Ok(()) if journal.size() > SMALLEST_COMPACTED.max(live) => kept.replace(&**journal),
            Ok(()) => Ok(()),
        };
        if let Err(why) = written {
            tracing::warn!(
                %why,
                "a client could not be recorded; after a restart it cannot take up what it had"
            );
            // The journal may hold the client ID of a client that must not resume. If the mark stays,
            // [`ClientRecords::has_false_ids`] tells.
            let _ = self.clear_mark(&kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use volume::journal::{MemoryJournal, MemoryMark};

    use super::*;
    use crate::state::credentials::Principal;

    fn known(key: u128) -> RecordedIdentity {
        let principal = Principal::of(1, 0, Box::from(*b"host"));
        let owner = key.to_le_bytes().into();
        RecordedIdentity { key: ClientKey(key), id: 3, owner, verifier: [1; 8], principal }
    }

    #[derive(Default)]
    struct TestStorage {
        journal: Arc<MemoryJournal>,
        mark: Arc<MemoryMark>,
    }

    impl TestStorage {
        fn records(&self) -> Vec<Vec<u8>> {
            self.journal.records()
        }

        fn opened(&self) -> RecordStorage {
            RecordStorage { journal: self.journal.clone(), mark: self.mark.clone() }
        }

        fn begin(&self, boot: &[u8]) -> (ClientRecords, PreviousClients) {
            let client_records = ClientRecords::default();
            let before = client_records.begin(self.opened(), &self.records(), boot).unwrap();
            (client_records, before)
        }

        fn has_ids(&self) -> bool {
            self.begin(b"a").1.clients.iter().any(|known| known.id != 0)
        }
    }

    #[test]
    fn who_was_there_is_there_again_and_who_is_struck_off_is_not() {
        let storage = TestStorage::default();
        let (client_records, before) = storage.begin(b"a");
        assert!(before.clients.is_empty() && !before.is_host_new);
        client_records.add(|| known(1));
        client_records.add(|| known(2));
        let records = storage.records().len();
        client_records.add(|| known(2));
        assert_eq!(storage.records().len(), records, "it was there");
        client_records.remove(&[ClientKey(1)]);
        client_records.remove(&[ClientKey(7)]);
        let (_, before) = storage.begin(b"a");
        assert_eq!((before.clients, before.is_host_new), (vec![known(2)], false));
        let (client_records, before) = storage.begin(b"b");
        assert!(before.is_host_new);
        let without_id = RecordedIdentity { id: 0, ..known(2) };
        assert_eq!(before.clients, vec![without_id.clone()]);
        client_records.add(|| known(3));
        let (client_records, before) = storage.begin(b"b");
        assert!(!before.is_host_new && before.clients.contains(&without_id));
        assert!(before.clients.contains(&known(3)));
        client_records.forget_ids().unwrap();
        let (_, before) = storage.begin(b"b");
        assert!(before.clients.iter().all(|known| known.id == 0));
    }

    #[test]
    fn it_stays_small_and_says_what_it_cannot_read() {
        let storage = TestStorage::default();
        let (client_records, _) = storage.begin(b"a");
        for round in 0..3000 {
            client_records.add(|| known(round));
            client_records.remove(&[ClientKey(round)]);
        }
        assert!(storage.journal.size() < 2 * SMALLEST_COMPACTED, "{} bytes", storage.journal.size());
        let other = ClientRecord::Head { version: 9, boot: Box::default() }.encode();
        let read = |records: &[Vec<u8>]| ClientRecords::default().begin(storage.opened(), records, b"a");
        assert!(matches!(read(&[other]), Err(Unreadable::Version(9))));
        assert!(matches!(read(&[vec![9]]), Err(Unreadable::Broken(0))));
        assert!(matches!(read(&[ClientRecord::Gone(ClientKey(1)).encode()]), Err(Unreadable::Broken(0))));
    }

    #[test]
    fn on_a_full_disk_no_client_id_counts_after_a_restart() {
        let storage = TestStorage::default();
        let (client_records, _) = storage.begin(b"a");
        client_records.add(|| known(1));
        assert!(storage.has_ids());
        storage.journal.fill(true);
        client_records.forget_ids().unwrap();
        client_records.write_again();
        assert!(!storage.mark.is_set());
        storage.journal.fill(false);
        assert!(!storage.has_ids());

        let (client_records, _) = storage.begin(b"a");
        client_records.add(|| known(2));
        storage.journal.fill(true);
        client_records.remove(&[ClientKey(1)]);
        assert!(!storage.mark.is_set(), "a change is lost");
        storage.journal.fill(false);
        client_records.write_again();
        assert!(storage.mark.is_set() && storage.has_ids(), "nothing is lost any more");
    }

    #[test]
    fn a_mark_that_cannot_be_cleared_is_told() {
        let storage = TestStorage::default();
        let (client_records, _) = storage.begin(b"a");
        client_records.add(|| known(1));
        storage.mark.stick(true);
        client_records.forget_ids().unwrap();
        assert!(!client_records.has_false_ids(), "the journal took it");
        assert!(!storage.has_ids());
        let (client_records, _) = storage.begin(b"a");
        client_records.add(|| known(2));
        storage.journal.fill(true);
        assert!(client_records.forget_ids().is_err() && client_records.has_false_ids());
        storage.journal.fill(false);
        client_records.write_again();
        assert!(!client_records.has_false_ids() && !storage.has_ids());
    }
}
