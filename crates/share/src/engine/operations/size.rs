//! Size, allocation, holes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Extent, Times};

use crate::caching::grants::Need;
use crate::engine::Share;
use crate::engine::operations::data::{check_data, check_ranges};
use crate::engine::operations::data_changes::StreamChange;
use crate::engine::services::audit::AuditedStep;
use crate::{
    Attributes, AuditDetail, AuditedOperation, CallResult, Caller, ChangeFilter, ChangeKind, LockOwner, Open,
    RangeKind, Refusal,
};

/// A change of the size, for the audit.
fn cut_to(size: u64) -> AuditedStep<'static> {
    AuditedStep::with(AuditedOperation::Truncate, AuditDetail::Size(size))
}

impl Share {
    /// Truncates or extends the open stream.
    // MS-FSA 2.1.5.15.5
    pub fn set_size(&self, caller: &Caller<'_>, open: &Arc<Open>, size: u64) -> CallResult<()> {
        let grows = || size.saturating_sub(open.data.stat().map_or(0, |stat| stat.size));
        let set = self.change(caller, open, grows, || {
            if size > i64::MAX as u64 {
                return Err(Refusal::Invalid);
            }
            open.data.set_size(size)?;
            self.size_changed(open, caller)
        });
        self.audited(caller, open, cut_to(size), set)
    }

    /// Backs the first `bytes` with storage. Fewer bytes than the size truncate the stream.
    // MS-FSA 2.1.5.15.1
    pub fn set_allocation(&self, caller: &Caller<'_>, open: &Arc<Open>, bytes: u64) -> CallResult<()> {
        let grows = || bytes.saturating_sub(open.data.stat().map_or(0, |stat| stat.allocated));
        self.change(caller, open, grows, || {
            if bytes > i64::MAX as u64 {
                return Err(Refusal::Invalid);
            }
            let size = open.data.stat()?.size;
            if bytes < size {
                open.data.set_size(bytes)?;
                self.size_changed(open, caller)?;
                return self.audited_now(caller, open, cut_to(bytes), Ok(()));
            }
            if bytes > size {
                self.reserve_space(open, bytes, caller)?;
            } else {
                // The file still counts as changed.
                // MS-FSA 2.1.5.15.1
                self.move_times(&open.file, open.node.as_ref(), StreamChange::Made, caller.now)?;
            }
            self.directory_entry_changed(open, caller.cause());
            Ok(())
        })
    }

    /// Backs a range with storage. The stream grows if the range goes beyond its end.
    pub fn allocate(&self, caller: &Caller<'_>, open: &Arc<Open>, range: Range<u64>) -> CallResult<()> {
        let grows = || range.end.saturating_sub(range.start);
        self.change(caller, open, grows, || {
            if range.start >= range.end || range.end > i64::MAX as u64 {
                return Err(Refusal::Invalid);
            }
            let end = range.end;
            open.data.allocate(range.clone())?;
            if end > open.data.stat()?.size {
                open.data.set_size(end)?;
                self.size_changed(open, caller)?;
                return self.audited_now(caller, open, cut_to(end), Ok(()));
            }
            self.stream_allocated(open, caller)?;
            self.own_changed(&open.file);
            self.directory_entry_changed(open, caller.cause());
            Ok(())
        })
    }

    /// Backs the first `bytes` with storage behind the end. The time of modification stays, although the host
    /// moves it; the change time does not.
    ///
    /// A concurrent change of data does not lose its time: the second of both sets it.
    // MS-FSA 2.1.5.15.1
    fn reserve_space(&self, open: &Open, bytes: u64, caller: &Caller<'_>) -> Result<(), Refusal> {
        if open.stream.is_named {
            open.data.allocate(0..bytes)?;
            return self.stream_allocated(open, caller);
        }
        let file = &open.file;
        let (changes, modified) = (file.changes.load(Ordering::SeqCst), open.node.stat()?.modified);
        open.data.allocate(0..bytes)?;
        // A server without privileges may not set the times of every file that it may write. The host's own
        // times stay then.
        if open.node.set_times(Times { accessed: None, modified: Some(modified) }).is_ok() {
            file.time_put_back.store(true, Ordering::SeqCst);
            if file.changes.load(Ordering::SeqCst) != changes {
                self.modified_now(open, caller.now)?;
            }
        }
        self.own_changed(file);
        self.mark_archive(open)
    }

    /// Storage for a file's own data moves its times on the host. Storage for a named stream is in another
    /// file.
    fn stream_allocated(&self, open: &Open, caller: &Caller<'_>) -> Result<(), Refusal> {
        if !open.stream.is_named {
            return Ok(());
        }
        self.move_times(&open.file, open.node.as_ref(), StreamChange::Data, caller.now)
    }

    /// The first range of data at or behind `from`, as the host stores it; none if only a hole is left. If
    /// the host does not know the holes of a stream, all of it is data.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::Invalid`]; the volume's error.
    pub fn next_data(&self, open: &Open, from: u64) -> Result<Option<Range<u64>>, Refusal> {
        if !open.granted.intersects(Rights::READ_DATA | Rights::EXECUTE) {
            return Err(Refusal::AccessDenied);
        }
        check_data(open)?;
        Ok(open.data.next_data(from)?)
    }

    /// The extents of a file's storage at or behind `from`, at most `max`, and whether there are more.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::NotSupported`]; the volume's error.
    // MS-FSA 2.1.5.10.15 (exception: it asks for no right, but only who may read has the file open on the
    // host)
    pub fn extents(&self, open: &Open, from: u64, max: usize) -> Result<(Vec<Extent>, bool), Refusal> {
        if !open.granted.contains(Rights::READ_DATA) {
            return Err(Refusal::AccessDenied);
        }
        if open.is_directory() {
            // The extents of such a host are seldom those that a client means.
            return Err(Refusal::NotSupported);
        }
        check_data(open)?;
        Ok(open.data.extents(from, max)?)
    }

    /// Makes a range read as zeros; the part behind the end is left out.
    // MS-FSA 2.1.5.10.39
    pub fn zero(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        owner: LockOwner,
        range: Range<u64>,
    ) -> CallResult<()> {
        if range.start > range.end || range.end > i64::MAX as u64 {
            return CallResult::Refused(Refusal::Invalid);
        }
        let len = range.end - range.start;
        let checked = || check_ranges(open, owner, range.start, len, RangeKind::Exclusive).into();
        match self.retry_past_expired_at(open.file.id, caller, checked) {
            CallResult::Done(()) => {}
            other => return other,
        }
        self.change(
            caller,
            open,
            || 0,
            || {
                let end = range.end.min(open.data.stat()?.size);
                if range.start < end {
                    open.data.punch(range.start..end)?;
                    self.data_changed(open, caller.now)?;
                    self.audit_write(caller, open, end - range.start);
                }
                Ok(())
            },
        )
    }

    /// Runs a change of data for which the right to write is enough, after all caches of the data are
    /// released. It needs at most `needed` bytes of storage.
    fn change(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        needed: impl Fn() -> u64,
        act: impl Fn() -> Result<(), Refusal>,
    ) -> CallResult<()> {
        if !open.granted.contains(Rights::WRITE_DATA) {
            return CallResult::Refused(Refusal::AccessDenied);
        }
        let checked = if open.is_directory() { Err(Refusal::Invalid) } else { check_data(open) };
        if let Err(why) = checked {
            return CallResult::Refused(why);
        }
        let ask = || self.require_for(caller, open, Need::Change);
        self.change_data(caller, open, ask, |()| {
            self.with_recycle_room(open, needed, caller.cause(), || {
                self.keeping_times(open, caller.now, &act)
            })
        })
    }

    fn size_changed(&self, open: &Arc<Open>, caller: &Caller<'_>) -> Result<(), Refusal> {
        self.changed_at_once(open, caller.now)?;
        self.directory_entry_changed(open, caller.cause());
        if let Some(link) = &open.link {
            let (name, kind, what) = if open.stream.is_named {
                (open.stream(), ChangeKind::StreamModified, ChangeFilter::STREAM_SIZE)
            } else {
                (None, ChangeKind::Modified, ChangeFilter::SIZE | ChangeFilter::LAST_WRITE)
            };
            self.report(link, name, kind, what);
        }
        Ok(())
    }

    /// Sets whether holes are kept.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::Invalid`]; the volume's error.
    // MS-FSA 2.1.5.10.38
    pub fn set_sparse(&self, open: &Arc<Open>, on: bool) -> Result<(), Refusal> {
        let any = Rights::WRITE_DATA | Rights::WRITE_ATTRIBUTES | Rights::APPEND_DATA;
        if open.is_directory() {
            return Err(Refusal::Invalid);
        }
        if !open.granted.intersects(any) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()?;
        let beside = open.file.beside.lock();
        let mut record = self.record_of(open)?;
        let mut bits = record.bits(&open.node.stat()?);
        if bits.contains(Attributes::SPARSE) == on {
            return Ok(());
        }
        bits.set(Attributes::SPARSE, on);
        record.attributes = Some(bits);
        self.store_record(open, record)?;
        drop(beside);
        if let Some(link) = &open.link {
            self.report(link, None, ChangeKind::Modified, ChangeFilter::ATTRIBUTES);
        }
        Ok(())
    }

    /// The parts of a range that hold data, at most `max`, and whether there are more.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::Invalid`]; the volume's error.
    // MS-FSA 2.1.5.10.22
    pub fn allocated_ranges(
        &self,
        open: &Open,
        range: Range<u64>,
        max: usize,
    ) -> Result<(Vec<Range<u64>>, bool), Refusal> {
        if !open.granted.contains(Rights::READ_DATA) {
            return Err(Refusal::AccessDenied);
        }
        check_data(open)?;
        if range.start > range.end {
            return Err(Refusal::Invalid);
        }
        let end = range.end.min(open.data.stat()?.size);
        let is_sparse =
            self.record_of(open)?.attributes.is_some_and(|bits| bits.contains(Attributes::SPARSE));
        let mut out = Vec::new();
        let mut at = range.start;
        while at < end {
            let next = if is_sparse { open.data.next_data(at)? } else { Some(at..end) };
            let Some(data) = next.filter(|data| data.start < end) else {
                break;
            };
            if out.len() == max {
                return Ok((out, true));
            }
            let data = data.start.max(at)..data.end.min(end);
            at = data.end;
            out.push(data);
        }
        Ok((out, false))
    }
}
