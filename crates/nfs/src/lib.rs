//! Layer 3: the NFS server as a state machine: NFSv4.1 and 4.2 over ONC RPC (RFC 8881, RFC 7862).
//!
//! The modules are layers. Each layer knows only the ones below it:
//!
//! ```text
//!   connection         reads bytes, writes replies: RPC header, credentials, suspended requests, callbacks
//!   compound::dispatch runs a COMPOUND, one operation after the other
//!   op                 the operations, one file for each
//!   compound           the working data of operations: filehandles, stateid, reply, throttling
//!   server             the common parts of all connections: exports, tables, time
//!   state              state that outlives a request: clients, sessions, slots, opens, locks, delegations
//! ```
//!
//! Beside the layers stand [`attributes`] (reading and setting the attributes of an object) and the plain
//! values of [`config`], [`limits`], [`status`] and [`counting`].
//!
//! The path of a request: the transport calls [`connection::service`]. [`connection`] reads the RPC header
//! and begins a [`compound::Run`]. [`compound::dispatch`] runs its operations, which [`op`] implements. The
//! slot ([`state::slot`]) keeps the reply.
//!
//! Ownership (RFC 8881 2.10): a [`state::client`] owns its sessions and everything it has opened and locked
//! ([`state::stateid`]). A [`state::session`] owns its slots, and a slot does each request exactly once. A
//! connection owns nothing and only carries bytes. A retry may arrive on another connection than the request
//! did, so slots and their replies belong to the session.
//!
//! After a restart clients reclaim their state: [`state::client_records`] knows the clients, [`state::grace`]
//! keeps their opens, [`server::recovery`] begins and ends the grace period, and [`op::claim`] hands the
//! opens out.
//!
//! The crate has no sockets and no clock: bytes and the time are arguments, frames and jobs are results
//! (`wire::endpoint`).

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

pub use config::{Export, ManagedGids, Network, NoGroups, ServerConfig, Squash};
pub use server::Server;
