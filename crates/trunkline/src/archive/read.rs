//! Reads an archive from a stream and checks it.
//!
//! No name in an archive is ever used as a path before [`is_plain`] has accepted it. Links and every other
//! kind of member but a regular file are refused.

use std::collections::HashMap;
use std::io::{self, Read};

use aws_lc_rs::digest::{Context, SHA256};

use super::{
    ArchiveError, FORMAT, MANIFEST, Manifest, SIDECAR, STATE, SUMS, SUMS_EVERY, Summary, hex, is_plain,
};

/// The maximum length of a manifest and of a list of checksums.
const MAX_TEXT: u64 = 1 << 20;

/// A member of an archive, of which nothing is certain before the whole was read.
pub struct Member<'a> {
    /// The manifest of the archive.
    pub manifest: &'a Manifest,
    /// The name, which is plain.
    pub name: &'a str,
    /// The number of bytes.
    pub size: u64,
    /// The content.
    pub data: &'a mut dyn Read,
}

/// Reads an archive, passes each member of state and sidecar data to `take`, and checks everything. Only its
/// success says that the members were right.
///
/// # Errors
/// [`ArchiveError`]
pub fn read(
    input: impl Read,
    take: &mut dyn FnMut(Member<'_>) -> Result<(), ArchiveError>,
) -> Result<Summary, ArchiveError> {
    let mut reading = Reading::default();
    let mut archive = tar::Archive::new(input);
    // Raw: names and holes of the extensions of tar, which this program does not write, are not interpreted.
    for entry in archive.entries().map_err(|e| broken(e, false))?.raw(true) {
        let has_begun = reading.manifest.is_some();
        let mut entry = entry.map_err(|e| broken(e, has_begun))?;
        reading.member(&mut entry, take)?;
    }
    reading.end()
}

/// The error of the library that reads tar, or of the host.
fn broken(error: io::Error, has_begun: bool) -> ArchiveError {
    match (error.kind(), has_begun) {
        (io::ErrorKind::UnexpectedEof, true) => ArchiveError::Cut,
        // The library has no other way to tell its own errors from those of the host.
        (io::ErrorKind::Other | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof, false) => {
            ArchiveError::Foreign
        }
        (io::ErrorKind::Other | io::ErrorKind::InvalidData, true) if error.raw_os_error().is_none() => {
            match error.to_string() {
                // A header or a member that is not there as a whole.
                text if text.contains("failed to read entire block") || text.contains("unexpected EOF") => {
                    ArchiveError::Cut
                }
                text => ArchiveError::Damaged(text),
            }
        }
        _ => ArchiveError::Host(error),
    }
}

#[derive(Default)]
struct Reading {
    manifest: Option<Manifest>,
    /// The checksums since the last list.
    found: HashMap<String, String>,
    state_files: u64,
    sidecar_files: u64,
    bytes: u64,
    /// The checksum of the last list, when that has been read.
    sha256: Option<String>,
}

impl Reading {
    fn member(
        &mut self,
        entry: &mut tar::Entry<'_, impl Read>,
        take: &mut dyn FnMut(Member<'_>) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let has_begun = self.manifest.is_some();
        let foreign = |what: String| match has_begun {
            true => ArchiveError::Damaged(what),
            false => ArchiveError::Foreign,
        };
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type() != tar::EntryType::Regular || !is_plain(&name) {
            return Err(foreign(format!("{name:?} is no member of a backup")));
        }
        if self.sha256.is_some() {
            return Err(ArchiveError::Damaged("something follows the last list of checksums".to_owned()));
        }
        let size = entry.size();
        let mut data = Hashing { entry, hash: Context::new(&SHA256), read: 0 };
        if self.manifest.is_none() {
            self.manifest = Some(manifest(&name, &mut data, size)?);
        } else if name.starts_with(SUMS) {
            let text = data.text(&name, size)?;
            self.check(&text)?;
        } else if name.starts_with(STATE) || name.starts_with(SIDECAR) {
            let manifest = self.manifest.as_ref().ok_or(ArchiveError::Foreign)?;
            self.state_files += u64::from(name.starts_with(STATE));
            self.sidecar_files += u64::from(name.ends_with("/file.json"));
            take(Member { manifest, name: &name, size, data: &mut data })?;
            // The caller need not read all of it.
            io::copy(&mut data, &mut io::sink()).map_err(|e| broken(e, true))?;
        } else {
            return Err(ArchiveError::Damaged(format!("{name:?} is no member of a backup")));
        }
        if data.read != size {
            return Err(ArchiveError::Cut);
        }
        if !name.starts_with(SUMS) {
            self.bytes += size;
        }
        let sum = hex(&data.hash.finish());
        if name == SUMS {
            self.sha256 = Some(sum.clone());
        }
        if self.found.insert(name.clone(), sum).is_some() || self.found.len() > SUMS_EVERY + 1 {
            return Err(ArchiveError::Damaged(format!("{name:?} has no checksum or is there twice")));
        }
        Ok(())
    }

    /// Compares a list of checksums with the members since the last one.
    fn check(&mut self, list: &str) -> Result<(), ArchiveError> {
        for line in list.lines() {
            let (sum, name) = line.split_once("  ").unwrap_or((line, ""));
            if self.found.remove(name).as_deref() != Some(sum) {
                return Err(ArchiveError::Damaged(format!("the checksum of {name:?} differs")));
            }
        }
        match self.found.keys().next() {
            Some(name) => Err(ArchiveError::Damaged(format!("{name:?} has no checksum"))),
            None => Ok(()),
        }
    }

    fn end(self) -> Result<Summary, ArchiveError> {
        let Reading { manifest, state_files, sidecar_files, bytes, sha256, .. } = self;
        let manifest = manifest.ok_or(ArchiveError::Foreign)?;
        let sha256 = sha256.ok_or(ArchiveError::Cut)?;
        Ok(Summary { manifest, state_files, sidecar_files, bytes, sha256 })
    }
}

/// Reads the manifest, of which the format comes first.
fn manifest(name: &str, data: &mut Hashing<'_, impl Read>, size: u64) -> Result<Manifest, ArchiveError> {
    #[derive(serde::Deserialize)]
    struct OfAnyFormat {
        format: u32,
    }
    if name != MANIFEST {
        return Err(ArchiveError::Foreign);
    }
    let text = data.text(name, size)?;
    let OfAnyFormat { format } = serde_json::from_str(&text).map_err(|_| ArchiveError::Foreign)?;
    if format != FORMAT {
        return Err(ArchiveError::Format(format));
    }
    serde_json::from_str(&text).map_err(|e| ArchiveError::Damaged(format!("{MANIFEST}: {e}")))
}

/// The data of a member, with its checksum so far.
struct Hashing<'a, R> {
    entry: &'a mut R,
    hash: Context,
    read: u64,
}

impl<R: Read> Hashing<'_, R> {
    fn text(&mut self, name: &str, size: u64) -> Result<String, ArchiveError> {
        let mut text = Vec::new();
        self.take(MAX_TEXT + 1).read_to_end(&mut text).map_err(|e| broken(e, true))?;
        let wrong = || ArchiveError::Damaged(format!("{name:?} cannot be read"));
        if text.len() as u64 > MAX_TEXT {
            return Err(wrong());
        }
        if text.len() as u64 != size {
            return Err(ArchiveError::Cut);
        }
        String::from_utf8(text).map_err(|_| wrong())
    }
}

impl<R: Read> Read for Hashing<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.entry.read(out)?;
        self.hash.update(&out[..read]);
        self.read += read as u64;
        Ok(read)
    }
}

/// The largest member that is read into memory.
const MAX_IN_MEMORY: u64 = 512 << 20;

/// All bytes of a member.
///
/// # Errors
/// The host's, and that the member is too large. A damaged archive may claim any size.
pub fn whole(data: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    data.take(MAX_IN_MEMORY + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_IN_MEMORY {
        return Err(io::Error::other(format!("a part of the archive is larger than {MAX_IN_MEMORY} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::write::ArchiveWriter;
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            state_version: 1,
            program: "trunkline 0".to_owned(),
            server_guid: "00".to_owned(),
            time: "now".to_owned(),
        }
    }

    fn archive(members: usize) -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Vec::new(), &manifest()).unwrap();
        for n in 0..members {
            writer.small(&format!("state/file-{n}"), &vec![n as u8; n % 700]).unwrap();
        }
        writer.small("sidecar/1/file.json", b"{}").unwrap();
        writer.finish().unwrap().0
    }

    /// The name and the content of each member.
    type Members = Vec<(String, Vec<u8>)>;

    fn read_all(bytes: &[u8]) -> Result<(Summary, Members), ArchiveError> {
        let mut members = Vec::new();
        let summary = read(bytes, &mut |member| {
            let mut content = Vec::new();
            member.data.read_to_end(&mut content)?;
            members.push((member.name.to_owned(), content));
            Ok(())
        })?;
        Ok((summary, members))
    }

    /// An archive with one member of any name and kind.
    fn hostile(name: &[u8], kind: tar::EntryType) -> Vec<u8> {
        let mut bytes = archive(0);
        // The manifest has two blocks.
        bytes.truncate(1024);
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes
    }

    #[test]
    fn what_was_written_is_read_back_with_one_checksum_for_the_whole() {
        for count in [0, 1, 998, 999, 1000, 2500] {
            let bytes = archive(count);
            let (summary, members) = read_all(&bytes).unwrap();
            assert_eq!((summary.manifest.clone(), summary.state_files), (manifest(), count as u64));
            assert_eq!((members.len(), summary.sidecar_files), (count + 1, 1));
            let is_right = |(n, (name, content)): (usize, &(String, Vec<u8>))| {
                *name == format!("state/file-{n}") && *content == vec![n as u8; n % 700]
            };
            assert!(members[..count].iter().enumerate().all(is_right));
        }
        assert_ne!(read_all(&archive(3)).unwrap().0.sha256, read_all(&archive(4)).unwrap().0.sha256);
    }

    #[test]
    fn a_cut_archive_is_refused_wherever_it_is_cut() {
        let bytes = archive(3);
        // Behind the last list only zeros follow.
        let end = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        for at in 0..end {
            let error = read_all(&bytes[..at]).unwrap_err();
            let is_told = matches!(error, ArchiveError::Cut | ArchiveError::Foreign);
            assert!(is_told, "cut at {at}: {error}");
        }
    }

    #[test]
    fn every_changed_bit_is_noticed_or_changes_nothing() {
        let bytes = archive(3);
        let whole = read_all(&bytes).unwrap();
        let mut noticed = 0;
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            match read_all(&changed) {
                Ok(found) => assert_eq!(found, whole, "byte {at}"),
                Err(_) => noticed += 1,
            }
        }
        assert!(noticed > 3000, "{noticed} of {}", bytes.len());
    }

    #[test]
    fn names_that_lead_elsewhere_and_links_are_refused() {
        let regular = tar::EntryType::Regular;
        for name in ["../x", "state/../../x", "/etc/x", "state//x", "state/a\nb", "state/.", "other/x"] {
            let error = read_all(&hostile(name.as_bytes(), regular)).unwrap_err();
            assert!(matches!(error, ArchiveError::Damaged(_)), "{name}: {error}");
        }
        for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::GNULongName] {
            assert!(matches!(read_all(&hostile(b"state/x", kind)), Err(ArchiveError::Damaged(_))));
        }
        assert!(matches!(read_all(&hostile(b"state/x", regular)), Err(ArchiveError::Cut)));
    }

    #[test]
    fn other_files_and_formats_are_named() {
        for foreign in [&b""[..], b"hello", &[0; 4096], &[7; 4096]] {
            assert!(matches!(read_all(foreign), Err(ArchiveError::Foreign)));
        }
        let newer = Manifest { format: 2, ..manifest() };
        let bytes = ArchiveWriter::new(Vec::new(), &newer).unwrap().finish().unwrap().0;
        assert!(matches!(read_all(&bytes), Err(ArchiveError::Format(2))));
    }
}
