//! Limits in virtual time. A share reaches its limits, never exceeds them in any ten seconds, and divides
//! them fairly.

mod pacing;

use metering::limits::{
    AccountProvision, Formula, MeteredWork, Provision, ProvisionRequest, ResponseType, Throughput,
};
use pacing::*;
use proptest::prelude::*;

/// The smallest premium share.
fn smallest() -> Provision {
    Formula::V1
        .provision(ProvisionRequest { gib: Some(100), ..ProvisionRequest::default() })
        .expect("a size that there is")
}

/// Within 2 % of `limit` a second, over any ten seconds.
fn holds(world: &PacedAccount, until_ns: u64, limit: u64, what: &str) {
    let (least, most) = world.any_ten_seconds(until_ns);
    assert!(least * 100 >= limit * 10 * 98, "{what}: only {least} in ten seconds, of {limit} a second");
    assert!(most * 100 <= limit * 10 * 102, "{what}: {most} in ten seconds, of {limit} a second");
}

#[test]
fn a_share_gives_what_it_has_and_no_more_over_any_ten_seconds() {
    for connections in [1, 4, 16] {
        for (work, limit) in
            [(read(1, 4096), 3100), (write(1, 4096), 3100), (read(1, MIB), 110), (write(1, MIB), 110)]
        {
            let mut world = PacedAccount::new(Some(Formula::V1.account()), &[smallest()]);
            for _ in 0..connections {
                world.add(Connection::new(1, 32 / connections.min(8), work));
            }
            world.run(13 * S);
            holds(&world, 13 * S, limit, &format!("{connections} connections, {work:?}"));
        }
    }
}

#[test]
fn one_request_at_a_time_gets_the_whole_rate() {
    let mut world = PacedAccount::new(None, &[smallest()]);
    world.add(Connection::new(1, 1, read(1, 4096)));
    world.run(12 * S);
    holds(&world, 12 * S, 3100, "one at a time");
}

#[test]
fn reads_and_writes_share_what_they_have_together_and_not_what_they_have_apart() {
    let mut together = PacedAccount::new(None, &[plain(1_000_000, 100 * MIB)]);
    together.add(Connection::new(1, 8, read(1, MIB)));
    together.add(Connection::new(2, 8, write(2, MIB)));
    together.run(11 * S);
    holds(&together, 11 * S, 100, "together");
    let apart = Throughput::Apart { ingress: 40 * MIB, egress: 60 * MIB };
    let mut apart = PacedAccount::new(None, &[Provision { throughput: apart, ..plain(1_000_000, 1) }]);
    let reads = apart.add(Connection::new(1, 8, read(1, MIB)));
    apart.add(Connection::new(1, 8, write(1, MIB)));
    apart.run(11 * S);
    assert!(apart.count(S, 11 * S, |who| who == reads).abs_diff(600) <= 6);
    assert!(apart.count(S, 11 * S, |who| who != reads).abs_diff(400) <= 4);
    let met = |who: usize| apart.done.iter().rev().find(|done| done.connection == who).expect("one").met;
    assert_eq!(met(reads), ResponseType::SuccessWithShareEgressThrottling);
    assert_eq!(met(1 - reads), ResponseType::SuccessWithShareIngressThrottling);
}

/// Ten thousandths of a premium share, for an hour each.
fn small_burst() -> Provision {
    Provision { operations: 31, burst: 100, burst_credits: 69 * 3600, ..plain(31, 1 << 40) }
}

#[test]
fn a_full_bucket_of_credits_lasts_exactly_an_hour_of_burst() {
    let most = small_burst().burst_credits;
    let mut world = PacedAccount::with_burst(None, &[(small_burst(), most)]);
    world.add(Connection::new(1, 8, read(1, 4096)));
    let left =
        |world: &PacedAccount, s: u64| world.shares[0].state(at(s * S)).expect("the share").burst_credits;
    world.run(1800 * S);
    let half = left(&world, 1800);
    // The slack allows one operation more or less.
    assert!(half.abs_diff(most / 2) <= 10, "half an hour has taken half of them: {half} of {most}");
    world.run(3600 * S);
    assert!(left(&world, 3600) <= 10);
    assert!(world.count(0, 3600 * S, |_| true).abs_diff(360_000) <= 10);
    world.run(3700 * S);
    assert!(
        world.count(3610 * S, 3700 * S, |_| true).abs_diff(90 * 31) <= 3,
        "then the rate it has for ever"
    );
    assert_eq!(left(&world, 3700), 0, "and nothing accrues at that rate");
}

#[test]
fn burst_accrues_by_what_is_not_used_and_to_no_more_than_there_is_room_for() {
    let mut world = PacedAccount::with_burst(None, &[(small_burst(), 1000)]);
    // One request at a time with 100 µs between would exceed the rate. So a connection sends ten requests a
    // second.
    for tenth in 0..6000 {
        let from_ns = tenth * S / 10;
        let one = Connection { from_ns, until_ns: from_ns + 1, ..Connection::new(1, 1, read(1, 4096)) };
        world.add(one);
    }
    world.run(600 * S);
    let left = world.shares[0].state(at(600 * S)).expect("the share").burst_credits;
    assert!(left.abs_diff(1000 + 600 * 21) <= 2, "{left}");
    let idle = world.shares[0].state(at(100_000 * S)).expect("the share");
    assert_eq!(idle.burst_credits, small_burst().burst_credits);
}

#[test]
fn nothing_accrues_while_the_share_is_held_back_by_its_throughput() {
    // The bytes allow only ten operations a second, of thirty-one.
    let provision = Provision { throughput: Throughput::Together(10 * MIB), ..small_burst() };
    let mut world = PacedAccount::with_burst(None, &[(provision, 500)]);
    world.add(Connection::new(1, 4, read(1, MIB)));
    world.run(100 * S);
    let left = world.shares[0].state(at(100 * S)).expect("the share").burst_credits;
    assert!(left.abs_diff(500) <= 4, "{left}");
}

#[test]
fn clients_get_the_same_whatever_they_have_under_way() {
    let equal = |a: Vec<Connection>, b: Vec<Connection>, unit: &str, weigh: (u64, u64)| {
        let mut world = PacedAccount::new(None, &[plain(2000, 100 * MIB)]);
        let first = a.len();
        a.into_iter().chain(b).for_each(|connection| {
            world.add(connection);
        });
        world.run(11 * S);
        let (a, b) = (
            world.count(S, 11 * S, |who| who < first) * weigh.0,
            world.count(S, 11 * S, |who| who >= first) * weigh.1,
        );
        assert!(a.abs_diff(b) * 100 <= a.max(b) * 5, "{a} and {b} {unit}");
    };
    let one = |client, depth, work| vec![Connection::new(client, depth, work)];
    equal(one(1, 32, read(1, 4096)), one(2, 8, read(2, 4096)), "operations", (1, 1));
    equal(one(1, 32, read(1, MIB)), one(2, 4, write(2, MIB)), "MiB", (1, 1));
    equal(one(1, 32, read(1, 4 * MIB)), one(2, 32, read(2, MIB)), "MiB", (4, 1));
    // Sixteen connections of one client against one of another, and on one file.
    equal(vec![Connection::new(1, 4, read(1, 4096)); 16], one(2, 16, read(1, 4096)), "operations", (1, 1));
}

#[test]
fn connections_and_files_of_a_client_get_the_same() {
    let mut world = PacedAccount::new(None, &[plain(2000, 1 << 40)]);
    for (inode, depth) in [(1, 32), (2, 4), (3, 8), (1, 16)] {
        world.add(Connection::new(1, depth, read(inode, 4096)));
    }
    world.run(11 * S);
    for who in 0..4 {
        let done = world.count(S, 11 * S, |one| one == who);
        assert!(done.abs_diff(5000) <= 250, "{who}: {done}");
    }
}

#[test]
fn nobody_waits_much_longer_than_their_share_takes_and_the_line_is_flat() {
    let mut world = PacedAccount::new(None, &[plain(2000, 1 << 40)]);
    world.add(Connection::new(1, 64, read(1, 4096)));
    world.add(Connection::new(2, 2, read(2, 4096)));
    world.run(5 * S);
    for tenth in 10..50 {
        let done = world.count(tenth * S / 10, (tenth + 1) * S / 10, |_| true);
        assert!(done.abs_diff(200) <= 3, "{done} in the tenth {tenth}");
    }
    // Two of its own requests of a thousandth of a second each, and the grain of the alarm.
    let longest = world.done.iter().filter(|done| done.connection == 1 && done.at_ns > S);
    let longest = longest.map(|done| done.waited_ns).max().expect("requests");
    assert!(longest <= 3 * MS, "{longest}");
}

#[test]
fn a_throttled_share_costs_its_neighbour_nothing() {
    let account = AccountProvision { operations: 10_000, throughput: Throughput::Together(1 << 40) };
    let neighbour = |busy: bool| {
        let mut world = PacedAccount::new(Some(account), &[plain(1000, 1 << 40), plain(500, 1 << 40)]);
        world.add(Connection::new(1, 2, read(1, 4096)).on(0));
        if busy {
            world.add(Connection::new(2, 64, read(2, 4096)).on(1));
        }
        world.run(5 * S);
        world.count(0, 5 * S, |who| who == 0)
    };
    let (alone, beside) = (neighbour(false), neighbour(true));
    assert!(alone.abs_diff(beside) <= 1, "{alone} alone, {beside} beside a throttled share");
    // In virtual time to the nanosecond, for a share that is not throttled itself.
    let times = |busy: bool| {
        let mut world = PacedAccount::new(Some(account), &[plain(1_000_000, 1 << 40), plain(100, 1 << 40)]);
        for n in 0..1000 {
            let from_ns = n * MS;
            let one = Connection { from_ns, until_ns: from_ns + 1, ..Connection::new(1, 1, read(1, 4096)) };
            world.add(one.on(0));
        }
        if busy {
            world.add(Connection::new(2, 64, read(2, 4096)).on(1));
        }
        world.run(2 * S);
        let own = world.done.iter().filter(|done| done.connection < 1000);
        own.map(|done| (done.at_ns, done.waited_ns, done.met)).collect::<Vec<_>>()
    };
    assert_eq!(times(false), times(true));
}

#[test]
fn shares_that_want_more_than_the_account_has_get_the_same_of_it() {
    let account = AccountProvision { operations: 1000, throughput: Throughput::Together(1 << 40) };
    let mut world = PacedAccount::new(Some(account), &[plain(800, 1 << 40), plain(800, 1 << 40)]);
    world.add(Connection::new(1, 32, read(1, 4096)).on(0));
    world.add(Connection::new(2, 8, read(2, 4096)).on(1));
    world.run(11 * S);
    holds(&world, 11 * S, 1000, "the account");
    for who in 0..2 {
        assert!(world.count(S, 11 * S, |one| one == who).abs_diff(5000) <= 50);
    }
    assert_eq!(world.done.last().expect("one").met, ResponseType::SuccessWithThrottling);
}

#[test]
fn a_single_file_has_its_own_limit_and_others_are_not_held_by_it() {
    let provision = Provision { file_operations: 800, file_bytes: 60 * MIB, ..plain(2000, 1 << 40) };
    let mut world = PacedAccount::new(None, &[provision]);
    for connection in 0..4 {
        world.add(Connection::new(connection, 16, read(1, 4096)));
    }
    world.add(Connection { until_ns: 6 * S, ..Connection::new(9, 2, read(2, 4096)) });
    world.run(11 * S);
    let file = world.count(S, 11 * S, |who| who < 4);
    assert!(file.abs_diff(8000) <= 80, "{file}");
    let other = world.count(S, 6 * S, |who| who == 4);
    assert!(other.abs_diff(4000) <= 80, "another file gets its own limit: {other}");
    let mut bytes = PacedAccount::new(None, &[provision]);
    bytes.add(Connection::new(1, 8, write(1, MIB)));
    bytes.run(11 * S);
    holds(&bytes, 11 * S, 60, "bytes of one file");
}

#[test]
fn metadata_is_counted_apart_and_warns_before_it_holds() {
    let provision = Provision { metadata: 1000, ..plain(1000, 1 << 40) };
    let mut world = PacedAccount::new(None, &[provision]);
    let data = world.add(Connection::new(1, 8, read(1, 4096)));
    let names = world.add(Connection::new(1, 8, MeteredWork::Metadata));
    world.run(11 * S);
    for who in [data, names] {
        assert!(world.count(S, 11 * S, |one| one == who).abs_diff(10_000) <= 100);
    }
    let last = world.done.iter().rev().find(|done| done.connection == names).expect("one");
    assert_eq!(last.met, ResponseType::SuccessWithMetadataThrottling);
    // At 95 % of the limit no request is held, but each is told that the limit is near.
    let mut near = PacedAccount::new(None, &[provision]);
    for n in 0..4750 {
        let from_ns = n * S / 950;
        let one =
            Connection { from_ns, until_ns: from_ns + 1, ..Connection::new(1, 1, MeteredWork::Metadata) };
        near.add(one);
    }
    near.run(5 * S);
    assert!(near.done.iter().all(|done| done.waited_ns == 0));
    assert_eq!(near.done[0].met, ResponseType::Success);
    assert_eq!(near.done.last().expect("one").met, ResponseType::SuccessWithMetadataWarning);
    let counts = near.shares[0].state(at(5 * S)).expect("the share").counts;
    assert_eq!(counts.iter().sum::<u64>(), 4750);
}

#[test]
fn who_leaves_takes_nothing_and_what_was_not_used_is_given_back() {
    let mut world = PacedAccount::new(None, &[plain(10, 1 << 40)]);
    let gone = world.add(Connection { until_ns: S, ..Connection::new(1, 100, read(1, 4096)) });
    let stays = world.add(Connection::new(2, 1, read(2, 4096)));
    world.run(S / 2);
    world.leave(gone);
    assert!(world.held() <= 1);
    world.run(21 * S / 2);
    assert!(
        world.count(S, 11 * S, |who| who == stays) >= 94,
        "the places of who left are passed over at once"
    );
    // Each request asks for a MiB, of which a 64th exists.
    let mut short = PacedAccount::new(None, &[plain(1_000_000, MIB)]);
    short.add(Connection { unused: MIB / 64 * 63, ..Connection::new(1, 4, read(1, MIB)) });
    short.run(11 * S);
    holds(&short, 11 * S, 64, "what was there");
}

#[test]
fn limits_can_be_changed_while_requests_wait() {
    let mut world = PacedAccount::new(None, &[plain(10, 1 << 40)]);
    world.add(Connection::new(1, 32, read(1, 4096)));
    world.run(5 * S);
    world.limits.set_share(0, plain(1000, 1 << 40), None, at(5 * S));
    world.run(15 * S);
    let after = world.count(5 * S, 15 * S, |_| true);
    assert!(after.abs_diff(10_000) <= 200, "{after}");
    world.limits.remove_share(0);
    world.run(15 * S + 2 * MS);
    assert_eq!(world.held(), 0, "who was held by limits that are gone goes on");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any mixture of connections. No stretch of time exceeds the rate and the slack, no client starves, and
    /// every request ends.
    #[test]
    fn any_mixture_keeps_the_limit_and_starves_nobody(
        operations in 50u64..2000,
        kib in 64u64..100_000,
        file_operations in 20u64..3000,
        connections in prop::collection::vec((0u128..4, 1u64..24, 0u64..4, 1u64..2000, any::<bool>()), 1..8),
    ) {
        let bytes = kib * 1024;
        let provision = Provision { file_operations, ..plain(operations, bytes) };
        let mut world = PacedAccount::new(None, &[provision]);
        let until_ns = 4 * S;
        for (client, depth, inode, len_kib, writes) in &connections {
            let len = len_kib * 1024;
            let work = if *writes { write(*inode, len) } else { read(*inode, len) };
            world.add(Connection { until_ns, ..Connection::new(*client, *depth, work) });
        }
        world.run(until_ns);
        let len = |done: &CompletedRequest| match world.connections[done.connection].work {
            MeteredWork::Read { len, .. } | MeteredWork::Write { len, .. } => len,
            MeteredWork::Metadata => 0,
        };
        // A bucket that leaks at the limit never holds more than the slack and the one request that overdraws
        // it. For operations, add those that have passed that gate and wait at the next one.
        let waiting_most: u64 = connections.iter().map(|one| one.1).sum();
        let largest = world.done.iter().map(&len).max().unwrap_or(0);
        for (rate, most_at_once, cost) in [
            (
                operations,
                waiting_most + 1,
                &(|_: &CompletedRequest| 1u64) as &dyn Fn(&CompletedRequest) -> u64,
            ),
            (bytes, largest, &len as &dyn Fn(&CompletedRequest) -> u64),
        ] {
            let (mut level, mut last) = (0f64, 0u64);
            for done in &world.done {
                level = (level - (done.at_ns - last) as f64 * rate as f64 / S as f64).max(0.0);
                last = done.at_ns;
                level += cost(done) as f64;
                let most = rate as f64 * 0.05 + most_at_once as f64 + 1.0;
                prop_assert!(level <= most, "{level} of {most}");
            }
        }
        // Every waiting request ends within the time that the limits need for all of them, plus the debt of
        // the last one that passed.
        let waiting = world.held() as u64;
        let each = S / file_operations.min(operations);
        let total: u64 = connections.iter().map(|one| one.1 * (one.3 * S / kib + each)).sum();
        let owed = connections.iter().map(|one| one.3 * S / kib).max().unwrap_or(0);
        world.run(until_ns + total + owed + 2 * S);
        prop_assert_eq!(world.held(), 0);
        prop_assert!(waiting <= waiting_most);
    }
}

#[test]
fn what_was_done_is_owed_by_the_share_though_nobody_waits_for_the_answer_and_what_was_not_done_costs_nothing()
{
    use metering::limits::{Alarm, Limits, ThrottleDecision, ThrottleRequest};
    struct SilentAlarm;
    impl Alarm for SilentAlarm {
        fn set(&self, _: u64) {}
    }
    impl metering::Wake for SilentAlarm {
        fn wake(&self, _: u64) {}
    }
    /// When the first request passes after `asked` requests of 1 MiB each that were given up.
    fn passes_after(is_done: bool, is_charged: bool) -> u64 {
        let limits = Limits::new(None, std::sync::Arc::new(SilentAlarm), at(0));
        let share = limits.set_share(1, plain(1_000_000, 10 * MIB), None, at(0));
        let waiter = metering::Waiter { wake: std::sync::Arc::new(SilentAlarm), token: 1 };
        let client = metering::ClientKey(1);
        let work = write(1, MIB);
        let ask = ThrottleRequest { client, connection: 1, work, waiter: &waiter };
        for _ in 0..20 {
            match share.ask(&ask, at(0)) {
                ThrottleDecision::Go(_, charge) => charge.used_up(),
                ThrottleDecision::Held(hold) if is_done => drop(hold.is_done()),
                ThrottleDecision::Held(hold) => drop(hold),
            }
        }
        if is_charged {
            share.charge(work, at(0)).used_up();
        }
        let ThrottleDecision::Held(hold) = share.ask(&ask, at(0)) else { return 0 };
        let mut now = 0;
        while hold.released().is_none() {
            now = limits.release(at(now)).unwrap_or(now).max(now + 1);
        }
        now
    }
    // Half of the first MiB was in the bucket already.
    assert!(passes_after(false, false).abs_diff(S / 20) < S / 100);
    let owed = passes_after(true, false);
    assert!(owed.abs_diff(2 * S - S / 20) < S / 100, "twenty at ten a second: {owed}");
    let charged = passes_after(true, true);
    assert!(charged.abs_diff(owed + S / 10) < S / 100, "one more: {charged}");
}
