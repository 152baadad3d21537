//! File attributes and reparse tags.

bitflags::bitflags! {
    /// MS-FSCC 2.6: the attributes of a file or directory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FileAttributes: u32 {
        /// Write and deletion are not allowed.
        const READONLY = 0x0000_0001;
        /// Excluded from ordinary listings.
        const HIDDEN = 0x0000_0002;
        /// Part of the operating system.
        const SYSTEM = 0x0000_0004;
        /// A directory.
        const DIRECTORY = 0x0000_0010;
        /// Changed since the last archiving.
        const ARCHIVE = 0x0000_0020;
        /// No other attribute. It is ignored beside others.
        const NORMAL = 0x0000_0080;
        /// Temporary storage.
        const TEMPORARY = 0x0000_0100;
        /// The file may have holes.
        const SPARSE_FILE = 0x0000_0200;
        /// The file has a reparse point.
        const REPARSE_POINT = 0x0000_0400;
        /// Compressed, or new children will be.
        const COMPRESSED = 0x0000_0800;
        /// The data is not immediately available.
        const OFFLINE = 0x0000_1000;
        /// Excluded from the content index.
        const NOT_CONTENT_INDEXED = 0x0000_2000;
        /// Encrypted, or new children will be.
        const ENCRYPTED = 0x0000_4000;
        /// The file has integrity support.
        const INTEGRITY_STREAM = 0x0000_8000;
        /// Excluded from the integrity scan.
        const NO_SCRUB_DATA = 0x0002_0000;
        /// An open fetches the file from a remote store. Only listings have this.
        const RECALL_ON_OPEN = 0x0004_0000;
        /// The file should be kept fully local.
        const PINNED = 0x0008_0000;
        /// The file need not be kept local.
        const UNPINNED = 0x0010_0000;
        /// A read fetches data from a remote store.
        const RECALL_ON_DATA_ACCESS = 0x0040_0000;

        const _ = !0;
    }
}

impl FileAttributes {
    /// The attributes that a client may set. The others depend on the file or its file system.
    pub const SETTABLE: FileAttributes = FileAttributes::READONLY
        .union(FileAttributes::HIDDEN)
        .union(FileAttributes::SYSTEM)
        .union(FileAttributes::ARCHIVE)
        .union(FileAttributes::TEMPORARY)
        .union(FileAttributes::OFFLINE)
        .union(FileAttributes::NOT_CONTENT_INDEXED)
        .union(FileAttributes::NO_SCRUB_DATA)
        .union(FileAttributes::PINNED)
        .union(FileAttributes::UNPINNED);

    /// The attributes for a response: NORMAL if there is no other attribute, and never beside another one.
    #[inline]
    #[must_use]
    pub fn shown(self) -> FileAttributes {
        let others = self.difference(FileAttributes::NORMAL);
        if others.is_empty() { FileAttributes::NORMAL } else { others }
    }
}

/// MS-FSCC 2.1.2.1: the owner of a reparse point and the meaning of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReparseTag(pub u32);

impl ReparseTag {
    /// A mount point or junction.
    pub const MOUNT_POINT: ReparseTag = ReparseTag(0xA000_0003);
    /// A link into the DFS name space.
    pub const DFS: ReparseTag = ReparseTag(0x8000_000A);
    /// A symbolic link. A client resolves only this tag by itself.
    pub const SYMLINK: ReparseTag = ReparseTag(0xA000_000C);
    /// A special file in the form of the Windows NFS server.
    pub const NFS: ReparseTag = ReparseTag(0x8000_0014);
    /// A symbolic link of the Windows Subsystem for Linux.
    pub const LX_SYMLINK: ReparseTag = ReparseTag(0xA000_001D);
    /// A Unix domain socket.
    pub const AF_UNIX: ReparseTag = ReparseTag(0x8000_0023);
    /// A FIFO of the Windows Subsystem for Linux.
    pub const LX_FIFO: ReparseTag = ReparseTag(0x8000_0024);
    /// A character device of the Windows Subsystem for Linux.
    pub const LX_CHR: ReparseTag = ReparseTag(0x8000_0025);
    /// A block device of the Windows Subsystem for Linux.
    pub const LX_BLK: ReparseTag = ReparseTag(0x8000_0026);

    /// Whether Microsoft owns the tag. Other owners have a GUID before their data.
    #[must_use]
    pub const fn is_microsoft(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }

    /// Whether the file stands for another named entity, as links do.
    #[must_use]
    pub const fn is_name_surrogate(self) -> bool {
        self.0 & 0x2000_0000 != 0
    }

    /// Whether the value is one of the three reserved ones, which cannot be set.
    #[must_use]
    pub const fn is_reserved(self) -> bool {
        self.0 <= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_stands_alone() {
        assert_eq!(FileAttributes::empty().shown(), FileAttributes::NORMAL);
        assert_eq!((FileAttributes::NORMAL | FileAttributes::HIDDEN).shown(), FileAttributes::HIDDEN);
        assert_eq!(FileAttributes::NORMAL.shown(), FileAttributes::NORMAL);
    }

    #[test]
    fn tag_bits_follow_the_diagram() {
        assert!(ReparseTag::SYMLINK.is_microsoft() && ReparseTag::SYMLINK.is_name_surrogate());
        assert!(ReparseTag::NFS.is_microsoft() && !ReparseTag::NFS.is_name_surrogate());
        assert!(!ReparseTag(0x0000_1234).is_microsoft());
        assert!(ReparseTag(2).is_reserved() && !ReparseTag(3).is_reserved());
    }
}
