//! Client: somebody with a client ID, its sessions, and everything it has opened and locked (RFC 8881 2.4).

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nfs_wire::op::create_session;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::types::Verifier;
use parking_lot::Mutex;
use share::{BreakNotice, CacheKey, Caching, CachingRequest, ClientKey, Holder, LockOwner};
use volume::NodeId;
use wire::Now;
use wire::table::Keyed;

use crate::config::Export;
use crate::limits::{MAX_SESSIONS_PER_CLIENT, MAX_STATES_PER_CLIENT};
use crate::state::back_channel;
use crate::state::callback::Errand;
use crate::state::session::Session;
use crate::state::stateid::{Of, State};
use crate::state::way::{Mail, Way};
use crate::state::who::Principal;

/// Exports of one client that are noted for status.
const MAX_NOTED_EXPORTS: usize = 64;

/// Who introduces itself.
#[derive(Debug)]
pub struct Introduction<'a> {
    /// What it calls itself.
    pub owner: &'a [u8],
    /// Changes when it begins anew.
    pub verifier: Verifier,
    /// Who speaks.
    pub principal: Principal,
    /// Where it speaks from.
    pub address: IpAddr,
    /// It means a client that is confirmed, and wants something about it changed.
    pub update: bool,
    /// The time.
    pub now: Now,
}

/// One client.
pub struct Client {
    /// Its client ID.
    pub id: u64,
    /// What it calls itself; the same after it began anew.
    pub owner: Box<[u8]>,
    /// Changes when it begins anew.
    pub verifier: Verifier,
    /// Who may speak of it.
    pub principal: Principal,
    /// Where it introduced itself from.
    pub address: IpAddr,
    /// For the engine.
    pub key: ClientKey,
    confirmed: AtomicBool,
    reclaimed: AtomicBool,
    proved: AtomicBool,
    /// When it was heard last (monotonic ns).
    heard_ns: AtomicU64,
    ended: AtomicBool,
    /// Delegations that were taken away and that it has not freed yet.
    pub revoked: Arc<AtomicU64>,
    /// How many states of it an administrator has revoked that it has not freed yet.
    admin_revoked: AtomicU64,
    /// It stands in no client record until it has freed the last of them.
    is_struck: AtomicBool,
    next_key: AtomicU64,
    /// Held while connections are closed to make room.
    making_room: Mutex<()>,
    crowded_out: AtomicU64,
    /// Exports that it has come to, for status.
    used: Mutex<Vec<u32>>,
    /// CREATE_SESSION's own slot.
    pub creating: Mutex<Creating>,
    holds: Mutex<Holds>,
}

/// The one slot that CREATE_SESSION has (RFC 8881 18.36.4).
#[derive(Debug, Default)]
pub struct Creating {
    /// The number of the last request.
    pub sequence: u32,
    /// What was answered to it.
    pub answer: Option<Result<create_session::ResOk, nfs_wire::NfsStat>>,
}

/// An export, a file, an owner as the client calls it: what is of one file lies together.
type Key = (u32, NodeId, Box<[u8]>);

/// What a client had.
pub(crate) struct Left {
    pub sessions: Vec<Arc<Session>>,
    /// Locks before the opens they were taken through.
    pub states: Vec<Arc<State>>,
    /// Exports whose engines know it.
    pub exports: Vec<Arc<Export>>,
}

/// What a client has.
#[derive(Default)]
struct Holds {
    sessions: Vec<Arc<Session>>,
    /// By file and open-owner.
    opens: BTreeMap<Key, Arc<State>>,
    /// By file and lock-owner.
    locks: HashMap<Key, Arc<State>>,
    /// The same by the keys of the open that they were taken through and of themselves.
    through: BTreeMap<(u64, u64), Arc<State>>,
    /// Delegations by export and file.
    delegations: HashMap<(u32, NodeId), Arc<State>>,
    /// Under which key it has files open that it has made.
    made: HashMap<(u32, NodeId), CacheKey>,
    /// Names of the lock-owners in `locks` by their numbers, and in how many of these each is.
    owners: HashMap<u128, (Box<[u8]>, usize)>,
    /// Engines that know it.
    engines: Vec<Arc<Export>>,
    /// States that an administrator has revoked and that the client has not freed yet.
    revoked: Vec<Arc<State>>,
}

impl Holds {
    /// Forgets the key of a file that the client made and has nothing of any more.
    fn forget_key(&mut self, export: u32, node: NodeId) {
        if !self.made.contains_key(&(export, node)) || self.delegations.contains_key(&(export, node)) {
            return;
        }
        let from_here = self.opens.range((export, node, Box::default())..).next();
        if from_here.is_none_or(|((e, n, _), _)| (*e, *n) != (export, node)) {
            self.made.remove(&(export, node));
        }
    }

    /// Enters the locks of an owner; gives those that it had of the file before.
    fn add_locks(&mut self, key: Key, state: &Arc<State>) -> Option<Arc<State>> {
        if let Some(locks) = state.locks() {
            self.owners.entry(locks.number.owner).or_insert_with(|| (locks.owner.clone(), 0)).1 += 1;
            self.through.insert((locks.open.key(), state.key()), Arc::clone(state));
        }
        self.locks.insert(key, Arc::clone(state))
    }

    /// Takes the locks of an owner out, and its name with the last of them.
    fn remove_locks(&mut self, key: &Key, state: &State) {
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

fn key_of(of: Of<'_>) -> Key {
    (of.export, of.node, of.owner.into())
}

/// Hears for a client what the engine of an export asks back.
struct Ear {
    client: Weak<Client>,
    export: u32,
}

impl Holder for Ear {
    // RFC 8881 10.4.5
    fn on_break(&self, notice: &BreakNotice) -> bool {
        let Some(client) = self.client.upgrade() else { return false };
        let Some(state) = client.delegation_of(self.export, notice.node) else { return false };
        let Some(delegation) = state.delegation() else { return false };
        delegation.recalled(*notice);
        // RFC 8881 10.4.6: who cannot be called now is as soon as that is possible, as long as the lease lasts.
        back_channel::call(&client, &Errand::recall(&state, *notice));
        true
    }
}

impl Client {
    /// A client that has introduced itself.
    #[must_use]
    pub fn new(id: u64, key: ClientKey, who: &Introduction<'_>) -> Client {
        Client {
            id,
            owner: who.owner.into(),
            verifier: who.verifier,
            principal: who.principal.clone(),
            address: who.address,
            key,
            confirmed: AtomicBool::new(false),
            reclaimed: AtomicBool::new(false),
            proved: AtomicBool::new(false),
            heard_ns: AtomicU64::new(who.now.mono_ns),
            ended: AtomicBool::new(false),
            revoked: Arc::default(),
            admin_revoked: AtomicU64::new(0),
            is_struck: AtomicBool::new(false),
            // Not a number that the same client was given before a restart.
            next_key: AtomicU64::new(who.now.wall_ns.unsigned_abs()),
            making_room: Mutex::default(),
            crowded_out: AtomicU64::new(0),
            used: Mutex::default(),
            creating: Mutex::default(),
            holds: Mutex::default(),
        }
    }

    /// Whether it has made a session since it introduced itself.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Acquire)
    }

    /// It has made a session.
    pub fn confirm(&self) {
        self.confirmed.store(true, Ordering::Release);
    }

    /// Notes that it has nothing more to reclaim. False when it had said so before.
    pub fn complete_reclaim(&self) -> bool {
        !self.reclaimed.swap(true, Ordering::AcqRel)
    }

    /// Whether it has said that it has nothing more to reclaim.
    #[must_use]
    pub fn has_reclaimed(&self) -> bool {
        self.reclaimed.load(Ordering::Acquire)
    }

    /// It has had something open, now or before a restart: an export let it in, so it is no mere stranger.
    pub fn prove(&self) {
        self.proved.store(true, Ordering::Release);
    }

    /// Whether it has ever had anything open.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        self.proved.load(Ordering::Acquire)
    }

    /// It was heard.
    #[inline]
    pub fn heard(&self, now: Now) {
        // A plain store to a line that all its connections share costs, so only when it makes a difference.
        if now.mono_ns.saturating_sub(self.heard_ns.load(Ordering::Relaxed)) > 100_000_000 {
            self.heard_ns.store(now.mono_ns, Ordering::Relaxed);
        }
    }

    /// For how long it was not heard, in nanoseconds.
    #[must_use]
    pub fn silent_ns(&self, now: Now) -> u64 {
        now.mono_ns.saturating_sub(self.heard_ns.load(Ordering::Relaxed))
    }

    /// Whether it is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Enters a session; false when it has too many, or is gone.
    pub fn add_session(&self, session: &Arc<Session>) -> bool {
        let mut holds = self.holds.lock();
        let fits = holds.sessions.len() < MAX_SESSIONS_PER_CLIENT && !self.ended.load(Ordering::Acquire);
        if fits {
            holds.sessions.push(Arc::clone(session));
        }
        fits
    }

    /// Takes a session out.
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
    pub fn ways(&self) -> Vec<Arc<Way>> {
        let mut ways: Vec<Arc<Way>> = Vec::new();
        for (way, ..) in self.sessions().iter().flat_map(|session| session.ways()) {
            if !ways.iter().any(|known| Arc::ptr_eq(known, &way)) {
                ways.push(way);
            }
        }
        ways
    }

    /// Closes connections until no more than `most` are left: first those that were silent for longest, never `new`.
    ///
    /// A client may lose any connection at any time, and retries on another what was under way (RFC 8881 2.9.2), so that
    /// nothing is refused, also to one whose lost connections still count here.
    pub fn make_room(&self, new: &Arc<Way>, most: usize) {
        // Two that come at the same time would not see each other, or close each other.
        let _one_by_one = self.making_room.lock();
        let mut ways = self.ways();
        if ways.len() <= most.max(1) {
            return;
        }
        let surplus = ways.len() - most.max(1);
        ways.retain(|way| !Arc::ptr_eq(way, new));
        ways.sort_by_key(|way| way.heard_ns());
        for way in &ways[..surplus.min(ways.len())] {
            for session in self.sessions() {
                session.unbind(way);
            }
            // One that is gone needs not be closed.
            let _ = way.post(Mail::Close);
            if self.crowded_out.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!(
                    client = format!("{:x}", self.id),
                    address = %way.peer.remote,
                    most,
                    "a client opens more connections than `nfs_max_connections`; the most silent one is closed for each new one"
                );
            }
        }
    }

    /// Connections that were closed to make room for others.
    #[must_use]
    pub fn crowded_out(&self) -> u64 {
        self.crowded_out.load(Ordering::Relaxed)
    }

    /// Notes that it has come to an export by its name or a handle.
    pub fn came_to(&self, export: u32) {
        let mut used = self.used.lock();
        if !used.contains(&export) && used.len() < MAX_NOTED_EXPORTS {
            used.push(export);
        }
    }

    /// Numbers of the exports that it has come to.
    #[must_use]
    pub fn used_exports(&self) -> Vec<u32> {
        self.used.lock().clone()
    }

    /// Whether any of its sessions has a back channel.
    #[must_use]
    pub fn has_back_channel(&self) -> bool {
        self.holds.lock().sessions.iter().any(|session| session.has_back_channel())
    }

    /// Whether it has opened, locked or been delegated anything.
    #[must_use]
    pub fn has_state(&self) -> bool {
        let holds = self.holds.lock();
        !(holds.opens.is_empty() && holds.locks.is_empty() && holds.delegations.is_empty())
    }

    /// How many opens, lock-owners and delegations it has.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let holds = self.holds.lock();
        (holds.opens.len(), holds.locks.len(), holds.delegations.len())
    }

    /// Whether one more state is within its bound.
    #[must_use]
    pub fn may_add_state(&self) -> bool {
        let (opens, locks, delegations) = self.counts();
        let revoked = usize::try_from(self.admin_revoked.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        (opens + locks + delegations).saturating_add(revoked) < MAX_STATES_PER_CLIENT
    }

    /// Makes the client known to the engine of an export, once.
    pub fn attach(self: &Arc<Self>, export: &Arc<Export>) {
        let mut holds = self.holds.lock();
        let is_over = self.ended.load(Ordering::Acquire);
        if !is_over && !holds.engines.iter().any(|known| Arc::ptr_eq(&known.engine, &export.engine)) {
            let ear = Ear { client: Arc::downgrade(self), export: export.id };
            export.engine.attach(self.key, Arc::new(ear));
            holds.engines.push(Arc::clone(export));
        }
    }

    /// Takes out engines that know it, of which it has nothing open and that are not served.
    pub(crate) fn unused_engines(&self, is_served: impl Fn(&Arc<share::Share>) -> bool) -> Vec<Arc<Export>> {
        let mut holds = self.holds.lock();
        let Holds { opens, delegations, engines, .. } = &mut *holds;
        let is_used = |engine: &Arc<share::Share>| {
            let mut states = opens.values().chain(delegations.values());
            states.any(|state| Arc::ptr_eq(&state.export.engine, engine))
        };
        engines.extract_if(.., |export| !is_served(&export.engine) && !is_used(&export.engine)).collect()
    }

    /// The key under which everything that the client does with a file counts as its own.
    #[must_use]
    pub fn cache_key(&self, export: u32, node: NodeId) -> CacheKey {
        let made = self.holds.lock().made.get(&(export, node)).copied();
        made.unwrap_or(CacheKey(u128::from(node.device) << 64 | u128::from(node.inode)))
    }

    /// A key for a file that does not exist yet.
    pub fn new_key(&self) -> CacheKey {
        let number = self.next_key.fetch_add(1, Ordering::Relaxed);
        // No device has such a number.
        CacheKey(u128::MAX << 64 | u128::from(number))
    }

    /// Remembers the key of a file that it has made.
    pub fn remember_key(&self, export: u32, node: NodeId, key: CacheKey) {
        self.holds.lock().made.insert((export, node), key);
    }

    /// Forgets the key of a file that it has made, unless it has the file open.
    pub fn forget_key(&self, export: u32, node: NodeId) {
        self.holds.lock().forget_key(export, node);
    }

    /// A request for a right on a file, which may be none: it still says whose the open is.
    #[must_use]
    pub fn caching(&self, export: u32, node: NodeId, want: Caching) -> CachingRequest {
        let key = self.cache_key(export, node);
        CachingRequest { key, want, keyed: true, parent: None, epoch: None, whole: true, via: 0 }
    }

    /// Its delegation of a file.
    #[must_use]
    pub fn delegation_of(&self, export: u32, node: NodeId) -> Option<Arc<State>> {
        self.holds.lock().delegations.get(&(export, node)).map(Arc::clone)
    }

    /// Whether it has a file open for writing, or has asked for byte ranges of it through an open that is still there.
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
    pub fn delegations(&self) -> Vec<Arc<State>> {
        self.holds.lock().delegations.values().map(Arc::clone).collect()
    }

    /// Enters a delegation; false when the client is gone.
    #[must_use]
    pub fn add_delegation(&self, state: &Arc<State>) -> bool {
        self.add(|holds| holds.delegations.insert((state.export.id, state.node), Arc::clone(state)))
    }

    /// Enters a state, unless the client has ended and given away all it had.
    fn add(&self, enter: impl FnOnce(&mut Holds) -> Option<Arc<State>>) -> bool {
        let mut holds = self.holds.lock();
        let is_there = !self.ended.load(Ordering::Acquire);
        if is_there {
            let before = enter(&mut holds);
            debug_assert!(before.is_none(), "one state for an owner and a file");
            self.prove();
        }
        is_there
    }

    /// Takes a delegation out.
    pub fn remove_delegation(&self, state: &Arc<State>) {
        let mut holds = self.holds.lock();
        let file = (state.export.id, state.node);
        if holds.delegations.get(&file).is_some_and(|known| Arc::ptr_eq(known, state)) {
            holds.delegations.remove(&file);
        }
        holds.forget_key(file.0, file.1);
    }

    /// The open of an open-owner on a file.
    #[must_use]
    pub fn open_of(&self, of: Of<'_>) -> Option<Arc<State>> {
        self.holds.lock().opens.get(&key_of(of)).map(Arc::clone)
    }

    /// Enters the open of an open-owner on a file; false when the client is gone.
    #[must_use]
    pub fn add_open(&self, of: Of<'_>, state: &Arc<State>) -> bool {
        self.add(|holds| holds.opens.insert(key_of(of), Arc::clone(state)))
    }

    /// Takes an open out, with the states of its locks; gives those.
    pub fn remove_open(&self, of: Of<'_>, state: &Arc<State>) -> Vec<Arc<State>> {
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
    pub fn locks_of(&self, of: Of<'_>) -> Option<Arc<State>> {
        self.holds.lock().locks.get(&key_of(of)).map(Arc::clone)
    }

    /// Enters the locks of a lock-owner on a file; false when the client is gone.
    #[must_use]
    pub fn add_locks(&self, of: Of<'_>, state: &Arc<State>) -> bool {
        self.add(|holds| holds.add_locks(key_of(of), state))
    }

    /// Takes the locks of a lock-owner on a file out.
    pub fn remove_locks(&self, of: Of<'_>, state: &State) {
        self.holds.lock().remove_locks(&key_of(of), state);
    }

    /// Keeps a revoked state until the client frees it; false when the client is gone.
    pub(crate) fn add_revoked(&self, state: &Arc<State>) -> bool {
        let mut holds = self.holds.lock();
        let is_there = !self.ended.load(Ordering::Acquire);
        if is_there {
            holds.revoked.push(Arc::clone(state));
            self.admin_revoked.store(holds.revoked.len() as u64, Ordering::Release);
        }
        is_there
    }

    /// The client has freed a revoked state.
    pub(crate) fn remove_revoked(&self, state: &State) {
        let mut holds = self.holds.lock();
        holds.revoked.retain(|known| !std::ptr::eq(&raw const **known, state));
        self.admin_revoked.store(holds.revoked.len() as u64, Ordering::Release);
    }

    /// Whether it has still to free states that an administrator has revoked.
    #[inline]
    #[must_use]
    pub fn has_admin_revoked(&self) -> bool {
        self.admin_revoked.load(Ordering::Relaxed) > 0
    }

    /// It stands in no client record until it has freed all revoked states.
    pub(crate) fn strike(&self) {
        self.is_struck.store(true, Ordering::Release);
    }

    /// Whether it has freed all revoked states and is to be recorded again. True once.
    pub(crate) fn take_acknowledged(&self) -> bool {
        !self.has_admin_revoked() && self.is_struck.swap(false, Ordering::AcqRel)
    }

    /// Who a lock-owner is for the engine.
    #[must_use]
    pub fn lock_owner(&self, owner: &[u8]) -> LockOwner {
        LockOwner { client: self.key, owner: number_of(owner) }
    }

    /// The name of a lock-owner that the engine knows by its number, while it has locks.
    #[must_use]
    pub fn owner_name(&self, owner: LockOwner) -> Option<Box<[u8]>> {
        let holds = self.holds.lock();
        holds.owners.get(&owner.owner).map(|(name, _)| name.clone())
    }

    /// Ends it: what it had is handed out to be given back.
    pub(crate) fn end(&self) -> Left {
        self.ended.store(true, Ordering::Release);
        let holds = std::mem::take(&mut *self.holds.lock());
        let states = holds.locks.into_values().chain(holds.opens.into_values());
        let states = states.chain(holds.delegations.into_values()).chain(holds.revoked).collect();
        Left { sessions: holds.sessions, states, exports: holds.engines }
    }
}

/// The number of a lock-owner: always the same for one name, so that after a restart its ranges are still its own.
fn number_of(owner: &[u8]) -> u128 {
    let mut number = [0; 16];
    number.copy_from_slice(&auth::crypto::hmac_sha256(b"lock-owner", owner)[..16]);
    // Zero is nobody's (`op::io::owner`).
    u128::from_le_bytes(number) | 1
}
