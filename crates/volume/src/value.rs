//! The values a volume exchanges with the engine.

use crate::Name;

/// Identifies a file as long as it exists; a later file may get the same identity, and only
/// [`Stat::born`] then tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    /// The file system within the host, as long as it is mounted.
    pub device: u64,
    /// The file within it.
    pub inode: u64,
}

/// A run of a node's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the node.
    pub at: u64,
    /// How long it is.
    pub len: u64,
    /// Where it begins on the store; none while the host has not decided that.
    pub place: Option<u64>,
}

/// Longest address of a node in bytes.
pub const ADDRESS_MAX: usize = 64;

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
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
    /// From nanoseconds since 1970.
    #[must_use]
    pub fn from_wall_ns(ns: i64) -> Time {
        let nanos = u32::try_from(ns.rem_euclid(1_000_000_000)).unwrap_or(0);
        Time { secs: ns.div_euclid(1_000_000_000), nanos }
    }
}

/// What is known of a node at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its identity.
    pub id: NodeId,
    /// Which file system it is on, by a number that stays the same when that is mounted anew and by which no two below one volume
    /// are taken for each other; 0 for the one that the volume's root is on.
    pub file_system: u64,
    /// What it is.
    pub kind: Kind,
    /// Length in bytes.
    pub size: u64,
    /// Bytes that are backed by storage.
    pub allocated: u64,
    /// Hard links.
    pub links: u32,
    /// Permission bits, set-id and sticky bits (0o7777).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node (major << 32 | minor), else 0.
    pub rdev: u64,
    /// Last read.
    pub accessed: Time,
    /// Last change of data.
    pub modified: Time,
    /// Last change of anything.
    pub changed: Time,
    /// Creation, where the host knows it.
    pub born: Option<Time>,
    /// The host lets nobody remove or rename it, nor anything in it, not even root: `chattr +i` or `+a`.
    pub fixed: bool,
}

/// Times to set; `None` leaves a time as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Last read.
    pub accessed: Option<Time>,
    /// Last change of data.
    pub modified: Option<Time>,
}

/// Whether a call may wait for the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Answer from memory or say [`crate::Failure::WouldBlock`].
    Cached,
    /// Wait as long as it takes.
    Block,
}

/// What a node is opened for. The volume gives at least this, and more where that costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenHow {
    /// Attributes, notes and names only; a device is not touched.
    Attributes,
    /// Also data, for reading.
    Read,
    /// Also data, for reading and writing (a directory is opened as with `Read`).
    ReadWrite,
}

/// On whose behalf a name is made or removed. When the process may, the volume acts as this user for
/// the call, so that the host's own rules hold and new files belong to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// Small pieces of state that the engine keeps with a node. The volume stores each where a file's
/// owner cannot forge it, if the process may, and moves what does not fit beside the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Note {
    /// Attribute bits, creation time and flags: the engine's own compact record.
    Attributes,
    /// The security descriptor.
    Descriptor,
    /// Sixteen bytes by which others link to the file.
    ObjectId,
    /// A reparse point's tag and data.
    Reparse,
    /// Not the engine's: the host's own POSIX access list, as the host keeps it. The permission bits follow it, and it them.
    AccessList,
    /// Not the engine's: the POSIX list that a directory of the host gives to what is made in it.
    DefaultList,
}

/// What one look at a node tells of what lies beside its figures.
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
    /// Its name. `.` and `..` are never listed.
    pub name: Name,
    /// Inode number within the directory's device.
    pub inode: u64,
    /// What it is, where the directory says so.
    pub kind: Option<Kind>,
    /// Resumes behind this entry.
    pub cookie: u64,
}

/// A named stream beside a file's own data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// Its name, case kept.
    pub name: Name,
    /// Length in bytes.
    pub size: u64,
    /// Bytes that are backed by storage.
    pub allocated: u64,
}

/// Room on the volume, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// In all.
    pub total: u64,
    /// Not used.
    pub free: u64,
    /// Not used and open to those without privilege.
    pub available: u64,
    /// Allocation unit.
    pub block: u32,
    /// Files that there is room for in all; zero where the host sets no bound.
    pub files: u64,
    /// Of these, how many more can be made.
    pub files_free: u64,
}
