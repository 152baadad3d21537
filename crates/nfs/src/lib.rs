//! Layer 3: the NFS server as a state machine: NFSv4.1 and 4.2 over ONC RPC (RFC 8881, RFC 7862).
//!
//! The floors, each of which knows only those below it:
//!
//! ```text
//! connection        bytes come in, answers go out: the RPC header, credentials, what waits, the calls to the client
//! compound::go      a COMPOUND: one operation after the other
//! op                the operations, one file for each
//! compound          what an operation has at hand: the filehandles, the stateid, the reply, the limits
//! server            what all connections share: exports, tables, time
//! state             what outlives a request: clients, sessions, slots, opens, locks, delegations
//! ```
//!
//! Beside them stand [`attributes`] (what is told and set of an object) and the plain values of [`config`], [`limits`],
//! [`status`] and [`counting`].
//!
//! The way of a request: [`connection::service`] is called by the transport, [`connection`] reads the RPC header and begins a
//! [`compound::Run`], [`compound::go`] leads it through the operations, [`op`] has them, and its slot
//! ([`state::slot`]) keeps the answer.
//!
//! What belongs to what (RFC 8881 2.10): a [`state::client`] has sessions and everything it has opened and locked
//! ([`state::stateid`]); a [`state::session`] has slots, in which each request is done exactly once; a connection owns
//! nothing and only carries bytes. A retry may come on another connection than the request, so that slots and their
//! replies are the session's.
//!
//! After a restart clients take up again what they had: [`state::roll`] knows who they were, [`state::grace`] keeps what
//! they had, [`server::restoring`] begins and ends that, and [`op::claim`] gives it back.
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
