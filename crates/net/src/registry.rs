//! The registry of connections: the bounds on their number, and the worker for the next one.
//!
//! It changes when a connection starts, is placed, moves or ends, and each worker updates it once in a span
//! of time (`balance.rs`). No message touches it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wire::address::host;
use wire::endpoint::Principal;

use crate::clock;
use crate::config::Config;
use crate::live_connections::LiveConnection;
use crate::priority_lane::{PriorityLane, Standing};
use crate::unproved::{Evictable, UnprovedConnections, UnprovedEntry};

/// All connections of one server.
#[derive(Debug)]
pub(crate) struct ConnectionRegistry {
    bounds: Bounds,
    refusals: [AtomicU64; 5],
    /// Connections that were closed in favour of others.
    displaced: AtomicU64,
    /// Connections of unproved clients: those that have not logged on or made a session.
    unproved: AtomicUsize,
    /// The priority lane, whose worker comes after all others.
    lane: PriorityLane,
    /// Number of connections on each worker.
    load: Box<[AtomicUsize]>,
    /// The load of each worker.
    busy: Box<[Busy]>,
    state: Mutex<RegistryState>,
}

/// Connections of unproved clients may use this fraction of the descriptors.
const CROWD_PART: u64 = 8;

/// The bounds on connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Connections in all.
    pub(crate) all: usize,
    /// Connections of one address.
    pub(crate) of_address: usize,
    /// Connections of unproved clients at one address.
    pub(crate) unproved: usize,
    /// Connections of unproved clients at all addresses.
    pub(crate) crowd: usize,
    /// Descriptors of this process.
    pub(crate) descriptors: u64,
}

impl Bounds {
    pub(crate) fn of(config: &Config) -> Bounds {
        Bounds {
            all: config.max_connections,
            of_address: config.max_connections_per_address,
            unproved: config.max_unproved_per_address,
            crowd: usize::try_from(config.descriptors / CROWD_PART).unwrap_or(usize::MAX).max(1),
            descriptors: config.descriptors,
        }
    }

    /// Whether less than an eighth of the descriptors is left. A new descriptor gets the lowest free number,
    /// so a high number means that all lower ones are in use.
    fn are_scarce(&self, descriptor: u64) -> bool {
        descriptor >= self.descriptors - self.descriptors / 8
    }
}

/// The reason for refusing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RefusalReason {
    All,
    Address,
    Unproved,
    Crowd,
    Descriptors,
}

impl RefusalReason {
    pub(crate) fn text(self) -> &'static str {
        match self {
            RefusalReason::All => "all places are taken",
            RefusalReason::Address => "its address has as many connections as one may have",
            RefusalReason::Unproved => {
                "too many connections of its address have not logged on or made a session"
            }
            RefusalReason::Crowd => {
                "too many connections have not logged on or made a session, and no address has more of them"
            }
            RefusalReason::Descriptors => "descriptors run short, and its address has more than its share",
        }
    }
}

/// The refusal of a connection.
#[derive(Debug)]
pub(crate) struct AdmissionDenied {
    pub(crate) why: RefusalReason,
    /// Whether to log the refusal: once in a while for each address.
    pub(crate) is_logged: bool,
    /// Number of connections of the address.
    pub(crate) connections: usize,
}

/// Number of refused connections, by reason.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Refusals {
    /// The server had as many connections as it may have.
    pub all: u64,
    /// The address had as many connections as one may have.
    pub address: u64,
    /// The address, or all addresses together, had too many unproved connections.
    pub unproved: u64,
    /// The connection was admitted, but later closed in favour of one from an address with fewer unproved
    /// connections.
    pub displaced: u64,
    /// Descriptors ran short, and the address had more than its share.
    pub descriptors: u64,
}

/// The time after which a refusal of the same address is logged again (ns).
const SILENCE_NS: u64 = 60_000_000_000;
/// Log lines about refusals in that time, for all addresses.
const LINES: usize = 10;

/// Number of principals without connections that the priority lane remembers.
const MOST_STANDINGS: usize = 4096;

/// The owner of a connection: its principal. If that is a host, the address belongs to it.
type Owner = (Principal, Option<IpAddr>);

#[derive(Debug, Default)]
struct RegistryState {
    total: usize,
    /// Number of connections of each address.
    addresses: HashMap<IpAddr, usize>,
    /// Each owner's standing in the priority lane, and the number of its connections.
    standings: HashMap<Owner, (Arc<Standing>, usize)>,
    /// Number of owners that have connections, and the number of those connections.
    owners: usize,
    owned: usize,
    /// The unproved connections.
    unproved_connections: UnprovedConnections,
    /// The refusals that were logged, and when (monotonic ns).
    told: Vec<(IpAddr, RefusalReason, u64)>,
    /// For each placement key its number of connections on each worker.
    keys: HashMap<u128, Box<[usize]>>,
}

impl RegistryState {
    /// Whether there are connections of more than one owner. A connection without an owner counts as another
    /// owner's.
    fn is_shared(&self) -> bool {
        self.owners > 1 || self.total > self.owned
    }

    /// Adds a connection of an owner.
    fn add_owned(&mut self, owner: Owner) -> Arc<Standing> {
        let (standing, connections) = self.standings.entry(owner).or_default();
        self.owned += 1;
        *connections += 1;
        self.owners += usize::from(*connections == 1);
        Arc::clone(standing)
    }

    /// Removes a connection of an owner.
    fn remove_owned(&mut self, owner: Owner, now_ns: u64) {
        let Some((standing, connections)) = self.standings.get_mut(&owner) else { return };
        self.owned -= 1;
        *connections -= 1;
        if *connections > 0 {
            return;
        }
        self.owners -= 1;
        if !standing.is_remembered(now_ns) {
            self.standings.remove(&owner);
        }
        let most = self.owners + MOST_STANDINGS;
        if self.standings.len() > most {
            self.standings
                .retain(|_, (standing, connections)| *connections > 0 || standing.is_barred(now_ns));
        }
        if self.standings.len() > most {
            self.standings.retain(|_, (_, connections)| *connections > 0);
        }
    }

    /// Whether to log a refusal of an address.
    fn should_log(&mut self, address: IpAddr, why: RefusalReason, now_ns: u64) -> bool {
        self.told.retain(|(.., at)| now_ns.saturating_sub(*at) < SILENCE_NS);
        let is_known = self.told.iter().any(|(of, what, _)| (*of, *what) == (address, why));
        let should_log = !is_known && self.told.len() < LINES;
        if should_log {
            self.told.push((address, why, now_ns));
        }
        should_log
    }
}

/// The last reported load of a worker, in thousandths of a processor, and the time of the report (monotonic
/// ns).
#[derive(Debug, Default)]
struct Busy {
    parts: AtomicU64,
    at_ns: AtomicU64,
}

/// A worker whose last report is older than this (ns) has no load.
const QUIET_NS: u64 = 100_000_000;

/// The registration of one connection. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Arc<ConnectionRegistry>,
    address: IpAddr,
    /// The worker of the connection while it is not in the priority lane.
    home: usize,
    is_in_lane: bool,
    /// The owner, once it is known, and its standing in the priority lane.
    owner: Option<(Owner, Arc<Standing>)>,
    key: Option<u128>,
    /// The entry among the unproved connections.
    entry: Arc<UnprovedEntry>,
    proved: bool,
    /// The entry in the list for the next owner of the address.
    live: Option<LiveConnection>,
}

impl ConnectionRegistry {
    /// A registry for this many workers and the priority lane.
    pub(crate) fn new(workers: usize, bounds: Bounds) -> Arc<ConnectionRegistry> {
        Arc::new(ConnectionRegistry {
            lane: PriorityLane::new(workers),
            bounds,
            refusals: Default::default(),
            displaced: AtomicU64::new(0),
            unproved: AtomicUsize::new(0),
            load: (0..=workers).map(|_| AtomicUsize::new(0)).collect(),
            busy: (0..workers).map(|_| Busy::default()).collect(),
            state: Mutex::default(),
        })
    }

    /// Admits a connection whose socket has this descriptor. It goes to the worker with the fewest
    /// connections. If places run short, it takes the place of an unproved connection whose address has more
    /// of those.
    pub(crate) fn admit(
        self: &Arc<ConnectionRegistry>,
        address: IpAddr,
        descriptor: u64,
        now_ns: u64,
    ) -> Result<Registration, AdmissionDenied> {
        let address = address.to_canonical();
        let mut state = self.state.lock();
        let connections = state.addresses.get(&address).copied().unwrap_or_default();
        if let Some(why) = self.refuses(&mut state, address, connections, descriptor, now_ns) {
            self.refusals[why as usize].fetch_add(1, Relaxed);
            let is_logged = state.should_log(address, why, now_ns);
            return Err(AdmissionDenied { why, is_logged, connections });
        }
        *state.addresses.entry(address).or_default() += 1;
        state.total += 1;
        let entry = state.unproved_connections.enter(address);
        self.unproved.store(state.unproved_connections.len(), Relaxed);
        self.lane.set_shared(state.is_shared());
        let home = self.emptiest();
        self.load[home].fetch_add(1, Relaxed);
        let registry = Arc::clone(self);
        Ok(Registration {
            registry,
            address,
            home,
            is_in_lane: false,
            owner: None,
            key: None,
            entry,
            proved: false,
            live: None,
        })
    }

    /// The worker with the fewest connections.
    fn emptiest(&self) -> usize {
        (0..self.lane.worker()).min_by_key(|&at| self.load[at].load(Relaxed)).unwrap_or(0)
    }

    /// The priority lane.
    pub(crate) fn lane(&self) -> &PriorityLane {
        &self.lane
    }

    /// The reason to refuse a connection of an address that has this many. None if it is admitted, also if
    /// another connection is closed for it.
    fn refuses(
        &self,
        state: &mut RegistryState,
        address: IpAddr,
        own: usize,
        descriptor: u64,
        now_ns: u64,
    ) -> Option<RefusalReason> {
        let Bounds { all, of_address, unproved, crowd, .. } = self.bounds;
        let own_unproved = state.unproved_connections.of(address);
        let is_scarce = self.bounds.are_scarce(descriptor);
        if own >= of_address {
            return Some(RefusalReason::Address);
        }
        if own_unproved >= unproved {
            return Some(RefusalReason::Unproved);
        }
        if is_scarce && own * state.addresses.len() > state.total {
            return Some(RefusalReason::Descriptors);
        }
        let short_of = match () {
            () if state.total >= all => RefusalReason::All,
            () if state.unproved_connections.len() >= crowd => RefusalReason::Crowd,
            () if is_scarce => RefusalReason::Descriptors,
            () => return None,
        };
        // Descriptors that run short are still available.
        let is_refused =
            !self.displace(state, own_unproved, now_ns) && short_of != RefusalReason::Descriptors;
        is_refused.then_some(short_of)
    }

    /// Closes an unproved connection, if its address has more than `fewer` of those.
    fn displace(&self, state: &mut RegistryState, fewer: usize, now_ns: u64) -> bool {
        let Some(address) = state.unproved_connections.displace(fewer) else { return false };
        self.displaced.fetch_add(1, Relaxed);
        if state.should_log(address, RefusalReason::Crowd, now_ns) {
            tracing::warn!(
                %address,
                "places run short: a connection that has not logged on or made a session gives its own up"
            );
        }
        true
    }

    /// Closes an unproved connection, because the host has no descriptor for the next one. Returns false if
    /// there is none to close.
    pub(crate) fn make_room(&self, now_ns: u64) -> bool {
        self.displace(&mut self.state.lock(), 0, now_ns)
    }

    /// Number of connections of unproved clients.
    pub(crate) fn unproved(&self) -> usize {
        self.unproved.load(Relaxed)
    }

    /// Number of refused connections.
    pub(crate) fn refusals(&self) -> Refusals {
        let count = |why: RefusalReason| self.refusals[why as usize].load(Relaxed);
        Refusals {
            all: count(RefusalReason::All),
            address: count(RefusalReason::Address),
            unproved: count(RefusalReason::Unproved) + count(RefusalReason::Crowd),
            displaced: self.displaced.load(Relaxed),
            descriptors: count(RefusalReason::Descriptors),
        }
    }

    /// Number of connections.
    pub(crate) fn total(&self) -> usize {
        self.state.lock().total
    }

    /// Whether there is no other worker to move a connection to.
    pub(crate) fn has_one_worker(&self) -> bool {
        self.busy.len() == 1
    }

    /// Takes the load that a worker reports, in thousandths of a processor.
    pub(crate) fn report_load(&self, worker: usize, parts: u64, now_ns: u64) {
        let busy = &self.busy[worker];
        busy.parts.store(parts, Relaxed);
        busy.at_ns.store(now_ns, Relaxed);
    }

    /// The worker with the least load, other than `but`. None if even its load exceeds `most` thousandths.
    pub(crate) fn idlest(&self, but: usize, most: u64, now_ns: u64) -> Option<usize> {
        let parts = |busy: &Busy| {
            let is_quiet = now_ns.saturating_sub(busy.at_ns.load(Relaxed)) > QUIET_NS;
            if is_quiet { 0 } else { busy.parts.load(Relaxed) }
        };
        let others =
            self.busy.iter().map(parts).enumerate().filter(|(at, parts)| *at != but && *parts <= most);
        others.min_by_key(|(at, parts)| (*parts, self.load[*at].load(Relaxed))).map(|(at, _)| at)
    }

    /// Number of connections on each worker, and then on the priority lane.
    pub(crate) fn load(&self) -> Vec<usize> {
        self.load.iter().map(|count| count.load(Relaxed)).collect()
    }
}

impl Registration {
    /// The worker that the connection is on.
    pub(crate) fn worker(&self) -> usize {
        if self.is_in_lane { self.registry.lane.worker() } else { self.home }
    }

    /// Chooses the worker of the connection. It is the one with the most connections of `key`, and among
    /// equals the one with the fewest others; the present one if it is as good. Returns the worker that the
    /// connection is on now.
    pub(crate) fn choose(&mut self, key: u128) -> usize {
        let registry = &*self.registry;
        let mut state = registry.state.lock();
        let of_key =
            state.keys.entry(key).or_insert_with(|| vec![0; registry.lane.worker()].into_boxed_slice());
        let others =
            |at: usize| registry.load[at].load(Relaxed) - usize::from(!self.is_in_lane && at == self.home);
        let best = (0..of_key.len())
            .min_by_key(|&at| (Reverse(of_key[at]), others(at), at != self.home))
            .unwrap_or(self.home);
        of_key[best] += 1;
        self.key = Some(key);
        drop(state);
        self.change(|registration| registration.home = best);
        self.worker()
    }

    /// The owner's standing in the priority lane.
    pub(crate) fn standing(&self) -> Option<&Arc<Standing>> {
        self.owner.as_ref().map(|(_, standing)| standing)
    }

    /// Sets the principal that the connection works for.
    pub(crate) fn set_principal(&mut self, principal: Principal) {
        if self.owner.as_ref().is_some_and(|((before, _), _)| *before == principal) {
            return;
        }
        let owner = (principal, (principal == Principal::Host).then(|| host(self.address)));
        let mut state = self.registry.state.lock();
        let standing = state.add_owned(owner);
        if let Some((before, _)) = self.owner.replace((owner, standing)) {
            state.remove_owned(before, clock::mono_ns());
        }
        self.registry.lane.set_shared(state.is_shared());
    }

    /// Moves the connection into the priority lane if the lane admits it, or out of it otherwise. Returns its
    /// new worker.
    pub(crate) fn change_lane(&mut self, now_ns: u64) -> Option<usize> {
        let is_in_lane = self.registry.lane.admits(self.standing()?, now_ns);
        if is_in_lane == self.is_in_lane {
            return None;
        }
        self.change(|registration| registration.is_in_lane = is_in_lane);
        Some(self.worker())
    }

    /// Keeps the connection in a list until it ends.
    pub(crate) fn keep_listed(&mut self, live: Option<LiveConnection>) {
        self.live = live;
    }

    /// Names the connection to notify if it has to give up its place.
    pub(crate) fn notify_on_eviction(&self, connection: Weak<dyn Evictable>) {
        self.entry.notify_on_eviction(connection);
    }

    /// Notes whether the client has proved itself as its protocol requires.
    pub(crate) fn set_proved(&mut self, proved: bool) {
        if std::mem::replace(&mut self.proved, proved) == proved {
            return;
        }
        let mut state = self.registry.state.lock();
        match proved {
            true => state.unproved_connections.leave(self.address, &self.entry),
            false => state.unproved_connections.come_back(self.address, &self.entry),
        }
        self.registry.unproved.store(state.unproved_connections.len(), Relaxed);
    }

    /// Moves the connection from its own worker, where it is, to another one.
    pub(crate) fn move_to(&mut self, worker: usize) {
        if let Some(key) = self.key
            && let Some(of_key) = self.registry.state.lock().keys.get_mut(&key)
        {
            of_key[self.home] -= 1;
            of_key[worker] += 1;
        }
        self.change(|registration| registration.home = worker);
    }

    fn change(&mut self, change: impl FnOnce(&mut Registration)) {
        self.registry.load[self.worker()].fetch_sub(1, Relaxed);
        change(self);
        self.registry.load[self.worker()].fetch_add(1, Relaxed);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.registry.state.lock();
        state.total -= 1;
        if let Some(count) = state.addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                state.addresses.remove(&self.address);
            }
        }
        if let Some((owner, _)) = self.owner.take() {
            state.remove_owned(owner, clock::mono_ns());
        }
        self.registry.lane.set_shared(state.is_shared());
        state.unproved_connections.leave(self.address, &self.entry);
        self.registry.unproved.store(state.unproved_connections.len(), Relaxed);
        if let Some(key) = self.key
            && let Some(of_key) = state.keys.get_mut(&key)
        {
            of_key[self.home] -= 1;
            if of_key.iter().all(|&count| count == 0) {
                state.keys.remove(&key);
            }
        }
        self.registry.load[self.worker()].fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priority_lane::{Ledger, Occupancy};
    use std::net::Ipv4Addr;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn registry(workers: usize, all: usize, of_address: usize) -> Arc<ConnectionRegistry> {
        ConnectionRegistry::new(
            workers,
            Bounds { all, of_address, unproved: 64, crowd: 100, descriptors: 800 },
        )
    }

    #[test]
    fn an_address_has_only_so_many_that_have_proved_nothing() {
        let registry = registry(1, 1000, 1000);
        let mut registrations: Vec<Registration> =
            (0..64).filter_map(|_| registry.admit(HOME, 9, 0).ok()).collect();
        assert_eq!((registrations.len(), registry.unproved()), (64, 64));
        let refused = registry.admit(HOME, 9, 0).expect_err("one more");
        assert_eq!(
            (refused.why, refused.is_logged, refused.connections),
            (RefusalReason::Unproved, true, 64)
        );
        assert!(!registry.admit(HOME, 9, SILENCE_NS - 1).expect_err("one more").is_logged);
        assert!(registry.admit(HOME, 9, SILENCE_NS).expect_err("one more").is_logged);
        assert!(registry.admit(OTHER, 9, 0).is_ok());
        registrations[0].set_proved(true);
        let more = registry.admit(HOME, 9, 0).expect("one has proved who it is");
        assert!(registry.admit(HOME, 9, 0).is_err());
        registrations[1].set_proved(true);
        registrations[1].set_proved(false);
        assert!(registry.admit(HOME, 9, 0).is_err());
        drop((more, registrations));
        assert_eq!(registry.unproved(), 0);
        assert_eq!(registry.refusals(), Refusals { unproved: 5, ..Refusals::default() });
    }

    #[test]
    fn with_few_descriptors_left_only_who_has_no_more_than_a_share_gets_a_connection() {
        let registry = registry(1, 1000, 1000);
        let mut registrations: Vec<Registration> =
            (0..10).filter_map(|_| registry.admit(HOME, 699, 0).ok()).collect();
        // A newcomer from the same address alone displaces nobody.
        registrations.extend(registry.admit(HOME, 700, 0).ok());
        registrations.extend(registry.admit(OTHER, 700, 0).ok());
        assert_eq!(registrations.len(), 12);
        assert_eq!(registry.admit(HOME, 700, 0).expect_err("it has more").why, RefusalReason::Descriptors);
        assert!(registry.admit(HOME, 699, 0).is_ok());
        assert!(registry.admit(OTHER, 799, 0).is_ok());
    }

    #[derive(Default)]
    struct EvictionProbe(AtomicUsize);

    impl Evictable for EvictionProbe {
        fn evict(&self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn sit(registration: &Registration) -> Arc<EvictionProbe> {
        let client = Arc::new(EvictionProbe::default());
        let weak: Weak<EvictionProbe> = Arc::downgrade(&client);
        registration.notify_on_eviction(weak);
        client
    }

    #[test]
    fn where_places_run_short_the_address_with_most_that_prove_nothing_gives_one_up() {
        let registry = registry(1, 1000, 1000);
        let mut strangers = Vec::new();
        for at in 0..100 {
            let address = if at < 40 { HOME } else { IpAddr::V4(Ipv4Addr::from(at)) };
            strangers.push(registry.admit(address, 9, 0).expect("there is room"));
        }
        let clients: Vec<_> = strangers.iter().map(sit).collect();
        let told = || clients.iter().map(|client| client.0.load(Relaxed)).collect::<Vec<_>>();
        assert_eq!(registry.admit(HOME, 9, 0).expect_err("it has most").why, RefusalReason::Crowd);
        assert_eq!(told().iter().sum::<usize>(), 0);
        let mut newcomer = registry.admit(OTHER, 9, 0).expect("one of the others goes");
        assert_eq!((told()[0], told().iter().sum::<usize>(), registry.unproved()), (1, 1, 100));
        // A client that has proved itself is not displaced, and there is room for one more.
        newcomer.set_proved(true);
        assert_eq!(registry.unproved(), 99);
        let _second = registry.admit(OTHER, 9, 0).expect("there is room");
        assert_eq!(told().iter().sum::<usize>(), 1);
        // The host has no descriptor left.
        assert!(registry.make_room(0));
        assert_eq!((told()[1], registry.refusals().displaced, registry.refusals().unproved), (1, 2, 1));
        drop((strangers, newcomer));
        assert_eq!(registry.unproved(), 1);
    }

    #[test]
    fn where_all_places_are_taken_one_that_has_proved_nothing_goes_and_nobody_else() {
        let registry = registry(1, 3, 3);
        let mut registrations: Vec<Registration> =
            (0..3).filter_map(|_| registry.admit(HOME, 9, 0).ok()).collect();
        let clients: Vec<_> = registrations.iter().map(sit).collect();
        registrations.iter_mut().for_each(|registration| registration.set_proved(true));
        assert_eq!(registry.admit(OTHER, 9, 0).expect_err("it is full").why, RefusalReason::All);
        registrations[1].set_proved(false);
        let _newcomer = registry.admit(OTHER, 9, 0).expect("one goes");
        assert_eq!(clients.iter().map(|client| client.0.load(Relaxed)).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[test]
    fn the_log_tells_of_few_addresses_at_a_time() {
        let registry = registry(1, 0, 1);
        let told = (0..50)
            .filter(|at| registry.admit(IpAddr::V4(Ipv4Addr::from(*at)), 9, 0).expect_err("full").is_logged);
        assert_eq!(told.count(), LINES);
    }

    #[test]
    fn connections_of_one_key_come_together_and_keys_are_spread() {
        let registry = registry(2, 100, 100);
        let mut registrations: Vec<Registration> =
            (0..8).filter_map(|_| registry.admit(HOME, 9, 0).ok()).collect();
        for (at, key) in [(0, 7), (1, 7), (2, 7), (3, 7)] {
            assert_eq!(registrations[at].choose(key), 0);
        }
        assert_eq!(registry.load(), [6, 2, 0]);
        assert_eq!(registrations[4].choose(8), 1);
        registrations[0].move_to(1);
        assert_eq!(registry.load(), [4, 4, 0]);
        drop(registrations);
        assert_eq!(registry.load(), [0, 0, 0]);
        assert!(registry.state.lock().keys.is_empty());
        assert!(registry.state.lock().addresses.is_empty());
    }

    fn make_busy(registry: &ConnectionRegistry) -> u64 {
        let (mut occupancy, now_ns) = (Occupancy::default(), clock::mono_ns());
        occupancy.update_lane(registry.lane(), now_ns - 1_000_000_000);
        occupancy.update_lane(registry.lane(), now_ns);
        now_ns
    }

    #[test]
    fn connections_go_to_the_lane_while_workers_are_busy_and_leave_it_when_they_take_too_much() {
        let registry = registry(2, 100, 100);
        let now_ns = make_busy(&registry);
        let mut registration = registry.admit(HOME, 9, now_ns).expect("there is room");
        assert_eq!((registration.worker(), registration.choose(7)), (0, 0));
        registration.set_principal(Principal::User(1));
        assert_eq!(registration.change_lane(now_ns), None, "it is alone");
        // The owner of the second connection is not known yet.
        let mut other = registry.admit(HOME, 9, now_ns).expect("there is room");
        assert_eq!((other.change_lane(now_ns), registration.change_lane(now_ns)), (None, Some(2)));
        assert_eq!(other.choose(7), 0, "the first one is at home there");
        other.set_principal(Principal::User(1));
        assert_eq!(registration.change_lane(now_ns), Some(0), "there is nobody else any more");
        let mut third = registry.admit(OTHER, 9, now_ns).expect("there is room");
        third.set_principal(Principal::Host);
        assert_eq!(
            [&mut registration, &mut other, &mut third].map(|registration| registration.change_lane(now_ns)),
            [Some(2); 3]
        );
        assert_eq!(registry.load(), [0, 0, 3]);
        Ledger::default().charge(registration.standing().expect("it is known"), 1_000_000_000, now_ns);
        assert_eq!((registration.change_lane(now_ns), other.change_lane(now_ns)), (Some(0), Some(0)));
        assert_eq!(third.change_lane(now_ns + 60_000_000_000), Some(1), "the workers have been idle");
        // The time that it took is remembered while it has no connection.
        drop((registration, other));
        let mut again = registry.admit(HOME, 9, now_ns).expect("there is room");
        again.set_principal(Principal::User(1));
        assert_eq!(again.change_lane(now_ns), None);
        drop((again, third));
        let state = registry.state.lock();
        assert_eq!((state.standings.len(), state.owners, state.keys.len()), (1, 0, 0));
        assert_eq!(registry.load(), [0, 0, 0]);
    }

    #[test]
    fn the_lane_remembers_only_some_of_those_without_connections() {
        let registry = registry(1, 1000, 1000);
        for user in 0..=MOST_STANDINGS as u64 + 1 {
            let mut registration = registry.admit(HOME, 9, 1).expect("there is room");
            registration.set_principal(Principal::User(user));
            Ledger::default().charge(
                registration.standing().expect("it is known"),
                1_000_000_000,
                clock::mono_ns(),
            );
        }
        assert!(registry.state.lock().standings.len() <= MOST_STANDINGS);
    }

    #[test]
    fn a_host_may_have_a_whole_network() {
        let of = |text: &str| host(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn the_worker_that_has_least_to_do_is_found() {
        let registry = registry(3, 100, 100);
        let now = 10 * QUIET_NS;
        registry.report_load(0, 950, now);
        registry.report_load(1, 700, now);
        registry.report_load(2, 300, now);
        assert_eq!(registry.idlest(0, 650, now), Some(2));
        assert_eq!(registry.idlest(2, 650, now), None);
        registry.report_load(2, 0, now);
        assert_eq!(registry.idlest(0, 200, now), Some(2));
        registry.report_load(2, 300, now);
        assert_eq!(registry.idlest(0, 200, now + QUIET_NS), None);
        assert!(registry.idlest(0, 200, now + QUIET_NS + 1).is_some(), "who says nothing does nothing");
    }

    #[test]
    fn bounds_hold_for_all_and_for_one_address_in_any_spelling() {
        let registry = registry(1, 3, 2);
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        let first = registry.admit(HOME, 9, 0);
        let second = registry.admit(mapped, 9, 0);
        assert!(first.is_ok() && second.is_ok());
        assert!(registry.admit(HOME, 9, 0).is_err());
        let third = registry.admit(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 9, 0);
        assert!(third.is_ok());
        let mut proved: Vec<Registration> =
            [first, second, third].into_iter().filter_map(Result::ok).collect();
        proved.iter_mut().for_each(|registration| registration.set_proved(true));
        assert!(registry.admit(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 9, 0).is_err());
        proved.swap_remove(0);
        assert!(registry.admit(HOME, 9, 0).is_ok());
    }
}
