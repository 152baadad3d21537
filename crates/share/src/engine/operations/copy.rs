//! Copies and clones between opens, inside the host.

use std::sync::Arc;

use volume::security::Rights;

use crate::caching::grants::Need;
use crate::engine::Share;
use crate::engine::operations::data::{check_data, check_ranges};
use crate::engine::services::expiry::is_conflict;
use crate::{Attributes, CallResult, Caller, Cause, Info, LockOwner, Open, RangeKind, Refusal};

/// One side of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopySide<'a> {
    /// The open.
    pub open: &'a Open,
    /// The owner for whom byte ranges are checked.
    pub owner: LockOwner,
    /// First byte.
    pub at: u64,
}

impl Share {
    /// Copies `len` bytes and returns how many were copied. They are fewer only at the source's end.
    // MS-SMB2 3.3.5.15.6
    pub fn copy(
        &self,
        caller: &Caller<'_>,
        from: CopySide<'_>,
        to: CopySide<'_>,
        len: u64,
    ) -> CallResult<u64> {
        let files = || vec![from.open.file.id, to.open.file.id];
        let ask = || self.before_copy(caller, from, to, len);
        let ask = || self.retry_past_expired(caller, files, is_conflict, ask);
        self.change_data(caller, to.open, ask, |()| {
            let copy = || self.keeping_times(to.open, caller.now, || self.copy_now(caller, from, to, len));
            self.with_room_to_copy(from, to, len, caller.cause(), copy)
        })
    }

    /// Lets the target share the source's storage for a range. With `grows` a range behind the target's end
    /// makes the target longer, in the same step that brings the data. Otherwise that part is left out.
    /// Nothing changes if the request is refused before the host was asked.
    // MS-FSA 2.1.5.10.4 (exception: byte ranges stand in nobody's way, as in Windows: notes 91 and 92)
    pub fn clone_range(
        &self,
        caller: &Caller<'_>,
        from: CopySide<'_>,
        to: CopySide<'_>,
        len: u64,
        grows: bool,
    ) -> CallResult<()> {
        if !self.volume().properties().clones {
            return CallResult::Refused(Refusal::NotSupported);
        }
        let (shared, copied) = match self.lengths_to_clone(from, to, len, grows) {
            Ok((0, 0)) => return CallResult::Done(()),
            Ok(lengths) => lengths,
            Err(why) => return CallResult::Refused(why),
        };
        let clone = || {
            let (source, target) = (&from.open.data, to.open.data.as_ref());
            source.clone_range(from.at, target, to.at, shared)?;
            source.copy_range(from.at + shared, target, to.at + shared, copied)?;
            self.data_changed(to.open, caller.now)?;
            let bytes = usize::try_from(shared + copied).unwrap_or(usize::MAX);
            self.audit_read(caller.audited_as(), from.open, bytes);
            self.audit_write(caller, to.open, shared + copied);
            Ok(())
        };
        let ask = || self.require_for(caller, to.open, Need::Change);
        self.change_data(caller, to.open, ask, |()| {
            let clone = || self.keeping_times(to.open, caller.now, clone);
            self.with_room_to_copy(from, to, shared + copied, caller.cause(), clone)
        })
    }

    /// Runs a copy. If there is too little room for it, the oldest recycled files are removed for good, and
    /// it runs again. A copy inside of one stream may have changed its own source, and is not run again.
    fn with_room_to_copy<T>(
        &self,
        from: CopySide<'_>,
        to: CopySide<'_>,
        len: u64,
        cause: Cause,
        copy: impl Fn() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if Arc::ptr_eq(&from.open.stream, &to.open.stream) {
            return copy();
        }
        let needed = || {
            let size = from.open.data.stat().map_or(0, |stat| stat.size);
            len.min(size.saturating_sub(from.at))
        };
        self.with_recycle_room(to.open, needed, cause, copy)
    }

    /// How many of `len` bytes can share storage, and how many behind them must be copied. The client counts
    /// in whole units of allocation, and the last unit of a file may hold less. Hosts share such a partial
    /// unit only if both files end in it.
    // MS-FSA 2.1.5.10.4, MS-FSCC 2.3.8
    fn lengths_to_clone(
        &self,
        from: CopySide<'_>,
        to: CopySide<'_>,
        len: u64,
        grows: bool,
    ) -> Result<(u64, u64), Refusal> {
        check_copy(from, to, len)?;
        if len == 0 {
            return Ok((0, 0));
        }
        let (source, target) = (self.info(from.open)?, self.info(to.open)?);
        let unit = u64::from(self.volume().space()?.block.max(1));
        let is_whole = [from.at, to.at, len].iter().all(|offset| offset.is_multiple_of(unit));
        let is_to_the_end =
            [from.at, to.at].iter().all(|offset| offset.is_multiple_of(unit)) && from.at + len == source.size;
        if !is_whole && !is_to_the_end {
            return Err(Refusal::Invalid);
        }
        let beyond = from.at + len > source.size.next_multiple_of(unit);
        let overlaps = Arc::ptr_eq(&from.open.stream, &to.open.stream) && from.at.abs_diff(to.at) < len;
        let is_sparse = |info: &Info| info.attributes.contains(Attributes::SPARSE);
        if beyond || overlaps || (is_sparse(&source) && !is_sparse(&target)) {
            return Err(Refusal::NotSupported);
        }
        let (left, room) = (source.size.saturating_sub(from.at), target.size.saturating_sub(to.at));
        let held = if grows { left.min(len) } else { left.min(room).min(len) };
        let both_end = if grows { held == left && room <= held } else { left == room };
        let copied = if both_end { 0 } else { held % unit };
        Ok((held - copied, copied))
    }

    fn before_copy(
        &self,
        caller: &Caller<'_>,
        from: CopySide<'_>,
        to: CopySide<'_>,
        len: u64,
    ) -> CallResult<()> {
        let checked = || {
            check_copy(from, to, len)?;
            check_ranges(from.open, from.owner, from.at, len, RangeKind::Shared)?;
            check_ranges(to.open, to.owner, to.at, len, RangeKind::Exclusive)
        };
        match checked() {
            Ok(()) => self.require_for(caller, to.open, Need::Change),
            Err(why) => CallResult::Refused(why),
        }
    }

    fn copy_now(
        &self,
        caller: &Caller<'_>,
        from: CopySide<'_>,
        to: CopySide<'_>,
        len: u64,
    ) -> Result<u64, Refusal> {
        let copied = from.open.data.copy_range(from.at, to.open.data.as_ref(), to.at, len)?;
        if copied > 0 {
            self.data_changed(to.open, caller.now)?;
            let bytes = usize::try_from(copied).unwrap_or(usize::MAX);
            self.audit_read(caller.audited_as(), from.open, bytes);
            self.audit_write(caller, to.open, copied);
        }
        Ok(copied)
    }
}

/// Whether both opens allow the copy and the offsets do not overflow.
fn check_copy(from: CopySide<'_>, to: CopySide<'_>, len: u64) -> Result<(), Refusal> {
    check_data(from.open)?;
    check_data(to.open)?;
    let reads = Rights::READ_DATA | Rights::EXECUTE;
    let writes = Rights::WRITE_DATA | Rights::APPEND_DATA;
    if !from.open.granted.intersects(reads) || !to.open.granted.intersects(writes) {
        return Err(Refusal::AccessDenied);
    }
    if [from.at, to.at].iter().any(|at| at.checked_add(len).is_none_or(|end| end > i64::MAX as u64)) {
        return Err(Refusal::Invalid);
    }
    Ok(())
}
