//! Caching rights beside byte ranges and writers of the same client and of others.
//!
//! A right to read from memory lets no client hold ranges or writes back: for that it needs WRITE (MS-FSA
//! 2.1.5.18; Linux keeps ranges to itself only then). So READ and HANDLE may stay with a client that locks or
//! writes under the same key. They are lost when any other client does.

use crate::common::*;
use share::{Caching, CallResult, LockRule, Open, RangeKind, RangeRequest, Refusal};
use std::sync::Arc;

const R: Caching = Caching::READ;
const RH: Caching = Caching::READ.union(Caching::HANDLE);
const RW: Caching = Caching::READ.union(Caching::WRITE);
const RWH: Caching = Caching::all();
const NONE: Caching = Caching::empty();

/// The client that locks or writes, in relation to the holder of the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockingClient {
    /// An open of the same client under the same key.
    SameKey,
    /// An open of the same client under no key.
    SameClient,
    OtherClient,
}
use LockingClient::{OtherClient, SameClient, SameKey};

const ALL: [LockingClient; 3] = [SameKey, SameClient, OtherClient];

fn lock(client: &Client, open: &Arc<Open>) -> CallResult<()> {
    let range = RangeRequest { start: 0, len: 2, kind: RangeKind::Exclusive };
    client.caller(true, now(), |c| client.share.lock(c, open, client.owner(open), LockRule::Exact, &[range]))
}

/// Whether a holder loses its right when this client changes something.
fn goes(who: LockingClient) -> bool {
    who != SameKey
}

// MS-FSA 2.1.5.18: Open.Stream.ByteRangeLockList
#[test]
fn beside_ranges_of_anybody_nobody_is_given_reading_alone() {
    for who in ALL {
        for want in [R, RH, RW, RWH] {
            let world = TestShare::new();
            let (one, two) = (world.client(1), world.client(2));
            one.make_with("f", "text");
            let locker = if who == OtherClient { &two } else { &one };
            let open = if who == SameKey { one.open("f").keyed(1, NONE) } else { locker.open("f") }.open();
            done(lock(locker, &open)).unwrap();
            let opened = one.open("f").keyed(1, want).result().unwrap();
            // A client that is alone may hold writes and ranges back, and so may read from memory.
            let expected = if who == SameKey && want.contains(Caching::WRITE) { want } else { NONE };
            let granted = opened.granted.map_or(NONE, |grant| grant.state);
            assert_eq!(granted, expected, "{who:?} {want:?}");
        }
    }
}

// MS-FSA 2.1.5.8: LOCK_CONTROL
#[test]
fn a_range_of_somebody_elses_takes_reading_from_memory_away_at_once() {
    for who in ALL {
        for has in [R, RH] {
            let world = TestShare::new();
            let (one, two) = (world.client(1), world.client(2));
            one.make_with("f", "text");
            let locker = if who == OtherClient { &two } else { &one };
            let open = if who == SameKey { one.open("f").keyed(1, NONE) } else { locker.open("f") }.open();
            let kept = one.open("f").keyed(1, has).result().unwrap();
            assert_eq!(kept.granted.unwrap().state, has, "{who:?}");
            done(lock(locker, &open)).unwrap();
            let told = if goes(who) { vec![(has, NONE, has == RH)] } else { vec![] };
            assert_eq!(one.breaks(), told, "{who:?} {has:?}");
            // The range counts for the open that reads from memory, too.
            assert_eq!(one.read(&kept.open), Err(Refusal::RangeConflict), "{who:?}");
            if goes(who) && has == RH {
                one.acknowledge(1, true, NONE).unwrap();
            }
            let left = kept.open.caching().map_or(NONE, |grant| grant.state);
            assert_eq!(left, if goes(who) { NONE } else { has });
        }
    }
}

#[test]
fn a_write_of_somebody_elses_takes_reading_from_memory_away_at_once() {
    for who in ALL {
        for has in [R, RH] {
            let world = TestShare::new();
            let (one, two) = (world.client(1), world.client(2));
            one.make_with("f", "text");
            let writer = if who == OtherClient { &two } else { &one };
            let open = if who == SameKey { one.open("f").keyed(1, NONE) } else { writer.open("f") }.open();
            // The permission to write takes nothing away; a write does.
            let kept = one.open("f").keyed(1, has).result().unwrap();
            assert_eq!(kept.granted.unwrap().state, has, "{who:?}");
            writer.write(&open, 0, "new").unwrap();
            let told = if goes(who) { vec![(has, NONE, has == RH)] } else { vec![] };
            assert_eq!(one.breaks(), told, "{who:?} {has:?}");
            assert_eq!(one.read(&kept.open), Ok("newt".to_owned()));
        }
    }
}

/// A client with WRITE holds ranges and writes back. It hands them in while its right is being broken, even
/// one that is on its way. A request that waits for the right meets them.
// MS-SMB2 3.2.5.19.2
#[test]
fn ranges_and_writes_that_were_kept_back_arrive_before_whoever_waits() {
    for has in [RW, RWH] {
        let world = TestShare::new();
        let (one, two) = (world.client(1), world.client(2));
        one.make_with("f", "text");
        let kept = one.open("f").keyed(1, has).open();
        let second = two.open("f").keyed(2, RH);
        waits(second.step());
        let left = has - Caching::WRITE;
        assert_eq!(one.breaks(), [(has, left, true)]);
        one.write(&kept, 0, "kept").unwrap();
        done(lock(&one, &kept)).unwrap();
        one.acknowledge(1, true, left).unwrap();
        assert_eq!(two.woken(), 1);
        let opened = second.result().unwrap();
        assert_eq!(opened.granted.map_or(NONE, |grant| grant.state), NONE, "beside the range");
        assert_eq!(two.read(&opened.open), Err(Refusal::RangeConflict));
        waits(lock(&two, &opened.open));
        one.close(&kept);
        assert_eq!(two.woken(), 1);
        done(lock(&two, &opened.open)).unwrap();
        assert_eq!(two.read(&opened.open), Ok("kept".to_owned()));
    }
}
