//! The cost of clients that do not read their replies, and the bounds of one address.

mod common;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use common::{Client, Tricks, ask, record, start, wait_until, workers};
use net::{Backlog, Config};
use rustix::net::sockopt;

/// Sends as many requests as the server takes, and reads nothing.
fn flood(client: &mut Client, request: &[u8]) {
    sockopt::set_socket_recv_buffer_size(&client.0, 4096).expect("it can be set");
    client.0.set_write_timeout(Some(Duration::from_millis(100))).expect("it can be set");
    let requests = request.repeat(1 + 65_536 / request.len());
    for _ in 0..2000 {
        if client.0.write_all(&requests).is_err() {
            return;
        }
    }
    panic!("the server takes everything");
}

#[test]
fn what_a_stranger_leaves_unread_is_bounded_by_the_memory_it_takes() {
    let tricks = Tricks::new();
    tricks.doubts.store(true, SeqCst);
    let backlog = Backlog::bounded(64 << 20);
    let (server, address) = start(&tricks, Config { backlog: Arc::clone(&backlog), ..workers(1) });
    let mut stranger = Client::connect(address);
    // Each answer has a buffer more than twice as large.
    flood(&mut stranger, &record(&[b'e'; 500]));
    wait_until("it is choked", || backlog.held() > 256 << 10);
    assert!(backlog.held() <= 1 << 20, "{} are held", backlog.held());
    assert_eq!(server.unproved_connections(), 1);
    // Others notice nothing, and nothing is left afterwards.
    assert_eq!(Client::connect(address).ask(b"e"), b"e");
    drop(stranger);
    wait_until("nothing is held", || backlog.held() == 0);
}

#[test]
fn past_the_bound_of_all_connections_the_worst_is_closed_and_others_go_on() {
    let tricks = Tricks::new();
    let backlog = Backlog::bounded(3 << 20);
    let (server, address) = start(&tricks, Config { backlog: Arc::clone(&backlog), ..workers(2) });
    let mut good = Client::connect(address);
    assert_eq!(good.ask(b"e"), b"e");
    let mut bad: Vec<Client> = (0..5).map(|_| Client::connect(address)).collect();
    for client in &mut bad {
        flood(client, &record(&[ask::PRODUCE, 0, 0x0f, 0, 0]));
    }
    wait_until("one is closed", || backlog.closed() > 0 && backlog.held() <= backlog.bound());
    let left = server.connections();
    assert!((2..6).contains(&left), "{left} connections are left");
    assert_eq!(good.ask(&[ask::PRODUCE, 0, 0x0f, 0, 0]).len(), 0xf_0000);
    drop(bad);
    wait_until("nothing is held", || backlog.held() == 0);
}

#[test]
fn a_refusal_does_not_keep_the_room_of_the_data_that_was_asked_for() {
    let tricks = Tricks::new();
    let backlog = Backlog::bounded(256 << 20);
    let (_server, address) = start(&tricks, Config { backlog: Arc::clone(&backlog), ..workers(1) });
    let mut client = Client::connect(address);
    flood(&mut client, &record(&[ask::ROOMY]));
    // With a buffer of a MiB for each answer the sum would be gibibytes.
    assert!(backlog.held() < 20 << 20, "{} are held", backlog.held());
}

#[test]
fn one_address_has_few_connections_that_have_proved_nothing() {
    let tricks = Tricks::new();
    tricks.doubts.store(true, SeqCst);
    let (server, address) = start(&tricks, workers(2));
    let mut strangers: Vec<Client> = (0..64).map(|_| Client::connect(address)).collect();
    wait_until("they are there", || server.unproved_connections() == 64);
    assert!(Client::connect(address).is_closed());
    assert_eq!(server.refusals().unproved, 1);
    // A client that proves itself makes room for others of its address.
    for client in &mut strangers {
        assert_eq!(client.ask(&[ask::PLACE, 1]), [ask::PLACE, 1]);
    }
    wait_until("they are proved", || server.unproved_connections() == 0);
    assert_eq!(Client::connect(address).ask(b"e"), b"e");
}

#[test]
fn who_holds_many_connections_without_proving_anything_keeps_no_other_address_out() {
    let tricks = Tricks::new();
    tricks.doubts.store(true, SeqCst);
    // An eighth of the descriptors is four.
    let (server, address) = start(&tricks, Config { descriptors: 32, ..workers(2) });
    let mut holder: Vec<Client> = (0..4).map(|_| Client::connect(address)).collect();
    wait_until("they are there", || server.unproved_connections() == 4);
    assert!(Client::connect(address).is_closed());
    let mut other = Client::connect_from([127, 0, 0, 2], address);
    assert_eq!(other.ask(b"e"), b"e");
    assert!(holder[0].is_closed());
    assert_eq!(holder[1].ask(b"e"), b"e");
    assert_eq!((server.refusals().displaced, server.unproved_connections()), (1, 4));
}

#[test]
fn who_proves_nothing_is_put_off_when_it_wants_more_than_a_log_on_takes() {
    const IDLE: usize = 160;
    // One millisecond, and one more for every eight of them.
    const PAUSE: Duration = Duration::from_millis(IDLE as u64 / 8);
    let tricks = Tricks::new();
    tricks.doubts.store(true, SeqCst);
    let (server, address) = start(&tricks, Config { max_unproved_per_address: 1000, ..workers(1) });
    let _idle: Vec<Client> = (0..IDLE).map(|_| Client::connect(address)).collect();
    wait_until("they are there", || server.unproved_connections() == IDLE);
    let mut client = Client::connect(address);
    let mut take = |asks: u32| {
        let began = std::time::Instant::now();
        (0..asks).for_each(|_| assert_eq!(client.ask(b"e"), b"e"));
        began.elapsed()
    };
    let at_first = take(12);
    take(6);
    let later = take(12);
    assert!(later >= 11 * PAUSE, "{later:?}");
    assert!(at_first < later, "{at_first:?}, and {later:?} later");
}
