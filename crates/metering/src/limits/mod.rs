//! What a share is provisioned with, and how requests are paced so that it gets that and no more.
//!
//! Start with [`formula`]: how many operations and bytes a second a size buys. [`Limits`] in [`tree`] is what one
//! account has: its own limits, those of its shares, those of single files. A request that is to pass asks its
//! share ([`ShareLimits::ask`]) and either goes on at once or is held; a held one is woken when its time has come. It
//! passes one gate ([`gate`]) after the other, from the narrowest thing to the widest: file, share, account. What
//! waits at a share's own gate has taken nothing yet from its neighbours. At each gate those that wait take
//! turns ([`turns`]): clients first, then the files and connections of each. Nobody is ever refused. Who passes gets a
//! [`Charge`], which goes where the request goes and gives back what it does not use.
//!
//! There is no clock here. Whoever owns the time calls [`Limits::release`] when [`Alarm`] says so. An engine without
//! limits has none of this, and asks nobody.

pub mod bucket;
pub mod charge;
pub mod formula;
pub mod gate;
pub mod outcome;
mod path;
pub mod tree;
pub mod turns;

pub use charge::Charge;
pub use formula::{AccountProvision, Formula, NotProvided, Provision, Throughput, Wanted};
pub use outcome::ResponseType;
pub use tree::{Alarm, Answer, Ask, Hold, Limits, ShareLimits, ShareState, Work};
