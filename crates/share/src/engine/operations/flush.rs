//! Flushes of written data to stable storage, and reports to all affected opens if the host failed.
//!
//! All opens of a file share one descriptor of the host. The host reports data that it could not store once
//! for each descriptor, and takes it for stored from then on. So failures are counted for each file, and each
//! open knows the last one that was reported to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Failure, Node, OpenHow};

use crate::engine::Share;
use crate::engine::lookup::item::Item;
use crate::engine::parts::file::File;
use crate::{Cause, Open, Refusal};

impl Share {
    /// Returns once all written data is on stable storage.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`] without the right to write; the volume's error. Another open may have got an
    /// error that data of the file could not be stored. If that happened after this open was made or last got
    /// such an error, this open gets the same error once.
    // MS-FSA 2.1.5.7
    pub fn flush(&self, open: &Arc<Open>, data_only: bool, cause: impl Into<Cause>) -> Result<(), Refusal> {
        let writes = Rights::WRITE_DATA | Rights::APPEND_DATA;
        if !open.granted.intersects(writes) {
            return Err(Refusal::AccessDenied);
        }
        self.report_pending(open, cause.into());
        self.store(open, open.told_failures.load(Ordering::Acquire), data_only)
    }

    /// Returns once all data that any client has written to a file is on stable storage.
    ///
    /// # Errors
    /// The volume's error.
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

    /// Flushes the data that was written through an open while the file had `known` failures.
    ///
    /// # Errors
    /// The volume's error, and [`Failure::Io`] if there were failures since, whichever open they were
    /// reported to first.
    pub(crate) fn store(&self, open: &Open, known: u64, data_only: bool) -> Result<(), Refusal> {
        let synced = self.sync(Some(&open.file), open.data.as_ref(), data_only);
        // This is read after the host has answered. Its success may follow a failure that it has just
        // reported to another open. If that failure is not counted yet, this open's next flush fails.
        let failures = open.file.failed_syncs();
        if synced.is_ok() && failures == known {
            return Ok(());
        }
        open.told_failures.fetch_max(failures, Ordering::AcqRel);
        synced.and(Err(Failure::Io.into()))
    }

    /// Has the volume store the written data of a node, whose file may be open. Counts a failure.
    fn sync(&self, file: Option<&File>, node: &dyn Node, data_only: bool) -> Result<(), Refusal> {
        node.sync(data_only).map_err(|why| {
            self.open_files().note_failed_sync(file);
            why.into()
        })
    }

    /// How often the host has failed to bring written data to stable storage. Data that was written before
    /// such a failure, and not seen stored, may be lost without another error of the host.
    #[must_use]
    pub fn failed_syncs(&self) -> u64 {
        self.open_files().failed_syncs()
    }
}
