//! Files that were made through the share a moment ago.
//!
//! What lies beside a file is otherwise believed only for a time of change that was old enough when it was read, which
//! nothing that was just made has. But of a file that was made plain it is known that nothing lies beside it, until one of
//! these: the engine stores something with it, the volume tells that something was changed by its name
//! ([`super::super::directory::Directory::forget_made`]), the name goes, or the file is seen to have another name, or a time
//! of change that is later than its maker's close ([`Made::has_no_record`]): then something may have been done through a name
//! that nobody tells of.

use std::sync::atomic::{AtomicI64, Ordering};

use volume::{NodeId, Stat, Time};
use wire::Now;

use crate::engine::values::address::Address;
use crate::engine::values::record::CHANGE_TIME_HOLDS_NS;

/// For how many bytes one counts, beside its name.
pub(super) const MADE_BYTES: usize = 288;

/// A file that was made with nothing beside it.
pub(crate) struct Made {
    id: NodeId,
    born: Option<Time>,
    /// How often the engine had stored something when it was made ([`super::Cache::written`]).
    written: u64,
    /// Up to when a time of change can be that of what its maker did (wall ns); nothing is, before it is closed.
    until: AtomicI64,
    pub address: Address,
}

impl Made {
    /// A file that showed these figures when it was made; nothing was stored with it before `written` was taken.
    pub fn new(stat: &Stat, written: u64) -> Made {
        let until = AtomicI64::new(i64::MIN);
        Made { id: stat.id, born: stat.born, written, until, address: Address::default() }
    }

    /// Nobody has it open any more. A request may take a while, so that what its maker did may be a little later than this.
    pub fn closed(&self, now: Now) {
        self.until.store(now.wall_ns.saturating_add(CHANGE_TIME_HOLDS_NS), Ordering::Release);
    }

    /// Whether it is the file that shows these figures; one whose time of birth is not told is never known again.
    pub fn is(&self, stat: &Stat) -> bool {
        self.id == stat.id && self.born.is_some() && self.born == stat.born
    }

    /// Whether the file with these figures has no attribute record, the engine having stored something so often.
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
        let made = Made::new(&stat, 7);
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
        let nowhen = Made::new(&Stat { born: None, ..stat }, 7);
        nowhen.closed(Now { mono_ns: 0, wall_ns: closed });
        assert!(!nowhen.has_no_record(&Stat { born: None, ..stat }, 7));
    }
}
