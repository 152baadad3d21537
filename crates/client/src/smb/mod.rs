//! A client of SMB servers, 2.0.2 to 3.1.1: asynchronous, pipelined, signed or sealed.
//!
//! A [`Connection`] carries messages; a [`Session`] is a login, with the keys, and uses connections without
//! belonging to one; a [`Tree`] is a share in a session and a [`File`] an open in a tree. Any number of
//! operations can be under way at once on one connection: each is a future, and what tasks send in one turn
//! leaves in one system call.
//!
//! ```no_run
//! use client::smb::{Connection, Credentials, OpenOptions, Options, Session};
//!
//! # async fn example() -> client::Result<()> {
//! let connection = Connection::connect(("192.0.2.7", 445), "files", &Options::default()).await?;
//! let alice = Credentials::new("alice", "her password");
//! let session = Session::log_on(&connection, &alice, false).await?;
//! let tree = session.connect("projects").await?;
//! let file = tree.open("notes/today.txt", &OpenOptions::read()).await?;
//! let begin = file.read(0, 4096).await?;
//! println!("{} bytes: {}", begin.len(), String::from_utf8_lossy(&begin));
//! file.close().await?;
//! session.log_off().await?;
//! # Ok(())
//! # }
//! ```
//!
//! With [`Session::open_channels`] a session uses several connections (Multichannel) and outlives all but one;
//! `examples/channels.rs` reads a file that way and prints what each of them has carried.
//!
//! To read on: [`session`](Session::log_on) shows a login; `session/call.rs` follows a request to its reply, whichever
//! channels are lost meanwhile; `channels` chooses among them; `link` is the heart, where requests wait for credits,
//! are written, and meet their replies; `protection` signs and seals.
//!
//! Few credits make the client slower, and nothing fails of them: a large request goes in parts, and a compound as single
//! requests, one after the other (`session/series.rs`). Where one round trip is promised below, the credits for it are taken for granted.
//!
//! The client asks for no oplocks and no leases. A lease saves asking again for what was read, and sending at once what is
//! written: a copy reads and writes each byte once, and a load is to reach the server. It would gain nothing and cost
//! whoever opens the same file the wait for a break, so no server ever has to break one of ours.
//!
//! An operation that is dropped is still done by the server: a CREATE given up half way may leave a file open
//! until the session ends. A request may take as long as the server shows that it lives: a connection on which something
//! is awaited and nothing comes for [`Options::silence`] is lost, and what was under way there goes over another channel or
//! fails. Who wants an answer sooner wraps the request in `tokio::time::timeout`.

mod beside;
mod buffer;
mod channels;
mod connection;
mod credits;
mod deliver;
mod file;
mod holes;
mod lasting;
mod link;
mod links;
mod log_on;
mod negotiate;
mod offload;
mod options;
mod protection;
mod ranges;
mod session;
mod tree;
mod whole;

pub use beside::{ExtendedAttribute, Stream};
pub use buffer::Reply;
pub use connection::Connection;
pub use file::{Data, DirectoryEntry, File};
pub use holes::Allocated;
pub use lasting::Lasting;
pub use negotiate::Negotiated;
pub use offload::{COPIED_AT_ONCE, CopySource};
pub use options::{Credentials, DIALECTS, Options};
pub use session::open::{ChannelOptions, Opened};
pub use session::{LoggingOn, Session};
pub use tree::{OpenOptions, Tree};
pub use whole::{Fetched, Settings};
