//! The grace period after a restart: the clients that may reclaim, and the opens that are kept for them (RFC
//! 8881 8.4.2).
//!
//! When the server starts, the engines restore all opens, locks and delegations of clients, without an owner
//! ([`UnclaimedOpen`]). Only requests that conflict with those have to wait. A client that returns reclaims
//! its opens one by one (`crate::op::claim`). When it reports the end of its reclaims, the opens that it has
//! not reclaimed are closed. The grace period ends when the last client has reported that, or when its time
//! is up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_wire::types::Verifier;
use parking_lot::Mutex;
use share::{ClientKey, LockOwner, Open, RangeRequest, Share};
use volume::NodeId;
use wire::Now;

use crate::config::Export;
use crate::state::client_records::PreviousClients;
use crate::state::credentials::Principal;
use crate::state::record::{Note, RecordedIdentity, RecordedKind};
use crate::state::stateid::{LockingState, OwnerOnFile};

/// The grace period lasts at least this long after the last reclaim, in nanoseconds.
const STRETCH_NS: u64 = 2_000_000_000;

/// An open from before the restart that no client has reclaimed yet.
pub struct UnclaimedOpen {
    /// The export it was made through.
    pub export: Arc<Export>,
    /// The engine's open.
    pub open: Arc<Open>,
    /// The record of its NFS state.
    pub note: Note,
}

/// Closes an open that no client has reclaimed.
pub fn close(engine: &Share, open: &Arc<Open>, now: Now) {
    if let Err(why) = engine.close(open, now) {
        let share = engine.name();
        tracing::warn!(%share, %why, "an open from before the restart was closed with an error");
    }
}

/// An open that was reclaimed, and its reclaimed byte ranges: locked (true) and released again, in order.
pub struct ReclaimedOpen {
    /// The open.
    pub state: Arc<LockingState>,
    /// Ranges by lock-owner.
    pub ranges: Vec<(LockOwner, RangeRequest, bool)>,
}

/// A client from before the restart that has not yet reported the end of its reclaims.
pub struct AbsentClient {
    /// Its identity.
    pub known: RecordedIdentity,
    /// Whether it has created a session again.
    pub is_back: bool,
    kept: HashMap<ReclaimKey, UnclaimedOpen>,
    /// The opens that it has reclaimed.
    pub claimed: Vec<ReclaimedOpen>,
}

impl AbsentClient {
    /// The opens that it has not reclaimed.
    pub fn unclaimed(&self) -> impl Iterator<Item = &UnclaimedOpen> {
        self.kept.values()
    }
}

/// Whether an open was a delegation; its owner, export and file.
type ReclaimKey = (bool, Box<[u8]>, u32, NodeId);

fn key_of(note: &Note, node: NodeId) -> ReclaimKey {
    (note.kind == RecordedKind::Delegation, note.owner.clone(), note.export, node)
}

/// The relation of a client that sends EXCHANGE_ID to the clients that may reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerStatus {
    /// It was not there before the restart.
    New,
    /// It is the client that had this key, and it has not restarted.
    Back(ClientKey),
    /// It is the same owner, but the client has restarted and has no state any more.
    Anew(ClientKey),
    /// Another principal uses the owner's name.
    Stranger,
}

/// The grace period, in progress or over.
#[derive(Default)]
pub struct Grace {
    is_on: AtomicBool,
    table: Mutex<ReclaimTable>,
}

#[derive(Default)]
struct ReclaimTable {
    absent: HashMap<ClientKey, AbsentClient>,
    by_owner: HashMap<Box<[u8]>, ClientKey>,
    /// Files of which any state was kept or reclaimed.
    files: HashSet<NodeId>,
    /// True if the end of the records may be missing. No new state is safe then.
    is_incomplete: bool,
    /// The time of its end (monotonic ns), and the latest possible one.
    until_ns: u64,
    latest_ns: u64,
}

impl ReclaimTable {
    fn take(&mut self, key: ClientKey) -> Option<AbsentClient> {
        let absent = self.absent.remove(&key)?;
        self.by_owner.remove(&absent.known.owner);
        Some(absent)
    }
}

impl Grace {
    /// Begins the grace period if any client can return.
    // RFC 8881 8.4.2.1
    pub fn begin(&self, before: PreviousClients, lease_ns: u64, now: Now) {
        let mut table = self.table.lock();
        for known in before.clients {
            table.by_owner.insert(known.owner.clone(), known.key);
            let absent = AbsentClient { is_back: false, kept: HashMap::new(), claimed: Vec::new(), known };
            table.absent.insert(absent.known.key, absent);
        }
        table.is_incomplete = before.is_host_new;
        table.until_ns = now.mono_ns.saturating_add(lease_ns);
        table.latest_ns = table.until_ns.saturating_add(lease_ns);
        self.is_on.store(!table.absent.is_empty(), Ordering::Release);
    }

    /// Notes that records are lost. No new state is safe during the grace period then.
    pub fn mark_incomplete(&self) {
        self.table.lock().is_incomplete = true;
    }

    /// Whether the grace period is in progress.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// The number of clients that may still return or reclaim, and how many of those have returned.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.absent.len(), table.absent.values().filter(|absent| absent.is_back).count())
    }

    /// Keeps an open for its client.
    ///
    /// # Errors
    /// Returns the open if no such client may reclaim. The caller closes it.
    pub fn keep(&self, kept: UnclaimedOpen) -> Result<(), UnclaimedOpen> {
        let mut table = self.table.lock();
        let node = kept.open.node_id();
        let Some(absent) = table.absent.get_mut(&kept.open.client()) else { return Err(kept) };
        absent.kept.insert(key_of(&kept.note, node), kept);
        table.files.insert(node);
        Ok(())
    }

    /// Compares a client that sends EXCHANGE_ID with those that may reclaim.
    // RFC 8881 2.4.3
    #[must_use]
    pub fn compare_owner(&self, owner: &[u8], verifier: Verifier, principal: &Principal) -> OwnerStatus {
        if !self.is_on() {
            return OwnerStatus::New;
        }
        let table = self.table.lock();
        let known =
            table.by_owner.get(owner).and_then(|key| table.absent.get(key)).map(|absent| &absent.known);
        match known {
            None => OwnerStatus::New,
            Some(known) if known.principal != *principal => OwnerStatus::Stranger,
            Some(known) if known.verifier != verifier => OwnerStatus::Anew(known.key),
            Some(known) => OwnerStatus::Back(known.key),
        }
    }

    /// Notes that a client has created a session again.
    pub fn is_back(&self, key: ClientKey) {
        if let Some(absent) = self.table.lock().absent.get_mut(&key) {
            absent.is_back = true;
        }
    }

    /// Whether a client may reclaim.
    #[must_use]
    pub fn may_claim(&self, key: ClientKey) -> bool {
        self.is_on() && self.table.lock().absent.contains_key(&key)
    }

    /// Whether a new open or lock on a file has to wait, because a client may reclaim the file.
    ///
    /// This holds until the end of the grace period for each file of which any state was kept or reclaimed,
    /// even after its last reclaimed open is closed: a client may have opened it under a delegation without
    /// telling the server.
    // RFC 8881 8.4.2.1
    #[must_use]
    pub fn covers(&self, node: NodeId) -> bool {
        if !self.is_on() {
            return false;
        }
        let table = self.table.lock();
        table.is_incomplete || table.files.contains(&node)
    }

    /// Whether every new open has to wait.
    #[must_use]
    pub fn covers_all(&self) -> bool {
        self.is_on() && self.table.lock().is_incomplete
    }

    /// Takes an open of a client: of an open-owner, or a delegation (which has no owner).
    #[must_use]
    pub fn take(&self, client: ClientKey, kind: RecordedKind, of: OwnerOnFile<'_>) -> Option<UnclaimedOpen> {
        let mut table = self.table.lock();
        let absent = table.absent.get_mut(&client)?;
        absent.kept.remove(&(kind == RecordedKind::Delegation, of.owner.into(), of.export, of.node))
    }

    /// Notes that an open was reclaimed.
    pub fn claimed(&self, client: ClientKey, state: &Arc<LockingState>, now: Now) {
        let mut table = self.table.lock();
        table.files.insert(state.node);
        table.until_ns = table.until_ns.max(now.mono_ns.saturating_add(STRETCH_NS)).min(table.latest_ns);
        if let Some(absent) = table.absent.get_mut(&client) {
            absent.claimed.push(ReclaimedOpen { state: Arc::clone(state), ranges: Vec::new() });
        }
    }

    /// Lets the grace period last as long as it may, because the host keeps clients from reclaiming. It still
    /// ends when the last client is done.
    pub fn lengthen(&self) {
        let mut table = self.table.lock();
        table.until_ns = table.latest_ns;
    }

    /// Notes that a byte range of an open was reclaimed, or released again.
    pub fn changed_range(
        &self,
        client: ClientKey,
        open: &Arc<LockingState>,
        change: (LockOwner, RangeRequest, bool),
    ) {
        if !self.is_on() {
            return;
        }
        let mut table = self.table.lock();
        let Some(absent) = table.absent.get_mut(&client) else { return };
        if let Some(claimed) = absent.claimed.iter_mut().find(|claimed| Arc::ptr_eq(&claimed.state, open)) {
            claimed.ranges.push(change);
        }
    }

    /// Ends the reclaims of a client that has reported their end, or that has nothing to reclaim. Returns
    /// what was kept for it. The last client ends the grace period.
    pub fn complete(&self, key: ClientKey) -> Option<AbsentClient> {
        if !self.is_on() {
            return None;
        }
        let mut table = self.table.lock();
        let absent = table.take(key)?;
        if table.absent.is_empty() {
            self.end(&mut table);
        }
        Some(absent)
    }

    /// The key of the client with this name, if it may still reclaim.
    #[must_use]
    pub fn key_of(&self, owner: &[u8]) -> Option<ClientKey> {
        if self.is_on() { self.table.lock().by_owner.get(owner).copied() } else { None }
    }

    /// Ends the grace period if its time is up. Returns the clients that were still expected.
    pub fn expire(&self, now: Now) -> Vec<AbsentClient> {
        if !self.is_on() {
            return Vec::new();
        }
        let mut table = self.table.lock();
        if now.mono_ns < table.until_ns {
            return Vec::new();
        }
        let late = std::mem::take(&mut table.absent).into_values().collect();
        self.end(&mut table);
        late
    }

    fn end(&self, table: &mut ReclaimTable) {
        tracing::info!("every NFS client from before the restart is back, or is expected no longer");
        *table = ReclaimTable::default();
        self.is_on.store(false, Ordering::Release);
    }
}
