//! Writes an archive to a stream, with memory for one list of checksums.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use aws_lc_rs::digest::{Context, SHA256, digest};

use super::{MANIFEST, Manifest, SUMS, SUMS_EVERY, hex, is_plain};

/// An archive that is being written.
pub struct ArchiveWriter<W: Write> {
    tar: tar::Builder<W>,
    /// The list of checksums of the members since the last list.
    sums: String,
    members: usize,
    lists: u32,
    bytes: u64,
}

impl<W: Write> ArchiveWriter<W> {
    /// Begins an archive with its manifest.
    ///
    /// # Errors
    /// Those of the host.
    pub fn new(out: W, manifest: &Manifest) -> io::Result<ArchiveWriter<W>> {
        let tar = tar::Builder::new(out);
        let mut writer = ArchiveWriter { tar, sums: String::new(), members: 0, lists: 0, bytes: 0 };
        let mut text = serde_json::to_vec_pretty(manifest)?;
        text.push(b'\n');
        writer.small(MANIFEST, &text)?;
        Ok(writer)
    }

    /// Writes a member that is in memory.
    ///
    /// # Errors
    /// Those of the host.
    pub fn small(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.member(name, content.len() as u64, &mut &*content).map(drop)
    }

    /// Writes a member of `size` bytes. If `data` has more, the rest is left out. If it has fewer, zeros
    /// replace them, and the result is false: the file has changed meanwhile.
    ///
    /// # Errors
    /// Those of the host.
    pub fn member(&mut self, name: &str, size: u64, data: &mut dyn Read) -> io::Result<bool> {
        if !is_plain(name) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("no name of a member: {name:?}"),
            ));
        }
        let mut source = Source { data, left: size, hash: Context::new(&SHA256), was_short: false };
        self.tar.append_data(&mut header(size), name, &mut source)?;
        let (hash, was_short) = (source.hash.finish(), source.was_short);
        if !name.starts_with(SUMS) {
            self.bytes += size;
        }
        self.members += 1;
        writeln!(self.sums, "{}  {name}", hex(&hash)).map_err(io::Error::other)?;
        if self.members.is_multiple_of(SUMS_EVERY) && !name.starts_with(SUMS) {
            self.lists += 1;
            let (list, sums) = (format!("{SUMS}.{}", self.lists), std::mem::take(&mut self.sums));
            self.small(&list, sums.as_bytes())?;
        }
        Ok(!was_short)
    }

    /// The bytes of all members so far, without the lists of checksums.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the last list of checksums. Returns the stream and the checksum of that list.
    ///
    /// # Errors
    /// Those of the host.
    pub fn finish(mut self) -> io::Result<(W, String)> {
        let sums = std::mem::take(&mut self.sums);
        self.small(SUMS, sums.as_bytes())?;
        let sha256 = hex(&digest(&SHA256, sums.as_bytes()));
        let mut out = self.tar.into_inner()?;
        out.flush()?;
        Ok((out, sha256))
    }
}

/// The header of a member. It names no user and no time, so that the same state gives the same bytes.
fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_size(size);
    header.set_mode(0o600);
    header.set_entry_type(tar::EntryType::Regular);
    header
}

/// Exactly as many bytes as announced.
struct Source<'a> {
    data: &'a mut dyn Read,
    left: u64,
    hash: Context,
    was_short: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..most];
        if most == 0 {
            return Ok(0);
        }
        let mut read = if self.was_short { 0 } else { self.data.read(out)? };
        if read == 0 {
            self.was_short = true;
            out.fill(0);
            read = most;
        }
        self.hash.update(&out[..read]);
        self.left -= read as u64;
        Ok(read)
    }
}
