//! Layer 3: the SMB server as a state machine (MS-SMB2). No sockets, no clocks.
//!
//! The floors, each of which knows only those below it:
//!
//! ```text
//! service, run      what the transport calls; a frame on its way, one request after the other
//! dispatch          from a request to its command
//! cmd               the commands, one file for each
//! connection        what a connection knows and does: credits, signatures, what a request names, what waits, the answers
//! exchange          the requests of a frame under way, how they end, what is put aside
//! state             what outlives a connection: sessions, trees, Opens, clients, notices
//! ```
//!
//! Beside them stand `info` (what is told of a file), `path` and the plain values of [`config`], [`limits`], [`keys`],
//! [`status`] and [`counting`].
//!
//! The way of a request: `run.rs` takes a message apart, has its seal opened, its place in the credit window and its signature
//! checked by its [`connection`], and makes the [`exchange`] that owns it until it is answered; `dispatch.rs` hands it to its
//! command in [`cmd`]. Start with [`connection::Connection`].
//!
//! What outlives a connection is in [`state`], and never points back at one. [`interfaces`] says where else the server can be found.

pub mod cmd;
pub mod config;
pub mod connection;
pub mod counting;
mod dispatch;
pub mod exchange;
mod info;
pub mod interfaces;
pub mod keys;
pub mod limits;
mod path;
mod run;
pub mod service;
pub mod state;
pub mod status;
pub mod time;

use wire::table;

pub use config::account::{self, AccountConfig};
pub use config::target::{Spn, TargetRule};
pub use config::{Access, Encryption, HostNames, ServerConfig, ShareConfig, Signing, UserConfig};
pub use connection::Connection;
pub use state::Server;
