//! Copying and cloning between opens, inside the host.

use volume::security::Rights;

use super::Share;
use super::data::{check_data, check_ranges};
use crate::caching::grants::Need;
use crate::{Caller, LockOwner, Open, RangeKind, Refusal, Step};

/// One side of a copy.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The open.
    pub open: &'a Open,
    /// On whose behalf byte ranges are looked at.
    pub owner: LockOwner,
    /// First byte.
    pub at: u64,
}

impl Share {
    /// Copies `len` bytes and says how many; fewer only at the source's end.
    // MS-SMB2 3.3.5.15.6
    pub fn copy(&self, caller: &Caller<'_>, from: Side<'_>, to: Side<'_>, len: u64) -> Step<u64> {
        match self.before_copy(caller, from, to, len) {
            Step::Done(()) => self.keeping_times(to.open, caller.now, || self.copy_now(from, to, len)).into(),
            Step::Wait(ticket) => Step::Wait(ticket),
            Step::Refused(why) => Step::Refused(why),
        }
    }

    /// Lets the target share the source's storage for a range.
    // MS-FSA 2.1.5.10.4
    pub fn clone_range(&self, caller: &Caller<'_>, from: Side<'_>, to: Side<'_>, len: u64) -> Step<()> {
        if !self.volume.facts().clones {
            return Step::Refused(Refusal::NotSupported);
        }
        match self.before_copy(caller, from, to, len) {
            Step::Done(()) => {
                let clone = || {
                    from.open.data.clone_range(from.at, to.open.data.as_ref(), to.at, len)?;
                    self.data_changed(to.open)
                };
                self.keeping_times(to.open, caller.now, clone).into()
            }
            other => other,
        }
    }

    fn before_copy(&self, caller: &Caller<'_>, from: Side<'_>, to: Side<'_>, len: u64) -> Step<()> {
        let checked = || {
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
            check_ranges(from.open, from.owner, from.at, len, RangeKind::Shared)?;
            check_ranges(to.open, to.owner, to.at, len, RangeKind::Exclusive)
        };
        match checked() {
            Ok(()) => self.require_for(caller, to.open, Need::Change),
            Err(why) => Step::Refused(why),
        }
    }

    fn copy_now(&self, from: Side<'_>, to: Side<'_>, len: u64) -> Result<u64, Refusal> {
        let copied = from.open.data.copy_range(from.at, to.open.data.as_ref(), to.at, len)?;
        if copied > 0 {
            self.data_changed(to.open)?;
        }
        Ok(copied)
    }
}
