//! Reports to clients that the host could not store written data.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use share::{Config, Open, Refusal, WriteAt};
use volume::Failure;
use volume::faulty::{FaultPlan, PlannedFault, VolumeCall};

/// A client and its open of the file.
type ClientWriter = (Client, Arc<Open>);

/// A share whose host fails as planned, and two clients that have the same file open.
fn two_writers() -> (TestShare, Arc<FaultPlan>, [ClientWriter; 2]) {
    let (world, plan) = TestShare::planned(Config::default());
    world.client(1).make_with("file", "before");
    let writers = [1, 2].map(|n| {
        let client = world.client(n);
        let open = client.open("file").open();
        (client, open)
    });
    (world, plan, writers)
}

fn flush((client, open): &ClientWriter) -> Result<(), Refusal> {
    client.share.flush(open, false, now())
}

fn write((client, open): &ClientWriter, through: bool) -> Result<(), Refusal> {
    client.call(|c| client.share.write(c, open, client.owner(open), WriteAt::Offset(0), b"data", through))
}

const IO: Result<(), Refusal> = Err(Refusal::Io);

/// The host reports it once, to one of them, and takes the data for stored from then on.
fn next_sync_fails(plan: &FaultPlan) {
    plan.add(VolumeCall::Sync, 1, PlannedFault::Fail(Failure::Io));
}

#[test]
fn each_open_is_told_once_that_data_is_lost() {
    let by_flush: fn(&ClientWriter) -> Result<(), Refusal> = flush;
    for fails in [by_flush, |one| write(one, true)] {
        let (_world, plan, [one, two]) = two_writers();
        write(&two, false).unwrap();
        next_sync_fails(&plan);
        assert_eq!(fails(&one), IO);
        assert_eq!(flush(&one), Ok(()), "it was told");
        assert_eq!(flush(&two), IO, "what it has written before may be lost");
        assert_eq!(flush(&two), Ok(()), "it was told");
        // And the other way round, for the next failure.
        next_sync_fails(&plan);
        assert_eq!(flush(&two), IO);
        assert_eq!((flush(&one), flush(&one)), (IO, Ok(())));
    }
}

#[test]
fn who_was_not_there_is_not_told() {
    let (world, plan, [one, two]) = two_writers();
    let other = (world.client(3), world.client(3).make("other"));
    next_sync_fails(&plan);
    assert_eq!(flush(&one), IO);
    let client = world.client(4);
    let open = client.open("file").open();
    let later = (client, open);
    assert_eq!((flush(&later), flush(&other), flush(&two)), (Ok(()), Ok(()), IO));
}

#[test]
fn who_has_the_file_open_is_told_of_a_sync_without_an_open() {
    let (world, plan, [one, two]) = two_writers();
    let root = world.share.root_item();
    let item = world.client(3).call(|c| world.share.item_in(c, &root, &name("file")).into());
    next_sync_fails(&plan);
    assert_eq!(world.share.item_sync(&item.unwrap()), IO);
    assert_eq!((flush(&one), flush(&two)), (IO, IO));
    assert_eq!((flush(&one), flush(&two)), (Ok(()), Ok(())));
}

#[test]
fn a_write_through_fails_for_what_is_lost_meanwhile_and_not_for_what_was_before() {
    let (_world, plan, [one, two]) = two_writers();
    next_sync_fails(&plan);
    assert_eq!(flush(&one), IO);
    assert_eq!(write(&two, true), Ok(()), "it was written after that");
    assert_eq!(flush(&two), IO, "what it has written before is not known to be stored");
    plan.add(VolumeCall::Sync, 1, PlannedFault::Hold);
    plan.add(VolumeCall::Sync, 2, PlannedFault::Fail(Failure::Io));
    let through = std::thread::scope(|scope| {
        let through = scope.spawn(|| write(&two, true));
        assert!(plan.wait_held(1, Duration::from_secs(20)), "nothing was held");
        let failed = flush(&one);
        plan.release();
        assert_eq!(failed, IO);
        through.join().unwrap()
    });
    assert_eq!(through, IO, "it may be what the other one was told of");
    assert_eq!(flush(&two), Ok(()), "it was told");
}
