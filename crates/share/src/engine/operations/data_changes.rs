//! The effects of a change of data: counters, times, the archive bit, and the bits that let a file run with
//! the rights of others.

use std::sync::atomic::Ordering;

use volume::{Node, Time, Times};
use wire::Now;

use crate::engine::Share;
use crate::engine::parts::file::{File, SET_GROUP, SET_ID_BITS};
use crate::engine::values::record::Record;
use crate::open::UNSEEN;
use crate::{Attributes, ChangeFilter, Open, Refusal};

/// A change of a named stream, as far as its file shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamChange {
    /// Its data or size changed.
    Data,
    /// It was created.
    Made,
}

impl Share {
    /// Does the work after a change of data: the archive bit, watches, and later the holders that cache the
    /// directory.
    pub(crate) fn data_changed(&self, open: &Open, now: Now) -> Result<(), Refusal> {
        self.changed(open, now, UNSEEN)
    }

    /// As [`Share::data_changed`], but the holders that cache the directory are notified at once.
    pub(crate) fn changed_at_once(&self, open: &Open, now: Now) -> Result<(), Refusal> {
        self.changed(open, now, 0)
    }

    fn changed(&self, open: &Open, now: Now, unseen: u32) -> Result<(), Refusal> {
        let told = if open.stream.is_named {
            ChangeFilter::STREAM_WRITE | ChangeFilter::STREAM_SIZE
        } else {
            ChangeFilter::LAST_WRITE | ChangeFilter::SIZE
        };
        // In one order with `reserve_space`: either that sees this change, or this sees that the time was put
        // back.
        open.file.changes.fetch_add(1, Ordering::SeqCst);
        if open.file.time_put_back.load(Ordering::SeqCst) {
            self.modified_now(open, now)?;
        }
        let noted = told.bits() | unseen;
        let mut before = open.unreported.load(Ordering::Relaxed);
        // All channels of the open share this cache line, so it is written only if there is something new.
        if before & noted != noted {
            before = open.unreported.fetch_or(noted, Ordering::Relaxed);
        }
        if before & told.bits() == 0 {
            self.mark_archive(open)?;
        }
        if open.stream.is_named {
            self.move_times(&open.file, open.node.as_ref(), StreamChange::Data, now)
        } else {
            self.clear_set_id_bits(&open.file, open.node.as_ref())
        }
    }

    /// Data was changed when the time of modification was put back, or after.
    #[cold]
    pub(crate) fn modified_now(&self, open: &Open, now: Now) -> Result<(), Refusal> {
        open.file.time_put_back.store(false, Ordering::SeqCst);
        let modified = Some(Time::from_wall_ns(now.wall_ns));
        Ok(open.node.set_times(Times { accessed: None, modified })?)
    }

    /// Records that the file has changed since its last backup. A directory counts as changed in this sense
    /// if one of its streams has changed.
    pub(crate) fn mark_archive(&self, open: &Open) -> Result<(), Refusal> {
        if open.is_directory() {
            return Ok(());
        }
        self.mark_archive_at(&open.file, open.node.as_ref())
    }

    /// As [`Share::mark_archive`], for a file that is about to be opened, or for a directory.
    pub(crate) fn mark_archive_at(&self, file: &File, node: &dyn Node) -> Result<(), Refusal> {
        let is_marked = |record: &Record| match record.attributes {
            Some(bits) => bits.contains(Attributes::ARCHIVE),
            None => !file.is_directory,
        };
        if is_marked(&self.record_at(file, node)?) {
            return Ok(());
        }
        let _beside = file.beside.lock();
        let record = self.record_at(file, node)?;
        if is_marked(&record) {
            return Ok(());
        }
        let attributes = Some(record.attributes.unwrap_or_default() | Attributes::ARCHIVE);
        self.store_record_at(file, node, Record { attributes, ..record })
    }

    /// Moves the times of a file or directory after a change of one of its streams, which the host stores
    /// elsewhere. Marks it for the next backup.
    ///
    /// # Errors
    /// The volume's error.
    // MS-FSA 2.1.4.17
    // MS-FSA 2.1.5.1.2
    pub(crate) fn move_times(
        &self,
        file: &File,
        node: &dyn Node,
        change: StreamChange,
        now: Now,
    ) -> Result<(), Refusal> {
        let modified = match change {
            StreamChange::Data => Time::from_wall_ns(now.wall_ns),
            // The host moves the time of change whichever time is set.
            StreamChange::Made => node.stat()?.modified,
        };
        node.set_times(Times { accessed: None, modified: Some(modified) })?;
        self.own_changed(file);
        self.mark_archive_at(file, node)
    }

    /// Clears the bits that let a written file run with the rights of others. The host does the same if the
    /// writer has no privilege.
    // chmod(2), write(2)
    pub(crate) fn clear_set_id_bits(&self, file: &File, node: &dyn Node) -> Result<(), Refusal> {
        if !file.may_set_id.load(Ordering::Relaxed) {
            return Ok(());
        }
        file.may_set_id.store(false, Ordering::Relaxed);
        let mode = node.stat()?.mode;
        // Without the right to execute the group's bit has another meaning.
        let taken = if mode & 0o010 == 0 { SET_ID_BITS & !SET_GROUP } else { SET_ID_BITS };
        if mode & taken != 0 {
            node.set_mode(mode & !taken)?;
            self.own_changed(file);
        }
        Ok(())
    }
}
