//! MS-FSCC: what files, directories and volumes look like on the wire, and how names are mapped.
//!
//! Start with [`class`] for the numbers of the information classes, then [`mod@file`], [`fs`] and
//! [`directory`] for what stands behind them. [`names`] turns SMB names into names of the host and back;
//! [`wildcard`] matches search patterns. Control codes have their bodies in [`fsctl`] and [`reparse`];
//! [`ea`], [`notify`] and [`quota`] hold the lists of those names.
//!
//! Everything is a plain value with `write(&mut Vec<u8>)` and `parse(&[u8])`. Lists whose entries are
//! linked by NextEntryOffset are written through [`chain`].

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

/// Why a buffer that a peer sent is not the structure it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadBuffer {
    /// The buffer is shorter than the structure, or than a length inside it says. A server answers
    /// STATUS_INFO_LENGTH_MISMATCH for an information class and STATUS_INVALID_PARAMETER for a control
    /// code, except where the section of the structure names another status.
    #[error("the buffer is too short for the structure")]
    Length,
    /// A field holds what it must not. A server answers STATUS_INVALID_PARAMETER, except where the
    /// section of the structure names another status.
    #[error("a field holds a value that is not allowed there")]
    Value,
}

impl From<Truncated> for BadBuffer {
    fn from(_: Truncated) -> Self {
        BadBuffer::Length
    }
}
