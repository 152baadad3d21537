//! The table of ranges, case by case.

use super::*;
use crate::ClientKey;
use crate::ranges::RangeKind::{Exclusive, Shared};

fn owner(n: u128) -> LockOwner {
    LockOwner { client: ClientKey(1), owner: n }
}

fn range(start: u64, len: u64, kind: RangeKind) -> RangeRequest {
    RangeRequest { start, len, kind }
}

fn exact(table: &mut Ranges, who: u128, wanted: &[RangeRequest]) -> Result<(), Refusal> {
    table.lock(owner(who), who as u64, MemoryAccount::NOBODY, LockRule::Exact, wanted)
}

fn merging(table: &mut Ranges, who: u128, wanted: RangeRequest) -> Result<(), Refusal> {
    table.lock(owner(who), who as u64, MemoryAccount::NOBODY, LockRule::Merging, &[wanted])
}

fn bounds(table: &Ranges, who: u128) -> Vec<(u64, u64)> {
    let own = table.held().filter(|h| h.owner == owner(who));
    let mut out: Vec<_> = own.map(|h| (h.range.start, h.range.len)).collect();
    out.sort_unstable();
    out
}

#[test]
fn shared_stacks_over_ones_own_exclusive_but_not_the_other_way_round() {
    let mut table = Ranges::default();
    assert_eq!(exact(&mut table, 1, &[range(0, 10, Exclusive)]), Ok(()));
    assert_eq!(exact(&mut table, 1, &[range(0, 10, Shared)]), Ok(()));
    assert_eq!(exact(&mut table, 1, &[range(5, 10, Exclusive)]), Err(Refusal::RangeNotGranted));
    assert_eq!(exact(&mut table, 2, &[range(9, 1, Shared)]), Err(Refusal::RangeNotGranted));
    // The exclusive one of two equal ranges is released first.
    assert_eq!(table.unlock(owner(1), LockRule::Exact, &[range(0, 10, Shared)]), Ok(()));
    assert_eq!(table.held().next().unwrap().range.kind, Shared);
    assert_eq!(exact(&mut table, 2, &[range(9, 1, Shared)]), Ok(()));
}

#[test]
fn a_shared_range_keeps_even_its_holder_from_writing() {
    let mut table = Ranges::default();
    exact(&mut table, 1, &[range(0, 10, Shared)]).unwrap();
    let data = |kind, who| table.conflicts(&range(3, 1, kind), owner(who), LockRule::Exact, Intent::Data);
    assert!(data(Exclusive, 1) && data(Exclusive, 2));
    assert!(!data(Shared, 1) && !data(Shared, 2));
}

#[test]
fn a_range_of_no_bytes_is_in_the_way_only_inside_another() {
    let mut table = Ranges::default();
    exact(&mut table, 1, &[range(10, 0, Exclusive)]).unwrap();
    assert_eq!(exact(&mut table, 2, &[range(10, 5, Exclusive)]), Ok(()));
    assert_eq!(exact(&mut table, 2, &[range(10, 0, Exclusive)]), Ok(()));
    assert_eq!(exact(&mut table, 2, &[range(9, 1, Exclusive)]), Ok(()));
    assert_eq!(exact(&mut table, 3, &[range(12, 0, Exclusive)]), Err(Refusal::RangeNotGranted));
    assert_eq!(exact(&mut table, 3, &[range(0, 0, Exclusive)]), Ok(()));
}

#[test]
fn the_number_space_ends_at_its_last_byte() {
    let mut table = Ranges::default();
    assert_eq!(exact(&mut table, 1, &[range(u64::MAX, 1, Exclusive)]), Ok(()));
    assert_eq!(exact(&mut table, 1, &[range(u64::MAX, 2, Exclusive)]), Err(Refusal::BadRange));
    assert_eq!(exact(&mut table, 2, &[range(0, u64::MAX, Exclusive)]), Ok(()));
    assert_eq!(exact(&mut table, 3, &[range(u64::MAX, 1, Shared)]), Err(Refusal::RangeNotGranted));
}

#[test]
fn several_ranges_are_had_all_or_not_at_all() {
    let mut table = Ranges::default();
    exact(&mut table, 1, &[range(20, 1, Exclusive)]).unwrap();
    let wanted = [range(0, 5, Exclusive), range(20, 1, Shared)];
    assert_eq!(exact(&mut table, 2, &wanted), Err(Refusal::RangeNotGranted));
    assert_eq!(bounds(&table, 2), []);
    let against_itself = [range(0, 5, Exclusive), range(4, 1, Exclusive)];
    assert_eq!(exact(&mut table, 2, &against_itself), Err(Refusal::RangeNotGranted));
}

#[test]
fn unlocking_stops_at_the_first_range_that_is_not_held() {
    let mut table = Ranges::default();
    exact(&mut table, 1, &[range(0, 1, Shared), range(2, 1, Shared)]).unwrap();
    let gone = [range(0, 1, Shared), range(1, 1, Shared), range(2, 1, Shared)];
    assert_eq!(table.unlock(owner(1), LockRule::Exact, &gone), Err(Refusal::RangeNotHeld));
    assert_eq!(bounds(&table, 1), [(2, 1)]);
}

#[test]
fn merging_ranges_join_split_and_change_kind() {
    let mut table = Ranges::default();
    merging(&mut table, 1, range(0, 10, Exclusive)).unwrap();
    merging(&mut table, 1, range(10, 10, Exclusive)).unwrap();
    assert_eq!(bounds(&table, 1), [(0, 20)]);
    merging(&mut table, 1, range(5, 5, Shared)).unwrap();
    assert_eq!(bounds(&table, 1), [(0, 5), (5, 5), (10, 10)]);
    assert_eq!(merging(&mut table, 2, range(5, 5, Shared)), Ok(()));
    assert_eq!(merging(&mut table, 1, range(5, 5, Exclusive)), Err(Refusal::RangeNotGranted));
    table.unlock(owner(1), LockRule::Merging, &[range(2, 12, Shared)]).unwrap();
    assert_eq!(bounds(&table, 1), [(0, 2), (14, 6)]);
}

#[test]
fn the_two_rules_are_in_each_others_way() {
    let mut table = Ranges::default();
    merging(&mut table, 1, range(0, 10, Exclusive)).unwrap();
    assert_eq!(exact(&mut table, 2, &[range(5, 1, Shared)]), Err(Refusal::RangeNotGranted));
    assert!(table.conflicts(&range(5, 1, Shared), owner(2), LockRule::Exact, Intent::Data));
}

#[test]
fn those_who_wait_are_ready_in_their_order() {
    let mut table = Ranges::default();
    exact(&mut table, 1, &[range(0, 10, Exclusive)]).unwrap();
    for (ticket, who, kind) in [(1, 2, Exclusive), (2, 3, Exclusive), (3, 4, Shared)] {
        table.wait(Ticket(ticket), owner(who), who as u64, LockRule::Exact, range(0, 10, kind));
    }
    table.wait(Ticket(4), owner(5), 5, LockRule::Exact, range(20, 1, Exclusive));
    assert!(table.release_open(1));
    // The first takes the range, so the next two go on waiting. The fourth asked for another one.
    assert_eq!(table.ready(), [Ticket(1), Ticket(4)]);
    assert!(table.forget(Ticket(2)) && !table.forget(Ticket(2)));
    assert_eq!(table.ready(), [Ticket(3)]);
}

#[test]
fn what_waits_for_an_open_goes_with_it() {
    let mut table = Ranges::default();
    exact(&mut table, 1, &[range(0, 10, Exclusive)]).unwrap();
    table.wait(Ticket(1), owner(2), 2, LockRule::Exact, range(0, 1, Shared));
    table.wait(Ticket(2), owner(3), 3, LockRule::Exact, range(0, 1, Shared));
    assert_eq!(table.drain_open(2), [Ticket(1)]);
    table.release_open(1);
    assert_eq!(table.ready(), [Ticket(2)]);
}

/// With a walk over all ranges for each waiting request this would be eight thousand million steps.
#[test]
fn unlocking_beside_many_ranges_and_many_who_wait_looks_at_few() {
    let mut table = Ranges::default();
    for at in 0..65_000 {
        let kind = if at % 2 == 0 { Exclusive } else { Shared };
        exact(&mut table, 1, &[range(at * 10, 5, kind)]).unwrap();
    }
    for waiter in 0..500 {
        table.wait(Ticket(waiter), owner(2), 2, LockRule::Exact, range(0, u64::MAX, Exclusive));
    }
    for at in 0..250 {
        let kind = if at % 2 == 0 { Exclusive } else { Shared };
        table.unlock(owner(1), LockRule::Exact, &[range(at * 10, 5, kind)]).unwrap();
        assert_eq!(table.ready(), []);
    }
    assert!(table.release_open(1));
    assert_eq!(table.ready(), [Ticket(0)]);
}
