//! A tree of files wherever it is, with the operations that a share, an export and a directory of this host have in common.
//!
//! [`Session`] is the way to a server, [`Directory`] a directory there and [`File`] an open file. They are plain enums over
//! [`crate::smb`] and [`crate::nfs`]: who needs what only one of these has takes it out of them.

mod attributes;
mod directory;
mod file;
pub mod local;
mod options;
mod session;
mod times;

pub use attributes::{Attributes, Entry, KEPT, Kind, LINKS, MODE, Node, SPECIAL};
pub use directory::Directory;
pub use file::{Data, File};
pub use options::{MountOptions, OpenMode};
pub use session::Session;
pub use times::{file_time, unix_ns};
