//! The sidecar data of the shares' files in a backup, by the paths of the files.
//!
//! The server finds sidecar data by the inode number and the birth time of its file. A file that comes back
//! from a file backup has others. So a backup has the path of each such file, and a restore attaches the
//! data to the file that is there now. It adds what the file lacks, and changes nothing that it has: files
//! may not have been restored at all, and their streams may be newer than the backup. A restore can be
//! repeated.
//!
//! The tree of a served directory is walked once, and only if it has files with sidecar data. Memory is
//! needed for the names of directories that are still to be walked, and for one part of a stream.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use volume::{Failure, Name, Node, NodeKind, Note, OpenHow, Patience, Volume};
use volume_posix::PosixVolume;

use super::{BackupError, LeftOut};
use crate::archive::read::{Member, whole};
use crate::archive::write::ArchiveWriter;
use crate::archive::{ArchiveError, SIDECAR};

/// The notes that belong to a file, by their names in an archive.
const NOTES: [(&str, Note); 4] = [
    ("attributes", Note::Attributes),
    ("descriptor", Note::Descriptor),
    ("object-id", Note::ObjectId),
    ("reparse", Note::Reparse),
];
/// The name of a stream that is not complete yet.
const UNFINISHED: &[u8] = b".trunkline-restore";
/// The number of bytes that are copied at a time.
const CHUNK: usize = 1 << 18;

/// A file with sidecar data, in an archive.
#[derive(Debug, Serialize, Deserialize)]
struct SidecarFile {
    /// The served directory and the path below it, for people.
    shown: String,
    /// The served directory, in base64.
    directory: String,
    /// The path below it, in base64. It is empty for the directory itself.
    path: String,
    /// Names and values in base64.
    notes: Vec<(String, String)>,
    /// Names in base64, and sizes.
    streams: Vec<(String, u64)>,
}

/// The served directory at `number` has files with sidecar data.
fn has_folders(dir: &Path, number: u32) -> bool {
    let entries = std::fs::read_dir(store_of(dir, number)).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().is_dir())
}

fn store_of(dir: &Path, number: u32) -> PathBuf {
    dir.join("volumes").join(number.to_string())
}

fn directory_of(key: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(key))
}

/// The sidecar data that is added to an archive.
pub struct Added<'a, W: Write> {
    pub writer: &'a mut ArchiveWriter<W>,
    /// The number of files.
    pub files: u64,
    pub left_out: &'a mut LeftOut,
}

impl<W: Write> Added<'_, W> {
    /// Adds the sidecar data of these served directories of the state directory `dir`.
    ///
    /// # Errors
    /// [`BackupError`]
    pub fn all(&mut self, dir: &Path, directories: &[(Vec<u8>, u32)]) -> Result<(), BackupError> {
        for (key, number) in directories {
            let directory = directory_of(key);
            if !directory.is_absolute() || !has_folders(dir, *number) {
                continue;
            }
            match PosixVolume::open_beside(directory, &store_of(dir, *number)) {
                Ok(volume) => self.volume(directory, &volume)?,
                Err(why) => self.left_out.add(format!("all files of {}: {why}", directory.display())),
            }
        }
        Ok(())
    }

    fn volume(&mut self, directory: &Path, volume: &PosixVolume) -> Result<(), BackupError> {
        let wrong = |why: Failure| BackupError::Sidecar(directory.to_owned(), why.to_string());
        let root = volume.root().map_err(wrong)?;
        let mut left = volume.sidecar_count();
        let mut linked = HashSet::new();
        if volume.has_sidecar(&*root) {
            self.file(directory, b"", &*root)?;
            left -= 1;
        }
        let mut todo = vec![Vec::new()];
        while let Some(path) = todo.pop().filter(|_| left > 0) {
            let parent = match found(&root, &path) {
                Ok(parent) => parent,
                // It was renamed or removed meanwhile.
                Err(_) => continue,
            };
            let mut failed = None;
            let listed = parent.entries(0, &mut |entry| {
                let Ok(node) = parent.lookup(&entry.name, OpenHow::Read) else {
                    return ControlFlow::Continue(());
                };
                let below = joined(&path, entry.name.as_bytes());
                // A file with two names is found twice.
                if volume.has_sidecar(&*node) && linked.insert(node.id()) {
                    left = left.saturating_sub(1);
                    if let Err(error) = self.file(directory, &below, &*node) {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                if node.kind() == NodeKind::Directory {
                    todo.push(below);
                }
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            if let Err(why) = listed {
                self.left_out.add(format!("files in {}: {why}", shown(directory, &path)));
            }
        }
        Ok(())
    }

    /// Adds one file. A stream that is gone meanwhile has zeros, and the file counts as left out.
    fn file(&mut self, directory: &Path, path: &[u8], node: &dyn Node) -> Result<(), BackupError> {
        let shown = shown(directory, path);
        let read = (|| {
            let mut notes = Vec::new();
            for (name, note) in NOTES {
                if let Some(value) = node.note(note)? {
                    notes.push((name.to_owned(), BASE64.encode(value)));
                }
            }
            Ok::<_, Failure>((notes, node.streams()?))
        })();
        let (notes, streams) = match read {
            Ok(read) => read,
            Err(why) => {
                self.left_out.add(format!("{shown}: {why}"));
                return Ok(());
            }
        };
        self.files += 1;
        let wrong = |error| BackupError::Sidecar(PathBuf::from(&shown), format!("{error}"));
        let file = SidecarFile {
            shown: shown.clone(),
            directory: BASE64.encode(directory.as_os_str().as_bytes()),
            path: BASE64.encode(path),
            notes,
            streams: streams.iter().map(|it| (BASE64.encode(it.name.as_bytes()), it.size)).collect(),
        };
        let folder = format!("{SIDECAR}{}", self.files);
        let text = serde_json::to_vec(&file).map_err(|e| wrong(io::Error::other(e)))?;
        self.writer.small(&format!("{folder}/file.json"), &text).map_err(wrong)?;
        for (number, stream) in streams.iter().enumerate() {
            let node = node.open_stream(&stream.name, false, false);
            let mut data = StreamReader { node: node.ok(), at: 0, chunk: Vec::new(), taken: 0 };
            let name = format!("{folder}/stream-{number}");
            if !self.writer.member(&name, stream.size, &mut data).map_err(wrong)? {
                self.left_out.add(format!("{shown}: a stream has changed meanwhile"));
            }
        }
        Ok(())
    }
}

/// The data of a stream.
struct StreamReader {
    node: Option<Arc<dyn Node>>,
    at: u64,
    chunk: Vec<u8>,
    taken: usize,
}

impl Read for StreamReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.chunk.len() {
            self.chunk.clear();
            self.taken = 0;
            let Some(node) = &self.node else { return Ok(0) };
            let read = node.read(self.at, CHUNK, &mut self.chunk, Patience::Block);
            self.at += read.map_err(io::Error::other)? as u64;
        }
        let rest = &self.chunk[self.taken..];
        let read = rest.len().min(out.len());
        out[..read].copy_from_slice(&rest[..read]);
        self.taken += read;
        Ok(read)
    }
}

/// Attaches the sidecar data of an archive to the files that are at its paths now.
pub struct Attaching {
    dir: PathBuf,
    /// The numbers of the served directories.
    directories: Vec<(Vec<u8>, u32)>,
    volume: Option<(Vec<u8>, Arc<PosixVolume>)>,
    current: Option<(SidecarFile, Arc<dyn Node>)>,
    /// The number of files that were found.
    pub files: u64,
    /// Files that are not there.
    pub left_out: LeftOut,
}

impl Attaching {
    /// Attaches to the files of these served directories of the locked state directory `dir`.
    pub fn new(dir: PathBuf, directories: Vec<(Vec<u8>, u32)>) -> Attaching {
        Attaching { dir, directories, volume: None, current: None, files: 0, left_out: LeftOut::default() }
    }

    /// Takes the next member of sidecar data.
    ///
    /// # Errors
    /// [`ArchiveError`]
    pub fn member(&mut self, member: &mut Member<'_>) -> Result<(), ArchiveError> {
        let damaged = || ArchiveError::Damaged(format!("{:?}", member.name));
        if member.name.ends_with("/file.json") {
            let text = whole(member.data)?;
            let mut file: SidecarFile = serde_json::from_slice(&text).map_err(|_| damaged())?;
            self.current = None;
            // It goes to a terminal, and the archive may be anybody's.
            file.shown = file.shown.escape_debug().to_string();
            let shown = file.shown.clone();
            match self.begin(file) {
                Ok(()) => self.files += 1,
                Err(why) => self.left_out.add(format!("{shown}: {why}")),
            }
            return Ok(());
        }
        let Some((file, node)) = &self.current else { return Ok(()) };
        let number = member.name.rsplit_once("/stream-").and_then(|(_, number)| number.parse().ok());
        let (name, size) = number.and_then(|at: usize| file.streams.get(at)).ok_or_else(damaged)?;
        let name = name_of(name).filter(|_| *size == member.size).ok_or_else(damaged)?;
        let refused = |why: Failure| ArchiveError::Refused(format!("{}: {why}", file.shown));
        match node.open_stream(&name, false, false) {
            Ok(_) => Ok(()),
            Err(Failure::NotFound) => add_stream(&**node, &name, member, refused),
            Err(why) => Err(refused(why)),
        }
    }

    /// Finds the file, and gives it the notes that it lacks.
    fn begin(&mut self, file: SidecarFile) -> Result<(), String> {
        let decoded = |text: &str| BASE64.decode(text).map_err(|_| "it cannot be read".to_owned());
        let volume = self.volume_of(&decoded(&file.directory)?)?;
        let root = volume.root().map_err(|why| why.to_string())?;
        let node = found(&root, &decoded(&file.path)?).map_err(|why| match why {
            Failure::NotFound => "there is no such file".to_owned(),
            why => why.to_string(),
        })?;
        for (name, value) in &file.notes {
            let Some((_, note)) = NOTES.iter().find(|(known, _)| known == name) else { continue };
            if node.note(*note).map_err(|why| why.to_string())?.is_none() {
                node.set_note(*note, Some(&decoded(value)?)).map_err(|why| why.to_string())?;
            }
        }
        self.current = Some((file, node));
        Ok(())
    }

    fn volume_of(&mut self, directory: &[u8]) -> Result<Arc<PosixVolume>, String> {
        if let Some((_, volume)) = self.volume.as_ref().filter(|(open, _)| open == directory) {
            return Ok(Arc::clone(volume));
        }
        let known = self.directories.iter().find(|(key, _)| key == directory);
        let (_, number) = known.ok_or("its directory was never served")?;
        let volume = PosixVolume::open(directory_of(directory), &store_of(&self.dir, *number));
        let volume = Arc::new(volume.map_err(|why| why.to_string())?);
        self.volume = Some((directory.to_owned(), Arc::clone(&volume)));
        Ok(volume)
    }
}

/// Writes a stream under another name, which it loses when it is complete.
fn add_stream(
    node: &dyn Node,
    name: &Name,
    member: &mut Member<'_>,
    refused: impl Fn(Failure) -> ArchiveError,
) -> Result<(), ArchiveError> {
    let unfinished = Name::new(UNFINISHED).map_err(|_| refused(Failure::Invalid))?;
    let stream = node.open_stream(&unfinished, true, false).map_err(&refused)?;
    stream.set_size(0).map_err(&refused)?;
    let (mut chunk, mut at) = (vec![0; CHUNK], 0);
    loop {
        let read = member.data.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        stream.write(at, &chunk[..read]).map_err(&refused)?;
        at += read as u64;
    }
    stream.sync(false).and_then(|()| node.rename_stream(&unfinished, name, false)).map_err(refused)
}

fn name_of(text: &str) -> Option<Name> {
    Name::new(&BASE64.decode(text).ok()?).ok()
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_owned() } else { [path, b"/", name].concat() }
}

fn shown(directory: &Path, path: &[u8]) -> String {
    directory.join(OsStr::from_bytes(path)).display().to_string()
}

/// The node at a path. Each part of it is a name in the directory before, and no link is followed.
fn found(root: &Arc<dyn Node>, path: &[u8]) -> volume::Result<Arc<dyn Node>> {
    let mut node = Arc::clone(root);
    for part in path.split(|byte| *byte == b'/').filter(|_| !path.is_empty()) {
        let name = Name::new(part).map_err(|_| Failure::NotFound)?;
        node = node.lookup(&name, OpenHow::Read)?;
    }
    Ok(node)
}
