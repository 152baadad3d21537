//! Which node owns a virtual server, for which epoch and until when.
//!
//! A virtual server is a state directory with its addresses, names and shares. It moves between nodes
//! as a
//! whole, and one node owns it at a time. This crate decides nothing among nodes: a store does, such as
//! etcd
//! or a lock of the file system ([`store::TenureStore`]). The crate says what one node does about it.
//!
//! Start with [`ownership`]: the state machine of one node, from waiting for the tenure to its end. It
//! reads
//! no clock and calls no store. Its caller carries out each [`ownership::Action`] and reports the
//! outcome as an
//! [`ownership::OwnershipEvent`]. [`serving_term`] is the part that the transport asks before it sends
//! anything.

pub mod boot_time;
pub mod owner;
pub mod ownership;
pub mod serving_term;
pub mod store;

pub use boot_time::BootTime;
pub use owner::{Epoch, FailedAttempt, NodeOwner, TenureRecord};
pub use ownership::{Action, Ownership, OwnershipEvent, Times};
pub use serving_term::ServingTerm;
pub use store::{Claim, StoreError, TakeOutcome, Taken, TenureStore};
