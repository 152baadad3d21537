//! A bounded cache of records under several keys each, and of keys that have none.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use volume::security::Sid;

use crate::account::RecordKeys;
use crate::error::IdentityError;
use crate::names::AccountKey;

/// The number of further keys under which a record is found, such as a second user principal name.
const FURTHER_KEYS: usize = 4;

/// How long and how many records are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// The age up to which a record is used without asking again.
    pub fresh: Duration,
    /// The age up to which a miss or a refusal is.
    pub miss: Duration,
    /// The age up to which a record is used if the directory does not answer.
    pub stale: Duration,
    /// The number of users.
    pub users: usize,
    /// The number of groups.
    pub groups: usize,
    /// The number of misses of users, and that of groups.
    pub misses: usize,
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits {
            fresh: Duration::from_secs(600),
            miss: Duration::from_secs(30),
            stale: Duration::from_secs(8 * 3600),
            users: 20_000,
            groups: 10_000,
            misses: 10_000,
        }
    }
}

/// A map that drops its oldest entries.
struct Bounded<K, V> {
    entries: HashMap<K, (u64, V)>,
    order: VecDeque<(u64, K)>,
    last: u64,
    limit: usize,
}

impl<K: Hash + Eq + Clone, V> Bounded<K, V> {
    fn new(limit: usize) -> Bounded<K, V> {
        Bounded { entries: HashMap::new(), order: VecDeque::new(), last: 0, limit }
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key).map(|(_, value)| value)
    }

    /// Adds an entry and gives what had to go for it.
    fn insert(&mut self, key: K, value: V) -> Vec<V> {
        self.last += 1;
        self.order.push_back((self.last, key.clone()));
        let before = self.entries.insert(key, (self.last, value));
        let mut gone: Vec<V> = before.map(|(_, value)| value).into_iter().collect();
        while self.entries.len() > self.limit {
            let Some((number, key)) = self.order.pop_front() else { break };
            if self.entries.get(&key).is_some_and(|(own, _)| *own == number) {
                gone.extend(self.remove(&key));
            }
        }
        // Entries that were replaced or removed leave their numbers behind.
        if self.order.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            self.order.retain(|(number, key)| entries.get(key).is_some_and(|(own, _)| own == number));
        }
        gone
    }
}

struct CachedRecord<R> {
    record: Arc<R>,
    at: Duration,
    keys: Vec<AccountKey>,
}

/// The age of what the cache has for a key.
#[derive(Debug, Clone)]
pub(crate) enum Lookup<R> {
    /// A record of at most [`CacheLimits::fresh`].
    Fresh(Arc<R>),
    /// A record of at most [`CacheLimits::stale`].
    Stale(Arc<R>),
    /// A miss or a refusal of at most [`CacheLimits::miss`].
    Miss(Option<IdentityError>),
    /// Nothing.
    Unknown,
}

/// A cache of users or of groups.
pub(crate) struct Cache<R> {
    records: Bounded<Sid, CachedRecord<R>>,
    by_key: HashMap<AccountKey, Sid>,
    misses: Bounded<AccountKey, (Duration, Option<IdentityError>)>,
    limits: CacheLimits,
}

impl<R: RecordKeys> Cache<R> {
    pub(crate) fn new(limits: CacheLimits, records: usize) -> Cache<R> {
        Cache {
            records: Bounded::new(records),
            by_key: HashMap::new(),
            misses: Bounded::new(limits.misses),
            limits,
        }
    }

    pub(crate) fn get(&self, key: &AccountKey, now: Duration) -> Lookup<R> {
        let sid = match key {
            AccountKey::Sid(sid) => Some(sid),
            key => self.by_key.get(key),
        };
        let age = |at: Duration| now.saturating_sub(at);
        let miss = self.misses.get(key).filter(|(at, _)| age(*at) < self.limits.miss);
        let entry = sid.and_then(|sid| self.records.get(sid));
        match (entry, miss) {
            (Some(entry), _) if age(entry.at) < self.limits.fresh => Lookup::Fresh(Arc::clone(&entry.record)),
            // A directory that was silent a moment ago is not asked again for a record that is here.
            (Some(entry), None | Some((_, Some(IdentityError::Unavailable(_)))))
                if age(entry.at) < self.limits.stale =>
            {
                Lookup::Stale(Arc::clone(&entry.record))
            }
            (_, Some((_, refusal))) => Lookup::Miss(refusal.clone()),
            _ => Lookup::Unknown,
        }
    }

    /// Whether the directory was silent for this key a moment ago.
    pub(crate) fn is_resting(&self, key: &AccountKey, now: Duration) -> bool {
        self.misses.get(key).is_some_and(|(at, refusal)| {
            matches!(refusal, Some(IdentityError::Unavailable(_)))
                && now.saturating_sub(*at) < self.limits.miss
        })
    }

    /// Remembers a record that was found under `key`.
    pub(crate) fn insert(&mut self, key: &AccountKey, record: Arc<R>, now: Duration) {
        let mut keys = record.keys();
        let former = self.records.get(&record.sid()).map(|entry| entry.keys.as_slice()).unwrap_or_default();
        let own = keys.len();
        let further = former.iter().chain([key]).filter(|key| is_further_name(key));
        for key in further {
            if !keys.contains(key) && keys.len() < own + FURTHER_KEYS {
                keys.push(key.clone());
            }
        }
        let sid = record.sid();
        if let Some(entry) = self.records.remove(&sid) {
            self.forget_keys(&entry.keys, &sid);
        }
        for key in keys.iter().chain([key]) {
            self.misses.remove(key);
        }
        let asked = key;
        for key in &keys {
            // Only the answer to a question for a principal name moves it from one account to another.
            let is_taken = key != asked && is_further_name(key) && self.by_key.contains_key(key);
            if !is_taken {
                self.by_key.insert(key.clone(), sid);
            }
        }
        for gone in self.records.insert(sid, CachedRecord { record, at: now, keys }) {
            self.forget_keys(&gone.keys, &gone.record.sid());
        }
    }

    fn forget_keys(&mut self, keys: &[AccountKey], sid: &Sid) {
        for key in keys {
            if self.by_key.get(key) == Some(sid) {
                self.by_key.remove(key);
            }
        }
    }

    /// Remembers that `key` has no record, or why it is refused. A directory that is silent takes no record
    /// away; one that answers does.
    pub(crate) fn insert_miss(&mut self, key: &AccountKey, refusal: Option<IdentityError>, now: Duration) {
        if !matches!(refusal, Some(IdentityError::Unavailable(_))) {
            let sid = match key {
                AccountKey::Sid(sid) => Some(*sid),
                key => self.by_key.get(key).copied(),
            };
            if let Some(entry) = sid.and_then(|sid| self.records.remove(&sid)) {
                self.forget_keys(&entry.keys, &entry.record.sid());
            }
        }
        self.misses.insert(key.clone(), (now, refusal));
    }

    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.entries.len()
    }
}

/// Whether a key may find a record that does not name it: a second user principal name.
fn is_further_name(key: &AccountKey) -> bool {
    matches!(key, AccountKey::Principal(_))
}
