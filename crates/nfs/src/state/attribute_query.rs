//! The query to a client that keeps times under its write delegation (RFC 9754 5, RFC 8881 10.4.3).
//!
//! The server asks the holder of such a delegation (CB_GETATTR) before it tells another client an attribute
//! that the holder may have changed: the times, the size, the change attribute. The GETATTR waits meanwhile
//! (`Stop::Hold`), up to a limit. If the holder does not reply, the delegation is recalled like any other. A
//! holder that is already being recalled is not asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nfs_wire::attr::{AttrNum, Bitmap};
use parking_lot::Mutex;
use share::Waiter;
use volume::NodeId;
use wire::Now;

use crate::limits::HOLDER_QUERY_NS;
use crate::state::delegated_times::HolderAttributes;
use crate::state::stateid::LockingState;

/// The attributes that the holder is asked for.
pub const ASKED: [AttrNum; 4] =
    [AttrNum::Change, AttrNum::Size, AttrNum::TimeDelegAccess, AttrNum::TimeDelegModify];

/// A query to the holder, and the request that waits for the reply.
pub struct AttributeQuery {
    /// The delegation.
    pub state: Arc<LockingState>,
    waiter: Waiter,
    /// The time of the query (monotonic ns).
    since_ns: u64,
    /// None while the query is open. Then the attributes that the holder reported, if any.
    answer: Mutex<Option<Option<HolderAttributes>>>,
}

impl AttributeQuery {
    /// The attributes that the holder is asked for.
    #[must_use]
    pub fn asked() -> Bitmap {
        Bitmap::of(&ASKED.map(AttrNum::get))
    }

    /// Ends the query, with or without attributes. The first result counts.
    pub fn answer(&self, told: Option<HolderAttributes>) {
        let mut answer = self.answer.lock();
        if answer.is_none() {
            *answer = Some(told);
            drop(answer);
            self.waiter.wake.wake(self.waiter.token);
        }
    }

    /// The result. None while the query is open.
    #[must_use]
    pub fn answered(&self) -> Option<Option<HolderAttributes>> {
        *self.answer.lock()
    }
}

/// The delegations whose holders keep the times of their files, and the open queries to them.
#[derive(Default)]
pub struct Proxies {
    /// The number of files. It saves the lookup if there are none.
    count: AtomicUsize,
    by_file: Mutex<HashMap<(u32, NodeId), Weak<LockingState>>>,
    open: Mutex<Vec<Weak<AttributeQuery>>>,
}

impl Proxies {
    /// Adds a delegation whose holder keeps the times of its file.
    pub fn add(&self, state: &Arc<LockingState>) {
        let mut by_file = self.by_file.lock();
        by_file.insert((state.export.id, state.node), Arc::downgrade(state));
        self.count.store(by_file.len(), Ordering::Release);
    }

    /// Removes a delegation.
    pub fn remove(&self, state: &LockingState) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut by_file = self.by_file.lock();
        let key = (state.export.id, state.node);
        let is_it = |held: &Weak<LockingState>| std::ptr::eq(held.as_ptr(), state);
        if by_file.get(&key).is_some_and(is_it) {
            by_file.remove(&key);
            self.count.store(by_file.len(), Ordering::Release);
        }
    }

    /// The delegation of a file, if its holder can be asked.
    #[must_use]
    pub fn of(&self, export: u32, node: NodeId) -> Option<Arc<LockingState>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let state = self.by_file.lock().get(&(export, node))?.upgrade()?;
        let can_be_asked = state.delegation().is_some_and(|held| !held.is_recalled() && !held.is_revoked());
        can_be_asked.then_some(state)
    }

    /// Creates a query on behalf of `waiter`.
    #[must_use]
    pub fn query(&self, state: Arc<LockingState>, waiter: Waiter, now: Now) -> Arc<AttributeQuery> {
        let query =
            Arc::new(AttributeQuery { state, waiter, since_ns: now.mono_ns, answer: Mutex::new(None) });
        self.open.lock().push(Arc::downgrade(&query));
        query
    }

    /// Ends queries that nobody has answered in time, and forgets delegations that have ended.
    pub fn tick(&self, now: Now) {
        let mut late = Vec::new();
        self.open.lock().retain(|query| {
            let Some(query) = query.upgrade().filter(|query| query.answered().is_none()) else {
                return false;
            };
            let is_late = now.mono_ns.saturating_sub(query.since_ns) >= HOLDER_QUERY_NS;
            if is_late {
                late.push(query);
            }
            !is_late
        });
        late.iter().for_each(|query| query.answer(None));
        let mut by_file = self.by_file.lock();
        by_file.retain(|_, state| state.strong_count() > 0);
        self.count.store(by_file.len(), Ordering::Release);
    }
}
