//! Layer 6: why a share is slow, layer by layer, and what to change.
//!
//! [`run()`] examines one server or two and returns a [`Report`]. Read on in this order. `examination` goes
//! through the layers and fills in the [`measurements`]. [`rules`] are functions from measurements to
//! [`finding`]s; they make all decisions. [`verdict`](mod@verdict) sorts the findings, and
//! [`compare`](mod@compare) compares two servers. `terminal` and [`html()`] show all of it.
//! [`advise`](mod@advise) answers from a workload instead of a measurement. `server_account` asks a
//! Trunkline server for its own counts.
//!
//! All test files on a server are in one directory, which is deleted however the examination ends. Every
//! wait for a reply has a limit.

pub mod advise;
mod args;
mod cleanup;
pub mod compare;
mod connection_gain;
mod drive;
mod error;
mod examination;
mod existing;
pub mod finding;
mod html;
pub mod measurements;
mod mount;
mod mount_cleanup;
mod mounted;
mod names;
mod observed_workload;
mod packets;
mod ping;
mod private_addresses;
mod protocol;
mod report;
mod route;
pub mod rules;
mod run;
mod sawtooth;
mod server_account;
mod tcp;
mod terminal;
#[cfg(test)]
mod testing;
pub mod verdict;

pub use advise::{Advice, AdviseArgs, advise};
pub use args::Args;
pub use connection_gain::Gain;
pub use error::Error;
pub use html::html;
pub use mount::{Mount, MountConnection};
pub use observed_workload::ObservedWorkload;
pub use report::{Examined, Report};
pub use run::run;
pub use tcp::TcpInfo;
