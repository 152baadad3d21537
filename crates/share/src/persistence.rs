//! Opens that outlive the process: their records, and their restoration after a restart.
//!
//! Start with [`ledger`], the table of the records; [`record`] has the records and their bytes. The engine
//! writes them at each change and reads them when it starts: see `engine::parts::persistence` and
//! `engine::operations::restore`.

mod freeze;
pub(crate) mod ledger;
pub(crate) mod record;

use std::sync::Arc;

use volume::security::Sid;

use crate::{ClientKey, Identity, Open};
pub use freeze::RecordFreeze;

/// The reason why the records cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// They were written by another version.
    #[error("its records are of version {0}, this program knows {VERSION}", VERSION = record::VERSION)]
    Version(u32),
    /// A record of a kind that this version does not know.
    #[error("record {0} is of kind {1}, which this program does not know")]
    Kind(usize, u8),
    /// A record without a meaning.
    #[error("record {0} cannot be read")]
    Broken(usize),
    /// The host refused to write.
    #[error("it cannot be written: {0}")]
    Host(#[from] volume::Failure),
}

/// The inode numbers of the files of all opens in a journal, in ascending order. A file has one for each
/// open.
///
/// # Errors
/// [`Unreadable`], which names the record.
pub fn recorded_inodes(records: &[Vec<u8>]) -> Result<Vec<u64>, Unreadable> {
    let ledger = ledger::Ledger::read(records)?;
    let mut inodes: Vec<u64> = ledger.live.values().map(|open| open.made.inode).collect();
    inodes.sort_unstable();
    Ok(inodes)
}

/// A recorded open that is not restored yet.
#[derive(Debug)]
pub struct UnrestoredOpen {
    /// Its id, as [`Share::restore_open`](crate::Share::restore_open) takes it.
    pub id: u64,
    /// Its client.
    pub client: ClientKey,
    /// The note that its creator had recorded with it.
    pub note: Vec<u8>,
}

/// The reason why there is no identity for a recorded user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFailure {
    /// There is no such user any more, or none that may log on.
    Gone,
    /// The directory that has the user does not answer now.
    Unreachable,
}

/// Takes opens over when they are restored.
pub trait OpenRestorer: Send + Sync {
    /// The identity of a recorded user.
    ///
    /// # Errors
    /// [`UserFailure`]. The opens of a user that is gone end. Those of a user whose directory does not answer
    /// are kept: the client that claims them has to authenticate.
    fn user(&self, sid: &Sid) -> Result<Arc<Identity>, UserFailure>;

    /// Takes an open over, which is to be detached ([`Share::detach_restored`]) or closed. Until this
    /// returns, other requests for its file wait. This may be called by any thread that needs the file.
    ///
    /// [`Share::detach_restored`]: crate::Share::detach_restored
    fn take(&self, restored: Restored);

    /// Handles the end of an open of a client that could not be restored: its file is gone, or the host does
    /// not open it any more.
    fn lose(&self, client: ClientKey, note: &[u8]);
}

/// Most bytes of the note of an open. A record also holds the paths of the file, and the journal takes no
/// record of more than [`MAX_RECORD`](volume::journal::MAX_RECORD) bytes.
pub const MAX_NOTE: usize = 16 << 10;

/// An open that was restored after a restart. It has no client: it is to be detached for its client, or
/// closed.
#[derive(Debug)]
pub struct Restored {
    /// The open, with all it held.
    pub open: Arc<Open>,
    /// How long it is to be kept, in nanoseconds.
    pub keep_ns: u64,
    /// The note that its creator had recorded with it.
    pub note: Vec<u8>,
    /// The address by which its file was found again, if it was found so.
    pub address: Vec<u8>,
    /// Some of the journal was damaged, and the damaged part may have recorded its close.
    pub is_doubtful: bool,
}
