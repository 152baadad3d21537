//! The memory that clients may use with their opens and byte ranges.

use std::sync::Arc;

use crate::common::{Client, TestShare, user};
use share::memory::{OPEN_BYTES, RANGE_BYTES};
use share::{ClientMemory, Config, LockRule, Open, RangeKind, RangeRequest, Refusal};
use volume::security::Rights;

const MERGING: LockRule = LockRule::Merging;

fn world(bound: usize) -> (TestShare, Arc<ClientMemory>) {
    let memory = ClientMemory::bounded(bound);
    (TestShare::with(Config { memory: Arc::clone(&memory), ..Config::default() }), memory)
}

fn range(at: u64) -> RangeRequest {
    RangeRequest { start: 2 * at, len: 1, kind: RangeKind::Exclusive }
}

fn lock(client: &Client, open: &Arc<Open>, rule: LockRule, ranges: &[RangeRequest]) -> Result<(), Refusal> {
    client.call(|c| client.share.lock(c, open, client.owner(open), rule, ranges))
}

#[test]
fn ranges_are_refused_to_who_has_more_than_is_left_and_to_nobody_else() {
    // The memory of four opens and a hundred ranges.
    let (world, memory) = world(4 * OPEN_BYTES + 100 * RANGE_BYTES);
    let (greedy, modest) = (world.client(1), world.client(2));
    let (one, other) = (greedy.make("one"), modest.make("other"));
    let got = (0..200).take_while(|at| lock(&greedy, &one, LockRule::Exact, &[range(*at)]).is_ok()).count();
    assert!((50..=60).contains(&got), "{got} ranges");
    assert_eq!(memory.used(), 2 * OPEN_BYTES + got * RANGE_BYTES);
    assert_eq!(lock(&greedy, &one, LockRule::Exact, &[range(200)]), Err(Refusal::Exhausted));
    assert_eq!(memory.refused(), 2);
    for at in 0..20 {
        lock(&modest, &other, MERGING, &[range(at)]).unwrap();
    }
    // A client that releases some may have as many again.
    let owner = greedy.owner(&one);
    let back: Vec<_> = (0..30).map(range).collect();
    world.share.unlock(&one, owner, LockRule::Exact, &back).unwrap();
    lock(&greedy, &one, LockRule::Exact, &[range(200)]).unwrap();
    greedy.close(&one);
    modest.close(&other);
    drop((one, other));
    assert_eq!(memory.used(), 0);
}

#[test]
fn ranges_that_merge_and_split_are_charged_as_they_are_held() {
    let (world, memory) = world(1 << 20);
    let client = world.client(1);
    let open = client.make("f");
    let held = |len, count| {
        let whole = RangeRequest { start: 0, len, kind: RangeKind::Exclusive };
        lock(&client, &open, MERGING, &[whole]).unwrap();
        assert_eq!(memory.used(), OPEN_BYTES + count * RANGE_BYTES, "{len}");
    };
    held(100, 1);
    held(200, 1);
    let middle = RangeRequest { start: 50, len: 10, kind: RangeKind::Exclusive };
    world.share.unlock(&open, client.owner(&open), MERGING, &[middle]).unwrap();
    assert_eq!(memory.used(), OPEN_BYTES + 2 * RANGE_BYTES);
    // All of several or none: existing ranges stay.
    let other = world.client(2);
    let beside = other.open("f").open();
    lock(&other, &beside, MERGING, &[range(150)]).unwrap();
    let wanted = [range(140), range(150)];
    assert_eq!(lock(&client, &open, MERGING, &wanted), Err(Refusal::RangeNotGranted));
    assert_eq!(memory.used(), 2 * OPEN_BYTES + 3 * RANGE_BYTES);
}

#[test]
fn opens_are_refused_to_who_has_more_than_is_left_and_to_nobody_else() {
    let (world, memory) = world(10 * OPEN_BYTES);
    let (greedy, modest) = (world.client(1), world.client(2));
    let mut held: Vec<_> = (0..5).map(|at| greedy.make(&format!("f{at}"))).collect();
    assert_eq!(greedy.open("f0").refusal(), Refusal::Exhausted);
    assert_eq!(memory.refused(), 1);
    let _modest = [modest.open("f0").open(), modest.open("f1").open()];
    let first = held.remove(0);
    greedy.close(&first);
    drop(first);
    assert_eq!(greedy.open("f0").refusal(), Refusal::Exhausted, "the other has taken two of what was left");
    drop(held.drain(..2).inspect(|open| greedy.close(open)).collect::<Vec<_>>());
    greedy.open("f0").open();
}

#[test]
fn a_range_is_not_split_for_who_has_more_than_is_left() {
    let (world, memory) = world(OPEN_BYTES + 100 * RANGE_BYTES);
    let client = world.client(1);
    let open = client.make("f");
    let whole = RangeRequest { start: 0, len: 1 << 40, kind: RangeKind::Exclusive };
    lock(&client, &open, MERGING, &[whole]).unwrap();
    let owner = client.owner(&open);
    let unlock = |at| world.share.unlock(&open, owner, MERGING, &[range(at)]);
    let got = (1..200).take_while(|at| unlock(*at).is_ok()).count();
    assert!((30..60).contains(&got), "{got} pieces");
    assert_eq!(unlock(200), Err(Refusal::Exhausted));
    assert!(memory.used() <= memory.bound());
    // An unlock that leaves nothing behind works, and a held range can be taken again.
    lock(&client, &open, MERGING, &[RangeRequest { start: 0, len: 2, kind: RangeKind::Exclusive }]).unwrap();
    world.share.unlock(&open, owner, MERGING, &[whole]).unwrap();
    assert_eq!(memory.used(), OPEN_BYTES);
}

#[test]
fn a_user_does_not_pay_for_another_who_calls_their_client_the_same() {
    let (world, _) = world(10 * OPEN_BYTES);
    let (greedy, victim) = (world.client_of(1, user(1)), world.client_of(1, user(2)));
    let _held: Vec<_> = (0..5).map(|at| greedy.make(&format!("f{at}"))).collect();
    let look = |client: &Client| client.open("f0").access(Rights::READ_ATTRIBUTES).result().map(|_| ());
    assert_eq!((look(&greedy), look(&victim)), (Err(Refusal::Exhausted), Ok(())));
}
