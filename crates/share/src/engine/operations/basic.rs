//! Times and attribute bits, and the times that an open holds fixed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{NodeKind, Time, Times};

use crate::engine::Share;
use crate::engine::operations::fixed_times::change_time;
use crate::engine::services::audit::AuditedStep;
use crate::engine::values::record::{STORED, StoredTime};
use crate::open::FixedTimes;
use crate::{Attributes, AuditedOperation, CallResult, Caller, ChangeFilter, ChangeKind, Open, Refusal};

/// A change of one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeSet {
    /// The time has this value from now on. Actions of this open do not change it.
    Set(Time),
    /// Actions of this open do not change the time.
    Freeze,
    /// Actions of this open change the time again.
    Thaw,
}

/// Times and bits to set. A field that is `None` stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Basic {
    /// Creation.
    pub created: Option<TimeSet>,
    /// Last read.
    pub accessed: Option<TimeSet>,
    /// Last change of data.
    pub modified: Option<TimeSet>,
    /// Last change of anything. The host moves its own time with every change and lets no program set it. So
    /// a value that is set here holds until the next change that this open has not made.
    pub changed: Option<TimeSet>,
    /// Attribute bits. A value without any of the stored bits means no bits at all.
    pub attributes: Option<Attributes>,
}

impl Share {
    /// Sets times and attribute bits. Waits for holders that cache them.
    // MS-FSA 2.1.5.15.2
    pub fn set_basic(&self, caller: &Caller<'_>, open: &Arc<Open>, basic: Basic) -> CallResult<()> {
        let may = self.check_basic(open, &basic);
        let set = self.after_attributes(caller, open, may, || self.amend_basic(caller, open, basic));
        self.audited(caller, open, AuditedStep::of(AuditedOperation::SetAttributes), set)
    }

    /// Records that a file was used or changed now. The right to its data is enough for this, even one that
    /// the open does not have. Waits for holders that cache the times.
    // RFC 8881 6.2.1.3.1 (WRITE_ATTRIBUTES), utimensat(2)
    pub fn touch(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        accessed: Option<Time>,
        modified: Option<Time>,
    ) -> CallResult<()> {
        let may = self
            .check_owner(caller, open, Rights::WRITE_ATTRIBUTES)
            .or_else(|_| self.check_owner(caller, open, Rights::WRITE_DATA))
            .and_then(|()| self.check_writable());
        let set = |time: Option<Time>| time.map(TimeSet::Set);
        let basic = Basic { accessed: set(accessed), modified: set(modified), ..Basic::default() };
        let set = self.after_attributes(caller, open, may, || self.amend_basic(caller, open, basic));
        self.audited(caller, open, AuditedStep::of(AuditedOperation::SetAttributes), set)
    }

    /// Sets times that a client has recorded for the file, under `open`. The client has the right to write
    /// the file later. They are the file's times until now, so no holder is asked. Later writes through the
    /// open move them again.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`] if `open` cannot write; the volume's error.
    pub fn set_recorded_times(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        accessed: Option<Time>,
        modified: Option<Time>,
    ) -> Result<(), Refusal> {
        if !open.granted.contains(Rights::WRITE_DATA) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()?;
        let each = |what: fn(Time) -> TimeSet| Basic {
            accessed: accessed.map(what),
            modified: modified.map(what),
            ..Basic::default()
        };
        self.amend_basic(caller, open, each(TimeSet::Set))?;
        let set = self.amend_basic(caller, open, each(|_| TimeSet::Thaw));
        self.audited_now(caller, open, AuditedStep::of(AuditedOperation::SetAttributes), set)
    }

    /// Sets times and attribute bits as part of creating the file. Clients that have found the file since are
    /// not waited for.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`] without the right to; [`Refusal::Invalid`]; the volume's error.
    pub fn set_first_basic(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        basic: Basic,
    ) -> Result<(), Refusal> {
        self.check_basic(open, &basic)?;
        self.amend_basic(caller, open, basic)
    }

    fn check_basic(&self, open: &Open, basic: &Basic) -> Result<(), Refusal> {
        if !open.granted.contains(Rights::WRITE_ATTRIBUTES) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()?;
        let is_directory = open.file.kind == NodeKind::Directory;
        if let Some(attributes) = basic.attributes {
            let wrong = (attributes.contains(Attributes::DIRECTORY) && !is_directory)
                || (attributes.contains(Attributes::TEMPORARY) && is_directory);
            if wrong {
                return Err(Refusal::Invalid);
            }
        }
        Ok(())
    }

    fn amend_basic(&self, caller: &Caller<'_>, open: &Arc<Open>, basic: Basic) -> Result<(), Refusal> {
        let beside = open.file.beside.lock();
        let record = self.record_of(open)?;
        let before = open.node.stat()?;
        update_fixed_times(open, &basic);
        let (times, told) = asked_for(&basic);
        if times != Times::default() {
            open.node.set_times(times)?;
            self.own_changed(&open.file);
        }
        let mut new = record;
        if times != Times::default() {
            let now = open.node.stat()?;
            let kept = |set: Option<Time>, host: Time| {
                set.filter(|set| *set != host).map(|set| StoredTime { set, host })
            };
            new.accessed = times.accessed.map_or(record.accessed, |_| kept(times.accessed, now.accessed));
            new.modified = times.modified.map_or(record.modified, |_| kept(times.modified, now.modified));
        }
        if let Some(TimeSet::Set(time)) = basic.created {
            new.created = Some(time);
        }
        if let Some(attributes) = basic.attributes {
            let sparse = record.attributes.unwrap_or_default() & Attributes::SPARSE;
            new.attributes = Some((attributes & (STORED - Attributes::SPARSE)) | sparse);
        }
        if let Some(TimeSet::Set(time)) = basic.changed {
            new.changed = Some(change_time(time, caller.now));
        } else if open.fixed_times().contains(FixedTimes::CHANGED) {
            new.changed = Some(change_time(record.changed(&before), caller.now));
        } else if !told.is_empty() {
            new.changed = None;
        }
        if new != record {
            self.store_record(open, new)?;
        }
        drop(beside);
        if !told.is_empty() || matches!(basic.changed, Some(TimeSet::Set(_))) {
            self.directory_entry_changed(open, caller.cause());
        }
        if let (Some(link), false) = (&open.link, told.is_empty()) {
            self.report(link, None, ChangeKind::Modified, told);
        }
        Ok(())
    }
}

/// Records the times that the open now holds fixed, and those that it releases.
fn update_fixed_times(open: &Open, basic: &Basic) {
    let mut own = open.fixed_times();
    for (what, bit) in [
        (basic.accessed, FixedTimes::ACCESSED),
        (basic.modified, FixedTimes::MODIFIED),
        (basic.changed, FixedTimes::CHANGED),
    ] {
        if let Some(what) = what {
            own.set(bit, what != TimeSet::Thaw);
        }
    }
    open.fixed_times.store(own.bits(), Ordering::Relaxed);
}

/// The times to set on the host, and the change to report to watches.
fn asked_for(basic: &Basic) -> (Times, ChangeFilter) {
    let set = |time: Option<TimeSet>| match time {
        Some(TimeSet::Set(time)) => Some(time),
        _ => None,
    };
    let times = Times { accessed: set(basic.accessed), modified: set(basic.modified) };
    let mut told = ChangeFilter::empty();
    told.set(ChangeFilter::CREATION, set(basic.created).is_some());
    told.set(ChangeFilter::ATTRIBUTES, basic.attributes.is_some());
    told.set(ChangeFilter::LAST_ACCESS, times.accessed.is_some());
    told.set(ChangeFilter::LAST_WRITE, times.modified.is_some());
    (times, told)
}
