//! Reads and writes. Nothing here takes a lock while there are no byte ranges or caching rights.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Patience, Times};
use wire::{FileRange, Now, Transfer};

use crate::caching::grants::Need;
use crate::engine::Share;
use crate::open::FixedTimes;
use crate::{
    CallResult, Caller, ClientDetails, Identity, LockOwner, Open, Options, RangeKind, RangeRequest, Refusal,
};

/// The position of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteAt {
    /// At the given byte.
    Offset(u64),
    /// Behind the last byte.
    End,
}

/// The sender of a read.
#[derive(Debug, Clone, Copy)]
pub struct ReadSender<'a> {
    /// The owner of its byte ranges.
    pub owner: LockOwner,
    /// The user and session that the audit tells. None: those of the open.
    pub audited_as: Option<(&'a Identity, &'a ClientDetails)>,
}

impl From<LockOwner> for ReadSender<'_> {
    fn from(owner: LockOwner) -> Self {
        ReadSender { owner, audited_as: None }
    }
}

impl Share {
    /// Appends up to `len` bytes from offset `at` to `out` and returns how many; 0 at or behind the end.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::RangeConflict`], [`Refusal::IsADirectory`],
    /// [`Refusal::WouldBlock`] when patience ended; the volume's error.
    // MS-FSA 2.1.5.3
    pub fn read(
        &self,
        open: &Open,
        reader: ReadSender<'_>,
        at: u64,
        len: usize,
        out: &mut Vec<u8>,
        patience: Patience,
    ) -> Result<usize, Refusal> {
        check_read(open, reader.owner, at, len)?;
        if !open.fixed_times().contains(FixedTimes::ACCESSED) {
            let read = open.data.read(at, len, out, patience)?;
            self.audit_read(reader.audited_as, open, read);
            return Ok(read);
        }
        let accessed = Some(open.node.stat()?.accessed);
        let read = open.data.read(at, len, out, patience)?;
        open.node.set_times(Times { accessed, modified: None })?;
        self.audit_read(reader.audited_as, open, read);
        Ok(read)
    }

    /// The bytes that [`Share::read`] would append, as a piece of a file that is sent without a copy.
    /// Concurrent writes may show in it. None if the volume has no such piece in memory, or if the share's
    /// settings or `transfer` require a copy. [`Share::read`] serves those cases. Never waits.
    ///
    /// # Errors
    /// As [`Share::read`].
    // MS-FSA 2.1.5.3
    pub fn read_range(
        &self,
        open: &Open,
        reader: ReadSender<'_>,
        at: u64,
        len: usize,
        transfer: &Transfer,
    ) -> Result<Option<FileRange>, Refusal> {
        check_read(open, reader.owner, at, len)?;
        if !transfer.chooses(self.settings().send_file, len) {
            return Ok(None);
        }
        // The time of access is put back after a read, and the end of this read would not be known.
        if open.fixed_times().contains(FixedTimes::ACCESSED) {
            return Ok(None);
        }
        let range = Arc::clone(&open.data).range(at, len)?;
        if let Some(range) = &range {
            self.audit_read(reader.audited_as, open, range.len);
        }
        Ok(range)
    }

    /// Writes `data`; to stable storage with `through` or if the open asks for it.
    // MS-FSA 2.1.5.4
    pub fn write(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        owner: LockOwner,
        at: WriteAt,
        data: &[u8],
        through: bool,
    ) -> CallResult<()> {
        let len = data.len() as u64;
        let ask = || self.before_write(caller, open, owner, at, len);
        let ask = || self.retry_past_expired_at(open.file.id, caller, ask);
        let written = self.change_data(caller, open, ask, |begin| match appends(open, at) {
            true => self.append(caller, open, owner, data, through),
            false => self.with_recycle_room(
                open,
                || len,
                caller.cause(),
                || self.write_now(open, begin, data, through, caller.now),
            ),
        });
        if matches!(written, CallResult::Done(())) {
            self.audit_write(caller, open, len);
        }
        written
    }

    /// Writes behind the end as it is when this write gets the lock. So two appends at once do not overwrite
    /// each other.
    fn append(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        owner: LockOwner,
        data: &[u8],
        through: bool,
    ) -> Result<(), Refusal> {
        let _turn = open.stream.appending.lock();
        let at = open.data.stat()?.size;
        check_ranges(open, owner, at, data.len() as u64, RangeKind::Exclusive)?;
        self.write_now(open, at, data, through, caller.now)
    }

    /// Checks a write and returns the byte at which it begins.
    fn before_write(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        owner: LockOwner,
        at: WriteAt,
        len: u64,
    ) -> CallResult<u64> {
        let at = match start_of(open, at) {
            Ok(at) => at,
            Err(why) => return CallResult::Refused(why),
        };
        let checked = check_data(open)
            .and_then(|()| at.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or(Refusal::Invalid))
            .and_then(|_| check_ranges(open, owner, at, len, RangeKind::Exclusive));
        if let Err(why) = checked {
            return CallResult::Refused(why);
        }
        if len == 0 {
            return CallResult::Done(at);
        }
        self.require_for(caller, open, Need::Change).map(|()| at)
    }

    fn write_now(&self, open: &Open, at: u64, data: &[u8], through: bool, now: Now) -> Result<(), Refusal> {
        if data.is_empty() {
            return Ok(());
        }
        let through = through || open.options.contains(Options::WRITE_THROUGH);
        self.keeping_times(open, now, || {
            if through {
                let known = open.file.failed_syncs();
                open.data.write(at, data)?;
                self.store(open, known, false)?;
            } else {
                open.data.write(at, data)?;
            }
            self.data_changed(open, now)
        })
    }
}

/// Whether `open` may read there.
fn check_read(open: &Open, owner: LockOwner, at: u64, len: usize) -> Result<(), Refusal> {
    if !open.granted.intersects(Rights::READ_DATA | Rights::EXECUTE) {
        return Err(Refusal::AccessDenied);
    }
    check_data(open)?;
    check_ranges(open, owner, at, len as u64, RangeKind::Shared)
}

/// The byte at which a write begins, if the open may write there.
fn start_of(open: &Open, at: WriteAt) -> Result<u64, Refusal> {
    if !open.granted.intersects(Rights::WRITE_DATA | Rights::APPEND_DATA) {
        return Err(Refusal::AccessDenied);
    }
    match at {
        WriteAt::Offset(at) if !appends(open, WriteAt::Offset(at)) => Ok(at),
        _ => Ok(open.data.stat()?.size),
    }
}

/// Whether a write goes behind the end. A client that may only append writes there, whatever offset it gives.
fn appends(open: &Open, at: WriteAt) -> bool {
    at == WriteAt::End || !open.granted.contains(Rights::WRITE_DATA)
}

/// Whether the open has data to read and write.
pub(crate) fn check_data(open: &Open) -> Result<(), Refusal> {
    if open.is_closed() {
        return Err(Refusal::Gone);
    }
    if open.is_directory() { Err(Refusal::IsADirectory) } else { Ok(()) }
}

/// Whether another owner's byte range conflicts.
// MS-FSA 2.1.4.10
pub(crate) fn check_ranges(
    open: &Open,
    owner: LockOwner,
    at: u64,
    len: u64,
    kind: RangeKind,
) -> Result<(), Refusal> {
    if len == 0 || !open.stream.has_ranges.load(Ordering::Acquire) {
        return Ok(());
    }
    let range = RangeRequest { start: at, len, kind };
    let ignores_merging = open.options.contains(Options::MERGING_RANGES);
    let mut state = open.file.state.lock();
    let conflicts = state.stream(&open.stream).ranges.hinders(&range, owner, ignores_merging);
    if conflicts { Err(Refusal::RangeConflict) } else { Ok(()) }
}
