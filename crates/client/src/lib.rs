//! Layer 4: user-space clients of file servers, asynchronous and pipelined, with several connections for one session.
//!
//! [`smb`] speaks SMB 2.0.2 to 3.1.1 and [`nfs`] NFSv4.1 and 4.2; each begins with an example. Both stand on one transport
//! (`transport`), which writes what tasks send in one turn in one system call, and they fail with one [`Error`].
//!
//! [`remote`] is what both have in common with a directory of this host. A [`Url`] says where files are, and [`written`] reads what else people write down of a server.

mod error;
pub mod nfs;
mod patience;
pub mod remote;
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
