//! Layer 3: the NFS server as a state machine: NFSv4.1 and 4.2 over ONC RPC (RFC 8881, RFC 7862).
//!
//! Start with [`server`]: what all connections share. A message comes to [`connection`], which reads the RPC header
//! and hands a COMPOUND to [`compound`]; that runs one operation after the other, each of which is a file in [`op`].
//!
//! What belongs to what (RFC 8881 2.10): a [`state::client`] has sessions and everything it has opened and locked
//! ([`state::stateid`]); a [`state::session`] has slots, in which each request is done exactly once; a connection owns nothing and
//! only carries bytes. A retry may come on another connection than the request, so that slots and their replies are
//! the session's.
//!
//! After a restart clients take up again what they had: [`state::roll`] knows who they were, [`state::grace`] keeps what they had, and
//! [`server::restoring`] gives it back.
//!
//! No sockets, no clock: bytes and the time are arguments, frames and jobs come out (`wire::endpoint`).

pub mod attributes;
pub mod compound;
pub mod config;
pub mod connection;
pub mod counting;
pub mod limits;
pub mod op;
pub mod server;
pub mod state;
pub mod status;

pub use config::{Export, Network, ServerConfig, Squash};
pub use server::Server;
