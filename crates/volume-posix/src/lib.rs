//! Layer 2: a directory of the host as a volume.
//!
//! Start with [`PosixVolume::open`]. A [`PosixNode`] holds one descriptor, and everything it does goes
//! through that descriptor or a single component below it, so nothing here ever joins a path. (`address` opens
//! paths below the root that the host itself has just told.)
//!
//! `names`, `data`, `attributes`, `streams` and `scan` are a node's calls by subject; `beside` keeps what
//! the host's file system has no room for; `actor` runs a call as another user of the host; `address` finds a file
//! again without its name, by `table` where the host does not; `pool` closes files that nobody uses when descriptors run short, `kept_back`
//! says when; `file_systems` tells
//! the file systems below a volume apart, `mounts` where they are; `events`
//! tells what others change; `journal` keeps records over a crash; `errno` is the one table from the host's errors to ours, and `sys` the few
//! system calls that need `unsafe`.

mod actor;
mod address;
mod attributes;
mod beside;
mod data;
mod errno;
mod events;
mod facts;
mod file_systems;
mod journal;
mod kept_back;
mod mounts;
mod names;
mod node;
mod pool;
mod room;
mod scan;
mod streams;
mod sys;
mod table;
mod volume;

pub use journal::{Damage, Found, JournalError, PosixJournal};
pub use node::PosixNode;
pub use pool::IdleFiles;
pub use volume::{OpenError, PosixVolume};
