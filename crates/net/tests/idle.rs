//! The memory of 2,000 idle connections. This is the only test in its program, since it measures the process.

mod common;

use common::{Client, Tricks, start, workers};

const CONNECTIONS: usize = 2000;
/// Bytes of the transport for each idle connection. With its session, one may cost 32 KiB.
const BOUND: usize = 4 * 1024;

/// Resident bytes of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: usize = statm.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a number");
    pages * rustix::param::page_size()
}

#[test]
fn idle_connections_hold_no_buffers() {
    let limit = net::raise_descriptor_limit();
    // Both ends of each connection are in this process.
    assert!(limit > 2 * CONNECTIONS as u64 + 100, "the host allows only {limit} descriptors");
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(2));
    let warm = Client::connect(address).ask(&common::echo_body(60_000, 1));
    assert_eq!(warm.len(), 60_000);
    let mut clients = Vec::with_capacity(CONNECTIONS);
    let before = resident();
    for number in 0..CONNECTIONS {
        let mut client = Client::connect(address);
        // Whole records, and one in two parts, so that every buffer has been used.
        assert_eq!(client.ask(b"e-idle").len(), 6);
        client.send(&common::echo_body(6000, number as u8));
        assert_eq!(client.receive().expect("an answer").len(), 6000);
        clients.push(client);
    }
    let each = resident().saturating_sub(before) / CONNECTIONS;
    assert!(server.connections() >= CONNECTIONS);
    println!("{each} bytes for each idle connection");
    assert!(each < BOUND, "{each} bytes for each idle connection");
}
