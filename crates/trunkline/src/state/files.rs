//! The smaller files of the state directory. What was written of them stands in the database too, so that a
//! file that is cut short, damaged or gone is never taken for what was written.
//!
//! Some of them people may edit: then the file counts as it stands, and who starts the server is told. A
//! secret that nobody has reason to edit is written anew.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::store::StoreError;
use super::{StateDir, write_private};
use crate::config::CHANGES;

/// The first user's password.
pub const FIRST_PASSWORD: &str = "first-password";
/// What administrators show to be let in.
pub const ADMIN_TOKEN: &str = "admin-token";

impl StateDir {
    /// Thirty-two random bytes that stay the same as long as the directory lives, in a file open to its owner
    /// only.
    ///
    /// # Errors
    /// What the host says.
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
                    tracing::warn!(path = %path.display(), "it was {what}, and is written anew from state.redb");
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

    /// Random text that stays the same as long as the file does, which is open to its owner only and may be
    /// edited.
    ///
    /// # Errors
    /// What the host says.
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

    /// Writes `content` to the file `name`, open to its owner only, whole or not at all.
    ///
    /// # Errors
    /// What the host says.
    pub fn write_file(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        write_private(&path, content)?;
        self.store.keep_file(name, content).map_err(io::Error::other)?;
        Ok(path)
    }

    /// Whether a journal that is to be in the directory is gone.
    pub fn lacks_journal(&self, journal: &Path) -> bool {
        self.store.file(&self.name_of(journal)).is_some() && !journal.exists()
    }

    /// Whether what lay beside the files of a served directory, kept in `volume`, is gone.
    pub fn lacks_what_lay_beside(&self, volume: &Path) -> bool {
        self.store.file(&self.name_of(volume)).is_some() && !has_something(volume)
    }

    /// Takes note of the journals that are in the directory, each of which is made with its first record, and
    /// of the served directories beside whose files something lies.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn note_what_is_kept(&self) -> Result<(), StoreError> {
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

    /// Takes note that a journal is not kept any more.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn forget_journal(&self, journal: &Path) -> Result<(), StoreError> {
        let name = self.name_of(journal);
        if self.store.file(&name).is_some() { self.store.forget_file(&name) } else { Ok(()) }
    }

    /// What a file of the directory is called in the database.
    fn name_of(&self, file: &Path) -> String {
        file.strip_prefix(&self.path).unwrap_or(file).display().to_string()
    }

    /// Takes the file of changes as it stands, whoever wrote it: from now on that is what was written.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn accept_changes(&self, text: Option<&str>) -> Result<(), StoreError> {
        match text {
            Some(text) => self.store.keep_file(CHANGES, text.as_bytes()),
            None => self.store.forget_file(CHANGES),
        }
    }

    /// Looks at the files that people may edit, and says of each in a line if it is not what was written. A
    /// server of an earlier version wrote nothing down: what is found is kept then.
    pub fn look_over(&self) -> Vec<String> {
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

/// Whether something lies beside a served directory's files, which have a folder each here.
fn has_something(volume: &Path) -> bool {
    fs::read_dir(volume).into_iter().flatten().flatten().any(|entry| entry.path().is_dir())
}

/// What to tell of a file that has not the content that was written.
fn difference(name: &str, kept: &[u8], found: Option<&[u8]>) -> String {
    let how = match found {
        None => "it is missing",
        Some(found) if found.len() < kept.len() && kept.starts_with(found) => "it is cut short",
        Some(_) => "it is not as the server wrote it: somebody edited it, or it is damaged",
    };
    let then = match name {
        CHANGES => {
            let changed = tables_that_differ(kept, found.unwrap_or_default());
            format!("{changed}; restore it, or `trunkline reload` takes it as it stands")
        }
        ADMIN_TOKEN if found.is_none() => "another token is made, and callers must be given that".to_owned(),
        ADMIN_TOKEN => "callers must show what stands in it now".to_owned(),
        _ => "it may not have the first user's password any more; `trunkline user passwd` sets another"
            .to_owned(),
    };
    format!("{how}; {then}")
}

/// Which accounts and shares the file of changes said something else of.
fn tables_that_differ(kept: &[u8], found: &[u8]) -> String {
    let read = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<toml::Table>().ok();
    let (Some(kept), Some(found)) = (read(kept), read(found)) else { return "it cannot be read".to_owned() };
    let mut told = Vec::new();
    for (kind, tables) in &kept {
        let now = found.get(kind).and_then(toml::Value::as_table);
        for (name, was) in tables.as_table().into_iter().flatten() {
            match now.and_then(|now| now.get(name)) {
                None => told.push(format!("{kind} `{name}` is missing")),
                Some(now) if now != was => told.push(format!("{kind} `{name}` is another")),
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
