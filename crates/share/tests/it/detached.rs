//! Opens whose client is gone: the state that they still hold, their reclaim, and their end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use crate::kept_opens::keep_opens;
use share::{
    Caching, CallResult, Config, Deny, Detached, Disposition, LockRule, LossListener, Open, Options,
    RangeKind, RangeRequest, Refusal,
};
use volume::Failure;
use volume::faulty::{PlannedFault, VolumeCall};
use volume::security::Rights;
use wire::Now;

const R: Caching = Caching::READ;
const RH: Caching = Caching::READ.union(Caching::HANDLE);
const RW: Caching = Caching::READ.union(Caching::WRITE);
const RWH: Caching = Caching::all();
const SECOND: Duration = Duration::from_secs(1);

/// Records the opens that the engine has closed.
#[derive(Default)]
struct Losses(Mutex<Vec<u64>>);

impl LossListener for Losses {
    fn on_lost(&self, token: u64) {
        self.0.lock().unwrap().push(token);
    }
}

impl Losses {
    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn after(time: Duration) -> Now {
    now().plus(time)
}

/// Detaches an open for ten seconds under its own id.
fn leave(client: &Client, open: &Arc<Open>, yields: bool, losses: &Arc<Losses>) -> Result<(), Refusal> {
    let until_ns = after(10 * SECOND).mono_ns;
    let keeper = Arc::clone(losses) as Arc<dyn LossListener>;
    client.share.detach_open(open, Detached { until_ns, yields, keeper, token: open.id() }, now())
}

fn reclaim(client: &Client, open: &Arc<Open>, at: Now) -> Result<(), Refusal> {
    client.caller(true, at, |caller| client.share.reclaim(open, caller))
}

fn lock(client: &Client, open: &Arc<Open>, owner: share::LockOwner) -> CallResult<()> {
    let range = RangeRequest { start: 0, len: 10, kind: RangeKind::Exclusive };
    client.caller(false, now(), |caller| client.share.lock(caller, open, owner, LockRule::Exact, &[range]))
}

#[test]
fn a_detached_open_keeps_deny_ranges_and_right_and_is_reclaimed_with_them() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    let opened = one.open("f").disposition(Disposition::Create).deny(Deny::WRITE).keyed(1, RH).result();
    let open = opened.unwrap().open;
    let owner = one.owner(&open);
    done(lock(&one, &open, owner)).unwrap();
    leave(&one, &open, false, &losses).unwrap();
    assert!(open.is_detached());
    // Others may read, except for the locked bytes, and no break is sent.
    let reader = two.open("f").access(READ).open();
    assert_eq!(two.read(&reader), Err(Refusal::RangeConflict));
    two.close(&reader);
    reclaim(&one, &open, after(SECOND)).unwrap();
    assert!(!open.is_detached());
    assert_eq!(open.caching().unwrap().state, RH);
    let range = RangeRequest { start: 0, len: 10, kind: RangeKind::Exclusive };
    one.share.unlock(&open, owner, LockRule::Exact, &[range]).unwrap();
    assert_eq!(reclaim(&one, &open, after(SECOND)), Err(Refusal::Gone));
    assert_eq!(one.breaks(), []);
    assert!(losses.take().is_empty());
}

#[test]
fn one_that_yields_gives_way_at_once_and_the_other_does_not_wait() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    for (name, keyed) in [("keyed", true), ("single", false)] {
        let ask = one.open(name).disposition(Disposition::Create).deny(Deny::all());
        let ask = if keyed { ask.keyed(1, RWH) } else { ask.single(1, RWH) };
        let open = ask.open();
        leave(&one, &open, true, &losses).unwrap();
        let other = two.open(name).keyed(2, RWH).result().unwrap();
        assert_eq!(other.granted.unwrap().state, RWH);
        assert_eq!(losses.take(), [open.id()]);
        assert_eq!(one.breaks(), []);
        assert_eq!(reclaim(&one, &open, after(SECOND)), Err(Refusal::Gone));
        assert!(open.is_closed());
        two.close(&other.open);
    }
}

#[test]
fn writing_renaming_and_the_host_make_one_that_yields_give_way() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    let kept = |name: &str| {
        let open = one.open(name).disposition(Disposition::OpenOrCreate).keyed(1, RH).open();
        leave(&one, &open, true, &losses).unwrap();
        open
    };
    let open = kept("f");
    let other = two.open("f").open();
    assert!(open.is_detached());
    two.write(&other, 0, "text").unwrap();
    assert_eq!(losses.take(), [open.id()]);
    let open = kept("f");
    done(two.rename(&other, "g", false)).unwrap();
    assert_eq!(losses.take(), [open.id()]);
    two.close(&other);
}

#[test]
fn one_that_does_not_yield_makes_others_wait_until_its_time_is_over() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    let open = one.open("f").disposition(Disposition::Create).keyed(1, RWH).open();
    leave(&one, &open, false, &losses).unwrap();
    let second = two.open("f").keyed(2, RWH);
    waits(second.step());
    // Not even the deadline of a break revokes the right.
    assert_eq!(world.share.next_deadline(), Some(after(10 * SECOND).mono_ns));
    world.share.tick(after(9 * SECOND));
    assert_eq!((two.woken(), losses.take().len()), (0, 0));
    world.share.tick(after(10 * SECOND));
    assert_eq!(losses.take(), [open.id()]);
    assert_eq!(two.woken(), 1);
    assert_eq!(second.result().unwrap().granted.unwrap().state, RWH);
    assert_eq!(one.breaks(), []);
}

#[test]
fn who_comes_back_hears_what_was_asked_meanwhile_and_has_the_full_time_to_answer() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    let open = one.open("f").disposition(Disposition::Create).keyed(1, RWH).open();
    leave(&one, &open, false, &losses).unwrap();
    let second = two.open("f").keyed(2, RWH);
    waits(second.step());
    reclaim(&one, &open, after(5 * SECOND)).unwrap();
    assert_eq!(one.breaks(), [(RWH, RH, true)]);
    // Its time without a client is over, but it has one.
    world.share.tick(after(20 * SECOND));
    assert!(!open.is_closed());
    assert_eq!(two.woken(), 0);
    one.acknowledge(1, true, RH).unwrap();
    assert_eq!(two.woken(), 1);
    assert_eq!(second.result().unwrap().granted.unwrap().state, RH);
    assert!(losses.take().is_empty());
}

#[test]
fn what_a_client_that_is_back_removes_goes_and_what_it_may_use_again_stays() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses: Arc<Losses> = Arc::default();
    let minute = after(60 * SECOND).mono_ns;
    let keep = |open: &Arc<Open>, yields| {
        let keeper = Arc::clone(&losses) as Arc<dyn LossListener>;
        let how = Detached { until_ns: minute, yields, keeper, token: open.id() };
        one.share.detach_open(open, how, now()).unwrap();
    };
    let left = [("early", 1), ("later", 2), ("used", 3)].map(|(name, key)| {
        let open = one.open(name).disposition(Disposition::Create).keyed(key, RH).open();
        keep(&open, true);
        open
    });
    let removed_by_two = one.make("theirs");
    two.remove("theirs");
    keep(&removed_by_two, false);
    let remove = |name: &str, key, at: Now| {
        let open = one.open(name).access(Rights::DELETE).keyed(key, RH).open();
        done(one.caller(true, at, |caller| one.share.set_delete(caller, &open, true, false, false))).unwrap();
        one.close(&open);
    };
    one.share.client_returned(one.key, &one.identity.sid, after(SECOND));
    remove("early", 1, after(6 * SECOND));
    assert_eq!(one.names_in(""), ["early", "later", "theirs", "used"]);
    assert_eq!(one.share.next_deadline(), Some(after(11 * SECOND).mono_ns));
    one.share.tick(after(11 * SECOND));
    assert_eq!(one.names_in(""), ["later", "theirs", "used"]);
    assert_eq!(one.share.next_deadline(), Some(minute));
    remove("later", 2, after(20 * SECOND));
    assert_eq!(one.names_in(""), ["theirs", "used"]);
    assert_eq!(losses.take(), [left[0].id(), left[1].id()]);
    // A program may use these again.
    for open in [&left[2], &removed_by_two] {
        reclaim(&one, open, after(30 * SECOND)).unwrap();
        assert!(!open.is_detached());
    }
}

/// The storage may keep a client's reclaim waiting for long after it is back.
#[test]
fn ranges_of_a_client_that_is_back_go_to_nobody_else_before_their_time_is_over() {
    let world = TestShare::new();
    let journal = Arc::new(volume::journal::MemoryJournal::default());
    keep_opens(&world.share, journal, &[], |_| None, Now::default()).unwrap();
    let (one, two) = (world.client_of(1, user(1001)), world.client_of(2, user(1001)));
    let losses: Arc<Losses> = Arc::default();
    let kept = ["plain", "locked", "swept", "own"].map(|name| {
        let open = one.open(name).disposition(Disposition::Create).deny(Deny::all()).open();
        crate::persistence::record(&one, &open);
        if name != "plain" {
            done(lock(&one, &open, one.owner(&open))).unwrap();
        }
        let keeper = Arc::clone(&losses) as Arc<dyn LossListener>;
        let until_ns = after(60 * SECOND).mono_ns;
        let how = Detached { until_ns, yields: false, keeper, token: open.id() };
        one.share.detach_open(&open, how, now()).unwrap();
        open
    });
    let [plain, locked, swept, own] = &kept;
    one.share.client_returned(one.key, &one.identity.sid, after(SECOND));
    // It is back for five seconds, and has not asked for them.
    two.close(&two.open("plain").at(after(7 * SECOND)).open());
    assert_eq!(losses.take(), [plain.id()]);
    assert_eq!(
        two.open("locked").at(after(7 * SECOND)).without_waiting().refusal(),
        Refusal::SharingConflict
    );
    world.share.tick(after(30 * SECOND));
    assert!(losses.take().is_empty());
    assert!([locked, swept, own].iter().all(|open| open.is_detached()));
    // It has forgotten an open that is in its own way.
    one.close(&one.open("own").at(after(31 * SECOND)).open());
    assert_eq!(losses.take(), [own.id()]);
    reclaim(&one, locked, after(40 * SECOND)).unwrap();
    world.share.tick(after(60 * SECOND));
    assert_eq!(losses.take(), [swept.id()]);
}

#[test]
fn a_directory_that_cannot_be_removed_costs_no_handle_in_it() {
    let world = TestShare::new();
    let one = world.client(1);
    let losses: Arc<Losses> = Arc::default();
    one.make_directory("d");
    let open = one.open("d/f").disposition(Disposition::Create).keyed(1, RH).open();
    let keeper = Arc::clone(&losses) as Arc<dyn LossListener>;
    let how = Detached { until_ns: after(60 * SECOND).mono_ns, yields: true, keeper, token: open.id() };
    one.share.detach_open(&open, how, now()).unwrap();
    one.share.client_returned(one.key, &one.identity.sid, after(SECOND));
    let directory = one.open("d").access(Rights::DELETE).options(Options::DIRECTORY).open();
    let at = after(5 * SECOND);
    let refused = one.caller(true, at, |caller| one.share.set_delete(caller, &directory, true, false, false));
    assert!(matches!(refused, CallResult::Refused(Refusal::NotEmpty)));
    assert!(open.is_detached() && !open.is_closed());
}

#[test]
fn time_ends_a_detached_open_and_what_it_held() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    let open = one.open("f").disposition(Disposition::Create).deny(Deny::all()).keyed(1, RH).open();
    leave(&one, &open, true, &losses).unwrap();
    world.share.tick(after(10 * SECOND - Duration::from_nanos(1)));
    assert!(!open.is_closed());
    world.share.tick(after(10 * SECOND));
    assert!(open.is_closed());
    assert_eq!(losses.take(), [open.id()]);
    assert_eq!(world.share.next_deadline(), None);
    assert_eq!(world.share.open_count(), 0);
    two.close(&two.open("f").open());
}

#[test]
fn a_name_that_goes_with_a_detached_open_goes_when_that_ends() {
    let world = TestShare::new();
    let one = world.client(1);
    let losses = Arc::default();
    let ask = one.open("f").disposition(Disposition::Create).options(Options::DELETE_ON_CLOSE);
    leave(&one, &ask.keyed(1, RH).open(), true, &losses).unwrap();
    assert_eq!(one.names_in(""), ["f"]);
    world.share.tick(after(10 * SECOND));
    assert_eq!(one.names_in(""), [""; 0]);
}

#[test]
fn only_what_has_a_right_to_be_kept_open_can_yield() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    for (name, caching) in [("none", Caching::empty()), ("r", R), ("rw", RW)] {
        let open = one.open(name).disposition(Disposition::Create).keyed(1, caching).open();
        assert_eq!(leave(&one, &open, true, &losses), Err(Refusal::NoSuchGrant));
        leave(&one, &open, false, &losses).unwrap();
        one.close(&open);
    }
    // While its right is being broken, it is too late.
    let open = one.open("rwh").disposition(Disposition::Create).keyed(1, RWH).open();
    waits(two.open("rwh").step());
    assert_eq!(leave(&one, &open, true, &losses), Err(Refusal::NoSuchGrant));
    assert!(!open.is_detached());
}

// As Windows has it: smb2.durable-v2-open.lock-noW-lease
#[test]
fn what_has_locked_a_range_yields_only_with_the_right_to_keep_writes() {
    let world = TestShare::new();
    let one = world.client(1);
    let losses = Arc::default();
    for (name, right, is_kept) in [("reads", RH, false), ("writes", RWH, true)] {
        let open = one.open(name).disposition(Disposition::Create).keyed(is_kept.into(), right).open();
        let owner = one.owner(&open);
        done(lock(&one, &open, owner)).unwrap();
        assert_eq!(leave(&one, &open, true, &losses).is_ok(), is_kept, "{name}");
    }
}

#[test]
fn the_right_of_a_single_open_goes_to_the_client_that_reclaims_it() {
    let world = TestShare::new();
    let (one, two, three) = (world.client(1), world.client(2), world.client(3));
    let losses = Arc::default();
    let open = one.open("f").disposition(Disposition::Create).single(1, RWH).open();
    leave(&one, &open, true, &losses).unwrap();
    reclaim(&two, &open, after(SECOND)).unwrap();
    assert_eq!(open.client(), two.key);
    waits(three.open("f").step());
    assert_eq!((one.breaks(), two.breaks()), (vec![], vec![(RWH, R, true)]));
    two.acknowledge(1, false, R).unwrap();
    assert_eq!(three.woken(), 1);
    // A right that opens share stays with its client.
    let open = one.open("g").disposition(Disposition::Create).keyed(2, RH).open();
    leave(&one, &open, true, &losses).unwrap();
    assert_eq!(reclaim(&two, &open, after(SECOND)), Err(Refusal::Invalid));
    reclaim(&one, &open, after(SECOND)).unwrap();
}

#[test]
fn an_open_under_the_same_key_whose_client_is_there_answers_for_both() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    let gone = one.open("f").disposition(Disposition::Create).keyed(1, RWH).open();
    let _there = one.open("f").keyed(1, RWH).open();
    leave(&one, &gone, true, &losses).unwrap();
    waits(two.open("f").step());
    assert_eq!(one.breaks(), [(RWH, RH, true)]);
    one.acknowledge(1, true, RH).unwrap();
    assert_eq!(two.woken(), 1);
    assert!(gone.is_detached());
}

#[test]
fn closing_ends_a_detached_open_too_and_nobody_is_told() {
    let world = TestShare::new();
    let one = world.client(1);
    let losses = Arc::default();
    let open = one.open("f").disposition(Disposition::Create).keyed(1, RH).open();
    leave(&one, &open, true, &losses).unwrap();
    one.close(&open);
    assert_eq!(leave(&one, &open, false, &losses), Err(Refusal::Gone));
    assert_eq!(reclaim(&one, &open, after(SECOND)), Err(Refusal::Gone));
    world.share.tick(after(20 * SECOND));
    assert!(losses.take().is_empty());
}

#[test]
fn a_share_keeps_no_more_than_it_may() {
    let world = TestShare::with(Config { max_detached: 2, ..Config::default() });
    let one = world.client(1);
    let losses = Arc::default();
    let opens = ["a", "b", "c"].map(|name| one.make(name));
    leave(&one, &opens[0], false, &losses).unwrap();
    leave(&one, &opens[1], false, &losses).unwrap();
    assert_eq!(leave(&one, &opens[2], false, &losses), Err(Refusal::Exhausted));
    assert!(!opens[2].is_detached());
    reclaim(&one, &opens[0], after(SECOND)).unwrap();
    leave(&one, &opens[2], false, &losses).unwrap();
}

#[test]
fn what_gives_way_goes_when_a_table_is_full_and_what_was_promised_stays() {
    let world = TestShare::with(Config { max_opens: 2, ..Config::default() });
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    let durable = one.open("a").disposition(Disposition::Create).keyed(1, RH).open();
    let promised = one.open("b").disposition(Disposition::Create).keyed(2, RH).open();
    leave(&one, &durable, true, &losses).unwrap();
    leave(&one, &promised, false, &losses).unwrap();
    let _third = two.make("c");
    assert_eq!(reclaim(&one, &durable, after(SECOND)), Err(Refusal::Gone));
    assert!(promised.is_detached());
    assert_eq!(losses.take().len(), 1);
    // There is nothing left that could be given up.
    assert_eq!(two.open("d").disposition(Disposition::Create).refusal(), Refusal::Exhausted);
}

#[test]
fn what_gives_way_in_one_share_goes_when_another_finds_no_descriptor() {
    let descriptors = share::engine::Descriptors::new(100);
    // There are no files open only for speed that could be closed first.
    let config =
        || Config { descriptors: Arc::clone(&descriptors), metadata_caching: false, ..Config::default() };
    let (world, (other, plan)) = (TestShare::with(config()), TestShare::planned(config()));
    let one = world.client(1);
    let losses = Arc::default();
    let gone = |at: &str, key| {
        let open = one.open(at).disposition(Disposition::Create).keyed(key, RH).open();
        leave(&one, &open, true, &losses).unwrap();
        open
    };
    let durable = gone("a", 1);
    let fails = |call| plan.add(call, 1, PlannedFault::Fail(Failure::Exhausted));
    fails(VolumeCall::Create);
    other.client(2).make_with("f", "");
    assert_eq!(reclaim(&one, &durable, after(SECOND)), Err(Refusal::Gone));
    // Code that may close nothing reports it, and the share's upkeep runs.
    let durable = gone("b", 2);
    let address = other.share.root_item().address().unwrap();
    fails(VolumeCall::Lookup);
    assert_eq!(other.share.item(&address).map(|_| ()), Err(Refusal::Exhausted));
    assert!(durable.is_detached());
    other.share.maintain(after(SECOND));
    assert_eq!(reclaim(&one, &durable, after(SECOND)), Err(Refusal::Gone));
}

#[test]
fn reclaiming_and_ending_at_once_has_one_winner() {
    let world = TestShare::new();
    let one = world.client(1);
    for round in 0..200 {
        let losses = Arc::default();
        let open = one.open("f").disposition(Disposition::OpenOrCreate).keyed(1, RH).open();
        leave(&one, &open, true, &losses).unwrap();
        let reclaimed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| world.share.tick(after(10 * SECOND)));
            scope.spawn(|| {
                if reclaim(&one, &open, after(10 * SECOND)).is_ok() {
                    reclaimed.fetch_add(1, Ordering::SeqCst);
                }
            });
        });
        let (lost, reclaimed) = (losses.take().len() as u64, reclaimed.into_inner());
        assert_eq!((lost + reclaimed, lost == 1), (1, open.is_closed()), "round {round}");
        one.close(&open);
    }
}

#[test]
fn looking_at_attributes_leaves_a_detached_open_alone() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    let open = one.open("f").disposition(Disposition::Create).deny(Deny::all()).keyed(1, RWH).open();
    leave(&one, &open, true, &losses).unwrap();
    two.close(&two.open("f").access(Rights::READ_ATTRIBUTES | Rights::SYNCHRONIZE).open());
    assert!(open.is_detached());
    assert!(losses.take().is_empty());
}

#[test]
fn a_share_that_stops_closes_what_it_keeps() {
    let world = TestShare::new();
    let one = world.client(1);
    let losses = Arc::default();
    let ask = one.open("f").disposition(Disposition::Create).options(Options::DELETE_ON_CLOSE);
    let (first, second) = (ask.keyed(1, RH).open(), one.make("g"));
    leave(&one, &first, true, &losses).unwrap();
    leave(&one, &second, false, &losses).unwrap();
    world.share.end_all_detached(now());
    assert_eq!(losses.take().len(), 2);
    assert_eq!((world.share.open_count(), one.names_in("")), (0, vec!["g".to_owned()]));
}

#[test]
fn what_waits_on_behalf_of_an_open_ends_when_its_client_goes() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    let losses = Arc::default();
    one.make_with("f", "0123456789");
    let (holds, waits_for) = (two.open("f").open(), one.open("f").open());
    let owner = two.owner(&holds);
    done(lock(&two, &holds, owner)).unwrap();
    let range = RangeRequest { start: 0, len: 10, kind: RangeKind::Exclusive };
    let asks = |caller: &share::Caller<'_>| {
        world.share.lock(caller, &waits_for, one.owner(&waits_for), LockRule::Exact, &[range])
    };
    waits(one.caller(true, now(), asks));
    leave(&one, &waits_for, false, &losses).unwrap();
    assert_eq!(one.woken(), 1);
    // It does not get the range behind its client's back.
    two.close(&holds);
    reclaim(&one, &waits_for, after(SECOND)).unwrap();
    assert!(world.share.held_ranges().is_empty());
}
