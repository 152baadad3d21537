//! Bringing what was written to stable storage, and telling everybody concerned when the host could not.
//!
//! All opens of a file share one descriptor of the host, which tells of data that it could not store once per descriptor and
//! takes it for stored from then on. So failures are counted per file, and each open knows up to which one it was told.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Failure, Node, OpenHow};

use crate::engine::Share;
use crate::engine::finding::item::Item;
use crate::engine::parts::file::File;
use crate::{Cause, Open, Refusal};

impl Share {
    /// Returns once everything written is on stable storage.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`] without the right to write; as the volume says. Where somebody else was told that data of the
    /// file could not be stored since this open was made or was last told of such a thing, the same, once.
    // MS-FSA 2.1.5.7
    pub fn flush(&self, open: &Arc<Open>, data_only: bool, cause: impl Into<Cause>) -> Result<(), Refusal> {
        let writes = Rights::WRITE_DATA | Rights::APPEND_DATA;
        if !open.granted.intersects(writes) {
            return Err(Refusal::AccessDenied);
        }
        self.tell_untold(open, cause.into());
        self.store(open, open.told_failures.load(Ordering::Acquire), data_only)
    }

    /// Returns once everything that anybody has written to a file is on stable storage.
    ///
    /// # Errors
    /// As the volume says.
    pub fn item_sync(&self, item: &Item) -> Result<(), Refusal> {
        let file = self.open_files().get(item.id());
        let kept = file.as_ref().and_then(|file| file.node_for(OpenHow::Read));
        let node = match kept {
            Some(node) => node,
            None if item.node.how() >= OpenHow::Read => Arc::clone(&item.node),
            None => self.with_room(|| Ok(item.node.open_again(OpenHow::Read)?))?,
        };
        self.sync(file.as_deref(), node.as_ref(), false)
    }

    /// Brings what was written through an open to stable storage: what was written while the file had `known` failures.
    ///
    /// # Errors
    /// As the volume says, and [`Failure::Io`] when there were failures since, whoever was told of them first.
    pub(crate) fn store(&self, open: &Open, known: u64, data_only: bool) -> Result<(), Refusal> {
        let synced = self.sync(Some(&open.file), open.data.as_ref(), data_only);
        // Looked at after the host has answered: its yes may come of a no that it has just said to somebody else. Where that no
        // is not counted yet, this open's next flush fails.
        let failures = open.file.failed_syncs();
        if synced.is_ok() && failures == known {
            return Ok(());
        }
        open.told_failures.fetch_max(failures, Ordering::AcqRel);
        synced.and(Err(Failure::Io.into()))
    }

    /// Has the volume store what was written to a node, of a file that may be open, and counts when it cannot.
    fn sync(&self, file: Option<&File>, node: &dyn Node, data_only: bool) -> Result<(), Refusal> {
        node.sync(data_only).map_err(|why| {
            self.open_files().note_failed_sync(file);
            why.into()
        })
    }

    /// How often the host has refused to bring written data to stable storage. What anybody wrote before such a refusal, and
    /// did not see stored, may be lost without another word of the host.
    #[must_use]
    pub fn failed_syncs(&self) -> u64 {
        self.open_files().failed_syncs()
    }
}
