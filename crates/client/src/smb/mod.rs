//! A client of SMB servers, 2.0.2 to 3.1.1: asynchronous, pipelined, signed or sealed.
//!
//! A [`Connection`] carries messages. A [`Session`] is a log-on with its keys. It uses connections, but
//! belongs to none of them. A [`Tree`] is a share in a session, and a [`File`] is an open in a tree. Any
//! number of operations can be pending at once on one connection. Each is a future, and the requests of all
//! tasks of a batch leave in one system call.
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
//! With [`Session::open_channels`] a session uses several connections (Multichannel) and survives the loss of
//! all but one. `examples/channels.rs` reads a file that way and prints the traffic of each connection.
//!
//! To read on: [`session`](Session::log_on) shows a log-on. `session/call.rs` follows a request to its reply,
//! whichever channels are lost meanwhile. `channels` chooses among the channels. `link` is the heart, where
//! requests wait for credits, are written, and meet their replies. `protection` signs and seals.
//!
//! Few credits make the client slower, but nothing fails because of them. A large request is split, and a
//! compound goes as single requests, one after the other (`session/series.rs`). The documentation below
//! promises one round trip where there are credits for it.
//!
//! The client asks for no oplocks and no leases. A lease saves reading data again, and sending written data
//! at once. But a copy reads and writes each byte once, and a load must reach the server. A lease would gain
//! nothing, and it would cost everybody who opens the same file the wait for a break. So no server ever has
//! to break an oplock or lease of this client.
//!
//! The server carries out an operation even if its future is dropped. A CREATE whose future is dropped may
//! leave a file open until the session ends. A request may take as long as the server shows that it lives. A
//! connection is lost if a reply is awaited and nothing arrives for [`Options::silence`]. Its pending
//! requests then use another channel or fail. For an earlier limit, wrap the request in
//! `tokio::time::timeout`.

mod buffer;
mod channels;
mod connection;
mod credits;
mod deliver;
mod file;
mod holes;
mod link;
mod links;
mod log_on;
mod negotiate;
mod offload;
mod options;
mod persistent;
mod protection;
mod ranges;
mod session;
mod sidecar;
mod small_file;
mod tickets;
mod tree;

pub use buffer::Reply;
pub use connection::Connection;
pub use file::{File, NamedEntry, ReadPayload};
pub use holes::Allocated;
pub use negotiate::Negotiated;
pub use offload::{COPIED_AT_ONCE, CopySource};
pub use options::{Credentials, DIALECTS, Options, Secret};
pub use persistent::PersistentHandle;
pub use session::open::{ChannelOptions, OpenedChannels};
pub use session::{LoggingOn, Session};
pub use sidecar::{ExtendedAttribute, Stream};
pub use small_file::{Fetched, Settings};
pub use tickets::{LibraryTickets, TicketArgs};
pub use tree::{OpenOptions, Tree};
