//! A journal in a file of the host.
//!
//! The file begins with [`MAGIC`]; each record follows as its length, a checksum over length and bytes, and
//! its bytes. Reading stops at the first record that is not whole: a crash can only have left such a one at
//! the end, and what follows it was never committed. [`Journal::replace`] writes a second file and renames it
//! over the first.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};
use volume::journal::{Journal, MAX_RECORD, Place};
use volume::{Failure, Result};

/// What the file begins with; the number is the format's version.
const MAGIC: &[u8; 8] = b"TLJRNL1\n";
/// Length and checksum in front of each record.
const PREFIX: usize = 8;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The host refused something.
    #[error("{path}: {source}")]
    Host {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is something else, or of another version.
    #[error("{0} is not a journal of this version")]
    Foreign(PathBuf),
}

/// What was found in a journal's file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The whole records in their order.
    pub records: Vec<Vec<u8>>,
    /// Bytes at the end that were no whole record, and were cut off.
    pub cut_off: u64,
}

/// A journal in a file.
#[derive(Debug)]
pub struct PosixJournal {
    path: PathBuf,
    state: Mutex<State>,
    synced: Condvar,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Bytes of whole records in the file, with its beginning.
    length: u64,
    /// Counts appended records since the start; a [`Place`].
    appended: u64,
    /// Up to where the records are on stable storage.
    committed: u64,
    /// One thread asks the host to make them so.
    is_syncing: bool,
    /// What is on stable storage is no longer known.
    has_failed: bool,
}

impl PosixJournal {
    /// Opens the journal at `path` or makes an empty one, and reads what is there.
    ///
    /// # Errors
    /// [`JournalError`]; the file is as it was.
    pub fn open(path: &Path) -> std::result::Result<(PosixJournal, Found), JournalError> {
        let host = |source| JournalError::Host { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let mut file = options().read(true).create(true).open(path).map_err(host)?;
        file.read_to_end(&mut bytes).map_err(host)?;
        if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
            return Err(JournalError::Foreign(path.to_owned()));
        }
        if bytes.len() < MAGIC.len() {
            // New, or its making was cut short.
            file.set_len(0).and_then(|()| file.write_all(MAGIC)).map_err(host)?;
            bytes = MAGIC.to_vec();
        }
        let (records, length) = whole_records(&bytes);
        let cut_off = (bytes.len() - length) as u64;
        file.set_len(length as u64).and_then(|()| file.sync_all()).map_err(host)?;
        sync_directory(path).map_err(host)?;
        let state = State {
            file,
            length: length as u64,
            appended: 0,
            committed: 0,
            is_syncing: false,
            has_failed: false,
        };
        let journal =
            PosixJournal { path: path.to_owned(), state: Mutex::new(state), synced: Condvar::new() };
        Ok((journal, Found { records, cut_off }))
    }
}

impl State {
    fn check(&self) -> Result<()> {
        if self.has_failed { Err(Failure::Io) } else { Ok(()) }
    }
}

impl Journal for PosixJournal {
    fn append(&self, record: &[u8]) -> Result<Place> {
        let framed = framed(record)?;
        let mut state = self.state.lock();
        state.check()?;
        if let Err(why) = state.file.write_all(&framed) {
            // Half a record must not stand in front of a whole one.
            let length = state.length;
            if state.file.set_len(length).is_err() {
                state.has_failed = true;
            }
            return Err(crate::errno::failure_of(&why));
        }
        state.length += framed.len() as u64;
        state.appended += 1;
        Ok(Place(state.appended))
    }

    fn commit(&self, place: Place) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            state.check()?;
            if state.committed >= place.0 {
                return Ok(());
            }
            if state.is_syncing {
                self.synced.wait(&mut state);
                continue;
            }
            state.is_syncing = true;
            let (upto, file) = (state.appended, state.file.try_clone());
            drop(state);
            let result = file.and_then(|file| file.sync_data());
            state = self.state.lock();
            state.is_syncing = false;
            match result {
                Ok(()) => state.committed = state.committed.max(upto),
                Err(_) => state.has_failed = true,
            }
            self.synced.notify_all();
        }
    }

    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<()> {
        let mut state = self.state.lock();
        state.check()?;
        let (file, length) = self.write_beside(records)?;
        // From here on the new file is the journal, on the disk and here.
        state.file = file;
        state.length = length;
        state.committed = state.appended;
        sync_directory(&self.path).map_err(|why| {
            state.has_failed = true;
            crate::errno::failure_of(&why)
        })
    }

    fn size(&self) -> u64 {
        self.state.lock().length
    }
}

impl PosixJournal {
    /// Writes a second file and renames it over the first.
    fn write_beside(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<(File, u64)> {
        // Added to the whole name: what stands before its last dot may be another journal's too.
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let written = (|| {
            let mut bytes = MAGIC.to_vec();
            for record in records {
                bytes.extend_from_slice(&framed(&record)?);
            }
            let host = |why: io::Error| crate::errno::failure_of(&why);
            let mut file = options().create(true).open(&beside).map_err(host)?;
            file.set_len(0).and_then(|()| file.write_all(&bytes)).map_err(host)?;
            file.sync_all().and_then(|()| fs::rename(&beside, &self.path)).map_err(host)?;
            Ok((file, bytes.len() as u64))
        })();
        if written.is_err() {
            // It may not have been made at all; the next attempt empties it in any case.
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).mode(0o600);
    options
}

fn framed(record: &[u8]) -> Result<Vec<u8>> {
    if record.len() > MAX_RECORD {
        return Err(Failure::Invalid);
    }
    let mut framed = Vec::with_capacity(PREFIX + record.len());
    framed.extend_from_slice(&(record.len() as u32).to_le_bytes());
    framed.extend_from_slice(&checksum(record).to_le_bytes());
    framed.extend_from_slice(record);
    Ok(framed)
}

/// Over the length too, so that a run of zeros is no record.
fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(record.len() as u32).to_le_bytes());
    hasher.update(record);
    hasher.finalize()
}

/// The whole records of a file, and where they end.
fn whole_records(bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let (mut records, mut at) = (Vec::new(), MAGIC.len());
    while let Some((record, next)) = whole_record(bytes, at) {
        records.push(record.to_vec());
        at = next;
    }
    (records, at)
}

fn whole_record(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let number = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let length = number(at)? as usize;
    let sum = number(at + 4)?;
    let begin = at + PREFIX;
    let record = bytes.get(begin..begin.checked_add(length)?)?;
    (length <= MAX_RECORD && checksum(record) == sum).then_some((record, begin + length))
}

/// Makes the file's name last.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|n| vec![n as u8; n * 37 % 200]).collect()
    }

    fn filled(path: &Path, records: &[Vec<u8>]) -> PosixJournal {
        let (journal, found) = PosixJournal::open(path).expect("an empty journal");
        assert_eq!(found, Found::default());
        let mut place = Place::default();
        for record in records {
            place = journal.append(record).expect("room on the disk");
        }
        journal.commit(place).expect("a disk that works");
        journal
    }

    fn read_back(path: &Path) -> Found {
        PosixJournal::open(path).expect("a journal").1
    }

    #[test]
    fn what_was_appended_is_read_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let journal = filled(&path, &records(20));
        assert_eq!(journal.size(), fs::metadata(&path).expect("the file").len());
        drop(journal);
        assert_eq!(read_back(&path), Found { records: records(20), cut_off: 0 });
    }

    #[test]
    fn a_cut_at_any_byte_leaves_a_prefix_and_goes_on_from_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        drop(filled(&path, &records(6)));
        let whole = fs::read(&path).expect("the file");
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).expect("the file");
            let (journal, found) = PosixJournal::open(&path).expect("a journal");
            let count = found.records.len();
            assert_eq!(found.records, records(6)[..count], "cut at {cut}");
            journal.append(b"after").expect("room on the disk");
            drop(journal);
            let again = read_back(&path);
            assert_eq!((again.cut_off, again.records.len()), (0, count + 1), "cut at {cut}");
            assert_eq!(again.records[count], b"after");
        }
    }

    #[test]
    fn a_changed_byte_ends_the_records_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        drop(filled(&path, &records(6)));
        let whole = fs::read(&path).expect("the file");
        for at in MAGIC.len()..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            fs::write(&path, &changed).expect("the file");
            let found = read_back(&path);
            assert!(found.records.len() < 6 && found.cut_off > 0, "byte {at}");
            assert_eq!(found.records, records(6)[..found.records.len()], "byte {at}");
        }
    }

    #[test]
    fn replacing_leaves_the_new_records_and_takes_more() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let journal = filled(&path, &records(6));
        journal.replace(&mut records(2).into_iter()).expect("room on the disk");
        let place = journal.append(b"later").expect("room on the disk");
        journal.commit(place).expect("a disk that works");
        let mut expected = records(2);
        expected.push(b"later".to_vec());
        drop(journal);
        assert_eq!(read_back(&path).records, expected);
        assert!(!path.with_extension("new").exists());
    }

    #[test]
    fn journals_whose_names_differ_behind_the_dot_are_not_in_each_others_way() {
        let directory = tempfile::tempdir().expect("a directory");
        let [first, other] = ["clients.1", "clients.new"].map(|name| directory.path().join(name));
        let journal = filled(&first, &records(6));
        drop(filled(&other, &records(3)));
        journal.replace(&mut records(2).into_iter()).expect("room on the disk");
        drop(journal);
        assert_eq!(read_back(&first).records, records(2));
        assert_eq!(read_back(&other).records, records(3));
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        fs::write(&path, b"something else").expect("the file");
        assert!(matches!(PosixJournal::open(&path), Err(JournalError::Foreign(_))));
        assert_eq!(fs::read(&path).expect("the file"), b"something else");
    }

    #[test]
    fn a_record_that_is_too_long_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let journal = filled(&directory.path().join("journal"), &[]);
        assert_eq!(journal.append(&vec![0; MAX_RECORD + 1]), Err(Failure::Invalid));
        assert!(journal.append(&vec![0; MAX_RECORD]).is_ok());
    }

    #[test]
    fn threads_that_commit_at_once_all_find_their_records() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let journal = filled(&path, &[]);
        std::thread::scope(|scope| {
            for thread in 0..8u8 {
                let journal = &journal;
                scope.spawn(move || {
                    for count in 0..20u8 {
                        let place = journal.append(&[thread, count]).expect("room on the disk");
                        journal.commit(place).expect("a disk that works");
                    }
                });
            }
        });
        drop(journal);
        let records = read_back(&path).records;
        for thread in 0..8u8 {
            let of_thread: Vec<u8> = records.iter().filter(|r| r[0] == thread).map(|r| r[1]).collect();
            assert_eq!(of_thread, (0..20).collect::<Vec<u8>>());
        }
    }
}
