//! Migrates a state directory to another version, completely or not at all.
//!
//! Before the step up, a backup of the old files is written into the directory itself
//! (`before-version-N.tar`). An older program can restore it. The step down ([`down`]) keeps all later
//! changes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::listing::member_names;
use super::owner;
use super::replacement::Replacement;
use super::store::image::StoreImage;
use super::version::{FileImages, KnownVersions, PROGRAM, VERSION_FILE, VersionFile};
use crate::archive::write::ArchiveWriter;
use crate::archive::{FORMAT, Manifest, STATE};
use crate::calendar;

/// The beginning of the name of a backup that a migration makes.
pub const BEFORE: &str = "before-version-";

/// The reason why a migration was not made. Nothing has changed then, or the next start completes it.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The program has no such step.
    #[error("this program has no step from version {from} to version {to}")]
    NoStep {
        /// The version of the directory.
        from: u32,
        /// The wanted version.
        to: u32,
    },
    /// The files cannot be read or written.
    #[error(transparent)]
    Host(#[from] io::Error),
    /// The content of a file is not as the step expects it.
    #[error("{0}")]
    Content(String),
}

/// Migrates the locked directory `dir` from version `from` to the newest. Returns the path of the backup.
pub fn up(dir: &Path, from: u32, known: &KnownVersions, disk: &Disk) -> Result<PathBuf, MigrationError> {
    let before = read_files(dir)?;
    let backup = dir.join(format!("{BEFORE}{}.tar", known.newest));
    write_backup(&backup, &before, from, disk)?;
    let mut after = before.clone();
    for version in from..known.newest {
        let step = known.migration(version).ok_or(MigrationError::NoStep { from, to: known.newest })?;
        (step.up)(&mut after).map_err(MigrationError::Content)?;
    }
    replace(dir, &before, after, known.newest, disk)?;
    Ok(backup)
}

/// Migrates the locked directory `dir` from version `from` down to version `to`.
pub fn down(
    dir: &Path,
    from: u32,
    to: u32,
    known: &KnownVersions,
    disk: &Disk,
) -> Result<(), MigrationError> {
    let before = read_files(dir)?;
    let mut after = before.clone();
    if to >= from {
        return Err(MigrationError::NoStep { from, to });
    }
    for version in (to..from).rev() {
        let step = known.migration(version).ok_or(MigrationError::NoStep { from, to })?;
        (step.down)(&mut after).map_err(MigrationError::Content)?;
    }
    replace(dir, &before, after, to, disk)
}

fn replace(
    dir: &Path,
    before: &FileImages,
    mut after: FileImages,
    version: u32,
    disk: &Disk,
) -> Result<(), MigrationError> {
    after.insert(VERSION_FILE.to_owned(), VersionFile::text(version).into_bytes());
    let mut replacement = Replacement::begin(dir, disk)?;
    for (name, content) in after.iter().filter(|(name, content)| before.get(*name) != Some(*content)) {
        replacement.file(name, &mut &**content)?;
    }
    let gone = before.iter().filter(|(name, content)| after.get(*name) != Some(*content));
    let gone = gone.map(|(name, _)| name.clone()).collect();
    Ok(replacement.commit(gone, None)?)
}

fn read_files(dir: &Path) -> io::Result<FileImages> {
    member_names(dir)?.into_iter().map(|name| Ok((name.clone(), fs::read(dir.join(&name))?))).collect()
}

/// Writes a backup of these files, completely or not at all.
fn write_backup(path: &Path, files: &FileImages, version: u32, disk: &Disk) -> Result<(), MigrationError> {
    let content = |error: super::store::StoreError| MigrationError::Content(error.to_string());
    let database = files.get("state.redb").cloned().unwrap_or_default();
    let identity = StoreImage::read(database).and_then(|image| image.identity()).map_err(content)?;
    let manifest = Manifest {
        format: FORMAT,
        state_version: version,
        program: PROGRAM.to_owned(),
        server_guid: identity.guid_text(),
        time: calendar::now(),
    };
    let new = path.with_extension("new");
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    owner::keep(&file, path.parent().unwrap_or(path))?;
    let mut writer = ArchiveWriter::new(BufWriter::new(file), &manifest)?;
    for (name, content) in files {
        writer.small(&format!("{STATE}{name}"), content)?;
    }
    let (mut out, _) = writer.finish()?;
    out.flush()?;
    volume_posix::store_file(out.get_ref())?;
    disk.rename(&new, path)?;
    Ok(disk.sync_directory(path.parent().unwrap_or(path))?)
}
