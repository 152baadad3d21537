//! A directory of this host, where something may be mounted. Every call blocks its thread, which has one operation
//! under way.

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use client::Bytes;
use rustix::fs::OFlags;

use super::How;
use crate::Plan;
use crate::channel::Security;

/// A directory.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    directory: PathBuf,
    /// O_DIRECT and O_SYNC, or neither.
    flags: OFlags,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct File {
    file: fs::File,
    size: u64,
}

/// What direct I/O wants the address of a buffer to be a multiple of.
pub(crate) const ALIGNMENT: usize = 4096;

thread_local! {
    /// Where the thread reads to.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn security() -> Security {
    let off = || "off".to_owned();
    Security { protocol: "local".to_owned(), dialect: "files".to_owned(), signing: off(), encryption: off() }
}

impl Share {
    /// Where paths of a plan begin: at the working directory.
    pub(super) fn new(plan: &Plan) -> Share {
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, plan.direct);
        flags.set(OFlags::SYNC, plan.sync);
        Share { directory: PathBuf::new(), flags }
    }

    pub(super) fn directory(&self, path: &str) -> io::Result<Share> {
        let directory = self.directory.join(path);
        if !path.is_empty() && !fs::metadata(&directory)?.is_dir() {
            return Err(io::Error::from(ErrorKind::NotADirectory));
        }
        Ok(Share { directory, flags: self.flags })
    }

    pub(super) fn make_directory(&self, path: &str) -> io::Result<()> {
        match fs::create_dir(self.directory.join(path)) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    pub(super) fn open(&self, name: &str, how: How) -> io::Result<File> {
        self.open_with(name, how, self.flags).map_err(|why| match why.kind() {
            ErrorKind::InvalidInput if self.flags.contains(OFlags::DIRECT) => {
                io::Error::other("the file system takes no direct I/O; leave out --direct or -S")
            }
            _ => why,
        })
    }

    fn open_with(&self, name: &str, how: How, flags: OFlags) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.custom_flags(flags.bits().cast_signed());
        match how {
            How::Read => options.read(true),
            How::Write => options.read(true).write(true),
            How::Make => options.read(true).write(true).create(true).truncate(false),
            How::New => options.write(true).create_new(true),
            How::Anew => options.write(true).create(true).truncate(true),
        };
        let file = options.open(self.directory.join(name))?;
        let status = file.metadata()?;
        if !status.is_file() {
            return Err(io::Error::other("it is no ordinary file"));
        }
        Ok(File { file, size: status.len() })
    }

    pub(super) fn touch(&self, name: &str, how: How) -> io::Result<()> {
        self.open(name, how).map(drop)
    }

    pub(super) fn put(&self, name: &str, how: How, content: &Bytes) -> io::Result<()> {
        self.open_with(name, how, OFlags::empty())?.file.write_all_at(content, 0)
    }

    pub(super) fn delete(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }

    pub(super) fn size_of(&self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.directory.join(name))?.len())
    }

    /// A name that is gone before it is asked for is left out: what is mounted may have listed from its cache.
    pub(super) fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let here = if self.directory == Path::new("") { Path::new(".") } else { &self.directory };
        let mut listed = Vec::new();
        for entry in fs::read_dir(here)? {
            let entry = entry?;
            match entry.metadata() {
                Ok(status) => listed.push((entry.file_name().to_string_lossy().into_owned(), status.len())),
                Err(why) if why.kind() == ErrorKind::NotFound => {}
                Err(why) => return Err(why),
            }
        }
        Ok(listed)
    }
}

impl File {
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

    pub(super) fn write(&self, offset: u64, content: &Bytes) -> io::Result<u32> {
        Ok(self.file.write_at(content, offset)? as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_leaves_out_what_goes_meanwhile() {
        let place = tempfile::tempdir().unwrap();
        let share = Share { directory: place.path().to_owned(), flags: OFlags::empty() };
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
            let listed = share.list().unwrap();
            assert!(listed.iter().all(|(_, size)| *size == 5));
            if done {
                assert!(listed.is_empty());
                break;
            }
        }
        going.join().unwrap();
    }
}
