//! The provisioned limits of a share, and the pacing of requests so that the share gets its rates and no
//! more.
//!
//! Start with [`formula`], which turns a size into operations and bytes a second. [`Limits`] in [`tree`] has
//! the limits of one account: its own, those of its shares and those of single files. A request first asks
//! its share ([`ShareLimits::ask`]). It either goes on at once or is held until its share wakes it. It passes
//! one gate ([`gate`]) after the other, from the narrowest to the widest: file, share, account. So a request
//! that waits at its share's own gate has taken nothing yet from other shares. The waiters at a gate take
//! turns ([`fair_queue`]): first by client, then by the files and connections of each client. No request is
//! ever refused. A request that passes gets a [`Charge`], which travels with it and returns the bytes that it
//! does not use.
//!
//! There is no clock here. The code that owns the clock calls [`Limits::release`] when [`Alarm`] says so. An
//! engine without limits has none of this and makes no call.

pub mod bucket;
pub mod charge;
pub mod fair_queue;
pub mod formula;
pub mod gate;
pub mod outcome;
mod path;
pub mod tree;

pub use charge::Charge;
pub use formula::{AccountProvision, Formula, Provision, ProvisionError, ProvisionRequest, Throughput};
pub use outcome::ResponseType;
pub use tree::{
    Alarm, Hold, Limits, MeteredWork, ShareLimits, ShareState, ThrottleDecision, ThrottleRequest,
};
