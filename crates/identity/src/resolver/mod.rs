//! The resolver: from a principal, a SID, an id or a name to one record.
//!
//! [`Resolver::user`] and [`Resolver::group`] ask the sources and may wait, at most for
//! [`Settings::answer_limit`]. [`Resolver::known_user`] and [`Resolver::known_group`] never wait: they give
//! what is remembered, and note what is missing for [`Resolver::refresh`], which a thread of the caller runs.
//! [`Resolver::log_on`] is the log-on with a ticket.
//!
//! The order of the sources: the server's own users, the PAC of a ticket, the directory with the id mapping,
//! the host. Sources that disagree about a SID or a uid refuse the account.

mod flights;
mod group;
mod known;
mod log_on;
mod suffixes;
mod user;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::{Duration, Instant};

pub use log_on::{PacLogon, TicketLogon};

use crate::account::{Group, RecordKeys, User};
use crate::cache::{Cache, CacheLimits, Lookup};
use crate::clock::Clock;
use crate::error::IdentityError;
use crate::interner::GroupInterner;
use crate::local::LocalUsers;
use crate::mapping::IdMapping;
use crate::names::{AccountKey, Domains};
use crate::quota::Quota;
use crate::source::{AccountSource, Resting, SilenceScope, Silent};

/// The number of keys that may wait for [`Resolver::refresh`]. Further ones are asked for again later.
const WANTED: usize = 4096;
/// The number of those that the requests of one address may add, so that no client keeps the names of others
/// from being found.
const WANTED_SHARE: usize = WANTED / 8;

/// The result of a lookup: a record, or none that any source knows.
pub type Found<R> = Result<Option<Arc<R>>, IdentityError>;

/// The settings of a resolver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The domains.
    pub domains: Arc<Domains>,
    /// The mapping of the domains' accounts.
    pub mapping: IdMapping,
    /// The limits of the caches.
    pub caches: CacheLimits,
    /// The longest time for which a lookup waits.
    pub answer_limit: Duration,
}

impl Settings {
    /// The settings with the usual limits: an answer within 5 s.
    #[must_use]
    pub fn new(domains: Domains, mapping: IdMapping) -> Settings {
        let (domains, answer_limit) = (Arc::new(domains), Duration::from_secs(5));
        Settings { domains, mapping, caches: CacheLimits::default(), answer_limit }
    }
}

/// The resolver.
pub struct Resolver {
    settings: Settings,
    clock: Arc<dyn Clock>,
    local: RwLock<Arc<LocalUsers>>,
    directory: Option<Resting>,
    host: Option<Resting>,
    interner: GroupInterner,
    users: Lane<User>,
    groups: Lane<Group>,
    suffixes: suffixes::UpnSuffixes,
    wanted: LookupQueue,
}

/// The memory and the queries of one kind of record.
struct Lane<R> {
    cache: Mutex<Cache<R>>,
    flights: flights::Flights<AccountKey, Found<R>>,
}

impl<R: RecordKeys> Lane<R> {
    fn new(limits: CacheLimits, records: usize) -> Lane<R> {
        Lane { cache: Mutex::new(Cache::new(limits, records)), flights: flights::Flights::new() }
    }

    /// The record under `key`: the remembered one, or that of `query`.
    fn get(
        &self,
        key: &AccountKey,
        clock: &dyn Clock,
        limit: Duration,
        query: impl FnOnce(Instant) -> Result<Option<R>, IdentityError>,
    ) -> Found<R> {
        let lookup = {
            let (cache, now) = (crate::sync::lock(&self.cache), clock.now());
            match cache.get(key, now) {
                Lookup::Stale(record) if cache.is_resting(key, now) => Lookup::Fresh(record),
                lookup => lookup,
            }
        };
        let stale = match lookup {
            Lookup::Fresh(record) => return Ok(Some(record)),
            Lookup::Miss(refusal) => return refusal.map_or(Ok(None), Err),
            Lookup::Stale(record) => Some(record),
            Lookup::Unknown => None,
        };
        let deadline = Instant::now() + limit;
        let ask = || {
            // Another query may have ended since the look above.
            if let Lookup::Fresh(record) = crate::sync::lock(&self.cache).get(key, clock.now()) {
                return Ok(Some(record));
            }
            self.remember(key, query(deadline), clock.now())
        };
        let late = || Silent {
            source_name: "another query for the same account".to_owned(),
            reason: "no answer in time".to_owned(),
            scope: SilenceScope::Account,
        };
        let result = self.flights.join(key, deadline, ask).unwrap_or_else(|| Err(late().into()));
        match (result, stale) {
            (Err(IdentityError::Unavailable(_)), Some(record)) => Ok(Some(record)),
            (result, _) => result,
        }
    }

    fn remember(
        &self,
        key: &AccountKey,
        result: Result<Option<R>, IdentityError>,
        now: Duration,
    ) -> Found<R> {
        let mut cache = crate::sync::lock(&self.cache);
        match result {
            Ok(Some(record)) => {
                let record = Arc::new(record);
                cache.insert(key, Arc::clone(&record), now);
                Ok(Some(record))
            }
            Ok(None) => {
                cache.insert_miss(key, None, now);
                Ok(None)
            }
            Err(refusal) => {
                cache.insert_miss(key, Some(refusal.clone()), now);
                Err(refusal)
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Want {
    User(AccountKey),
    Group(AccountKey),
    Suffixes,
}

/// The keys that [`Resolver::refresh`] has to ask for.
struct LookupQueue {
    keys: Mutex<WantedKeys>,
    added: Condvar,
}

struct WantedKeys {
    /// The keys, each with the address whose request has added it.
    by_key: HashMap<Want, Option<IpAddr>>,
    quota: Quota,
    /// The address whose key was taken last. Another one's turn is next.
    last: Option<IpAddr>,
}

impl WantedKeys {
    /// Adds a key. False: it is there already, or there is no room.
    fn add(&mut self, want: Want, from: Option<IpAddr>) -> bool {
        if self.by_key.contains_key(&want) || self.quota.take(from).is_err() {
            return false;
        }
        self.by_key.insert(want, from);
        true
    }

    fn take(&mut self) -> Option<Want> {
        let mut keys = self.by_key.iter();
        let another = keys.find(|(_, from)| **from != self.last);
        let want = another.or_else(|| self.by_key.iter().next())?.0.clone();
        let from = self.by_key.remove(&want)?;
        self.quota.give_back(from);
        self.last = from;
        Some(want)
    }
}

impl Default for LookupQueue {
    fn default() -> LookupQueue {
        let keys = WantedKeys { by_key: HashMap::new(), quota: Quota::new(WANTED, WANTED_SHARE), last: None };
        LookupQueue { keys: Mutex::new(keys), added: Condvar::new() }
    }
}

impl Resolver {
    /// A resolver over a directory and the host.
    #[must_use]
    pub fn new(
        settings: Settings,
        directory: Option<Arc<dyn AccountSource>>,
        host: Option<Arc<dyn AccountSource>>,
        clock: Arc<dyn Clock>,
    ) -> Resolver {
        let rest = settings.caches.miss;
        let resting = |source| Resting::new(source, Arc::clone(&clock), rest);
        Resolver {
            local: RwLock::default(),
            directory: directory.map(resting),
            host: host.map(resting),
            interner: GroupInterner::default(),
            users: Lane::new(settings.caches, settings.caches.users),
            groups: Lane::new(settings.caches, settings.caches.groups),
            suffixes: suffixes::UpnSuffixes::new(),
            wanted: LookupQueue::default(),
            settings,
            clock,
        }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the server's own users.
    pub fn set_local_users(&self, users: LocalUsers) {
        *self.local.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(users);
    }

    fn local(&self) -> Arc<LocalUsers> {
        Arc::clone(&self.local.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// The user under a key. Waits for the sources if the user is not remembered.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn user(&self, key: &AccountKey) -> Found<User> {
        if let Some(user) = self.local().get(key) {
            return Ok(Some(Arc::clone(user)));
        }
        let query = |deadline| self.resolve_user(key, deadline);
        self.users.get(key, &*self.clock, self.settings.answer_limit, query)
    }

    /// The group under a key. Waits for the sources if the group is not remembered.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn group(&self, key: &AccountKey) -> Found<Group> {
        let query = |deadline| self.resolve_group(key, deadline);
        self.groups.get(key, &*self.clock, self.settings.answer_limit, query)
    }

    /// The user of a text such as `CORP\bob`, `bob@corp.example` or `bob`.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn user_named(&self, text: &str) -> Found<User> {
        first(self.keys(text)?, |key| self.user(key))
    }

    /// The group of a text such as `CORP\staff` or `staff`.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn group_named(&self, text: &str) -> Found<Group> {
        first(self.keys(text)?, |key| self.group(key))
    }

    /// The user under a key, as far as remembered. Never waits. A key that is missing or old is
    /// noted for [`Self::refresh`], unless the client that the thread works for has its share of notes.
    #[must_use]
    pub fn known_user(&self, key: &AccountKey) -> Option<Arc<User>> {
        if let Some(user) = self.local().get(key) {
            return Some(Arc::clone(user));
        }
        let lookup = crate::sync::lock(&self.users.cache).get(key, self.clock.now());
        self.known(lookup, || Want::User(key.clone()))
    }

    /// The group under a key, as far as remembered. Never waits, as [`Self::known_user`].
    #[must_use]
    pub fn known_group(&self, key: &AccountKey) -> Option<Arc<Group>> {
        let lookup = crate::sync::lock(&self.groups.cache).get(key, self.clock.now());
        self.known(lookup, || Want::Group(key.clone()))
    }

    fn known<R>(&self, lookup: Lookup<R>, want: impl FnOnce() -> Want) -> Option<Arc<R>> {
        let record = match lookup {
            Lookup::Fresh(record) => return Some(record),
            Lookup::Miss(_) => return None,
            Lookup::Stale(record) => Some(record),
            Lookup::Unknown => None,
        };
        self.want(want());
        record
    }

    /// Notes what [`Self::refresh`] has to ask for.
    fn want(&self, want: Want) {
        if crate::sync::lock(&self.wanted.keys).add(want, share::requester()) {
            self.wanted.added.notify_one();
        }
    }

    /// Asks the sources for one key that [`Self::known_user`] or [`Self::known_group`] missed. Waits for such
    /// a key for at most `wait`. Returns whether there was one.
    pub fn refresh(&self, wait: Duration) -> bool {
        let keys = crate::sync::lock(&self.wanted.keys);
        let waited = self.wanted.added.wait_timeout_while(keys, wait, |keys| keys.by_key.is_empty());
        let want = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0.take();
        let Some(want) = want else { return false };
        // The result is remembered, a refusal too.
        let _ = match &want {
            Want::User(key) => self.user(key).map(drop),
            Want::Group(key) => self.group(key).map(drop),
            Want::Suffixes => self.learn_suffixes().map(drop).map_err(IdentityError::from),
        };
        true
    }

    /// The number of users and groups that are remembered.
    #[must_use]
    pub fn remembered(&self) -> (usize, usize) {
        (crate::sync::lock(&self.users.cache).len(), crate::sync::lock(&self.groups.cache).len())
    }
}

/// The first record that a lookup finds for one of the keys. An error ends the search: a later key might name
/// another account.
fn first<R>(keys: Vec<AccountKey>, lookup: impl Fn(&AccountKey) -> Found<R>) -> Found<R> {
    for key in keys {
        if let Some(record) = lookup(&key)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}
