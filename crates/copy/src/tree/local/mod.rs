//! Files of this host. What may block runs on the runtime's threads for that.

mod beside;
mod links;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use bytes::Bytes;
use client::remote::{Attributes, Entry, MODE, SPECIAL, local};
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, futimens};

use crate::Keep;
use crate::beside::{Beside, Given};
use crate::error::{Done, Fault};
use crate::tree::facts::Fetched;
use crate::tree::like::Like;

/// A directory of this host, or a file while nobody has looked.
#[derive(Debug)]
pub(crate) struct Local {
    root: PathBuf,
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct File(Arc<fs::File>);

/// The permission bits alone.
const PERMISSIONS: u32 = 0o777;

/// Has `work` done where it may block.
async fn away<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Done<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(why) => Err(Fault::Said(format!("a thread of the copy ended early: {why}"))),
    }
}

/// A time of modification as utimensat(2) takes it; the time of access stays.
fn times(modified: i128) -> Timestamps {
    // Every side counts seconds, or less, in 64 bits.
    let tv_sec = modified.div_euclid(1_000_000_000) as i64;
    let last_modification = Timespec { tv_sec, tv_nsec: modified.rem_euclid(1_000_000_000) as _ };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
    Timestamps { last_access, last_modification }
}

/// Opens without following a link in the last place.
fn no_link(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
}

fn settle(file: &fs::File, like: &Like) -> io::Result<()> {
    let mode = match like.mode {
        // acl(5): what the permission bits are now is what the list says.
        Some(mode) if like.has_list && mode & SPECIAL != 0 => {
            Some(file.metadata()?.mode() & PERMISSIONS | mode & SPECIAL)
        }
        Some(_) if like.has_list => None,
        mode => mode,
    };
    if let Some(mode) = mode {
        file.set_permissions(fs::Permissions::from_mode(mode & MODE))?;
    }
    if let Some(modified) = like.modified {
        futimens(file, &times(modified))?;
    }
    Ok(())
}

/// Permission bits of what is made, of which the process's umask takes its part.
const FILE: u32 = 0o666;
const DIRECTORY: u32 = 0o777;

/// Opens `path` to be written, as it is or empty.
fn create(path: &Path, as_it_is: bool, like: &Like) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(!as_it_is).mode(like.first_mode(FILE));
    no_link(&mut options).open(path)
}

impl Local {
    pub(super) fn new(root: &Path) -> Local {
        Local { root: root.to_owned() }
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    pub(super) fn step_up(&mut self) -> Option<String> {
        let name = crate::name::last_part(&self.root)?;
        self.root = match self.root.parent() {
            Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
            Some(above) => above.to_owned(),
            None => return None,
        };
        Some(name)
    }

    pub(super) async fn stat(&self, path: &str) -> Done<Attributes> {
        let (at, is_root) = (self.path(path), path.is_empty());
        // Where the copy begins a link is followed: the caller has named it.
        away(move || {
            let known = if is_root { fs::metadata(at) } else { fs::symlink_metadata(at) };
            known.map(|known| Attributes::from(&known))
        })
        .await
    }

    pub(super) async fn list(&self, path: &str) -> Done<Vec<Entry>> {
        let at = self.path(path);
        away(move || local::list(&at)).await
    }

    pub(super) async fn make_directory(&self, path: &str, like: &Like) -> Done<()> {
        let (at, mode) = (self.path(path), like.first_mode(DIRECTORY));
        away(move || fs::DirBuilder::new().mode(mode).create(at)).await
    }

    pub(super) async fn make_root(&self) -> Done<()> {
        let at = self.root.clone();
        away(move || fs::create_dir_all(at)).await
    }

    pub(super) async fn settle_directory(&self, path: &str, like: &Like) -> Done<()> {
        let (at, like) = (self.path(path), *like);
        away(move || settle(&fs::File::open(at)?, &like)).await
    }

    pub(super) async fn remove(&self, path: &str) -> Done<()> {
        let at = self.path(path);
        away(move || fs::remove_file(at)).await
    }

    pub(super) async fn remove_directory(&self, path: &str) -> Done<()> {
        let at = self.path(path);
        away(move || fs::remove_dir(at)).await
    }

    pub(super) async fn fetch(&self, path: &str, length: u32) -> Done<Fetched> {
        let at = self.path(path);
        away(move || {
            let file = no_link(OpenOptions::new().read(true)).open(at)?;
            let content = read(&file, 0, length)?;
            Ok(Fetched { content, facts: Attributes::from(&file.metadata()?), has_streams: false })
        })
        .await
    }

    pub(super) async fn put(&self, path: &str, part: &str, content: &Bytes, like: &Like) -> Done<()> {
        let (at, part, content, like) = (self.path(path), self.path(part), content.clone(), *like);
        away(move || {
            let made = (|| {
                let mut file = create(&part, false, &like)?;
                file.write_all(&content)?;
                settle(&file, &like)?;
                fs::rename(&part, at)
            })();
            if made.is_err() {
                // There may be none to remove; what counts is why it was not made.
                let _ = fs::remove_file(&part);
            }
            made
        })
        .await
    }

    pub(super) async fn open_file(&self, path: &str) -> Done<File> {
        let at = self.path(path);
        away(move || no_link(OpenOptions::new().read(true)).open(at).map(|file| File(Arc::new(file)))).await
    }

    pub(super) async fn create(&self, part: &str, as_it_is: bool, like: &Like) -> Done<File> {
        let (at, like) = (self.path(part), *like);
        away(move || create(&at, as_it_is, &like).map(|file| File(Arc::new(file)))).await
    }

    pub(super) async fn finish(&self, file: File, part: &str, path: &str, like: &Like) -> Done<()> {
        let (at, part, like) = (self.path(path), self.path(part), *like);
        away(move || {
            settle(&file.0, &like)?;
            fs::rename(part, at)
        })
        .await
    }

    pub(super) async fn beside(&self, path: &str, keep: &Keep) -> Done<Beside> {
        let (at, keep) = (self.path(path), *keep);
        away(move || beside::read(&fs::File::open(at)?, &keep)).await
    }

    pub(super) async fn set_beside(&self, path: &str, found: &Beside, keep: &Keep) -> Done<Given> {
        let (at, found, keep) = (self.path(path), found.clone(), *keep);
        away(move || beside::write(&fs::File::open(at)?, &found, &keep)).await
    }

    pub(super) fn max_io(&self) -> u32 {
        u32::MAX
    }
}

/// Up to `length` bytes at `offset`.
fn read(file: &fs::File, offset: u64, length: u32) -> io::Result<Bytes> {
    let mut content = vec![0; length as usize];
    let mut done = 0;
    while done < content.len() {
        match file.read_at(&mut content[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    content.truncate(done);
    Ok(content.into())
}

impl File {
    pub(super) async fn read(&self, offset: u64, length: u32) -> Done<Bytes> {
        let file = Arc::clone(&self.0);
        away(move || read(&file, offset, length)).await
    }

    pub(super) async fn write(&self, offset: u64, data: &Bytes) -> Done<u32> {
        let (file, data) = (Arc::clone(&self.0), data.clone());
        away(move || file.write_all_at(&data, offset).map(|()| data.len() as u32)).await
    }

    pub(super) async fn data_from(&self, offset: u64) -> Done<u64> {
        let file = Arc::clone(&self.0);
        away(move || match rustix::fs::seek(file.as_fd(), rustix::fs::SeekFrom::Data(offset)) {
            Ok(at) => Ok(at),
            // Nothing but a hole to the end.
            Err(rustix::io::Errno::NXIO) => Ok(u64::MAX),
            Err(_) => Ok(offset),
        })
        .await
    }

    pub(super) async fn beside(&self, keep: &Keep) -> Done<Beside> {
        let (file, keep) = (Arc::clone(&self.0), *keep);
        away(move || beside::read(&file, &keep)).await
    }

    pub(super) async fn set_beside(&self, found: &Beside, keep: &Keep) -> Done<Given> {
        let (file, found, keep) = (Arc::clone(&self.0), found.clone(), *keep);
        away(move || beside::write(&file, &found, &keep)).await
    }

    pub(super) async fn facts(&self) -> Done<Attributes> {
        let file = Arc::clone(&self.0);
        away(move || file.metadata().map(|known| Attributes::from(&known))).await
    }

    pub(super) async fn set_length(&self, length: u64) -> Done<()> {
        let file = Arc::clone(&self.0);
        away(move || file.set_len(length)).await
    }

    pub(super) async fn sync(&self) -> Done<()> {
        let file = Arc::clone(&self.0);
        away(move || file.sync_all()).await
    }
}
