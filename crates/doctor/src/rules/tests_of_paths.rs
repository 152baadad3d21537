//! The findings about hosts that are not reached, paths that lose large packets, and connections whose
//! turns differ.

use super::tests::{FAR, NEAR, leading, runs, under_load};
use super::tests_support::{Situation, large, situation};
use super::*;
use crate::finding::Layer;
use crate::measurements::{Address, Cause, Packets, Scope, Stage, Stopped};
use crate::verdict::{ShareHealth, verdict};

/// A server none of whose addresses accepted a connection.
fn not_reached(name: &str, refused: bool) -> TargetMeasurements {
    let mut measurements = situation(NEAR);
    let cause = if refused { Cause::Closed } else { Cause::Unreachable };
    let why = "10.0.0.1:445: no connection".to_owned();
    measurements.stopped = Some(Stopped { stage: Stage::Connect, why, stalled: !refused, cause });
    (measurements.transport, measurements.protocol, measurements.connections) = (None, None, None);
    (measurements.data, measurements.metadata) = (None, None);
    if let Some(route) = &mut measurements.route {
        route.name = name.to_owned();
        (route.addresses[0].reachable, route.addresses[0].refused) = (Some(false), refused);
    }
    measurements
}

#[test]
fn a_closed_port_and_a_dead_host_are_named_and_the_name_service_is_not() {
    for name in ["files", "10.0.0.1"] {
        for (refused, kind, part) in
            [(true, "closed_port", "nobody listens on its port 445"), (false, "dead_host", "does not answer")]
        {
            let measurements = not_reached(name, refused);
            assert_eq!(
                leading(&measurements),
                (ShareHealth::Stopped, Some(Layer::Transport), Some(kind)),
                "{name}"
            );
            let found = findings(&measurements);
            let verdict = verdict(&measurements, &found);
            assert!(verdict.paragraph.contains(part), "{}", verdict.paragraph);
            assert!(!verdict.paragraph.contains("name service"), "{}", verdict.paragraph);
            assert!(
                verdict.changes.iter().all(|it| !it.what.contains("name service")),
                "{:?}",
                verdict.changes
            );
        }
    }
}

#[test]
fn an_address_that_refuses_before_one_that_answers_costs_nothing() {
    let mut measurements = situation(NEAR);
    if let Some(route) = &mut measurements.route {
        let address = "10.9.9.9".parse().unwrap();
        let closed = Address { address, scope: Scope::Private, reachable: Some(false), refused: true };
        route.addresses.insert(0, closed);
    }
    assert_eq!(leading(&measurements).0, ShareHealth::Healthy);
    assert!(
        findings(&measurements)
            .iter()
            .any(|it| it.kind == "closed_address" && it.says.contains("nobody listens"))
    );
}

#[test]
fn a_silence_on_a_path_that_loses_large_packets_is_not_the_servers() {
    let mut measurements = situation(NEAR);
    (measurements.data, measurements.metadata) = (None, None);
    let packets = Packets { arrived: 1400, lost: Some(1420), sent_again: 3 };
    measurements.transport.get_or_insert_default().packets = Some(packets);
    let why = "a first block: no answer within 3 s".to_owned();
    measurements.stopped =
        Some(Stopped { stage: Stage::Data, why, stalled: true, cause: Cause::LargePackets });
    let verdict = verdict(&measurements, &findings(&measurements));
    assert_eq!((verdict.state, verdict.layer), (ShareHealth::Stopped, Some(Layer::Transport)));
    assert!(
        verdict.paragraph.contains("MTU is about 1400") && !verdict.paragraph.contains("stalls"),
        "{}",
        verdict.paragraph
    );
}

#[test]
fn what_connections_bring_is_said_with_its_knee_and_its_confidence() {
    let mut measurements = situation(FAR);
    let two = runs(&mut measurements).iter_mut().filter(|run| run.connections == 2);
    two.for_each(|run| *run = large(run.work, 2, 90.0, 23.0));
    let said = |measurements: &TargetMeasurements| {
        let found = findings(measurements).into_iter();
        let kinds = ["worth", "little_gain", "gain_unsure", "no_gain"];
        found.filter(|it| kinds.contains(&it.kind)).map(|it| (it.kind, it.says)).next().unwrap()
    };
    let (kind, says) = said(&measurements);
    assert_eq!(kind, "worth");
    // 90 against 23 in each turn. A turn has 23 operations with one connection, and the error is one of
    // them.
    assert!(says.contains("2 of them are worth 3.91 times as much (3.75 to 4.08 in 4 turns)"), "{says}");
    let mut wide = situation(Situation { single: 500.0, best: 900.0, ..NEAR });
    let several = runs(&mut wide).iter_mut().filter(|run| run.connections > 1);
    several.for_each(|run| run.turns = vec![run.per_s * 0.6, run.per_s, run.per_s * 1.4, run.per_s]);
    assert_eq!(said(&wide).0, "gain_unsure");
    assert_eq!(said(&situation(Situation { single: 780.0, best: 900.0, ..NEAR })).0, "little_gain");
    assert_eq!(said(&situation(NEAR)).0, "no_gain");
}

#[test]
fn what_other_programs_used_is_said_and_advice_waits_for_them() {
    let said = |part: f64| {
        let mut measurements = situation(Situation { single: 500.0, best: 900.0, ..NEAR });
        let others = crate::measurements::Others { part, processors: 2, is_server_here: true };
        measurements.data.get_or_insert_default().others = Some(others);
        let kinds = ["worth", "gain_unsure"];
        let found = findings(&measurements).into_iter().find(|it| kinds.contains(&it.kind)).unwrap();
        (found.kind, found.change.is_some(), format!("{} [{}]", found.says, found.rests_on.join("; ")))
    };
    let (kind, is_advised, text) = said(0.01);
    assert!((kind, is_advised) == ("worth", true) && !text.contains("other programs"), "{text}");
    let (kind, is_advised, text) = said(0.4);
    assert_eq!((kind, is_advised), ("gain_unsure", false), "{text}");
    assert!(text.contains("other programs used 0.800 of the 2 processors"), "{text}");
    let (kind, is_advised, text) = said(0.9);
    assert_eq!((kind, is_advised), ("gain_unsure", false), "{text}");
    assert!(
        text.contains("was not measured: other programs used 1.80 of the 2") && text.contains("stop them"),
        "{text}"
    );
}

#[test]
fn a_short_queue_that_two_signs_show_is_not_a_limit_of_the_server() {
    // A busy emulator of a path: connects wait 4.7 ms longer, and segments 8 ms.
    let busy = Situation { rtt_ms: 5.0, single: 320.0, best: 330.0, got: 4, separate: false };
    let cases = [(13.0, 4.7, false), (13.0, 0.5, true), (5.2, 4.7, true)];
    for (segments_ms, connects_ms, is_limit) in cases {
        let mut target = situation(busy);
        under_load(&mut target, busy.rtt_ms + connects_ms);
        for run in runs(&mut target) {
            run.median_ms = run.median_ms.max(14.0);
            run.tcp.get_or_insert_default().rtt_ms = segments_ms;
        }
        let found = findings(&target);
        let limit = found.iter().find(|it| it.kind == "throughput_limit");
        assert_eq!(limit.is_some(), is_limit, "{segments_ms} {connects_ms}: {found:#?}");
    }
}

#[test]
fn rates_that_stop_on_a_host_that_more_connections_fill_are_not_a_limit_of_the_server() {
    let near_full = Situation { rtt_ms: 5.0, single: 385.0, best: 440.0, got: 4, separate: false };
    for (idle_of_several, is_limit) in [(0.12, false), (0.4, true)] {
        let mut target = situation(near_full);
        under_load(&mut target, near_full.rtt_ms + 3.0);
        for run in runs(&mut target) {
            run.median_ms = run.median_ms.max(14.0);
            run.idle = if run.connections > 1 { idle_of_several } else { 0.3 };
        }
        let found = findings(&target);
        let limit = found.iter().find(|it| it.kind == "throughput_limit");
        assert_eq!(limit.is_some(), is_limit, "{idle_of_several}: {found:#?}");
    }
}
