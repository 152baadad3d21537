//! The records of `state.redb`, each with a checksum, and its tables, each with the number of its records and
//! the sum of their checksums.
//!
//! Start with [`Records::open`]. The file is opened in memory first, so that a damaged one is refused and
//! stays unchanged. The valid content is then kept in memory ([`Contents`]), and the file is only written.
//! redb's own checksums cover pages, and they are not checked when the file was closed in order. Nor does
//! redb notice that it has returned to an earlier commit, as it does when the newest one cannot be read. So
//! each commit has a number, which is also in `state.generation` next to the file.
//!
//! ```text
//! table    key          value
//! sums     a table      checksum 4 | records 8 | sum of their checksums 8
//! sums     generation   checksum 4 | number of the commit 8
//! others   key          checksum 4 | body
//! ```
//! A checksum covers the table's name, the key and the body.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use redb::backends::FileBackend;
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
    WriteTransaction,
};

use super::panic_guard::{DatabaseCopy, guarded};
use super::{StoreError, old_format};
use crate::state::owner;

type Sealed = TableDefinition<'static, &'static [u8], &'static [u8]>;

const SUMS: Table = Table("sums");
const GENERATION: &[u8] = b"generation";
/// Bytes of a record's checksum.
const CHECKSUM: usize = 4;

/// A table by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Table(pub &'static str);

/// The bodies of all records, by table and key.
pub type Contents = BTreeMap<Table, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The number of a table's records, and the sum of their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    count: u64,
    checksums: u64,
}

/// The changes of one commit.
#[derive(Debug, Default)]
pub struct Edits(BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>);

impl Edits {
    pub fn put(&mut self, table: Table, key: impl AsRef<[u8]>, body: Vec<u8>) {
        self.0.insert((table, key.as_ref().to_vec()), Some(body));
    }

    pub fn remove(&mut self, table: Table, key: impl AsRef<[u8]>) {
        self.0.insert((table, key.as_ref().to_vec()), None);
    }
}

/// The open file.
#[derive(Debug)]
pub struct Records {
    /// A change makes a copy if a backup still reads the old content.
    contents: RwLock<Arc<Contents>>,
    /// A commit holds this lock.
    writer: Mutex<RecordWriter>,
    beside: File,
    /// Notes for the administrator.
    pub notes: Vec<String>,
}

/// The file as commits see it.
#[derive(Debug)]
struct RecordWriter {
    path: PathBuf,
    tables: Vec<Table>,
    /// None after a commit that failed, for instance on a full disk. redb does not go on then, so the next
    /// commit begins with a new file.
    database: Option<Database>,
    /// The number of the last commit.
    generation: u64,
}

/// The content of a file.
pub struct LoadedRecords {
    pub contents: Contents,
    /// None if the program that wrote it had no checksums.
    generation: Option<u64>,
}

impl Records {
    /// Creates the file `path` with these records, completely or not at all.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn make(path: &Path, edits: Edits) -> Result<(), StoreError> {
        write_new(path, &edits, 1)?;
        // The number of an earlier file does not apply to this one.
        write_generation(&generation_file(path)?, 1)?;
        sync_directory(path)
    }

    /// Opens the file `path`, which must exist, and reads the tables `tables`. It also reads the earlier
    /// format. `check` validates the content.
    ///
    /// # Errors
    /// [`StoreError`]. A file that is refused stays unchanged.
    pub fn open(
        path: &Path,
        tables: &[Table],
        check: impl Fn(&Contents) -> Result<(), StoreError>,
    ) -> Result<Records, StoreError> {
        let bytes = fs::read(path)?;
        guarded(|| {
            let copy = Database::builder().create_with_backend(DatabaseCopy::of(bytes));
            let mut copy = copy.map_err(|e| StoreError::damaged(&e.to_string()))?;
            let found = examine(&mut copy, tables)?;
            check(&found.contents)?;
            found.refuse_if_older_than(recorded_generation(path).ok().flatten())
        })?;
        let (database, found) = open_database(path, tables)?;
        let mut notes = Vec::new();
        let told = recorded_generation(path);
        let beside = generation_file(path)?;
        let generation = match found.generation {
            Some(generation) => {
                if !matches!(told, Ok(Some(_))) {
                    notes.push(format!(
                        "{} is {} and was created again; an older copy of `state.redb` would not have been \
                         noticed",
                        generation_path(path).display(),
                        if told.is_err() { "damaged" } else { "missing" }
                    ));
                }
                generation
            }
            None => {
                guarded(|| old_format::remove(&database, &found.contents))?;
                1
            }
        };
        write_generation(&beside, generation)?;
        let contents = RwLock::new(Arc::new(found.contents));
        let (path, tables, database) = (path.to_owned(), tables.to_vec(), Some(database));
        Ok(Records {
            contents,
            writer: Mutex::new(RecordWriter { path, tables, database, generation }),
            beside,
            notes,
        })
    }

    /// Applies `look` to all records.
    pub fn with<T>(&self, look: impl FnOnce(&Contents) -> T) -> T {
        look(&self.contents.read())
    }

    /// All records, as they are now.
    pub fn snapshot(&self) -> Arc<Contents> {
        Arc::clone(&self.contents.read())
    }

    /// The body under `key`.
    pub fn get(&self, table: Table, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.contents.read().get(&table)?.get(key.as_ref()).cloned()
    }

    /// The number of changes since the file was created.
    #[cfg(test)]
    pub fn changes(&self) -> u64 {
        self.writer.lock().generation
    }

    /// All keys and bodies of a table, in the order of the keys.
    pub fn all(&self, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
        let contents = self.contents.read();
        let records = contents.get(&table).into_iter().flatten();
        records.map(|(key, body)| (key.clone(), body.clone())).collect()
    }

    /// Commits the edits that `how` makes, while no other thread makes any. They are on disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]. Nothing was changed then.
    pub fn change<T>(
        &self,
        how: impl FnOnce(&Contents, &mut Edits) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut writer = self.writer.lock();
        if writer.database.is_none() {
            writer.rewrite(&self.contents.read())?;
        }
        let mut edits = Edits::default();
        let done = how(&self.contents.read(), &mut edits)?;
        if edits.0.is_empty() {
            return Ok(done);
        }
        let next = writer.generation + 1;
        writer.commit(&self.contents.read(), &edits, next)?;
        apply(Arc::make_mut(&mut self.contents.write()), edits);
        // There is no wait for the disk: the number there may be too low, but never too high.
        if let Err(error) = write_generation(&self.beside, next) {
            tracing::warn!(%error, "the number of the last change of state.redb could not be written to \
                                    state.generation");
        }
        Ok(done)
    }
}

impl RecordWriter {
    /// Writes the file anew with these contents and opens it. The former file may have the commit that was
    /// reported as failed, or pages that never reached the disk (fsync(2) after a failed one).
    fn rewrite(&mut self, contents: &Contents) -> Result<(), StoreError> {
        let mut edits = Edits::default();
        for (table, records) in contents {
            records.iter().for_each(|(key, body)| edits.put(*table, key, body.clone()));
        }
        write_new(&self.path, &edits, self.generation)?;
        let (database, _) = open_database(&self.path, &self.tables)?;
        self.database = Some(database);
        Ok(())
    }

    fn commit(&mut self, contents: &Contents, edits: &Edits, next: u64) -> Result<(), StoreError> {
        let database = self.database.as_ref();
        let database = database.ok_or_else(|| StoreError("the file is not open".to_owned()))?;
        let committed = guarded(|| commit(database.begin_write()?, contents, edits, next));
        match committed {
            Ok(()) => self.generation = next,
            Err(_) => {
                let broken = self.database.take();
                // It writes to the file that has just failed.
                let _ = guarded(|| {
                    drop(broken);
                    Ok(())
                });
            }
        }
        committed
    }
}

/// Writes a file with these records as `path`, completely or not at all.
fn write_new(path: &Path, edits: &Edits, generation: u64) -> Result<(), StoreError> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = options().create_new(true).open(&new)?;
    owner::keep(&file, path.parent().unwrap_or(path))?;
    guarded(|| {
        let database = Database::builder().create_with_backend(FileBackend::new(file)?)?;
        commit(database.begin_write()?, &Contents::default(), edits, generation)
    })?;
    fs::rename(&new, path)?;
    sync_directory(path)
}

/// Opens the file `path` and reads its tables.
fn open_database(path: &Path, tables: &[Table]) -> Result<(Database, LoadedRecords), StoreError> {
    guarded(|| {
        let mut database =
            Database::builder().create_with_backend(FileBackend::new(options().open(path)?)?)?;
        // Bytes outside of records may be damaged too, and redb repairs them here.
        let found = examine(&mut database, tables)?;
        Ok((database, found))
    })
}

impl LoadedRecords {
    /// Refuses a file whose last change is older than `told`.
    fn refuse_if_older_than(&self, told: Option<u64>) -> Result<(), StoreError> {
        let (Some(told), Some(generation)) = (told, self.generation) else { return Ok(()) };
        if generation >= told {
            return Ok(());
        }
        Err(StoreError(format!(
            "its last change is {generation}, but {told} were made: it is damaged or an older copy; restore \
             the state directory as a whole, or remove `state.generation` to accept it as it is"
        )))
    }
}

/// Reads a database and checks its checksums. redb may write repairs to it.
pub fn examine(database: &mut Database, tables: &[Table]) -> Result<LoadedRecords, StoreError> {
    let was_whole = database.check_integrity().map_err(|e| StoreError::damaged(&e.to_string()))?;
    let read = database.begin_read()?;
    let names: Vec<String> = read.list_tables()?.map(|table| table.name().to_owned()).collect();
    let has = |table: Table| names.iter().any(|name| name == table.0);
    if !has(SUMS) {
        if !was_whole {
            return Err(StoreError::damaged("redb had to repair it"));
        }
        return Ok(LoadedRecords { contents: old_format::read(&read)?, generation: None });
    }
    let sums = read_table(&read, SUMS)?;
    let mut contents = Contents::new();
    for &table in tables {
        let records = if has(table) { read_table(&read, table)? } else { BTreeMap::new() };
        let told = sums.get(table.0.as_bytes()).map_or(Some(Sum::default()), |sum| Sum::decode(sum));
        if told != Some(Sum::of(table, &records)) {
            return Err(StoreError::damaged(&format!("records are missing in `{}`", table.0)));
        }
        contents.insert(table, records);
    }
    let generation =
        sums.get(GENERATION).and_then(|number| Some(u64::from_le_bytes(number[..].try_into().ok()?)));
    let generation =
        generation.ok_or_else(|| StoreError::damaged("the number of its last change is missing"))?;
    Ok(LoadedRecords { contents, generation: Some(generation) })
}

fn read_table(read: &ReadTransaction, table: Table) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
    let mut records = BTreeMap::new();
    for entry in read.open_table(table.definition())?.iter()? {
        let (key, value) = entry?;
        let body = unsealed(table, key.value(), value.value());
        let body = body.ok_or_else(|| StoreError::damaged(&format!("a record of `{}`", table.0)))?;
        records.insert(key.value().to_vec(), body.to_vec());
    }
    Ok(records)
}

/// Writes the edits of `contents` as the commit `generation`.
pub fn commit(
    write: WriteTransaction,
    contents: &Contents,
    edits: &Edits,
    generation: u64,
) -> Result<(), StoreError> {
    let mut sums = BTreeMap::<Table, Sum>::new();
    let none = BTreeMap::new();
    for ((table, key), body) in &edits.0 {
        let before = contents.get(table).unwrap_or(&none);
        let sum = sums.entry(*table).or_insert_with(|| Sum::of(*table, before));
        let mut open = write.open_table(table.definition())?;
        if let Some(was) = before.get(key) {
            sum.take(checksum(*table, key, was));
        }
        match body {
            Some(body) => {
                open.insert(key.as_slice(), sealed(*table, key, body).as_slice())?;
                sum.add(checksum(*table, key, body));
            }
            None => drop(open.remove(key.as_slice())?),
        }
    }
    {
        let mut open = write.open_table(SUMS.definition())?;
        for (table, sum) in sums {
            let key = table.0.as_bytes();
            open.insert(key, sealed(SUMS, key, &sum.encode()).as_slice())?;
        }
        open.insert(GENERATION, sealed(SUMS, GENERATION, &generation.to_le_bytes()).as_slice())?;
    }
    Ok(write.commit()?)
}

fn apply(contents: &mut Contents, edits: Edits) {
    for ((table, key), body) in edits.0 {
        let records = contents.entry(table).or_default();
        match body {
            Some(body) => drop(records.insert(key, body)),
            None => drop(records.remove(&key)),
        }
    }
}

impl Table {
    fn definition(self) -> Sealed {
        TableDefinition::new(self.0)
    }
}

impl Sum {
    fn of(table: Table, records: &BTreeMap<Vec<u8>, Vec<u8>>) -> Sum {
        let mut sum = Sum::default();
        records.iter().for_each(|(key, body)| sum.add(checksum(table, key, body)));
        sum
    }

    fn add(&mut self, checksum: u32) {
        self.count += 1;
        self.checksums = self.checksums.wrapping_add(checksum.into());
    }

    fn take(&mut self, checksum: u32) {
        self.count = self.count.saturating_sub(1);
        self.checksums = self.checksums.wrapping_sub(checksum.into());
    }

    fn encode(self) -> Vec<u8> {
        [self.count.to_le_bytes(), self.checksums.to_le_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Sum> {
        let (count, rest) = bytes.split_first_chunk()?;
        let checksums = u64::from_le_bytes(rest.try_into().ok()?);
        Some(Sum { count: u64::from_le_bytes(*count), checksums })
    }
}

fn checksum(table: Table, key: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in [table.0.as_bytes(), key, body] {
        // The lengths are included, so that no byte can move from one part to the next.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

fn sealed(table: Table, key: &[u8], body: &[u8]) -> Vec<u8> {
    [&checksum(table, key, body).to_le_bytes(), body].concat()
}

fn unsealed<'a>(table: Table, key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (sum, body) = value.split_first_chunk::<CHECKSUM>()?;
    (u32::from_le_bytes(*sum) == checksum(table, key, body)).then_some(body)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn generation_path(path: &Path) -> PathBuf {
    path.with_extension("generation")
}

fn generation_file(path: &Path) -> Result<File, StoreError> {
    let file = options().create(true).truncate(false).open(generation_path(path))?;
    owner::keep(&file, path.parent().unwrap_or(path))?;
    Ok(file)
}

/// Writes the number of the last commit: 8 bytes and their checksum.
fn write_generation(file: &File, generation: u64) -> Result<(), StoreError> {
    Ok(file.write_all_at(&generation_bytes(generation), 0)?)
}

/// The content of the file with the number of the last commit.
pub fn generation_bytes(generation: u64) -> Vec<u8> {
    let number = generation.to_le_bytes();
    [&number[..], &crc32fast::hash(&number).to_le_bytes()].concat()
}

/// The number in the file next to `path`. None without such a file.
fn recorded_generation(path: &Path) -> io::Result<Option<u64>> {
    let content = match fs::read(generation_path(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let number = content
        .split_first_chunk::<8>()
        .filter(|(number, sum)| **sum == crc32fast::hash(*number).to_le_bytes());
    number
        .map(|(number, _)| Some(u64::from_le_bytes(*number)))
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn sync_directory(path: &Path) -> Result<(), StoreError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(parent)?.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table = Table("things");

    fn open(path: &Path) -> Records {
        Records::open(path, &[TABLE], |_| Ok(())).unwrap()
    }

    fn put(records: &Records, key: &str) {
        let put = |_: &Contents, edits: &mut Edits| {
            edits.put(TABLE, key, key.as_bytes().to_vec());
            Ok(())
        };
        records.change(put).unwrap();
    }

    #[test]
    fn after_a_commit_that_failed_the_next_one_begins_with_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.redb");
        Records::make(&path, Edits::default()).unwrap();
        let records = open(&path);
        put(&records, "a");
        records.writer.lock().database = None;
        put(&records, "b");
        // This one reached the disk, and was reported as failed.
        let mut writer = records.writer.lock();
        let mut edits = Edits::default();
        edits.put(TABLE, "c", b"c".to_vec());
        let next = writer.generation + 1;
        let database = writer.database.take().unwrap();
        commit(database.begin_write().unwrap(), &records.contents.read(), &edits, next).unwrap();
        drop((database, writer));
        put(&records, "d");
        let all = |records: &Records| records.all(TABLE).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(all(&records), [b"a", b"b", b"d"]);
        drop(records);
        let again = open(&path);
        assert_eq!(
            (all(&again), again.notes.is_empty()),
            (vec![b"a".to_vec(), b"b".to_vec(), b"d".to_vec()], true)
        );
    }
}
