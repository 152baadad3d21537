//! One tree of files over SMB, NFS and this host, with the operations that all three have.
//!
//! [`RemoteSession`] is a session with a server, [`Directory`] a directory there, and [`RemoteFile`] an open
//! file. They are thin layers over [`crate::smb`] and [`crate::nfs`]. Operations of one protocol alone use
//! the parts inside of them.

mod attributes;
mod directory;
mod file;
pub mod local;
mod options;
mod session;
mod times;

pub use attributes::{Attributes, Entry, FileIdentity, KEPT, Kind, LINKS, MODE, SPECIAL};
pub use directory::Directory;
pub use file::RemoteFile;
pub use local::HostFile;
pub use options::{MountOptions, OpenMode};
pub use session::RemoteSession;
pub use times::{file_time, unix_ns};
