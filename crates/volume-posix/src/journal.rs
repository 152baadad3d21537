//! A journal in a file of the host.
//!
//! [`mod@format`] defines its bytes. A reader continues behind damage at the next complete record, reports
//! the records that it leaves out, and sets the damaged file aside. [`Journal::replace`] writes a second
//! file and renames it over the first. [`try_at_one_moment`] notes the content of several journals at once,
//! for a backup.
//!
//! Opening a journal changes nothing on the disk and does not wait for it, unless the journal is damaged
//! or in an earlier format. No file exists before the first record. The records that were found count as
//! committed only after the first [`Journal::commit`].

mod format;
mod mark;
mod moment;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use volume::journal::{Journal, JournalPosition};
use volume::{Failure, Result};

use crate::store::store_file;

pub use format::Damage;
pub use mark::PosixMark;
pub use moment::{JournalSnapshot, try_at_one_moment};

/// The reason why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The host refused an operation.
    #[error("{path}: {source}")]
    Host {
        /// The file.
        path: PathBuf,
        /// The error of the host.
        source: io::Error,
    },
    /// The file is not a journal, or is one of another version.
    #[error("{0} is not a journal of this version; restore it, or move it away to start without its records")]
    Foreign(PathBuf),
}

/// The content of a journal's file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RecoveredJournal {
    /// The complete records in their order.
    pub records: Vec<Vec<u8>>,
    /// The parts that are no complete record, and are left out.
    pub damage: Vec<Damage>,
    /// The path under which the damaged file is kept.
    pub aside: Option<PathBuf>,
}

/// A journal in a file.
#[derive(Debug)]
pub struct PosixJournal {
    path: PathBuf,
    state: Mutex<JournalFileState>,
    synced: Condvar,
    lacks_some: bool,
}

#[derive(Debug, Default)]
struct JournalFileState {
    /// `None` before the first record. A snapshot shares the descriptor.
    file: Option<Arc<File>>,
    salt: u64,
    /// The bytes of the head and the complete records in the file. The end mark follows them.
    length: u64,
    /// The number of the next record in the file.
    next: u32,
    /// The number of records that were appended since the start; a [`JournalPosition`].
    appended: u64,
    /// The position up to which the records are on stable storage. `None` if that is unknown even for the
    /// records that were found.
    committed: Option<u64>,
    /// Whether a thread is waiting for the host to store the records.
    is_syncing: bool,
    /// Whether it is unknown which records are on stable storage.
    has_failed: bool,
}

impl PosixJournal {
    /// Opens the journal at `path`, which need not exist, and reads its records.
    ///
    /// # Errors
    /// [`JournalError`]; the file stays as it was.
    pub fn open(path: &Path) -> std::result::Result<(PosixJournal, RecoveredJournal), JournalError> {
        let host = |source| JournalError::Host { path: path.to_owned(), source };
        let format::JournalContent { records, damage, salt, next, length, is_earlier } = match fs::read(path)
        {
            Ok(bytes) => format::read(&bytes).ok_or_else(|| JournalError::Foreign(path.to_owned()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((
                    PosixJournal::of(path, JournalFileState::default()),
                    RecoveredJournal::default(),
                ));
            }
            Err(error) => return Err(host(error)),
        };
        let aside = if damage.is_empty() { None } else { Some(keep_damaged(path).map_err(host)?) };
        let state = if aside.is_some() || is_earlier {
            let failed = |why| host(io::Error::other(format!("{why}")));
            let mut state = JournalFileState::default();
            let new = write_replacement(path, &mut records.iter().cloned()).map_err(failed)?;
            state.take(new, path).map_err(failed)?;
            state
        } else {
            let file = OpenOptions::new().read(true).write(true).open(path).map_err(host)?;
            JournalFileState {
                file: Some(Arc::new(file)),
                salt,
                length: length as u64,
                next,
                ..JournalFileState::default()
            }
        };
        let lacks_some = !damage.is_empty();
        let journal = PosixJournal { lacks_some, ..PosixJournal::of(path, state) };
        Ok((journal, RecoveredJournal { records, damage, aside }))
    }

    fn of(path: &Path, state: JournalFileState) -> PosixJournal {
        PosixJournal {
            path: path.to_owned(),
            state: Mutex::new(state),
            synced: Condvar::new(),
            lacks_some: false,
        }
    }
}

impl JournalFileState {
    fn check(&self) -> Result<()> {
        if self.has_failed { Err(Failure::Io) } else { Ok(()) }
    }

    /// Continues with the file that [`write_replacement`] has written, and makes its name durable.
    fn take(&mut self, new: JournalFileState, path: &Path) -> Result<()> {
        let appended = self.appended;
        *self = JournalFileState { appended, committed: Some(appended), is_syncing: self.is_syncing, ..new };
        sync_directory(path).map_err(|why| {
            self.has_failed = true;
            crate::errno::failure_of(&why)
        })
    }
}

impl Journal for PosixJournal {
    fn append(&self, record: &[u8]) -> Result<JournalPosition> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.check()?;
        let Some(file) = &state.file else {
            let new = write_replacement(&self.path, &mut std::iter::once(record.to_vec()))?;
            state.appended += 1;
            return state.take(new, &self.path).map(|()| JournalPosition(state.appended));
        };
        let (salt, number, length) = (state.salt, state.next, state.length);
        let mut bytes = format::framed(salt, number, record)?;
        let framed = bytes.len() as u64;
        let next = number.checked_add(1).ok_or(Failure::TooLarge)?;
        bytes.extend_from_slice(&format::end(salt, next));
        if let Err(why) = file.write_all_at(&bytes, length) {
            // An incomplete record must not precede a complete one.
            let ended = file.write_all_at(&format::end(salt, number), length);
            let whole = length + format::END as u64;
            if ended.and_then(|()| file.set_len(whole)).is_err() {
                state.has_failed = true;
            }
            return Err(crate::errno::failure_of(&why));
        }
        state.length += framed;
        state.next = next;
        state.appended += 1;
        Ok(JournalPosition(state.appended))
    }

    fn commit(&self, position: JournalPosition) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            state.check()?;
            let Some(file) = &state.file else { return Ok(()) };
            if state.committed.is_some_and(|committed| committed >= position.0) {
                return Ok(());
            }
            if state.is_syncing {
                self.synced.wait(&mut state);
                continue;
            }
            // The name of a file from an earlier run may not be on the disk either.
            let (file, is_name_sure) = (Arc::clone(file), state.committed.is_some());
            let upto = state.appended;
            state.is_syncing = true;
            drop(state);
            let result = file.sync_data();
            let result = result.and_then(|()| if is_name_sure { Ok(()) } else { sync_directory(&self.path) });
            state = self.state.lock();
            state.is_syncing = false;
            match result {
                Ok(()) => state.committed = state.committed.max(Some(upto)),
                Err(_) => state.has_failed = true,
            }
            self.synced.notify_all();
        }
    }

    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<()> {
        let mut state = self.state.lock();
        state.check()?;
        let new = write_replacement(&self.path, records)?;
        // From here on the new file is the journal, on the disk and in memory.
        state.take(new, &self.path)
    }

    fn size(&self) -> u64 {
        let state = self.state.lock();
        if state.file.is_some() { state.length + format::END as u64 } else { 0 }
    }

    fn lacks_some(&self) -> bool {
        self.lacks_some
    }
}

/// Writes a second file and renames it over the first.
fn write_replacement(path: &Path, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<JournalFileState> {
    // The ending is added to the whole name: another journal may have the same name up to the last dot.
    let replacement = with_ending(path, ".new");
    let written = (|| {
        let salt = salt()?;
        let mut bytes = format::head(salt);
        let mut next = 0;
        for record in records {
            let framed = format::framed(salt, next, &record)?;
            // The first record is written twice, because the others depend on it.
            (0..if next == 0 { 2 } else { 1 }).for_each(|_| bytes.extend_from_slice(&framed));
            next = next.checked_add(1).ok_or(Failure::TooLarge)?;
        }
        let length = bytes.len() as u64;
        bytes.extend_from_slice(&format::end(salt, next));
        let host = |why: io::Error| crate::errno::failure_of(&why);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&replacement).map_err(host)?;
        file.write_all(&bytes).map_err(host)?;
        store_file(&file).and_then(|()| fs::rename(&replacement, path)).map_err(host)?;
        Ok(JournalFileState { file: Some(Arc::new(file)), salt, length, next, ..JournalFileState::default() })
    })();
    if written.is_err() {
        // It may not have been created. The next attempt empties it in any case.
        let _ = fs::remove_file(&replacement);
    }
    written
}

fn salt() -> Result<u64> {
    let mut bytes = [0; 8];
    crate::errno::call(|| rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Links a damaged file under a second name, under which it stays.
fn keep_damaged(path: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let aside = with_ending(
            path,
            &if number == 1 { ".damaged".to_owned() } else { format!(".damaged-{number}") },
        );
        match fs::hard_link(path, &aside) {
            Ok(()) => return Ok(aside),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            // Not every file system supports hard links.
            Err(_) => return fs::copy(path, &aside).map(|_| aside),
        }
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(ending);
    name.into()
}

/// Makes the file's name durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use volume::journal::MAX_RECORD;

    use super::*;

    fn records(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|n| vec![n as u8; n * 37 % 200]).collect()
    }

    fn filled(path: &Path, records: &[Vec<u8>]) -> PosixJournal {
        let (journal, found) = PosixJournal::open(path).expect("an empty journal");
        assert_eq!(found, RecoveredJournal::default());
        let mut position = JournalPosition::default();
        for record in records {
            position = journal.append(record).expect("room on the disk");
        }
        journal.commit(position).expect("a disk that works");
        journal
    }

    fn read_back(path: &Path) -> RecoveredJournal {
        PosixJournal::open(path).expect("a journal").1
    }

    #[test]
    fn what_was_appended_is_read_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let journal = filled(&path, &records(20));
        assert_eq!(journal.size(), fs::metadata(&path).expect("the file").len());
        drop(journal);
        assert_eq!(
            read_back(&path),
            RecoveredJournal { records: records(20), ..RecoveredJournal::default() }
        );
    }

    #[test]
    fn to_open_one_changes_nothing_on_the_disk() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let (journal, found) = PosixJournal::open(&path).expect("an empty journal");
        assert_eq!((found, journal.size()), (RecoveredJournal::default(), 0));
        journal.commit(JournalPosition::default()).expect("there is nothing to commit");
        assert!(!path.exists());
        let position = journal.append(b"first").expect("room on the disk");
        journal.commit(position).expect("a disk that works");
        drop(journal);
        let about = || fs::metadata(&path).map(|about| (about.ino(), about.mtime(), about.mtime_nsec()));
        let before = about().expect("the file");
        let mode = fs::metadata(&path).expect("the file").mode() & 0o777;
        assert_eq!(mode & 0o177, 0, "it is its owner's alone: {mode:o}");
        let (journal, found) = PosixJournal::open(&path).expect("a journal");
        assert_eq!((found.records, about().expect("the file")), (vec![b"first".to_vec()], before));
        // The next commit must first make the records that were found durable.
        assert_eq!(journal.state.lock().committed, None);
        journal.commit(JournalPosition::default()).expect("a disk that works");
        assert_eq!(journal.state.lock().committed, Some(0));
        // The first record is there twice, in a file that began with it too.
        let mut bytes = fs::read(&path).expect("the file");
        bytes[format::HEAD + 13] ^= 1;
        fs::write(&path, &bytes).expect("the file");
        assert_eq!(read_back(&path).records, [b"first"]);
    }

    #[test]
    fn a_cut_at_any_byte_leaves_a_prefix_says_so_and_goes_on_from_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let journal = filled(&path, &records(3));
        journal.replace(&mut records(6).into_iter()).expect("room on the disk");
        drop(journal);
        let whole = fs::read(&path).expect("the file");
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).expect("the file");
            let (journal, found) = PosixJournal::open(&path).expect("a journal");
            let count = found.records.len();
            assert_eq!(found.records, records(6)[..count], "cut at {cut}");
            assert_eq!(found.damage.len(), 1, "cut at {cut}: {:?}", found.damage);
            let aside = found.aside.expect("the damaged file");
            assert_eq!(fs::read(&aside).expect("it is kept"), whole[..cut]);
            fs::remove_file(&aside).expect("it is there");
            journal.append(b"after").expect("room on the disk");
            drop(journal);
            let again = read_back(&path);
            assert_eq!((again.damage.as_slice(), again.records.len()), (&[][..], count + 1), "cut at {cut}");
            assert_eq!(again.records[count], b"after");
        }
    }

    /// All records but the one at `missing`.
    fn without(missing: usize) -> Vec<Vec<u8>> {
        let mut rest = records(6);
        rest.remove(missing);
        rest
    }

    #[test]
    fn a_changed_bit_costs_one_record_at_most_and_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let journal = filled(&path, &[]);
        journal.replace(&mut records(6).into_iter()).expect("room on the disk");
        drop(journal);
        let whole = fs::read(&path).expect("the file");
        for at in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[at / 8] ^= 1 << (at % 8);
            let found = format::read(&changed).expect("it is still a journal");
            let damage = found.damage.as_slice();
            assert_eq!(damage.len(), 1, "bit {at}: {damage:?}");
            match damage[0].records {
                Some(1) => assert!((1..6).any(|missing| found.records == without(missing)), "bit {at}"),
                _ => assert_eq!(found.records, records(6), "bit {at}: {damage:?}"),
            }
            assert!(damage[0].offset <= at as u64 / 8 && at as u64 / 8 < damage[0].offset + damage[0].bytes);
            if at % 97 == 0 {
                fs::write(&path, &changed).expect("the file");
                let read = read_back(&path);
                assert_eq!((read.records, read.damage), (found.records, found.damage));
                let aside = read.aside.expect("the damaged file");
                assert_eq!(fs::read(&aside).expect("it is kept"), changed);
                fs::remove_file(&aside).expect("it is there");
            }
        }
    }

    #[test]
    fn a_hole_is_told_by_its_place_and_its_records() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let journal = filled(&path, &records(3));
        let begin = journal.size() as usize - format::END;
        drop(journal);
        let journal = PosixJournal::open(&path).expect("a journal").0;
        journal.append(&[7; 100]).expect("room on the disk");
        journal.append(&[8; 100]).expect("room on the disk");
        let after = journal.size() as usize - format::END;
        journal.append(b"last").expect("room on the disk");
        drop(journal);
        let mut bytes = fs::read(&path).expect("the file");
        bytes[begin..after].fill(0);
        fs::write(&path, &bytes).expect("the file");
        let found = read_back(&path);
        assert_eq!(found.records, [records(3), vec![b"last".to_vec()]].concat());
        let length = (after - begin) as u64;
        assert_eq!(found.damage, [Damage { offset: begin as u64, bytes: length, records: Some(2) }]);
        assert_eq!(found.damage[0].to_string(), format!("{length} bytes at byte {begin}: 2 records"));
        // A second damaged file does not replace the first.
        fs::write(&path, &bytes).expect("the file");
        let names = [found.aside, read_back(&path).aside].map(|aside| aside.expect("a damaged file"));
        let names = names.map(|name| name.file_name().map(|name| name.to_string_lossy().into_owned()));
        assert_eq!(names, [Some("journal.damaged".to_owned()), Some("journal.damaged-2".to_owned())]);
    }

    #[test]
    fn what_stands_within_a_damaged_record_is_no_record() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let journal = filled(&path, &records(2));
        // A client could know such bytes from another server.
        let planted = format::framed(1, 2, b"planted").expect("it is short");
        let begin = journal.size() as usize - format::END;
        journal.append(&[planted.as_slice(), &planted].concat()).expect("room on the disk");
        journal.append(b"last").expect("room on the disk");
        drop(journal);
        let mut bytes = fs::read(&path).expect("the file");
        bytes[begin] ^= 1;
        fs::write(&path, &bytes).expect("the file");
        assert_eq!(read_back(&path).records, [records(2), vec![b"last".to_vec()]].concat());
    }

    #[test]
    fn the_form_before_is_read_and_written_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        for count in [0, 6] {
            fs::write(&path, format::earlier(&records(count))).expect("the file");
            for _ in 0..2 {
                assert_eq!(
                    read_back(&path),
                    RecoveredJournal { records: records(count), ..RecoveredJournal::default() }
                );
            }
            assert!(fs::read(&path).expect("the file").starts_with(format::MAGIC));
        }
        let whole = format::earlier(&records(6));
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            for bytes in [&changed[..], &whole[..at]] {
                let found = format::read(bytes).expect("it is still a journal");
                // This format has no end mark: a cut between two records cannot be detected.
                let is_told = !found.damage.is_empty() || bytes.len() < whole.len();
                assert!(is_told && found.records.len() < 7, "byte {at}: {found:?}");
            }
        }
    }

    #[test]
    fn replacing_leaves_the_new_records_and_takes_more() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let journal = filled(&path, &records(6));
        journal.replace(&mut records(2).into_iter()).expect("room on the disk");
        let position = journal.append(b"later").expect("room on the disk");
        journal.commit(position).expect("a disk that works");
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
                        let position = journal.append(&[thread, count]).expect("room on the disk");
                        journal.commit(position).expect("a disk that works");
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
