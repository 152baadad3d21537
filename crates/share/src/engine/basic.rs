//! Times and attribute bits, and the times that an open holds fast.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Kind, Node, Time, Times};
use wire::Now;

use super::Share;
use super::file::File;
use super::record::{CHANGE_TIME_HOLDS_NS, Kept, Record, STORED};
use crate::open::OwnTimes;
use crate::{Attributes, Caller, ChangeFilter, ChangeKind, Open, Refusal, Step};

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
    /// is set here holds until the next change that this open has not made.
    pub changed: Option<TimeSet>,
    /// Attribute bits; none of those that are kept means none at all.
    pub attributes: Option<Attributes>,
}

impl Share {
    /// Sets times and attribute bits. Waits for those who would not look again.
    // MS-FSA 2.1.5.15.2
    pub fn set_basic(&self, caller: &Caller<'_>, open: &Arc<Open>, basic: Basic) -> Step<()> {
        let may = self.check_basic(open, &basic);
        self.after_attributes(caller, open, may, || self.amend_basic(caller, open, basic))
    }

    /// Says that a file was used or changed now: for this it is enough to have the right to its data, also one that the open has
    /// not. Waits for those who would not look again.
    // RFC 8881 6.2.1.3.1 (WRITE_ATTRIBUTES), utimensat(2)
    pub fn touch(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        accessed: Option<Time>,
        modified: Option<Time>,
    ) -> Step<()> {
        let may = self
            .check_owner(caller, open, Rights::WRITE_ATTRIBUTES)
            .or_else(|_| self.check_owner(caller, open, Rights::WRITE_DATA))
            .and_then(|()| self.check_writable());
        let set = |time: Option<Time>| time.map(TimeSet::Set);
        let basic = Basic { accessed: set(accessed), modified: set(modified), ..Basic::default() };
        self.after_attributes(caller, open, may, || self.amend_basic(caller, open, basic))
    }

    /// Sets times that somebody has kept for the file who has the right to write it later, under `open`. They are the file's
    /// times until now, so nobody is asked for anything; what is written through the open later moves them again.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`] where `open` is not one to write; as the volume says.
    pub fn set_kept_times(
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
        self.amend_basic(caller, open, each(|_| TimeSet::Thaw))
    }

    /// The same as setting it, as part of making the file: whoever has come across it since is not waited for.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`] without the right to; [`Refusal::Invalid`]; as the volume says.
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
        let is_directory = open.file.kind == Kind::Directory;
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
        take_over(open, &basic);
        let (times, told) = asked_for(&basic);
        if times != Times::default() {
            open.node.set_times(times)?;
            self.own_changed(&open.file);
        }
        let mut new = record;
        if times != Times::default() {
            let now = open.node.stat()?;
            let kept =
                |set: Option<Time>, host: Time| set.filter(|set| *set != host).map(|set| Kept { set, host });
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
        } else if open.own_times().contains(OwnTimes::CHANGED) {
            new.changed = Some(change_time(record.changed(&before), caller.now));
        } else if !told.is_empty() {
            new.changed = None;
        }
        if new != record {
            self.store_record(open, new)?;
        }
        drop(beside);
        if !told.is_empty() || matches!(basic.changed, Some(TimeSet::Set(_))) {
            self.shown_changed(open, caller.cause());
        }
        if let (Some(link), false) = (&open.link, told.is_empty()) {
            self.tell(link, None, ChangeKind::Modified, told);
        }
        Ok(())
    }

    /// Stores a file's record and remembers it. What it was made of was read under `File::beside`, which the caller holds.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn store_record(&self, open: &Open, record: Record) -> Result<(), Refusal> {
        self.store_record_at(&open.file, open.node.as_ref(), record)
    }

    /// The same for a file that is about to be handed out.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn store_record_at(
        &self,
        file: &File,
        node: &dyn Node,
        record: Record,
    ) -> Result<(), Refusal> {
        self.put_record(node, &record)?;
        self.own_changed(file);
        file.note_record(record);
        Ok(())
    }

    /// Something of a file was changed that it does not count itself.
    pub(super) fn own_changed(&self, file: &File) {
        file.own_changes.fetch_add(1, Ordering::SeqCst);
        self.open_files().versions().touch(file.id);
        if file.is_directory
            && let Some(directory) = self.directories().get(file.id)
        {
            directory.own_changed();
        }
    }

    /// Does something that changes data, and leaves the times as they were that the open has in its hands.
    ///
    /// # Errors
    /// What `act` says; as the volume says.
    pub(super) fn keeping_times<T>(
        &self,
        open: &Open,
        now: Now,
        act: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let before = self.own_times_of(open)?;
        let done = act()?;
        self.put_back(open, before, now)?;
        Ok(done)
    }

    /// The times that an open has in its hands, before something is done through it that moves them.
    ///
    /// # Errors
    /// As the volume says.
    fn own_times_of(&self, open: &Open) -> Result<Option<Before>, Refusal> {
        let own = open.own_times();
        if own.is_empty() {
            return Ok(None);
        }
        let stat = open.node.stat()?;
        let changed =
            if own.contains(OwnTimes::CHANGED) { Some(self.record_of(open)?.changed(&stat)) } else { None };
        let times = Times {
            accessed: own.contains(OwnTimes::ACCESSED).then_some(stat.accessed),
            modified: own.contains(OwnTimes::MODIFIED).then_some(stat.modified),
        };
        Ok(Some(Before { times, changed }))
    }

    /// Puts them back after it was done.
    ///
    /// # Errors
    /// As the volume says.
    // MS-FSA 2.1.4.17
    fn put_back(&self, open: &Open, before: Option<Before>, now: Now) -> Result<(), Refusal> {
        let Some(Before { times, changed }) = before else {
            return Ok(());
        };
        if times != Times::default() {
            open.node.set_times(times)?;
        }
        if let Some(changed) = changed {
            let _beside = open.file.beside.lock();
            let record = self.record_of(open)?;
            self.store_record(open, Record { changed: Some(change_time(changed, now)), ..record })?;
        }
        Ok(())
    }
}

/// Times as they were before something was done through an open that keeps them so.
struct Before {
    times: Times,
    changed: Option<Time>,
}

/// A change time that holds until something else changes the file.
fn change_time(set: Time, now: Now) -> Kept {
    Kept { set, host: Time::from_wall_ns(now.wall_ns.saturating_add(CHANGE_TIME_HOLDS_NS)) }
}

/// Notes which times the open takes into its hands, and which it lets go.
fn take_over(open: &Open, basic: &Basic) {
    let mut own = open.own_times();
    for (what, bit) in [
        (basic.accessed, OwnTimes::ACCESSED),
        (basic.modified, OwnTimes::MODIFIED),
        (basic.changed, OwnTimes::CHANGED),
    ] {
        if let Some(what) = what {
            own.set(bit, what != TimeSet::Thaw);
        }
    }
    open.own_times.store(own.bits(), Ordering::Relaxed);
}

/// The times that the host is to set, and what watches are to hear.
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
