//! Layer 2: a directory of the host as a volume.
//!
//! Start with [`PosixVolume::open`]. A [`PosixNode`] holds one descriptor, and everything it does goes
//! through that descriptor or a single component below it, so nothing here ever joins a path. (`address` opens
//! paths below the root that the host itself has just told.)
//!
//! The folder `node` has a node's calls by subject; `shared` is what all nodes of a volume have in common, and `root` what they are
//! opened from; `open`, `stat`, `bytes` and `scan` are calls on descriptors; `beside` keeps what
//! the host's file system has no room for; `actor` runs a call as another user of the host; `table` says where a file stands that the
//! host does not find again without its name; `pool` closes files that nobody uses when descriptors run short, `kept_back`
//! says when; `file_systems` tells
//! the file systems below a volume apart, `mounts` where they are; `events`
//! tells what others change; `journal` keeps records over a crash; `errno` is the one table from the host's errors to ours, and `sys` the few
//! system calls that need `unsafe`.

mod actor;
mod beside;
mod bytes;
mod errno;
mod events;
mod facts;
mod file_systems;
mod journal;
mod kept_back;
mod mounts;
mod node;
mod open;
mod pool;
mod room;
mod root;
mod scan;
mod shared;
mod stat;
mod sys;
mod table;
mod volume;

pub use journal::{Damage, Found, JournalError, PosixJournal};
pub use node::PosixNode;
pub use pool::IdleFiles;
pub use volume::{OpenError, PosixVolume};
