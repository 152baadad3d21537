//! A client of NFSv4.1 and 4.2 servers: asynchronous, pipelined, with one session over several connections
//! (`nconnect`).
//!
//! A [`Client`] has a session with a server. A [`ExportDirectory`] is found by its path, and a [`ExportFile`]
//! is opened in one. Any number of operations can be pending at once, each in a slot of the session. Others
//! wait for a slot. Requests use the connections in turn. When a connection is lost, its requests are sent
//! again on another one, each in its slot, so that the server's reply cache keeps them from being carried out
//! twice.
//!
//! ```no_run
//! use client::Bytes;
//! use client::nfs::{Client, Creation, OpenOptions, Options, StableHow};
//!
//! # async fn example() -> client::Result<()> {
//! let options = Options { connections: 4, ..Options::default() };
//! let client = Client::connect(("192.0.2.7", 2049), options).await?;
//! let directory = client.directory("/projects").await?;
//! let file = directory.open("today.txt", &OpenOptions::write(Creation::IfMissing(0o644))).await?;
//! file.write(0, &Bytes::from_static(b"hello"), StableHow::FileSync).await?;
//! println!("{}", String::from_utf8_lossy(&file.read(0, 4096).await?));
//! file.close().await?;
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! To read on: `client` shows the start, and `client_core` the tasks that keep the connections.
//! `client_core/call.rs` follows a COMPOUND from its slot to its results. It uses `slots`, `channels` and
//! `session`. `link` writes calls and reads replies. Callers state their identity themselves (AUTH_SYS), from
//! a low port if we may use one (`port`). The client takes delegations only if [`Options::delegations`] is
//! set, and returns them when the server recalls them (`callback`).
//!
//! A server that restarts forgets the open files. The client reclaims them before it goes on
//! (`client_core/reclaim.rs`). A file that the server does not return fails with [`crate::Error::StateLost`]
//! from then on.
//!
//! The server carries out an operation even if its future is dropped. The data of a WRITE goes from its
//! [`crate::Bytes`] to the socket, and the data of a large READ goes from the socket to its [`Data`]. Neither
//! is copied in between.

mod attributes;
mod callback;
mod channels;
mod client;
mod client_core;
mod compound_reply;
mod directory;
mod file;
mod link;
mod opens;
mod options;
mod owners;
mod port;
mod session;
mod sidecar;
mod slots;

pub use attributes::Attributes;
pub use client::Client;
pub use client_core::ServerIdentity;
pub use directory::links::has_no_links;
pub use directory::{DirectoryEntry, ExportDirectory};
pub use file::holes::SEEKS;
pub use file::{Data, ExportFile, Written};
pub use nfs_wire::NfsStat;
pub use nfs_wire::attr::{AceFlags, AceMask, AceType};
pub use nfs_wire::op::sequence::StatusFlags;
pub use nfs_wire::types::{FileType, NfsTime, StableHow};
pub use opens::{Creation, OpenOptions};
pub use options::Options;
pub use sidecar::{AccessEntry, Security};
