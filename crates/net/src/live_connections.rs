//! The live connections to some addresses of this host, for a record that the next owner of these addresses
//! reads (`floating_address`).
//!
//! It changes when a connection starts or ends. No message touches it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The live connections to some addresses. Several servers of one process may share it.
#[derive(Debug)]
pub struct LiveConnections {
    /// The addresses whose connections are listed.
    addresses: Vec<IpAddr>,
    state: Mutex<LiveState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LiveState {
    /// The client and the server of each connection, by a number of its own. A client may use a port again
    /// before its earlier connection has ended here.
    connections: HashMap<u64, (SocketAddr, SocketAddr)>,
    next: u64,
    /// Connections that have started or ended.
    changes: u64,
    is_stopped: bool,
}

/// The entry of one connection. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct LiveConnection {
    of: Arc<LiveConnections>,
    number: u64,
}

impl LiveConnections {
    /// An empty list for connections to these addresses.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>) -> Arc<LiveConnections> {
        let addresses = addresses.into_iter().map(|address| address.to_canonical()).collect();
        Arc::new(LiveConnections { addresses, state: Mutex::default(), changed: Condvar::new() })
    }

    /// The connections (client, server), in order and each once.
    #[must_use]
    pub fn list(&self) -> Vec<(SocketAddr, SocketAddr)> {
        let mut list: Vec<_> = self.state.lock().connections.values().copied().collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// The number of connections that have started or ended so far.
    pub(crate) fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// Adds a connection, if it is to one of the addresses.
    pub(crate) fn enter(
        self: &Arc<LiveConnections>,
        client: SocketAddr,
        server: SocketAddr,
    ) -> Option<LiveConnection> {
        let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        let (client, server) = (canonical(client), canonical(server));
        if !self.addresses.contains(&server.ip()) {
            return None;
        }
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.connections.insert(number, (client, server));
        state.changes += 1;
        drop(state);
        self.changed.notify_all();
        Some(LiveConnection { of: Arc::clone(self), number })
    }

    /// Waits for a change after `changes` ones, and then until `earliest`. Returns true at once if it is
    /// stopped.
    pub(crate) fn wait(&self, changes: u64, earliest: Instant) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.is_stopped && state.changes == changes);
        let is_early = |state: &mut LiveState| !state.is_stopped;
        let _timed_out = self.changed.wait_while_until(&mut state, is_early, earliest);
        state.is_stopped
    }

    /// Ends all waiting, from now on.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }
}

impl Drop for LiveConnection {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        state.connections.remove(&self.number);
        state.changes += 1;
        drop(state);
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address and a port")
    }

    #[test]
    fn connections_to_the_addresses_are_listed_until_they_end() {
        let live = LiveConnections::new([at("10.77.0.50:0").ip(), at("[fd77::50]:0").ip()]);
        let server = at("10.77.0.50:445");
        let first = live.enter(at("10.77.0.9:1"), server).expect("listed");
        // The client uses its port again.
        let second = live.enter(at("10.77.0.9:1"), server).expect("listed");
        // A socket for both families shows an address of IPv4 in the form of IPv6.
        let mapped = live.enter(at("[::ffff:10.77.0.8]:2"), at("[::ffff:10.77.0.50]:445")).expect("listed");
        assert!(live.enter(at("10.77.0.9:3"), at("10.77.0.1:445")).is_none());
        assert_eq!(live.list(), [(at("10.77.0.8:2"), server), (at("10.77.0.9:1"), server)]);
        drop((first, mapped));
        assert_eq!((live.list(), live.changes()), (vec![(at("10.77.0.9:1"), server)], 5));
        drop(second);
        assert_eq!(live.list(), []);
    }

    #[test]
    fn a_wait_ends_after_a_change_or_when_it_is_stopped() {
        let live = LiveConnections::new([at("10.77.0.50:0").ip()]);
        let entry = live.enter(at("10.77.0.9:1"), at("10.77.0.50:445"));
        assert!(!live.wait(0, Instant::now()));
        live.stop();
        let late = Instant::now() + std::time::Duration::from_secs(3600);
        assert!(live.wait(live.changes(), late) && live.wait(0, late));
        drop(entry);
    }
}
