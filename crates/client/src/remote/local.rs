//! Directories of this host, where something may be mounted. Every call blocks its thread.

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::attributes::{Attributes, Entry};
use super::options::OpenMode;

/// An open file.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    size: u64,
}

/// What direct I/O wants the address of a buffer to be a multiple of.
pub const ALIGNMENT: usize = 4096;

thread_local! {
    /// Where the thread reads to.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whether a file could not be opened since its file system takes no direct I/O. What the host itself calls unsupported is
/// something else.
#[must_use]
pub fn refuses_direct(why: &io::Error) -> bool {
    why.kind() == ErrorKind::Unsupported && why.get_ref().is_some()
}

/// The directory `path` in `base`, if it is one.
pub(super) fn directory(base: &Path, path: &str) -> io::Result<PathBuf> {
    let directory = base.join(path);
    if !path.is_empty() && !fs::metadata(&directory)?.is_dir() {
        return Err(io::Error::from(ErrorKind::NotADirectory));
    }
    Ok(directory)
}

/// Makes a file of `content`.
pub(super) fn put(path: &Path, mode: OpenMode, content: &[u8]) -> io::Result<()> {
    File::open(path, mode, false, false)?.file.write_all_at(content, 0)
}

/// What is in a directory. A name that is gone before it is asked for is left out: what is mounted may have listed from its cache.
///
/// # Errors
/// As the host says.
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

impl File {
    pub(super) fn open(path: &Path, mode: OpenMode, direct: bool, sync: bool) -> io::Result<File> {
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, direct);
        flags.set(OFlags::SYNC, sync);
        let mut options = OpenOptions::new();
        options.custom_flags(flags.bits().cast_signed());
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::Write => options.read(true).write(true),
            OpenMode::Make => options.read(true).write(true).create(true).truncate(false),
            OpenMode::New => options.write(true).create_new(true),
            OpenMode::Anew => options.write(true).create(true).truncate(true),
        };
        let file = options.open(path).map_err(|why| match why.kind() {
            ErrorKind::InvalidInput if direct => {
                io::Error::new(ErrorKind::Unsupported, "the file system takes no direct I/O")
            }
            _ => why,
        })?;
        let status = file.metadata()?;
        if !status.is_file() {
            return Err(io::Error::other("it is no ordinary file"));
        }
        Ok(File { file, size: status.len() })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn read(&self, offset: u64, length: u32) -> io::Result<usize> {
        let length = length as usize;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < length + ALIGNMENT {
                buffer.resize(length + ALIGNMENT, 0);
            }
            let at = buffer.as_ptr().align_offset(ALIGNMENT);
            self.file.read_at(&mut buffer[at..at + length], offset)
        })
    }

    pub(super) fn write(&self, offset: u64, content: &[u8]) -> io::Result<u32> {
        Ok(self.file.write_at(content, offset)? as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_leaves_out_what_goes_meanwhile() {
        let place = tempfile::tempdir().unwrap();
        let path = |number: u32| place.path().join(format!("n{number}"));
        for number in 0..2000 {
            fs::write(path(number), b"five5").unwrap();
        }
        let going = std::thread::spawn({
            let paths: Vec<_> = (0..2000).map(path).collect();
            move || paths.iter().for_each(|path| fs::remove_file(path).unwrap())
        });
        loop {
            let done = going.is_finished();
            let listed = list(place.path()).unwrap();
            assert!(listed.iter().all(|it| it.attributes.size == 5));
            if done {
                assert!(listed.is_empty());
                break;
            }
        }
        going.join().unwrap();
    }
}
