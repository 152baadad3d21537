//! MS-FSCC: the wire form of files, directories and volumes, and the mapping of names.
//!
//! Start with [`class`] for the numbers of the information classes. [`mod@file`], [`fs`] and [`directory`]
//! have their structures. [`names`] converts between SMB names and names of the host. [`wildcard`] matches
//! search patterns. [`fsctl`] and [`reparse`] have the buffers of control codes. [`ea`], [`notify`] and
//! [`quota`] have the lists of those names.
//!
//! All structures are plain values with `write(&mut Vec<u8>)` and `parse(&[u8])`. Lists with NextEntryOffset
//! are written with [`chain`].

mod layout;
#[cfg(test)]
pub(crate) mod testing;

pub mod attributes;
pub mod chain;
pub mod class;
pub mod directory;
pub mod ea;
pub mod file;
pub mod fs;
pub mod fsctl;
pub mod names;
pub mod notify;
pub mod quota;
pub mod reparse;
pub mod text;
pub mod time;
pub mod wildcard;

pub use attributes::{FileAttributes, ReparseTag};
pub use chain::Full;
pub use class::{FileInfoClass, FsInfoClass};
pub use time::FileTime;

use wire::Truncated;

/// The reason why a peer's buffer is not the expected structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadBuffer {
    /// The buffer is shorter than the structure, or than a length inside it. A server returns
    /// STATUS_INFO_LENGTH_MISMATCH for an information class and STATUS_INVALID_PARAMETER for a control code,
    /// unless the section of the structure names another status.
    #[error("the buffer is too short for the structure")]
    Length,
    /// A field has an invalid value. A server returns STATUS_INVALID_PARAMETER, unless the section of the
    /// structure names another status.
    #[error("a field holds a value that is not allowed there")]
    Value,
}

impl From<Truncated> for BadBuffer {
    fn from(_: Truncated) -> Self {
        BadBuffer::Length
    }
}
