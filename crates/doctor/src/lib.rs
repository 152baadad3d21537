//! Layer 6: why a share is slow, layer by layer, and what to change.
//!
//! [`run`] examines one server or two and answers with a [`Report`]. To read on: `patient` goes through the layers and
//! fills in the [`facts`]; [`rules`] are functions from facts to [`finding`]s, in which everything is decided; [`verdict`](mod@verdict)
//! puts them in order, [`compare`](mod@compare) holds two servers against each other; `terminal` and [`html`] show all of it.
//! [`advise`](mod@advise) answers from a workload instead of a measurement; `live` asks a Trunkline server for its own account
//! of either.
//!
//! Whatever is made on a server lies in one directory that is deleted however the examination ends, and every wait for
//! an answer has an end.

pub mod advise;
mod args;
mod behind;
mod clear;
pub mod compare;
mod drive;
mod error;
mod existing;
pub mod facts;
pub mod finding;
mod gain;
mod html;
mod live;
mod mount;
mod mounted;
mod names;
mod packets;
mod patient;
mod ping;
mod protocol;
mod report;
mod route;
pub mod rules;
mod run;
mod sawtooth;
mod sweep;
mod taken;
mod tcp;
mod terminal;
#[cfg(test)]
mod testing;
pub mod verdict;

pub use advise::{Advice, AdviseArgs, advise};
pub use args::Args;
pub use error::Error;
pub use gain::Gain;
pub use html::html;
pub use mount::{Mount, MountConnection};
pub use report::{Examined, Report};
pub use run::run;
pub use taken::Taken;
pub use tcp::TcpInfo;
