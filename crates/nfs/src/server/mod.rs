//! What all connections share: exports, clients, sessions, states.

pub mod exports;
mod leaving;
pub mod restoring;
pub mod revocation;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use nfs_wire::NfsStat;
use nfs_wire::op::create_session::ChannelAttrs;
use nfs_wire::types::{SessionId, StateId};
use parking_lot::Mutex;
use share::counts::Counts;
use share::{ClientKey, Item, Waiter};
use volume::NodeId;
use wire::Now;
use wire::table::{Held, Table};

use crate::config::{Export, ServerConfig};
use crate::counting::FAMILY;
use crate::limits::{COURTESY_NS, ITEM_IDLE_NS, MAX_SESSIONS, MAX_STATES};
use crate::server::exports::Exports;
use crate::state::back_channel;
use crate::state::callback::{Calling, Errand};
use crate::state::client::{Client, Left};
use crate::state::clients::Clients;
use crate::state::filehandle::{Handle, HandleKey};
use crate::state::grace::Grace;
use crate::state::items::Items;
use crate::state::question::Proxies;
use crate::state::reopens::Reopens;
use crate::state::reply_memory::Part;
use crate::state::roll::Roll;
use crate::state::session::{Session, id_of, key_of};
use crate::state::stateid::{self, State};
use crate::state::turns::{Turn, Turns};

/// The server as a connection holds it: with a count of references of the connection's own, which each COMPOUND takes
/// part in. The server's count would go from thread to thread.
pub type Near = Arc<Arc<Server>>;

/// A look for clients whose lease is over serves for so long (ns) when it finds none.
const LOOK_NS: u64 = 100_000_000;

/// The server.
pub struct Server {
    config: ServerConfig,
    /// Itself, for the engines.
    me: Weak<Server>,
    /// Makes handles and knows them again.
    pub handles: HandleKey,
    exports: ArcSwap<Exports>,
    /// Who is known.
    pub clients: Clients,
    /// When no lease of any of them was over, as far as was looked at last (monotonic ns).
    none_expired_ns: AtomicU64,
    /// Who is known over a restart.
    pub roll: Roll,
    /// What clients may come back for.
    pub grace: Grace,
    sessions: Table<Session>,
    states: Table<State>,
    turns: Turns,
    /// Whose holders keep the times of files.
    pub proxies: Proxies,
    /// Which files clients have opened before.
    pub reopens: Reopens,
    items: Mutex<Items>,
    pub(crate) opened: Mutex<HashMap<Handle, Opened>>,
    connections: AtomicUsize,
    next_connection: AtomicU64,
    nobody: Waiter,
    /// Transactions that are of no share.
    pub counts: Arc<Counts>,
}

/// Something that is open. It may have lost its last name, and its handle then leads nowhere else.
pub(crate) struct Opened {
    item: Item,
    /// Through which export.
    pub(crate) export: Arc<Export>,
    /// How often.
    count: usize,
    /// Whether a name of it was removed or replaced meanwhile.
    is_lost: bool,
}

/// Wakes nobody: who cannot wait has been told to come again.
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
impl share::Lapsing for Server {
    fn end_lapsed(&self, clients: &[ClientKey], now: Now) -> bool {
        self.end_silent(self.lease_ns(), now, |client| clients.contains(&client.key))
    }

    fn end_all_lapsed(&self, now: Now) -> bool {
        let dropped = self.items.lock().remove_idle(u64::MAX);
        let any = !dropped.is_empty();
        // Closing descriptors takes time.
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
            roll: Roll::default(),
            grace: Grace::default(),
            sessions: Table::new(MAX_SESSIONS),
            states: Table::new(MAX_STATES),
            turns: Turns::default(),
            proxies: Proxies::default(),
            reopens: Reopens::default(),
            items: Mutex::default(),
            opened: Mutex::default(),
            connections: AtomicUsize::new(0),
            next_connection: AtomicU64::new(1),
            nobody: Waiter { wake: Arc::new(Nobody), token: 0 },
            counts: Counts::new(&FAMILY),
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

    /// What is served.
    pub fn exports(&self) -> arc_swap::Guard<Arc<Exports>> {
        self.exports.load()
    }

    /// Serves these from now on. What is open on others stays as it is, but is not reached any more, unless an export of the
    /// same name is served from elsewhere ([`Server::left_behind`]).
    pub fn set_exports(&self, exports: impl IntoIterator<Item = Export>) {
        let list: Vec<_> = exports.into_iter().map(Arc::new).collect();
        for export in &list {
            let me = Weak::clone(&self.me);
            export.engine.ask_for_lapsed(me);
        }
        let version = self.exports.load().version + 1;
        self.exports.store(Arc::new(Exports::new(list, version)));
        let dropped = std::mem::take(&mut *self.items.lock());
        drop(dropped);
    }

    /// For requests that do not wait, but must know that they would have to.
    pub fn nobody(&self) -> &Waiter {
        &self.nobody
    }

    /// A number for a new connection; none when there are too many.
    pub fn enter_connection(&self) -> Option<u64> {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= self.config.max_connections {
            self.leave_connection();
            return None;
        }
        Some(self.next_connection.fetch_add(1, Ordering::Relaxed))
    }

    /// A connection is gone.
    pub fn leave_connection(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    // Sessions -------------------------------------------------------------------------------------

    /// Makes a session; none when there are too many.
    pub fn make_session(
        &self,
        client: &Arc<Client>,
        fore: ChannelAttrs,
        back: ChannelAttrs,
        calling: Calling,
        kept: Part,
    ) -> Option<Arc<Session>> {
        let key = self.sessions.reserve()?;
        let id = id_of(key);
        let session = Arc::new(Session::new(id, Arc::clone(client), fore, back, calling, kept));
        if !client.add_session(&session) {
            self.sessions.forget(key);
            return None;
        }
        self.sessions.fill(Arc::clone(&session));
        Some(session)
    }

    /// The session with this id.
    #[must_use]
    pub fn session(&self, id: &SessionId) -> Option<Held<Session>> {
        self.sessions.get(key_of(id)).filter(|session| session.id == *id && !session.has_ended())
    }

    /// Ends a session.
    pub fn end_session(&self, session: &Arc<Session>) {
        self.sessions.remove(key_of(&session.id));
        session.client.remove_session(session);
        session.end();
    }

    /// Ends a client that is not in the table any more: its sessions, locks, opens.
    pub fn end_client(&self, client: &Arc<Client>, now: Now) {
        self.end_all_of(client, now);
        // One that never made a session may be the shadow of one that did.
        if client.is_confirmed() {
            self.forget_clients([client.key], now);
        }
    }

    fn end_all_of(&self, client: &Client, now: Now) {
        let Left { sessions, states, exports } = client.end();
        for session in sessions {
            self.sessions.remove(key_of(&session.id));
            session.end();
        }
        for state in states {
            self.end_state(&state, now);
        }
        for export in exports {
            export.engine.detach(client.key);
        }
    }

    /// Takes a state out, and closes the engine's open behind it unless that is another state's. False when somebody else
    /// has done so.
    pub fn end_state(&self, state: &State, now: Now) -> bool {
        if !self.forget_state(state) {
            return false;
        }
        if state.locks().is_none() {
            self.close_open(state, now);
        }
        true
    }

    /// Closes the engine's open behind a state that was taken out or revoked. Only the first call does.
    fn close_open(&self, state: &State, now: Now) {
        if !state.begin_close() {
            return;
        }
        // What amends it at this moment puts another open into its place.
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
        // A file without a name goes with its last descriptor: none is kept for who might ask again. Nor is one of any other
        // where descriptors are not remembered.
        let is_kept = state.export.engine.remembers_metadata();
        if last.is_some_and(|last| last.is_lost || !is_kept) {
            self.forget_item(&state.handle);
        }
        if let Err(why) = state.export.engine.close(&state.holding().open, now) {
            tracing::debug!(%why, export = %state.export.name, "a name could not be removed with its last open");
        }
    }

    // States ---------------------------------------------------------------------------------------

    /// A key for a new state; none when there are too many.
    pub fn reserve_state(&self) -> Option<u64> {
        self.states.reserve()
    }

    /// Gives a key back that was not used.
    pub fn forget_key(&self, key: u64) {
        self.states.forget(key);
    }

    /// Enters a new state.
    pub fn enter_state(&self, state: State) -> Arc<State> {
        let state = Arc::new(state);
        if state.locks().is_none() {
            let item = state.export.engine.item_of(&state.holding().open);
            let mut opened = self.opened.lock();
            let new = || Opened { item, export: Arc::clone(&state.export), count: 0, is_lost: false };
            let opened = opened.entry(state.handle).or_insert_with(new);
            opened.count += 1;
        }
        self.states.fill(Arc::clone(&state));
        state
    }

    /// Takes a state out. True for the one who did.
    fn forget_state(&self, state: &State) -> bool {
        use wire::table::Keyed;
        self.states.remove(state.key()).is_some()
    }

    /// Waits for a client's turn to change its states of a file.
    pub fn turn(&self, client: &Client, export: &Export, node: NodeId) -> Turn<'_> {
        self.turns.take(client.id, export.id, node)
    }

    /// The state of a client that a stateid stands for, in the client's turn with its file.
    ///
    /// # Errors
    /// As for [`Server::state`].
    pub fn state_in_turn(&self, client: u64, id: &StateId) -> Result<(Arc<State>, Turn<'_>), NfsStat> {
        let state = self.state(client, id)?;
        let turn = self.turns.take(client, state.export.id, state.node);
        // It may have been changed or ended by whoever had the turn before.
        Ok((self.state(client, id)?.share(), turn))
    }

    /// The same for one that was revoked, to be forgotten.
    #[must_use]
    pub fn revoked(&self, client: u64, id: &StateId) -> Option<Arc<State>> {
        let key = stateid::key_of(self.config.instance, &id.other)?;
        let state = self.states.get(key).filter(|state| state.client == client)?;
        state.delegation().is_some_and(|delegation| delegation.is_revoked()).then(|| state.share())
    }

    /// The state of a client that a stateid stands for.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_DELEG_REVOKED, NFS4ERR_ADMIN_REVOKED.
    #[inline]
    pub fn state(&self, client: u64, id: &StateId) -> Result<Held<State>, NfsStat> {
        let key = stateid::key_of(self.config.instance, &id.other).ok_or(NfsStat::BadStateId)?;
        let state = self.states.get(key).filter(|state| state.client == client).ok_or(NfsStat::BadStateId)?;
        state.check_seqid(id.seqid)?;
        if state.is_admin_revoked() {
            return Err(NfsStat::AdminRevoked);
        }
        if state.delegation().is_some_and(|delegation| delegation.is_revoked()) {
            return Err(NfsStat::DelegRevoked);
        }
        Ok(state)
    }

    /// Ends a delegation, in the client's turn with its file: whoever has waited for it may go on.
    pub fn end_delegation(&self, client: &Client, state: &Arc<State>, now: Now) {
        if !self.forget_state(state) {
            return;
        }
        if let Some(delegation) = state.delegation() {
            delegation.end();
        }
        // Opens of the client that are under the same key keep the right otherwise.
        let key = client.cache_key(state.export.id, state.node);
        state.export.engine.give_up(client.key, key, true, now);
        client.remove_delegation(state);
        self.proxies.remove(state);
        self.close_open(state, now);
    }

    /// Goes on recalling what a client was asked for and has not given back; finds what the engine has taken away
    /// because that took too long.
    // RFC 8881 10.4.6
    pub fn look_after_recalls(&self, client: &Arc<Client>, now: Now) {
        let mut any = false;
        for state in client.delegations() {
            let Some(delegation) = state.delegation().filter(|delegation| delegation.is_recalled()) else {
                continue;
            };
            let engine = &state.export.engine;
            let due = delegation.take_due(now.mono_ns).filter(|notice| engine.awaits(notice));
            if let Some(notice) = due {
                if client.silent_ns(now) > self.lease_ns() {
                    engine.undelivered(&notice);
                } else {
                    back_channel::call(client, &Errand::recall(&state, notice));
                }
            }
            if state.holding().open.caching().is_none_or(|grant| grant.state.is_empty()) {
                delegation.revoke();
            }
            any = true;
        }
        if any {
            client.sessions().iter().for_each(|session| back_channel::look_after(session, now));
        }
    }

    /// Every state, for status; also those that an administrator has revoked.
    #[must_use]
    pub fn all_states(&self) -> Vec<Arc<State>> {
        self.states.all()
    }

    /// How many states there are.
    #[must_use]
    pub fn state_count(&self) -> usize {
        self.states.len()
    }

    // Items ----------------------------------------------------------------------------------------

    /// What a handle leads to.
    ///
    /// # Errors
    /// NFS4ERR_STALE; as the engine says.
    pub fn item(&self, export: &Export, handle: &Handle, now: Now) -> Result<Item, NfsStat> {
        let kept = self.items.lock().get(handle, now.mono_ns);
        if let Some(item) = kept {
            if let Err(why) = export.engine.check_place(&item) {
                // Any other failure may be over soon, and the directory stands where it did.
                if why == share::Refusal::Gone {
                    self.forget_item(handle);
                }
                return Err(crate::status::of(&why));
            }
            return Ok(item);
        }
        // What is open may have lost its last name, so that its address leads nowhere.
        let opened = self.opened.lock().get(handle).map(|opened| opened.item.clone());
        if let Some(item) = opened {
            return Ok(item);
        }
        let item = export.engine.item(handle.address()).map_err(|why| crate::status::of(&why))?;
        self.keep_item(handle, &item, now);
        Ok(item)
    }

    /// What a handle leads to, where that is remembered.
    #[must_use]
    pub fn known_item(&self, handle: &Handle) -> Option<Item> {
        let kept = self.items.lock().peek(handle);
        kept.or_else(|| self.opened.lock().get(handle).map(|opened| opened.item.clone()))
    }

    /// Keeps an item that is likely to be asked for again, unless it holds its file open for writing: the host would
    /// not run such a file.
    pub fn keep_item(&self, handle: &Handle, item: &Item, now: Now) {
        if item.is_open_to_write() {
            return;
        }
        let dropped = self.items.lock().put(handle, item, now.mono_ns);
        // Closing a descriptor takes time.
        drop(dropped);
    }

    /// Forgets an item that has changed its place or is gone.
    pub fn forget_item(&self, handle: &Handle) {
        if let Some(opened) = self.opened.lock().get_mut(handle) {
            opened.is_lost = true;
        }
        let dropped = self.items.lock().remove(handle);
        drop(dropped);
    }

    // Time -----------------------------------------------------------------------------------------

    /// Does what time brings: items that nobody asks for are let go of, and clients that nobody has heard of for
    /// very long are ended.
    pub fn tick(&self, now: Now) {
        let limit = now.mono_ns.saturating_sub(ITEM_IDLE_NS);
        let dropped = self.items.lock().remove_idle(limit);
        drop(dropped);
        let clients = self.clients.all();
        clients.iter().for_each(|client| self.look_after_recalls(client, now));
        self.record_acknowledged(&clients);
        self.proxies.tick(now);
        self.let_go_of_engines();
        self.end_grace(now);
        // RFC 8881 18.35.4: who has not come back within a lease is not expected any more.
        for client in self.clients.all() {
            let is_late = !client.is_confirmed() && client.silent_ns(now) > self.lease_ns();
            if is_late && self.clients.remove(&client) {
                self.end_client(&client, now);
            }
        }
        self.end_silent(COURTESY_NS, now, |_| true);
        // Nobody is kept who has nothing to lose. What may still be claimed is something.
        if !self.grace.is_on() {
            self.end_silent(2 * self.lease_ns(), now, |client| !client.has_state());
        }
    }

    /// Ends all clients whose lease is over, because there is no room for what they have. True when there was one.
    // RFC 8881 8.4.2.3
    pub fn end_expired(&self, now: Now) -> bool {
        // All clients are looked at. A client that asks for room again and again is told what was found a moment ago.
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
            // A request that runs holds the lease.
            let is_busy = client.sessions().iter().any(|session| session.busy_slots() > 0);
            if !is_busy && self.clients.remove(&client) {
                tracing::info!(client = format!("{:x}", client.id), "ends a client whose lease is over");
                self.end_all_of(&client, now);
                ended.push(client);
            }
        }
        // Together, so that the record waits for the disk only once.
        self.forget_clients(
            ended.iter().filter(|client| client.is_confirmed()).map(|client| client.key),
            now,
        );
        !ended.is_empty()
    }
}
