//! The content of several journals at one moment, for a backup.
//!
//! A journal never changes the bytes of a record that it has written, and [`Journal::replace`] writes another
//! file. So a snapshot is a descriptor and a length, noted while all journals are locked. The bytes are read
//! later, and no client waits for that.
//!
//! [`Journal::replace`]: volume::journal::Journal::replace

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::{JournalFileState, PosixJournal, format};

/// The records of a journal at one moment, as the bytes of a file. A read returns them in their order.
#[derive(Debug)]
pub struct JournalSnapshot {
    /// None if the journal had no record.
    file: Option<Arc<File>>,
    /// The bytes of the head and of the records.
    length: u64,
    end: Vec<u8>,
    at: u64,
}

/// Runs `within` while no record is added to any of these journals, and notes their content at that moment.
/// Returns none without running it if one of them is being written. It never waits, and neither does a client
/// for longer than `within` takes and some hundred nanoseconds for each journal.
pub fn try_at_one_moment<T>(
    journals: &[Arc<PosixJournal>],
    within: impl FnOnce() -> T,
) -> Option<(T, Vec<JournalSnapshot>)> {
    let locked: Vec<_> = journals.iter().map(|journal| journal.state.try_lock()).collect::<Option<_>>()?;
    let done = within();
    Some((done, locked.iter().map(|state| JournalSnapshot::of(state)).collect()))
}

impl JournalSnapshot {
    fn of(state: &JournalFileState) -> JournalSnapshot {
        let file = state.file.clone();
        let (length, end) = match file {
            Some(_) => (state.length, format::end(state.salt, state.next)),
            None => (0, Vec::new()),
        };
        JournalSnapshot { file, length, end, at: 0 }
    }

    /// The number of bytes. 0 if the journal had no file.
    pub fn size(&self) -> u64 {
        self.length + self.end.len() as u64
    }
}

impl Read for JournalSnapshot {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = match &self.file {
            Some(file) if self.at < self.length => {
                let most = usize::try_from(self.length - self.at).unwrap_or(usize::MAX).min(out.len());
                let read = file.read_at(&mut out[..most], self.at)?;
                if read == 0 && most > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                read
            }
            _ => {
                let rest = &self.end[usize::try_from(self.at - self.length).unwrap_or(usize::MAX)..];
                let read = rest.len().min(out.len());
                out[..read].copy_from_slice(&rest[..read]);
                read
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use volume::journal::Journal;

    use super::super::RecoveredJournal;
    use super::*;

    fn at_one_moment(journals: &[Arc<PosixJournal>]) -> Vec<JournalSnapshot> {
        loop {
            if let Some(((), snapshots)) = try_at_one_moment(journals, || ()) {
                return snapshots;
            }
            std::thread::yield_now();
        }
    }

    fn journal(path: &Path) -> Arc<PosixJournal> {
        Arc::new(PosixJournal::open(path).expect("a journal").0)
    }

    /// Writes a snapshot to a file, and reads it as a journal.
    fn restored(snapshot: &mut JournalSnapshot, path: &Path) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        let size = snapshot.size();
        snapshot.read_to_end(&mut bytes).expect("the file");
        assert_eq!(bytes.len() as u64, size);
        if bytes.is_empty() {
            return Vec::new();
        }
        std::fs::write(path, bytes).expect("room on the disk");
        let (_, RecoveredJournal { records, damage, .. }) = PosixJournal::open(path).expect("a journal");
        assert_eq!(damage, []);
        records
    }

    #[test]
    fn a_snapshot_stays_as_it_was_when_records_come_and_the_journal_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let [first, empty] = ["first", "empty"].map(|name| journal(&dir.path().join(name)));
        first.append(b"one").expect("room on the disk");
        first.append(b"two").expect("room on the disk");
        let mut both = at_one_moment(&[Arc::clone(&first), Arc::clone(&empty)]);
        first.append(b"three").expect("room on the disk");
        empty.append(b"three").expect("room on the disk");
        first.replace(&mut std::iter::once(b"four".to_vec())).expect("room on the disk");
        first.append(b"five").expect("room on the disk");
        let copy = dir.path().join("copy");
        assert_eq!(restored(&mut both[0], &copy), [b"one".to_vec(), b"two".to_vec()]);
        assert_eq!((both[1].size(), restored(&mut both[1], &copy)), (0, Vec::new()));
    }

    #[test]
    fn several_journals_are_noted_at_one_moment() {
        let dir = tempfile::tempdir().expect("a directory");
        let all: Vec<_> = (0..4).map(|n| journal(&dir.path().join(format!("j{n}")))).collect();
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Record n is written to journal n % 4, so the records at one moment are 0 to some n.
            scope.spawn(|| {
                for n in 0u32.. {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let journal = &all[n as usize % 4];
                    journal.append(&n.to_le_bytes()).expect("room on the disk");
                    if n % 64 == 63 {
                        // The last journal has only the newest record from now on.
                        journal.replace(&mut std::iter::once(n.to_le_bytes().to_vec())).expect("room");
                    }
                }
            });
            for _ in 0..15 {
                let mut snapshots = at_one_moment(&all);
                let copy = dir.path().join("copy");
                let last = |snapshot: &mut JournalSnapshot| {
                    let records = restored(snapshot, &copy);
                    records
                        .last()
                        .map_or(-1, |it| i64::from(u32::from_le_bytes(it[..].try_into().expect("4 bytes"))))
                };
                let newest: Vec<i64> = snapshots.iter_mut().map(last).collect();
                let most = *newest.iter().max().expect("four");
                for (at, last) in (0..).zip(newest) {
                    // The highest number up to `most` that belongs to this journal.
                    let wanted = most - (most - at).rem_euclid(4);
                    assert_eq!(last, if wanted < 0 { -1 } else { wanted });
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
