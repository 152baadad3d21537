//! What a client is asked that keeps times with its delegation to write (RFC 9754 5, RFC 8881 10.4.3).
//!
//! The holder of such a delegation is asked (CB_GETATTR) before another client is told of what it may have changed: the times,
//! the size, the change attribute. The GETATTR waits meanwhile (`Stop::Hold`), for a while at most. Without an answer the
//! delegation is recalled, as any other; a holder that was asked to give it back already is not asked for anything else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nfs_wire::attr::{AttrNum, Bitmap};
use parking_lot::Mutex;
use share::Waiter;
use volume::NodeId;
use wire::Now;

use crate::limits::QUESTION_NS;
use crate::state::delegated_times::Told;
use crate::state::stateid::State;

/// What is asked of the holder.
pub const ASKED: [AttrNum; 4] =
    [AttrNum::Change, AttrNum::Size, AttrNum::TimeDelegAccess, AttrNum::TimeDelegModify];

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
