//! Bounds that must not drift: allocations and system calls for an echoed record in the steady state. This is
//! the only test in its program, since it counts the allocations of all threads of the transport.

mod common;

use std::io::{Read, Write};
use std::sync::atomic::Ordering::Relaxed;

use common::{Client, Tricks, echo_body, record, start, workers};
use testkit::allocations::{ALLOCATIONS, ServerAllocationCounter};

#[global_allocator]
static COUNTING: ServerAllocationCounter = ServerAllocationCounter;

/// Requests in flight at once.
const DEPTH: usize = 32;
const ROUNDS: usize = 200;

/// Sends `batch` and reads `answer` bytes.
fn exchange(client: &mut Client, batch: &[u8], answer: &mut [u8]) {
    client.0.write_all(batch).expect("it takes the batch");
    client.0.read_exact(answer).expect("the answers");
}

/// A single test, so that nothing else runs meanwhile.
#[test]
fn the_steady_state_allocates_nothing_and_makes_few_calls() {
    let tricks = Tricks::new();
    let (server, address) = start(&tricks, workers(1));
    let mut client = Client::connect(address);
    client.ask(&echo_body(113, 0));
    assert!(ALLOCATIONS.load(Relaxed) > 0, "a connection takes some, if they are counted at all");

    // Small requests, 32 at once: one receiving, one sending and one waiting call for all of them.
    let batch: Vec<u8> = (0..DEPTH).flat_map(|n| record(&echo_body(113, n as u8))).collect();
    let mut answer = vec![0; batch.len()];
    (0..20).for_each(|_| exchange(&mut client, &batch, &mut answer));
    let (allocations, before) = (ALLOCATIONS.load(Relaxed), server.totals());
    (0..ROUNDS).for_each(|_| exchange(&mut client, &batch, &mut answer));
    let allocated = ALLOCATIONS.load(Relaxed) - allocations;
    let after = server.totals();
    assert!(answer == batch);
    assert_eq!(allocated, 0, "allocations for {} records", ROUNDS * DEPTH);
    assert_eq!(after.records - before.records, (ROUNDS * DEPTH) as u64);
    assert_eq!(after.recv_empty, before.recv_empty, "calls that received nothing");
    assert_eq!(after.bytes_copied, before.bytes_copied, "whole records are handed out in place");
    let calls = (after.recv_calls - before.recv_calls)
        + (after.writev_calls - before.writev_calls)
        + (after.wait_calls - before.wait_calls);
    let rounds = ROUNDS as u64;
    // Three for each batch. The last wait may not be counted yet, and a busy host may split a few batches.
    assert!(calls <= 3 * rounds + rounds / 5, "{calls} system calls for {rounds} batches of {DEPTH}");

    // Large records are received straight into their own buffer, except for the first few KiB.
    let large = record(&echo_body(1 << 20, 9));
    let mut answer = vec![0; large.len()];
    (0..20).for_each(|_| exchange(&mut client, &large, &mut answer));
    let before = server.totals();
    let allocations = ALLOCATIONS.load(Relaxed);
    (0..ROUNDS).for_each(|_| exchange(&mut client, &large, &mut answer));
    let allocated = ALLOCATIONS.load(Relaxed) - allocations;
    let after = server.totals();
    let copied = after.bytes_copied - before.bytes_copied;
    let calls = after.recv_calls - before.recv_calls;
    assert!(answer == large);
    assert_eq!(allocated, 0, "allocations for {ROUNDS} large records");
    assert!(copied <= rounds * 4096, "{copied} bytes copied for {ROUNDS} MiB");
    // One call for its head, one for the rest once it has arrived. For some records the last call finds that
    // more follows.
    assert!(calls <= 3 * rounds, "{calls} receiving calls for {ROUNDS} large records");
    assert_eq!(after.ack_calls, before.ack_calls, "whoever writes records at once is not helped");

    // A record in three pieces. Nagle's algorithm holds the second back until the first is acknowledged: one
    // call.
    client.0.set_nodelay(false).expect("a delay can be set");
    let small = record(&echo_body(113, 3));
    let mut answer = vec![0; small.len()];
    let began = std::time::Instant::now();
    for _ in 0..ROUNDS {
        small.chunks(40).for_each(|piece| client.0.write_all(piece).expect("it takes a piece"));
        client.0.read_exact(&mut answer).expect("the answer");
        assert!(answer == small);
    }
    let (took, calls) = (began.elapsed(), server.totals().ack_calls - after.ack_calls);
    assert!((1..=rounds).contains(&calls), "{calls} calls that acknowledge for {ROUNDS} records");
    // A host that delays its acknowledgements takes 40 ms for each record.
    assert!(took.as_millis() < 20 * u128::from(rounds), "{took:?} for {ROUNDS} records");
}
