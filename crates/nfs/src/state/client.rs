//! A client (RFC 8881 2.4): one client ID, its sessions, and everything it has opened and locked.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nfs_wire::op::create_session;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::types::Verifier;
use parking_lot::Mutex;
use share::{BreakListener, BreakNotice, CacheKey, Caching, CachingRequest, ClientKey, LockOwner};
use volume::NodeId;
use wire::Now;
use wire::table::Keyed;

use crate::config::Export;
use crate::limits::{MAX_SESSIONS_PER_CLIENT, MAX_STATES_PER_CLIENT};
use crate::state::back_channel;
use crate::state::callback::CallbackRequest;
use crate::state::connection_handle::{ConnectionHandle, Mail};
use crate::state::credentials::Principal;
use crate::state::session::Session;
use crate::state::stateid::{LockingState, OwnerOnFile};

/// Number of exports that the status output shows for one client.
const MAX_NOTED_EXPORTS: usize = 64;
/// Most OPENs between two ticks after which the states are settled.
const MAX_RECENT: usize = 4096;

/// The arguments of EXCHANGE_ID that identify a client.
#[derive(Debug)]
pub struct ExchangeIdRequest<'a> {
    /// The client's own name for itself (co_ownerid).
    pub owner: &'a [u8],
    /// Changes when the client restarts (co_verifier).
    pub verifier: Verifier,
    /// The principal of the request.
    pub principal: Principal,
    /// The address of the client.
    pub address: IpAddr,
    /// The client is a confirmed one and wants to update its record (EXCHGID4_FLAG_UPD_CONFIRMED_REC_A).
    pub update: bool,
    /// The time of the request.
    pub now: Now,
}

/// A client and all its state.
pub struct Client {
    /// Its client ID.
    pub id: u64,
    /// The client's own name for itself. It stays the same when the client restarts.
    pub owner: Box<[u8]>,
    /// Changes when the client restarts.
    pub verifier: Verifier,
    /// The principal that may change the client's record.
    pub principal: Principal,
    /// The address of its EXCHANGE_ID.
    pub address: IpAddr,
    /// The client as the engine names it.
    pub key: ClientKey,
    confirmed: AtomicBool,
    reclaimed: AtomicBool,
    /// All that it has reclaimed is recorded as it is now.
    reclaims_recorded: AtomicBool,
    /// Some of its opens from before a restart may not be restored yet.
    resuming: AtomicBool,
    /// One of [`ID_NOT_RECORDED`], [`ID_RECORDED`] and [`ID_FORBIDDEN`].
    id_standing: AtomicU8,
    proved: AtomicBool,
    /// The time of its last request (monotonic ns).
    heard_ns: AtomicU64,
    ended: AtomicBool,
    /// Delegations that were revoked and that the client has not freed yet.
    pub revoked: Arc<AtomicU64>,
    /// How many states of it an administrator has revoked that it has not freed yet.
    admin_revoked: AtomicU64,
    /// Locked while the client is entered into the client records or struck off, and when it ends. A thread
    /// that has it waits for the journal and takes no other lock of this crate's states.
    recording: Mutex<RecordStanding>,
    next_key: AtomicU64,
    /// Locked while connections are closed to make room.
    making_room: Mutex<()>,
    crowded_out: AtomicU64,
    /// Numbers of the exports that it has used, for status.
    used: Mutex<Vec<u32>>,
    /// The slot of CREATE_SESSION.
    pub creating: Mutex<CreateSessionSlot>,
    holds: Mutex<ClientState>,
}

/// The client ID is not recorded: the client may have something to reclaim.
const ID_NOT_RECORDED: u8 = 0;
/// The client ID is recorded, so the client may resume after a restart.
const ID_RECORDED: u8 = 1;
/// The client ID must not be recorded: a state of the client ends with the server.
const ID_FORBIDDEN: u8 = 2;

/// The standing of a client in the client records.
#[derive(Debug, Default)]
struct RecordStanding {
    /// It stands in no client record until it has freed all states that an administrator has revoked.
    is_struck: bool,
    /// Number of revocations in progress.
    revocations: usize,
}

/// The one slot that CREATE_SESSION has (RFC 8881 18.36.4).
#[derive(Debug, Default)]
pub struct CreateSessionSlot {
    /// The sequence ID of the last request.
    pub sequence: u32,
    /// The reply to it.
    pub answer: Option<Result<create_session::ResOk, nfs_wire::NfsStat>>,
}

/// An export, a file, and the name of an owner. The states of one file are neighbours in this order.
type Key = (u32, NodeId, Box<[u8]>);

/// Everything that a client had when it ended.
pub(crate) struct EndedClient {
    pub sessions: Vec<Arc<Session>>,
    /// The states. Locks come before the opens through which they were taken.
    pub states: Vec<Arc<LockingState>>,
    /// Exports whose engines know the client.
    pub exports: Vec<Arc<Export>>,
    /// The keys of states that an administrator has revoked.
    pub revoked: Vec<u64>,
}

/// Everything that a client has.
#[derive(Default)]
struct ClientState {
    sessions: Vec<Arc<Session>>,
    /// Opens by file and open-owner.
    opens: BTreeMap<Key, Arc<LockingState>>,
    /// Lock states by file and lock-owner.
    locks: HashMap<Key, Arc<LockingState>>,
    /// The same states by two keys: that of the open through which the locks were taken, and their own.
    through: BTreeMap<(u64, u64), Arc<LockingState>>,
    /// Delegations by export and file.
    delegations: HashMap<(u32, NodeId), Arc<LockingState>>,
    /// The cache keys of files that the client has created and has open.
    made: HashMap<(u32, NodeId), CacheKey>,
    /// The names of the lock-owners in `locks` by their numbers, each with the number of its states.
    owners: HashMap<u128, (Box<[u8]>, usize)>,
    /// Exports whose engines know the client.
    engines: Vec<Arc<Export>>,
    /// The keys of states with a recent OPEN or grant: since the last tick, and since the one before.
    recent: [Vec<u64>; 2],
    /// The keys of states that an administrator has revoked and that the client has not freed yet, each with
    /// the name of its export. The states themselves are gone, so they keep no file and no directory open.
    revoked: HashMap<u64, String>,
}

impl ClientState {
    /// Notes an OPEN.
    fn note_opened(&mut self, key: u64) {
        let [recent, _] = &mut self.recent;
        if recent.len() < MAX_RECENT {
            recent.push(key);
        }
    }

    /// Forgets the cache key of a file that the client created, if it has no state of it any more.
    fn forget_key(&mut self, export: u32, node: NodeId) {
        if !self.made.contains_key(&(export, node)) || self.delegations.contains_key(&(export, node)) {
            return;
        }
        let from_here = self.opens.range((export, node, Box::default())..).next();
        if from_here.is_none_or(|((e, n, _), _)| (*e, *n) != (export, node)) {
            self.made.remove(&(export, node));
        }
    }

    /// Adds the locks of an owner. Returns the owner's earlier state of the file.
    fn add_locks(&mut self, key: Key, state: &Arc<LockingState>) -> Option<Arc<LockingState>> {
        if let Some(locks) = state.locks() {
            self.owners.entry(locks.number.owner).or_insert_with(|| (locks.owner.clone(), 0)).1 += 1;
            self.through.insert((locks.open.key(), state.key()), Arc::clone(state));
        }
        self.locks.insert(key, Arc::clone(state))
    }

    /// Removes the locks of an owner. The owner's name goes with its last state.
    fn remove_locks(&mut self, key: &Key, state: &LockingState) {
        if !self.locks.get(key).is_some_and(|known| std::ptr::eq(&raw const **known, state)) {
            return;
        }
        self.locks.remove(key);
        let Some(locks) = state.locks() else { return };
        self.through.remove(&(locks.open.key(), state.key()));
        if let Some((_, count)) = self.owners.get_mut(&locks.number.owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&locks.number.owner);
            }
        }
    }
}

fn key_of(of: OwnerOnFile<'_>) -> Key {
    (of.export, of.node, of.owner.into())
}

/// Receives the break notices of an export's engine for a client.
struct RecallListener {
    client: Weak<Client>,
    export: u32,
}

impl BreakListener for RecallListener {
    // RFC 8881 10.4.5
    fn on_break(&self, notice: &BreakNotice) -> bool {
        let Some(client) = self.client.upgrade() else { return false };
        let Some(state) = client.delegation_of(self.export, notice.node) else { return false };
        let Some(delegation) = state.delegation() else { return false };
        delegation.recalled(*notice);
        // RFC 8881 10.4.6: a client that cannot be called now is called as soon as possible, as long as its
        // lease lasts.
        back_channel::call(&client, &CallbackRequest::recall(&state, *notice));
        true
    }
}

impl Client {
    /// A client that has sent EXCHANGE_ID.
    #[must_use]
    pub fn new(id: u64, key: ClientKey, request: &ExchangeIdRequest<'_>) -> Client {
        Client {
            id,
            owner: request.owner.into(),
            verifier: request.verifier,
            principal: request.principal.clone(),
            address: request.address,
            key,
            confirmed: AtomicBool::new(false),
            reclaimed: AtomicBool::new(false),
            reclaims_recorded: AtomicBool::new(false),
            resuming: AtomicBool::new(false),
            id_standing: AtomicU8::new(ID_NOT_RECORDED),
            proved: AtomicBool::new(false),
            heard_ns: AtomicU64::new(request.now.mono_ns),
            ended: AtomicBool::new(false),
            revoked: Arc::default(),
            admin_revoked: AtomicU64::new(0),
            recording: Mutex::default(),
            // No number that the same client was given before a restart.
            next_key: AtomicU64::new(request.now.wall_ns.unsigned_abs()),
            making_room: Mutex::default(),
            crowded_out: AtomicU64::new(0),
            used: Mutex::default(),
            creating: Mutex::default(),
            holds: Mutex::default(),
        }
    }

    /// Whether it has created a session since its EXCHANGE_ID.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Acquire)
    }

    /// Notes that it has created a session.
    pub fn confirm(&self) {
        self.confirmed.store(true, Ordering::Release);
    }

    /// Notes that it has reclaimed everything. Returns false if it had said so before.
    pub fn complete_reclaim(&self) -> bool {
        !self.reclaimed.swap(true, Ordering::AcqRel)
    }

    /// Notes that all that it has reclaimed is recorded as it is now.
    pub fn end_reclaim(&self) {
        self.reclaims_recorded.store(true, Ordering::Release);
    }

    /// Whether it has said that it has reclaimed everything.
    #[must_use]
    pub fn has_reclaimed(&self) -> bool {
        self.reclaimed.load(Ordering::Acquire)
    }

    /// Makes it a client that goes on after a restart. `is_resuming`: not all of its opens are restored yet.
    pub fn resume(&self, is_resuming: bool) {
        self.confirm();
        self.complete_reclaim();
        self.prove();
        self.allow_resuming();
        self.resuming.store(is_resuming, Ordering::Release);
    }

    /// Whether some of its opens from before a restart may not be restored yet.
    #[inline]
    #[must_use]
    pub fn is_resuming(&self) -> bool {
        self.resuming.load(Ordering::Relaxed)
    }

    /// Notes that all of its opens are restored.
    pub fn end_resuming(&self) {
        self.resuming.store(false, Ordering::Release);
    }

    /// Its client ID may be recorded from now on, unless that is forbidden.
    pub fn allow_resuming(&self) {
        let _ = self.id_standing.compare_exchange(
            ID_NOT_RECORDED,
            ID_RECORDED,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// Its client ID must not be recorded any more. Returns false if that was so before.
    pub fn forbid_resuming(&self) -> bool {
        self.id_standing.swap(ID_FORBIDDEN, Ordering::AcqRel) != ID_FORBIDDEN
    }

    /// The client ID for the client records. Zero if the client cannot resume.
    #[must_use]
    pub fn recorded_id(&self) -> u64 {
        if self.id_standing.load(Ordering::Acquire) == ID_RECORDED { self.id } else { 0 }
    }

    /// Whether it has reclaimed everything and its client ID is not recorded yet.
    #[must_use]
    pub fn wants_id_recorded(&self) -> bool {
        let is_recorded = self.id_standing.load(Ordering::Acquire) != ID_NOT_RECORDED;
        !is_recorded && self.is_confirmed() && self.reclaims_recorded.load(Ordering::Acquire)
    }

    /// Notes that it has had something open, now or before a restart. An export has admitted it, so it is not
    /// just any stranger.
    pub fn prove(&self) {
        self.proved.store(true, Ordering::Release);
    }

    /// Whether it has ever had anything open.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        self.proved.load(Ordering::Acquire)
    }

    /// Notes a request of the client.
    #[inline]
    pub fn heard(&self, now: Now) {
        // All its connections share this cache line, and even a plain store to it is expensive. It is stored
        // only if it makes a difference.
        if now.mono_ns.saturating_sub(self.heard_ns.load(Ordering::Relaxed)) > 100_000_000 {
            self.heard_ns.store(now.mono_ns, Ordering::Relaxed);
        }
    }

    /// Nanoseconds since its last request.
    #[must_use]
    pub fn silent_ns(&self, now: Now) -> u64 {
        now.mono_ns.saturating_sub(self.heard_ns.load(Ordering::Relaxed))
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Adds a session. Returns false if the client has too many, or has ended.
    pub fn add_session(&self, session: &Arc<Session>) -> bool {
        let mut holds = self.holds.lock();
        let fits = holds.sessions.len() < MAX_SESSIONS_PER_CLIENT && !self.ended.load(Ordering::Acquire);
        if fits {
            holds.sessions.push(Arc::clone(session));
        }
        fits
    }

    /// Removes a session.
    pub fn remove_session(&self, session: &Arc<Session>) {
        self.holds.lock().sessions.retain(|known| !Arc::ptr_eq(known, session));
    }

    /// Its sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.holds.lock().sessions.clone()
    }

    /// Its connections, each once.
    #[must_use]
    pub fn connections(&self) -> Vec<Arc<ConnectionHandle>> {
        let mut connections: Vec<Arc<ConnectionHandle>> = Vec::new();
        for (connection, ..) in self.sessions().iter().flat_map(|session| session.connections()) {
            if !connections.iter().any(|known| Arc::ptr_eq(known, &connection)) {
                connections.push(connection);
            }
        }
        connections
    }

    /// Closes connections until no more than `most` are left. Those that were silent for longest go first,
    /// but never `new`.
    ///
    /// A client may lose any connection at any time, and then retries its requests on another one (RFC 8881
    /// 2.9.2). So nothing is refused, not even to a client whose lost connections still count here.
    pub fn make_room(&self, new: &Arc<ConnectionHandle>, most: usize) {
        // Two new connections at the same time would miss each other, or close each other.
        let _one_by_one = self.making_room.lock();
        let mut connections = self.connections();
        if connections.len() <= most.max(1) {
            return;
        }
        let surplus = connections.len() - most.max(1);
        connections.retain(|connection| !Arc::ptr_eq(connection, new));
        connections.sort_by_key(|connection| connection.heard_ns());
        for connection in &connections[..surplus.min(connections.len())] {
            for session in self.sessions() {
                session.unbind(connection);
            }
            // A connection that is gone need not be closed.
            let _ = connection.post(Mail::Close);
            if self.crowded_out.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!(
                    client = format!("{:x}", self.id),
                    address = %connection.peer.remote,
                    most,
                    "a client opens more connections than `nfs_max_connections`; \
                     the most silent one is closed for each new one"
                );
            }
        }
    }

    /// Number of connections that were closed to make room for others.
    #[must_use]
    pub fn crowded_out(&self) -> u64 {
        self.crowded_out.load(Ordering::Relaxed)
    }

    /// Notes that it has used an export, by its name or by a filehandle.
    pub fn note_export(&self, export: u32) {
        let mut used = self.used.lock();
        if !used.contains(&export) && used.len() < MAX_NOTED_EXPORTS {
            used.push(export);
        }
    }

    /// Numbers of the exports that it has used.
    #[must_use]
    pub fn used_exports(&self) -> Vec<u32> {
        self.used.lock().clone()
    }

    /// Whether any of its sessions has a back channel.
    #[must_use]
    pub fn has_back_channel(&self) -> bool {
        self.holds.lock().sessions.iter().any(|session| session.has_back_channel())
    }

    /// Whether it has any open, lock or delegation.
    #[must_use]
    pub fn has_state(&self) -> bool {
        let holds = self.holds.lock();
        self.is_resuming()
            || !(holds.opens.is_empty() && holds.locks.is_empty() && holds.delegations.is_empty())
    }

    /// Its numbers of opens, lock-owners and delegations.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let holds = self.holds.lock();
        (holds.opens.len(), holds.locks.len(), holds.delegations.len())
    }

    /// Whether its bound allows one more state.
    #[must_use]
    pub fn may_add_state(&self) -> bool {
        let (opens, locks, delegations) = self.counts();
        let revoked = usize::try_from(self.admin_revoked.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        (opens + locks + delegations).saturating_add(revoked) < MAX_STATES_PER_CLIENT
    }

    /// Registers the client with the engine of an export, once.
    pub fn attach(self: &Arc<Self>, export: &Arc<Export>) {
        let mut holds = self.holds.lock();
        let is_over = self.ended.load(Ordering::Acquire);
        if !is_over && !holds.engines.iter().any(|known| Arc::ptr_eq(&known.engine, &export.engine)) {
            let listener = RecallListener { client: Arc::downgrade(self), export: export.id };
            export.engine.attach(self.key, Arc::new(listener));
            holds.engines.push(Arc::clone(export));
        }
    }

    /// Removes exports that are not served any more and where the client has nothing open. Returns them.
    pub(crate) fn unused_engines(&self, is_served: impl Fn(&Arc<share::Share>) -> bool) -> Vec<Arc<Export>> {
        let mut holds = self.holds.lock();
        let ClientState { opens, delegations, engines, .. } = &mut *holds;
        let is_used = |engine: &Arc<share::Share>| {
            let mut states = opens.values().chain(delegations.values());
            states.any(|state| Arc::ptr_eq(&state.export.engine, engine))
        };
        engines.extract_if(.., |export| !is_served(&export.engine) && !is_used(&export.engine)).collect()
    }

    /// The cache key of a file. All operations of the client on the file count as those of one holder.
    #[must_use]
    pub fn cache_key(&self, export: u32, node: NodeId) -> CacheKey {
        let made = self.holds.lock().made.get(&(export, node)).copied();
        made.unwrap_or(CacheKey(u128::from(node.device) << 64 | u128::from(node.inode)))
    }

    /// A cache key for a file that does not exist yet.
    pub fn new_key(&self) -> CacheKey {
        let number = self.next_key.fetch_add(1, Ordering::Relaxed);
        // No device has this number.
        CacheKey(u128::MAX << 64 | u128::from(number))
    }

    /// Remembers the cache key of a file that the client has created.
    pub fn remember_key(&self, export: u32, node: NodeId, key: CacheKey) {
        self.holds.lock().made.insert((export, node), key);
    }

    /// Forgets the cache key of a file that the client has created, unless the client has the file open.
    pub fn forget_key(&self, export: u32, node: NodeId) {
        self.holds.lock().forget_key(export, node);
    }

    /// A caching request for a file. Even without a right it tells the engine which client an open belongs
    /// to.
    #[must_use]
    pub fn caching(&self, export: u32, node: NodeId, want: Caching) -> CachingRequest {
        let key = self.cache_key(export, node);
        CachingRequest { key, want, keyed: true, parent: None, epoch: None, whole: true, via: 0 }
    }

    /// Its delegation of a file.
    #[must_use]
    pub fn delegation_of(&self, export: u32, node: NodeId) -> Option<Arc<LockingState>> {
        self.holds.lock().delegations.get(&(export, node)).map(Arc::clone)
    }

    /// Whether it has a file open for writing, or has ever locked a range of it through an open that still
    /// exists.
    #[must_use]
    pub fn writes_or_locks(&self, export: u32, node: NodeId) -> bool {
        let holds = self.holds.lock();
        let from_here = holds.opens.range((export, node, Box::default())..);
        let mut opens = from_here.take_while(|((e, n, _), _)| (*e, *n) == (export, node));
        opens.any(|(_, open)| {
            let locks = (open.key(), 0)..=(open.key(), u64::MAX);
            open.holding().access.contains(ShareAccess::WRITE) || holds.through.range(locks).next().is_some()
        })
    }

    /// Its delegations.
    #[must_use]
    pub fn delegations(&self) -> Vec<Arc<LockingState>> {
        self.holds.lock().delegations.values().map(Arc::clone).collect()
    }

    /// Adds a delegation. Returns false if the client has ended.
    #[must_use]
    pub fn add_delegation(&self, state: &Arc<LockingState>) -> bool {
        self.add(|holds| {
            holds.note_opened(state.key());
            holds.delegations.insert((state.export.id, state.node), Arc::clone(state))
        })
    }

    /// Adds a state, unless the client has ended and handed over its states.
    fn add(&self, enter: impl FnOnce(&mut ClientState) -> Option<Arc<LockingState>>) -> bool {
        let mut holds = self.holds.lock();
        let is_there = !self.ended.load(Ordering::Acquire);
        if is_there {
            let before = enter(&mut holds);
            debug_assert!(before.is_none(), "one state for an owner and a file");
            self.prove();
        }
        is_there
    }

    /// Removes a delegation.
    pub fn remove_delegation(&self, state: &Arc<LockingState>) {
        let mut holds = self.holds.lock();
        let file = (state.export.id, state.node);
        if holds.delegations.get(&file).is_some_and(|known| Arc::ptr_eq(known, state)) {
            holds.delegations.remove(&file);
        }
        holds.forget_key(file.0, file.1);
    }

    /// The open of an open-owner on a file.
    #[must_use]
    pub fn open_of(&self, of: OwnerOnFile<'_>) -> Option<Arc<LockingState>> {
        self.holds.lock().opens.get(&key_of(of)).map(Arc::clone)
    }

    /// Adds the open of an open-owner on a file. Returns false if the client has ended.
    #[must_use]
    pub fn add_open(&self, of: OwnerOnFile<'_>, state: &Arc<LockingState>) -> bool {
        self.add(|holds| {
            holds.note_opened(state.key());
            holds.opens.insert(key_of(of), Arc::clone(state))
        })
    }

    /// Notes that it has opened a file of an open once more.
    pub fn note_opened(&self, state: &LockingState) {
        state.settle(false);
        self.holds.lock().note_opened(state.key());
    }

    /// The keys of states whose last OPEN was longer ago than the last call of this. Some may be gone.
    #[must_use]
    pub(crate) fn take_settled(&self) -> Vec<u64> {
        let mut holds = self.holds.lock();
        let [recent, before] = &mut holds.recent;
        let is_idle = recent.is_empty() && before.is_empty();
        if is_idle { Vec::new() } else { std::mem::replace(before, std::mem::take(recent)) }
    }

    /// Removes an open together with its lock states. Returns those.
    pub fn remove_open(&self, of: OwnerOnFile<'_>, state: &Arc<LockingState>) -> Vec<Arc<LockingState>> {
        let mut holds = self.holds.lock();
        let key = key_of(of);
        if holds.opens.get(&key).is_some_and(|known| Arc::ptr_eq(known, state)) {
            holds.opens.remove(&key);
        }
        holds.forget_key(of.export, of.node);
        let taken = holds.through.range((state.key(), 0)..=(state.key(), u64::MAX));
        let ended: Vec<_> = taken.map(|(_, locks)| Arc::clone(locks)).collect();
        for state in &ended {
            if let Some(locks) = state.locks() {
                holds.remove_locks(&(of.export, of.node, locks.owner.clone()), state);
            }
        }
        ended
    }

    /// The locks of a lock-owner on a file.
    #[must_use]
    pub fn locks_of(&self, of: OwnerOnFile<'_>) -> Option<Arc<LockingState>> {
        self.holds.lock().locks.get(&key_of(of)).map(Arc::clone)
    }

    /// The states of the lock-owners through an open, at most so many of them.
    #[must_use]
    pub fn locks_through(&self, open: &LockingState, most: usize) -> Vec<Arc<LockingState>> {
        let holds = self.holds.lock();
        let through = holds.through.range((open.key(), 0)..=(open.key(), u64::MAX));
        through.take(most).map(|(_, locks)| Arc::clone(locks)).collect()
    }

    /// Adds the locks of a lock-owner on a file. Returns false if the client has ended.
    #[must_use]
    pub fn add_locks(&self, of: OwnerOnFile<'_>, state: &Arc<LockingState>) -> bool {
        self.add(|holds| holds.add_locks(key_of(of), state))
    }

    /// Removes the locks of a lock-owner on a file.
    pub fn remove_locks(&self, of: OwnerOnFile<'_>, state: &LockingState) {
        self.holds.lock().remove_locks(&key_of(of), state);
    }

    /// Remembers a revoked state until the client frees it, unless the client has ended.
    pub(crate) fn add_revoked(&self, state: &LockingState) {
        let mut holds = self.holds.lock();
        if !self.ended.load(Ordering::Acquire) {
            holds.revoked.insert(state.key(), state.export.name.clone());
            self.admin_revoked.store(holds.revoked.len() as u64, Ordering::Release);
        }
    }

    /// Whether an administrator has revoked the state of this key and the client has not freed it yet.
    #[must_use]
    pub(crate) fn is_revoked(&self, key: u64) -> bool {
        self.holds.lock().revoked.contains_key(&key)
    }

    /// Forgets a revoked state that the client has freed. Returns false if there is none of this key.
    pub(crate) fn remove_revoked(&self, key: u64) -> bool {
        let mut holds = self.holds.lock();
        let was_there = holds.revoked.remove(&key).is_some();
        self.admin_revoked.store(holds.revoked.len() as u64, Ordering::Release);
        was_there
    }

    /// Forgets the revoked states on an export of this name. Returns their keys.
    pub(crate) fn remove_revoked_on(&self, export: &str) -> Vec<u64> {
        let mut holds = self.holds.lock();
        let removed = holds.revoked.extract_if(|_, name| name == export).map(|(key, _)| key).collect();
        self.admin_revoked.store(holds.revoked.len() as u64, Ordering::Release);
        removed
    }

    /// Whether it has still to free states that an administrator has revoked.
    #[inline]
    #[must_use]
    pub fn has_admin_revoked(&self) -> bool {
        self.admin_revoked.load(Ordering::Relaxed) > 0
    }

    /// Begins a revocation: `strike` removes the client from the client records. It is not recorded again
    /// before [`Client::finish_revocation`], nor before it has freed all revoked states.
    pub(crate) fn begin_revocation(&self, strike: impl FnOnce()) {
        let mut recording = self.recording.lock();
        recording.revocations += 1;
        recording.is_struck = true;
        strike();
    }

    /// Ends a revocation. The revoked states were added before.
    pub(crate) fn finish_revocation(&self) {
        self.recording.lock().revocations -= 1;
    }

    /// Whether it was struck off the client records and has no revoked state left to free.
    pub(crate) fn has_acknowledged(&self) -> bool {
        !self.has_admin_revoked() && self.recording.lock().is_struck
    }

    /// Enters the client into the client records with `add`, unless it has ended or has to free a revoked
    /// state first.
    pub(crate) fn record(&self, add: impl FnOnce()) {
        let mut recording = self.recording.lock();
        if !self.has_ended() && recording.revocations == 0 && !self.has_admin_revoked() {
            recording.is_struck = false;
            add();
        }
    }

    /// A lock-owner as the engine names it.
    #[must_use]
    pub fn lock_owner(&self, owner: &[u8]) -> LockOwner {
        LockOwner { client: self.key, owner: number_of(owner) }
    }

    /// The name of a lock-owner that the engine knows by its number. None if it has no locks.
    #[must_use]
    pub fn owner_name(&self, owner: LockOwner) -> Option<Box<[u8]>> {
        let holds = self.holds.lock();
        holds.owners.get(&owner.owner).map(|(name, _)| name.clone())
    }

    /// Ends the client and returns everything it had, to be released.
    pub(crate) fn end(&self) -> EndedClient {
        {
            // Its record is removed after this, so nothing may add the record then.
            let _recording = self.recording.lock();
            self.ended.store(true, Ordering::Release);
        }
        let holds = std::mem::take(&mut *self.holds.lock());
        let states = holds.locks.into_values().chain(holds.opens.into_values());
        let states = states.chain(holds.delegations.into_values()).collect();
        let revoked = holds.revoked.into_keys().collect();
        EndedClient { sessions: holds.sessions, states, exports: holds.engines, revoked }
    }
}

/// The number of a lock-owner. A name always gets the same number, so the owner keeps its ranges over a
/// restart.
fn number_of(owner: &[u8]) -> u128 {
    let mut number = [0; 16];
    number.copy_from_slice(&auth::crypto::hmac_sha256(b"lock-owner", owner)[..16]);
    // Zero belongs to no lock-owner (`op::io::owner`).
    u128::from_le_bytes(number) | 1
}
