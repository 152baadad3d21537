//! Records, events, jobs, deadlines and closing, over real sockets.

mod common;

use common::{Client, Tricks, ask, echo_body, record, start, wait_until, workers};
use net::{Config, LiveConnections};
use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

#[test]
fn records_of_all_sizes_come_back() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(2));
    let mut client = Client::connect(address);
    for len in [0, 1, 3, 4, 100, 4096, 32_767, 32_768, 131_068, 131_072, 131_073, 1 << 20, 8 << 20] {
        let body = echo_body(len, len as u8);
        assert_eq!(client.ask(&body), body, "{len} bytes");
    }
    let report = server.shutdown(Duration::from_secs(5));
    assert_eq!((report.cut, report.jobs_ended), (0, true));
    assert_eq!(tricks.closed.load(SeqCst), 1);
}

#[test]
fn a_record_may_come_byte_by_byte_and_between_keep_alives() {
    let tricks = Tricks::new();
    let (_server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    let mut bytes = vec![0x85, 0, 0, 0];
    bytes.extend(record(b"e-one"));
    bytes.extend([0x85, 0, 0, 3, 9, 9, 9]);
    bytes.extend(record(b"e-two"));
    for byte in bytes {
        client.0.write_all(&[byte]).expect("it takes a byte");
    }
    assert_eq!(client.receive().expect("an answer"), b"e-one");
    assert_eq!(client.receive().expect("an answer"), b"e-two");
}

#[test]
fn connections_to_an_address_that_moves_are_listed_until_they_end() {
    let (listed, other) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2));
    for (address, is_listed) in [(listed, true), (other, false)] {
        let live = LiveConnections::new([address.into()]);
        let config = Config { live_connections: Some(Arc::clone(&live)), ..workers(2) };
        let (_server, address) = start(&Tricks::new(), config);
        let mut clients = [Client::connect(address), Client::connect(address)];
        clients.iter_mut().for_each(|client| assert_eq!(client.ask(b"e-one"), b"e-one"));
        let mut ends = clients.each_ref().map(|client| (client.0.local_addr().expect("bound"), address));
        ends.sort();
        assert_eq!(live.list(), if is_listed { &ends[..] } else { &[] });
        drop(clients);
        wait_until("the connections end", || live.list().is_empty());
    }
}

/// Nagle's algorithm holds the second piece of a record back until the first is acknowledged. A host delays
/// that by 40 ms unless it is told not to.
#[test]
fn a_record_in_pieces_does_not_wait_for_a_delayed_acknowledgement() {
    const RECORDS: u32 = 50;
    // Inline, and on the pool.
    for slow_call in [Duration::from_secs(10), Duration::ZERO] {
        let tricks = Tricks::new();
        let (server, address) = start(&tricks, Config { slow_call, ..workers(1) });
        let mut client = Client::connect(address);
        client.0.set_nodelay(false).expect("a delay can be set");
        let began = Instant::now();
        for _ in 0..RECORDS {
            record(b"e-in pieces").chunks(4).for_each(|piece| client.0.write_all(piece).expect("a piece"));
            assert_eq!(client.receive().expect("an answer"), b"e-in pieces");
        }
        let took = began.elapsed();
        assert!(took < RECORDS * Duration::from_millis(20), "{took:?} for {RECORDS} records");
        assert_eq!(server.totals().hops > 0, slow_call.is_zero());
    }
}

#[test]
fn a_job_answers_through_an_event() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    assert_eq!(client.ask(b"job"), b"job");
    assert_eq!(server.totals().jobs, 1);
    client.send(b"blocked");
    assert_eq!(client.ask(b"e-meanwhile"), b"e-meanwhile");
    tricks.gate.open();
    assert_eq!(client.receive().expect("the job's answer"), b"blocked");
}

#[test]
fn an_event_is_answered_after_the_message_that_caused_it() {
    let tricks = Tricks::new();
    let (_server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    assert_eq!(client.ask(&[ask::EVENT]), [ask::EVENT]);
    assert_eq!(client.receive().expect("the event's answer"), b"event");
}

#[test]
fn an_event_leaves_between_the_answer_to_its_message_and_the_next_one() {
    // Inline, and on the pool: if every batch is slow, all but the first run there.
    for slow_call in [Duration::from_secs(10), Duration::ZERO] {
        let tricks = Tricks::new();
        let (server, address) = start(&tricks, Config { slow_call, ..workers(1) });
        let mut client = Client::connect(address);
        assert_eq!(client.ask(b"e-first"), b"e-first");
        let batch = [&[ask::EVENT][..], b"e-between", &[ask::EVENT], b"e-behind"].map(record).concat();
        for _ in 0..100 {
            client.0.write_all(&batch).expect("it takes them");
            for expected in [&[ask::EVENT][..], b"event", b"e-between", &[ask::EVENT], b"event", b"e-behind"]
            {
                assert_eq!(client.receive().expect("an answer"), expected);
            }
        }
        assert_eq!(server.totals().hops > 0, slow_call.is_zero());
    }
}

#[test]
fn what_answers_promise_is_kept_before_they_leave() {
    for slow_call in [Duration::from_secs(10), Duration::ZERO] {
        let tricks = Tricks::new();
        let (server, address) = start(&tricks, Config { slow_call, ..workers(1) });
        let mut client = Client::connect(address);
        for number in 1..=100 {
            assert_eq!(client.ask(b"e-promise"), b"e-promise");
            assert_eq!(tricks.kept.load(SeqCst), number);
        }
        assert_eq!(server.totals().hops > 0, slow_call.is_zero());
    }
}

#[test]
fn closing_sends_what_is_queued_and_the_mailbox_says_so() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    assert_eq!(client.ask(b"close"), b"close");
    assert!(client.is_closed());
    drop(client);
    wait_until("the connection is forgotten", || server.connections() == 0);
    assert_eq!(tricks.closed.load(SeqCst), 1);
    let mailbox = tricks.mailboxes.lock().expect("no panic inside")[0].clone();
    assert!(!mailbox.post(Vec::new()));
}

#[test]
fn events_from_many_threads_all_arrive_while_records_flow() {
    const THREADS: usize = 4;
    const EVENTS: usize = 2000;
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(2));
    let mut client = Client::connect(address);
    assert_eq!(client.ask(b"e"), b"e");
    let mailbox = tricks.mailboxes.lock().expect("no panic inside")[0].clone();
    let posting: Vec<_> = (0..THREADS)
        .map(|thread| {
            let mailbox = mailbox.clone();
            std::thread::spawn(move || {
                for number in 0..EVENTS {
                    assert!(mailbox.post(format!("{thread} {number}").into_bytes()));
                    // Lets the connection fall asleep now and then, so that waking it is tested too.
                    if number % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let (mut next, mut echoes) = ([0; THREADS], 0);
    client.send(b"e");
    // On a busy host all events may be posted before the first record is sent. The answer to that comes last
    // then.
    while next.iter().sum::<usize>() < THREADS * EVENTS || echoes == 0 {
        let answer = client.receive().expect("no event and no answer is lost");
        if answer == b"e" {
            echoes += 1;
            client.send(b"e");
            continue;
        }
        let text = String::from_utf8(answer).expect("text");
        let (thread, number) = text.split_once(' ').expect("two numbers");
        let thread: usize = thread.parse().expect("a number");
        assert_eq!(number, next[thread].to_string(), "events of one sender keep their order");
        next[thread] += 1;
    }
    for thread in posting {
        thread.join().expect("every post is taken");
    }
    assert_eq!(server.totals().events, (THREADS * EVENTS) as u64);
}

#[test]
fn both_families_are_served_on_one_port() {
    let tricks = Tricks::new();
    let listeners =
        net::Listeners::bind_any(0, &mut net::InheritedListeners::default()).expect("a free port");
    let server = net::serve(listeners, tricks, workers(2)).expect("it starts");
    for address in server.local_addresses() {
        let target = match address {
            std::net::SocketAddr::V4(_) => (std::net::Ipv4Addr::LOCALHOST, address.port()).into(),
            std::net::SocketAddr::V6(_) => (std::net::Ipv6Addr::LOCALHOST, address.port()).into(),
        };
        assert_eq!(Client::connect(target).ask(b"e"), b"e", "{address}");
    }
}

#[test]
fn an_answer_leaves_behind_what_others_are_told_because_of_it() {
    // On one thread, on two, and on the pool.
    for (count, slow_call) in
        [(1, Duration::from_secs(10)), (2, Duration::from_secs(10)), (2, Duration::ZERO)]
    {
        let tricks = Tricks::new();
        let tell_first = Duration::from_secs(10);
        let (_server, address) = start(&tricks, Config { slow_call, tell_first, ..workers(count) });
        let mut others: Vec<Client> = (0..3).map(|_| Client::connect(address)).collect();
        let mut asking = Client::connect(address);
        for other in &mut others {
            assert_eq!(other.ask(b"e"), b"e");
        }
        for _ in 0..50 {
            assert_eq!(asking.ask(b"a change"), b"a change");
            for other in &mut others {
                other.0.set_nonblocking(true).expect("it can be set");
                assert_eq!(other.receive().expect("it was told before"), b"a change");
                other.0.set_nonblocking(false).expect("it can be set");
            }
        }
        // Two connections that notify each other at the same time do not wait: that would never end.
        for _ in 0..20 {
            let began = Instant::now();
            others.truncate(1);
            asking.send(b"a");
            others[0].send(b"a");
            let mut heard: Vec<_> = (0..2).map(|_| asking.receive().expect("an answer and a word")).collect();
            heard.extend((0..2).map(|_| others[0].receive().expect("an answer and a word")));
            assert_eq!(heard, vec![b"a".to_vec(); 4]);
            assert!(began.elapsed() < tell_first, "nobody waits for ever");
        }
    }
}

#[test]
fn an_answer_does_not_wait_for_ever_for_others_to_be_told() {
    let tricks = Tricks::new();
    let (_server, address) = start(&tricks, Config { tell_first: Duration::from_millis(50), ..workers(2) });
    let (mut stuck, mut asking) = (Client::connect(address), Client::connect(address));
    assert_eq!(stuck.ask(b"e"), b"e");
    stuck.send(&[ask::THREAD, 255]);
    let began = Instant::now();
    assert_eq!(asking.ask(b"a change"), b"a change");
    assert!(began.elapsed() < Duration::from_secs(5));
    // It is notified all the same: after its own answer, or before that if its thread handled the record
    // late.
    let heard = [0, 1].map(|_| stuck.receive().expect("its own answer and a word"));
    assert!(heard.contains(&b"a change".to_vec()));
}
