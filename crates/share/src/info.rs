//! The properties of an open file, as the engine gives them to protocols.

use bitflags::bitflags;
use volume::{NodeId, NodeKind, Time};

bitflags! {
    /// Attribute bits. They are numbered as in NT (MS-FSCC 2.6), because they are stored so.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Attributes: u32 {
        /// May not be written.
        const READ_ONLY = 0x0000_0001;
        /// Not shown by default.
        const HIDDEN = 0x0000_0002;
        /// Belongs to the operating system.
        const SYSTEM = 0x0000_0004;
        /// A directory.
        const DIRECTORY = 0x0000_0010;
        /// Changed since the last backup.
        const ARCHIVE = 0x0000_0020;
        /// None of the others.
        const NORMAL = 0x0000_0080;
        /// Short-lived.
        const TEMPORARY = 0x0000_0100;
        /// Holes are kept.
        const SPARSE = 0x0000_0200;
        /// A reparse point or symbolic link.
        const REPARSE = 0x0000_0400;
        /// Compressed.
        const COMPRESSED = 0x0000_0800;
        /// Kept elsewhere.
        const OFFLINE = 0x0000_1000;
        /// Not to be indexed.
        const NOT_INDEXED = 0x0000_2000;
        /// Encrypted.
        const ENCRYPTED = 0x0000_4000;
    }
}

/// The properties of a file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Identity, as long as its file system is mounted.
    pub id: NodeId,
    /// The file system, numbered as in `Stat::file_system`: 0 for the share's own.
    pub file_system: u64,
    /// The kind of object on the host.
    pub kind: NodeKind,
    /// Attribute bits; `NORMAL` alone if there is no other.
    pub attributes: Attributes,
    /// Creation.
    pub created: Time,
    /// Last read.
    pub accessed: Time,
    /// Last change of data.
    pub modified: Time,
    /// Last change of anything.
    pub changed: Time,
    /// Length in bytes (of the stream that is open).
    pub size: u64,
    /// Bytes backed by storage, or reserved.
    pub allocated: u64,
    /// Hard links, less one if deletion is pending.
    pub links: u32,
    /// Whether it is deleted with its last open.
    pub delete_pending: bool,
    /// Permission bits.
    pub mode: u32,
    /// Host user.
    pub uid: u32,
    /// Host group.
    pub gid: u32,
    /// Size in bytes that its extended attributes take in NT's list form; 0 for none.
    pub extended_size: u32,
    /// Tag of the reparse point, 0 for none.
    pub reparse_tag: u32,
    /// Device number of a device node (major << 32 | minor).
    pub rdev: u64,
    /// A number that moves with every change of the file, and never back, as [`crate::Share::item_info`]
    /// returns it.
    pub version: u64,
}

impl Info {
    /// A number that no other file of the share has: the inode number on the share's own file system. On
    /// another one it is a mixture with the highest bit set, which no inode number of a common file system
    /// has.
    #[must_use]
    pub fn number(&self) -> u64 {
        number_on(self.file_system, self.id.inode)
    }

    /// A number in 128 bits, which holds the full number of the other file system.
    #[must_use]
    pub fn wide_number(&self) -> u128 {
        u128::from(self.file_system) << 64 | u128::from(self.id.inode)
    }
}

/// [`Info::number`] of an inode number on a file system.
pub(crate) fn number_on(file_system: u64, inode: u64) -> u64 {
    if file_system == 0 {
        return inode;
    }
    let mut mixed = inode.wrapping_add(file_system.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for step in [30, 27, 31] {
        mixed = (mixed ^ mixed >> step).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    mixed | 1 << 63
}

/// Size in bytes of extended attributes in NT's list form; 0 for none.
// MS-FSCC 2.4.15
pub(crate) fn extended_size(list: &[(Vec<u8>, Vec<u8>)]) -> u32 {
    if list.is_empty() {
        return 0;
    }
    // A count of four bytes, then for each: four bytes, the name with its end, the value.
    let size: usize = 4 + list.iter().map(|(name, value)| 5 + name.len() + value.len()).sum::<usize>();
    u32::try_from(size).unwrap_or(u32::MAX)
}
