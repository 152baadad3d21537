//! The grace period after a restart: who may come back, and what is kept for them meanwhile (RFC 8881 8.4.2).
//!
//! Everything that clients had open, locked and delegated is in the engines again when the server starts, held by nobody
//! ([`Kept`]). So only what conflicts with it has to wait. A client that comes back takes up piece by piece what it claims
//! (`crate::op::claim`); what it has not claimed when it says that it is done is closed. When the last one has said so, or
//! the time is over, the grace ends.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_wire::types::Verifier;
use parking_lot::Mutex;
use share::{ClientKey, LockOwner, Open, RangeRequest, Share};
use volume::NodeId;
use wire::Now;

use crate::config::Export;
use crate::state::record::{Known, Note, What};
use crate::state::roll::Before;
use crate::state::stateid::{Of, State};
use crate::state::who::Principal;

/// How much longer a grace lasts than the last claim, as long as clients go on claiming, in nanoseconds.
const STRETCH_NS: u64 = 2_000_000_000;

/// An open from before the restart that nobody has claimed yet.
pub struct Kept {
    /// The export it was made through.
    pub export: Arc<Export>,
    /// The engine's open.
    pub open: Arc<Open>,
    /// What it was to the client.
    pub note: Note,
}

/// Closes an open that nobody has claimed.
pub fn close(engine: &Share, open: &Arc<Open>, now: Now) {
    if let Err(why) = engine.close(open, now) {
        tracing::warn!(share = %engine.name(), %why, "an open from before the restart was closed with an error");
    }
}

/// An open that was claimed, and the byte ranges that were: taken (true) and released again, in their order.
pub struct Claimed {
    /// The open.
    pub state: Arc<State>,
    /// Ranges by their owners.
    pub ranges: Vec<(LockOwner, RangeRequest, bool)>,
}

/// A client that was there before the restart and has not said that it has claimed everything.
pub struct Absent {
    /// Who it is.
    pub known: Known,
    /// It has made a session again.
    pub is_back: bool,
    kept: HashMap<Key, Kept>,
    /// What it has claimed.
    pub claimed: Vec<Claimed>,
}

impl Absent {
    /// What nobody has claimed.
    pub fn unclaimed(&self) -> impl Iterator<Item = &Kept> {
        self.kept.values()
    }
}

/// Whether an open was a delegation, whose, of which export and file.
type Key = (bool, Box<[u8]>, u32, NodeId);

fn key_of(note: &Note, node: NodeId) -> Key {
    (note.what == What::Delegation, note.owner.clone(), note.export, node)
}

/// Who somebody is that introduces itself, with regard to those who may come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// Nobody who was there before.
    New,
    /// The client that had this key, going on.
    Back(ClientKey),
    /// The same owner, which has begun anew itself: it has nothing any more.
    Anew(ClientKey),
    /// Somebody else uses the owner's name.
    Stranger,
}

/// The grace period, running or over.
#[derive(Default)]
pub struct Grace {
    is_on: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    absent: HashMap<ClientKey, Absent>,
    by_owner: HashMap<Box<[u8]>, ClientKey>,
    /// Files of which anything was kept or claimed.
    files: HashSet<NodeId>,
    /// What was recorded may lack its end, so that nothing new is safe.
    is_whole: bool,
    /// When it ends (monotonic ns), and when at the latest.
    until_ns: u64,
    latest_ns: u64,
}

impl Inner {
    fn take(&mut self, key: ClientKey) -> Option<Absent> {
        let absent = self.absent.remove(&key)?;
        self.by_owner.remove(&absent.known.owner);
        Some(absent)
    }
}

impl Grace {
    /// Begins, when anybody can come back.
    // RFC 8881 8.4.2.1
    pub fn begin(&self, before: Before, lease_ns: u64, now: Now) {
        let mut inner = self.inner.lock();
        for known in before.clients {
            inner.by_owner.insert(known.owner.clone(), known.key);
            let absent = Absent { is_back: false, kept: HashMap::new(), claimed: Vec::new(), known };
            inner.absent.insert(absent.known.key, absent);
        }
        inner.is_whole = before.is_host_new;
        inner.until_ns = now.mono_ns.saturating_add(lease_ns);
        inner.latest_ns = inner.until_ns.saturating_add(lease_ns);
        self.is_on.store(!inner.absent.is_empty(), Ordering::Release);
    }

    /// Records are lost, so that nothing new is safe while it runs.
    pub fn doubt(&self) {
        self.inner.lock().is_whole = true;
    }

    /// Whether it runs.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// How many clients may still come back or claim something, and how many of them are back.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.absent.len(), inner.absent.values().filter(|absent| absent.is_back).count())
    }

    /// Keeps an open for its client. Gives it back when there is none.
    ///
    /// # Errors
    /// The open, to be closed.
    pub fn keep(&self, kept: Kept) -> Result<(), Kept> {
        let mut inner = self.inner.lock();
        let node = kept.open.node_id();
        let Some(absent) = inner.absent.get_mut(&kept.open.client()) else { return Err(kept) };
        absent.kept.insert(key_of(&kept.note, node), kept);
        inner.files.insert(node);
        Ok(())
    }

    /// Who somebody is that introduces itself.
    // RFC 8881 2.4.3
    #[must_use]
    pub fn recognise(&self, owner: &[u8], verifier: Verifier, principal: &Principal) -> Came {
        if !self.is_on() {
            return Came::New;
        }
        let inner = self.inner.lock();
        let known =
            inner.by_owner.get(owner).and_then(|key| inner.absent.get(key)).map(|absent| &absent.known);
        match known {
            None => Came::New,
            Some(known) if known.principal != *principal => Came::Stranger,
            Some(known) if known.verifier != verifier => Came::Anew(known.key),
            Some(known) => Came::Back(known.key),
        }
    }

    /// Notes that a client has made a session again.
    pub fn is_back(&self, key: ClientKey) {
        if let Some(absent) = self.inner.lock().absent.get_mut(&key) {
            absent.is_back = true;
        }
    }

    /// Whether a client may claim what it had.
    #[must_use]
    pub fn may_claim(&self, key: ClientKey) -> bool {
        self.is_on() && self.inner.lock().absent.contains_key(&key)
    }

    /// Whether nothing new may be opened or locked on a file, since somebody may claim it.
    ///
    /// That holds for each file of which anything was kept or claimed until the grace is over, also when its last claim
    /// is closed: a client may have opened it under a delegation without telling.
    // RFC 8881 8.4.2.1
    #[must_use]
    pub fn covers(&self, node: NodeId) -> bool {
        if !self.is_on() {
            return false;
        }
        let inner = self.inner.lock();
        inner.is_whole || inner.files.contains(&node)
    }

    /// Whether nothing new may be opened at all.
    #[must_use]
    pub fn covers_all(&self) -> bool {
        self.is_on() && self.inner.lock().is_whole
    }

    /// Takes what a client had: an open of an owner, or a delegation (which has no owner).
    #[must_use]
    pub fn take(&self, client: ClientKey, what: What, of: Of<'_>) -> Option<Kept> {
        let mut inner = self.inner.lock();
        let absent = inner.absent.get_mut(&client)?;
        absent.kept.remove(&(what == What::Delegation, of.owner.into(), of.export, of.node))
    }

    /// Notes an open that was claimed.
    pub fn claimed(&self, client: ClientKey, state: &Arc<State>, now: Now) {
        let mut inner = self.inner.lock();
        inner.files.insert(state.node);
        inner.until_ns = inner.until_ns.max(now.mono_ns.saturating_add(STRETCH_NS)).min(inner.latest_ns);
        if let Some(absent) = inner.absent.get_mut(&client) {
            absent.claimed.push(Claimed { state: Arc::clone(state), ranges: Vec::new() });
        }
    }

    /// Notes that a range of an open was claimed, or released again.
    pub fn changed_range(
        &self,
        client: ClientKey,
        open: &Arc<State>,
        change: (LockOwner, RangeRequest, bool),
    ) {
        if !self.is_on() {
            return;
        }
        let mut inner = self.inner.lock();
        let Some(absent) = inner.absent.get_mut(&client) else { return };
        if let Some(claimed) = absent.claimed.iter_mut().find(|claimed| Arc::ptr_eq(&claimed.state, open)) {
            claimed.ranges.push(change);
        }
    }

    /// A client has claimed all that it wanted, or has nothing to come back to: what was kept for it. The last one ends the
    /// grace.
    pub fn complete(&self, key: ClientKey) -> Option<Absent> {
        if !self.is_on() {
            return None;
        }
        let mut inner = self.inner.lock();
        let absent = inner.take(key)?;
        if inner.absent.is_empty() {
            self.end(&mut inner);
        }
        Some(absent)
    }

    /// The key of the client with this name that may still come back.
    #[must_use]
    pub fn key_of(&self, owner: &[u8]) -> Option<ClientKey> {
        if self.is_on() { self.inner.lock().by_owner.get(owner).copied() } else { None }
    }

    /// When its time is over: everybody who was still expected.
    pub fn expire(&self, now: Now) -> Vec<Absent> {
        if !self.is_on() {
            return Vec::new();
        }
        let mut inner = self.inner.lock();
        if now.mono_ns < inner.until_ns {
            return Vec::new();
        }
        let late = std::mem::take(&mut inner.absent).into_values().collect();
        self.end(&mut inner);
        late
    }

    fn end(&self, inner: &mut Inner) {
        tracing::info!("every NFS client from before the restart is back, or is expected no longer");
        *inner = Inner::default();
        self.is_on.store(false, Ordering::Release);
    }
}
