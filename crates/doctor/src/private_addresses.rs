//! The private addresses that a name has after a public one. They are probed too. A client that looks for
//! an address stops at the first that answers.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::measurements::{Route, Scope};
use crate::ping::{self, Attempt};
use crate::route::scope;

/// The longest time for all of them together.
const PATIENCE: Duration = Duration::from_millis(900);

/// Probes the private addresses that were not tried, if a public one is used.
pub(crate) async fn probe(route: &mut Route) {
    if scope(route.used) == Scope::Public {
        probe_private(route).await;
    }
}

async fn probe_private(route: &mut Route) {
    let mut probes = JoinSet::new();
    for (at, it) in route.addresses.iter().enumerate().take(8) {
        if it.scope == Scope::Private && it.reachable.is_none() {
            let to = SocketAddr::new(it.address, route.port);
            probes.spawn(async move { (at, ping::once(to, PATIENCE).await) });
        }
    }
    while let Some(done) = probes.join_next().await {
        // A failure here is no fault of the name: others may be nearer to the address.
        if let Ok((at, Attempt::Took(_))) = done {
            route.addresses[at].reachable = Some(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Address;

    #[tokio::test]
    async fn a_private_address_behind_the_first_is_tried_and_said_to_answer() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = |last: u8, scope| Address {
            address: [127, 0, 0, last].into(),
            scope,
            reachable: None,
            refused: false,
        };
        let mut route = Route {
            name: "files".to_owned(),
            resolved_in_ms: 1.0,
            addresses: vec![
                address(1, Scope::Public),
                address(1, Scope::Private),
                address(2, Scope::Private),
            ],
            used: [52, 239, 238, 8].into(),
            port,
            source: None,
            interface: None,
            interface_mtu: None,
            path_mtu: None,
            interface_mbit: None,
        };
        probe(&mut route).await;
        let reached: Vec<Option<bool>> = route.addresses.iter().map(|it| it.reachable).collect();
        assert_eq!(reached, [None, Some(true), None]);
    }
}
