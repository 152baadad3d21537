//! The address of the client whose request the current thread runs.
//!
//! Some services are bounded for all clients together, such as the queue of unknown names. They give each
//! address a share, and are called from deep within an operation. So the address belongs to the thread.

use std::cell::Cell;
use std::net::IpAddr;

use wire::address::host;

thread_local! {
    static REQUESTER: Cell<Option<IpAddr>> = const { Cell::new(None) };
}

/// The time in which the current thread runs a request. The drop of this value ends it.
#[must_use]
#[derive(Debug)]
pub struct RequesterScope {
    before: Option<IpAddr>,
}

impl RequesterScope {
    /// Begins it, for a request from this address. An IPv4 address in IPv6 form counts as IPv4, and an IPv6
    /// address stands for its network.
    #[inline]
    pub fn enter(address: IpAddr) -> RequesterScope {
        RequesterScope { before: REQUESTER.replace(Some(host(address.to_canonical()))) }
    }
}

impl Drop for RequesterScope {
    #[inline]
    fn drop(&mut self) {
        REQUESTER.set(self.before);
    }
}

/// The address of the client whose request the current thread runs. None: it works for the server itself.
#[must_use]
pub fn requester() -> Option<IpAddr> {
    REQUESTER.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_ends_where_it_began() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(requester(), None);
        let outer = RequesterScope::enter(address("192.0.2.1"));
        let inner = RequesterScope::enter(address("::ffff:192.0.2.2"));
        assert_eq!(requester(), Some(address("192.0.2.2")));
        let network = RequesterScope::enter(address("2001:db8::7:8"));
        assert_eq!(requester(), Some(address("2001:db8::")));
        drop(network);
        drop(inner);
        assert_eq!(requester(), Some(address("192.0.2.1")));
        assert_eq!(std::thread::spawn(requester).join().unwrap(), None);
        drop(outer);
        assert_eq!(requester(), None);
    }
}
