//! The values that a volume and the engine exchange.

use crate::Name;

/// Identifies a file as long as it exists. A later file may get the same identity; only [`Stat::born`]
/// tells the two apart then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    /// The number of the file system within the host, for as long as it is mounted.
    pub device: u64,
    /// The number of the file within the file system.
    pub inode: u64,
}

/// A run of a node's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its offset in the node.
    pub at: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its offset on the device. `None` while the host has not allocated it.
    pub physical: Option<u64>,
}

/// The greatest length of a node's address in bytes.
pub const ADDRESS_MAX: usize = 64;

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// A point in time: seconds since 1970-01-01 UTC (negative before) and nanoseconds within the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time {
    /// Whole seconds since 1970, rounded down.
    pub secs: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}

impl Time {
    /// The time that is `ns` nanoseconds after 1970.
    #[must_use]
    pub fn from_wall_ns(ns: i64) -> Time {
        let nanos = u32::try_from(ns.rem_euclid(1_000_000_000)).unwrap_or(0);
        Time { secs: ns.div_euclid(1_000_000_000), nanos }
    }
}

/// The attributes of a node at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its identity.
    pub id: NodeId,
    /// The file system that the node is on. The number stays the same when the file system is mounted
    /// again, and no two file systems below one volume have the same. It is 0 for the file system of the
    /// volume's root.
    pub file_system: u64,
    /// The kind of the node.
    pub kind: NodeKind,
    /// The length in bytes.
    pub size: u64,
    /// Bytes of allocated storage.
    pub allocated: u64,
    /// Number of hard links.
    pub links: u32,
    /// Permission bits, set-id and sticky bits (0o7777).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node (major << 32 | minor), else 0.
    pub rdev: u64,
    /// Time of the last read.
    pub accessed: Time,
    /// Time of the last change of data.
    pub modified: Time,
    /// Time of the last change of anything.
    pub changed: Time,
    /// Time of creation, if the host knows it.
    pub born: Option<Time>,
    /// Whether nobody may remove or rename the node, nor anything in it, not even root: `chattr +i` or
    /// `+a`.
    pub fixed: bool,
}

/// Times to set; `None` leaves a time as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Time of the last read.
    pub accessed: Option<Time>,
    /// Time of the last change of data.
    pub modified: Option<Time>,
}

/// Whether a call may wait for the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Returns [`crate::Failure::WouldBlock`] if the data is not in memory.
    Cached,
    /// Waits as long as it takes.
    Block,
}

/// The access that a node is opened for. The volume gives at least this, and more if that costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenHow {
    /// Attributes, notes and names only; a device is not touched.
    Attributes,
    /// Also data, for reading.
    Read,
    /// Also data, for reading and writing (a directory is opened as with `Read`).
    ReadWrite,
}

/// The user on whose behalf a name is created or removed. If the process may, the volume acts as this
/// user during the call. So the host's own rules apply, and new files belong to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// Small pieces of state that the engine stores with a node. If the process may, the volume stores them
/// where a file's owner cannot forge them. A note that does not fit there goes to the sidecar of the
/// file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Note {
    /// Attribute bits, creation time and flags: the engine's own compact record.
    Attributes,
    /// The security descriptor.
    Descriptor,
    /// Sixteen bytes by which other files refer to the file.
    ObjectId,
    /// A reparse point's tag and data.
    Reparse,
    /// The host's own POSIX access list, in the host's form. The engine does not own it. A change of the
    /// permission bits changes it, and the other way round.
    AccessList,
    /// The host's own POSIX list that a directory passes on to new children. The engine does not own it.
    DefaultList,
}

/// The state of a node that one call can read in addition to its attributes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overview {
    /// [`Note::Attributes`].
    pub attributes: Option<Vec<u8>>,
    /// Whether there is a [`Note::AccessList`].
    pub access_list: bool,
    /// Whether there is a [`Note::DefaultList`].
    pub default_list: bool,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name. `.` and `..` are never listed.
    pub name: Name,
    /// The inode number, on the directory's device.
    pub inode: u64,
    /// The kind of the node, if the directory stores it.
    pub kind: Option<NodeKind>,
    /// The position behind this entry, to resume from.
    pub cookie: u64,
}

/// A named stream beside a file's own data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// The name, with its case kept.
    pub name: Name,
    /// The length in bytes.
    pub size: u64,
    /// Bytes of allocated storage.
    pub allocated: u64,
}

/// The space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// All space.
    pub total: u64,
    /// Unused space.
    pub free: u64,
    /// Unused space that users without privilege can allocate.
    pub available: u64,
    /// The allocation unit.
    pub block: u32,
    /// The number of files that can exist. Zero if the host sets no bound.
    pub files: u64,
    /// The number of files that can still be created.
    pub files_free: u64,
}
