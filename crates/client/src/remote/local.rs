//! Files of this host, where something may be mounted.
//!
//! A load blocks its own thread, because each of its threads waits for one operation at a time. A tree that
//! is copied ([`Directory::host_tree`](super::Directory::host_tree)) uses the threads of the runtime that may
//! block ([`in_pool`]).

use std::cell::RefCell;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::OFlags;

use super::attributes::{Attributes, Entry};
use super::options::{MountOptions, OpenMode};
use crate::Error;
use crate::error::Result;

/// A directory of this host.
#[derive(Debug, Clone)]
pub(super) struct HostDirectory {
    pub(super) path: PathBuf,
    /// Whether it belongs to a tree that is copied: work uses the pool, permission bits are those of the
    /// options, and no link at the end of a path is followed.
    pub(super) is_tree: bool,
}

/// An open file of this host.
#[derive(Debug)]
pub struct HostFile {
    file: Arc<fs::File>,
    opened: Attributes,
    in_pool: bool,
}

/// The alignment of buffers for direct I/O.
pub const ALIGNMENT: usize = 4096;

thread_local! {
    /// The buffer of the thread's reads.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whether a file could not be opened because its file system does not support direct I/O. Other errors of
/// the host that are called unsupported do not count.
#[must_use]
pub fn refuses_direct(why: &io::Error) -> bool {
    why.kind() == ErrorKind::Unsupported && why.get_ref().is_some()
}

/// Runs `work` on a thread of the runtime that may block.
///
/// # Errors
/// The errors of `work`.
pub async fn in_pool<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Error::local),
        Err(why) => Err(Error::local(io::Error::other(format!("a thread ended early: {why}")))),
    }
}

/// Runs `work` in the pool, or blocks this thread with it.
async fn run<T: Send + 'static>(
    in_the_pool: bool,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    if in_the_pool { in_pool(work).await } else { work().map_err(Error::local) }
}

/// Lists a directory. A name that is gone before it is queried is left out, because a mounted directory may
/// be listed from a cache.
///
/// # Errors
/// The errors of the host.
pub fn list(directory: &Path) -> io::Result<Vec<Entry>> {
    let here = if directory == Path::new("") { Path::new(".") } else { directory };
    let mut listed = Vec::new();
    for entry in fs::read_dir(here)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(known) => {
                let attributes = Attributes::from(&known);
                listed.push(Entry { name: entry.file_name().into_vec(), attributes });
            }
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(why) => return Err(why),
        }
    }
    Ok(listed)
}

impl HostDirectory {
    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.path.clone() } else { self.path.join(path) }
    }

    /// Runs `work` on the path of `path`.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        path: &str,
        work: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let at = self.at(path);
        run(self.is_tree, move || work(at)).await
    }

    /// The directory `path` below this one.
    pub(super) async fn directory(&self, path: &str) -> Result<HostDirectory> {
        let must_be_directory = !path.is_empty();
        let check = move |at: PathBuf| match must_be_directory && !fs::metadata(&at)?.is_dir() {
            true => Err(io::Error::from(ErrorKind::NotADirectory)),
            false => Ok(at),
        };
        Ok(HostDirectory { path: self.run(path, check).await?, is_tree: self.is_tree })
    }

    pub(super) async fn make_directory(&self, path: &str, mode: u32) -> Result<()> {
        let mode = if self.is_tree { mode } else { 0o777 };
        self.run(path, move |at| DirBuilder::new().mode(mode).create(at)).await
    }

    pub(super) async fn stat(&self, path: &str) -> Result<Attributes> {
        let follow = !self.is_tree || path.is_empty();
        let query = move |at: PathBuf| if follow { fs::metadata(at) } else { fs::symlink_metadata(at) };
        self.run(path, move |at| query(at).map(|known| Attributes::from(&known))).await
    }

    pub(super) async fn put(&self, path: &str, mode: OpenMode, content: &Bytes) -> Result<()> {
        let file = self.open(path, mode, MountOptions::default()).await?;
        let content = content.clone();
        file.run(move |file| file.write_all_at(&content, 0)).await
    }

    pub(super) async fn open(&self, path: &str, mode: OpenMode, how: MountOptions) -> Result<HostFile> {
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, how.direct);
        flags.set(OFlags::SYNC, how.sync);
        flags.set(OFlags::NOFOLLOW, self.is_tree);
        let mut options = OpenOptions::new();
        options.custom_flags(flags.bits().cast_signed());
        if self.is_tree {
            options.mode(how.file_mode);
        }
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::Write => options.read(true).write(true),
            OpenMode::Make => options.read(true).write(true).create(true).truncate(false),
            OpenMode::New => options.write(true).create_new(true),
            OpenMode::Anew => options.write(true).create(true).truncate(true),
        };
        let in_pool = self.is_tree;
        let opening = move |at: PathBuf| {
            let file = options.open(at).map_err(|why| match why.kind() {
                ErrorKind::InvalidInput if how.direct => {
                    io::Error::new(ErrorKind::Unsupported, "the file system takes no direct I/O")
                }
                _ => why,
            })?;
            let status = file.metadata()?;
            if !status.is_file() {
                return Err(io::Error::other("it is no ordinary file"));
            }
            Ok(HostFile { file: Arc::new(file), opened: Attributes::from(&status), in_pool })
        };
        self.run(path, opening).await
    }
}

impl HostFile {
    /// The file itself.
    #[must_use]
    pub fn file(&self) -> &Arc<fs::File> {
        &self.file
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(&self.file);
        run(self.in_pool, move || work(&file)).await
    }

    pub(super) fn opened(&self) -> Attributes {
        self.opened
    }

    /// Reads into the buffer of this thread, with one system call.
    pub(super) fn read(&self, offset: u64, length: u32) -> Result<usize> {
        let length = length as usize;
        let read = BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < length + ALIGNMENT {
                buffer.resize(length + ALIGNMENT, 0);
            }
            let at = buffer.as_ptr().align_offset(ALIGNMENT);
            self.file.read_at(&mut buffer[at..at + length], offset)
        });
        read.map_err(Error::local)
    }

    pub(super) async fn read_all(&self, offset: u64, length: u32) -> Result<Bytes> {
        self.run(move |file| read_all(file, offset, length)).await
    }

    pub(super) async fn write(&self, offset: u64, content: &Bytes) -> Result<u32> {
        let content = content.clone();
        let whole = self.in_pool;
        let writing = move |file: &fs::File| match whole {
            true => file.write_all_at(&content, offset).map(|()| content.len()),
            false => file.write_at(&content, offset),
        };
        Ok(self.run(writing).await? as u32)
    }

    pub(super) async fn stat(&self) -> Result<Attributes> {
        self.run(|file| file.metadata().map(|known| Attributes::from(&known))).await
    }

    pub(super) async fn set_length(&self, length: u64) -> Result<()> {
        self.run(move |file| file.set_len(length)).await
    }
}

/// Reads up to `length` bytes at `offset`. There are fewer only at the end of the file.
///
/// # Errors
/// The errors of the host.
pub fn read_all(file: &fs::File, offset: u64, length: u32) -> io::Result<Bytes> {
    let mut content = vec![0; length as usize];
    let mut done = 0;
    while done < content.len() {
        match file.read_at(&mut content[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    content.truncate(done);
    Ok(content.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_leaves_out_what_goes_meanwhile() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = |number: u32| temp_dir.path().join(format!("n{number}"));
        for number in 0..2000 {
            fs::write(path(number), b"five5").unwrap();
        }
        let going = std::thread::spawn({
            let paths: Vec<_> = (0..2000).map(path).collect();
            move || paths.iter().for_each(|path| fs::remove_file(path).unwrap())
        });
        loop {
            let done = going.is_finished();
            let listed = list(temp_dir.path()).unwrap();
            assert!(listed.iter().all(|it| it.attributes.size == 5));
            if done {
                assert!(listed.is_empty());
                break;
            }
        }
        going.join().unwrap();
    }
}
