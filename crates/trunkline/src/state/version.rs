//! The versions of a state directory: the file `version`, and the table of migrations between them.
//!
//! A release that stores something in another way adds an entry to the table in [`CURRENT`], and never
//! changes an earlier one. A migration is a function of the content of all files, so that it cannot be
//! interrupted. [`super::migration`] carries it out.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The name of the file.
pub const VERSION_FILE: &str = "version";
/// This program with its version.
pub const PROGRAM: &str = concat!("trunkline ", env!("CARGO_PKG_VERSION"));

/// Files of a state directory without its sidecar data, by their paths below it.
pub type FileImages = BTreeMap<String, Vec<u8>>;

/// A step from one version to the next, and back.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// The older version. The newer one is the next.
    pub from: u32,
    /// Turns the files of the older version into those of the newer one.
    pub up: fn(&mut FileImages) -> Result<(), String>,
    /// Turns the files of the newer version into those of the older one.
    pub down: fn(&mut FileImages) -> Result<(), String>,
}

/// The versions that a program knows.
#[derive(Debug, Clone, Copy)]
pub struct KnownVersions {
    /// The version that it reads and writes.
    pub newest: u32,
    /// The steps up to that version, without a gap, the earliest first.
    pub migrations: &'static [Migration],
}

impl KnownVersions {
    /// The oldest version that it can migrate.
    pub fn oldest(&self) -> u32 {
        self.migrations.first().map_or(self.newest, |first| first.from)
    }

    /// The step from `from` to the next version.
    pub fn migration(&self, from: u32) -> Option<&Migration> {
        self.migrations.iter().find(|migration| migration.from == from)
    }
}

/// The versions that this program knows.
#[cfg(not(feature = "next-state-version"))]
pub const CURRENT: KnownVersions = KnownVersions { newest: 1, migrations: &[] };

/// A program for tests of the next upgrade.
#[cfg(feature = "next-state-version")]
pub const CURRENT: KnownVersions = next::VERSIONS;

/// The content of the file `version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionFile {
    /// The version.
    pub version: u32,
    /// The program that wrote it. The first version does not tell it.
    pub program: Option<String>,
}

impl VersionFile {
    /// The content for a directory that this program writes.
    pub fn text(version: u32) -> String {
        // Programs before version 2 expect exactly this line.
        match version {
            0 | 1 => format!("trunkline state {version}\n"),
            _ => format!("trunkline state {version}\nwritten by {PROGRAM}\n"),
        }
    }

    /// Reads the content. The error is its first line.
    pub fn parse(content: &[u8]) -> Result<VersionFile, String> {
        let text = String::from_utf8_lossy(content);
        let mut lines = text.trim_ascii_end().lines();
        let first = lines.next().unwrap_or_default();
        let number = first.strip_prefix("trunkline state ").filter(|number| !number.starts_with('+'));
        let version = number.and_then(|number| number.parse().ok());
        let version = version.ok_or_else(|| first.chars().take(80).collect::<String>())?;
        let program = lines.next().and_then(|line| line.strip_prefix("written by "));
        Ok(VersionFile { version, program: program.map(|name| name.chars().take(80).collect()) })
    }
}

/// Reads the file `version` of `dir`. None without one.
pub fn read(dir: &Path) -> io::Result<Option<Result<VersionFile, String>>> {
    match fs::read(dir.join(VERSION_FILE)) {
        Ok(content) => Ok(Some(VersionFile::parse(&content))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Version 2 as tests know it: it has one more file.
#[cfg(any(test, feature = "next-state-version"))]
pub mod next {
    use super::{FileImages, KnownVersions, Migration};

    /// The file that version 1 does not have.
    pub const FILE: &str = "next-state-version";

    pub const VERSIONS: KnownVersions =
        KnownVersions { newest: 2, migrations: &[Migration { from: 1, up, down }] };

    fn up(files: &mut FileImages) -> Result<(), String> {
        files.insert(FILE.to_owned(), b"a file of version 2\n".to_vec());
        Ok(())
    }

    fn down(files: &mut FileImages) -> Result<(), String> {
        files.remove(FILE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_leads_to_the_newest_version_without_a_gap() {
        for known in [CURRENT, next::VERSIONS] {
            let from: Vec<u32> = known.migrations.iter().map(|migration| migration.from).collect();
            assert_eq!(from, (known.oldest()..known.newest).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_version_is_read_as_it_was_written() {
        for (version, program) in [(1, None), (2, Some(PROGRAM.to_owned()))] {
            let text = VersionFile::text(version);
            assert_eq!(VersionFile::parse(text.as_bytes()), Ok(VersionFile { version, program }));
        }
        assert_eq!(VersionFile::text(1), "trunkline state 1\n");
        for bad in ["", "trunkline state", "trunkline state x", "trunkline state -1", "trunkline state +1"] {
            assert_eq!(VersionFile::parse(bad.as_bytes()), Err(bad.to_owned()));
        }
    }
}
