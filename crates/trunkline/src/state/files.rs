//! The smaller files of the state directory. Their content is also in the database, so that a truncated,
//! damaged or missing file is noticed.
//!
//! People may edit some of these files. An edited file is accepted as it is, with a warning at the start. A
//! secret, which has no reason to be edited, is restored.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::store::StoreError;
use super::{StateDir, write_private};
use crate::config::CHANGES;

/// The first user's password.
pub const FIRST_PASSWORD: &str = "first-password";
/// The token of administrators for the admin API.
pub const ADMIN_TOKEN: &str = "admin-token";

impl StateDir {
    /// Thirty-two random bytes that stay the same for the lifetime of the directory, in a file that only its
    /// owner can read.
    ///
    /// # Errors
    /// The error of the host.
    pub fn secret(&self, name: &str) -> io::Result<[u8; 32]> {
        let path = self.path.join(name);
        let found = match fs::read(&path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let kept = self.store.file(name);
        let secret = match (kept, found) {
            (Some(kept), found) => {
                if found.as_ref() != Some(&kept) {
                    let what = if found.is_some() { "damaged" } else { "missing" };
                    tracing::warn!(path = %path.display(), "it was {what} and was restored from state.redb");
                    write_private(&path, &kept)?;
                }
                kept
            }
            (None, Some(found)) => {
                self.store.keep_file(name, &found).map_err(io::Error::other)?;
                found
            }
            (None, None) => {
                let made: [u8; 32] = auth::crypto::random();
                self.write_file(name, &made)?;
                made.to_vec()
            }
        };
        secret
            .try_into()
            .map_err(|_| io::Error::other(format!("{} is damaged; restore or remove it", path.display())))
    }

    /// Random text that stays the same for the lifetime of the file. Only its owner can read the file, and it
    /// may be edited.
    ///
    /// # Errors
    /// The error of the host.
    pub fn token(&self, name: &str) -> io::Result<String> {
        match fs::read_to_string(self.path.join(name)) {
            Ok(kept) => Ok(kept.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made: [u8; 24] = auth::crypto::random();
                let text: String = made.iter().map(|byte| format!("{byte:02x}")).collect();
                self.write_file(name, format!("{text}\n").as_bytes())?;
                Ok(text)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes `content` to the file `name`, completely or not at all. Only its owner can read it.
    ///
    /// # Errors
    /// The error of the host.
    pub fn write_file(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        write_private(&path, content)?;
        self.store.keep_file(name, content).map_err(io::Error::other)?;
        Ok(path)
    }

    /// Whether a journal that was in use is missing.
    pub fn lacks_journal(&self, journal: &Path) -> bool {
        self.store.file(&self.name_of(journal)).is_some() && !journal.exists()
    }

    /// Whether the sidecar data of a served directory, in `volume`, is missing.
    pub fn lacks_sidecar(&self, volume: &Path) -> bool {
        self.store.file(&self.name_of(volume)).is_some() && !has_something(volume)
    }

    /// Records the journals that exist, each of which is created with its first record, and the served
    /// directories with sidecar data.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn record_present_files(&self) -> Result<(), StoreError> {
        let of = |directory: PathBuf, is_journal: fn(&Path) -> bool| {
            let found = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
            found.filter(move |path| is_journal(path))
        };
        let opens = of(self.path.join("volumes"), |path| path.extension().is_some_and(|it| it == "opens"));
        let is_clients = |path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let number = name.strip_prefix("nfs-clients.").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        let clients = of(self.path.clone(), is_clients);
        let (filled, emptied): (Vec<_>, Vec<_>) =
            of(self.path.join("volumes"), Path::is_dir).partition(|volume| has_something(volume));
        for volume in emptied.iter().map(|volume| self.name_of(volume)) {
            if self.store.file(&volume).is_some() {
                self.store.forget_file(&volume)?;
            }
        }
        let names: Vec<String> = opens.chain(clients).chain(filled).map(|path| self.name_of(&path)).collect();
        self.store.note_files(&names)
    }

    /// Records that a journal is no longer in use.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn forget_journal(&self, journal: &Path) -> Result<(), StoreError> {
        let name = self.name_of(journal);
        if self.store.file(&name).is_some() { self.store.forget_file(&name) } else { Ok(()) }
    }

    /// The name of a file of the directory in the database.
    pub(super) fn name_of(&self, file: &Path) -> String {
        file.strip_prefix(&self.path).unwrap_or(file).display().to_string()
    }

    /// Accepts the file of changes as it is, whoever wrote it.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn accept_changes(&self, text: Option<&str>) -> Result<(), StoreError> {
        match text {
            Some(text) => self.store.keep_file(CHANGES, text.as_bytes()),
            None => self.store.forget_file(CHANGES),
        }
    }

    /// Checks the files that people may edit, and returns a line for each that differs from the version that
    /// the server wrote. An earlier version of the server recorded no content: then the current content is
    /// recorded.
    pub fn check_files(&self) -> Vec<String> {
        let mut notes = self.store.notes().to_vec();
        for name in [CHANGES, ADMIN_TOKEN, FIRST_PASSWORD] {
            let path = self.path.join(name);
            let found = fs::read(&path).ok();
            let note = match (self.store.file(name), found) {
                (None, None) => None,
                (None, Some(found)) => self
                    .store
                    .keep_file(name, &found)
                    .err()
                    .map(|error| format!("{}: {error}", path.display())),
                (Some(kept), Some(found)) if kept == found => None,
                (Some(kept), found) => Some(difference(name, &kept, found.as_deref())),
            };
            notes.extend(note.map(|note| format!("{}: {note}", path.display())));
        }
        notes
    }
}

/// Whether a served directory has sidecar data. Each file with such data has a folder there.
fn has_something(volume: &Path) -> bool {
    fs::read_dir(volume).into_iter().flatten().flatten().any(|entry| entry.path().is_dir())
}

/// The text about a file whose content differs from the version that the server wrote.
fn difference(name: &str, kept: &[u8], found: Option<&[u8]>) -> String {
    let how = match found {
        None => "it is missing",
        Some(found) if found.len() < kept.len() && kept.starts_with(found) => "it is truncated",
        Some(_) => "it differs from the server's version: it was edited or is damaged",
    };
    let then = match name {
        CHANGES => {
            let changed = tables_that_differ(kept, found.unwrap_or_default());
            format!("{changed}; restore it, or accept it as it is with `trunkline reload`")
        }
        ADMIN_TOKEN if found.is_none() => {
            "a new token is generated, and administrators need the new one".to_owned()
        }
        ADMIN_TOKEN => "administrators need the token that it contains now".to_owned(),
        _ => "it may no longer contain the first user's password; `trunkline user passwd` sets a new one"
            .to_owned(),
    };
    format!("{how}; {then}")
}

/// The accounts and shares that differ in the file of changes.
fn tables_that_differ(kept: &[u8], found: &[u8]) -> String {
    let read = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<toml::Table>().ok();
    let (Some(kept), Some(found)) = (read(kept), read(found)) else { return "it cannot be read".to_owned() };
    let mut told = Vec::new();
    for (kind, tables) in &kept {
        let now = found.get(kind).and_then(toml::Value::as_table);
        for (name, was) in tables.as_table().into_iter().flatten() {
            match now.and_then(|now| now.get(name)) {
                None => told.push(format!("{kind} `{name}` is missing")),
                Some(now) if now != was => told.push(format!("{kind} `{name}` differs")),
                Some(_) => {}
            }
        }
    }
    for (kind, tables) in &found {
        let was = kept.get(kind).and_then(toml::Value::as_table);
        let new = tables
            .as_table()
            .into_iter()
            .flatten()
            .filter(|(name, _)| !was.is_some_and(|was| was.contains_key(*name)));
        told.extend(new.map(|(name, _)| format!("{kind} `{name}` is new")));
    }
    if told.is_empty() { "no account and no share differs".to_owned() } else { told.join(", ") }
}
