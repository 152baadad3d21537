//! The states that clients have from before a restart, by their stateids of that time.
//!
//! A state is in one of two tables. At first it is unrestored: the engine has its open on record only. Once
//! the open is restored and its client has resumed, the state is in the server's table of states like any
//! other, and here is its key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use share::{ClientKey, Share};

/// The `other` part of a stateid.
type Other = [u8; 12];

/// A state whose open is recorded.
#[derive(Clone)]
pub struct UnrestoredState {
    /// Its client.
    pub client: ClientKey,
    engine: Weak<Share>,
    /// The engine's id of its open.
    open: u64,
}

impl UnrestoredState {
    /// A state that rests on an open of an engine.
    #[must_use]
    pub fn new(client: ClientKey, engine: &Arc<Share>, open: u64) -> UnrestoredState {
        UnrestoredState { client, engine: Arc::downgrade(engine), open }
    }

    /// Has the engine restore the open, unless it did so before. Returns false if it could not do so yet. The
    /// caller holds no lock of an engine.
    #[must_use]
    pub fn restore(&self) -> bool {
        self.engine.upgrade().is_none_or(|engine| engine.restore_open(self.open).is_ok())
    }
}

/// The tables.
#[derive(Default)]
pub struct RecordedStates {
    /// Readable without the lock.
    is_any: AtomicBool,
    tables: RwLock<StateTables>,
}

#[derive(Default)]
struct StateTables {
    unrestored: HashMap<Other, UnrestoredState>,
    /// Their number for each client.
    left: HashMap<ClientKey, usize>,
    keys: HashMap<Other, u64>,
    /// Delegations that are lost, until their clients have asked for them.
    lost: HashMap<Other, ClientKey>,
}

impl StateTables {
    fn remove_unrestored(&mut self, other: &Other) {
        let Some(state) = self.unrestored.remove(other) else { return };
        if let Some(left) = self.left.get_mut(&state.client) {
            *left -= 1;
            if *left == 0 {
                self.left.remove(&state.client);
            }
        }
    }
}

impl RecordedStates {
    /// Enters an unrestored state.
    pub fn expect(&self, other: Other, state: &UnrestoredState) {
        let mut tables = self.tables.write();
        tables.remove_unrestored(&other);
        *tables.left.entry(state.client).or_default() += 1;
        tables.unrestored.insert(other, state.clone());
        self.is_any.store(true, Ordering::Release);
    }

    /// The unrestored state of a stateid.
    #[must_use]
    pub fn unrestored(&self, other: &Other) -> Option<UnrestoredState> {
        self.tables.read().unrestored.get(other).cloned()
    }

    /// Whether a client has unrestored states.
    #[must_use]
    pub fn has_unrestored(&self, client: ClientKey) -> bool {
        self.tables.read().left.contains_key(&client)
    }

    /// Notes that a delegation of a client is lost. Returns false if that was noted before.
    pub fn lose(&self, other: Other, client: ClientKey) -> bool {
        let mut tables = self.tables.write();
        tables.remove_unrestored(&other);
        tables.lost.insert(other, client).is_none()
    }

    /// Notes that a client has asked for a delegation. Returns false if it is not lost.
    pub fn acknowledge_lost(&self, other: &Other, client: ClientKey) -> bool {
        let mut tables = self.tables.write();
        let is_lost = tables.lost.get(other) == Some(&client);
        is_lost && tables.lost.remove(other).is_some()
    }

    /// Forgets the lost delegations of a client that has ended.
    pub fn forget_lost(&self, client: ClientKey) {
        self.tables.write().lost.retain(|_, of| *of != client);
    }

    /// Forgets the stateids of states that have ended, by their keys.
    pub fn remove_keys(&self, keys: &[u64]) {
        if !keys.is_empty() {
            self.tables.write().keys.retain(|_, key| !keys.contains(key));
        }
    }

    /// Forgets the unrestored states of a client.
    pub fn forget(&self, client: ClientKey) {
        let mut tables = self.tables.write();
        if tables.left.remove(&client).is_some() {
            tables.unrestored.retain(|_, state| state.client != client);
        }
    }

    /// Enters the key of a state that its client has again.
    pub fn enter(&self, other: Other, key: u64) {
        let mut tables = self.tables.write();
        tables.remove_unrestored(&other);
        tables.keys.insert(other, key);
        self.is_any.store(true, Ordering::Release);
    }

    /// The key of a state that its client has again.
    #[must_use]
    pub fn key_of(&self, other: &Other) -> Option<u64> {
        if self.is_any.load(Ordering::Acquire) { self.tables.read().keys.get(other).copied() } else { None }
    }

    /// Forgets the key of a state that has ended.
    pub fn remove(&self, other: &Other) {
        self.tables.write().keys.remove(other);
    }
}
