//! Layer 2: a directory of the host as a volume.
//!
//! Start with [`PosixVolume::open`]. A [`PosixNode`] holds one descriptor. All its operations use that
//! descriptor or a single component below it, so nothing here ever joins a path. (`address` opens paths
//! below the root that the host itself has just returned.)
//!
//! - `node` has the calls of a node by subject; `context` holds the state that all nodes of a volume
//!   share, and `root` the directory that they are opened from.
//! - `open`, `stat`, `bytes` and `scan` are calls on descriptors.
//! - `sidecar` stores the data that does not fit into the host's file system, and `quota` limits it.
//! - `actor` runs a call as another user of the host.
//! - `table` finds files again that the host does not find without their names.
//! - `pool` closes unused files when descriptors run short, and `reserve` says when.
//! - `file_systems` distinguishes the file systems below a volume, and `mounts` knows their mount points.
//! - `events` reports changes by others. All volumes of a process share one queue of the host.
//! - `journal` keeps records over a crash.
//! - `properties` determines the properties of the file system.
//! - `errno` is the table from the host's errors to the volume's, and `sys` has the few system calls that
//!   need `unsafe`.

mod actor;
mod bytes;
mod context;
mod errno;
mod events;
mod file_systems;
mod journal;
mod mounts;
mod node;
mod open;
mod pool;
mod properties;
mod quota;
mod reserve;
mod root;
mod scan;
mod sidecar;
mod stat;
mod store;
mod sys;
mod table;
mod volume;

pub use events::MissingEvents;
pub use journal::{
    Damage, JournalError, JournalSnapshot, PosixJournal, PosixMark, RecoveredJournal, try_at_one_moment,
};
pub use node::PosixNode;
pub use pool::IdleFiles;
pub use properties::{is_far, is_kernel_ceph};
pub use store::store_file;
pub use volume::{OpenError, PosixVolume};
