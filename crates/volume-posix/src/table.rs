//! The node table. It finds a file again by its address if the host opens nothing by handle. (Opening by
//! handle needs CAP_DAC_READ_SEARCH, and a file system with handles.)
//!
//! For each node whose address was handed out, the table has the directory and the name of the node.
//! Nodes are identified by inode number and birth time. Each result is compared with the address. So an
//! outdated record leads to a search, and never to another file:
//!
//! 1. Names that are moved or removed through the volume are recorded at once.
//! 2. If the host moved a name within its directory, reading that directory finds it.
//! 3. Otherwise the whole volume is searched ([`search`]) in steps. A node that a complete search does
//!    not find is gone.
//!
//! Records are appended to one file with a plain write. They outlive the process, and no caller waits for
//! the disk. A loss of power on the host may have removed records. The table is then in doubt: a node
//! without a record is searched for, and is gone only if the search does not find it. The index in memory
//! takes some 50 bytes for each node.
//!
//! ```text
//! "TLNODES2" | boot 36 | doubt 1       the boot of the host that wrote it; whether records may be missing
//! length 2 | checksum 4 | 1 | inode 8 | birth 8 + 4 | directory's inode 8 | name
//! length 2 | checksum 4 | 2 | inode 8                                             the node is gone
//! 0xffff | checksum 4                  the end mark; a record overwrites it, and a new one follows
//! ```
//!
//! A file without an end mark was truncated.

mod search;

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, RwLock};
use volume::{Failure, Name, NodeId, Result, Stat, Time};
use wire::Cursor;

use search::Search;

use crate::store::store_file;

/// The first bytes of the file. The number is the version of the format.
const MAGIC: &[u8; 8] = b"TLNODES2";
/// The first bytes of the file in the earlier format, which had no end mark.
const EARLIER: &[u8; 8] = b"TLNODES1";
/// No records are missing. Any other byte means doubt, so damage can cause doubt but never remove it.
const CERTAIN: u8 = 0x5a;
const IN_DOUBT: u8 = 0xa5;
/// The value that marks the end in place of a length.
const END_MARK: u16 = u16::MAX;
/// Bytes of the host's boot id.
const BOOT: usize = 36;
/// Bytes in front of the first record.
const HEAD: usize = MAGIC.len() + BOOT + 1;
/// Length and checksum in front of each record.
const PREFIX: usize = 6;
/// The longest record with its prefix.
const LONGEST: usize = PREFIX + 1 + 8 + 12 + 8 + 255;
/// The record of a node's directory and name.
const PUT: u8 = 1;
/// The record that a node is gone.
const GONE: u8 = 2;
/// The most nodes that are stored. Others are found by a search.
const MAX_NODES: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };
/// The most nodes that are remembered as gone.
const MAX_GONE: usize = if cfg!(test) { 1 << 8 } else { 1 << 16 };
/// The number of outdated records after which the file is rewritten.
const MANY_DEAD: u64 = 1 << 14;
/// The greatest depth of a node below the root.
const MAX_DEPTH: usize = 1024;

/// A node's inode number and birth time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeKey {
    pub(crate) inode: u64,
    pub(crate) born: Time,
}

impl NodeKey {
    pub(crate) fn of(stat: &Stat) -> NodeKey {
        NodeKey { inode: stat.id.inode, born: stat.born.unwrap_or_default() }
    }
}

/// The directory and name under which a node was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeLocation {
    born: Time,
    parent: u64,
    name: Name,
}

/// The position of a record in the file, and the birth time of its node.
#[derive(Debug, Clone, Copy)]
struct RecordLocation {
    born: Time,
    offset: u64,
}

/// The table of a volume.
#[derive(Debug)]
pub(crate) struct NodeTable {
    path: PathBuf,
    /// The root, from which every path starts.
    root: OwnedFd,
    root_id: NodeId,
    /// The boot ID of the host.
    boot: [u8; BOOT],
    records: RwLock<TableFile>,
    search: Mutex<Search>,
    /// The position of [`NodeTable::collect`].
    collected: Mutex<u64>,
}

/// The file and its index.
#[derive(Debug, Default)]
struct TableFile {
    /// `None` until something is written.
    file: Option<File>,
    /// The position of the next record.
    end: u64,
    /// Indexed by inode number: of two nodes with one number, the older one is gone.
    index: BTreeMap<u64, RecordLocation>,
    /// The number of outdated records in the file.
    dead: u64,
    /// Whether nodes may exist whose address was handed out and whose record is missing.
    is_in_doubt: bool,
    /// The nodes that are certainly gone.
    gone: HashSet<NodeKey>,
    /// Whether the failure to write was logged.
    has_complained: bool,
}

impl NodeTable {
    /// Reads the table in the directory `store`. A missing table is empty, and is created when it is
    /// needed.
    pub(crate) fn open(store: &Path, root: OwnedFd, root_id: NodeId) -> NodeTable {
        let path = store.join("nodes");
        let (boot, knows_boot) = boot();
        let mut records = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => TableFile::default(),
            Err(why) => TableFile::unusable(&path, &why),
            Ok(file) => {
                TableFile::read(&path, file, &boot).unwrap_or_else(|why| TableFile::unusable(&path, &why))
            }
        };
        if !knows_boot {
            records.doubt();
        }
        let table = NodeTable {
            path,
            root,
            root_id,
            boot,
            records: RwLock::new(records),
            search: Mutex::default(),
            collected: Mutex::default(),
        };
        table.rewrite_if_long();
        {
            // The next start must know about the doubt too.
            let mut records = table.records.write();
            if records.is_in_doubt
                && let Err(error) = table.file(&mut records).map(drop)
            {
                tracing::warn!(path = %table.path.display(), %error, "cannot create the table of files");
            }
        }
        table
    }

    /// The root of the volume.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Whether a node has a record, outdated or not.
    pub(crate) fn knows(&self, key: NodeKey) -> bool {
        self.records.read().index.get(&key.inode).is_some_and(|entry| entry.born == key.born)
    }

    /// Records the directory and name of a node.
    pub(crate) fn put(&self, key: NodeKey, parent: u64, name: &Name) {
        let mut records = self.records.write();
        records.gone.remove(&key);
        if records.index.len() >= MAX_NODES && !records.index.contains_key(&key.inode) {
            return records.doubt();
        }
        let mut record = Vec::with_capacity(LONGEST);
        record.extend_from_slice(&[0; PREFIX]);
        record.push(PUT);
        record.extend_from_slice(&key.inode.to_le_bytes());
        record.extend_from_slice(&key.born.secs.to_le_bytes());
        record.extend_from_slice(&key.born.nanos.to_le_bytes());
        record.extend_from_slice(&parent.to_le_bytes());
        record.extend_from_slice(name.as_bytes());
        let Some(offset) = self.append(&mut records, record) else { return };
        if records.index.insert(key.inode, RecordLocation { born: key.born, offset }).is_some() {
            records.dead += 1;
        }
    }

    /// Records the new directory and name of a node after a rename, if its address was handed out.
    pub(crate) fn moved(&self, stat: &Stat, parent: u64, name: &Name) {
        let key = NodeKey::of(stat);
        if self.knows(key) {
            self.put(key, parent, name);
        }
        if stat.kind == volume::NodeKind::Directory {
            self.moved_directory();
        }
    }

    /// Records that a node is gone.
    pub(crate) fn gone(&self, key: NodeKey) {
        let mut records = self.records.write();
        if records.gone.len() >= MAX_GONE {
            // In doubt, these nodes are searched for again if somebody asks for them.
            records.gone.clear();
        }
        records.gone.insert(key);
        if records.index.get(&key.inode).is_some_and(|entry| entry.born == key.born) {
            records.index.remove(&key.inode);
            let mut record = vec![0; PREFIX];
            record.push(GONE);
            record.extend_from_slice(&key.inode.to_le_bytes());
            records.dead += 2;
            self.append(&mut records, record);
        }
    }

    /// Whether no node has a record.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.read().index.is_empty()
    }

    /// Starts to search for nodes without a record.
    pub(crate) fn doubt(&self) {
        self.records.write().doubt();
    }

    /// Calls `open` with the directory and name of the node with this key. The node is found by its
    /// record, or else by a search.
    ///
    /// # Errors
    /// [`Failure::Stale`] when the node is gone; [`Failure::Busy`] while it is searched for; errors of
    /// the host.
    pub(crate) fn find<T>(
        &self,
        key: NodeKey,
        open: &dyn Fn(BorrowedFd<'_>, &Name) -> Result<T>,
    ) -> Result<T> {
        // A search may have corrected the record just when somebody moved the node again.
        for _ in 0..2 {
            match self.at_its_place(key, open)? {
                Some(found) => return Ok(found),
                None => self.search_for(key)?,
            }
        }
        Err(Failure::Busy)
    }

    /// The node at the place in its record, if it is there.
    fn at_its_place<T>(
        &self,
        key: NodeKey,
        open: &dyn Fn(BorrowedFd<'_>, &Name) -> Result<T>,
    ) -> Result<Option<T>> {
        {
            let records = self.records.read();
            match records.index.get(&key.inode) {
                _ if records.gone.contains(&key) => return Err(Failure::Stale),
                Some(entry) if entry.born == key.born => {}
                // Another node has its number, so it is gone.
                Some(_) if key.born != Time::default() => return Err(Failure::Stale),
                None if !records.is_in_doubt => return Err(Failure::Stale),
                _ => return Ok(None),
            }
        }
        search::at_its_place(self, key, open)
    }

    fn location(&self, inode: u64) -> Result<Option<NodeLocation>> {
        let records = self.records.read();
        let (Some(entry), Some(file)) = (records.index.get(&inode), &records.file) else {
            return Ok(None);
        };
        read_place(file, entry.offset, inode).map_err(|why| crate::errno::failure_of(&why))
    }

    /// Writes a record and returns its position. `None` if it cannot be written.
    fn append(&self, records: &mut TableFile, mut record: Vec<u8>) -> Option<u64> {
        let body = (record.len() - PREFIX) as u16;
        record[..2].copy_from_slice(&body.to_le_bytes());
        let sum = crc32fast::hash(&record[PREFIX..]);
        record[2..PREFIX].copy_from_slice(&sum.to_le_bytes());
        let len = record.len() as u64;
        let written = self.file(records).and_then(|(file, end)| {
            record.extend_from_slice(&end_at(*end + len));
            file.write_all_at(&record, *end)?;
            *end += len;
            Ok(*end - len)
        });
        match written {
            Ok(offset) => Some(offset),
            Err(error) => {
                records.doubt();
                if !std::mem::replace(&mut records.has_complained, true) {
                    let path = self.path.display();
                    tracing::warn!(
                        %path, %error,
                        "cannot record the places of files: files are found by a search of the volume"
                    );
                }
                None
            }
        }
    }

    /// The file and the position of the next record. A missing file is created.
    fn file<'a>(&self, records: &'a mut TableFile) -> io::Result<(&'a File, &'a mut u64)> {
        if records.file.is_none() {
            let file = new_file(&self.path)?;
            let head = head(&self.boot, records.is_in_doubt);
            file.write_all_at(&[head, end_at(HEAD as u64).to_vec()].concat(), 0)?;
            records.end = HEAD as u64;
            records.file = Some(file);
        }
        let file = records.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok((file, &mut records.end))
    }

    /// Rewrites the file when most of its records are outdated.
    fn rewrite_if_long(&self) {
        let mut records = self.records.write();
        if records.dead < MANY_DEAD || records.dead < records.index.len() as u64 {
            return;
        }
        if let Err(error) = self.rewrite(&mut records) {
            tracing::warn!(path = %self.path.display(), %error, "cannot shorten the table of files");
            // The next attempt follows when it has become longer still.
            records.dead = 0;
        }
    }

    fn rewrite(&self, records: &mut TableFile) -> io::Result<()> {
        let Some(old) = &records.file else { return Ok(()) };
        let new_path = self.path.with_extension("new");
        let new = new_file(&new_path)?;
        let mut bytes = head(&self.boot, records.is_in_doubt);
        let (mut index, mut written) = (BTreeMap::new(), 0);
        for (inode, entry) in &records.index {
            let mut record = [0; LONGEST];
            let len = read_some(old, entry.offset, &mut record)?;
            let body = usize::from(u16::from_le_bytes([record[0], record[1]]));
            let record = record[..len].get(..PREFIX + body).ok_or(io::ErrorKind::UnexpectedEof)?;
            index.insert(*inode, RecordLocation { offset: written + bytes.len() as u64, ..*entry });
            bytes.extend_from_slice(record);
            if bytes.len() >= 1 << 20 {
                new.write_all_at(&bytes, written)?;
                written += bytes.len() as u64;
                bytes.clear();
            }
        }
        let end = written + bytes.len() as u64;
        bytes.extend_from_slice(&end_at(end));
        new.write_all_at(&bytes, written)?;
        // After a loss of power either file is there, and complete.
        store_file(&new)?;
        std::fs::rename(&new_path, &self.path)?;
        (records.file, records.end) = (Some(new), end);
        (records.index, records.dead) = (index, 0);
        Ok(())
    }

    /// Checks up to `at_most` nodes, and starts behind those of the last call. Nodes that the host moved
    /// are found before they are needed, and nodes that it removed are forgotten.
    pub(crate) fn collect(&self, at_most: usize) {
        let from = *self.collected.lock();
        let keys: Vec<NodeKey> = {
            let records = self.records.read();
            let next = records.index.range(from..).take(at_most);
            next.map(|(inode, entry)| NodeKey { inode: *inode, born: entry.born }).collect()
        };
        *self.collected.lock() =
            if keys.len() < at_most { 0 } else { keys.last().map_or(0, |key| key.inode.saturating_add(1)) };
        for key in keys {
            if let Ok(None) = self.at_its_place(key, &|_, _| Ok(())) {
                self.want(key);
            }
        }
        if let Err(error) = self.search_on() {
            tracing::debug!(%error, "the search for files continues later");
        }
        self.rewrite_if_long();
    }
}

impl TableFile {
    /// Reads a file that may be damaged or truncated.
    fn read(path: &Path, file: File, boot: &[u8; BOOT]) -> io::Result<TableFile> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut &file, &mut bytes)?;
        let is_earlier = bytes.starts_with(EARLIER);
        if bytes.len() < HEAD || !bytes.starts_with(MAGIC) && !is_earlier {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a table of this version"));
        }
        let is_same_boot = &bytes[MAGIC.len()..HEAD - 1] == boot;
        let certain = if is_earlier { 0 } else { CERTAIN };
        let mut records = TableFile { is_in_doubt: bytes[HEAD - 1] != certain, ..TableFile::default() };
        let mut at = HEAD;
        while let Some((len, record)) = whole_record(&bytes[at..]) {
            records.take(record, at as u64);
            at += len;
        }
        records.end = at as u64;
        let rest = &bytes[at..];
        let is_whole = if is_earlier { rest.is_empty() } else { rest == end_at(records.end) };
        if !is_whole {
            let (path, bytes) = (path.display(), rest.len());
            tracing::warn!(
                %path, offset = at, bytes,
                "the table of files is damaged: files without a record are found by a search of the volume"
            );
        }
        if !is_whole || is_earlier {
            file.set_len(records.end)?;
            file.write_all_at(&end_at(records.end), records.end)?;
        }
        if !is_same_boot || !is_whole {
            records.is_in_doubt = true;
        }
        if !is_same_boot || !is_whole || is_earlier {
            file.write_all_at(&head(boot, records.is_in_doubt), 0)?;
        }
        records.file = Some(file);
        Ok(records)
    }

    /// The state when the file cannot be used: nothing is known. The file is not overwritten.
    fn unusable(path: &Path, why: &io::Error) -> TableFile {
        tracing::warn!(
            path = %path.display(), error = %why,
            "the table of files cannot be used: files are found by a search of the volume"
        );
        let new_path = path.with_extension("unusable");
        if let Err(error) = std::fs::rename(path, &new_path) {
            tracing::warn!(%error, "the unusable table of files cannot be moved aside");
        }
        TableFile { is_in_doubt: true, ..TableFile::default() }
    }

    /// Adds a record of the file to the index.
    fn take(&mut self, record: &[u8], offset: u64) {
        let mut cursor = Cursor::new(record);
        let (Ok(kind), Ok(inode)) = (cursor.u8(), cursor.array()) else { return };
        let inode = u64::from_le_bytes(inode);
        let had = match (kind, born_of(&mut cursor)) {
            (PUT, Some(born)) => self.index.insert(inode, RecordLocation { born, offset }).is_some(),
            (GONE, _) => {
                self.dead += 1;
                self.index.remove(&inode).is_some()
            }
            _ => true,
        };
        self.dead += u64::from(had);
    }

    fn doubt(&mut self) {
        if !std::mem::replace(&mut self.is_in_doubt, true)
            && let Some(file) = &self.file
        {
            // If this write fails, the next start reads the previous value.
            let _ = file.write_all_at(&[IN_DOUBT], HEAD as u64 - 1);
        }
    }
}

/// The host's boot ID, and whether it is known.
fn boot() -> ([u8; BOOT], bool) {
    let told = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = told.get(..BOOT).and_then(|boot| boot.try_into().ok());
    (boot.unwrap_or([b'?'; BOOT]), boot.is_some())
}

fn head(boot: &[u8; BOOT], is_in_doubt: bool) -> Vec<u8> {
    [MAGIC.as_slice(), boot, &[if is_in_doubt { IN_DOUBT } else { CERTAIN }]].concat()
}

/// The end mark for this offset.
fn end_at(offset: u64) -> [u8; PREFIX] {
    let mut end = [0; PREFIX];
    end[..2].copy_from_slice(&END_MARK.to_le_bytes());
    end[2..].copy_from_slice(&crc32fast::hash(&offset.to_le_bytes()).to_le_bytes());
    end
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The record at the start of `bytes` and its length with the prefix. `None` if it is incomplete.
fn whole_record(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut cursor = Cursor::new(bytes);
    let len = usize::from(u16::from_le_bytes(cursor.array().ok()?));
    let sum = u32::from_le_bytes(cursor.array().ok()?);
    let record = cursor.bytes(len).ok()?;
    (len > 0 && PREFIX + len <= LONGEST && crc32fast::hash(record) == sum).then_some((PREFIX + len, record))
}

fn born_of(cursor: &mut Cursor<'_>) -> Option<Time> {
    let secs = i64::from_le_bytes(cursor.array().ok()?);
    Some(Time { secs, nanos: u32::from_le_bytes(cursor.array().ok()?) })
}

/// Reads up to a whole buffer and returns the number of bytes.
fn read_some(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], offset + len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(len)
}

/// The directory and name in a record. `None` if it is damaged.
fn read_place(file: &File, offset: u64, inode: u64) -> io::Result<Option<NodeLocation>> {
    let mut buffer = [0; LONGEST];
    let len = read_some(file, offset, &mut buffer)?;
    let Some((_, record)) = whole_record(&buffer[..len]) else { return Ok(None) };
    let mut cursor = Cursor::new(record);
    let location = (|| {
        let (kind, own) = (cursor.u8().ok()?, u64::from_le_bytes(cursor.array().ok()?));
        let born = born_of(&mut cursor)?;
        let parent = u64::from_le_bytes(cursor.array().ok()?);
        let name = Name::new(cursor.rest()).ok()?;
        (kind == PUT && own == inode).then_some(NodeLocation { born, parent, name })
    })();
    Ok(location)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(path: &Path) -> NodeTable {
        let root = std::fs::File::open(path).unwrap();
        NodeTable::open(path, root.into(), NodeId { device: 1, inode: 2 })
    }

    fn key(inode: u64) -> NodeKey {
        NodeKey { inode, born: Time { secs: inode as i64 * 7, nanos: 5 } }
    }

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_last_record_of_a_node_counts_also_in_a_new_process() {
        let temp_dir = tempfile::tempdir().unwrap();
        let first = table(temp_dir.path());
        assert!(!temp_dir.path().join("nodes").exists());
        first.put(key(10), 2, &name("a"));
        first.put(key(11), 10, &name(&"b".repeat(255)));
        first.put(key(10), 2, &name("c"));
        first.put(key(12), 2, &name("d"));
        first.gone(key(12));
        for table in [first, table(temp_dir.path())] {
            assert_eq!(table.location(10).unwrap().unwrap().name, name("c"));
            let location = table.location(11).unwrap().unwrap();
            assert_eq!(
                (location.parent, location.born, location.name.as_bytes().len()),
                (10, key(11).born, 255)
            );
            assert!(table.location(12).unwrap().is_none() && !table.knows(key(12)));
            assert!(!table.knows(NodeKey { born: Time::default(), ..key(10) }));
            assert!(!table.records.read().is_in_doubt);
        }
    }

    #[test]
    fn more_nodes_than_are_kept_leave_a_doubt_and_no_more_memory() {
        let temp_dir = tempfile::tempdir().unwrap();
        let first = table(temp_dir.path());
        for inode in 0..MAX_NODES as u64 + 100 {
            first.put(key(inode), 2, &name("a"));
        }
        for inode in 0..MAX_NODES as u64 {
            first.gone(key(inode + 1_000_000));
        }
        for table in [first, table(temp_dir.path())] {
            let records = table.records.read();
            assert!(records.index.len() <= MAX_NODES && records.gone.len() <= MAX_GONE);
            assert!(records.is_in_doubt);
        }
    }

    #[test]
    fn a_file_that_says_the_same_again_and_again_is_written_anew() {
        let temp_dir = tempfile::tempdir().unwrap();
        let first = table(temp_dir.path());
        for round in 0..MANY_DEAD * 3 {
            first.put(key(round % 3), 2, &name(&format!("{round}")));
        }
        let long = std::fs::metadata(temp_dir.path().join("nodes")).unwrap().len();
        first.rewrite_if_long();
        let short = std::fs::metadata(temp_dir.path().join("nodes")).unwrap().len();
        assert!(short < 1000 && long > 1_000_000, "{long} {short}");
        first.put(key(7), 2, &name("after"));
        for table in [first, table(temp_dir.path())] {
            assert_eq!(table.location(2).unwrap().unwrap().name, name(&format!("{}", MANY_DEAD * 3 - 1)));
            assert_eq!(table.location(7).unwrap().unwrap().name, name("after"));
            assert!(!table.records.read().is_in_doubt);
        }
    }

    #[test]
    fn any_damage_is_read_without_harm_and_leaves_a_doubt() {
        let temp_dir = tempfile::tempdir().unwrap();
        let first = table(temp_dir.path());
        for inode in 3..9 {
            first.put(key(inode), 2, &name("some name"));
        }
        drop(first);
        assert!(!table(temp_dir.path()).records.read().is_in_doubt);
        let path = temp_dir.path().join("nodes");
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            for bytes in [&changed[..], &whole[..at]] {
                std::fs::write(&path, bytes).unwrap();
                // A table that was in doubt once stays in doubt.
                for table in [table(temp_dir.path()), table(temp_dir.path())] {
                    // A node that is no longer known is in doubt, and nothing wrong is known.
                    let records = table.records.read();
                    assert!(records.is_in_doubt, "{at}");
                    for inode in records.index.keys() {
                        let entry = records.index[inode];
                        assert_eq!(entry.born, key(*inode).born);
                    }
                }
            }
        }
    }

    #[test]
    fn the_form_before_is_read_and_gets_an_end() {
        let temp_dir = tempfile::tempdir().unwrap();
        let first = table(temp_dir.path());
        first.put(key(10), 2, &name("a"));
        drop(first);
        let path = temp_dir.path().join("nodes");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[..EARLIER.len()].copy_from_slice(EARLIER);
        bytes[HEAD - 1] = 0;
        bytes.truncate(bytes.len() - PREFIX);
        std::fs::write(&path, &bytes).unwrap();
        for _ in 0..2 {
            let table = table(temp_dir.path());
            assert!(table.knows(key(10)) && !table.records.read().is_in_doubt);
            assert!(std::fs::read(&path).unwrap().starts_with(MAGIC));
        }
    }
}
