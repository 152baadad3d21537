//! The file of a backup: a tar archive that can be checked without anything else.
//!
//! Start with [`write::ArchiveWriter`] and [`read::read`]. The members are:
//!
//! ```text
//! manifest.json             the versions, the server and the time; it comes first
//! state/NAME                a file of the state directory
//! sidecar/NUMBER/file.json  a file of a share with sidecar data: its path and notes
//! sidecar/NUMBER/stream-N   the data of its named streams, in the order of file.json
//! SHA256SUMS.N              the checksums of the members since the last such list, in the form of sha256sum
//! SHA256SUMS                the same, as the last member
//! ```
//! A list of checksums also has those of the list before it. So the checksum of the last list stands for the
//! whole archive. An archive without the last list was cut.

pub mod read;
pub mod write;

use std::io;

use serde::{Deserialize, Serialize};

/// The version of the archive's format.
pub const FORMAT: u32 = 1;
/// The name of the first member.
const MANIFEST: &str = "manifest.json";
/// The name of the last member.
const SUMS: &str = "SHA256SUMS";
/// The folder of the files of the state directory.
pub const STATE: &str = "state/";
/// The folder of sidecar data.
pub const SIDECAR: &str = "sidecar/";
/// The number of members after which their checksums are written, so that nobody has to remember more.
const SUMS_EVERY: usize = 1000;
/// The maximum length of a member's name. It fits into the header of a tar archive.
const MAX_NAME: usize = 99;

/// The first member of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`]
    pub format: u32,
    /// The version of the state directory.
    pub state_version: u32,
    /// The program that wrote the archive, with its version.
    pub program: String,
    /// The server's GUID, in hexadecimal digits.
    pub server_guid: String,
    /// The moment of the backup (RFC 3339).
    pub time: String,
}

/// A complete archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its manifest.
    pub manifest: Manifest,
    /// The number of files of the state directory.
    pub state_files: u64,
    /// The number of files with sidecar data.
    pub sidecar_files: u64,
    /// The bytes of all members, without the lists of checksums.
    pub bytes: u64,
    /// The checksum of the last list of checksums, in hexadecimal digits.
    pub sha256: String,
}

/// The reason why an archive cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is not a backup of this program.
    #[error("it is not a backup of trunkline")]
    Foreign,
    /// It has another format.
    #[error("it has format {0}, this program knows format {FORMAT}; a newer trunkline reads it")]
    Format(u32),
    /// It ends early.
    #[error("it is cut: its end is missing; make the backup again, or take another")]
    Cut,
    /// A member is not what was written.
    #[error("it is damaged ({0}); take another backup")]
    Damaged(String),
    /// Its state is of another version than its manifest says.
    #[error("it is damaged (its `version` is not {0}, as its manifest says); take another backup")]
    OtherVersion(u32),
    /// The host cannot read or write it.
    #[error(transparent)]
    Host(#[from] io::Error),
    /// A member could not be taken over.
    #[error("{0}")]
    Refused(String),
}

/// The digits of a checksum.
fn hex(digest: &aws_lc_rs::digest::Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a name may be that of a member, or of a file below the state directory: it stays below, and has
/// no byte that means anything to a shell or a terminal.
pub fn is_plain(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.bytes().all(|byte| byte == b'.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    name.len() <= MAX_NAME && name.split('/').all(is_part)
}
