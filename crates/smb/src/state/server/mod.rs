//! The state that all connections share: settings, users, shares, and the tables of sessions, Opens and
//! clients (MS-SMB2 3.3.1.5). Start with [`Server`].

mod durable;
mod restore;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use share::counts::Counts;
use share::engine::{AccountMapping, NoAccounts};
use share::{AuditedOperation, Auditor, Cause, ClientKey, Identity, LossListener};
use smb_wire::{FileId, Guid, NtStatus};
use wire::{Now, Shrink};

use crate::config::{HostNames, NAMED_BY_USER, ServerConfig, ShareConfig, UserConfig, same_name};
use crate::counting::FAMILY;
use crate::interfaces::NetworkAddress;
use crate::keys::Protection;
use crate::limits::MAX_OPENS;
use crate::state::expected::ExpectedOpens;
use crate::state::index::Index;
use crate::state::open::pending::LateChanges;
use crate::state::password_delay::PasswordDelays;
use crate::state::pending_closes::PendingCloses;
use crate::state::rate_limited_log::RateLimitedLog;
use crate::state::session::SessionState;
use crate::state::ticket_ends::TicketEnds;
use crate::state::{Client, Event, Handle, Object, Open, Session, Tree, TreeTarget};
use crate::table::LockFreeTable;

/// The SMB server.
pub struct Server {
    config: ArcSwap<ServerConfig>,
    /// Users and shares, each by its lower-case name.
    users: ArcSwap<HashMap<String, Arc<UserConfig>>>,
    shares: ArcSwap<HashMap<String, Arc<ShareConfig>>>,
    interfaces: ArcSwap<Vec<NetworkAddress>>,
    host_names: ArcSwap<HostNames>,
    accounts: ArcSwap<Arc<dyn AccountMapping>>,
    /// When the server was started.
    pub started: Now,
    /// Counts of transactions that belong to no share.
    pub counts: Arc<Counts>,
    sessions: RwLock<HashMap<u64, Arc<Session>>>,
    /// All Opens, by their volatile id.
    pub opens: LockFreeTable<Open>,
    /// Opens by their other ids.
    pub index: Arc<Index>,
    /// Opens from before a restart that are not restored yet.
    pub(crate) expected: ExpectedOpens,
    /// Opens that were closed or detached while a change was under way through them.
    pub(crate) late: LateChanges,
    pub(crate) pending_closes: PendingCloses,
    /// Removes an Open when an engine closes it after its client is gone.
    pub(crate) reaper: Arc<dyn LossListener>,
    clients: Mutex<HashMap<ClientKey, Arc<Client>>>,
    connections: Mutex<HashMap<u64, Arc<Handle>>>,
    next_connection: AtomicU64,
    next_open: AtomicU64,
    /// Unfinished log-ons.
    pub(crate) setups: AtomicUsize,
    /// The rate-limited log of refused requests.
    pub(crate) request_log: RateLimitedLog,
    /// The rate-limited log of refused log-ons.
    pub(crate) log_on_log: RateLimitedLog,
    /// Sessions whose tickets have ended.
    pub ticket_ends: TicketEnds,
    /// Delays password attempts after a failure.
    pub(crate) password_delays: Arc<PasswordDelays>,
    /// Receives log-ons and the ends of sessions.
    pub auditor: Auditor,
}

impl Server {
    /// A server without users and shares.
    #[must_use]
    pub fn new(config: ServerConfig, now: Now) -> Arc<Server> {
        Arc::new_cyclic(|server| Server {
            config: ArcSwap::from_pointee(config),
            users: ArcSwap::default(),
            shares: ArcSwap::default(),
            interfaces: ArcSwap::default(),
            host_names: ArcSwap::default(),
            accounts: ArcSwap::from_pointee(Arc::new(NoAccounts) as Arc<dyn AccountMapping>),
            started: now,
            counts: Counts::new(&FAMILY),
            sessions: RwLock::default(),
            opens: LockFreeTable::new(MAX_OPENS),
            index: Arc::default(),
            expected: ExpectedOpens::default(),
            late: LateChanges::default(),
            pending_closes: PendingCloses::default(),
            reaper: Arc::new(Reaper(Weak::clone(server))),
            clients: Mutex::default(),
            connections: Mutex::default(),
            next_connection: AtomicU64::new(1),
            next_open: AtomicU64::new(first_open(now)),
            setups: AtomicUsize::new(0),
            request_log: RateLimitedLog::default(),
            log_on_log: RateLimitedLog::default(),
            ticket_ends: TicketEnds::default(),
            password_delays: Arc::default(),
            auditor: Auditor::default(),
        })
    }

    // Settings --------------------------------------------------------------------------------------

    /// The current settings.
    pub fn config(&self) -> arc_swap::Guard<Arc<ServerConfig>> {
        self.config.load()
    }

    /// Sets new settings. They apply to new connections and sessions.
    pub fn set_config(&self, config: ServerConfig) {
        self.config.store(Arc::new(config));
    }

    /// Sets the users that may log on. Existing sessions go on.
    pub fn set_users(&self, users: impl IntoIterator<Item = UserConfig>) {
        let by_name = users.into_iter().map(|user| (user.identity.name.to_lowercase(), Arc::new(user)));
        self.users.store(Arc::new(by_name.collect()));
    }

    /// The user with this name, ignoring case.
    pub fn user(&self, name: &str) -> Option<Arc<UserConfig>> {
        self.users.load().get(&name.to_lowercase()).cloned()
    }

    /// Whether exactly this user may log on. Another user may have the name by now, such as an account that
    /// has keys now.
    pub fn is_current_user(&self, identity: &Identity) -> bool {
        self.user(&identity.name)
            .is_some_and(|user| user.identity.sid == identity.sid && user.restriction.is_none())
    }

    /// All users.
    pub fn users(&self) -> Vec<Arc<UserConfig>> {
        self.users.load().values().cloned().collect()
    }

    /// Sets the names of the host's users and groups.
    pub fn set_host_names(&self, names: HostNames) {
        self.host_names.store(Arc::new(names));
    }

    /// The users and groups of the host.
    pub fn host_names(&self) -> Arc<HostNames> {
        self.host_names.load_full()
    }

    /// Sets the mapping that knows the names of accounts of domains.
    pub fn set_accounts(&self, accounts: Arc<dyn AccountMapping>) {
        self.accounts.store(Arc::new(accounts));
    }

    /// The names and SIDs of accounts of domains.
    pub fn accounts(&self) -> Arc<dyn AccountMapping> {
        Arc::clone(&**self.accounts.load())
    }

    /// Sets the shares that clients may connect. Connected trees go on.
    pub fn set_shares(&self, shares: impl IntoIterator<Item = ShareConfig>) {
        let by_name = shares.into_iter().map(|share| (share.name.to_lowercase(), Arc::new(share)));
        self.shares.store(Arc::new(by_name.collect()));
    }

    /// The share with this name, ignoring case.
    pub fn share(&self, name: &str) -> Option<Arc<ShareConfig>> {
        self.shares.load().get(&name.to_lowercase()).cloned()
    }

    /// The share that a user finds under this name, ignoring case.
    pub fn share_for(&self, name: &str, user: &str) -> Option<Arc<ShareConfig>> {
        let own = || self.share(NAMED_BY_USER).filter(|_| same_name(name, user));
        self.share(name).filter(|share| share.name != NAMED_BY_USER).or_else(own)
    }

    /// Whether there is a share whose Opens can outlive the server.
    pub fn is_continuously_available(&self) -> bool {
        self.shares.load().values().any(|share| share.continuously_available)
    }

    /// All shares.
    pub fn shares(&self) -> Vec<Arc<ShareConfig>> {
        self.shares.load().values().cloned().collect()
    }

    /// Sets the addresses at which clients can reach the server.
    pub fn set_interfaces(&self, addresses: Vec<NetworkAddress>) {
        self.interfaces.store(Arc::new(addresses));
    }

    /// The addresses at which clients can reach the server.
    pub fn interfaces(&self) -> Arc<Vec<NetworkAddress>> {
        self.interfaces.load_full()
    }

    // Connections and clients -----------------------------------------------------------------------

    /// The number of a new connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn add_connection(&self, handle: &Arc<Handle>) -> bool {
        let mut connections = self.connections.lock();
        if connections.len() >= self.config.load().max_connections {
            return false;
        }
        connections.insert(handle.id, Arc::clone(handle));
        true
    }

    pub(crate) fn remove_connection(&self, id: u64) {
        let mut connections = self.connections.lock();
        connections.remove(&id);
        connections.shrink();
    }

    /// All connections.
    pub fn connections(&self) -> Vec<Arc<Handle>> {
        self.connections.lock().values().cloned().collect()
    }

    /// Adds a negotiated connection to its client.
    pub(crate) fn join_client(self: &Arc<Self>, key: ClientKey, handle: &Arc<Handle>) {
        let mut clients = self.clients.lock();
        clients.entry(key).or_default().add(handle);
    }

    pub(crate) fn leave_client(&self, key: ClientKey, connection: u64) {
        let mut clients = self.clients.lock();
        if clients.get(&key).is_some_and(|client| client.remove(connection)) {
            clients.remove(&key);
            clients.shrink();
        }
    }

    /// The client with this key.
    pub fn client(&self, key: ClientKey) -> Option<Arc<Client>> {
        self.clients.lock().get(&key).cloned()
    }

    // Sessions --------------------------------------------------------------------------------------

    /// A new session with a unique id.
    pub(crate) fn new_session(
        &self,
        guid: Guid,
        client: ClientKey,
        with: Protection,
        now: Now,
    ) -> Arc<Session> {
        let mut sessions = self.sessions.write();
        loop {
            // The id takes half of the field, since some clients keep only half of it. An id is no secret:
            // the rights of a session depend on its connections and keys.
            let id = u64::from(u32::from_le_bytes(auth::crypto::random()));
            if id != 0 && !sessions.contains_key(&id) {
                let session = Arc::new(Session::new(id, guid, client, with, now));
                sessions.insert(id, Arc::clone(&session));
                return session;
            }
        }
    }

    /// The session with this id.
    pub fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.sessions.read().get(&id).cloned()
    }

    /// All sessions.
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.read().values().cloned().collect()
    }

    /// Ends a session. Its trees and its id end too. Its Opens are closed except those that outlive it
    /// (MS-SMB2 3.3.7.1, 3.3.5.6).
    pub(crate) fn end_session(&self, session: &Arc<Session>, cause: Cause) {
        if !session.end() {
            return;
        }
        let mut sessions = self.sessions.write();
        sessions.remove(&session.id);
        sessions.shrink();
        drop(sessions);
        let opens = std::mem::take(&mut *session.opens.lock());
        for id in opens {
            self.part(session, id, cause);
        }
        for tree in session.trees() {
            self.drop_tree(session, tree.id, cause);
        }
        for handle in session.channels() {
            handle.post(Event::SessionGone { session_id: session.id });
        }
        if let Some((by, details)) = session.authenticated().zip(session.details()) {
            self.auditor.log_off((&by.identity.name, Some(by.identity.uid)), details);
        }
        tracing::debug!(session = session.id, user = session.user_name(), "session ended");
    }

    // Trees and Opens -------------------------------------------------------------------------------

    /// Removes a tree from its session and closes its Opens (MS-SMB2 3.3.5.8).
    pub(crate) fn drop_tree(&self, session: &Session, tree_id: u32, cause: Cause) -> Option<Arc<Tree>> {
        let tree = session.disconnect(tree_id)?;
        for open in self.opens_of(session).iter().filter(|open| open.tree.id == tree_id) {
            self.close_open(session, open, cause);
        }
        if let TreeTarget::Disk { engine, identity, .. } = &tree.target {
            engine.detach(session.client);
            let details = session.details().map(|details| &**details);
            engine.note_connection(AuditedOperation::Disconnect, identity, details, None);
        }
        Some(tree)
    }

    /// Detaches or closes an Open that has just been removed from its session.
    fn part(&self, session: &Session, id: u64, cause: Cause) {
        let Some(open) = self.opens.get(id).map(|open| open.share()) else { return };
        if !self.preserve(&open, cause) {
            self.close_open(session, &open, cause);
        }
    }

    /// Adds a new Open to its session.
    ///
    /// # Errors
    /// The session or the tree has ended meanwhile on another channel. The Open has ended with it.
    pub(crate) fn join_session(
        &self,
        session: &Session,
        open: &Arc<Open>,
        cause: Cause,
    ) -> Result<(), NtStatus> {
        session.opens.lock().insert(open.id.volatile);
        if session.state() != SessionState::Valid {
            if session.opens.lock().remove(&open.id.volatile) {
                self.part(session, open.id.volatile, cause);
            }
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        // A thread that disconnects the tree removes it first, and then looks for its Opens.
        if session.tree(open.tree.id).is_none() {
            if session.opens.lock().remove(&open.id.volatile) {
                self.close(open, cause);
            }
            return Err(NtStatus::NETWORK_NAME_DELETED);
        }
        Ok(())
    }

    /// Disconnects all trees of a share that is not offered any more, and closes their Opens. A request that
    /// names such a tree fails with NETWORK_NAME_DELETED. Sessions and their other trees go on. The result
    /// is the number of trees.
    // MS-SMB2 3.3.4.15
    pub fn disconnect_share(&self, name: &str, now: Now) -> usize {
        let cause = Cause::from(now);
        let mut count = 0;
        for session in self.sessions() {
            for tree in session.trees().into_iter().filter(|tree| tree.leads_to_share(name)) {
                count += usize::from(self.drop_tree(&session, tree.id, cause).is_some());
            }
        }
        count
    }

    /// The number of trees of a share.
    #[must_use]
    pub fn trees_of_share(&self, name: &str) -> usize {
        let count =
            |session: &Arc<Session>| session.trees().iter().filter(|tree| tree.leads_to_share(name)).count();
        self.sessions().iter().map(count).sum()
    }

    /// Whether any session has a tree on the share of this engine.
    #[must_use]
    pub fn is_connected(&self, engine: &Arc<share::Share>) -> bool {
        self.sessions().iter().any(|session| session.trees().iter().any(|tree| tree.leads_to(engine)))
    }

    /// The Opens of a session.
    fn opens_of(&self, session: &Session) -> Vec<Arc<Open>> {
        let ids: Vec<u64> = session.opens.lock().iter().copied().collect();
        ids.into_iter().filter_map(|id| Some(self.opens.get(id)?.share())).collect()
    }

    /// Creates an Open with an id of its own, so that an immediate break finds it. Returns `None` if there
    /// are too many. `sequence` is the ChannelSequence of its CREATE.
    pub(crate) fn new_open(
        &self,
        session: &Session,
        tree: &Arc<Tree>,
        sequence: u16,
        now: Now,
    ) -> Option<Arc<Open>> {
        let reserve = || self.opens.reserve();
        // Opens that wait for a lost client must not block new ones.
        let volatile = reserve().or_else(|| if tree.release_lost_clients(now) { reserve() } else { None })?;
        let id = FileId { persistent: self.next_open.fetch_add(1, Ordering::Relaxed), volatile };
        let open = Arc::new(Open::new(id, session.id, session.client, Arc::clone(tree), now));
        open.start_sequence(sequence);
        self.opens.fill(Arc::clone(&open));
        Some(open)
    }

    /// Sets a lower bound for the ids of new Opens.
    pub(crate) fn reserve_above(&self, persistent: u64) {
        self.next_open.fetch_max(persistent.saturating_add(1), Ordering::Relaxed);
    }

    /// Removes an Open from the tables and closes it. The result is that of the close, if the Open was a
    /// file.
    pub(crate) fn close_open(
        &self,
        session: &Session,
        open: &Arc<Open>,
        cause: Cause,
    ) -> Option<Result<(), share::Refusal>> {
        // With one channel the session's requests come one after the other.
        let _closing = session.has_several_channels().then(|| self.pending_closes.begin(open.id.volatile));
        session.opens.lock().remove(&open.id.volatile);
        self.close(open, cause)
    }

    fn close(&self, open: &Open, cause: Cause) -> Option<Result<(), share::Refusal>> {
        let closed = self.opens.remove(open.id.volatile)?;
        self.late.end_life(&closed);
        self.index.remove(open);
        match open.object() {
            Some(Object::File { engine, open }) => Some(engine.close(open, cause)),
            Some(Object::Pipe(_)) | None => None,
        }
    }

    /// Closes an Open regardless of its client and session (MS-SMB2 3.3.4.17).
    pub(crate) fn force_close(&self, open: &Arc<Open>, cause: Cause) -> Option<Result<(), share::Refusal>> {
        if let Some(session) = self.session(open.session_id) {
            session.opens.lock().remove(&open.id.volatile);
        }
        self.close(open, cause)
    }

    /// Closes an Open on behalf of an administrator, also one that is kept for a client that is away. The
    /// client is not told: its next request that names the Open gets FILE_CLOSED. False when there is no such
    /// Open, or when it is a pipe.
    // MS-SMB2 3.3.4.17
    pub fn close_by_administrator(&self, id: FileId, now: Now) -> bool {
        let open = self.opens.get(id.volatile).map(|open| open.share());
        let Some(open) = open.filter(|open| open.id == id && open.file().is_some()) else { return false };
        let closed = self.force_close(&open, Cause::from(now));
        if let Some(Err(why)) = &closed {
            tracing::debug!(%why, "an Open was closed by an administrator with an error");
        }
        closed.is_some()
    }

    /// Ends every connection. Sessions end with them.
    pub fn close_all(&self) {
        for handle in self.connections() {
            handle.post(Event::Close);
        }
    }
}

/// Removes Opens from the server's tables when an engine closes them.
struct Reaper(Weak<Server>);

impl LossListener for Reaper {
    fn on_lost(&self, token: u64) {
        if let Some(server) = self.0.upgrade()
            && let Some(open) = server.opens.remove(token)
        {
            server.index.remove(&open);
            tracing::debug!(open = open.id.persistent, "an Open without a session was closed");
        }
    }
}

/// The persistent half of the first FileId. It is higher than any id of an earlier run, since no run creates
/// one Open each nanosecond. So a kept Open's id never names a new one.
fn first_open(now: Now) -> u64 {
    u64::try_from(now.wall_ns).unwrap_or(0).max(1)
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("opens", &self.opens).finish_non_exhaustive()
    }
}
