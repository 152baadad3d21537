//! Layer 3: the SMB server as a state machine (MS-SMB2). No sockets, no clocks.
//!
//! The crate has floors. Each floor knows only those below it:
//!
//! ```text
//! service, run      the entry points for the transport; run takes a frame through its requests
//! dispatch          passes a request to its command
//! cmd               the commands, one file for each
//! connection        one connection: credits, signatures, lookups, waiting requests, replies
//! exchange          the requests of a frame, their outcomes, requests that were put aside
//! state             the state that outlives a connection: sessions, trees, Opens, clients, notices
//! ```
//!
//! Beside the floors stand `info` (the metadata of a file in wire form), `path` and the plain values of
//! [`config`], [`limits`], [`keys`], [`status`] and [`counting`].
//!
//! The path of a request: `run.rs` splits a message. Its [`connection`] decrypts it and checks the credit
//! window and the signature. The [`exchange`] then owns the message until it is answered. `dispatch.rs`
//! passes it to its command in [`cmd`]. Start with [`connection::Connection`].
//!
//! [`state`] never points back at a connection. [`interfaces`] lists the other addresses of the server.

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
pub use config::grantee::Grantee;
pub use config::kerberos::{DomainMember, KerberosConfig, PrincipalRefusal, PrincipalResolver};
pub use config::target::{Spn, TargetRule};
pub use config::{
    Access, Encryption, Homes, HostNames, NAMED_BY_USER, Ntlm, ServerConfig, ShareConfig, Signing,
    UserConfig, nobody,
};
pub use connection::Connection;
pub use state::Server;
