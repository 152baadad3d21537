//! Layer 1: what the engine needs of a place that holds files, and nothing of any protocol.
//!
//! Start with [`Volume`] and [`Node`] in [`node`]: a volume hands out nodes, a node is an open file,
//! directory or symbolic link of the place. Names are single components ([`Name`]), so nothing that
//! is built on this trait can leave the volume. [`value`] holds what they exchange, [`error`] why a
//! call failed, [`security`] identities' ids and descriptors, [`event`] what others changed, [`journal`]
//! records that are kept over a crash.
//!
//! [`memory`] is a volume without a disk for tests, [`faulty`] wraps any volume and injects failures, [`metered`] wraps
//! any volume, counts what lies on it and keeps it within a bound, and `conformance` (with the feature `testing`) is what every kind of volume is held to.

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
pub use node::{Facts, Node, Volume};
pub use value::{
    ADDRESS_MAX, Actor, DirEntry, Extent, Kind, NodeId, Note, OpenHow, Overview, Patience, Space, Stat,
    StreamInfo, Time, Times,
};
