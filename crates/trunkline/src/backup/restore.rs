//! Restores a backup into a state directory on which no server runs.
//!
//! The archive is checked as a whole before anything is written. Then its files are written beside the old
//! ones and take their names in one step (`state/replacement.rs`). Sidecar data of files follows
//! ([`super::sidecar`]).

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::sidecar::Attaching;
use super::{BackupError, LeftOut, check_owner, create};
use crate::archive::read::{Member, read, whole};
use crate::archive::{ArchiveError, Manifest, SIDECAR, STATE, Summary};
use crate::calendar;
use crate::state::disk::Disk;
use crate::state::listing::is_number;
use crate::state::lock::LockUse;
use crate::state::replacement::{COMMITTED, INCOMING, REPLACED, Replacement, recover};
use crate::state::store::image::{ReturningRights, StoreImage};
use crate::state::version::{CURRENT, VERSION_FILE, VersionFile};
use crate::state::{self, version};

/// The wanted parts of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreMode {
    /// All, into an empty directory.
    IntoEmpty,
    /// All. The files that are there are kept in a folder.
    Replace,
    /// Only sidecar data, for files that came back later.
    SidecarOnly,
}

/// The result of a restore.
#[derive(Debug)]
pub struct RestoredBackup {
    /// The archive.
    pub summary: Summary,
    /// The number of files to which sidecar data was attached.
    pub sidecar_files: u64,
    /// Files with sidecar data that are not there.
    pub left_out: LeftOut,
    /// The folder of the files that were there before.
    pub replaced: Option<String>,
    /// The number of RIDs and of directories' numbers that the old state had given since the backup. None if
    /// there was an old state whose numbers could not be read.
    pub kept_numbers: Option<usize>,
    /// Rights that were taken back since the backup and are valid again.
    pub returning: ReturningRights,
}

/// Restores the archive `path` into the state directory `dir`.
///
/// # Errors
/// [`BackupError`]. The directory is as before, unless the error is about sidecar data.
pub fn restore(path: &Path, dir: &Path, mode: RestoreMode) -> Result<RestoredBackup, BackupError> {
    restore_on(path, dir, mode, &Disk::default())
}

/// Checks that an archive can be restored.
///
/// # Errors
/// [`BackupError`]
pub fn check(path: &Path) -> Result<Summary, BackupError> {
    let summary = create::verify(path)?;
    check_version(path, &summary.manifest)?;
    Ok(summary)
}

fn restore_on(
    path: &Path,
    dir: &Path,
    mode: RestoreMode,
    disk: &Disk,
) -> Result<RestoredBackup, BackupError> {
    let host = |error| BackupError::Host(dir.to_owned(), error);
    check_owner(dir)?;
    let summary = check(path)?;
    if !dir.exists() {
        if mode == RestoreMode::SidecarOnly {
            return Err(BackupError::NoState(dir.to_owned()));
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(host)?;
    }
    // A running server is told first. A directory of other files gets no lock.
    let held = if dir.join("lock").exists() { Some(state::lock(dir, LockUse::Command)?) } else { None };
    check_content(dir, mode)?;
    let _lock = held.map_or_else(|| state::lock(dir, LockUse::Command), Ok)?;
    recover(dir, disk).map_err(host)?;
    check_content(dir, mode)?;
    let mut restored = RestoredBackup {
        summary,
        sidecar_files: 0,
        left_out: LeftOut::default(),
        replaced: None,
        kept_numbers: Some(0),
        returning: ReturningRights::default(),
    };
    if mode != RestoreMode::SidecarOnly {
        let archive = Archive { path, dir };
        let old = OldState::read(dir);
        let directory = match has_state(dir) {
            true => Some(format!("{REPLACED}{}", calendar::now().replace(':', "").replace("+0000", "Z"))),
            false => None,
        };
        (restored.kept_numbers, restored.returning) =
            archive.replace(&old, directory.clone(), &restored.summary, disk)?;
        restored.replaced = directory;
    }
    if restored.summary.sidecar_files > 0 {
        let Attaching { files, left_out, .. } = Archive { path, dir }.attach()?;
        (restored.sidecar_files, restored.left_out) = (files, left_out);
    }
    Ok(restored)
}

fn check_version(path: &Path, manifest: &Manifest) -> Result<(), BackupError> {
    let (path, found, program) = (path.to_owned(), manifest.state_version, manifest.program.clone());
    if found > CURRENT.newest {
        return Err(BackupError::Newer { path, found, program });
    }
    if found < CURRENT.oldest() {
        return Err(BackupError::TooOld { path, found, program });
    }
    Ok(())
}

/// The names in `dir`, without those that a restore never touches: of processes, of unfinished work, and of
/// folders and backups that are kept.
fn entries(dir: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let is_ours = |name: &String| {
        let is_kept = name.starts_with(REPLACED) || name.ends_with(".tar");
        !is_kept && !["lock", "control.sock", INCOMING, COMMITTED, "lost+found"].contains(&&**name)
    };
    names.filter(|name| name.as_ref().map_or(true, is_ours)).collect()
}

fn has_state(dir: &Path) -> bool {
    dir.join(VERSION_FILE).exists()
}

/// Refuses a directory whose files would be lost.
fn check_content(dir: &Path, mode: RestoreMode) -> Result<(), BackupError> {
    let is_begun = state::replacement::is_begun(dir);
    let names = entries(dir).map_err(|error| BackupError::Host(dir.to_owned(), error))?;
    match mode {
        _ if is_begun => Ok(()),
        RestoreMode::SidecarOnly if !has_state(dir) => Err(BackupError::NoState(dir.to_owned())),
        RestoreMode::SidecarOnly => Ok(()),
        _ if names.is_empty() => Ok(()),
        _ if !has_state(dir) => Err(BackupError::Foreign(dir.to_owned())),
        RestoreMode::IntoEmpty => Err(BackupError::NotEmpty(dir.to_owned())),
        RestoreMode::Replace => Ok(()),
    }
}

/// The state that is replaced, as far as it can be read.
struct OldState {
    /// None if it cannot be read, or has another version.
    records: Option<StoreImage>,
    is_there: bool,
}

impl OldState {
    fn read(dir: &Path) -> OldState {
        let found = version::read(dir).ok().flatten().and_then(Result::ok);
        let is_current = found.is_some_and(|VersionFile { version, .. }| version == CURRENT.newest);
        let bytes = fs::read(dir.join("state.redb")).ok().filter(|_| is_current);
        let records = bytes.and_then(|bytes| StoreImage::read(bytes).ok());
        OldState { records, is_there: has_state(dir) }
    }

    /// Its records, if it belongs to the server that made the backup.
    fn of_server(&self, manifest: &Manifest) -> Option<&StoreImage> {
        let is_same = |records: &&StoreImage| {
            records.identity().is_ok_and(|identity| identity.guid_text() == manifest.server_guid)
        };
        self.records.as_ref().filter(is_same)
    }
}

/// An archive that was checked, and the locked directory.
#[derive(Clone, Copy)]
struct Archive<'a> {
    path: &'a Path,
    dir: &'a Path,
}

impl Archive<'_> {
    fn read(
        self,
        take: &mut dyn FnMut(Member<'_>) -> Result<(), ArchiveError>,
    ) -> Result<Summary, BackupError> {
        let host = |e| BackupError::Host(self.path.to_owned(), e);
        let file = BufReader::with_capacity(1 << 16, File::open(self.path).map_err(host)?);
        read(file, take).map_err(|error| match error {
            // These are of the directory.
            ArchiveError::Refused(why) => BackupError::Sidecar(self.dir.to_owned(), why),
            ArchiveError::Host(error) => BackupError::Host(self.dir.to_owned(), error),
            error => BackupError::Archive(self.path.to_owned(), error),
        })
    }

    /// Replaces the state. Returns the number of RIDs and directories' numbers that stay given, and the
    /// rights that come back.
    fn replace(
        self,
        old: &OldState,
        keep_as: Option<String>,
        checked: &Summary,
        disk: &Disk,
    ) -> Result<(Option<usize>, ReturningRights), BackupError> {
        let host = |error| BackupError::Host(self.dir.to_owned(), error);
        let later = old.of_server(&checked.manifest);
        let mut replacement = Replacement::begin(self.dir, disk).map_err(host)?;
        let mut kept = if old.is_there && old.records.is_none() { None } else { Some(0) };
        let mut returning = ReturningRights::default();
        let read = self.read(&mut |member| {
            let Some(name) = member.name.strip_prefix(STATE) else { return Ok(()) };
            if is_reserved(name) {
                return Err(ArchiveError::Damaged(format!("{name:?} is no file of a state directory")));
            }
            if name == "state.redb"
                && let Some(later) = later
            {
                let WithNumbers { database, count, returning: found } = with_numbers_of(later, member.data)?;
                (kept, returning) = (Some(count), found);
                return Ok(replacement.file(name, &mut &*database)?);
            }
            // The server's own numbers of file systems and files go on.
            if later.is_some() && is_beside(name) && self.dir.join(name).exists() {
                return Ok(());
            }
            Ok(replacement.file(name, member.data)?)
        })?;
        if read != *checked {
            return Err(BackupError::Archive(
                self.path.to_owned(),
                ArchiveError::Damaged("it has changed meanwhile".to_owned()),
            ));
        }
        let gone = self.names_that_go(later.is_some()).map_err(host)?;
        replacement.commit(gone, keep_as).map_err(host)?;
        Ok((kept, returning))
    }

    /// The names of the old state. Sidecar data of the same server stays: it belongs to files, which are not
    /// restored.
    fn names_that_go(self, is_same_server: bool) -> io::Result<Vec<String>> {
        let mut names = entries(self.dir)?;
        if is_same_server && names.iter().any(|name| name == "volumes") {
            names.retain(|name| name != "volumes");
            for entry in fs::read_dir(self.dir.join("volumes"))? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    names.push(format!("volumes/{}", entry.file_name().to_string_lossy()));
                }
            }
        }
        Ok(names)
    }

    fn attach(self) -> Result<Attaching, BackupError> {
        let wrong = |why: String| BackupError::Sidecar(self.dir.to_owned(), why);
        let bytes = fs::read(self.dir.join("state.redb")).map_err(|e| wrong(e.to_string()))?;
        let directories = StoreImage::read(bytes).and_then(|records| records.directories());
        let dir = self.dir.to_owned();
        let mut attaching = Attaching::new(dir, directories.map_err(|e| wrong(e.to_string()))?);
        self.read(&mut |mut member| {
            if member.name.starts_with(SIDECAR) { attaching.member(&mut member) } else { Ok(()) }
        })?;
        Ok(attaching)
    }
}

/// A database with the numbers that the server has given since.
struct WithNumbers {
    database: Vec<u8>,
    /// How many there are.
    count: usize,
    /// The rights that come back with it.
    returning: ReturningRights,
}

fn with_numbers_of(later: &StoreImage, data: &mut dyn Read) -> Result<WithNumbers, ArchiveError> {
    let bytes = whole(data)?;
    let wrong = |error: crate::state::store::StoreError| ArchiveError::Damaged(error.to_string());
    let mut records = StoreImage::read(bytes.clone()).map_err(wrong)?;
    let returning = records.returning(later).map_err(wrong)?;
    let count = records.keep_numbers_of(later);
    let database = if count == 0 { bytes } else { records.to_files().map_err(wrong)?.database };
    Ok(WithNumbers { database, count, returning })
}

/// Whether a name is that of a file of a process, or of a restore itself.
fn is_reserved(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    ["lock", "control.sock", INCOMING, COMMITTED].contains(&first) || first.starts_with(REPLACED)
}

/// Whether a name is that of a file in a folder of sidecar data.
fn is_beside(name: &str) -> bool {
    let mut parts = name.split('/');
    parts.next() == Some("volumes") && parts.next().is_some_and(is_number) && parts.next().is_some()
}
