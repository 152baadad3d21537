//! The records of `state.redb`, each with a checksum, and their tables, each with a count and a sum over its
//! records'.
//!
//! Start with [`Records::open`]: the file is tried in memory first, so that a damaged one is refused as it
//! is. What counts then stands in memory too ([`Contents`]), and the file is only written. redb's own
//! checksums are over pages, and are not looked at when a file was closed in order; nor does redb see that it
//! has gone back to an earlier commit, as it does when the newest one cannot be read. So each commit has a
//! number, which `state.generation` beside the file repeats.
//!
//! ```text
//! table    key          value
//! sums     a table      checksum 4 | records 8 | sum of their checksums 8
//! sums     generation   checksum 4 | number of the commit 8
//! others   key          checksum 4 | body
//! ```
//!
//! A checksum is over the table's name, the key and the body.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, RwLock};
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
    WriteTransaction,
};

use super::panic_guard::{DatabaseCopy, guarded};
use super::{StoreError, old_format};

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

/// How many records a table has, and what their checksums come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    count: u64,
    checksums: u64,
}

/// What is to be changed in one commit.
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
    database: Database,
    contents: RwLock<Contents>,
    /// Held by who commits: the number of the last commit.
    generation: Mutex<u64>,
    beside: File,
    /// What the administrator is to be told.
    pub notes: Vec<String>,
}

/// What was read of a file.
struct LoadedRecords {
    contents: Contents,
    /// None: the program that wrote it knew no checksums.
    generation: Option<u64>,
}

impl Records {
    /// Makes the file `path` with these records, whole or not at all.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn make(path: &Path, edits: Edits) -> Result<(), StoreError> {
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let database = Database::builder().create_file(options().create_new(true).open(&new)?)?;
        let write = database.begin_write()?;
        commit(write, &Contents::default(), &edits, 1)?;
        drop(database);
        fs::rename(&new, path)?;
        // A number from a file that was here before says nothing of this one.
        write_generation(&generation_file(path)?, 1)?;
        sync_directory(path)
    }

    /// Opens the file `path`, one of an earlier form too, of which the tables `tables` are read. It must be
    /// there, and `check` says whether what is in it will do.
    ///
    /// # Errors
    /// [`StoreError`]; a file that is refused is left as it is.
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
            found.newer_than(told_generation(path).ok().flatten())
        })?;
        let (database, found) = guarded(|| {
            let mut database = Database::builder().create_file(options().open(path)?)?;
            // What does not belong to a record may be damaged too, and redb puts that right here.
            let found = examine(&mut database, tables)?;
            Ok((database, found))
        })?;
        let mut notes = Vec::new();
        let told = told_generation(path);
        let beside = generation_file(path)?;
        let generation = match found.generation {
            Some(generation) => {
                if !matches!(told, Ok(Some(_))) {
                    notes.push(format!(
                        "{} is {} and was made anew: had `state.redb` been set back to an earlier time, it would not have been seen",
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
        let contents = RwLock::new(found.contents);
        Ok(Records { database, contents, generation: Mutex::new(generation), beside, notes })
    }

    /// What `look` makes of all records.
    pub fn with<T>(&self, look: impl FnOnce(&Contents) -> T) -> T {
        look(&self.contents.read())
    }

    /// The body under `key`.
    pub fn get(&self, table: Table, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.contents.read().get(&table)?.get(key.as_ref()).cloned()
    }

    /// How many changes were made since the file was.
    #[cfg(test)]
    pub fn changes(&self) -> u64 {
        *self.generation.lock()
    }

    /// All keys and bodies of a table, in the order of the keys.
    pub fn all(&self, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
        let contents = self.contents.read();
        let records = contents.get(&table).into_iter().flatten();
        records.map(|(key, body)| (key.clone(), body.clone())).collect()
    }

    /// Makes the edits that `how` decides on, while nobody else makes any. On disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    pub fn change<T>(
        &self,
        how: impl FnOnce(&Contents, &mut Edits) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut generation = self.generation.lock();
        let mut edits = Edits::default();
        let done = how(&self.contents.read(), &mut edits)?;
        if edits.0.is_empty() {
            return Ok(done);
        }
        let next = *generation + 1;
        guarded(|| commit(self.database.begin_write()?, &self.contents.read(), &edits, next))?;
        *generation = next;
        apply(&mut self.contents.write(), edits);
        // Nobody waits for the disk: it may be behind, and never ahead.
        if let Err(error) = write_generation(&self.beside, next) {
            tracing::warn!(%error, "the number of the last change of state.redb is not kept beside it");
        }
        Ok(done)
    }
}

impl LoadedRecords {
    /// Refuses a file that is older than what `told` says was written.
    fn newer_than(&self, told: Option<u64>) -> Result<(), StoreError> {
        let (Some(told), Some(generation)) = (told, self.generation) else { return Ok(()) };
        if generation >= told {
            return Ok(());
        }
        Err(StoreError(format!(
            "it has change {generation} as its last, and {told} were made: it is damaged or an earlier copy; restore the state directory as a \
             whole, or take it as it is by removing `state.generation`"
        )))
    }
}

/// Reads a database and holds it against its checksums. It may write what redb has to put right.
fn examine(database: &mut Database, tables: &[Table]) -> Result<LoadedRecords, StoreError> {
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

/// Writes edits of `contents` as the commit `generation`.
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
        // With the lengths, so that no byte can go from one part to the next.
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
    Ok(options().create(true).truncate(false).open(generation_path(path))?)
}

/// Where a number stands at which the file was: 8 bytes and their checksum.
fn write_generation(file: &File, generation: u64) -> Result<(), StoreError> {
    let number = generation.to_le_bytes();
    let content = [&number[..], &crc32fast::hash(&number).to_le_bytes()].concat();
    Ok(file.write_all_at(&content, 0)?)
}

/// The number in the file beside `path`; none without one.
fn told_generation(path: &Path) -> io::Result<Option<u64>> {
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
