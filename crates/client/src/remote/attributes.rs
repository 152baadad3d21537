//! The attributes of files and directories, for every side alike.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use smb_wire::create::FileInfo;
use smb_wire::fscc::{FileAttributes, ReparseTag, directory};

use super::times::unix_ns;
use crate::nfs::{self, FileType, NfsTime};
use crate::smb;

/// The type of the object that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a pipe or a junction.
    Other,
}

/// The bits of a mode that are not permissions: setuid, setgid and sticky (POSIX, sys/stat.h).
pub const SPECIAL: u32 = 0o7000;

/// The bits of a mode without the file type.
pub const MODE: u32 = 0o7777;

/// The FILE_ATTRIBUTE bits that users set.
pub const KEPT: FileAttributes = FileAttributes::READONLY
    .union(FileAttributes::HIDDEN)
    .union(FileAttributes::SYSTEM)
    .union(FileAttributes::ARCHIVE);

/// The file system of a file, and the file's number in it.
pub type FileIdentity = (u128, u64);

/// The attributes of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The type.
    pub kind: Kind,
    /// Whether it may be listed: a directory, and on a share also a junction or a link to one.
    pub may_be_listed: bool,
    /// The size of its data in bytes.
    pub size: u64,
    /// The time of the last change of its data, in nanoseconds since 1970. An `i64` ends in 2262, which is
    /// too early for every side.
    pub modified: i128,
    /// The identity of a file with further names, if it is known.
    pub node: Option<FileIdentity>,
    /// Whether it may have holes.
    pub sparse: bool,
    /// The permission bits, including those of [`SPECIAL`], if it has any.
    pub mode: Option<u32>,
    /// Its bits of [`KEPT`], if it has any.
    pub attributes: Option<u32>,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name. No NFS server is bound to UTF-8.
    pub name: Vec<u8>,
    /// The attributes of the object with that name.
    pub attributes: Attributes,
}

impl Attributes {
    /// Its bits of [`SPECIAL`].
    #[must_use]
    pub fn special(&self) -> u32 {
        self.mode.unwrap_or(0) & SPECIAL
    }

    /// Whether anything but its type is known.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.modified != 0 || self.mode.is_some() || self.attributes.is_some()
    }

    /// Whether the two are equal as far as can be seen: one file at two times, or a file and its copy. Times
    /// are compared with the resolution of the coarsest clock, which is that of SMB: 100 ns.
    #[must_use]
    pub fn looks_like(&self, other: &Attributes) -> bool {
        let times = (self.modified.div_euclid(100), other.modified.div_euclid(100));
        self.kind == other.kind && self.size == other.size && times.0 == times.1
    }
}

/// The tags of reparse points that are neither links nor files nor directories.
const SPECIAL_TAGS: [ReparseTag; 4] =
    [ReparseTag::AF_UNIX, ReparseTag::LX_FIFO, ReparseTag::LX_CHR, ReparseTag::LX_BLK];
/// The tags of symbolic links of a share. The Windows NFS server may store something else under its tag,
/// which a read shows.
pub const LINKS: [ReparseTag; 3] = [ReparseTag::SYMLINK, ReparseTag::LX_SYMLINK, ReparseTag::NFS];

/// Whether a reparse point with this tag stands for something else, or for an object without data. An object
/// that is stored elsewhere, for example by deduplication or in a cloud, is an ordinary file or directory.
fn is_other(tag: ReparseTag) -> bool {
    // MS-FSCC 2.1.2.1
    tag.is_name_surrogate() || SPECIAL_TAGS.contains(&tag)
}

/// Converts the attributes of a share. `tag` is known only from a listing. An opened object is not a link but
/// its target, and an object with data is not special.
fn of_share(
    size: u64,
    allocated: u64,
    written: i64,
    bits: FileAttributes,
    tag: Option<ReparseTag>,
) -> Attributes {
    let has_data = size > 0 || bits.contains(FileAttributes::DIRECTORY);
    let is_reparse = bits.contains(FileAttributes::REPARSE_POINT);
    let kind = if is_reparse && tag.is_some_and(|tag| LINKS.contains(&tag)) {
        Kind::Link
    } else if is_reparse && tag.map_or(!has_data, is_other) {
        Kind::Other
    } else if bits.contains(FileAttributes::DIRECTORY) {
        Kind::Directory
    } else {
        Kind::File
    };
    Attributes {
        kind,
        may_be_listed: bits.contains(FileAttributes::DIRECTORY),
        size: if kind == Kind::File { size } else { 0 },
        modified: unix_ns(written),
        // A listing does not tell the number of names of a file.
        node: None,
        sparse: bits.contains(FileAttributes::SPARSE_FILE) || allocated < size,
        mode: None,
        attributes: Some((bits & KEPT).bits()),
    }
}

impl From<&FileInfo> for Attributes {
    fn from(info: &FileInfo) -> Attributes {
        let bits = FileAttributes::from_bits_retain(info.file_attributes);
        of_share(info.end_of_file, info.allocation_size, info.last_write_time as i64, bits, None)
    }
}

impl From<&directory::ListingEntry> for Attributes {
    fn from(it: &directory::ListingEntry) -> Attributes {
        let (size, allocated, written) = (it.end_of_file, it.allocation_size, it.last_write_time.0);
        of_share(size, allocated, written, it.file_attributes, Some(it.reparse_tag))
    }
}

impl From<&nfs::Attributes> for Attributes {
    fn from(known: &nfs::Attributes) -> Attributes {
        let kind = match known.kind {
            FileType::Reg => Kind::File,
            FileType::Dir => Kind::Directory,
            FileType::Lnk => Kind::Link,
            _ => Kind::Other,
        };
        let NfsTime { seconds, nseconds } = known.modified;
        let (major, minor) = known.file_system;
        let file_system = u128::from(major) << 64 | u128::from(minor);
        Attributes {
            kind,
            may_be_listed: kind == Kind::Directory,
            size: if kind == Kind::File { known.size } else { 0 },
            modified: i128::from(seconds) * 1_000_000_000 + i128::from(nseconds),
            node: (kind == Kind::File && known.links > 1).then_some((file_system, known.file_id)),
            sparse: known.space_used.is_none_or(|used| used < known.size),
            mode: Some(known.mode & MODE),
            attributes: None,
        }
    }
}

impl From<&Metadata> for Attributes {
    fn from(known: &Metadata) -> Attributes {
        let kind = match known.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        Attributes {
            kind,
            may_be_listed: kind == Kind::Directory,
            size: if kind == Kind::File { known.len() } else { 0 },
            modified: i128::from(known.mtime()) * 1_000_000_000 + i128::from(known.mtime_nsec()),
            node: (kind == Kind::File && known.nlink() > 1).then(|| (known.dev().into(), known.ino())),
            sparse: known.blocks() * 512 < known.len(),
            mode: Some(known.mode() & MODE),
            attributes: None,
        }
    }
}

impl From<smb::NamedEntry> for Entry {
    fn from(it: smb::NamedEntry) -> Entry {
        Entry { attributes: Attributes::from(&it.entry), name: it.name.into_bytes() }
    }
}

impl From<nfs::DirectoryEntry> for Entry {
    fn from(it: nfs::DirectoryEntry) -> Entry {
        Entry { attributes: Attributes::from(&it.attributes), name: it.name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_apart_is_a_file_and_a_link_or_junction_is_none() {
        // Deduplication, Azure File Sync and OneDrive; links, junctions and what is special to Unix.
        let files = [0x8000_0013, 0x8000_001E, 0x9000_101A].map(ReparseTag);
        let others = [ReparseTag::MOUNT_POINT, ReparseTag::LX_FIFO, ReparseTag::AF_UNIX];
        let known = |more: FileAttributes, tag| {
            let bits = FileAttributes::REPARSE_POINT | more;
            of_share(7, 8, 0, bits, tag)
        };
        let kind = |more, tag| known(more, tag).kind;
        for tag in files {
            assert_eq!(kind(FileAttributes::ARCHIVE, Some(tag)), Kind::File);
            assert_eq!(kind(FileAttributes::DIRECTORY, Some(tag)), Kind::Directory);
        }
        for tag in others {
            assert_eq!(kind(FileAttributes::DIRECTORY, Some(tag)), Kind::Other);
        }
        for tag in LINKS {
            assert_eq!(kind(FileAttributes::DIRECTORY, Some(tag)), Kind::Link);
        }
        for tag in [ReparseTag::MOUNT_POINT, ReparseTag::SYMLINK] {
            assert!(known(FileAttributes::DIRECTORY, Some(tag)).may_be_listed);
            assert!(!known(FileAttributes::ARCHIVE, Some(tag)).may_be_listed);
        }
        assert_eq!(kind(FileAttributes::ARCHIVE, None), Kind::File);
    }
}
