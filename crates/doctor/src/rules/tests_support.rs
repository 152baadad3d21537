//! Measured values for tests: a healthy server, described by a few figures.

use crate::measurements::{
    Connections, Connects, Data, Metadata, NameWork, Protocol, Route, Run, RunKind, Scope, SmbProperties,
    TargetMeasurements, Traffic, Transport,
};

/// The figures of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Situation {
    pub(crate) rtt_ms: f64,
    /// MiB/s over one connection.
    pub(crate) single: f64,
    /// MiB/s over four connections.
    pub(crate) best: f64,
    /// Connections of one session.
    pub(crate) got: u32,
    /// Whether the others were separate sessions.
    pub(crate) separate: bool,
}

/// A run of large blocks with the usual evenness.
pub(crate) fn large(work: RunKind, connections: u32, mib_s: f64, rtt_ms: f64) -> Run {
    let per_s = mib_s * 4.0;
    Run {
        work,
        block: 256 << 10,
        depth: 16,
        connections,
        lasted_s: 1.0,
        operations: per_s as u64,
        per_s,
        cut: 4.0 / per_s,
        interval: [per_s * 0.97, per_s * 1.03],
        turns: vec![per_s * 0.98, per_s * 1.03, per_s * 0.97, per_s * 1.02],
        mib_s,
        median_ms: 16_000.0 / per_s,
        p99_ms: 32_000.0 / per_s,
        parts: vec![per_s; 20],
        own_processors: 0.3,
        idle: 0.6,
        waited: Some(0.01),
        tcp: Some(Traffic { sent: 10_000, came: 10_000, rtt_ms, ..Traffic::default() }),
    }
}

/// A run of small reads.
pub(crate) fn small(depth: u32, per_s: f64) -> Run {
    let median_ms = f64::from(depth) * 1000.0 / per_s;
    let plain = large(RunKind::SmallRead, 4, 1.0, 0.0);
    let interval = [per_s * 0.97, per_s * 1.03];
    Run {
        block: 4096,
        depth,
        per_s,
        operations: per_s as u64,
        interval,
        median_ms,
        parts: vec![per_s; 20],
        ..plain
    }
}

fn smb(echo_ms: Vec<f64>) -> SmbProperties {
    SmbProperties {
        dialect: "3.1.1".to_owned(),
        signing: "AesGmac".to_owned(),
        max_read: 8 << 20,
        max_write: 8 << 20,
        credits: 1024,
        credits_asked: 1024,
        capabilities: vec!["large MTU", "Multichannel"],
        echo_ms,
        protection_ns_per_mib: None,
        ..SmbProperties::default()
    }
}

/// Work with names, each of which takes its round trips and little more.
fn metadata(rtt_ms: f64) -> Metadata {
    let names = |what, trips: u32| NameWork {
        what,
        trips,
        median_ms: (rtt_ms + 0.2) * f64::from(trips),
        per_s: Some(32_000.0 / ((rtt_ms + 0.2) * f64::from(trips)) * 0.8),
        depth: 32,
        parts: vec![100.0, 90.0, 130.0, 70.0, 110.0],
        idle: 0.5,
    };
    Metadata {
        names: 1000,
        operations: vec![
            names("create", 2),
            names("open", 2),
            NameWork { per_s: None, parts: Vec::new(), depth: 1, ..names("close", 1) },
            names("stat", 1),
            names("delete", 1),
        ],
        list_ms: vec![rtt_ms * 2.0 + 1.0],
        list_names_per_s: Some(1_000_000.0 / (rtt_ms * 2.0 + 1.0)),
        missing_ms: Some(rtt_ms + 0.2),
    }
}

/// A healthy server with these figures.
pub(crate) fn situation(of: Situation) -> TargetMeasurements {
    let address = [10, 0, 0, 1].into();
    let times_ms: Vec<f64> = (0..10).map(|it| of.rtt_ms + f64::from(it) * 0.01).collect();
    let connect = Connects { sent: 10, lost: 0, times_ms: times_ms.clone() };
    let mut runs = Vec::new();
    for (connections, rate) in [(1, of.single), (2, (of.single + of.best) / 2.0), (4, of.best)] {
        runs.push(large(RunKind::Write, connections, rate, of.rtt_ms));
        runs.push(large(RunKind::Read, connections, rate, of.rtt_ms));
    }
    let one = 1000.0 / (of.rtt_ms + 0.1);
    runs.extend([1, 8, 64].map(|depth| small(depth, one * f64::from(depth))));
    runs.push(large(RunKind::ReadAgain, 1, of.single, of.rtt_ms));
    TargetMeasurements {
        target: "smb://ann@files/docs".to_owned(),
        route: Some(Route {
            name: "files".to_owned(),
            resolved_in_ms: 1.0,
            addresses: vec![crate::measurements::Address {
                address,
                scope: Scope::Private,
                reachable: Some(true),
                refused: false,
            }],
            used: address,
            port: 445,
            source: Some([10, 0, 0, 2].into()),
            interface: Some("eth0".to_owned()),
            interface_mtu: Some(1500),
            path_mtu: Some(1500),
            interface_mbit: None,
        }),
        transport: Some(Transport {
            connect: connect.clone(),
            connect_under_load: Some(connect.clone()),
            connect_under_writes: Some(connect),
            receive_window: Some(3 << 20),
            send_window: Some(4 << 20),
            ..Transport::default()
        }),
        protocol: Some(Protocol::Smb(smb(times_ms))),
        connections: Some(Connections {
            offered: of.got > 1,
            asked: 4,
            got: of.got,
            separate_sessions: of.separate,
            ..Connections::default()
        }),
        data: Some(Data { runs, ..Data::default() }),
        metadata: Some(metadata(of.rtt_ms)),
        ..TargetMeasurements::default()
    }
}
