//! Session: who somebody is, with what keys, and what they have connected (MS-SMB2 3.3.1.8).
//!
//! A session belongs to no connection. Channels come and go; with the last of them it ends.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use share::memory::{Charge, Payer};
use share::{ClientKey, ClientMemory, Identity};
use smb_wire::Guid;
use volume::security::Sid;
use wire::Now;
use wire::endpoint::Principal;

use crate::config::account::{ChannelRule, Standing};
use crate::keys::{Protection, Seal};
use crate::limits::{MAX_TREES_PER_SESSION, SESSION_BYTES, TREE_BYTES};
use crate::state::room::Crowd;
use crate::state::{Handle, Tree};
use auth::crypto::Signer;

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Its user has not been proved yet.
    InProgress = 0,
    /// In use.
    Valid = 1,
    /// Ended; its id is dead.
    Gone = 2,
}

/// What is settled when its user has been proved.
pub struct Proved {
    /// The user; none for an anonymous log-on.
    pub identity: Arc<Identity>,
    /// Nobody in particular: may only use IPC$.
    pub anonymous: bool,
    /// Signs what binds further channels (MS-SMB2 3.3.1.8 Session.SigningKey); the first channel's key is the
    /// same, every other channel has its own.
    pub signer: Signer,
    /// Sealing keys, where the dialect has any.
    pub seal: Option<Seal>,
}

/// Why a session takes no further channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// It has as many as it may have.
    Channels,
    /// It has ended.
    Ended,
}

/// One session.
pub struct Session {
    /// The id in every header.
    pub id: u64,
    /// The client that made it.
    pub client_guid: Guid,
    /// That client for the engine.
    pub client: ClientKey,
    /// Dialect, signing and cipher; every channel must have the same.
    pub protection: Protection,
    /// When it was made.
    pub created: Now,
    /// With whom it works for, which each turn asks.
    proved: OnceLock<(Proved, Principal)>,
    state: AtomicU8,
    /// Every request must be signed or sealed.
    pub signing_required: AtomicBool,
    /// Every request must be sealed.
    pub sealing_required: AtomicBool,
    /// Counts nonces; unique for a key, whatever channel sends (MS-SMB2 3.1.4.3).
    nonce: AtomicU64,
    channels: Mutex<Vec<Arc<Handle>>>,
    /// Attempts to bind more channels than it may have.
    crowd: Mutex<Crowd>,
    standing: OnceLock<Standing>,
    /// Connections it has lost while others carried it on.
    pub failures: AtomicU64,
    /// Its client has asked where else the server is (MS-SMB2 3.3.5.15.11).
    pub asked_interfaces: AtomicBool,
    /// Its client has asked by an AAPL context what the server can do for macOS.
    pub is_of_macos: AtomicBool,
    trees: RwLock<Vec<Option<Arc<Tree>>>>,
    next_tree: AtomicU32,
    /// Its part of the memory for sessions, with its trees; none before its user is proved.
    charge: Mutex<Option<Charge>>,
    /// Volatile ids of its Opens.
    pub opens: Mutex<BTreeSet<u64>>,
}

impl Session {
    /// A session whose user is not proved yet.
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
            proved: OnceLock::new(),
            state: AtomicU8::new(State::InProgress as u8),
            signing_required: AtomicBool::new(false),
            sealing_required: AtomicBool::new(false),
            nonce: AtomicU64::new(0),
            charge: Mutex::default(),
            channels: Mutex::default(),
            crowd: Mutex::default(),
            standing: OnceLock::new(),
            failures: AtomicU64::new(0),
            asked_interfaces: AtomicBool::new(false),
            is_of_macos: AtomicBool::new(false),
            trees: RwLock::default(),
            next_tree: AtomicU32::new(0),
            opens: Mutex::default(),
        }
    }

    /// Where it is in its life.
    #[inline]
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::InProgress,
            1 => State::Valid,
            _ => State::Gone,
        }
    }

    /// Its user has been proved. The first proof settles the keys; a later one, by the same user, does not.
    pub fn prove(&self, proved: Proved) {
        let user = || Principal::User(proved.identity.number());
        let principal = if proved.anonymous { Principal::Host } else { user() };
        let _ = self.proved.set((proved, principal));
        let (from, to) = (State::InProgress as u8, State::Valid as u8);
        let _ = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }

    /// For whom it works: its user, or its client's host when that is nobody in particular.
    #[inline]
    #[must_use]
    pub fn principal(&self) -> Option<Principal> {
        self.proved.get().map(|(_, principal)| *principal)
    }

    /// What was settled when the user was proved.
    #[inline]
    pub fn proved(&self) -> Option<&Proved> {
        self.proved.get().map(|(proved, _)| proved)
    }

    /// The end of its life. True for the one caller that ended it.
    pub fn end(&self) -> bool {
        self.state.swap(State::Gone as u8, Ordering::AcqRel) != State::Gone as u8
    }

    /// The user's SID; none before they are proved.
    pub fn sid(&self) -> Option<Sid> {
        self.proved().map(|proved| proved.identity.sid)
    }

    /// The user's name, for status and logs.
    pub fn user_name(&self) -> &str {
        self.proved().map_or("", |proved| &proved.identity.name)
    }

    /// A nonce for sealing that no message of this session had.
    pub fn next_nonce(&self) -> [u8; 16] {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.nonce.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        nonce
    }

    // Channels --------------------------------------------------------------------------------------

    /// A further connection carries the session, if it has fewer than `most`.
    ///
    /// # Errors
    /// Why it does not.
    pub fn add_channel(&self, handle: &Arc<Handle>, most: usize) -> Result<(), Full> {
        self.add(handle, most, |_| None).map(drop)
    }

    /// The same for a client whose user is proved, and who may have it in the place of a channel that is most likely lost:
    /// that one is given back, to be closed.
    ///
    /// # Errors
    /// As [`Session::add_channel`].
    pub fn add_or_replace(
        &self,
        handle: &Arc<Handle>,
        most: usize,
        now: Now,
    ) -> Result<Option<Arc<Handle>>, Full> {
        self.add(handle, most, |channels| self.room_among(channels, now))
    }

    fn add(
        &self,
        handle: &Arc<Handle>,
        most: usize,
        room: impl FnOnce(&[Arc<Handle>]) -> Option<usize>,
    ) -> Result<Option<Arc<Handle>>, Full> {
        let mut channels = self.channels.lock();
        // Whoever ends the session takes the list afterwards, and so finds what was added before.
        if self.state() == State::Gone {
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

    /// How many connections carry it.
    pub fn channel_count(&self) -> usize {
        self.channels.lock().len()
    }

    /// Whether other connections may carry its requests beside this one, or did.
    pub(crate) fn has_several_channels(&self) -> bool {
        self.channel_count() > 1 || self.failures.load(Ordering::Relaxed) > 0
    }

    /// A connection no longer carries it; true when it was the last.
    pub fn remove_channel(&self, connection: u64) -> bool {
        let mut channels = self.channels.lock();
        channels.retain(|known| known.id != connection);
        channels.is_empty()
    }

    /// Whether a channel that the client has most likely lost would give its place up to one that it asks for.
    pub fn would_make_room(&self, now: Now) -> bool {
        let channels = self.channels.lock();
        self.room_among(&channels, now).is_some()
    }

    fn room_among(&self, channels: &[Arc<Handle>], now: Now) -> Option<usize> {
        self.crowd.lock().ask(channels.iter().map(|channel| channel.way.heard_ns()), now)
    }

    /// What its account settles; none before its user is proved.
    pub fn standing(&self) -> Option<&Standing> {
        self.standing.get()
    }

    /// How many connections it may have, as its account says; none before its user is proved.
    pub fn channel_rule(&self) -> Option<&ChannelRule> {
        self.standing().map(|standing| &standing.channels)
    }

    /// Takes memory for itself; false when the payer has more than is left.
    pub fn take_memory(&self, memory: &Arc<ClientMemory>, payer: Payer) -> bool {
        let mut charge = self.charge.lock();
        *charge = memory.try_charge(payer, SESSION_BYTES);
        charge.is_some()
    }

    /// Settles what its account says of it. Only the first call counts.
    pub fn settle(&self, standing: Standing) {
        let _settled_before = self.standing.set(standing);
    }

    /// The connections that carry it, the first one first.
    pub fn channels(&self) -> Vec<Arc<Handle>> {
        self.channels.lock().clone()
    }

    // Trees -----------------------------------------------------------------------------------------

    /// Adds a tree that `make` builds for its id; none when there are too many.
    pub fn connect(&self, make: impl FnOnce(u32) -> Tree) -> Option<Arc<Tree>> {
        let mut trees = self.trees.write();
        let place = trees.iter().position(Option::is_none).unwrap_or(trees.len());
        let has_room = || self.charge.lock().as_mut().is_none_or(|charge| charge.grow(TREE_BYTES));
        if place == MAX_TREES_PER_SESSION || !has_room() {
            return None;
        }
        if place == trees.len() {
            trees.push(None);
        }
        // An id is its place and a count, so that an id that was used before is not taken for a new one.
        let count = self.next_tree.fetch_add(1, Ordering::Relaxed) % 0xffff + 1;
        let tree = Arc::new(make((count << 16) | place as u32));
        trees[place] = Some(Arc::clone(&tree));
        Some(tree)
    }

    /// The tree under `id`.
    pub fn tree(&self, id: u32) -> Option<Arc<Tree>> {
        let trees = self.trees.read();
        trees.get((id & 0xffff) as usize)?.as_ref().filter(|tree| tree.id == id).cloned()
    }

    /// Takes a tree out.
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
