//! Makes a backup. A running server sends its state; without one the state is read under its lock. The
//! command checks what comes, adds the sidecar data, and writes the file completely or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use admin::{ArchiveOutput, ClientError, ControlClient};

use super::sidecar;
use super::{BackupError, LeftOut, check_owner};
use crate::archive::read::{Member, read, whole};
use crate::archive::write::ArchiveWriter;
use crate::archive::{ArchiveError, FORMAT, Manifest, STATE, Summary};
use crate::calendar;
use crate::state::StateDir;
use crate::state::snapshot::{Snapshot, SnapshotError};
use crate::state::store::image::StoreImage;
use crate::state::version::{CURRENT, PROGRAM, VersionFile};

/// The result of a backup.
#[derive(Debug)]
pub struct CreatedBackup {
    /// The archive.
    pub summary: Summary,
    /// Files whose sidecar data is not in it.
    pub left_out: LeftOut,
}

/// The archive of a state directory at one moment, without sidecar data.
pub fn archive(snapshot: Snapshot) -> Result<ArchiveOutput, SnapshotError> {
    let manifest = Manifest {
        format: FORMAT,
        state_version: CURRENT.newest,
        program: PROGRAM.to_owned(),
        server_guid: snapshot.records().identity()?.guid_text(),
        time: calendar::now(),
    };
    Ok(Box::new(move |out| write_state(&manifest, snapshot, out)))
}

fn write_state(manifest: &Manifest, snapshot: Snapshot, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = ArchiveWriter::new(BufWriter::new(out), manifest)?;
    snapshot.read::<ReadError>(&mut |mut file| {
        writer.member(&format!("{STATE}{}", file.name), file.size, &mut file.data)?;
        Ok(())
    })?;
    writer.finish().map(drop)
}

/// An error of the host or of the snapshot.
struct ReadError(io::Error);

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError(error)
    }
}

impl From<SnapshotError> for ReadError {
    fn from(error: SnapshotError) -> ReadError {
        ReadError(io::Error::other(error.to_string()))
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> io::Error {
        error.0
    }
}

/// Writes a backup of the state directory `dir` to the file `to`, or to standard output for `-`.
///
/// # Errors
/// [`BackupError`]. The file is as it was then.
pub fn create(dir: &Path, to: &Path, with_sidecar: bool) -> Result<CreatedBackup, BackupError> {
    check_owner(dir)?;
    if to == Path::new("-") {
        if leads_nowhere(&io::stdout()) {
            return Err(BackupError::Nowhere);
        }
        // proc_pid_fd(5): the path of the file behind it. A pipe has none.
        if let Ok(file) = fs::read_link("/proc/self/fd/1")
            && file.is_absolute()
            && lies_in(parent_of(&file), dir)
        {
            return Err(BackupError::Inside { file, dir: dir.to_owned() });
        }
        return write(dir, &mut io::stdout().lock(), to, with_sidecar);
    }
    let host = |path: &Path| {
        let path = path.to_owned();
        move |error| BackupError::Host(path, error)
    };
    if fs::metadata(to).is_ok_and(|there| !there.is_file()) {
        return Err(host(to)(io::Error::other("it is no regular file; give `-` for a pipe")));
    }
    if lies_in(parent_of(to), dir) {
        return Err(BackupError::Inside { file: to.to_owned(), dir: dir.to_owned() });
    }
    remove_abandoned(to);
    let partial = partial_of(to, std::process::id());
    // One of an earlier process with this number. Nobody else's file or link is written to.
    let _ = fs::remove_file(&partial);
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&partial).map_err(host(to))?;
    let written = write(dir, &mut file, to, with_sidecar).and_then(|created| {
        volume_posix::store_file(&file).and_then(|()| fs::rename(&partial, to)).map_err(host(to))?;
        let parent = parent_of(to);
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(host(parent))?;
        Ok(created)
    });
    if written.is_err() {
        // It may be impossible on a disk that fails.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// The directory of a file.
fn parent_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a directory is the state directory or lies in it, by whatever path each is given. One that does
/// not exist lies nowhere.
fn lies_in(directory: &Path, state: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    real(directory).zip(real(state)).is_some_and(|(directory, state)| directory.starts_with(state))
}

/// The file to which the process `pid` writes until the backup `to` is complete.
fn partial_of(to: &Path, pid: u32) -> PathBuf {
    let mut partial = to.to_owned().into_os_string();
    partial.push(format!(".{pid}.partial"));
    PathBuf::from(partial)
}

/// The age from which the file of a process that is not there counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Removes what backups to `to` have left that were killed.
fn remove_abandoned(to: &Path) {
    let Some(name) = to.file_name().and_then(|name| name.to_str()) else { return };
    for entry in fs::read_dir(parent_of(to)).into_iter().flatten().flatten() {
        let beside = entry.file_name();
        let rest = beside.to_str().and_then(|beside| beside.strip_prefix(name)?.strip_prefix('.'));
        let pid = rest.and_then(|rest| rest.strip_suffix(".partial")?.parse::<u32>().ok());
        // A process of another container is not seen here, but writes on.
        let age = || entry.metadata().and_then(|found| found.modified()).ok()?.elapsed().ok();
        let is_gone = |pid: &u32| !Path::new("/proc").join(pid.to_string()).exists();
        if let Some(pid) = pid.filter(is_gone)
            && age().is_some_and(|age| age >= ABANDONED)
        {
            let _ = fs::remove_file(partial_of(to, pid));
        }
    }
}

/// Whether what is written to a file is lost: it is /dev/null, which the runtime also opens in place of a
/// standard output that is closed.
fn leads_nowhere(file: &impl std::os::fd::AsFd) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(about) = rustix::fs::fstat(file) else { return true };
    fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == about.st_rdev && about.st_rdev != 0)
}

fn write(
    dir: &Path,
    out: &mut dyn Write,
    to: &Path,
    with_sidecar: bool,
) -> Result<CreatedBackup, BackupError> {
    let new = NewBackup { dir, to, with_sidecar };
    match ControlClient::connect(dir) {
        Ok(client) => {
            let sent = client.backup().map_err(|e| BackupError::Server(dir.to_owned(), e))?;
            new.rewrite(sent, out)
        }
        Err(ClientError::NotRunning) => {
            // It stays locked until the backup is complete.
            let state = StateDir::open_existing(dir)?.ok_or_else(|| BackupError::NoState(dir.to_owned()))?;
            let archive = archive(state.snapshot_alone()?)?;
            let (sent, mut sender) = io::pipe().map_err(|e| BackupError::Host(dir.to_owned(), e))?;
            std::thread::scope(|scope| {
                // If it fails, the archive is cut, and the reader reports that.
                scope.spawn(move || archive(&mut sender));
                new.rewrite(sent, out)
            })
        }
        Err(error) => Err(BackupError::Server(dir.to_owned(), error)),
    }
}

/// A backup that is being written.
#[derive(Clone, Copy)]
struct NewBackup<'a> {
    dir: &'a Path,
    to: &'a Path,
    with_sidecar: bool,
}

impl NewBackup<'_> {
    /// Checks the archive `sent`, and writes it to `out` with sidecar data.
    fn rewrite(self, sent: impl Read, out: &mut dyn Write) -> Result<CreatedBackup, BackupError> {
        let NewBackup { dir, to, with_sidecar } = self;
        let unwritten = |error: io::Error| BackupError::Host(to.to_owned(), error);
        let mut out = Some(BufWriter::with_capacity(1 << 16, out));
        let mut writer = None;
        let mut database = Vec::new();
        let mut copy = |member: Member<'_>| -> io::Result<()> {
            if let Some(out) = out.take() {
                writer = Some(ArchiveWriter::new(out, member.manifest)?);
            }
            let Some(writer) = &mut writer else { return Ok(()) };
            if member.name == "state/state.redb" {
                database = whole(member.data)?;
                return writer.small(member.name, &database);
            }
            writer.member(member.name, member.size, member.data).map(drop)
        };
        let mut summary = read(sent, &mut |member| Ok(copy(member)?)).map_err(|error| match error {
            ArchiveError::Host(error) => unwritten(error),
            error => BackupError::Interrupted(dir.to_owned(), error),
        })?;
        let mut writer = writer.ok_or_else(|| BackupError::Lacks(to.to_owned(), "state.redb"))?;
        let mut left_out = LeftOut::default();
        if with_sidecar {
            let records = StoreImage::read(database).map_err(SnapshotError::from)?;
            let directories = records.directories().map_err(SnapshotError::from)?;
            let mut added = sidecar::Added { writer: &mut writer, files: 0, left_out: &mut left_out };
            added.all(dir, &directories)?;
            summary.sidecar_files = added.files;
        }
        summary.bytes = writer.bytes();
        let (_, sha256) = writer.finish().map_err(unwritten)?;
        Ok(CreatedBackup { summary: Summary { sha256, ..summary }, left_out })
    }
}

/// Checks a backup without restoring it.
///
/// # Errors
/// [`BackupError`]
pub fn verify(path: &Path) -> Result<Summary, BackupError> {
    let file = File::open(path).map_err(|e| BackupError::Host(path.to_owned(), e))?;
    let (mut database, mut version) = (None, None);
    let summary = read(io::BufReader::with_capacity(1 << 16, file), &mut |member| {
        match member.name {
            "state/state.redb" => database = Some(whole(member.data)?),
            "state/version" => version = Some(whole(member.data)?),
            _ => {}
        }
        Ok(())
    });
    let summary = summary.map_err(|e| BackupError::Archive(path.to_owned(), e))?;
    let version = version.ok_or_else(|| BackupError::Lacks(path.to_owned(), "version"))?;
    let said = summary.manifest.state_version;
    if VersionFile::parse(&version).map(|file| file.version) != Ok(said) {
        return Err(BackupError::Archive(path.to_owned(), ArchiveError::OtherVersion(said)));
    }
    let database = database.ok_or_else(|| BackupError::Lacks(path.to_owned(), "state.redb"))?;
    if summary.manifest.state_version == CURRENT.newest {
        StoreImage::read(database).map_err(SnapshotError::from)?;
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_backup_is_written_into_the_state_that_it_saves() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        drop(StateDir::open(&state).unwrap());
        fs::create_dir(state.join("below")).unwrap();
        fs::create_dir(dir.path().join("beside")).unwrap();
        std::os::unix::fs::symlink(&state, dir.path().join("link")).unwrap();
        for target in ["state/b.tar", "state/b", "state/below/b", "beside/../state/b", "link/b"] {
            for given in [&state, &dir.path().join("link")] {
                let refused = create(given, &dir.path().join(target), true).unwrap_err();
                assert!(matches!(refused, BackupError::Inside { .. }), "{target}: {refused}");
                assert!(refused.to_string().contains("give a file elsewhere"), "{refused}");
            }
        }
        assert!(!state.join("b").exists());
        // A link that is replaced lies where it lies, wherever it leads.
        std::os::unix::fs::symlink(state.join("b"), dir.path().join("beside/b")).unwrap();
        create(&state, &dir.path().join("beside/b"), true).unwrap();
        assert!(!state.join("b").exists());
        create(&state, &dir.path().join("state-b"), true).unwrap();
    }
}
