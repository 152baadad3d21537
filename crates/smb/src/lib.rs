//! Layer 3: the SMB server as a state machine (MS-SMB2). No sockets, no clocks.
//!
//! The way of a request: [`exchange`] takes a message apart, opens its seal, has its place in the credit window and its
//! signature checked, and owns it until it is answered; [`dispatch`] finds session and tree and hands it to its command in
//! [`cmd`], one file each. Start with [`connection::Connection`].
//!
//! What outlives a connection is elsewhere, and never points back at one: [`server`] has the tables,
//! [`session`] identity, keys and trees, [`open`] what CREATE made, [`durable`] which of it outlives its
//! session, [`client`] a client's connections,
//! [`interfaces`] where else the server can be found. [`notice`] takes a break over one of the connections,
//! or the next when that fails.

pub mod account;
mod admit;
mod brake;
mod changing;
pub mod client;
mod closing;
pub mod cmd;
mod complaints;
pub mod config;
pub mod connection;
pub mod counters;
pub mod counting;
pub mod dispatch;
pub mod durable;
pub mod event;
pub mod exchange;
mod handle;
pub mod index;
mod info;
pub mod interfaces;
pub mod keys;
pub mod limits;
pub mod notice;
pub mod open;
mod own_notices;
mod pacing;
mod path;
mod persistent;
mod pipe;
mod recording;
mod room;
pub mod sequence;
pub mod server;
pub mod service;
pub mod session;
pub mod status;
pub mod target;
use wire::table;
pub mod time;
pub mod tree;
pub mod window;

pub use account::AccountConfig;
pub use config::{Access, Encryption, HostNames, ServerConfig, ShareConfig, Signing, UserConfig};
pub use connection::Connection;
pub use server::Server;
pub use target::{Spn, TargetRule};
