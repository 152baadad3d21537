//! A request gives back the bytes that it has not used, however it ends, and at every gate that it has
//! passed.

use std::sync::Arc;

use metering::limits::{
    AccountProvision, Alarm, Charge, Hold, Limits, MeteredWork, Provision, ShareLimits, ThrottleDecision,
    ThrottleRequest, Throughput,
};
use metering::{ClientKey, FileNumber, Waiter, Wake};
use wire::Now;

/// Bytes a second of a file. A share has twice as much, an account four times.
const RATE: u64 = 50_000_000;
/// The tokens in the full bucket of a file.
const FULL: i64 = 2_500_000;
const LEN: u64 = 1_000_000;
const MS: u64 = 1_000_000;

/// An alarm that does nothing: the test lets time pass and checks which requests are released.
struct NoAlarm;

impl Alarm for NoAlarm {
    fn set(&self, _at_ns: u64) {}
}

impl Wake for NoAlarm {
    fn wake(&self, _token: u64) {}
}

/// The narrowest gate of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NarrowestGate {
    File,
    Share,
    Account,
}

struct LimitsFixture {
    limits: Arc<Limits>,
    share: ShareLimits,
    other: ShareLimits,
    now_ns: u64,
}

fn at(ns: u64) -> Now {
    Now { mono_ns: ns, wall_ns: 0 }
}

fn read(inode: u64, len: u64) -> MeteredWork {
    MeteredWork::Read { file: FileNumber { device: 1, inode }, len }
}

impl LimitsFixture {
    fn new(is_apart: bool) -> LimitsFixture {
        let throughput = |rate| match is_apart {
            true => Throughput::Apart { ingress: rate, egress: rate },
            false => Throughput::Together(rate),
        };
        let account = AccountProvision { operations: 1 << 30, throughput: throughput(4 * RATE) };
        let provision = Provision {
            operations: 1 << 30,
            burst: 1 << 30,
            burst_credits: 0,
            throughput: throughput(2 * RATE),
            metadata: 1000,
            file_operations: 1 << 30,
            file_bytes: RATE,
            file_size: 4 << 40,
        };
        let limits = Limits::new(Some(account), Arc::new(NoAlarm), at(0));
        let [share, other] = [1, 2].map(|share| limits.set_share(share, provision, None, at(0)));
        LimitsFixture { limits, share, other, now_ns: 0 }
    }

    fn left(&self) -> Vec<i64> {
        self.share.bytes_left(read(1, 0), at(self.now_ns))
    }

    fn ask(&self, work: MeteredWork) -> ThrottleDecision {
        let waiter = Waiter { wake: Arc::new(NoAlarm), token: 1 };
        let ask = ThrottleRequest { client: ClientKey(1), connection: 1, work, waiter: &waiter };
        self.share.ask(&ask, at(self.now_ns))
    }

    fn pass(&self) -> Charge {
        match self.ask(read(1, LEN)) {
            ThrottleDecision::Go(_, charge) => charge,
            ThrottleDecision::Held(hold) => panic!("held: {hold:?}"),
        }
    }

    /// A request that waits at one gate and has passed those before.
    fn hold(&self, narrow: NarrowestGate) -> Hold {
        let now = at(self.now_ns);
        match narrow {
            NarrowestGate::File => self.share.charge(read(1, 3 * LEN), now).used_up(),
            NarrowestGate::Share => {
                (2..6).for_each(|file| self.share.charge(read(file, 3 * LEN / 2), now).used_up())
            }
            NarrowestGate::Account => self.other.charge(read(1, 11 * LEN), now).used_up(),
        }
        match self.ask(read(1, LEN)) {
            ThrottleDecision::Held(hold) => hold,
            ThrottleDecision::Go(..) => panic!("it passes"),
        }
    }

    /// Lets time pass until the request is released.
    fn release(&mut self, hold: &Hold) {
        self.now_ns += 20 * MS;
        self.limits.release(at(self.now_ns));
        assert!(hold.released().is_some());
    }
}

const LEN_I: i64 = LEN as i64;

/// The tokens taken from each gate since `before`, if no time has passed.
fn costs(scene: &LimitsFixture, before: &[i64]) -> Vec<i64> {
    before.iter().zip(scene.left()).map(|(before, after)| before - after).collect()
}

#[test]
fn what_passes_at_once_costs_what_it_uses() {
    for is_apart in [false, true] {
        let scene = LimitsFixture::new(is_apart);
        let before = scene.left();
        assert_eq!(before, [FULL, 2 * FULL, 4 * FULL]);
        let charge = scene.pass();
        assert_eq!(costs(&scene, &before), [LEN_I; 3]);
        drop(charge);
        assert_eq!(costs(&scene, &before), [0; 3]);
        scene.pass().used(300_000);
        assert_eq!(costs(&scene, &before), [300_000; 3]);
        scene.pass().used(0);
        assert_eq!(costs(&scene, &before), [300_000; 3]);
        // More than was asked for is not taken.
        scene.pass().used(usize::MAX);
        assert_eq!(costs(&scene, &before), [300_000 + LEN_I; 3]);
        scene.pass().used_up();
        assert_eq!(costs(&scene, &before), [300_000 + 2 * LEN_I; 3]);
    }
}

#[test]
fn bytes_that_come_in_are_counted_where_those_are_that_go_out_only_if_both_have_one_rate() {
    for is_apart in [false, true] {
        let scene = LimitsFixture::new(is_apart);
        let before = scene.left();
        let write = MeteredWork::Write { file: FileNumber { device: 1, inode: 1 }, len: LEN };
        let ThrottleDecision::Go(_, charge) = scene.ask(write) else { panic!("it passes") };
        let shared = if is_apart { 0 } else { LEN_I };
        assert_eq!(costs(&scene, &before), [LEN_I, shared, shared]);
        drop(charge);
        assert_eq!(costs(&scene, &before), [0; 3]);
    }
}

#[test]
fn what_is_given_up_while_it_is_held_costs_nothing_at_the_gates_that_it_has_passed() {
    for narrow in [NarrowestGate::File, NarrowestGate::Share, NarrowestGate::Account] {
        let scene = LimitsFixture::new(false);
        let hold = scene.hold(narrow);
        let held = scene.left();
        drop(hold);
        let passed = narrow as i64;
        let back: Vec<i64> = (0..3).map(|gate| if gate < passed { -LEN_I } else { 0 }).collect();
        assert_eq!(costs(&scene, &held), back, "{narrow:?}");
    }
}

#[test]
fn what_is_done_while_it_is_held_costs_all_of_it_everywhere() {
    for narrow in [NarrowestGate::File, NarrowestGate::Share, NarrowestGate::Account] {
        for goes_on in [false, true] {
            let scene = LimitsFixture::new(false);
            let hold = scene.hold(narrow);
            let held = scene.left();
            match goes_on {
                // It stops waiting, and uses all its bytes.
                true => hold.go().used_up(),
                false => drop(hold.is_done()),
            }
            let passed = narrow as i64;
            let owed: Vec<i64> = (0..3).map(|gate| if gate < passed { 0 } else { LEN_I }).collect();
            assert_eq!(costs(&scene, &held), owed, "{narrow:?}");
        }
    }
}

#[test]
fn what_goes_on_without_waiting_costs_what_it_uses() {
    for narrow in [NarrowestGate::File, NarrowestGate::Share, NarrowestGate::Account] {
        let scene = LimitsFixture::new(false);
        let hold = scene.hold(narrow);
        let held = scene.left();
        hold.go().used(1000);
        let passed = narrow as i64;
        let used: Vec<i64> = (0..3).map(|gate| if gate < passed { 1000 - LEN_I } else { 1000 }).collect();
        assert_eq!(costs(&scene, &held), used, "{narrow:?}");
    }
}

#[test]
fn what_was_released_costs_what_it_uses_also_if_nobody_comes_to_it() {
    for narrow in [NarrowestGate::File, NarrowestGate::Share, NarrowestGate::Account] {
        for (ends, used) in [(0, 0), (1, 0), (2, 1000), (3, LEN_I), (4, LEN_I)] {
            let mut scene = LimitsFixture::new(false);
            let hold = scene.hold(narrow);
            let gate = narrow as usize;
            let rate = (RATE << gate) as i64;
            let before = scene.left()[gate];
            scene.release(&hold);
            match ends {
                0 => drop(hold),
                1 => drop(hold.go()),
                2 => hold.go().used(1000),
                3 => hold.go().used_up(),
                _ => drop(hold.is_done()),
            }
            assert_eq!(scene.left()[gate], before + rate / 50 - used, "{narrow:?}, {ends}");
        }
    }
}

#[test]
fn what_is_given_back_lets_others_pass_earlier() {
    let mut scene = LimitsFixture::new(false);
    let first = scene.pass();
    let second = scene.pass();
    let third = scene.pass();
    let ThrottleDecision::Held(hold) = scene.ask(read(1, LEN)) else {
        panic!("half a million too much is taken")
    };
    assert!(hold.released().is_none());
    drop((first, second, third));
    scene.now_ns += 1;
    scene.limits.release(at(scene.now_ns));
    assert!(hold.released().is_some());
}

#[test]
fn a_share_that_is_taken_out_and_put_in_again_is_given_nothing_that_was_taken_before() {
    let scene = LimitsFixture::new(false);
    let account = scene.left()[2];
    let charge = scene.pass();
    let hold = scene.hold(NarrowestGate::Account);
    let owed = scene.left()[2];
    let provision = scene.share.state(at(0)).expect("the share").provision;
    scene.limits.remove_share(1);
    assert!(hold.released().is_some(), "nothing limits it any more");
    let share = scene.limits.set_share(1, provision, None, at(0));
    drop(hold.go());
    assert_eq!(share.bytes_left(read(1, 0), at(0)), [FULL, 2 * FULL, owed]);
    drop(charge);
    assert_eq!(share.bytes_left(read(1, 0), at(0)), [FULL, 2 * FULL, owed + LEN_I]);
    assert!(owed + LEN_I < account);
}

#[test]
fn work_on_names_and_reads_of_nothing_have_no_bytes_to_give_back() {
    let scene = LimitsFixture::new(false);
    let before = scene.left();
    for work in [MeteredWork::Metadata, read(1, 0)] {
        let ThrottleDecision::Go(_, charge) = scene.ask(work) else { panic!("it passes") };
        charge.used(1000);
    }
    drop(Charge::default());
    assert_eq!(costs(&scene, &before), [0; 3]);
}
