//! State that outlives a request and a connection, and never points back at either.
//!
//! [`server`] has the tables. [`session`] has identity, keys and trees ([`tree`]). [`open`] has the Opens,
//! [`durable`] the rules by which some outlive their session, and [`persistent`] the record that outlives
//! the server. [`expected`] has the ids of those that are not restored yet. [`client`] lists a client's
//! connections by their [`handle`]s. [`notice`] sends a break over one of them, or over the next when that
//! fails.

pub(crate) mod channel_limit;
pub mod client;
pub mod counters;
pub mod durable;
pub(crate) mod expected;
pub mod handle;
pub mod index;
pub mod notice;
pub mod open;
pub(crate) mod password_delay;
pub(crate) mod pending_closes;
pub(crate) mod persistent;
pub(crate) mod rate_limited_log;
pub mod sequence;
pub mod server;
pub mod session;
pub mod ticket_ends;
pub mod tree;

pub use client::Client;
pub use handle::{Completion, Event, Handle};
pub(crate) use open::OnDisk;
pub use open::{Object, Open};
pub use server::Server;
pub use session::Session;
pub use tree::{Tree, TreeTarget};
