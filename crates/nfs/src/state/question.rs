//! Times that a client keeps with its delegation to write, and what it is asked of them (RFC 9754 5, RFC 8881 10.4.3).
//!
//! The holder of such a delegation is asked (CB_GETATTR) before another client is told of what it may have changed: the times,
//! the size, the change attribute. The GETATTR waits meanwhile (`Stop::Hold`), for a while at most. Without an answer the
//! delegation is recalled, as any other; a holder that was asked to give it back already is not asked for anything else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nfs_wire::attr::{Attr, AttrNum, Bitmap, Fattr};
use parking_lot::Mutex;
use share::{Info, Waiter};
use volume::{NodeId, Time};
use wire::Now;

use crate::attributes::time_of;
use crate::limits::QUESTION_NS;
use crate::state::stateid::State;

/// What is asked of the holder.
pub const ASKED: [AttrNum; 4] =
    [AttrNum::Change, AttrNum::Size, AttrNum::TimeDelegAccess, AttrNum::TimeDelegModify];

/// How a file was when its times were handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    /// Its change attribute, which the client repeats as long as it keeps nothing back.
    change: u64,
    accessed: Time,
    modified: Time,
}

impl Before {
    /// As these figures tell.
    #[must_use]
    pub fn of(info: &Info) -> Before {
        Before { change: info.version, accessed: info.accessed, modified: info.modified }
    }

    /// When the file was read last, if a client can be believed: not before its times were handed over, and by now.
    #[must_use]
    pub fn accessed(&self, told: Option<Time>, now: Now) -> Option<Time> {
        within(told, self.accessed, now)
    }

    /// The same for when its data was changed.
    #[must_use]
    pub fn modified(&self, told: Option<Time>, now: Now) -> Option<Time> {
        within(told, self.modified, now)
    }
}

/// A time that is no earlier than `first`, and the present where it is still to come.
fn within(told: Option<Time>, first: Time, now: Now) -> Option<Time> {
    let order = |time: Time| (time.secs, time.nanos);
    let now = Time::from_wall_ns(now.wall_ns);
    let told = told.filter(|told| order(*told) >= order(first))?;
    Some(if order(told) > order(now) { now } else { told })
}

/// What a holder has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    change: Option<u64>,
    size: Option<u64>,
    accessed: Option<Time>,
    modified: Option<Time>,
}

impl Told {
    /// Reads it; none when it is not what was asked for.
    #[must_use]
    pub fn read(given: &Fattr<'_>) -> Option<Told> {
        let mut told = Told::default();
        for attribute in given.iter() {
            match attribute.ok()? {
                Attr::Change(change) => told.change = Some(change),
                Attr::Size(size) => told.size = Some(size),
                Attr::TimeDelegAccess(time) => told.accessed = Some(time_of(time).ok()?),
                Attr::TimeDelegModify(time) => told.modified = Some(time_of(time).ok()?),
                _ => return None,
            }
        }
        (told.change.is_some() && told.size.is_some()).then_some(told)
    }

    /// Whether the holder has something that is not here yet.
    // RFC 8881 10.4.3
    #[must_use]
    pub fn is_news(&self, before: &Before, info: &Info) -> bool {
        self.change.is_some_and(|change| change != before.change)
            || self.size.is_some_and(|size| size != info.size)
    }

    /// When its data was changed last.
    #[must_use]
    pub fn modified(&self, before: &Before, now: Now) -> Option<Time> {
        before.modified(self.modified, now)
    }

    /// What is known of the file with what the holder has said; `is_news` as above.
    pub fn amend(&self, info: &mut Info, before: &Before, is_news: bool, now: Now) {
        if is_news {
            info.size = self.size.unwrap_or(info.size);
        }
        info.accessed = before.accessed(self.accessed, now).unwrap_or(info.accessed);
        info.modified = before.modified(self.modified, now).unwrap_or(info.modified);
    }
}

/// A question to the holder, and who waits for the answer.
pub struct Question {
    /// The delegation.
    pub state: Arc<State>,
    waiter: Waiter,
    /// When it was asked (monotonic ns).
    since_ns: u64,
    /// None as long as it is open; then what was told, when anything was.
    answer: Mutex<Option<Option<Told>>>,
}

impl Question {
    /// Which attributes are asked for.
    #[must_use]
    pub fn asked() -> Bitmap {
        Bitmap::of(&ASKED.map(AttrNum::get))
    }

    /// The answer, or that there will be none. The first one counts.
    pub fn answer(&self, told: Option<Told>) {
        let mut answer = self.answer.lock();
        if answer.is_none() {
            *answer = Some(told);
            drop(answer);
            self.waiter.wake.wake(self.waiter.token);
        }
    }

    /// What it came to; none as long as it is open.
    #[must_use]
    pub fn answered(&self) -> Option<Option<Told>> {
        *self.answer.lock()
    }
}

/// The delegations of a server whose holders keep the times, and what they are asked.
#[derive(Default)]
pub struct Proxies {
    /// How many files there are: nobody looks for one where there is none.
    count: AtomicUsize,
    by_file: Mutex<HashMap<(u32, NodeId), Weak<State>>>,
    open: Mutex<Vec<Weak<Question>>>,
}

impl Proxies {
    /// The holder of this delegation keeps the times of its file.
    pub fn add(&self, state: &Arc<State>) {
        let mut by_file = self.by_file.lock();
        by_file.insert((state.export.id, state.node), Arc::downgrade(state));
        self.count.store(by_file.len(), Ordering::Release);
    }

    /// It does not any more.
    pub fn remove(&self, state: &State) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut by_file = self.by_file.lock();
        let key = (state.export.id, state.node);
        let is_it = |held: &Weak<State>| std::ptr::eq(held.as_ptr(), state);
        if by_file.get(&key).is_some_and(is_it) {
            by_file.remove(&key);
            self.count.store(by_file.len(), Ordering::Release);
        }
    }

    /// The delegation of a file whose holder can be asked.
    #[must_use]
    pub fn of(&self, export: u32, node: NodeId) -> Option<Arc<State>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let state = self.by_file.lock().get(&(export, node))?.upgrade()?;
        let can_be_asked = state.delegation().is_some_and(|held| !held.is_recalled() && !held.is_revoked());
        can_be_asked.then_some(state)
    }

    /// A new question, which `waiter` waits for.
    #[must_use]
    pub fn question(&self, state: Arc<State>, waiter: Waiter, now: Now) -> Arc<Question> {
        let question = Arc::new(Question { state, waiter, since_ns: now.mono_ns, answer: Mutex::new(None) });
        self.open.lock().push(Arc::downgrade(&question));
        question
    }

    /// Gives up questions that nobody has answered in time, and forgets what is over.
    pub fn tick(&self, now: Now) {
        let mut late = Vec::new();
        self.open.lock().retain(|question| {
            let Some(question) = question.upgrade().filter(|question| question.answered().is_none()) else {
                return false;
            };
            let is_late = now.mono_ns.saturating_sub(question.since_ns) >= QUESTION_NS;
            if is_late {
                late.push(question);
            }
            !is_late
        });
        late.iter().for_each(|question| question.answer(None));
        let mut by_file = self.by_file.lock();
        by_file.retain(|_, state| state.strong_count() > 0);
        self.count.store(by_file.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_time_lies_between_when_it_was_handed_over_and_now() {
        let at = |secs, nanos| Time { secs, nanos };
        let now = Now { mono_ns: 0, wall_ns: 100_000_000_007 };
        let first = at(50, 5);
        for (told, found) in [
            (at(50, 4), None),
            (at(49, 9), None),
            (at(50, 5), Some(at(50, 5))),
            (at(100, 7), Some(at(100, 7))),
            (at(100, 8), Some(at(100, 7))),
            (at(101, 0), Some(at(100, 7))),
        ] {
            assert_eq!(within(Some(told), first, now), found, "{told:?}");
        }
        assert_eq!(within(None, first, now), None);
    }
}
