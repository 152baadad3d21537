//! Opens by other names than their volatile id: those by which clients come back for them or repeat
//! their CREATE (MS-SMB2 3.3.1.10 DurableFileId, CreateGuid, AppInstanceId).
//!
//! Only Opens that need it are here, so these tables are bounded by the table of Opens and the requests
//! that wait; what is remembered beyond that has a bound of its own.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use share::ClientKey;
use smb_wire::{Guid, LeaseKey};

use crate::limits::MAX_REPLAYED;
use crate::state::Open;
use crate::state::sequence::is_before;

/// A CREATE among all that one client sends.
pub type CreateKey = (ClientKey, Guid);

/// Volatile ids of Opens by other names.
#[derive(Default)]
pub struct Index(Mutex<Names>);

#[derive(Default)]
struct Names {
    by_durable_id: HashMap<u64, u64>,
    by_create: HashMap<CreateKey, u64>,
    /// Of persistent Opens, whichever client made them. One whose Open has been used may be given once more.
    by_create_guid: HashMap<Guid, Vec<u64>>,
    /// CREATEs that are under way.
    under_way: HashSet<CreateKey>,
    replayed: Replayed,
    /// Of those that a CREATE may be replayed for, by the lease they were opened with.
    by_lease: HashMap<(ClientKey, LeaseKey), Vec<u64>>,
    by_application: HashMap<Guid, Vec<u64>>,
}

/// The latest CREATEs that came as a replay, in order, with how that was sent: what comes under such a name without
/// being a replay, or with an earlier sequence of the same session, is an earlier one, late.
#[derive(Default)]
struct Replayed {
    known: HashMap<CreateKey, Sent>,
    order: VecDeque<CreateKey>,
}

/// How a CREATE was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Its session, since each counts from its own beginning.
    pub session: u64,
    /// As a replay.
    pub is_replay: bool,
    /// Its ChannelSequence.
    pub sequence: u16,
}

impl Sent {
    /// Whether it comes late, behind a replay that was sent like `known`.
    fn is_behind(self, known: Sent) -> bool {
        !self.is_replay || (self.session == known.session && is_before(self.sequence, known.sequence))
    }
}

impl Replayed {
    fn is_late(&self, key: CreateKey, sent: Sent) -> bool {
        self.known.get(&key).is_some_and(|&known| sent.is_behind(known))
    }

    fn remember(&mut self, key: CreateKey, sent: Sent) {
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

/// A CREATE that is under way: until this is dropped no other of the same client may have its name.
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

/// What is known of a CREATE by its name.
#[derive(Debug)]
pub enum Known<T> {
    /// Nothing until now.
    Claimed(Claim),
    /// It is under way.
    UnderWay,
    /// It has made this.
    Made(T),
    /// It is the first one, and was carried out as a replay before it came. What that made may be gone.
    Late,
}

impl Index {
    /// An Open that outlives its session, or that is looked for by another name, has been made or has got
    /// another volatile id.
    pub fn enter(&self, open: &Open, is_persistent: bool) {
        let mut names = self.0.lock();
        let volatile = open.id.volatile;
        names.by_durable_id.insert(open.id.persistent, volatile);
        let Some(made) = open.made.get() else { return };
        if let Some(create) = made.create_guid {
            names.by_create.insert((made.client, create), volatile);
            if is_persistent {
                enter_among(names.by_create_guid.entry(create).or_default(), volatile);
            }
            if let Some(lease) = made.lease {
                enter_among(names.by_lease.entry((made.client, lease.key)).or_default(), volatile);
            }
        }
        if let Some(instance) = made.instance {
            enter_among(names.by_application.entry(instance.id).or_default(), volatile);
        }
    }

    /// An Open is gone, or is reached under another volatile id.
    pub fn remove(&self, open: &Open) {
        let mut names = self.0.lock();
        let volatile = open.id.volatile;
        if names.by_durable_id.get(&open.id.persistent) == Some(&volatile) {
            names.by_durable_id.remove(&open.id.persistent);
        }
        let Some(made) = open.made.get() else { return };
        if let Some(create) = made.create_guid {
            if names.by_create.get(&(made.client, create)) == Some(&volatile) {
                names.by_create.remove(&(made.client, create));
            }
            remove_among(&mut names.by_create_guid, create, volatile);
            if let Some(lease) = made.lease {
                remove_among(&mut names.by_lease, (made.client, lease.key), volatile);
            }
        }
        if let Some(instance) = made.instance {
            remove_among(&mut names.by_application, instance.id, volatile);
        }
    }

    /// The volatile id that belongs to a persistent one.
    pub fn by_durable_id(&self, persistent: u64) -> Option<u64> {
        self.0.lock().by_durable_id.get(&persistent).copied()
    }

    /// The volatile id of the Open that the latest CREATE of this name has made.
    pub fn by_create(&self, key: CreateKey) -> Option<u64> {
        self.0.lock().by_create.get(&key).copied()
    }

    /// Volatile ids of the persistent Opens that CREATEs of this name have made.
    pub fn by_create_guid(&self, create: Guid) -> Vec<u64> {
        self.0.lock().by_create_guid.get(&create).cloned().unwrap_or_default()
    }

    /// Volatile ids of the Opens under a lease that a CREATE may have been answered with more than once.
    pub fn by_lease(&self, client: ClientKey, key: LeaseKey) -> Vec<u64> {
        self.0.lock().by_lease.get(&(client, key)).cloned().unwrap_or_default()
    }

    /// Volatile ids of the Opens of an application's instance.
    pub fn by_application(&self, instance: Guid) -> Vec<u64> {
        self.0.lock().by_application.get(&instance).cloned().unwrap_or_default()
    }

    /// Begins a CREATE, unless one of this name is under way or has made something that `is_live` finds, or this one
    /// comes after a replay of it.
    pub fn claim<T>(
        self: &Arc<Self>,
        key: CreateKey,
        sent: Sent,
        is_live: impl FnOnce(u64) -> Option<T>,
    ) -> Known<T> {
        let mut names = self.0.lock();
        if let Some(made) = names.by_create.get(&key).and_then(|&volatile| is_live(volatile)) {
            if sent.is_replay {
                names.replayed.remember(key, sent);
            }
            return Known::Made(made);
        }
        if names.replayed.is_late(key, sent) {
            return Known::Late;
        }
        if names.under_way.insert(key) {
            if sent.is_replay {
                names.replayed.remember(key, sent);
            }
            Known::Claimed(Claim { index: Arc::clone(self), key })
        } else {
            Known::UnderWay
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
