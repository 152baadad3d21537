//! The state that all connections share: exports, clients, sessions, opens, locks, delegations. Start with
//! [`Server`].

pub mod exports;
pub mod recovery;
pub mod resume;
pub mod revocation;
mod unexport;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use nfs_wire::NfsStat;
use nfs_wire::op::create_session::ChannelAttrs;
use nfs_wire::types::{SessionId, StateId};
use parking_lot::Mutex;
use share::counts::Counts;
use share::{Auditor, ClientDetails, ClientKey, Item, Waiter};
use volume::NodeId;
use wire::Now;
use wire::table::{EntryGuard, LockFreeTable};

use crate::config::{Export, ServerConfig};
use crate::counting::FAMILY;
use crate::limits::{COURTESY_NS, ITEM_IDLE_NS, MAX_SESSIONS, MAX_STATES};
use crate::server::exports::Exports;
use crate::state::attribute_query::Proxies;
use crate::state::back_channel;
use crate::state::callback::{CallbackParams, CallbackRequest};
use crate::state::client::{Client, EndedClient};
use crate::state::client_records::ClientRecords;
use crate::state::clients::Clients;
use crate::state::filehandle::{Handle, HandleKey};
use crate::state::grace::Grace;
use crate::state::item_cache::ItemCache;
use crate::state::recorded_states::RecordedStates;
use crate::state::reopens::Reopens;
use crate::state::reply_memory::ReplyReservation;
use crate::state::session::{Session, id_of, key_of};
use crate::state::state_locks::{StateLockGuard, StateLocks};
use crate::state::stateid::{self, LockingState};

/// The server as a connection holds it. The outer reference count belongs to the connection and its
/// COMPOUNDs. The count of the server itself would move from thread to thread.
pub type ServerRef = Arc<Arc<Server>>;

/// A search for expired clients that finds none counts for this long (ns).
const LOOK_NS: u64 = 100_000_000;

/// The NFS server: the state that its connections share. Clients, sessions and opens outlive a connection.
pub struct Server {
    config: ServerConfig,
    /// A reference to itself, for the engines.
    me: Weak<Server>,
    /// Makes filehandles and checks them.
    pub handles: HandleKey,
    exports: ArcSwap<Exports>,
    /// The client records by client ID and by owner, also those that are not confirmed yet.
    pub clients: Clients,
    /// The time of the last search for expired clients that found none (monotonic ns).
    none_expired_ns: AtomicU64,
    /// The client records, which survive a restart.
    pub client_records: ClientRecords,
    /// The opens that clients may reclaim.
    pub grace: Grace,
    /// The stateids from before a restart.
    pub(crate) recorded: RecordedStates,
    sessions: LockFreeTable<Session>,
    states: LockFreeTable<LockingState>,
    state_locks: StateLocks,
    /// The delegations whose holders keep the times of their files.
    pub proxies: Proxies,
    /// The files that clients have opened before.
    pub reopens: Reopens,
    items: Mutex<ItemCache>,
    pub(crate) opened: Mutex<HashMap<Handle, OpenFileEntry>>,
    connections: AtomicUsize,
    next_connection: AtomicU64,
    no_wait_waiter: Waiter,
    /// Counters of transactions that belong to no share.
    pub counts: Arc<Counts>,
    /// Receives the beginnings and ends of sessions.
    pub auditor: Auditor,
}

/// An open file. It may have lost its last name, and no path leads to it then.
pub(crate) struct OpenFileEntry {
    item: Item,
    /// The export through which it was opened.
    pub(crate) export: Arc<Export>,
    /// The number of opens and delegations of the file.
    count: usize,
    /// Whether a name of it was removed or replaced meanwhile.
    is_lost: bool,
}

/// A waiter for requests that cannot wait. They fail with NFS4ERR_DELAY instead.
struct Nobody;

impl share::Wake for Nobody {
    fn wake(&self, _: u64) {}
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("exports", &self.exports.load().list()).finish_non_exhaustive()
    }
}

// RFC 8881 8.4.2.3
impl share::ClientExpiry for Server {
    fn end_expired(&self, clients: &[ClientKey], now: Now) -> bool {
        self.end_silent(self.lease_ns(), now, |client| clients.contains(&client.key))
    }

    fn end_all_expired(&self, now: Now) -> bool {
        let dropped = self.items.lock().remove_idle(u64::MAX);
        let any = !dropped.is_empty();
        // Closing descriptors takes time, so do it without the lock.
        drop(dropped);
        self.end_expired(now) || any
    }
}

impl Server {
    /// A server without exports.
    #[must_use]
    pub fn new(config: ServerConfig) -> Arc<Server> {
        let lease_ns = u64::from(config.lease_time_s) * 1_000_000_000;
        Arc::new_cyclic(|me| Server {
            me: Weak::clone(me),
            handles: HandleKey::new(config.handle_key),
            exports: ArcSwap::default(),
            clients: Clients::new(config.instance, lease_ns),
            none_expired_ns: AtomicU64::new(0),
            client_records: ClientRecords::default(),
            grace: Grace::default(),
            recorded: RecordedStates::default(),
            sessions: LockFreeTable::new(MAX_SESSIONS),
            states: LockFreeTable::new(MAX_STATES),
            state_locks: StateLocks::default(),
            proxies: Proxies::default(),
            reopens: Reopens::default(),
            items: Mutex::default(),
            opened: Mutex::default(),
            connections: AtomicUsize::new(0),
            next_connection: AtomicU64::new(1),
            no_wait_waiter: Waiter { wake: Arc::new(Nobody), token: 0 },
            counts: Counts::new(&FAMILY),
            auditor: Auditor::default(),
            config,
        })
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// The lease time in nanoseconds.
    #[must_use]
    pub fn lease_ns(&self) -> u64 {
        u64::from(self.config.lease_time_s) * 1_000_000_000
    }

    /// The exports that are served.
    pub fn exports(&self) -> arc_swap::Guard<Arc<Exports>> {
        self.exports.load()
    }

    /// Replaces the exports. State on other exports stays but can no longer be reached, unless an export of
    /// the same name is served from another directory ([`Server::relocated_export`]).
    pub fn set_exports(&self, exports: impl IntoIterator<Item = Export>) {
        let list: Vec<_> = exports.into_iter().map(Arc::new).collect();
        for export in &list {
            let me = Weak::clone(&self.me);
            export.engine.register_expiry(me);
        }
        let version = self.exports.load().version + 1;
        self.exports.store(Arc::new(Exports::new(list, version)));
        let dropped = std::mem::take(&mut *self.items.lock());
        drop(dropped);
    }

    /// The waiter for requests that do not wait, but must know that they would have to.
    pub fn no_wait_waiter(&self) -> &Waiter {
        &self.no_wait_waiter
    }

    /// A number for a new connection. None if there are too many connections.
    pub fn enter_connection(&self) -> Option<u64> {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= self.config.max_connections {
            self.leave_connection();
            return None;
        }
        Some(self.next_connection.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes that a connection is gone.
    pub fn leave_connection(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    // Sessions -------------------------------------------------------------------------------------

    /// Creates a session. None if there are too many, or the client has ended.
    pub fn make_session(
        &self,
        client: &Arc<Client>,
        details: ClientDetails,
        fore: ChannelAttrs,
        back: ChannelAttrs,
        calling: CallbackParams,
        kept: ReplyReservation,
    ) -> Option<Arc<Session>> {
        let key = self.sessions.reserve()?;
        let id = id_of(key);
        let session = Arc::new(Session::new(id, Arc::clone(client), details, fore, back, calling, kept));
        if !client.add_session(&session) {
            self.sessions.forget(key);
            return None;
        }
        self.sessions.fill(Arc::clone(&session));
        Some(session)
    }

    /// The session with this id.
    #[must_use]
    pub fn session(&self, id: &SessionId) -> Option<EntryGuard<Session>> {
        self.sessions.get(key_of(id)).filter(|session| session.id == *id && !session.has_ended())
    }

    /// Ends a session.
    pub fn end_session(&self, session: &Arc<Session>) {
        self.sessions.remove(key_of(&session.id));
        session.client.remove_session(session);
        session.end();
        self.tell_end(session);
    }

    /// Tells the audit that a session has ended.
    fn tell_end(&self, session: &Session) {
        let user = session.client.principal.to_string();
        self.auditor.log_off((&user, Some(session.client.principal.parts().1)), &session.details);
    }

    /// Ends a client that is no longer in the table: its sessions, locks, opens and delegations.
    pub fn end_client(&self, client: &Arc<Client>, now: Now) {
        self.end_all_of(client, now);
        // A client that never created a session may share its key with one that did.
        if client.is_confirmed() {
            self.forget_clients([client.key], now);
        }
    }

    fn end_all_of(&self, client: &Client, now: Now) {
        let EndedClient { sessions, states, exports, revoked } = client.end();
        self.recorded.remove_keys(&revoked);
        for session in sessions {
            self.sessions.remove(key_of(&session.id));
            session.end();
            self.tell_end(&session);
        }
        for state in states {
            self.end_state(&state, now);
        }
        for export in exports {
            export.engine.detach(client.key);
        }
    }

    /// Removes a state and closes the engine's open behind it, unless that belongs to another state. Returns
    /// false if the state was removed before.
    pub fn end_state(&self, state: &LockingState, now: Now) -> bool {
        if !self.forget_state(state) {
            return false;
        }
        if state.locks().is_none() {
            self.close_open(state, now);
        }
        true
    }

    /// Closes the engine's open behind a state that was removed.
    fn close_open(&self, state: &LockingState, now: Now) {
        // A change in progress replaces the open by another one.
        let _modes = state.opened().map(|open| open.changing.lock());
        let mut opened = self.opened.lock();
        let last = match opened.get_mut(&state.handle) {
            Some(opened) if opened.count > 1 => {
                opened.count -= 1;
                None
            }
            _ => opened.remove(&state.handle),
        };
        drop(opened);
        // A file without a name goes with its last descriptor, so no descriptor is kept for later requests.
        // None is kept either if the share does not remember metadata.
        let is_kept = state.export.engine.caches_metadata();
        if last.is_some_and(|last| last.is_lost || !is_kept) {
            self.forget_item(&state.handle);
        }
        if let Err(why) = state.export.engine.close(&state.holding().open, now) {
            let export = &state.export.name;
            tracing::debug!(%why, %export, "a name could not be removed with its last open");
        }
    }

    // States ---------------------------------------------------------------------------------------

    /// Reserves a key for a new state. None if there are too many.
    pub fn reserve_state(&self) -> Option<u64> {
        self.states.reserve()
    }

    /// Returns a key that was not used.
    pub fn forget_key(&self, key: u64) {
        self.states.forget(key);
    }

    /// Adds a new state.
    pub fn add_state(&self, state: LockingState) -> Arc<LockingState> {
        let state = Arc::new(state);
        if state.locks().is_none() {
            let item = state.export.engine.item_of(&state.holding().open);
            let mut opened = self.opened.lock();
            let new = || OpenFileEntry { item, export: Arc::clone(&state.export), count: 0, is_lost: false };
            let opened = opened.entry(state.handle).or_insert_with(new);
            opened.count += 1;
        }
        self.states.fill(Arc::clone(&state));
        state
    }

    /// Removes a state. Returns true if it was there.
    fn forget_state(&self, state: &LockingState) -> bool {
        use wire::table::Keyed;
        let was_there = self.states.remove(state.key()).is_some();
        // The client asks for one that an administrator has revoked.
        if was_there && state.is_resumed() && !state.is_admin_revoked() {
            self.recorded.remove(&state.id().other);
        }
        was_there
    }

    /// Waits until this thread may change the client's states of a file.
    pub fn lock_states(&self, client: &Client, export: &Export, node: NodeId) -> StateLockGuard<'_> {
        self.state_locks.lock(client.id, export.id, node)
    }

    /// The state of a client for a stateid, and the lock on the client's states of that file.
    ///
    /// # Errors
    /// As for [`Server::state`].
    pub fn locked_state(
        &self,
        client: u64,
        id: &StateId,
    ) -> Result<(Arc<LockingState>, StateLockGuard<'_>), NfsStat> {
        let state = self.state(client, id)?;
        let lock = self.state_locks.lock(client, state.export.id, state.node);
        // The state may have changed or ended before the lock was taken.
        Ok((self.state(client, id)?.share(), lock))
    }

    /// The same for a delegation that was revoked, so that the client can free it.
    #[must_use]
    pub fn revoked(&self, client: u64, id: &StateId) -> Option<Arc<LockingState>> {
        let key = self.key_of(&id.other)?;
        let state = self.states.get(key).filter(|state| state.client == client)?;
        state.delegation().is_some_and(|delegation| delegation.is_revoked()).then(|| state.share())
    }

    /// The state of a client for a stateid.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_DELEG_REVOKED, NFS4ERR_ADMIN_REVOKED.
    #[inline]
    pub fn state(&self, client: u64, id: &StateId) -> Result<EntryGuard<LockingState>, NfsStat> {
        let key = match stateid::key_of(self.config.instance, &id.other) {
            Some(key) => key,
            None => self.resumed_key(client, id)?,
        };
        let state = self.states.get(key).filter(|state| state.client == client);
        let state = state.ok_or_else(|| self.why_missing(client, id))?;
        // RFC 8881 8.2.4: the seqid does not count then.
        if state.is_admin_revoked() {
            return Err(NfsStat::AdminRevoked);
        }
        state.check_seqid(id.seqid)?;
        if state.is_resumed() {
            // The client knows the stateid.
            state.settle(true);
        }
        if state.delegation().is_some_and(|delegation| delegation.is_revoked()) {
            return Err(NfsStat::DelegRevoked);
        }
        Ok(state)
    }

    /// The key in the table of states that a stateid names.
    #[must_use]
    pub(crate) fn key_of(&self, other: &[u8; 12]) -> Option<u64> {
        stateid::key_of(self.config.instance, other).or_else(|| self.recorded.key_of(other))
    }

    /// The status for a stateid whose state is not in the table.
    #[cold]
    fn why_missing(&self, client: u64, id: &StateId) -> NfsStat {
        if self.is_admin_revoked(client, id) { NfsStat::AdminRevoked } else { NfsStat::BadStateId }
    }

    /// Ends a delegation. Requests that wait for it continue. The caller holds the lock on the client's
    /// states of the file.
    pub fn end_delegation(&self, client: &Client, state: &Arc<LockingState>, now: Now) {
        if !self.forget_state(state) {
            return;
        }
        if let Some(delegation) = state.delegation() {
            delegation.end();
        }
        // Opens of the client with the same cache key would keep the right otherwise.
        let key = client.cache_key(state.export.id, state.node);
        state.export.engine.release_key(client.key, key, true, now);
        client.remove_delegation(state);
        self.proxies.remove(state);
        self.close_open(state, now);
    }

    /// Sends the recalls of a client again that are due. Marks delegations as revoked that the engine has
    /// taken away because the recall took too long.
    // RFC 8881 10.4.6
    pub fn retry_recalls(&self, client: &Arc<Client>, now: Now) {
        let mut any = false;
        for state in client.delegations() {
            let Some(delegation) = state.delegation().filter(|delegation| delegation.is_recalled()) else {
                continue;
            };
            let engine = &state.export.engine;
            let due = delegation.take_due(now.mono_ns).filter(|notice| engine.awaits_acknowledgment(notice));
            // The reply that granted it was lost with the server before. Nobody returns it.
            if due.is_some() && delegation.was_refused() && state.is_resumed() && !state.is_settled() {
                let _lock = self.lock_states(client, &state.export, state.node);
                self.end_delegation(client, &state, now);
                continue;
            }
            if let Some(notice) = due {
                if client.silent_ns(now) > self.lease_ns() {
                    engine.break_undelivered(&notice);
                } else {
                    back_channel::call(client, &CallbackRequest::recall(&state, notice));
                }
            }
            if state.holding().open.caching().is_none_or(|grant| grant.state.is_empty()) {
                delegation.revoke();
            }
            any = true;
        }
        if any {
            client.sessions().iter().for_each(|session| back_channel::move_stuck_calls(session, now));
        }
    }

    /// All states, for status.
    #[must_use]
    pub fn all_states(&self) -> Vec<Arc<LockingState>> {
        self.states.all()
    }

    /// The number of states.
    #[must_use]
    pub fn state_count(&self) -> usize {
        self.states.len()
    }

    // Items ----------------------------------------------------------------------------------------

    /// The item of a filehandle.
    ///
    /// # Errors
    /// NFS4ERR_STALE, or the status of the engine's error.
    pub fn item(&self, export: &Export, handle: &Handle, now: Now) -> Result<Item, NfsStat> {
        let kept = self.items.lock().get(handle, now.mono_ns);
        if let Some(item) = kept {
            if let Err(why) = export.engine.check_place(&item) {
                // Any other failure may be temporary, and the directory still has its place.
                if why == share::Refusal::Gone {
                    self.forget_item(handle);
                }
                return Err(crate::status::of(&why));
            }
            return Ok(item);
        }
        // An open file may have lost its last name, so that its address leads nowhere.
        let opened = self.opened.lock().get(handle).map(|opened| opened.item.clone());
        if let Some(item) = opened {
            return Ok(item);
        }
        let item = export.engine.item(handle.address()).map_err(|why| crate::status::of(&why))?;
        self.keep_item(handle, &item, now);
        Ok(item)
    }

    /// The item of a filehandle, if it is cached or open.
    #[must_use]
    pub fn known_item(&self, handle: &Handle) -> Option<Item> {
        let kept = self.items.lock().peek(handle);
        kept.or_else(|| self.opened.lock().get(handle).map(|opened| opened.item.clone()))
    }

    /// Caches an item, unless it has its file open for writing: the host refuses to execute such a file.
    pub fn keep_item(&self, handle: &Handle, item: &Item, now: Now) {
        if item.is_open_to_write() {
            return;
        }
        let dropped = self.items.lock().put(handle, item, now.mono_ns);
        // Closing a descriptor takes time, so do it without the lock.
        drop(dropped);
    }

    /// Removes an item that was moved or deleted.
    pub fn forget_item(&self, handle: &Handle) {
        if let Some(opened) = self.opened.lock().get_mut(handle) {
            opened.is_lost = true;
        }
        let dropped = self.items.lock().remove(handle);
        drop(dropped);
    }

    // Time -----------------------------------------------------------------------------------------

    /// Does periodic work: drops unused items, repeats recalls, and ends clients that were silent for very
    /// long.
    pub fn tick(&self, now: Now) {
        let limit = now.mono_ns.saturating_sub(ITEM_IDLE_NS);
        let dropped = self.items.lock().remove_idle(limit);
        drop(dropped);
        let clients = self.clients.all();
        clients.iter().for_each(|client| self.retry_recalls(client, now));
        self.record_acknowledged(&clients);
        self.settle_opens(&clients);
        self.end_resuming(&clients);
        self.proxies.tick(now);
        self.detach_unused_engines();
        self.end_grace(now);
        // RFC 8881 18.35.4: a client that does not confirm its record within a lease period is no longer
        // expected.
        for client in self.clients.all() {
            let is_late = !client.is_confirmed() && client.silent_ns(now) > self.lease_ns();
            if is_late && self.clients.remove(&client) {
                self.end_client(&client, now);
            }
        }
        self.end_silent(COURTESY_NS, now, |_| true);
        // A client without state loses nothing. Opens that may still be reclaimed are state.
        if !self.grace.is_on() {
            self.end_silent(2 * self.lease_ns(), now, |client| !client.has_state());
        }
    }

    /// Ends all clients whose lease has expired, to make room. Returns true if there was one.
    // RFC 8881 8.4.2.3
    pub fn end_expired(&self, now: Now) -> bool {
        // This looks at all clients. A client that asks for room again and again gets the result of a moment
        // ago.
        let looked_ns = self.none_expired_ns.load(Ordering::Relaxed);
        if looked_ns != 0 && now.mono_ns.saturating_sub(looked_ns) < LOOK_NS {
            return false;
        }
        let found = self.end_silent(self.lease_ns(), now, |_| true);
        self.none_expired_ns.store(if found { 0 } else { now.mono_ns }, Ordering::Relaxed);
        found
    }

    fn end_silent(&self, ns: u64, now: Now, is_meant: impl Fn(&Client) -> bool) -> bool {
        let mut ended = Vec::new();
        let all = self.clients.all().into_iter();
        for client in all.filter(|client| is_meant(client) && client.silent_ns(now) > ns) {
            // A request that runs renews the lease.
            let is_busy = client.sessions().iter().any(|session| session.busy_slots() > 0);
            if !is_busy && self.clients.remove(&client) {
                tracing::info!(client = format!("{:x}", client.id), "ends a client whose lease is over");
                self.end_all_of(&client, now);
                ended.push(client);
            }
        }
        // All together, so that the client records wait for the disk only once.
        self.forget_clients(
            ended.iter().filter(|client| client.is_confirmed()).map(|client| client.key),
            now,
        );
        !ended.is_empty()
    }
}
