//! The term of a node: nothing is sent once it is over. A server that moves closes no connection.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Client, Tricks, start, wait_until, workers};
use net::{Config, ParkedSockets, boot_time};
use tenure::ServingTerm;

#[test]
fn nothing_is_sent_after_the_end_of_the_term() {
    let tricks = Tricks::new();
    let term = Arc::new(ServingTerm::new(boot_time().plus(Duration::from_secs(3600))));
    let (_server, address) = start(&tricks, Config { term: Arc::clone(&term), ..workers(2) });
    let (mut asking, mut waiting) = (Client::connect(address), Client::connect(address));
    assert_eq!(asking.ask(b"e-in the term"), b"e-in the term");
    // A job of the pool ends after the term.
    waiting.send(b"blocked");
    term.end();
    asking.send(b"e-too late");
    assert!(asking.receive().is_err());
    tricks.gate.open();
    assert!(waiting.receive().is_err());
}

#[test]
fn a_term_that_has_passed_counts_without_anybody_who_ends_it() {
    let tricks = Tricks::new();
    let term = Arc::new(ServingTerm::new(boot_time()));
    let (_server, address) = start(&tricks, Config { term, ..workers(1) });
    let mut client = Client::connect(address);
    client.send(b"e-too late");
    assert!(client.receive().is_err());
}

#[test]
fn a_server_that_moves_answers_what_it_has_received_and_leaves_its_connections_open() {
    let tricks = Tricks::new();
    let parked = Arc::new(ParkedSockets::default());
    let (server, address) = start(&tricks, Config { parked: Some(Arc::clone(&parked)), ..workers(2) });
    let (mut idle, mut asking) = (Client::connect(address), Client::connect(address));
    assert_eq!(idle.ask(b"e-before"), b"e-before");
    asking.send(b"blocked");
    wait_until("the job runs", || server.totals().jobs == 1);
    tricks.gate.open();
    let report = server.shutdown(Duration::from_secs(5));
    assert_eq!((report.cut, report.jobs_ended), (0, true));
    assert_eq!(asking.receive().expect("the answer"), b"blocked");
    idle.0.set_nonblocking(true).expect("a socket");
    let silent = idle.receive().map_err(|error| error.kind());
    assert_eq!(silent, Err(std::io::ErrorKind::WouldBlock));
    idle.0.set_nonblocking(false).expect("a socket");
    assert_eq!(parked.close(), 2);
    assert!(idle.is_closed());
}
