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
pub(crate) trait Seated: Send + Sync {
    /// Closes it soon, in favour of another.
    fn make_way(&self);
}

/// All connections of unproved clients.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// The connections of each address, by age.
    addresses: HashMap<IpAddr, BTreeMap<u64, Arc<Seat>>>,
    count: usize,
    next: u64,
}

/// The entry of one connection.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    is_given_up: AtomicBool,
    who: OnceLock<Weak<dyn Seated>>,
}

impl std::fmt::Debug for dyn Seated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seated")
    }
}

impl Seat {
    /// Sets the connection to notify if it is evicted, which may have happened already.
    pub(crate) fn take(&self, who: Weak<dyn Seated>) {
        let _once = self.who.set(who);
        if self.is_given_up.load(SeqCst) {
            self.tell();
        }
    }

    fn give_up(&self) {
        self.is_given_up.store(true, SeqCst);
        self.tell();
    }

    fn tell(&self) {
        if let Some(who) = self.who.get().and_then(Weak::upgrade) {
            who.make_way();
        }
    }
}

impl Crowd {
    /// Their number, without those that were told to go.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Their number at one address.
    pub(crate) fn of(&self, address: IpAddr) -> usize {
        self.addresses.get(&address).map_or(0, BTreeMap::len)
    }

    /// Adds a new connection.
    pub(crate) fn enter(&mut self, address: IpAddr) -> Arc<Seat> {
        let number = self.next;
        self.next += 1;
        let seat = Arc::new(Seat { number, is_given_up: AtomicBool::new(false), who: OnceLock::new() });
        self.come_back(address, &seat);
        seat
    }

    /// Adds a connection again that was removed, unless it was told to go.
    pub(crate) fn come_back(&mut self, address: IpAddr, seat: &Arc<Seat>) {
        if !seat.is_given_up.load(SeqCst) {
            let before = self.addresses.entry(address).or_default().insert(seat.number, Arc::clone(seat));
            self.count += usize::from(before.is_none());
        }
    }

    /// Removes a connection, which has proved itself or is gone.
    pub(crate) fn leave(&mut self, address: IpAddr, seat: &Seat) {
        let Some(own) = self.addresses.get_mut(&address) else { return };
        self.count -= usize::from(own.remove(&seat.number).is_some());
        if own.is_empty() {
            self.addresses.remove(&address);
        }
    }

    /// Tells one to go, at an address that has more than `fewer`. Returns the address, if there is one.
    pub(crate) fn displace(&mut self, fewer: usize) -> Option<IpAddr> {
        let oldest = |own: &BTreeMap<u64, Arc<Seat>>| own.keys().next().copied();
        let most = self.addresses.iter().max_by_key(|(_, own)| (own.len(), std::cmp::Reverse(oldest(own))));
        let (&address, own) = most.filter(|(_, own)| own.len() > fewer)?;
        let seat = own.values().next().cloned()?;
        self.leave(address, &seat);
        seat.give_up();
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Client(AtomicUsize);

    impl Seated for Client {
        fn make_way(&self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(number))
    }

    fn enter(crowd: &mut Crowd, number: u32) -> (Arc<Seat>, Arc<Client>) {
        let (seat, client) = (crowd.enter(address(number)), Arc::new(Client::default()));
        let weak: Weak<Client> = Arc::downgrade(&client);
        seat.take(weak);
        (seat, client)
    }

    fn went(clients: &[(Arc<Seat>, Arc<Client>)]) -> Vec<usize> {
        clients.iter().map(|(_, client)| client.0.load(SeqCst)).collect()
    }

    #[test]
    fn the_oldest_of_the_address_with_most_goes_for_one_that_has_fewer() {
        let mut crowd = Crowd::default();
        let clients: Vec<_> = [1, 2, 2, 3, 2].map(|number| enter(&mut crowd, number)).into();
        assert_eq!(crowd.displace(3), None, "nobody has more");
        assert_eq!(crowd.displace(2), Some(address(2)));
        assert_eq!((went(&clients), crowd.of(address(2)), crowd.len()), (vec![0, 1, 0, 0, 0], 2, 4));
        assert_eq!([crowd.displace(1), crowd.displace(1)], [Some(address(2)), None]);
        // Each address has one: the oldest connection goes.
        assert_eq!(crowd.displace(0), Some(address(1)));
        assert_eq!((went(&clients), crowd.len()), (vec![1, 1, 1, 0, 0], 2));
        assert_eq!([(); 3].map(|()| crowd.displace(0)), [Some(address(3)), Some(address(2)), None]);
    }

    #[test]
    fn who_has_proved_itself_stays_and_who_was_asked_to_go_does_not_count() {
        let mut crowd = Crowd::default();
        let clients: Vec<_> = [1, 1].map(|number| enter(&mut crowd, number)).into();
        crowd.leave(address(1), &clients[0].0);
        assert_eq!([crowd.displace(0), crowd.displace(0)], [Some(address(1)), None]);
        crowd.come_back(address(1), &clients[1].0);
        assert_eq!(crowd.len(), 0);
        crowd.come_back(address(1), &clients[0].0);
        assert_eq!((crowd.len(), went(&clients)), (1, vec![0, 1]));
        clients.iter().for_each(|(seat, _)| crowd.leave(address(1), seat));
        assert!(crowd.addresses.is_empty() && crowd.len() == 0);
    }

    #[test]
    fn who_was_asked_to_go_before_it_was_known_is_told() {
        let mut crowd = Crowd::default();
        let seat = crowd.enter(address(1));
        assert!(crowd.displace(0).is_some());
        let client = Arc::new(Client::default());
        let weak: Weak<Client> = Arc::downgrade(&client);
        seat.take(weak);
        assert_eq!(client.0.load(SeqCst), 1);
    }
}
