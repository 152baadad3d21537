//! Layer 4: user-space clients of file servers, asynchronous and pipelined, with several connections for one
//! session.
//!
//! [`smb`] speaks SMB 2.0.2 to 3.1.1 and [`nfs`] speaks NFSv4.1 and 4.2. Each begins with an example. Both
//! use the same transport (`transport`), which writes the frames of all tasks of a batch with one system
//! call. All operations fail with one [`Error`].
//!
//! [`remote`] is the common tree of files over SMB, NFS and this host. A [`Url`] says where files are.
//! [`written`] parses other text that users write: servers, sizes and files with secrets.

mod error;
pub mod nfs;
pub mod remote;
mod retry;
pub mod smb;
mod status;
mod transport;
mod url;
pub mod written;

pub use bytes::Bytes;
pub use error::{Error, Result};
pub use status::ChannelStatus;
pub use transport::Traffic;
pub use url::{Scheme, Url, join};
