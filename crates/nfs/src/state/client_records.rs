//! The client records: a journal of all clients that outlives the process, so that the server recognises them
//! after a restart (RFC 8881 8.4.2.1).
//!
//! A client is added when it creates its first session, before the reply. It is removed when it ends. Both
//! are rare, and both are on stable storage before anybody relies on them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use share::ClientKey;
use volume::journal::Journal;
use wire::Shrink;

use crate::state::record::{ClientRecord, RecordedIdentity, VERSION};

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
#[derive(Default)]
pub struct ClientRecords {
    journal: OnceLock<Arc<dyn Journal>>,
    kept: Mutex<RecordedClients>,
}

#[derive(Default)]
struct RecordedClients {
    boot: Box<[u8]>,
    clients: HashMap<ClientKey, RecordedIdentity>,
}

impl RecordedClients {
    fn snapshot(&self) -> Vec<Vec<u8>> {
        let head = ClientRecord::Head { version: VERSION, boot: self.boot.clone() };
        let clients = self.clients.values().map(|known| ClientRecord::Confirmed(known.clone()));
        std::iter::once(head).chain(clients).map(|record| record.encode()).collect()
    }
}

impl ClientRecords {
    /// Continues a journal that holds `records`. `boot` identifies the present boot of the host.
    ///
    /// # Errors
    /// [`Unreadable`]. Nothing was changed then.
    pub fn begin(
        &self,
        journal: Arc<dyn Journal>,
        records: &[Vec<u8>],
        boot: &[u8],
    ) -> Result<PreviousClients, Unreadable> {
        let mut was = None;
        let mut clients = HashMap::new();
        for (at, bytes) in records.iter().enumerate() {
            match ClientRecord::decode(bytes).map_err(|_| Unreadable::Broken(at))? {
                ClientRecord::Head { version: VERSION, boot } if at == 0 => was = Some(boot),
                ClientRecord::Head { version, .. } => return Err(Unreadable::Version(version)),
                _ if at == 0 => return Err(Unreadable::Broken(0)),
                ClientRecord::Confirmed(known) => drop(clients.insert(known.key, known)),
                ClientRecord::Gone(key) => drop(clients.remove(&key)),
            }
        }
        let before = PreviousClients {
            clients: clients.values().cloned().collect(),
            is_host_new: was.is_some_and(|was| *was != *boot),
        };
        let mut kept = self.kept.lock();
        *kept = RecordedClients { boot: boot.into(), clients };
        journal.replace(&mut kept.snapshot().into_iter())?;
        let _ = self.journal.set(journal);
        Ok(before)
    }

    /// Whether clients are recorded at all.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.journal.get().is_some()
    }

    /// Adds a client. The record is on stable storage when this returns. May block.
    pub fn add(&self, known: RecordedIdentity) {
        let record = ClientRecord::Confirmed(known.clone());
        if self.kept.lock().clients.insert(known.key, known.clone()).as_ref() != Some(&known) {
            self.write(&[record]);
        }
    }

    /// Removes clients. May block, once for all of them.
    pub fn remove(&self, keys: &[ClientKey]) {
        let mut kept = self.kept.lock();
        let known = keys.iter().filter(|key| kept.clients.remove(key).is_some());
        let gone: Vec<_> = known.map(|key| ClientRecord::Gone(*key)).collect();
        kept.clients.shrink();
        drop(kept);
        self.write(&gone);
    }

    fn write(&self, records: &[ClientRecord]) {
        let (Some(journal), Some((last, before))) = (self.journal.get(), records.split_last()) else {
            return;
        };
        let before = before.iter().try_for_each(|record| journal.append(&record.encode()).map(drop));
        let written = before.and_then(|()| journal.append(&last.encode())).and_then(|at| journal.commit(at));
        let kept = self.kept.lock();
        let live = WASTE * kept.clients.len() as u64;
        let written = match written {
            // The new journal holds the records that could not be appended.
            Err(_) => journal.replace(&mut kept.snapshot().into_iter()),
            Ok(()) if journal.size() > SMALLEST_COMPACTED.max(live) => {
                journal.replace(&mut kept.snapshot().into_iter())
            }
            Ok(()) => Ok(()),
        };
        if let Err(why) = written {
            tracing::warn!(
                %why,
                "a client could not be recorded; after a restart it cannot take up what it had"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use volume::journal::MemoryJournal;

    use super::*;
    use crate::state::credentials::Principal;

    fn known(key: u128) -> RecordedIdentity {
        let principal = Principal::of(1, 0, Box::from(*b"host"));
        let owner = key.to_le_bytes().into();
        RecordedIdentity { key: ClientKey(key), owner, verifier: [1; 8], principal }
    }

    fn begin(journal: &Arc<MemoryJournal>, boot: &[u8]) -> (ClientRecords, PreviousClients) {
        let client_records = ClientRecords::default();
        let before = client_records.begin(journal.clone(), &journal.records(), boot).unwrap();
        (client_records, before)
    }

    #[test]
    fn who_was_there_is_there_again_and_who_is_struck_off_is_not() {
        let journal = Arc::new(MemoryJournal::default());
        let (client_records, before) = begin(&journal, b"a");
        assert!(before.clients.is_empty() && !before.is_host_new);
        client_records.add(known(1));
        client_records.add(known(2));
        let records = journal.records().len();
        client_records.add(known(2));
        assert_eq!(journal.records().len(), records, "it was there");
        client_records.remove(&[ClientKey(1)]);
        client_records.remove(&[ClientKey(7)]);
        let (_, before) = begin(&journal, b"a");
        assert_eq!((before.clients, before.is_host_new), (vec![known(2)], false));
        let (_, before) = begin(&journal, b"b");
        assert!(before.is_host_new);
    }

    #[test]
    fn it_stays_small_and_says_what_it_cannot_read() {
        let journal = Arc::new(MemoryJournal::default());
        let (client_records, _) = begin(&journal, b"a");
        for round in 0..3000 {
            client_records.add(known(round));
            client_records.remove(&[ClientKey(round)]);
        }
        assert!(journal.size() < 2 * SMALLEST_COMPACTED, "{} bytes", journal.size());
        let other = ClientRecord::Head { version: 9, boot: Box::default() }.encode();
        let read = |records: &[Vec<u8>]| ClientRecords::default().begin(journal.clone(), records, b"a");
        assert!(matches!(read(&[other]), Err(Unreadable::Version(9))));
        assert!(matches!(read(&[vec![9]]), Err(Unreadable::Broken(0))));
        assert!(matches!(read(&[ClientRecord::Gone(ClientKey(1)).encode()]), Err(Unreadable::Broken(0))));
    }
}
