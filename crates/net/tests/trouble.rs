//! Hostile, slow and unlucky clients, and that they do not affect others.

mod common;

use common::{Client, PATIENCE, Tricks, ask, echo_body, record, start, wait_until, workers};
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use net::{Backlog, Config};
use wire::limits::MAX_QUEUED_REPLY_BYTES;

#[test]
fn a_panic_in_a_conversation_costs_its_connection_only() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let (mut other, mut bad) = (Client::connect(address), Client::connect(address));
    assert_eq!(other.ask(b"e1"), b"e1");
    bad.send(&[ask::PANIC]);
    assert!(bad.is_closed());
    assert_eq!(other.ask(b"e2"), b"e2");
    wait_until("it is told", || tricks.closed.load(SeqCst) == 1);
    assert_eq!(server.totals().panics, 1);
}

#[test]
fn a_panic_in_a_job_costs_its_connection_only() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let (mut other, mut bad) = (Client::connect(address), Client::connect(address));
    bad.send(&[ask::BAD_JOB]);
    assert!(bad.is_closed());
    assert_eq!(other.ask(b"job"), b"job");
    wait_until("it is told", || tricks.closed.load(SeqCst) == 1);
    assert_eq!(server.connections(), 1);
}

#[test]
fn bytes_of_another_protocol_close_after_the_replies_before_them() {
    let tricks = Tricks::new();
    let (_server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    let mut bytes = record(b"e-good");
    bytes.extend(b"GET / HTTP/1.1\r\n\r\n");
    client.0.write_all(&bytes).expect("it takes them");
    assert_eq!(client.receive().expect("the good one's answer"), b"e-good");
    assert!(client.is_closed());
}

#[test]
fn a_record_longer_than_the_bound_is_hostile() {
    let tricks = Tricks::new();
    let (_server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    client.0.write_all(&[0, 0xff, 0xff, 0xff]).expect("it takes them");
    assert!(client.is_closed());
}

#[test]
fn a_record_that_is_never_completed_ends_the_connection() {
    let tricks = Tricks::new();
    let config = Config { record_time: Duration::from_millis(50), ..workers(1) };
    let (_server, address) = start(&tricks, config);
    let mut idle = Client::connect(address);
    assert_eq!(idle.ask(b"e1"), b"e1");
    for head in [&b"\0"[..], &b"\0\0\0"[..], &b"\0\0\0\x09e"[..], &b"\x85\0\0\x09"[..], &b"\0\x10\0\0e"[..]] {
        let mut slow = Client::connect(address);
        slow.0.write_all(head).expect("it takes them");
        assert!(slow.is_closed(), "{head:?}");
    }
    assert_eq!(idle.ask(b"e2"), b"e2");
}

#[test]
fn a_client_that_stops_reading_is_not_read_and_then_closed() {
    let tricks = Tricks::new();
    let config = Config { write_stall: Duration::from_millis(300), ..workers(1) };
    let (server, address) = start(&tricks, config);
    let mut other = Client::connect(address);
    let mut greedy = Client::connect(address);
    let produce = [ask::PRODUCE, 0, 0x10, 0, 0];
    let requests: Vec<u8> = (0..200).flat_map(|_| record(&produce)).collect();
    greedy.0.write_all(&requests).expect("requests are small");
    wait_until("it is closed", || server.connections() == 1);
    // Replies of 1 MiB: the bound, one more batch, and the bytes in the sockets.
    let answered = server.totals().records as usize;
    let in_sockets = server.totals().bytes_sent as usize;
    assert!(answered << 20 <= in_sockets + MAX_QUEUED_REPLY_BYTES + (4 << 20), "{answered}, {in_sockets}");
    assert_eq!(other.ask(b"e1"), b"e1");
}

#[test]
fn a_client_that_reads_late_gets_every_byte() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut late = Client::connect(address);
    let produce = [ask::PRODUCE, 0, 0x10, 0, 0];
    for _ in 0..48 {
        late.send(&produce);
    }
    wait_until("the socket is full", || server.totals().bytes_sent > 0 && server.totals().records > 16);
    let expected: Vec<u8> = (0..1 << 20).map(|at: usize| at as u8).collect();
    for _ in 0..48 {
        assert!(late.receive().expect("an answer") == expected);
    }
}

#[test]
fn only_what_is_urgent_is_told_to_a_connection_whose_client_stops_reading() {
    let tricks = Tricks::new();
    let backlog = Backlog::bounded(256 << 20);
    let (_server, address) = start(&tricks, Config { backlog: Arc::clone(&backlog), ..workers(1) });
    let mut late = Client::connect(address);
    for _ in 0..48 {
        late.send(&[ask::PRODUCE, 0, 0x10, 0, 0]);
    }
    wait_until("it is choked", || backlog.held() > MAX_QUEUED_REPLY_BYTES);
    let mailbox = tricks.mailboxes.lock().expect("no panic inside")[0].clone();
    for event in [&b"x1"[..], b"urgent1", b"x2", b"x3", b"urgent2"] {
        assert!(mailbox.post(event.to_vec()));
    }
    wait_until("it is told", || tricks.urgent.load(SeqCst) == 2);
    assert_eq!(tricks.ordinary.load(SeqCst), 0);
    let answers: Vec<Vec<u8>> = (0..53).map(|_| late.receive().expect("an answer")).collect();
    let told: Vec<&[u8]> = answers.iter().map(Vec::as_slice).filter(|answer| answer.len() < 100).collect();
    assert_eq!(told, [&b"urgent1"[..], b"urgent2", b"x1", b"x2", b"x3"]);
}

#[test]
fn connections_over_a_bound_are_closed_at_once() {
    let tricks = Tricks::new();
    let config = Config { max_connections_per_address: 2, ..workers(2) };
    let (server, address) = start(&tricks, config);
    let (mut first, mut second) = (Client::connect(address), Client::connect(address));
    assert_eq!(first.ask(b"e1"), b"e1");
    assert_eq!(second.ask(b"e2"), b"e2");
    assert!(Client::connect(address).is_closed());
    assert_eq!((server.totals().accepted, server.totals().refused), (2, 1));
    drop(first);
    wait_until("there is room", || server.connections() == 1);
    assert_eq!(Client::connect(address).ask(b"e3"), b"e3");
}

#[test]
fn a_service_may_refuse_a_connection() {
    let tricks = Tricks::new();
    tricks.refuse.store(true, SeqCst);
    let (server, address) = start(&tricks, workers(1));
    assert!(Client::connect(address).is_closed());
    wait_until("it is forgotten", || server.connections() == 0);
    assert_eq!(tricks.closed.load(SeqCst), 0);
}

#[test]
fn a_connection_with_many_jobs_is_not_read_until_some_are_done() {
    let tricks = Tricks::new();
    let config = Config { jobs_per_connection: 4, pool_threads: 2, pool_queue: 2, ..workers(1) };
    let (server, address) = start(&tricks, config);
    let mut client = Client::connect(address);
    let mut other = Client::connect(address);
    for number in 0..4_u8 {
        client.send(&[ask::BLOCKED_JOB, number]);
    }
    wait_until("the jobs are taken", || server.totals().jobs == 4);
    for number in 4..200_u8 {
        client.send(&[ask::BLOCKED_JOB, number]);
    }
    // Another connection's exchange shows that the worker had its chance to read more.
    for _ in 0..10 {
        assert_eq!(other.ask(b"e"), b"e");
    }
    assert_eq!(server.totals().jobs, 4);
    tricks.gate.open();
    let mut seen: Vec<u8> = (0..200).map(|_| client.receive().expect("a job's answer")[1]).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<u8>>());
    assert!(server.pool_threads() <= 2);
}

#[test]
fn a_client_that_vanishes_in_a_large_record_leaves_nothing() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    let body = record(&echo_body(4 << 20, 1));
    client.0.write_all(&body[..3 << 20]).expect("it takes them");
    drop(client);
    wait_until("it is forgotten", || server.connections() == 0 && tricks.accepted.load(SeqCst) == 1);
    assert_eq!(tricks.closed.load(SeqCst), 1);
}

#[test]
fn a_refused_port_is_not_served() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    drop(server);
    let error = std::net::TcpStream::connect_timeout(&address, PATIENCE).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_connection_that_does_not_keep_up_with_its_events_is_given_up() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut stuck = Client::connect(address);
    assert_eq!(stuck.ask(b"e"), b"e");
    let mailbox = tricks.mailboxes.lock().expect("no panic inside")[0].clone();
    // The client reads nothing. First replies queue up to their bound, then events to theirs.
    let event = vec![b'x'; 1024];
    let taken = (0..1_000_000).take_while(|_| mailbox.post(event.clone())).count();
    assert!(taken < 500_000, "{taken} events were taken");
    wait_until("it is closed", || server.connections() == 0);
    assert_eq!(tricks.closed.load(SeqCst), 1);
}

/// Asks for `len` bytes, and for a receipt after `wait_ms`.
fn receipt(wait_ms: u8, len: u32) -> Vec<u8> {
    [&[ask::RECEIPT, wait_ms][..], &len.to_be_bytes()].concat()
}

#[test]
fn a_receipt_tells_whether_the_clients_host_has_taken_the_bytes() {
    const MORE_THAN_HOSTS_KEEP: u32 = 16 << 20;
    let tricks = Tricks::new();
    let (_server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    // The bytes that fit into the client's host have arrived, although nobody has read them yet.
    client.send(&receipt(100, 1000));
    wait_until("the question is answered", || tricks.receipts.load(SeqCst) == 1);
    assert_eq!(client.receive().expect("the bytes").len(), 1000);
    assert_eq!(client.receive().expect("the receipt"), [100, 1]);
    client.send(&receipt(50, MORE_THAN_HOSTS_KEEP));
    wait_until("the question is answered", || tricks.receipts.load(SeqCst) == 2);
    assert_eq!(client.receive().expect("the bytes").len(), MORE_THAN_HOSTS_KEEP as usize);
    assert_eq!(client.receive().expect("the receipt"), [50, 0]);
}
