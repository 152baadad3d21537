//! The grace period after a restart: the clients that may reclaim, and the opens that are kept for them (RFC
//! 8881 8.4.2).
//!
//! When the server starts, the engines restore all opens, locks and delegations of clients, without an owner
//! ([`UnclaimedOpen`]). Only requests that conflict with those have to wait. A client that returns reclaims
//! its opens one by one (`crate::op::claim`). When it reports the end of its reclaims, the opens that it has
//! not reclaimed are closed. The grace period ends when the last client has reported that, or when its time
//! is up.
//!
//! A client that goes on with its old client ID has nothing to reclaim (`crate::server::resume`), and nobody
//! waits for it any more.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_wire::types::Verifier;
use parking_lot::Mutex;
use share::{ClientKey, LockOwner, Open, RangeRequest, Share};
use volume::NodeId;
use wire::Now;

use crate::config::Export;
use crate::state::client::Client;
use crate::state::client_records::PreviousClients;
use crate::state::credentials::Principal;
use crate::state::filehandle::Handle;
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
    /// Its filehandle.
    pub handle: Handle,
    /// The record of its NFS state.
    pub note: Note,
}

/// The outcome of keeping a restored open.
pub enum KeepResult {
    /// It is kept for its client.
    Kept,
    /// Its client has resumed, and gets it now.
    Resumed(Arc<Client>, UnclaimedOpen),
    /// No such client may come back. The caller closes it.
    Nobody,
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

    /// Takes the opens that it has not reclaimed.
    pub fn take_unclaimed(&mut self) -> Vec<UnclaimedOpen> {
        let mut opens: Vec<_> = std::mem::take(&mut self.kept).into_values().collect();
        opens.sort_by_key(|kept| kept.note.kind != RecordedKind::Delegation);
        opens
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
    by_id: HashMap<u64, ClientKey>,
    /// Files of which any state was kept or reclaimed, each with its clients.
    files: HashMap<NodeId, HashSet<ClientKey>>,
    /// Clients that have resumed. Opens of them may still be restored.
    resumed: HashMap<ClientKey, Arc<Client>>,
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
        self.by_id.remove(&absent.known.id);
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
            table.by_id.insert(known.id, known.key);
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
    pub fn keep(&self, kept: UnclaimedOpen) -> KeepResult {
        let mut table = self.table.lock();
        let (node, client) = (kept.open.node_id(), kept.open.client());
        let Some(absent) = table.absent.get_mut(&client) else {
            let resumed = table.resumed.get(&client).map(Arc::clone);
            return match resumed {
                Some(client) => KeepResult::Resumed(client, kept),
                None => KeepResult::Nobody,
            };
        };
        absent.kept.insert(key_of(&kept.note, node), kept);
        table.files.entry(node).or_default().insert(client);
        KeepResult::Kept
    }

    /// The client with this client ID, if it can resume.
    #[must_use]
    pub fn resumable(&self, id: u64) -> Option<RecordedIdentity> {
        if !self.is_on() {
            return None;
        }
        let table = self.table.lock();
        let absent = table.by_id.get(&id).and_then(|key| table.absent.get(key))?;
        let is_usable = absent.known.id == id && id != 0 && !table.is_incomplete;
        is_usable.then(|| absent.known.clone())
    }

    /// A client cannot resume, and has to reclaim. Returns false if it has resumed before, or has ended.
    pub fn end_client_id(&self, key: ClientKey) -> bool {
        let mut table = self.table.lock();
        let absent = table.absent.get_mut(&key);
        absent.map(|absent| absent.known.id = 0).is_some()
    }

    /// Notes that a client has resumed. Returns what was kept for it so far. None if it cannot resume any
    /// more. The last client ends the grace period.
    pub fn resume(&self, key: ClientKey, client: &Arc<Client>) -> Option<AbsentClient> {
        let mut table = self.table.lock();
        table.absent.get(&key).filter(|absent| absent.known.id == client.id)?;
        let absent = table.take(key)?;
        table.resumed.insert(key, Arc::clone(client));
        for (.., node) in absent.kept.keys() {
            if let Entry::Occupied(mut clients) = table.files.entry(*node) {
                clients.get_mut().remove(&key);
                if clients.get().is_empty() {
                    clients.remove();
                }
            }
        }
        if table.absent.is_empty() {
            self.end(&mut table);
        }
        Some(absent)
    }

    /// Forgets that a client has resumed: it has all its opens, or has ended.
    pub fn forget_resumed(&self, key: ClientKey) {
        let forgotten = self.table.lock().resumed.remove(&key);
        drop(forgotten);
    }

    /// Compares a client that sends EXCHANGE_ID with those that may reclaim.
    // RFC 8881 2.4.3
    #[must_use]
    pub fn compare_owner(&self, owner: &[u8], verifier: Verifier, principal: &Principal) -> OwnerStatus {
        if !self.is_on() {
            return OwnerStatus::New;
        }
        let mut table = self.table.lock();
        let ReclaimTable { absent, by_owner, .. } = &mut *table;
        let known = by_owner.get(owner).and_then(|key| absent.get_mut(key)).map(|absent| &mut absent.known);
        match known {
            None => OwnerStatus::New,
            Some(known) if known.principal != *principal => OwnerStatus::Stranger,
            Some(known) if known.verifier != verifier => OwnerStatus::Anew(known.key),
            Some(known) => {
                // It reclaims, and does not use its old client ID any more.
                known.id = 0;
                OwnerStatus::Back(known.key)
            }
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
        table.is_incomplete || table.files.contains_key(&node)
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
        table.files.entry(state.node).or_default().insert(client);
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
        let resumed = std::mem::take(&mut table.resumed);
        *table = ReclaimTable { resumed, ..ReclaimTable::default() };
        self.is_on.store(false, Ordering::Release);
    }
}
