//! Layer 3: the NFS server as a state machine: NFSv4.1 and 4.2 over ONC RPC (RFC 8881, RFC 7862).
//!
//! Start with [`server`]: what all connections share. A message comes to [`connection`], which reads the RPC header
//! and hands a COMPOUND to [`compound`]; that runs one operation after the other, each of which is a file in [`op`].
//!
//! What belongs to what (RFC 8881 2.10): a [`client`] has sessions and everything it has opened and locked
//! ([`state`]); a [`session`] has slots, in which each request is done exactly once; a connection owns nothing and
//! only carries bytes. A retry may come on another connection than the request, so that slots and their replies are
//! the session's.
//!
//! After a restart clients take up again what they had: [`roll`] knows who they were, [`grace`] keeps what they had, and
//! [`reclaim`] gives it back.
//!
//! No sockets, no clock: bytes and the time are arguments, frames and jobs come out (`wire::endpoint`).

pub mod acl;
pub mod attributes;
pub mod back;
pub mod client;
pub mod clients;
pub mod compound;
pub mod config;
pub mod connection;
pub mod counting;
pub mod current;
pub mod event;
pub mod grace;
pub mod handle;
pub mod items;
pub mod leaving;
pub mod limits;
pub mod memory;
pub mod op;
pub mod pacing;
pub mod promised;
pub mod proxied;
pub mod reclaim;
pub mod record;
mod recording;
pub mod roll;
pub mod server;
pub mod service;
pub mod session;
pub mod slot;
pub mod state;
pub mod status;
pub mod turns;
pub mod who;

pub use config::{Export, Network, ServerConfig, Squash};
pub use server::Server;
