//! The connections of unproved clients, and the choice of the one that gives up its place if there are too
//! many.
//!
//! It is the oldest one of the address with most of them, and it goes for a newcomer whose address has fewer.
//! An address with many therefore keeps nobody out. If each address has one, the connection goes that has had
//! most time to prove itself.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};

/// A connection that can be told to give up its place.
pub(crate) trait Evictable: Send + Sync {
    /// Closes it soon, in favour of another.
    fn evict(&self);
}

/// All connections of unproved clients.
#[derive(Debug, Default)]
pub(crate) struct UnprovedConnections {
    /// The connections of each address, by age.
    addresses: HashMap<IpAddr, BTreeMap<u64, Arc<UnprovedEntry>>>,
    count: usize,
    next: u64,
}

/// The entry of one connection.
#[derive(Debug)]
pub(crate) struct UnprovedEntry {
    number: u64,
    is_given_up: AtomicBool,
    connection: OnceLock<Weak<dyn Evictable>>,
}

impl std::fmt::Debug for dyn Evictable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Evictable")
    }
}

impl UnprovedEntry {
    /// Sets the connection to notify if it is evicted, which may have happened already.
    pub(crate) fn notify_on_eviction(&self, connection: Weak<dyn Evictable>) {
        let _once = self.connection.set(connection);
        if self.is_given_up.load(SeqCst) {
            self.tell();
        }
    }

    fn give_up(&self) {
        self.is_given_up.store(true, SeqCst);
        self.tell();
    }

    fn tell(&self) {
        if let Some(connection) = self.connection.get().and_then(Weak::upgrade) {
            connection.evict();
        }
    }
}

impl UnprovedConnections {
    /// Their number, without those that were told to go.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Their number at one address.
    pub(crate) fn of(&self, address: IpAddr) -> usize {
        self.addresses.get(&address).map_or(0, BTreeMap::len)
    }

    /// Adds a new connection.
    pub(crate) fn enter(&mut self, address: IpAddr) -> Arc<UnprovedEntry> {
        let number = self.next;
        self.next += 1;
        let entry = Arc::new(UnprovedEntry {
            number,
            is_given_up: AtomicBool::new(false),
            connection: OnceLock::new(),
        });
        self.come_back(address, &entry);
        entry
    }

    /// Adds a connection again that was removed, unless it was told to go.
    pub(crate) fn come_back(&mut self, address: IpAddr, entry: &Arc<UnprovedEntry>) {
        if !entry.is_given_up.load(SeqCst) {
            let before = self.addresses.entry(address).or_default().insert(entry.number, Arc::clone(entry));
            self.count += usize::from(before.is_none());
        }
    }

    /// Removes a connection, which has proved itself or is gone.
    pub(crate) fn leave(&mut self, address: IpAddr, entry: &UnprovedEntry) {
        let Some(own) = self.addresses.get_mut(&address) else { return };
        self.count -= usize::from(own.remove(&entry.number).is_some());
        if own.is_empty() {
            self.addresses.remove(&address);
        }
    }

    /// Tells one to go, at an address that has more than `fewer`. Returns the address, if there is one.
    pub(crate) fn displace(&mut self, fewer: usize) -> Option<IpAddr> {
        let oldest = |own: &BTreeMap<u64, Arc<UnprovedEntry>>| own.keys().next().copied();
        let most = self.addresses.iter().max_by_key(|(_, own)| (own.len(), std::cmp::Reverse(oldest(own))));
        let (&address, own) = most.filter(|(_, own)| own.len() > fewer)?;
        let entry = own.values().next().cloned()?;
        self.leave(address, &entry);
        entry.give_up();
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct EvictionFlag(AtomicUsize);

    impl Evictable for EvictionFlag {
        fn evict(&self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(number))
    }

    fn enter(unproved: &mut UnprovedConnections, number: u32) -> (Arc<UnprovedEntry>, Arc<EvictionFlag>) {
        let (entry, client) = (unproved.enter(address(number)), Arc::new(EvictionFlag::default()));
        let weak: Weak<EvictionFlag> = Arc::downgrade(&client);
        entry.notify_on_eviction(weak);
        (entry, client)
    }

    fn went(clients: &[(Arc<UnprovedEntry>, Arc<EvictionFlag>)]) -> Vec<usize> {
        clients.iter().map(|(_, client)| client.0.load(SeqCst)).collect()
    }

    #[test]
    fn the_oldest_of_the_address_with_most_goes_for_one_that_has_fewer() {
        let mut unproved = UnprovedConnections::default();
        let clients: Vec<_> = [1, 2, 2, 3, 2].map(|number| enter(&mut unproved, number)).into();
        assert_eq!(unproved.displace(3), None, "nobody has more");
        assert_eq!(unproved.displace(2), Some(address(2)));
        assert_eq!((went(&clients), unproved.of(address(2)), unproved.len()), (vec![0, 1, 0, 0, 0], 2, 4));
        assert_eq!([unproved.displace(1), unproved.displace(1)], [Some(address(2)), None]);
        // Each address has one: the oldest connection goes.
        assert_eq!(unproved.displace(0), Some(address(1)));
        assert_eq!((went(&clients), unproved.len()), (vec![1, 1, 1, 0, 0], 2));
        assert_eq!([(); 3].map(|()| unproved.displace(0)), [Some(address(3)), Some(address(2)), None]);
    }

    #[test]
    fn who_has_proved_itself_stays_and_who_was_asked_to_go_does_not_count() {
        let mut unproved = UnprovedConnections::default();
        let clients: Vec<_> = [1, 1].map(|number| enter(&mut unproved, number)).into();
        unproved.leave(address(1), &clients[0].0);
        assert_eq!([unproved.displace(0), unproved.displace(0)], [Some(address(1)), None]);
        unproved.come_back(address(1), &clients[1].0);
        assert_eq!(unproved.len(), 0);
        unproved.come_back(address(1), &clients[0].0);
        assert_eq!((unproved.len(), went(&clients)), (1, vec![0, 1]));
        clients.iter().for_each(|(entry, _)| unproved.leave(address(1), entry));
        assert!(unproved.addresses.is_empty() && unproved.len() == 0);
    }

    #[test]
    fn who_was_asked_to_go_before_it_was_known_is_told() {
        let mut unproved = UnprovedConnections::default();
        let entry = unproved.enter(address(1));
        assert!(unproved.displace(0).is_some());
        let client = Arc::new(EvictionFlag::default());
        let weak: Weak<EvictionFlag> = Arc::downgrade(&client);
        entry.notify_on_eviction(weak);
        assert_eq!(client.0.load(SeqCst), 1);
    }
}
