//! A version number for each file that moves with every change and never goes back.
//!
//! The host's change time is not enough: two changes within one tick of its clock leave it as it was. So a
//! number that was given out is stored. The next one is higher if anything was changed through this server
//! since, or if the host's time has moved on. Files whose version no client has asked for cost nothing.
//!
//! The stored numbers are lost with the process. They must not go back then. So a run in which any number was
//! ahead of the host's time records that in the share's journal, once. After a restart, every file that the
//! host changed last in such a run gets its time plus [`LEAD`]. That is more than any number given out
//! before. This holds as long as the host's clock is not set back.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use volume::{NodeId, Time};
use wire::Now;

use crate::engine::values::ids::ById;
use crate::persistence::ledger::Ledger;
use crate::persistence::record::AheadSpan;
use crate::ranked::{Mutex, Rank};

/// Parts of the table.
const SHARDS: usize = 64;
/// Most files in one part.
const MAX_IN_SHARD: usize = 4096;
/// More than a number is ever ahead of the host's time: changes of one file within one tick of its clock.
const LEAD: u64 = 1_000_000;
/// By how much the host's time of a change may lag behind its clock, in nanoseconds.
const CLOCK_LAG_NS: u64 = 100_000_000;

/// The version of a file that was given out.
struct IssuedVersion {
    /// The last number.
    version: u64,
    /// The changes that the file had counted since it was opened.
    changes: u64,
    /// Another property of it was changed since.
    is_touched: bool,
    /// Whether it is ahead of the host's time, so that it must not be dropped lightly.
    ahead: bool,
    /// The host's time of change at which it was seen to have no attribute record.
    plain_at: Option<Time>,
}

/// The versions of files that were given out.
pub(crate) struct Versions {
    shards: [Mutex<ById<IssuedVersion>>; SHARDS],
    len: AtomicUsize,
    /// When this run began (wall ns).
    began: AtomicU64,
    /// This run has given out a number that was ahead of the host's time.
    is_ahead: AtomicBool,
    /// Files that the host changed last between these times may have got a number ahead of it, before this
    /// run.
    past: OnceLock<(u64, u64)>,
    /// Counters of record writes, by shard. A record that was read before such a write is not cached after
    /// it.
    written: [AtomicU64; SHARDS],
}

impl Default for Versions {
    fn default() -> Versions {
        Versions {
            shards: std::array::from_fn(|_| Mutex::of_default(Rank::Versions)),
            len: AtomicUsize::new(0),
            began: AtomicU64::new(0),
            is_ahead: AtomicBool::new(false),
            past: OnceLock::new(),
            written: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Versions {
    /// Takes in the state of earlier runs from `ledger`. Returns the record to write, which says when the
    /// last of these runs ended.
    pub fn begin(&self, ledger: &Ledger, now: Now) -> Option<AheadSpan> {
        let now = u64::try_from(now.wall_ns).unwrap_or(0);
        self.began.store(now.saturating_sub(CLOCK_LAG_NS), Ordering::Relaxed);
        let AheadSpan { since, until } = ledger.ahead?;
        let _ = self.past.set((since, until.unwrap_or(now)));
        until.is_none().then_some(AheadSpan { since, until: Some(now) })
    }

    /// The earliest time of a change in this run (wall ns).
    pub fn began(&self) -> u64 {
        self.began.load(Ordering::Relaxed)
    }

    /// The least version of a file that the host changed last at this time.
    fn least(&self, changed: Time) -> u64 {
        let host = number(changed);
        let may_be_behind = self.past.get().is_some_and(|(since, until)| (*since..*until).contains(&host));
        if may_be_behind { host + LEAD } else { host }
    }

    fn shard(&self, id: NodeId) -> &Mutex<ById<IssuedVersion>> {
        &self.shards[index(id)]
    }

    /// The version of a file with the time of change `changed` and with `changes` counted since it was
    /// opened. The flag is true for the first number of this run that is ahead of the host's time.
    pub fn issue(&self, id: NodeId, changed: Time, changes: u64) -> (u64, bool) {
        let host = self.least(changed);
        let mut shard = self.shard(id).lock();
        if shard.len() >= MAX_IN_SHARD && !shard.contains_key(&id) {
            let before = shard.len();
            shard.retain(|_, issued| issued.ahead);
            if shard.len() >= MAX_IN_SHARD {
                shard.clear();
            }
            self.len.fetch_sub(before - shard.len(), Ordering::Relaxed);
        }
        let issued = shard.entry(id).or_insert_with(|| {
            self.len.fetch_add(1, Ordering::Relaxed);
            IssuedVersion { version: host, changes, is_touched: false, ahead: false, plain_at: None }
        });
        let least = issued.version + u64::from(issued.is_touched || issued.changes != changes);
        (issued.version, issued.changes, issued.is_touched) = (host.max(least), changes, false);
        issued.ahead = least > host;
        let is_first = issued.ahead && !self.is_ahead.swap(true, Ordering::Relaxed);
        (issued.version, is_first)
    }

    /// The last number that was given out for a file, if it is known.
    pub fn issued(&self, id: NodeId) -> Option<u64> {
        self.shard(id).lock().get(&id).map(|issued| issued.version)
    }

    /// The counter of record writes. Take it before a record is read. Pass it to [`Versions::note_plain`]
    /// with the result.
    pub fn written(&self, id: NodeId) -> u64 {
        self.written[index(id)].load(Ordering::Acquire)
    }

    /// Whether a file is known to have no attribute record, at some time of change.
    pub fn has_plain(&self, id: NodeId) -> bool {
        self.shard(id).lock().get(&id).is_some_and(|issued| issued.plain_at.is_some())
    }

    /// Whether a file with this time of change is known to have no attribute record.
    pub fn is_plain(&self, id: NodeId, changed: Time) -> bool {
        self.shard(id).lock().get(&id).is_some_and(|issued| issued.plain_at == Some(changed))
    }

    /// Records that a file has no attribute record at this time of change, if no record was written since
    /// `written`. It is recorded only for files whose version was asked for.
    pub fn note_plain(&self, id: NodeId, changed: Time, written: u64) {
        let mut shard = self.shard(id).lock();
        if self.written(id) == written
            && let Some(issued) = shard.get_mut(&id)
        {
            issued.plain_at = Some(changed);
        }
    }

    /// A file may have an attribute record from now on.
    pub fn forget_plain(&self, id: NodeId) {
        let mut shard = self.shard(id).lock();
        self.written[index(id)].fetch_add(1, Ordering::AcqRel);
        if let Some(issued) = shard.get_mut(&id) {
            issued.plain_at = None;
        }
    }

    /// A property of a file was changed that it does not count itself.
    pub fn touch(&self, id: NodeId) {
        if self.len.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(issued) = self.shard(id).lock().get_mut(&id) {
            issued.is_touched = true;
        }
    }

    /// A file that has counted `changes` is closed by all. It will count from zero again.
    pub fn closed(&self, id: NodeId, changes: u64) {
        if changes == 0 || self.len.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(issued) = self.shard(id).lock().get_mut(&id) {
            issued.is_touched |= issued.changes != changes;
            issued.changes = 0;
        }
    }
}

/// The part of the table that a file is in.
fn index(id: NodeId) -> usize {
    let mixed = (id.inode ^ id.device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize % SHARDS
}

/// A time as a number.
pub(crate) fn number(time: Time) -> u64 {
    let secs = u64::try_from(time.secs).unwrap_or(0);
    secs.saturating_mul(1_000_000_000).saturating_add(u64::from(time.nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::record::JournalRecord;

    const ID: NodeId = NodeId { device: 1, inode: 2 };

    fn issue(versions: &Versions, id: NodeId, changed: Time, changes: u64) -> u64 {
        versions.issue(id, changed, changes).0
    }

    fn at(nanos: u32) -> Time {
        Time { secs: 5, nanos }
    }

    #[test]
    fn it_moves_with_each_change_within_one_tick_and_never_goes_back() {
        let versions = Versions::default();
        let first = issue(&versions, ID, at(100), 0);
        assert_eq!(issue(&versions, ID, at(100), 0), first);
        let second = issue(&versions, ID, at(100), 1);
        assert!(second > first);
        versions.closed(ID, 1);
        assert_eq!(issue(&versions, ID, at(100), 0), second);
        versions.touch(ID);
        assert_eq!(versions.issued(ID), Some(second), "nobody was told of it yet");
        let third = issue(&versions, ID, at(100), 0);
        assert!(third > second);
        // The host's clock was set back.
        assert_eq!(issue(&versions, ID, at(50), 0), third);
        assert_eq!(issue(&versions, ID, at(900), 0), number(at(900)));
    }

    #[test]
    fn changes_between_two_tellings_count_also_when_the_file_was_closed_in_between() {
        let versions = Versions::default();
        let first = issue(&versions, ID, at(1), 3);
        versions.closed(ID, 4);
        assert!(issue(&versions, ID, at(1), 0) > first);
    }

    #[test]
    fn what_was_read_before_a_record_was_written_is_not_remembered_after_it() {
        let versions = Versions::default();
        issue(&versions, ID, at(1), 0);
        let before = versions.written(ID);
        versions.note_plain(ID, at(1), before);
        assert!(versions.is_plain(ID, at(1)) && !versions.is_plain(ID, at(2)));
        versions.forget_plain(ID);
        assert!(!versions.is_plain(ID, at(1)));
        versions.note_plain(ID, at(1), before);
        assert!(!versions.is_plain(ID, at(1)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let versions = Versions::default();
        for inode in 0..(SHARDS * MAX_IN_SHARD * 2) as u64 {
            issue(&versions, NodeId { device: 1, inode }, at(1), 0);
        }
        assert!(versions.len.load(Ordering::Relaxed) <= SHARDS * MAX_IN_SHARD);
    }

    #[test]
    fn it_does_not_go_back_over_a_restart_that_forgets_what_was_told() {
        let run = |ledger: &mut Ledger, secs: i64| {
            let versions = Versions::default();
            let ended = versions.begin(ledger, Now { mono_ns: 0, wall_ns: secs * 1_000_000_000 });
            ended.into_iter().for_each(|ahead| ledger.apply(JournalRecord::Ahead(ahead)));
            versions
        };
        let mut ledger = Ledger::default();
        let first = run(&mut ledger, 4);
        let before = issue(&first, ID, at(100), 0);
        let (ahead, is_first) = first.issue(ID, at(100), 1);
        assert!(ahead > before && is_first && !first.issue(ID, at(100), 2).1, "said once");
        let since = first.began();
        ledger.apply(JournalRecord::Ahead(AheadSpan { since, until: None }));
        let second = run(&mut ledger, 6);
        let after = issue(&second, ID, at(100), 0);
        assert!(after > ahead, "what was told last is not gone below");
        assert!(issue(&second, ID, Time { secs: 6, nanos: 1 }, 0) > after, "and a change goes on from there");
        // Another run in which nothing was ahead gives the same number.
        assert_eq!(issue(&run(&mut ledger, 9), ID, at(100), 0), after);
        let quiet = Time { secs: 7, nanos: 0 };
        assert_eq!(issue(&run(&mut ledger, 9), ID, quiet, 0), number(quiet));
    }
}
