//! Layer 1: the needs of the engine of a place that holds files, and nothing of any protocol.
//!
//! Start with [`Volume`] and [`Node`] in [`node`]. A volume hands out nodes; a node is an open file,
//! directory or symbolic link. Names are single components ([`Name`]), so nothing that is built on this
//! trait can leave the volume.
//!
//! - [`value`] holds the values that volume and engine exchange.
//! - [`error`] holds the reasons why a call fails.
//! - [`security`] holds identifiers and descriptors.
//! - [`event`] holds the changes that others made.
//! - [`journal`] keeps records that survive a crash.
//! - [`memory`] is a volume without a disk, for tests.
//! - [`faulty`] wraps any volume and injects failures.
//! - [`metered`] wraps any volume, counts its bytes and files, and enforces a quota.
//! - `conformance` (with the feature `testing`) is the behaviour that every kind of volume must show.

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod delegate;
pub mod error;
pub mod event;
pub mod faulty;
pub mod journal;
pub mod memory;
pub mod metered;
pub mod name;
pub mod node;
pub mod security;
pub mod value;

pub use error::{Failure, Result};
pub use event::{HostChange, HostEvent};
pub use metered::{Meter, MeteredVolume, QuotaRefusal, Usage};
pub use name::{BadName, Name};
pub use node::{Node, Volume, VolumeProperties};
pub use value::{
    ADDRESS_MAX, Actor, DirEntry, Extent, NodeId, NodeKind, Note, OpenHow, Overview, Patience, Space, Stat,
    StreamInfo, Time, Times,
};
