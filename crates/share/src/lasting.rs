//! Opens that outlive the process: what is recorded of them, and what comes back after a restart.
//!
//! Start with [`ledger`], the table of what is recorded; [`record`] has its records and their bytes. The
//! engine writes them at each change and reads them when it starts: see `engine::parts::lasting` and
//! `engine::operations::restoring`.

pub(crate) mod ledger;
pub(crate) mod record;

use std::sync::Arc;

use volume::security::Sid;

use crate::{Identity, Open};

/// Why what was recorded cannot be taken up.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It was written by another version.
    #[error("its records are of version {0}, this program knows {VERSION}", VERSION = record::VERSION)]
    Version(u32),
    /// A record that this version does not know.
    #[error("record {0} is of kind {1}, which this program does not know")]
    Kind(usize, u8),
    /// A record that means nothing.
    #[error("record {0} cannot be read")]
    Broken(usize),
    /// The host refused to write.
    #[error("it cannot be written: {0}")]
    Host(#[from] volume::Failure),
}

/// Who a user is that was recorded; none when there is no such user any more.
pub type WhoIs<'a> = &'a dyn Fn(&Sid) -> Option<Arc<Identity>>;

/// An open that was made again after a restart. Nobody has it: it is to be left for its client, or closed.
#[derive(Debug)]
pub struct Restored {
    /// The open, with all it held.
    pub open: Arc<Open>,
    /// For how long it is to be kept, in nanoseconds.
    pub keep_ns: u64,
    /// What its maker had recorded with it.
    pub note: Vec<u8>,
    /// By which its file was found again, if it was by that.
    pub address: Vec<u8>,
    /// Some of the journal was damaged, and that it was closed may have stood there.
    pub is_doubtful: bool,
}
