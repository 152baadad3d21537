//! Caching rights between clients: grants, breaks, waits, wakes.

use std::time::Duration;

use crate::common::*;
use share::{CacheKey, Caching, Deny, Disposition, LockRule, Options, RangeKind, RangeRequest, Refusal};
use volume::security::{Ace, AceFlags, Acl, Descriptor, Parts, Rights, Sid};

const R: Caching = Caching::READ;
const RH: Caching = Caching::READ.union(Caching::HANDLE);
const RW: Caching = Caching::READ.union(Caching::WRITE);
const RWH: Caching = Caching::all();
const NONE: Caching = Caching::empty();

#[test]
fn a_second_open_waits_until_the_first_has_answered() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let first = one.open("f").disposition(Disposition::Create).keyed(1, RWH).result().unwrap();
    assert_eq!(first.granted.unwrap().state, RWH);
    let second = two.open("f").keyed(2, RWH);
    let ticket = waits(second.step());
    assert_eq!(one.breaks(), [(RWH, RH, true)]);
    assert_eq!(two.woken(), 0);
    one.acknowledge(1, true, RH).unwrap();
    assert_eq!(two.woken(), 1);
    let opened = second.result().unwrap();
    assert_eq!(opened.granted.unwrap().state, RH);
    assert_eq!(one.breaks(), []);
    world.share.cancel(ticket);
}

#[test]
fn who_closes_instead_of_answering_lets_the_other_go_on() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let first = one.open("f").disposition(Disposition::Create).single(1, RWH).open();
    let second = two.open("f").single(2, RWH);
    waits(second.step());
    assert_eq!(one.breaks(), [(RWH, R, true)]);
    one.close(&first);
    assert_eq!(two.woken(), 1);
    assert_eq!(second.result().unwrap().granted.unwrap().state, RWH);
}

#[test]
fn looking_at_attributes_breaks_nothing() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let _first = one.open("f").disposition(Disposition::Create).keyed(1, RWH).open();
    let looks = Rights::READ_ATTRIBUTES | Rights::SYNCHRONIZE;
    assert!(two.open("f").access(looks).result().is_ok());
    assert_eq!(one.breaks(), []);
}

// MS-FSA 2.1.5.18.1
#[test]
fn who_does_more_than_look_is_one_more_who_has_the_file_open() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let looks = Rights::READ_ATTRIBUTES | Rights::WRITE_ATTRIBUTES | Rights::SYNCHRONIZE;
    let _looks = one.open("f").disposition(Disposition::Create).access(looks).open();
    assert_eq!(two.open("f").keyed(1, RWH).result().unwrap().granted.unwrap().state, RWH);
    let reads_descriptor = looks | Rights::READ_CONTROL;
    let _reads = one.open("g").disposition(Disposition::Create).access(reads_descriptor).open();
    assert_eq!(two.open("g").keyed(2, RWH).result().unwrap().granted.unwrap().state, RH);
}

#[test]
fn opens_under_one_key_share_their_right() {
    let world = TestShare::new();
    let one = world.client(1);
    let first = one.open("f").disposition(Disposition::Create).keyed(1, R).open();
    let second = one.open("f").keyed(1, RWH).result().unwrap();
    assert_eq!(second.granted.unwrap().state, RWH);
    assert_eq!(first.caching().unwrap().state, RWH);
    one.write(&first, 0, "text").unwrap();
    assert_eq!(one.breaks(), []);
    assert_eq!(
        one.open("g").disposition(Disposition::Create).keyed(2, RWH).result().unwrap().granted.unwrap().state,
        RWH
    );
    assert_eq!(one.open("g").keyed(1, RWH).refusal(), Refusal::Invalid);
    assert_eq!(one.open("h").disposition(Disposition::Create).keyed(1, RWH).refusal(), Refusal::Invalid);
    assert_eq!(one.names_in(""), ["f", "g"]);
}

#[test]
fn a_conflict_of_sharing_first_asks_who_only_keeps_the_file_open() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let first = one.open("f").disposition(Disposition::Create).deny(Deny::all()).keyed(1, RH).open();
    let second = two.open("f");
    waits(second.step());
    assert_eq!(one.breaks(), [(RH, R, true)]);
    one.acknowledge(1, true, R).unwrap();
    assert_eq!((two.woken(), second.refusal()), (1, Refusal::SharingConflict));
    one.close(&first);
    assert!(second.result().is_ok());
}

#[test]
fn who_must_not_make_others_give_back_is_refused_and_breaks_nothing() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let _first = one.open("f").disposition(Disposition::Create).keyed(1, RWH).open();
    assert_eq!(two.open("f").options(Options::NO_WAIT_FOR_BREAK).refusal(), Refusal::SharingConflict);
    assert_eq!(one.breaks(), []);
    assert_eq!(two.open("f").without_waiting().refusal(), Refusal::SharingConflict);
    assert_eq!(one.breaks(), [(RWH, RH, true)]);
}

#[test]
fn changing_data_takes_reading_rights_away_at_once() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let writer = two.make("f");
    let reader = one.open("f").access(READ).keyed(1, R).open();
    two.write(&writer, 0, "x").unwrap();
    assert_eq!(one.breaks(), [(R, NONE, false)]);
    assert_eq!(reader.caching().unwrap().state, NONE);
    two.write(&writer, 0, "y").unwrap();
    assert_eq!(one.breaks(), []);
    let _again = one.open("f").access(READ).keyed(1, R).open();
    two.call(|c| world.share.set_size(c, &writer, 0)).unwrap();
    assert_eq!(one.breaks(), [(R, NONE, false)]);
}

#[test]
fn a_holder_who_cannot_be_reached_or_does_not_answer_loses_the_right() {
    let world = TestShare::new();
    let (one, two, three) = (world.client(1), world.client(2), world.client(3));
    let _first = one.open("f").disposition(Disposition::Create).keyed(1, RWH).open();
    one.ears.reachable.store(false, std::sync::atomic::Ordering::SeqCst);
    // No request waits for a client that is not there.
    let held = two.open("f").keyed(2, RWH).result().unwrap();
    assert_eq!(held.granted.unwrap().state, RH);
    two.close(&held.open);
    let _silent = two.open("g").disposition(Disposition::Create).keyed(3, RWH).open();
    let third = three.open("g");
    waits(third.step());
    let deadline = world.share.next_deadline().unwrap();
    assert_eq!(deadline, now().mono_ns + 35_000_000_000);
    world.share.tick(now().plus(Duration::from_secs(34)));
    assert_eq!(three.woken(), 0);
    world.share.tick(now().plus(Duration::from_secs(35)));
    assert_eq!(three.woken(), 1);
    assert!(third.result().is_ok());
    assert_eq!(world.share.next_deadline(), None);
}

#[test]
fn ranges_keep_from_reading_from_memory_only_where_there_is_data() {
    for (text, disposition, granted) in
        [("text", Disposition::Open, NONE), ("", Disposition::Open, RH), ("text", Disposition::Overwrite, RH)]
    {
        let world = TestShare::new();
        let (one, two) = (world.client(1), world.client(2));
        one.make_with("f", text);
        let first = one.open("f").open();
        let range = RangeRequest { start: 0, len: 1, kind: RangeKind::Exclusive };
        one.call(|c| world.share.lock(c, &first, one.owner(&first), LockRule::Exact, &[range])).unwrap();
        let opened = two.open("f").disposition(disposition).keyed(2, RWH).result().unwrap();
        assert_eq!(opened.granted.unwrap().state, granted, "{text:?} {disposition:?}");
    }
}

#[test]
fn a_wait_that_is_taken_back_is_not_woken() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let _first = one.open("f").disposition(Disposition::Create).keyed(1, RWH).open();
    let ticket = waits(two.open("f").step());
    world.share.cancel(ticket);
    one.acknowledge(1, true, RH).unwrap();
    assert_eq!(two.woken(), 0);
    assert_eq!(one.acknowledge(1, true, RH), Err(Refusal::NoSuchGrant));
}

#[test]
fn renaming_and_deleting_ask_those_who_keep_the_file_open() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let kept = one.open("f").disposition(Disposition::Create).keyed(1, RH).open();
    let open = two.open("f").open();
    waits(two.rename(&open, "g", false));
    assert_eq!(one.breaks(), [(RH, R, true)]);
    one.close(&kept);
    assert_eq!(two.woken(), 1);
    done(two.rename(&open, "g", false)).unwrap();
    let _kept = one.open("g").keyed(1, RH).open();
    two.caller(true, now(), |c| waits(world.share.set_delete(c, &open, true, false, false)));
    assert_eq!(one.breaks(), [(RH, R, true)]);
}

#[test]
fn an_open_that_deletes_asks_nobody_to_close_before_the_name_is_marked() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let kept = one.open("f").disposition(Disposition::Create).keyed(1, RH).open();
    let open = two.open("f").access(Rights::DELETE).options(Options::DELETE_ON_CLOSE).open();
    assert_eq!(one.breaks(), []);
    two.close(&open);
    assert_eq!(one.breaks(), [(RH, R, true)]);
    assert_eq!(two.open("f").refusal(), Refusal::DeletePending);
    one.close(&kept);
    assert_eq!(two.open("f").refusal(), Refusal::NotFound);
    // A right to hold writes back is broken, as by any other open.
    let _writes = one.open("g").disposition(Disposition::Create).keyed(2, RWH).open();
    waits(two.open("g").access(Rights::DELETE).options(Options::DELETE_ON_CLOSE).step());
    assert_eq!(one.breaks(), [(RWH, RH, true)]);
}

#[test]
fn a_new_descriptor_waits_for_those_who_keep_the_file_open() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let _kept = one.open("f").disposition(Disposition::Create).keyed(1, RH).open();
    let open = two.open("f").access(READ | Rights::WRITE_DAC).open();
    let list = Acl::new(vec![Ace::allow(Sid::unix_user(2002), Rights::ALL, AceFlags::empty())]);
    let descriptor = Descriptor { dacl: Some(list), ..Descriptor::default() };
    let set = || two.caller(true, now(), |c| world.share.set_descriptor(c, &open, Parts::DACL, &descriptor));
    waits(set());
    assert_eq!(one.breaks(), [(RH, R, true)]);
    assert_ne!(world.share.descriptor(&open).unwrap().dacl, descriptor.dacl);
    one.acknowledge(1, true, R).unwrap();
    assert_eq!(two.woken(), 1);
    done(set()).unwrap();
    assert_eq!(world.share.descriptor(&open).unwrap().dacl, descriptor.dacl);
}

#[test]
fn who_waits_for_a_break_in_steps_goes_on_after_its_last_answer() {
    let world = TestShare::new();
    let (one, two, three) = (world.client(1), world.client(2), world.client(3));
    let _first = one.open("f").disposition(Disposition::Create).keyed(1, RWH).open();
    let (reads, replaces) = (two.open("f"), three.open("f").disposition(Disposition::Overwrite));
    waits(reads.step());
    waits(replaces.step());
    assert_eq!(one.breaks(), [(RWH, RH, true)]);
    one.acknowledge(1, true, RH).unwrap();
    assert_eq!((two.woken(), three.woken()), (0, 0));
    assert_eq!(one.breaks(), [(RH, R, true)]);
    // The holder's own open and close let no other request past.
    let own = one.open("f").keyed(1, RWH).result().unwrap();
    assert_eq!(own.granted.unwrap().breaking, Some(R));
    one.close(&own.open);
    assert_eq!((two.woken(), three.woken()), (1, 1));
    waits(reads.step());
    waits(replaces.step());
    one.acknowledge(1, true, R).unwrap();
    assert_eq!(one.breaks(), [(R, NONE, false)]);
    assert_eq!((two.woken(), three.woken()), (1, 1));
    assert!(reads.result().is_ok() && replaces.result().is_ok());
}

#[test]
fn a_directorys_right_goes_with_changes_of_its_entries_by_others() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_directory("d");
    let directory = one.open("d").access(READ).keyed(1, RWH).result().unwrap();
    assert_eq!(directory.granted.unwrap().state, RH);
    let own = one.open("d/a").disposition(Disposition::Create).keyed(2, RWH).parent(1).open();
    assert_eq!(one.breaks(), []);
    one.close(&own);
    let made = two.make("d/b");
    assert_eq!(one.breaks(), [(RH, NONE, true)]);
    one.acknowledge(1, true, NONE).unwrap();
    assert_eq!(directory.open.caching().unwrap().state, NONE);
    two.close(&made);
    let again = one.open("d").access(READ).keyed(1, RH).result().unwrap();
    assert_eq!(again.granted.unwrap().state, RH);
    let gone = two.open("d/b").options(Options::DELETE_ON_CLOSE).open();
    assert_eq!(one.breaks(), []);
    two.close(&gone);
    assert_eq!(one.breaks(), [(RH, NONE, true)]);
}

#[test]
fn replacing_takes_everything_and_waits_only_for_writers() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let _first = one.open("f").disposition(Disposition::Create).keyed(1, RH).open();
    let replace = two.open("f").disposition(Disposition::Overwrite);
    let opened = replace.result().unwrap();
    assert_eq!(one.breaks(), [(RH, NONE, true)]);
    two.close(&opened.open);
    one.acknowledge(1, true, NONE).unwrap();
    let _writer = one.open("g").disposition(Disposition::Create).keyed(2, RW).open();
    waits(two.open("g").disposition(Disposition::Overwrite).step());
    assert_eq!(one.breaks(), [(RW, NONE, true)]);
}

#[test]
fn a_stranger_cannot_answer_for_a_holder() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let _first = one.open("f").disposition(Disposition::Create).keyed(1, RWH).open();
    waits(two.open("f").step());
    assert_eq!(two.acknowledge(1, true, RH), Err(Refusal::NoSuchGrant));
    let result = world.share.acknowledge(one.key, CacheKey(9), true, RH, now());
    assert_eq!(result.unwrap_err(), Refusal::NoSuchGrant);
}
