//! Times and attribute bits, and the times that an open holds fast.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Kind, Time, Times};

use super::Share;
use super::record::{CHANGE_TIME_HOLDS_NS, ChangeTime, Record, STORED};
use crate::{Attributes, Caller, ChangeFilter, ChangeKind, Open, Refusal};

/// What is to become of one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeSet {
    /// It is this from now on; what this open does leaves it so.
    Set(Time),
    /// What this open does leaves it as it is.
    Freeze,
    /// What this open does moves it again.
    Thaw,
}

/// Times and bits to be set; what is `None` stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Basic {
    /// Creation.
    pub created: Option<TimeSet>,
    /// Last read.
    pub accessed: Option<TimeSet>,
    /// Last change of data.
    pub modified: Option<TimeSet>,
    /// Last change of anything. The host moves its own with every change and lets nobody set it, so what
    /// is set here holds until the next change.
    pub changed: Option<TimeSet>,
    /// Attribute bits; none of those that are kept means none at all.
    pub attributes: Option<Attributes>,
}

impl Share {
    /// Sets times and attribute bits.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`] without the right to; [`Refusal::Invalid`]; as the volume says.
    // MS-FSA 2.1.5.15.2
    pub fn set_basic(&self, caller: &Caller<'_>, open: &Arc<Open>, basic: Basic) -> Result<(), Refusal> {
        if !open.granted.contains(Rights::WRITE_ATTRIBUTES) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()?;
        let is_directory = open.file.kind == Kind::Directory;
        if let Some(attributes) = basic.attributes {
            let wrong = (attributes.contains(Attributes::DIRECTORY) && !is_directory)
                || (attributes.contains(Attributes::TEMPORARY) && is_directory);
            if wrong {
                return Err(Refusal::Invalid);
            }
        }
        let mut told = self.set_record(caller, open, &basic)?;
        told |= self.set_host_times(open, &basic)?;
        if let (Some(link), false) = (&open.link, told.is_empty()) {
            self.tell(link, None, ChangeKind::Modified, told);
        }
        Ok(())
    }

    fn set_record(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        basic: &Basic,
    ) -> Result<ChangeFilter, Refusal> {
        let record = self.record_of(open)?;
        let mut new = Record { changed: None, ..record };
        let mut told = ChangeFilter::empty();
        if let Some(TimeSet::Set(time)) = basic.created {
            new.created = Some(time);
            told |= ChangeFilter::CREATION;
        }
        if let Some(attributes) = basic.attributes {
            let sparse = record.attributes.unwrap_or_default() & Attributes::SPARSE;
            new.attributes = Some((attributes & (STORED - Attributes::SPARSE)) | sparse);
            told |= ChangeFilter::ATTRIBUTES;
        }
        if let Some(TimeSet::Set(set)) = basic.changed {
            let until = Time::from_wall_ns(caller.now.wall_ns.saturating_add(CHANGE_TIME_HOLDS_NS));
            new.changed = Some(ChangeTime { set, until });
        } else if basic.changed.is_some() {
            new.changed = record.changed;
        }
        if new != record {
            self.store_record(open, new)?;
        }
        Ok(told)
    }

    /// Stores a file's record and remembers it.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn store_record(&self, open: &Open, record: Record) -> Result<(), Refusal> {
        record.store(open.node.as_ref())?;
        open.file.state.lock().record = Some(record);
        Ok(())
    }

    fn set_host_times(&self, open: &Arc<Open>, basic: &Basic) -> Result<ChangeFilter, Refusal> {
        let set = |time: Option<TimeSet>| match time {
            Some(TimeSet::Set(time)) => Some(time),
            _ => None,
        };
        let times = Times { accessed: set(basic.accessed), modified: set(basic.modified) };
        let mut told = ChangeFilter::empty();
        told.set(ChangeFilter::LAST_ACCESS, times.accessed.is_some());
        told.set(ChangeFilter::LAST_WRITE, times.modified.is_some());
        if !told.is_empty() {
            open.node.set_times(times)?;
        }
        let freezes = [basic.accessed, basic.modified].contains(&Some(TimeSet::Freeze));
        let now = if freezes { Some(open.node.stat()?) } else { None };
        let mut guard = open.sticky.lock();
        let sticky = &mut *guard;
        for (what, held, current) in [
            (basic.accessed, &mut sticky.accessed, now.map(|s| s.accessed)),
            (basic.modified, &mut sticky.modified, now.map(|s| s.modified)),
        ] {
            match what {
                Some(TimeSet::Set(time)) => *held = Some(time),
                Some(TimeSet::Freeze) => *held = held.or(current),
                Some(TimeSet::Thaw) => *held = None,
                None => {}
            }
        }
        let any = sticky.accessed.is_some() || sticky.modified.is_some();
        open.is_sticky.store(any, Ordering::Release);
        Ok(told)
    }

    /// Puts back the times that an open holds fast after it changed something.
    pub(super) fn keep_sticky(&self, open: &Open) -> Result<(), Refusal> {
        if !open.is_sticky.load(Ordering::Acquire) {
            return Ok(());
        }
        let sticky = *open.sticky.lock();
        Ok(open.node.set_times(Times { accessed: sticky.accessed, modified: sticky.modified })?)
    }
}
