//! A session: its user, its keys and its trees (MS-SMB2 3.3.1.8).
//!
//! A session belongs to no connection. Channels come and go. The session ends with its last channel.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use share::memory::{Charge, MemoryAccount};
use share::{ClientDetails, ClientKey, ClientMemory, Identity};
use smb_wire::Guid;
use volume::security::Sid;
use wire::Now;
use wire::endpoint::Principal;

use crate::config::account::{ChannelRule, SessionSettings};
use crate::keys::{Protection, Seal};
use crate::limits::{MAX_TREES_PER_SESSION, SESSION_BYTES, TREE_BYTES};
use crate::state::channel_limit::ExcessBinds;
use crate::state::{Handle, Tree};
use auth::crypto::Signer;

/// The state of a session (Session.State).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SessionState {
    /// Its user is not authenticated yet.
    InProgress = 0,
    /// In use.
    Valid = 1,
    /// Ended. Its id is not valid any more.
    Gone = 2,
}

/// The values that the authentication of its user sets.
pub struct AuthenticatedUser {
    /// The user.
    pub identity: Arc<Identity>,
    /// An anonymous session, which may use IPC$ only.
    pub anonymous: bool,
    /// Signs the requests that bind further channels (MS-SMB2 3.3.1.8 Session.SigningKey). It is also the
    /// key of the first channel. Every other channel has its own key.
    pub signer: Signer,
    /// Sealing keys, if the dialect has any.
    pub seal: Option<Seal>,
}

/// The reason why a session takes no further channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// It has as many channels as it may have.
    Channels,
    /// It has ended.
    Ended,
}

/// One session.
pub struct Session {
    /// The id in every header.
    pub id: u64,
    /// The ClientGuid of its client.
    pub client_guid: Guid,
    /// Its client's key in the engine.
    pub client: ClientKey,
    /// Dialect, signing and cipher. Every channel must have the same.
    pub protection: Protection,
    /// When it was created.
    pub created: Now,
    /// The user's values, and the principal that each batch of requests is counted for.
    authenticated: OnceLock<(AuthenticatedUser, Principal)>,
    details: OnceLock<Arc<ClientDetails>>,
    state: AtomicU8,
    /// When its ticket ends, by the clock of [`Now::mono_ns`] (MS-SMB2 3.3.1.8 ExpirationTime).
    expires_ns: AtomicU64,
    /// Whether a request was refused since then.
    is_expiry_told: AtomicBool,
    /// Every request must be signed or sealed.
    pub signing_required: AtomicBool,
    /// Every request must be sealed.
    pub sealing_required: AtomicBool,
    /// The next nonce. A nonce is unique for a key, over all channels (MS-SMB2 3.1.4.3).
    nonce: AtomicU64,
    channels: Mutex<Vec<Arc<Handle>>>,
    /// Attempts to bind more channels than the limit.
    excess_binds: Mutex<ExcessBinds>,
    settings: OnceLock<SessionSettings>,
    /// Connections that failed while others carried the session on.
    pub failures: AtomicU64,
    /// Its client has sent FSCTL_QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 3.3.5.15.11).
    pub asked_interfaces: AtomicBool,
    /// Its client has sent an AAPL context to query the server's macOS features.
    pub is_of_macos: AtomicBool,
    trees: RwLock<Vec<Option<Arc<Tree>>>>,
    next_tree: AtomicU32,
    /// Its part of the memory for sessions, including its trees. `None` before its user is authenticated.
    charge: Mutex<Option<Charge>>,
    /// Volatile ids of its Opens.
    pub opens: Mutex<BTreeSet<u64>>,
}

impl Session {
    /// A session whose user is not authenticated yet.
    pub fn new(
        id: u64,
        client_guid: Guid,
        client: ClientKey,
        protection: Protection,
        created: Now,
    ) -> Session {
        Session {
            id,
            client_guid,
            client,
            protection,
            created,
            authenticated: OnceLock::new(),
            details: OnceLock::new(),
            state: AtomicU8::new(SessionState::InProgress as u8),
            expires_ns: AtomicU64::new(u64::MAX),
            is_expiry_told: AtomicBool::new(false),
            signing_required: AtomicBool::new(false),
            sealing_required: AtomicBool::new(false),
            nonce: AtomicU64::new(0),
            charge: Mutex::default(),
            channels: Mutex::default(),
            excess_binds: Mutex::default(),
            settings: OnceLock::new(),
            failures: AtomicU64::new(0),
            asked_interfaces: AtomicBool::new(false),
            is_of_macos: AtomicBool::new(false),
            trees: RwLock::default(),
            next_tree: AtomicU32::new(0),
            opens: Mutex::default(),
        }
    }

    /// Its state.
    #[inline]
    pub fn state(&self) -> SessionState {
        match self.state.load(Ordering::Acquire) {
            0 => SessionState::InProgress,
            1 => SessionState::Valid,
            _ => SessionState::Gone,
        }
    }

    /// Authenticates the session. The first call sets the keys. A later one, for the same user, does not.
    pub fn authenticate(&self, authenticated: AuthenticatedUser) {
        let user = || Principal::User(authenticated.identity.number());
        let principal = if authenticated.anonymous { Principal::Host } else { user() };
        let _ = self.authenticated.set((authenticated, principal));
        let (from, to) = (SessionState::InProgress as u8, SessionState::Valid as u8);
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Sets when its user must authenticate again: when the ticket ends, or never without one.
    pub(crate) fn set_expiry(&self, ticket_lifetime: Option<Duration>, now: Now) {
        let lifetime_ns = |lifetime: Duration| u64::try_from(lifetime.as_nanos()).unwrap_or(u64::MAX);
        let expires_ns =
            ticket_lifetime.map_or(u64::MAX, |lifetime| now.mono_ns.saturating_add(lifetime_ns(lifetime)));
        self.expires_ns.store(expires_ns, Ordering::Relaxed);
        self.is_expiry_told.store(false, Ordering::Relaxed);
    }

    /// Notes that a request is refused because the ticket has ended. True for the first one.
    pub(crate) fn tell_expiry(&self) -> bool {
        !self.is_expiry_told.swap(true, Ordering::Relaxed)
    }

    /// Whether its ticket has ended, so that its user must authenticate again (MS-SMB2 3.3.1.8 Expired).
    #[inline]
    #[must_use]
    pub fn has_expired(&self, now: Now) -> bool {
        now.mono_ns >= self.expires_ns.load(Ordering::Relaxed)
    }

    /// Sets the properties that audit events have, at the log-on.
    pub(crate) fn describe(&self, details: ClientDetails) {
        let _set_before = self.details.set(Arc::new(details));
    }

    /// The properties that audit events have. `None` before its user is authenticated.
    #[inline]
    pub fn details(&self) -> Option<&Arc<ClientDetails>> {
        self.details.get()
    }

    /// The principal of its requests: its user, or its client's host for an anonymous session.
    #[inline]
    #[must_use]
    pub fn principal(&self) -> Option<Principal> {
        self.authenticated.get().map(|(_, principal)| *principal)
    }

    /// The values that its authentication has set.
    #[inline]
    pub fn authenticated(&self) -> Option<&AuthenticatedUser> {
        self.authenticated.get().map(|(authenticated, _)| authenticated)
    }

    /// Ends the session. Returns true to the one caller that ended it.
    pub fn end(&self) -> bool {
        self.state.swap(SessionState::Gone as u8, Ordering::AcqRel) != SessionState::Gone as u8
    }

    /// The user's SID. `None` before authentication.
    pub fn sid(&self) -> Option<Sid> {
        self.authenticated().map(|authenticated| authenticated.identity.sid)
    }

    /// The user's name, for status and logs.
    pub fn user_name(&self) -> &str {
        self.authenticated().map_or("", |authenticated| &authenticated.identity.name)
    }

    /// A nonce for sealing that no other message of this session has.
    pub fn next_nonce(&self) -> [u8; 16] {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.nonce.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        nonce
    }

    // Channels --------------------------------------------------------------------------------------

    /// Adds a connection as a channel if the session has fewer than `most`.
    ///
    /// # Errors
    /// The reason why it was not added.
    pub fn add_channel(&self, handle: &Arc<Handle>, most: usize) -> Result<(), Full> {
        self.add(handle, most, |_| None).map(drop)
    }

    /// Adds a channel for an authenticated client. It may take the place of a channel that is most likely
    /// lost. The result is that channel, which the caller closes.
    ///
    /// # Errors
    /// As [`Session::add_channel`].
    /// As [`Session::add_channel`].
    pub fn add_or_replace(
        &self,
        handle: &Arc<Handle>,
        most: usize,
        now: Now,
    ) -> Result<Option<Arc<Handle>>, Full> {
        self.add(handle, most, |channels| self.replaceable(channels, now))
    }

    fn add(
        &self,
        handle: &Arc<Handle>,
        most: usize,
        room: impl FnOnce(&[Arc<Handle>]) -> Option<usize>,
    ) -> Result<Option<Arc<Handle>>, Full> {
        let mut channels = self.channels.lock();
        // A thread that ends the session takes the list afterwards, so it finds a channel that was added
        // before.
        if self.state() == SessionState::Gone {
            return Err(Full::Ended);
        }
        let mut replaced = None;
        if channels.len() >= most {
            let at = room(&channels).ok_or(Full::Channels)?;
            replaced = Some(channels.remove(at));
        }
        channels.push(Arc::clone(handle));
        Ok(replaced)
    }

    /// The number of its channels.
    pub fn channel_count(&self) -> usize {
        self.channels.lock().len()
    }

    /// Whether other connections carry its requests beside this one, or did so.
    pub(crate) fn has_several_channels(&self) -> bool {
        self.channel_count() > 1 || self.failures.load(Ordering::Relaxed) > 0
    }

    /// Removes a connection from its channels. Returns true if it was the last one.
    pub fn remove_channel(&self, connection: u64) -> bool {
        let mut channels = self.channels.lock();
        channels.retain(|known| known.id != connection);
        channels.is_empty()
    }

    /// Whether a channel that is most likely lost would end for a new one.
    pub fn can_replace(&self, now: Now) -> bool {
        let channels = self.channels.lock();
        self.replaceable(&channels, now).is_some()
    }

    fn replaceable(&self, channels: &[Arc<Handle>], now: Now) -> Option<usize> {
        self.excess_binds.lock().ask(channels.iter().map(|channel| channel.path.heard_ns()), now)
    }

    /// The settings of its account. `None` before its user is authenticated.
    pub fn session_settings(&self) -> Option<&SessionSettings> {
        self.settings.get()
    }

    /// The limit on its channels from its account. `None` before its user is authenticated.
    pub fn channel_rule(&self) -> Option<&ChannelRule> {
        self.session_settings().map(|settings| &settings.channels)
    }

    /// Takes memory for the session. Returns false if the account has no more left.
    pub fn take_memory(&self, memory: &Arc<ClientMemory>, account: MemoryAccount) -> bool {
        let mut charge = self.charge.lock();
        *charge = memory.try_charge(account, SESSION_BYTES);
        charge.is_some()
    }

    /// Sets the settings of its account. Only the first call counts.
    pub fn settle(&self, settings: SessionSettings) {
        let _settled_before = self.settings.set(settings);
    }

    /// Its channels, the oldest first.
    pub fn channels(&self) -> Vec<Arc<Handle>> {
        self.channels.lock().clone()
    }

    // Trees -----------------------------------------------------------------------------------------

    /// Adds the tree that `make` builds for its id. Returns `None` if there are too many.
    pub fn connect(&self, make: impl FnOnce(u32) -> Tree) -> Option<Arc<Tree>> {
        let mut trees = self.trees.write();
        let index = trees.iter().position(Option::is_none).unwrap_or(trees.len());
        let has_room = || self.charge.lock().as_mut().is_none_or(|charge| charge.grow(TREE_BYTES));
        if index == MAX_TREES_PER_SESSION || !has_room() {
            return None;
        }
        if index == trees.len() {
            trees.push(None);
        }
        // An id has a place and a count, so that an old id does not name a new tree.
        let count = self.next_tree.fetch_add(1, Ordering::Relaxed) % 0xffff + 1;
        let tree = Arc::new(make((count << 16) | index as u32));
        trees[index] = Some(Arc::clone(&tree));
        Some(tree)
    }

    /// The tree with this id.
    pub fn tree(&self, id: u32) -> Option<Arc<Tree>> {
        let trees = self.trees.read();
        trees.get((id & 0xffff) as usize)?.as_ref().filter(|tree| tree.id == id).cloned()
    }

    /// Removes a tree.
    pub fn disconnect(&self, id: u32) -> Option<Arc<Tree>> {
        let mut trees = self.trees.write();
        let tree = trees.get_mut((id & 0xffff) as usize)?.take_if(|tree| tree.id == id)?;
        self.charge.lock().iter_mut().for_each(|charge| charge.shrink(TREE_BYTES));
        Some(tree)
    }

    /// All trees at this moment.
    pub fn trees(&self) -> Vec<Arc<Tree>> {
        self.trees.read().iter().flatten().cloned().collect()
    }
}
