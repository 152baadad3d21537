//! Finds Opens by the ids that clients use for a reconnect or a replay, instead of the volatile id (MS-SMB2
//! 3.3.1.10 DurableFileId, CreateGuid, AppInstanceId).
//!
//! Only Opens that need it are here. So the table of Opens and the waiting requests bound these tables. The
//! list of replays has a bound of its own.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use share::ClientKey;
use smb_wire::{Guid, LeaseKey};

use crate::limits::MAX_REPLAYED;
use crate::state::Open;
use crate::state::sequence::is_before;

/// The identity of a CREATE among those of all clients.
pub type CreateKey = (ClientKey, Guid);

/// Volatile ids of Opens by their other ids.
#[derive(Default)]
pub struct Index(Mutex<OpenKeys>);

#[derive(Default)]
struct OpenKeys {
    by_durable_id: HashMap<u64, u64>,
    by_create: HashMap<CreateKey, u64>,
    /// Persistent Opens of all clients. A client may use the CreateGuid of a used Open once more.
    by_create_guid: HashMap<Guid, Vec<u64>>,
    /// CREATEs under way.
    under_way: HashSet<CreateKey>,
    replayed: RecentReplays,
    /// Opens whose CREATE may be replayed, by their lease.
    by_lease: HashMap<(ClientKey, LeaseKey), Vec<u64>>,
    by_application: HashMap<Guid, Vec<u64>>,
}

/// The latest CREATEs that came as a replay, in order, with the parameters of their sending. A later CREATE
/// with the same key is a late original if it is no replay, or if its sequence in the same session is
/// earlier.
#[derive(Default)]
struct RecentReplays {
    known: HashMap<CreateKey, CreateAttempt>,
    order: VecDeque<CreateKey>,
}

/// How a CREATE was sent.
#[derive(Debug, Clone, Copy)]
pub struct CreateAttempt {
    /// Its session. Each session counts its own sequence.
    pub session: u64,
    /// Whether its header has SMB2_FLAGS_REPLAY_OPERATION. A CREATE without it is late once a replay has
    /// come.
    pub is_replay: bool,
    /// Its ChannelSequence. The client increments it when it loses a channel.
    pub sequence: u16,
}

impl CreateAttempt {
    /// Whether this one is older than a replay that was sent like `known`.
    fn is_behind(self, known: CreateAttempt) -> bool {
        !self.is_replay || (self.session == known.session && is_before(self.sequence, known.sequence))
    }
}

impl RecentReplays {
    fn is_late(&self, key: CreateKey, sent: CreateAttempt) -> bool {
        self.known.get(&key).is_some_and(|&known| sent.is_behind(known))
    }

    fn remember(&mut self, key: CreateKey, sent: CreateAttempt) {
        if self.known.insert(key, sent).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_REPLAYED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// A CREATE under way. No other CREATE of its client may have the same key until this value is dropped.
pub struct Claim {
    index: Arc<Index>,
    key: CreateKey,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.index.0.lock().under_way.remove(&self.key);
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Claim").field(&self.key.1).finish()
    }
}

/// The state of a CREATE by its key.
#[derive(Debug)]
pub enum ClaimResult<T> {
    /// The key is new. This CREATE has claimed it.
    Claimed(Claim),
    /// Another CREATE with this key is under way.
    UnderWay,
    /// The CREATE was carried out, with this Open.
    Done(T),
    /// This is the original, and its replay was carried out before it. The replay's Open may have ended.
    Late,
}

impl Index {
    /// Adds an Open that outlives its session or has another id, or updates its volatile id.
    pub fn enter(&self, open: &Open, is_persistent: bool) {
        let mut names = self.0.lock();
        let volatile = open.id.volatile;
        names.by_durable_id.insert(open.id.persistent, volatile);
        let Some(record) = open.create_record.get() else { return };
        if let Some(create) = record.create_guid {
            names.by_create.insert((record.client, create), volatile);
            if is_persistent {
                enter_among(names.by_create_guid.entry(create).or_default(), volatile);
            }
            if let Some(lease) = record.lease {
                enter_among(names.by_lease.entry((record.client, lease.key)).or_default(), volatile);
            }
        }
        if let Some(instance) = record.instance {
            enter_among(names.by_application.entry(instance.id).or_default(), volatile);
        }
    }

    /// Removes an Open that has ended or has another volatile id now.
    pub fn remove(&self, open: &Open) {
        let mut names = self.0.lock();
        let volatile = open.id.volatile;
        if names.by_durable_id.get(&open.id.persistent) == Some(&volatile) {
            names.by_durable_id.remove(&open.id.persistent);
        }
        let Some(record) = open.create_record.get() else { return };
        if let Some(create) = record.create_guid {
            if names.by_create.get(&(record.client, create)) == Some(&volatile) {
                names.by_create.remove(&(record.client, create));
            }
            remove_among(&mut names.by_create_guid, create, volatile);
            if let Some(lease) = record.lease {
                remove_among(&mut names.by_lease, (record.client, lease.key), volatile);
            }
        }
        if let Some(instance) = record.instance {
            remove_among(&mut names.by_application, instance.id, volatile);
        }
    }

    /// The volatile id of the Open with this durable id.
    pub fn by_durable_id(&self, persistent: u64) -> Option<u64> {
        self.0.lock().by_durable_id.get(&persistent).copied()
    }

    /// The volatile id of the Open that the latest CREATE with this key has made.
    pub fn by_create(&self, key: CreateKey) -> Option<u64> {
        self.0.lock().by_create.get(&key).copied()
    }

    /// Volatile ids of the persistent Opens with this CreateGuid.
    pub fn by_create_guid(&self, create: Guid) -> Vec<u64> {
        self.0.lock().by_create_guid.get(&create).cloned().unwrap_or_default()
    }

    /// Volatile ids of the Opens under a lease whose CREATE may be replayed.
    pub fn by_lease(&self, client: ClientKey, key: LeaseKey) -> Vec<u64> {
        self.0.lock().by_lease.get(&(client, key)).cloned().unwrap_or_default()
    }

    /// Volatile ids of the Opens of an application instance.
    pub fn by_application(&self, instance: Guid) -> Vec<u64> {
        self.0.lock().by_application.get(&instance).cloned().unwrap_or_default()
    }

    /// Claims the key of a CREATE. It fails if a CREATE with this key is under way, if one has made an Open
    /// that `is_live` finds, or if this one comes after its replay.
    pub fn claim<T>(
        self: &Arc<Self>,
        key: CreateKey,
        sent: CreateAttempt,
        is_live: impl FnOnce(u64) -> Option<T>,
    ) -> ClaimResult<T> {
        let mut names = self.0.lock();
        if let Some(made) = names.by_create.get(&key).and_then(|&volatile| is_live(volatile)) {
            if sent.is_replay {
                names.replayed.remember(key, sent);
            }
            return ClaimResult::Done(made);
        }
        if names.replayed.is_late(key, sent) {
            return ClaimResult::Late;
        }
        if names.under_way.insert(key) {
            if sent.is_replay {
                names.replayed.remember(key, sent);
            }
            ClaimResult::Claimed(Claim { index: Arc::clone(self), key })
        } else {
            ClaimResult::UnderWay
        }
    }
}

fn enter_among(opens: &mut Vec<u64>, volatile: u64) {
    if !opens.contains(&volatile) {
        opens.push(volatile);
    }
}

fn remove_among<K: Eq + Hash>(all: &mut HashMap<K, Vec<u64>>, key: K, volatile: u64) {
    if let Some(opens) = all.get_mut(&key) {
        opens.retain(|&known| known != volatile);
        if opens.is_empty() {
            all.remove(&key);
        }
    }
}
