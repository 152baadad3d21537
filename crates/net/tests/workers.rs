//! Placement, trips to the blocking pool, deadlines, batches and the end of a server.

mod common;

use common::{Client, Tricks, ask, echo_body, record, start, wait_until, workers};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use net::Config;

#[test]
fn connections_of_one_client_begin_on_one_worker_and_clients_on_different_ones() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(4));
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(address)).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        let key = (at % 4) as u8;
        assert_eq!(client.ask(&[ask::PLACE, key]), [ask::PLACE, key]);
    }
    let mut names: Vec<Vec<u8>> = clients.iter_mut().map(|client| client.ask(&[ask::THREAD, 0])).collect();
    assert_eq!(names[..4], names[4..]);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4);
    assert_eq!(server.connections_by_worker(), [2, 2, 2, 2, 0]);
}

#[test]
fn a_connection_moves_once_and_loses_nothing() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(2));
    // They begin on different workers, so the key has to move the second.
    let mut pair = [Client::connect(address), Client::connect(address)];
    let [first, second] = &mut pair;
    assert_ne!(first.ask(&[ask::THREAD, 0]), second.ask(&[ask::THREAD, 0]));
    for client in &mut pair {
        // The request after the one that moves the connection, and half of a third, travel along.
        let third = record(&echo_body(100_000, 3));
        let mut bytes = record(&[ask::PLACE, 9]);
        bytes.extend(record(b"e-behind"));
        bytes.extend(&third[..50_000]);
        client.0.write_all(&bytes).expect("it takes them");
        assert_eq!(client.receive().expect("an answer"), [ask::PLACE, 9]);
        assert_eq!(client.receive().expect("an answer"), b"e-behind");
        client.0.write_all(&third[50_000..]).expect("it takes them");
        assert_eq!(client.receive().expect("an answer"), echo_body(100_000, 3));
        // A second placement is not granted.
        assert_eq!(client.ask(&[ask::PLACE, 10]), [ask::PLACE, 10]);
        assert_eq!(client.ask(&[ask::EVENT]), [ask::EVENT]);
        assert_eq!(client.receive().expect("the event finds it"), b"event");
    }
    assert_eq!(server.totals().moves, 1);
}

#[test]
fn slow_calls_leave_the_worker_and_come_back_when_quick() {
    let tricks = Tricks::new();
    let config = Config { slow_call: Duration::from_millis(10), ..workers(1) };
    let (server, address) = start(&tricks, config);
    let mut client = Client::connect(address);
    let name = |client: &mut Client, busy_ms: u8| client.ask(&[ask::THREAD, busy_ms]);
    assert_eq!(name(&mut client, 0), b"trunkline-net-0");
    // One slow batch does not prove anything yet.
    assert_eq!(name(&mut client, 30), b"trunkline-net-0");
    assert_eq!(name(&mut client, 30), b"trunkline-net-0");
    assert_eq!(name(&mut client, 30), b"trunkline-pool");
    assert!(server.totals().hops >= 1);
    // Large records and events go along.
    assert_eq!(client.ask(&echo_body(1 << 20, 5)), echo_body(1 << 20, 5));
    assert_eq!(client.ask(&[ask::EVENT]), [ask::EVENT]);
    assert_eq!(client.receive().expect("the event's answer"), b"event");
    wait_until("it is quick again", || name(&mut client, 0) == b"trunkline-net-0");
}

#[test]
fn one_that_asks_now_and_then_is_served_in_the_lane_while_another_keeps_the_worker_busy() {
    let tricks = Tricks::new();
    // Long batches stay on the worker.
    let config = Config { slow_call: Duration::from_secs(60), ..workers(1) };
    let (server, address) = start(&tricks, config);
    let mut heavy = Client::connect_from([127, 0, 0, 2], address);
    let work = |client: &mut Client, milliseconds| client.ask(&[ask::WORK, milliseconds]);
    for _ in 0..10 {
        assert_eq!(work(&mut heavy, 20), b"trunkline-net-0", "nobody else is there");
    }
    let mut light = Client::connect_from([127, 0, 0, 3], address);
    let (worker, lane): (&[u8], &[u8]) = (b"trunkline-net-0", b"trunkline-net-lane");
    // The connection with much work is tried in the lane too, and leaves it at once.
    wait_until("each is where it belongs", || {
        let names = [work(&mut heavy, 20), work(&mut light, 0)];
        names == [worker, lane]
    });
    assert_eq!(server.connections_by_worker(), [1, 1]);
}

#[test]
fn a_panic_on_the_pool_costs_the_connection_only() {
    let tricks = Tricks::new();
    let config = Config { slow_call: Duration::from_millis(10), ..workers(1) };
    let (server, address) = start(&tricks, config);
    let mut client = Client::connect(address);
    let mut other = Client::connect(address);
    client.ask(&[ask::THREAD, 30]);
    client.ask(&[ask::THREAD, 30]);
    client.send(&[ask::PANIC]);
    assert!(client.is_closed());
    assert_eq!(other.ask(b"e"), b"e");
    wait_until("it is told", || tricks.closed.load(SeqCst) == 1);
    assert_eq!(server.connections(), 1);
    assert_eq!((server.totals().hops, server.totals().panics), (1, 1));
}

#[test]
fn a_deadline_is_called_when_it_has_passed() {
    let tricks = Tricks::new();
    let (_server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    for wait_ms in [1, 20, 0] {
        client.send(&[ask::DEADLINE, wait_ms]);
        assert_eq!(client.receive().expect("the deadline's answer"), b"deadline");
    }
}

#[test]
fn what_came_together_is_one_batch_up_to_its_bound() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    assert_eq!(client.ask(b"e"), b"e");
    // The reply may be here before its call is counted.
    wait_until("the first call is counted", || server.totals().bytes_sent == 5);
    let before = server.totals();
    let bytes: Vec<u8> = (0..200).flat_map(|_| record(b"e-many")).collect();
    client.0.write_all(&bytes).expect("it takes them");
    for _ in 0..200 {
        assert_eq!(client.receive().expect("an answer"), b"e-many");
    }
    wait_until("the last call is counted", || server.totals().bytes_sent == before.bytes_sent + 200 * 10);
    let after = server.totals();
    assert_eq!(after.records - before.records, 200);
    // 64 messages each: 4 batches for 200.
    assert_eq!(after.batches - before.batches, 4);
    assert_eq!(after.writev_calls - before.writev_calls, 4);
    assert_eq!(tricks.batches.load(SeqCst), 5);
}

#[test]
fn a_shutdown_under_load_sends_whole_replies_and_closes_all() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(2));
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            // Before the load begins: the first clients may have done enough before the last one runs at all.
            let mut client = Client::connect(address);
            std::thread::spawn(move || {
                let body = if number % 2 == 0 { b"job-load".to_vec() } else { echo_body(50_000, number) };
                while !stop.load(SeqCst) {
                    if client.0.write_all(&record(&body)).is_err() {
                        return;
                    }
                    match client.receive() {
                        Ok(answer) => assert!(answer == body),
                        Err(_) => return,
                    }
                    answered.fetch_add(1, SeqCst);
                }
            })
        })
        .collect();
    wait_until("there is load", || answered.load(SeqCst) > 200);
    let report = server.shutdown(Duration::from_secs(10));
    stop.store(true, SeqCst);
    for thread in threads {
        thread.join().expect("no client saw a wrong answer");
    }
    assert_eq!((report.cut, report.jobs_ended), (0, true));
    assert_eq!(tricks.closed.load(SeqCst), tricks.accepted.load(SeqCst));
}

#[test]
fn a_job_in_work_is_answered_before_the_server_ends() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    client.send(b"blocked");
    wait_until("the job is taken", || server.totals().jobs == 1);
    let ending = std::thread::spawn(move || server.shutdown(Duration::from_secs(10)));
    tricks.gate.open();
    assert_eq!(client.receive().expect("the job's answer"), b"blocked");
    assert!(client.is_closed());
    assert_eq!(ending.join().expect("it ends").cut, 0);
}

#[test]
fn what_does_not_end_in_time_is_cut() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    client.send(b"blocked");
    wait_until("the job is taken", || server.totals().jobs == 1);
    let report = server.shutdown(Duration::from_millis(20));
    assert_eq!((report.cut, report.jobs_ended), (1, false));
    assert!(client.is_closed());
    assert_eq!(tricks.closed.load(SeqCst), 1);
    tricks.gate.open();
}
