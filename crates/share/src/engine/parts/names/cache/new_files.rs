//! Files that were created through the share a moment ago.
//!
//! Cached sidecar data is otherwise trusted only for a time of change that was old enough when the data was
//! read, and a new file has no such time. But a file that was created plain has no sidecar data until one of
//! these events. The engine stores some. The volume reports a change by its name
//! ([`super::super::directory::Directory::forget_new_file`]). The name is removed. Or the file is seen to
//! have another name, or a time of change later than its creator's close ([`NewFile::has_no_record`]): then
//! it may have been changed through a name that is not watched.

use std::sync::atomic::{AtomicI64, Ordering};

use volume::{NodeId, Stat, Time};
use wire::Now;

use crate::engine::values::address::CachedAddress;
use crate::engine::values::record::CHANGE_TIME_HOLDS_NS;

/// The bytes that one entry counts for, beside its name.
pub(super) const MADE_BYTES: usize = 288;

/// A file that was created without sidecar data.
pub(crate) struct NewFile {
    id: NodeId,
    born: Option<Time>,
    /// The counter of sidecar writes at its creation ([`super::Cache::written`]).
    written: u64,
    /// The latest time of change that can come from its creator (wall ns). There is none before it is closed.
    until: AtomicI64,
    pub address: CachedAddress,
}

impl NewFile {
    /// A file that had this stat at its creation. No sidecar data was stored before `written` was taken.
    pub fn new(stat: &Stat, written: u64) -> NewFile {
        let until = AtomicI64::new(i64::MIN);
        NewFile { id: stat.id, born: stat.born, written, until, address: CachedAddress::default() }
    }

    /// The last open was closed. A request may take a while, so the creator's last change may be a little
    /// later than this.
    pub fn closed(&self, now: Now) {
        self.until.store(now.wall_ns.saturating_add(CHANGE_TIME_HOLDS_NS), Ordering::Release);
    }

    /// Whether it is the file with this stat. A file without a time of birth is never recognized.
    pub fn is(&self, stat: &Stat) -> bool {
        self.id == stat.id && self.born.is_some() && self.born == stat.born
    }

    /// Whether the file with this stat has no attribute record, if `written` is the current counter of
    /// sidecar writes.
    pub fn has_no_record(&self, stat: &Stat, written: u64) -> bool {
        let until = Time::from_wall_ns(self.until.load(Ordering::Acquire));
        self.is(stat) && stat.links == 1 && self.written == written && stat.changed <= until
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::stat;
    use super::*;

    #[test]
    fn it_counts_for_the_file_with_one_name_that_nobody_has_changed_since() {
        let at = |ns: i64| Time::from_wall_ns(ns);
        let closed = 50_000_000_000;
        let stat = stat(50);
        let made = NewFile::new(&stat, 7);
        assert!(!made.has_no_record(&stat, 7), "it is open");
        made.closed(Now { mono_ns: 0, wall_ns: closed });
        assert!(made.has_no_record(&stat, 7));
        let last = Stat { changed: at(closed + CHANGE_TIME_HOLDS_NS), ..stat };
        assert!(made.has_no_record(&last, 7));
        assert!(!made.has_no_record(&stat, 8), "something was stored");
        for other in [
            Stat { links: 2, ..stat },
            Stat { links: 0, ..stat },
            Stat { changed: at(closed + CHANGE_TIME_HOLDS_NS + 1), ..stat },
            Stat { id: NodeId { device: 1, inode: 3 }, ..stat },
            Stat { born: Some(at(2)), ..stat },
            Stat { born: None, ..stat },
        ] {
            assert!(!made.has_no_record(&other, 7), "{other:?}");
        }
        let nowhen = NewFile::new(&Stat { born: None, ..stat }, 7);
        nowhen.closed(Now { mono_ns: 0, wall_ns: closed });
        assert!(!nowhen.has_no_record(&Stat { born: None, ..stat }, 7));
    }
}
