//! Situations for the rules. For each fault the table has the layer and the kind of the leading finding.
//! For sound servers of many kinds nothing must be found.

use super::tests_support::{Situation, large, situation, small};
use super::*;
use crate::finding::Layer;
use crate::measurements::{
    Address, Cause, Channel, Connects, Interface, NfsProperties, Protocol, Sawtooth, Scope, SmbProperties,
    Stage, Stopped, Traffic,
};
use crate::mount::{Mount, MountConnection};
use crate::verdict::{ShareHealth, verdict};

/// A server in the same rack that is as fast over one connection as over four.
pub(super) const NEAR: Situation =
    Situation { rtt_ms: 0.3, single: 900.0, best: 950.0, got: 4, separate: false };
/// A server behind a long path that limits each connection.
pub(super) const FAR: Situation =
    Situation { rtt_ms: 23.0, single: 23.0, best: 91.0, got: 4, separate: false };

fn smb(target: &mut TargetMeasurements) -> &mut SmbProperties {
    match &mut target.protocol {
        Some(Protocol::Smb(smb)) => smb,
        other => panic!("{other:?} is not SMB"),
    }
}

pub(super) fn runs(target: &mut TargetMeasurements) -> &mut Vec<Run> {
    &mut target.data.get_or_insert_default().runs
}

pub(super) fn under_load(target: &mut TargetMeasurements, ms: f64) {
    if let Some(transport) = &mut target.transport {
        let connects = Some(Connects { sent: 3, lost: 0, times_ms: vec![ms; 3] });
        (transport.connect_under_load, transport.connect_under_writes) = (connects.clone(), connects);
    }
}

fn offer(target: &mut TargetMeasurements, address: &str, rss: bool, reachable: bool) {
    let address = address.parse().unwrap();
    let (selected, reason) = (reachable, None);
    let offered = Interface {
        address,
        index: 2,
        mbit: 1000,
        rss,
        rdma: false,
        selected,
        reachable: Some(reachable),
        reason,
    };
    target.connections.get_or_insert_default().interfaces.push(offered);
}

fn set_channels(target: &mut TargetMeasurements, rates: [f64; 4]) {
    set_channels_to(target, &rates.map(|rate| (1, rate)));
}

/// Channels by the last part of their address, and their rates.
fn set_channels_to(target: &mut TargetMeasurements, all: &[(u8, f64)]) {
    let channel = |(host, mib_s): &(u8, f64)| Channel {
        local: "10.0.0.2:4000".parse().unwrap(),
        peer: ([10, 0, 0, *host], 445).into(),
        mib_s: Some(*mib_s),
        busy: Some(0.9),
        tcp: None,
    };
    target.connections.get_or_insert_default().channels = all.iter().map(channel).collect();
}

fn traffic(target: &mut TargetMeasurements, change: impl Fn(&mut Traffic)) {
    for run in runs(target) {
        change(run.tcp.get_or_insert_default());
    }
}

/// The leading part of the verdict.
pub(super) fn leading(target: &TargetMeasurements) -> (ShareHealth, Option<Layer>, Option<&'static str>) {
    let found = findings(target);
    let verdict = verdict(target, &found);
    let kind = verdict.changes.first().map(|it| it.because);
    (verdict.state, verdict.layer, kind)
}

type Fault = (&'static str, Situation, fn(&mut TargetMeasurements), Layer, &'static str);

const FAULTS: &[Fault] = &[
    (
        "Multichannel is off at the server",
        Situation { got: 1, separate: true, ..FAR },
        |target| smb(target).capabilities = vec!["large MTU"],
        Layer::Connections,
        "multichannel_off",
    ),
    (
        "receive side scaling is not told",
        Situation { got: 1, separate: true, ..FAR },
        |target| {
            offer(target, "10.0.0.1", false, true);
            target.connections.get_or_insert_default().offered = true;
        },
        Layer::Connections,
        "no_rss",
    ),
    (
        "receive side scaling is not told, on a path that loses too",
        Situation { got: 1, separate: true, ..FAR },
        |target| {
            offer(target, "10.0.0.1", false, true);
            target.connections.get_or_insert_default().offered = true;
            traffic(target, |it| it.sent_again = 50);
        },
        Layer::Connections,
        "no_rss",
    ),
    (
        "Multichannel is off at the client",
        Situation { got: 1, separate: true, ..FAR },
        |target| {
            let connections = target.connections.get_or_insert_default();
            (connections.offered, connections.client_off) = (true, true);
        },
        Layer::Connections,
        "client_multichannel_off",
    ),
    (
        "an address is offered that nobody reaches",
        NEAR,
        |target| {
            offer(target, "10.0.0.1", true, true);
            offer(target, "203.0.113.9", true, false);
        },
        Layer::Connections,
        "unreachable_address",
    ),
    (
        "one channel of four is slow",
        NEAR,
        |target| set_channels(target, [30.0, 31.0, 1.0, 29.0]),
        Layer::Connections,
        "slow_channel",
    ),
    (
        "one channel of four is slow, and the others differ",
        NEAR,
        |target| set_channels(target, [80.1, 674.0, 309.6, 8.3]),
        Layer::Connections,
        "slow_channel",
    ),
    (
        "both channels to one address are slow",
        NEAR,
        |target| {
            let rates = [80.0, 90.0, 70.0, 5.0, 85.0, 75.0, 80.0, 6.0];
            let all: Vec<(u8, f64)> = [1, 2, 3, 4, 1, 2, 3, 4].into_iter().zip(rates).collect();
            set_channels_to(target, &all);
        },
        Layer::Connections,
        "slow_channel",
    ),
    (
        "one of the channels to an address is slow",
        NEAR,
        |target| set_channels_to(target, &[(1, 80.0), (1, 4.0), (2, 90.0), (2, 70.0)]),
        Layer::Connections,
        "slow_channel",
    ),
    (
        "the line is narrow towards the server alone",
        Situation { rtt_ms: 20.0, single: 11.5, best: 11.6, got: 4, separate: false },
        |target| {
            let runs = runs(target);
            runs.retain(|run| run.work != RunKind::Write);
            runs.extend([1, 2, 4].map(|count| large(RunKind::Write, count, 1.2, 20.0)));
            // The other direction is free: a connect waits only behind writes.
            if let Some(transport) = &mut target.transport {
                transport.connect_under_load = Some(Connects { sent: 3, lost: 0, times_ms: vec![21.0; 3] });
                transport.connect_under_writes =
                    Some(Connects { sent: 3, lost: 0, times_ms: vec![320.0; 3] });
            }
            // Reads do not stop at any rate here.
            let data = target.data.get_or_insert_default();
            data.runs.retain(|run| !matches!(run.work, RunKind::Read | RunKind::ReadAgain));
            data.runs.extend(
                [(1, 11.5), (2, 23.0), (4, 46.0)]
                    .map(|(count, rate)| large(RunKind::Read, count, rate, 20.0)),
            );
        },
        Layer::Transport,
        "narrow",
    ),
    (
        "the window of this host is small",
        Situation { single: 1.3, best: 5.2, ..FAR },
        |target| {
            if let Some(transport) = &mut target.transport {
                transport.receive_window = Some(32 << 10);
            }
        },
        Layer::Transport,
        "window",
    ),
    (
        "the window of the server is small",
        Situation { single: 1.3, best: 5.2, ..FAR },
        |target| traffic(target, |it| it.held_by_peer_window = 0.9),
        Layer::Transport,
        "window",
    ),
    (
        "the path loses packets",
        Situation { single: 2.0, best: 8.0, ..FAR },
        |target| traffic(target, |it| it.sent_again = 50),
        Layer::Transport,
        "loss",
    ),
    (
        "the path loses packets, and rates stop and fall for that",
        Situation { single: 20.0, best: 20.2, ..FAR },
        |target| {
            traffic(target, |it| it.sent_again = 50);
            let runs = runs(target);
            runs.retain(|run| run.work != RunKind::ReadAgain);
            runs.push(large(RunKind::ReadAgain, 1, 5.0, 23.0));
            target.metadata.get_or_insert_default().operations[0].median_ms = 130.0;
        },
        Layer::Transport,
        "loss",
    ),
    (
        "the path loses large packets",
        NEAR,
        |target| {
            let packets = crate::measurements::Packets { arrived: 1400, lost: Some(1420), sent_again: 3 };
            target.transport.get_or_insert_default().packets = Some(packets);
            // Nothing else could be measured.
            (target.data, target.metadata) = (None, None);
        },
        Layer::Transport,
        "black_hole",
    ),
    (
        "connects are lost",
        NEAR,
        |target| {
            if let Some(transport) = &mut target.transport {
                transport.connect.times_ms[3] += 1000.0;
            }
        },
        Layer::Transport,
        "loss",
    ),
    (
        "the path carries 10 Mbit/s",
        Situation { rtt_ms: 5.0, single: 1.13, best: 1.14, got: 4, separate: false },
        |target| {
            under_load(target, 80.0);
            traffic(target, |it| {
                it.sent_again = 90;
                it.rtt_ms = 80.0;
            });
        },
        Layer::Transport,
        "narrow",
    ),
    (
        "small answers are held by a timer",
        NEAR,
        |target| smb(target).echo_ms = vec![40.2, 40.3, 41.0, 40.1, 40.4],
        Layer::Transport,
        "held_answers",
    ),
    (
        "everything is sealed",
        NEAR,
        |target| {
            let smb = smb(target);
            (smb.seals, smb.cipher, smb.protection_ns_per_mib) =
                (true, Some("Aes256Ccm".to_owned()), Some(900_000.0));
        },
        Layer::Protocol,
        "sealing",
    ),
    (
        "signing is slow for a busy client",
        NEAR,
        |target| {
            let smb = smb(target);
            smb.signs = true;
            smb.signing = "AesCmac".to_owned();
            smb.protection_ns_per_mib = Some(850_000.0);
            runs(target).iter_mut().for_each(|run| run.own_processors = 0.98);
        },
        Layer::Protocol,
        "signing",
    ),
    ("few credits", FAR, |target| smb(target).credits = 8, Layer::Protocol, "credits"),
    ("64 KiB at most", FAR, |target| smb(target).max_read = 64 << 10, Layer::Protocol, "small_requests"),
    ("clocks differ", NEAR, |target| smb(target).clock_ahead_ms = -3_600_000, Layer::Protocol, "clock"),
    (
        "few slots",
        FAR,
        |target| {
            let (slots, slots_asked, max_io, minor_version) = (2, 128, 1 << 20, 2);
            let nfs = NfsProperties { slots, slots_asked, max_io, minor_version, ..Default::default() };
            target.protocol = Some(Protocol::Nfs(nfs));
        },
        Layer::Protocol,
        "slots",
    ),
    (
        "1,000 operations a second",
        NEAR,
        |target| {
            let runs = runs(target);
            runs.retain(|run| run.work != RunKind::SmallRead);
            runs.extend([(1, 990.0), (8, 1000.0), (64, 1000.0)].map(|(depth, rate)| small(depth, rate)));
        },
        Layer::Limits,
        "operations_limit",
    ),
    (
        "60 MiB a second",
        Situation { single: 60.0, best: 60.2, ..NEAR },
        |_| {},
        Layer::Limits,
        "throughput_limit",
    ),
    (
        "reads are limited and writes are not",
        NEAR,
        |target| {
            let runs = runs(target);
            runs.retain(|run| !matches!(run.work, RunKind::Read | RunKind::ReadAgain));
            runs.extend([1, 2, 4].map(|count| large(RunKind::Read, count, 66.0, 0.3)));
        },
        Layer::Limits,
        "throughput_limit",
    ),
    (
        "burst credits are used up",
        Situation { single: 800.0, best: 1700.0, ..NEAR },
        |target| {
            let runs = runs(target);
            runs.retain(|run| run.work != RunKind::ReadAgain);
            runs.push(large(RunKind::ReadAgain, 1, 100.0, 0.3));
        },
        Layer::Limits,
        "burst",
    ),
    (
        "work with names is limited",
        NEAR,
        |target| {
            for it in &mut target.metadata.get_or_insert_default().operations {
                it.per_s = Some(500.0);
                it.parts = vec![50.0; 10];
            }
        },
        Layer::Limits,
        "metadata_limit",
    ),
    (
        "the server says that limits held requests",
        NEAR,
        |target| {
            let counts = [("Success", 900), ("SuccessWithShareIopsThrottling", 300)];
            let by_type = counts.map(|(kind, count)| (kind.to_owned(), count)).into();
            target.told = Some(crate::measurements::ServerTransactions { by_type, ..Default::default() });
        },
        Layer::Limits,
        "throttled",
    ),
    (
        "the server says that its limit on metadata held requests",
        NEAR,
        |target| {
            let counts = [("Success", 900), ("SuccessWithMetadataThrottling", 300)];
            let by_type = counts.map(|(kind, count)| (kind.to_owned(), count)).into();
            target.told = Some(crate::measurements::ServerTransactions { by_type, ..Default::default() });
        },
        Layer::Limits,
        "throttled",
    ),
    (
        "names are slow",
        NEAR,
        |target| target.metadata.get_or_insert_default().operations[0].median_ms = 30.0,
        Layer::Metadata,
        "slow_names",
    ),
    (
        "names are slow, and the server does few at once",
        NEAR,
        |target| {
            for it in &mut target.metadata.get_or_insert_default().operations {
                (it.median_ms, it.per_s, it.parts) = (20.0, Some(200.0), vec![200.0; 10]);
            }
        },
        Layer::Metadata,
        "slow_names",
    ),
    (
        "names that are missing are looked for everywhere",
        NEAR,
        |target| target.metadata.get_or_insert_default().missing_ms = Some(25.0),
        Layer::Metadata,
        "scans",
    ),
    (
        "the store is slow",
        NEAR,
        |target| {
            let runs = runs(target);
            runs.retain(|run| run.work != RunKind::SmallRead);
            runs.extend([(1, 80.0), (8, 640.0), (64, 5000.0)].map(|(depth, rate)| small(depth, rate)));
        },
        Layer::Storage,
        "slow_store",
    ),
    (
        "the name leads to a public address",
        NEAR,
        |target| {
            if let Some(route) = &mut target.route {
                route.used = "52.239.238.8".parse().unwrap();
            }
            offer(target, "10.0.0.1", true, true);
        },
        Layer::Name,
        "public_address",
    ),
    (
        "the name leads to a dead address first",
        NEAR,
        |target| {
            if let Some(route) = &mut target.route {
                let address = "10.9.9.9".parse().unwrap();
                route.addresses.insert(
                    0,
                    Address { address, scope: Scope::Private, reachable: Some(false), refused: false },
                );
            }
        },
        Layer::Name,
        "dead_address",
    ),
];

#[test]
fn each_fault_is_named_by_its_layer() {
    for (name, of, change, layer, kind) in FAULTS {
        let mut target = situation(*of);
        change(&mut target);
        assert_eq!(
            leading(&target),
            (ShareHealth::HeldBack, Some(*layer), Some(*kind)),
            "{name}: {:#?}",
            findings(&target)
        );
    }
}

#[test]
fn every_statement_that_holds_something_back_carries_its_measurement() {
    for (name, of, change, ..) in FAULTS {
        let mut target = situation(*of);
        change(&mut target);
        for finding in findings(&target) {
            assert!(!finding.rests_on.is_empty(), "{name}: {finding:?}");
            assert!(
                finding.rests_on.iter().any(|it| it.chars().any(|c| c.is_ascii_digit())),
                "{name}: {finding:?}"
            );
        }
    }
}

/// The host was busy for the first three quarters of the last reads (requests a second as measured).
fn held_up_at_the_end() -> TargetMeasurements {
    let mut target = situation(Situation { rtt_ms: 0.05, single: 2982.0, best: 2890.0, ..NEAR });
    let mut again = large(RunKind::ReadAgain, 1, 1210.0, 0.05);
    again.parts = [vec![3500.0; 15], vec![8044.0, 4978.0, 14489.0, 11244.0, 5378.0]].concat();
    runs(&mut target).retain(|run| run.work != RunKind::ReadAgain);
    runs(&mut target).push(again);
    target
}

/// Situations that the doctor met on this host, where nothing was wrong.
fn met_here() -> [(&'static str, TargetMeasurements); 4] {
    let at = |rtt_ms, single, best| situation(Situation { rtt_ms, single, best, ..NEAR });
    // The client gained nothing by the third and fourth.
    let mut left_alone = at(0.05, 900.0, 950.0);
    set_channels(&mut left_alone, [4090.2, 621.8, 0.0, 1.5]);
    let channels = &mut left_alone.connections.get_or_insert_default().channels;
    channels.iter_mut().zip([1.0, 0.9, 0.0, 0.1]).for_each(|(it, busy)| it.busy = Some(busy));
    // The first turn over one connection met a busy moment.
    let mut warmed_up = situation(Situation { got: 1, separate: true, single: 1711.7, best: 3160.0, ..NEAR });
    for run in runs(&mut warmed_up).iter_mut().filter(|run| run.connections == 1) {
        let usual = 3617.0 * 4.0;
        run.turns = vec![usual / 4.0, usual, usual * 1.02, usual * 0.99];
    }
    // Everything became faster with time, so the first writes, over one connection, were the slowest.
    let mut cold = situation(Situation { got: 1, separate: true, single: 3547.0, best: 2687.0, ..NEAR });
    for (run, rate) in
        runs(&mut cold).iter_mut().filter(|run| run.work == RunKind::Write).zip([2080.0, 2667.0, 2449.0])
    {
        *run = large(RunKind::Write, run.connections, rate, NEAR.rtt_ms);
    }
    let again = runs(&mut cold).iter_mut().find(|run| run.work == RunKind::ReadAgain);
    *again.unwrap() = large(RunKind::ReadAgain, 1, 4346.0, NEAR.rtt_ms);
    // A Samba whose rates at two depths were the same.
    let mut same_by_chance = at(0.05, 900.0, 950.0);
    for run in runs(&mut same_by_chance).iter_mut().filter(|it| it.work == RunKind::SmallRead && it.depth > 1)
    {
        *run = small(run.depth, if run.depth == 8 { 11_987.0 } else { 12_156.0 });
        (run.idle, run.own_processors) = (0.22, 0.35);
        run.parts =
            [13_156.0, 4_444.0, 4_800.0, 5_689.0, 12_622.0, 15_911.0, 16_178.0, 9_511.0, 15_556.0].to_vec();
    }
    [
        ("connections that the client leaves alone", left_alone),
        ("first reads that met a busy moment", warmed_up),
        ("first writes that met a cold host", cold),
        ("rates that are the same by chance", same_by_chance),
    ]
}

#[test]
fn sound_servers_are_healthy() {
    let at = |rtt_ms, single, best| situation(Situation { rtt_ms, single, best, ..NEAR });
    let mut full_host = at(0.05, 600.0, 610.0);
    runs(&mut full_host).iter_mut().for_each(|run| (run.idle, run.own_processors) = (0.02, 0.9));
    let mut signed = at(0.3, 900.0, 900.0);
    (smb(&mut signed).signs, smb(&mut signed).protection_ns_per_mib) = (true, Some(120_000.0));
    let mut alone = situation(Situation { got: 1, separate: true, ..NEAR });
    smb(&mut alone).capabilities = vec!["large MTU"];
    let mut full_gigabit = at(0.4, 112.0, 112.5);
    under_load(&mut full_gigabit, 9.0);
    // As much is under way as arrives in a round trip, and no operation waits: more would gain more.
    let mut little_under_way = situation(Situation { single: 24.0, best: 24.1, ..FAR });
    runs(&mut little_under_way).iter_mut().for_each(|run| run.median_ms = 24.0);
    // A flow that increases its rate loses packets once.
    let mut overshoot = situation(FAR);
    let one = runs(&mut overshoot).iter_mut().find(|run| (run.work, run.connections) == (RunKind::Write, 4));
    one.and_then(|run| run.tcp.as_mut()).unwrap().sent_again = 600;
    // A process that is overloaded with names is not even.
    let mut busy_server = at(0.1, 900.0, 950.0);
    for it in &mut busy_server.metadata.get_or_insert_default().operations {
        (it.per_s, it.parts) = (Some(3000.0), vec![3000.0, 3300.0, 2700.0, 3200.0, 2800.0]);
    }
    let mut uneven = at(0.05, 900.0, 950.0);
    set_channels(&mut uneven, [80.0, 310.0, 674.0, 30.0]);
    let mut own_address = at(0.05, 900.0, 950.0);
    traffic(&mut own_address, |it| it.sent_again = 200);
    if let Some(route) = &mut own_address.route {
        route.source = Some(route.used);
    }
    let mut behind_nat = at(8.0, 110.0, 400.0);
    if let Some(route) = &mut behind_nat.route {
        route.used = "52.239.238.8".parse().unwrap();
        route.addresses = vec![Address {
            address: route.used,
            scope: Scope::Public,
            reachable: Some(true),
            refused: false,
        }];
    }
    // On a busy host, writes waited for the send buffer and gained nothing; reads did (MiB/s as measured).
    let mut waiting_writes = at(5.34, 83.9, 142.2);
    runs(&mut waiting_writes).retain(|run| run.work != RunKind::Write);
    let written = [(1, 145.0), (2, 132.8), (4, 59.4)];
    runs(&mut waiting_writes).extend(written.map(|(count, rate)| large(RunKind::Write, count, rate, 5.34)));
    traffic(&mut waiting_writes, |it| it.held_by_send_buffer = 0.46);
    runs(&mut waiting_writes).iter_mut().for_each(|run| run.idle = 0.0);
    let healthy = [
        ("last reads that the host held up", held_up_at_the_end()),
        ("writes that wait for the send buffer and gain nothing", waiting_writes),
        ("near", at(0.3, 900.0, 950.0)),
        ("on this host", at(0.04, 1500.0, 1400.0)),
        ("far, and each connection has a share", situation(FAR)),
        ("farther", at(80.0, 12.0, 46.0)),
        ("several queues", at(0.2, 900.0, 2400.0)),
        ("this host is full", full_host),
        ("cheaply signed", signed),
        ("one connection is enough", alone),
        ("a full gigabit", full_gigabit),
        ("behind NAT", behind_nat),
        ("connections that carry differently much", uneven),
        ("an address of this host's own, with what it sends again to itself", own_address),
        ("a long way with little under way", little_under_way),
        ("a flow that overshot once", overshoot),
        ("a server that does no more with names", busy_server),
    ];
    for (name, target) in healthy.into_iter().chain(met_here()) {
        let held: Vec<_> = findings(&target).into_iter().filter(|it| it.holds_back).collect();
        assert_eq!(leading(&target).0, ShareHealth::Healthy, "{name}: {held:#?}");
    }
}

#[test]
fn a_full_disk_is_said_before_everything_else() {
    let mut target = situation(FAR);
    target.data = None;
    let why = "Create: DISK_FULL".to_owned();
    target.stopped = Some(Stopped { stage: Stage::Data, why, stalled: false, cause: Cause::Full });
    assert_eq!(leading(&target), (ShareHealth::Stopped, Some(Layer::Storage), Some("full")));
}

#[test]
fn a_mount_shows_what_it_was_not_told_and_what_it_did_not_get() {
    let mount = |kind: &str, options: &str, connected: usize| {
        let options = options.split(',').map(str::to_owned).collect();
        let one = MountConnection { connected: true, requests: Some(10) };
        let connections = vec![one; connected];
        let mount = Mount { kind: kind.to_owned(), options, connections, ..Mount::default() };
        TargetMeasurements { protocol: Some(Protocol::Mount(mount)), ..TargetMeasurements::default() }
    };
    for (target, kind) in [
        (mount("cifs", "vers=3.1.1,rsize=4194304,wsize=4194304", 1), Some("client_multichannel_off")),
        (mount("cifs", "vers=3.1.1,multichannel,max_channels=4", 2), Some("client_few_channels")),
        (mount("cifs", "vers=3.1.1,multichannel,max_channels=4", 4), None),
        (mount("nfs4", "vers=4.2,nconnect=4", 1), Some("client_few_connections")),
        (mount("nfs4", "vers=4.2,nconnect=4,rsize=1048576", 4), None),
        (mount("nfs4", "vers=4.2,rsize=32768", 1), Some("client_small_requests")),
        (mount("nfs4", "vers=4.2,sync", 1), Some("client_option")),
    ] {
        assert_eq!(leading(&target).2, kind, "{target:?}");
    }
}

/// A mount with this number of connections, with the values that are measured through it and no echo.
fn mounted(kind: &str, options: &str, connected: u32, of: Situation) -> TargetMeasurements {
    let mut target = situation(of);
    let one = MountConnection { connected: true, requests: None };
    let options = options.split(',').map(str::to_owned).collect();
    let connections = vec![one; connected as usize];
    let mount = Mount { kind: kind.to_owned(), options, connections, ..Mount::default() };
    target.protocol = Some(Protocol::Mount(mount));
    target.connections = Some(crate::measurements::Connections {
        offered: true,
        asked: 4,
        got: connected,
        ..crate::measurements::Connections::default()
    });
    target.metadata = None;
    runs(&mut target).retain(|run| run.connections == 1 && run.work != RunKind::ReadAgain);
    runs(&mut target).iter_mut().for_each(|run| run.connections = connected);
    target
}

#[test]
fn a_mount_is_accused_of_nothing_that_was_not_measured() {
    let smb = "vers=3.1.1,multichannel,max_channels=4";
    // A gigabit, eight blocks of 256 KiB under way.
    let full = Situation { rtt_ms: 0.3, single: 112.0, best: 112.0, got: 4, separate: false };
    for (kind, options, connected) in
        [("cifs", smb, 4), ("cifs", smb, 1), ("nfs4", "nconnect=4", 4), ("nfs4", "vers=4.2", 1)]
    {
        let target = mounted(kind, options, connected, full);
        let found = findings(&target);
        let of_connections: Vec<_> = found
            .iter()
            .filter(|it| matches!(it.kind, "throughput_limit" | "few_connections" | "no_gain" | "worth"))
            .collect();
        assert!(of_connections.is_empty(), "{kind} {options}: {of_connections:#?}");
        let wanted = if (kind, connected) == ("cifs", 1) { Some("client_few_channels") } else { None };
        assert_eq!(leading(&target).2, wanted, "{kind} {options}: {found:#?}");
    }
}

#[test]
fn a_mount_whose_connections_carry_differently_much_says_so() {
    let mut target = mounted("cifs", "multichannel,max_channels=4", 4, NEAR);
    set_channels(&mut target, [30.0, 31.0, 1.0, 29.0]);
    let found = findings(&target);
    let uneven = found.iter().find(|it| it.kind == "client_uneven").unwrap();
    assert!(uneven.rests_on[0].contains("30.0, 31.0, 1.00, 29.0"), "{uneven:?}");
    assert!(found.iter().all(|it| it.kind != "slow_channel"), "{found:#?}");
}

#[test]
fn one_point_says_nothing_of_more_connections() {
    for (of, forbidden) in [
        // As with `--connections 1`, or when no time was left for more.
        (Situation { single: 60.0, best: 60.0, ..NEAR }, "throughput_limit"),
        (Situation { single: 60.0, best: 60.0, ..NEAR }, "no_gain"),
    ] {
        let mut target = situation(of);
        runs(&mut target).retain(|run| run.connections == 1 || run.work == RunKind::SmallRead);
        let found = findings(&target);
        assert!(found.iter().all(|it| it.kind != forbidden), "{found:#?}");
        assert_eq!(leading(&target).0, ShareHealth::Healthy, "{found:#?}");
    }
    // A queue is visible with one connection too. The gain of more is not.
    let mut narrow = situation(Situation { rtt_ms: 5.0, single: 1.13, best: 1.13, got: 4, separate: false });
    under_load(&mut narrow, 80.0);
    runs(&mut narrow).retain(|run| run.connections == 1);
    let found = findings(&narrow);
    let (_, what) = found.iter().find(|it| it.kind == "narrow").and_then(|it| it.change.clone()).unwrap();
    assert!(!what.contains("more connections"), "{what}");
}

#[test]
fn a_path_whose_queue_was_not_looked_at_is_not_said_to_have_room() {
    let mut target = situation(Situation { single: 60.0, best: 60.2, ..NEAR });
    if let Some(transport) = &mut target.transport {
        (transport.connect_under_load, transport.connect_under_writes) = (None, None);
    }
    assert_eq!(leading(&target).0, ShareHealth::Healthy);
}

#[test]
fn a_bound_of_our_own_is_not_the_servers() {
    // `--max-iops 5000`: names and small reads stop at it, evenly.
    let mut target = situation(NEAR);
    for it in &mut target.metadata.get_or_insert_default().operations {
        (it.per_s, it.parts) = (Some(5000.0), vec![500.0; 10]);
        it.median_ms = 0.5;
    }
    assert_eq!(leading(&target).0, ShareHealth::HeldBack, "the server did it, as far as can be seen");
    let capped = [1, 8, 64].map(|depth| small(depth, if depth == 1 { 2500.0 } else { 5000.0 }));
    runs(&mut target).retain(|run| run.work != RunKind::SmallRead);
    runs(&mut target).extend(capped);
    target.data.get_or_insert_default().bound_iops = Some(5000);
    let found = findings(&target);
    assert!(found.iter().all(|it| !it.holds_back && it.kind != "knee"), "{found:#?}");
    // `--max-rate 20m`: several connections are as fast as one.
    let mut target = situation(Situation { single: 20.0, best: 20.0, ..FAR });
    target.data.get_or_insert_default().bound_mib_s = Some(20.0);
    let found = findings(&target);
    let of_gain = ["no_gain", "worth", "little_gain", "gain_unsure", "throughput_limit", "knee"];
    assert!(found.iter().all(|it| !of_gain.contains(&it.kind)), "{found:#?}");
}

#[test]
fn a_private_address_that_nobody_tried_is_worth_a_note_alone() {
    for (reachable, held) in [(None, false), (Some(true), true)] {
        let mut target = situation(NEAR);
        if let Some(route) = &mut target.route {
            route.used = "52.239.238.8".parse().unwrap();
            let address = "10.9.9.9".parse().unwrap();
            route.addresses.push(Address { address, scope: Scope::Private, reachable, refused: false });
            route.addresses.remove(0);
        }
        let found = findings(&target);
        let public = found.iter().find(|it| it.kind == "public_address").unwrap();
        assert_eq!(public.holds_back, held, "{public:?}");
        assert!(public.says.contains("10.9.9.9"), "{public:?}");
    }
}

#[test]
fn the_knee_of_depth_says_nothing_of_what_was_not_tried() {
    let knee =
        |target: &TargetMeasurements| findings(target).into_iter().find(|it| it.kind == "knee").unwrap().says;
    let mut target = situation(NEAR);
    assert!(knee(&target).ends_with("64 under way, the most that was tried"), "{}", knee(&target));
    runs(&mut target).push(small(128, 64_000.0));
    runs(&mut target).retain(|run| run.work != RunKind::SmallRead || run.depth != 64);
    runs(&mut target).push(small(256, 64_100.0));
    assert!(knee(&target).ends_with("128 under way, and little behind that"), "{}", knee(&target));
}

#[test]
fn round_trips_of_names_are_those_of_a_connection_that_is_there() {
    let mut target = situation(NEAR);
    let connect = rtt(&target).expect("was measured");
    smb(&mut target).echo_ms = vec![connect / 4.0; 5];
    let slowest = &target.metadata.as_ref().expect("was measured").operations[0];
    let wanted = connect / 4.0 * f64::from(slowest.trips) / slowest.median_ms * 100.0;
    let found = findings(&target);
    let note = found.iter().find(|it| it.kind == "trips").expect("is always told");
    assert!(note.says.ends_with(&format!("{} %", short(wanted))), "{}", note.says);
}

#[test]
fn a_sawtooth_and_small_packets_are_told_and_accuse_nobody() {
    let mut target = situation(NEAR);
    let every_s = 0.5;
    let sawtooth =
        Sawtooth { work: RunKind::Read, connections: 4, collapses: 4, every_s, usual_per_s: 400.0 };
    target.data.get_or_insert_default().sawtooth = Some(sawtooth);
    for (interface, path, who) in
        [(1500, 1280, "behind this host"), (1280, 1280, "the interface of this host")]
    {
        if let Some(route) = &mut target.route {
            (route.interface_mtu, route.path_mtu) = (Some(interface), Some(path));
        }
        let found = findings(&target);
        let told = |kind| found.iter().find(|it| it.kind == kind && !it.holds_back).unwrap();
        assert!(told("sawtooth").says.contains("every 0.5"), "{found:#?}");
        assert!(
            told("small_packets").says.contains("at most 1280 bytes")
                && told("small_packets").says.contains(who)
        );
    }
    assert!(findings(&situation(NEAR)).iter().all(|it| !["sawtooth", "small_packets"].contains(&it.kind)));
}
