//! A comparison of two servers: their differences, and whether these explain why one of them is slower.

use serde::Serialize;

use crate::finding::Layer;
use crate::measurements::{Data, Protocol, RunKind, TargetMeasurements};
use crate::rules::short;
use crate::verdict::capital;

/// The comparison of two servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The measured values of both.
    pub rows: Vec<Row>,
    /// The predicted time of a copy of 1 GiB to each, in seconds.
    pub write_times_s: Option<[f64; 2]>,
    /// The predicted time of such a copy from each.
    pub read_times_s: Option<[f64; 2]>,
    /// The factor between the time of the first and that of the second, for a copy to them.
    pub write_time_ratio: Option<f64>,
    /// The factor for a copy from them.
    pub read_time_ratio: Option<f64>,
    /// The conclusion.
    pub paragraph: String,
}

/// One value of both servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The name of the value.
    pub what: &'static str,
    /// The value of the first server.
    pub first: String,
    /// The value of the second server.
    pub second: String,
    /// Whether they differ by more than the error of measurement.
    pub differs: bool,
}

/// Smaller relative differences count as equal.
const SAME: f64 = 0.10;

/// The size of the predicted copy in MiB.
const COPY_MIB: f64 = 1024.0;

/// The connections that a client opens to a server: as many as a session gets, up to four.
fn usual(measurements: &TargetMeasurements) -> u32 {
    match measurements.protocol {
        // The kernel's client distributes all work of the mount over its connections.
        Some(Protocol::Mount(_)) => measurements.connections.as_ref().map_or(1, |it| it.got),
        _ => measurements.connections.as_ref().map_or(1, |it| it.got.clamp(1, 4)),
    }
}

/// The rate with that number of connections. `None` if it was not measured, because rates of fewer say
/// little about it.
fn usable(measurements: &TargetMeasurements, work: RunKind) -> Option<f64> {
    let data: &Data = measurements.data.as_ref()?;
    let usual = usual(measurements);
    data.run(work, usual)?;
    Some(data.best(work, usual)?.mib_s)
}

/// The predicted time of a copy in seconds: the log-on and the connections, and then the data.
fn copy_s(measurements: &TargetMeasurements, work: RunKind) -> Option<f64> {
    let rate = usable(measurements, work).filter(|it| *it > 0.0)?;
    let log_on_ms = match measurements.protocol.as_ref()? {
        Protocol::Smb(smb) => smb.log_on_ms,
        Protocol::Nfs(nfs) => nfs.log_on_ms,
        Protocol::Mount(_) => 0.0,
    };
    let opened_ms = measurements.connections.as_ref().and_then(|it| it.opened_in_ms).unwrap_or(0.0);
    Some(COPY_MIB / rate + (log_on_ms + opened_ms) / 1000.0)
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.abs().max(b.abs())
}

struct Table(Vec<Row>);

impl Table {
    fn words(&mut self, what: &'static str, both: [Option<String>; 2]) {
        let differs = both[0] != both[1];
        let [first, second] = both.map(|it| it.unwrap_or_else(|| "?".to_owned()));
        if first != "?" || second != "?" {
            self.0.push(Row { what, first, second, differs });
        }
    }

    fn figures(&mut self, what: &'static str, both: [Option<f64>; 2]) {
        let differs = match both {
            [Some(a), Some(b)] => !same(a, b),
            [a, b] => a.is_some() != b.is_some(),
        };
        let [first, second] = both.map(|it| it.map_or_else(|| "?".to_owned(), short));
        if first != "?" || second != "?" {
            self.0.push(Row { what, first, second, differs });
        }
    }
}

fn dialect(measurements: &TargetMeasurements) -> Option<String> {
    match measurements.protocol.as_ref()? {
        Protocol::Smb(smb) => Some(format!("SMB {}", smb.dialect)),
        Protocol::Nfs(nfs) => Some(format!("NFS 4.{}", nfs.minor_version)),
        Protocol::Mount(mount) => Some(format!("{} of this host's kernel", mount.kind)),
    }
}

fn protection(measurements: &TargetMeasurements) -> Option<String> {
    match measurements.protocol.as_ref()? {
        Protocol::Smb(smb) if smb.seals => smb.cipher.clone(),
        Protocol::Smb(smb) if smb.signs => Some(format!("signed, {}", smb.signing)),
        _ => Some("none".to_owned()),
    }
}

/// Compares two servers.
#[must_use]
pub fn compare(first: &TargetMeasurements, second: &TargetMeasurements) -> Comparison {
    let both = [first, second];
    let mut table = Table(Vec::new());
    let rtt = both.map(crate::rules::rtt);
    table.figures("connect, ms", rtt);
    let used = |it: &TargetMeasurements| it.route.as_ref().map(|it| it.used);
    table.words("address", both.map(|it| Some(used(it)?.to_string())));
    table.words(
        "its scope",
        both.map(|it| Some(format!("{:?}", crate::route::scope(used(it)?)).to_lowercase())),
    );
    let from = |it: &TargetMeasurements| it.route.as_ref().and_then(|it| it.interface.clone());
    table.words("our interface", both.map(from));
    table.words("dialect", both.map(dialect));
    table.words("protection", both.map(protection));
    table.figures("largest read, KiB", both.map(|it| Some(f64::from(most_at_once(it)?[0]) / 1024.0)));
    table.figures("largest write, KiB", both.map(|it| Some(f64::from(most_at_once(it)?[1]) / 1024.0)));
    table.figures("credits or slots", both.map(|it| Some(f64::from(most_at_once(it)?[2]))));
    let connections = both.map(|it| it.connections.as_ref().map(|it| f64::from(it.got)));
    table.figures("connections a session takes", connections);
    let of =
        |work, count| both.map(|it| it.data.as_ref().and_then(|data| Some(data.run(work, count)?.mib_s)));
    let single = [of(RunKind::Write, 1), of(RunKind::Read, 1)];
    table.figures("writes over one connection, MiB/s", single[0]);
    table.figures("reads over one connection, MiB/s", single[1]);
    let writes = both.map(|it| usable(it, RunKind::Write));
    let reads = both.map(|it| usable(it, RunKind::Read));
    table.figures("writes over what a session takes, up to 4", writes);
    table.figures("reads over what a session takes, up to 4", reads);
    for (title, what) in [("create, ms", "create"), ("open, ms", "open"), ("delete, ms", "delete")] {
        let of = |it: &TargetMeasurements| {
            let operations = &it.metadata.as_ref()?.operations;
            operations.iter().find(|it| it.what == what).map(|it| it.median_ms)
        };
        table.figures(title, both.map(of));
    }
    limits(&mut table, both);
    let times = |work| Some([copy_s(first, work)?, copy_s(second, work)?]);
    let (write_times_s, read_times_s) = (times(RunKind::Write), times(RunKind::Read));
    for (what, times) in [("1 GiB written, s", write_times_s), ("1 GiB read, s", read_times_s)] {
        table.figures(what, [times.map(|it| it[0]), times.map(|it| it[1])]);
    }
    let ratio = |times: Option<[f64; 2]>| times.map(|[first, second]| first / second);
    let paragraph = match (write_times_s, read_times_s) {
        (Some(times), _) => explain(rtt, connections, single[0], "to", times),
        (None, Some(times)) => explain(rtt, connections, single[1], "from", times),
        (None, None) => format!("{} {}", network(rtt).0, unknown(both)).trim().to_owned(),
    };
    let (write_time_ratio, read_time_ratio) = (ratio(write_times_s), ratio(read_times_s));
    Comparison { rows: table.0, write_times_s, read_times_s, write_time_ratio, read_time_ratio, paragraph }
}

/// The largest READ and WRITE, and the number of requests that may be under way.
fn most_at_once(measurements: &TargetMeasurements) -> Option<[u32; 3]> {
    match measurements.protocol.as_ref()? {
        Protocol::Smb(smb) => Some([smb.max_read, smb.max_write, smb.credits]),
        Protocol::Nfs(nfs) => Some([nfs.max_io, nfs.max_io, nfs.slots]),
        Protocol::Mount(_) => None,
    }
}

/// Adds small reads, and the limits that were found.
fn limits(table: &mut Table, both: [&TargetMeasurements; 2]) {
    let small = |measurements: &TargetMeasurements, is_one: bool| {
        let runs = measurements.data.as_ref()?.runs.iter();
        let fits = runs.filter(|it| it.work == RunKind::SmallRead && (it.depth == 1) == is_one);
        fits.map(|it| it.per_s).max_by(f64::total_cmp)
    };
    table.figures("4 KiB reads a second, one under way", both.map(|it| small(it, true)));
    table.figures("4 KiB reads a second, the most", both.map(|it| small(it, false)));
    let found = |measurements: &TargetMeasurements| {
        let all = crate::rules::findings(measurements).into_iter();
        let kinds: Vec<&str> =
            all.filter(|it| it.holds_back && it.layer == Layer::Limits).map(|it| it.kind).collect();
        measurements
            .data
            .is_some()
            .then(|| if kinds.is_empty() { "none seen".to_owned() } else { kinds.join(", ") })
    };
    table.words("limits", both.map(found));
}

/// The reason why a copy cannot be predicted.
fn unknown(both: [&TargetMeasurements; 2]) -> String {
    let number = |measurements: &&TargetMeasurements| {
        let data = measurements.data.as_ref()?;
        let usual = usual(measurements);
        let is_missing = data.run(RunKind::Read, 1).is_some() && data.run(RunKind::Read, usual).is_none();
        is_missing.then_some(usual)
    };
    match both.iter().find_map(number) {
        Some(usual) => format!(
            "The rate of {usual} connections was not measured for lack of time, so a copy cannot be \
             predicted: take a longer course (--full)."
        ),
        None => {
            "Reads and writes were not measured for both servers, so a copy cannot be predicted.".to_owned()
        }
    }
}

/// The conclusion about the network from connects, and whether it is the same for both.
fn network(rtt: [Option<f64>; 2]) -> (String, bool) {
    let [Some(a), Some(b)] = rtt else { return (String::new(), false) };
    let takes = format!("A connect takes {} ms to the first and {} ms to the second", short(a), short(b));
    match same(a, b) {
        true => (format!("{takes}, so it is not the network."), true),
        false => (format!("{takes}: the paths differ."), false),
    }
}

/// Names the differences, and whether they explain the times, by elimination from the network upwards.
/// `what` is "to" or "from", the times are those of a copy, and `single` is the rate of one connection.
fn explain(
    rtt: [Option<f64>; 2],
    connections: [Option<f64>; 2],
    single: [Option<f64>; 2],
    what: &str,
    times: [f64; 2],
) -> String {
    let (network, network_is_same) = network(rtt);
    let (longer, shorter, ratio) = match times[0] >= times[1] {
        true => ("first", "second", times[0] / times[1]),
        false => ("second", "first", times[1] / times[0]),
    };
    let ratio = short(ratio);
    let took = format!("1 GiB in about {} s and {} s", short(times[0]), short(times[1]));
    let copy = format!(
        "a large copy {what} the {longer} takes {ratio} times as long as {what} the {shorter} ({took})"
    );
    let follows = match (single, connections) {
        _ if same(times[0], times[1]) => {
            format!("{}: no difference that could be measured.", capital(&copy))
        }
        ([Some(a), Some(b)], [Some(first), Some(second)]) if same(a, b) && first != second => format!(
            "One connection carries as much {what} both ({} and {} MiB/s), but a session takes {first} at \
             the first and {second} at the second. That explains it: {copy}.",
            short(a),
            short(b)
        ),
        ([Some(a), Some(b)], _) if !same(a, b) => {
            let cause = match network_is_same {
                true => "the servers themselves differ, not their connections",
                false => "the way or the server differs",
            };
            format!(
                "One connection carries {} MiB/s {what} the first and {} MiB/s {what} the second, so \
                 {cause}: {copy}.",
                short(a),
                short(b)
            )
        }
        _ => format!("{}; what was measured does not explain it.", capital(&copy)),
    };
    format!("{network} {follows}").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests_support::{Situation, situation};

    #[test]
    fn equal_latency_and_one_against_four_connections_explain_the_difference() {
        let one = situation(Situation { rtt_ms: 23.0, single: 23.0, best: 92.0, got: 1, separate: true });
        let four = situation(Situation { rtt_ms: 23.1, single: 23.5, best: 92.0, got: 4, separate: false });
        let comparison = compare(&one, &four);
        assert!((comparison.write_time_ratio.unwrap() - 4.0).abs() < 0.01, "{comparison:?}");
        for wanted in ["it is not the network", "takes 1 at the first and 4", "4.00 times as long"] {
            assert!(comparison.paragraph.contains(wanted), "{wanted} in {}", comparison.paragraph);
        }
        let slower = situation(Situation { rtt_ms: 23.0, single: 5.0, best: 5.0, got: 4, separate: false });
        assert!(compare(&slower, &four).paragraph.contains("the servers themselves differ"));
        let other_way = compare(&four, &one).paragraph;
        assert!(other_way.contains("to the second takes 4.00 times as long as to the first"), "{other_way}");
        assert!(compare(&four, &four).paragraph.contains("no difference"));
    }

    #[test]
    fn what_comes_before_the_bytes_of_a_copy_is_a_part_of_its_time() {
        let mut one = situation(Situation { rtt_ms: 23.0, single: 16.0, best: 64.0, got: 1, separate: true });
        let mut four =
            situation(Situation { rtt_ms: 23.0, single: 16.0, best: 64.0, got: 4, separate: false });
        for (measurements, opened) in [(&mut one, None), (&mut four, Some(400.0))] {
            let Some(Protocol::Smb(smb)) = &mut measurements.protocol else { panic!("{measurements:?}") };
            smb.log_on_ms = 100.0;
            measurements.connections.get_or_insert_default().opened_in_ms = opened;
        }
        let comparison = compare(&one, &four);
        assert_eq!(comparison.write_times_s, Some([64.1, 16.5]));
        assert!((comparison.write_time_ratio.unwrap() - 64.1 / 16.5).abs() < 1e-9);
        assert!(
            comparison.paragraph.contains("1 GiB in about 64.1 s and 16.5 s"),
            "{}",
            comparison.paragraph
        );
    }

    #[test]
    fn a_copy_over_connections_that_were_not_measured_is_not_predicted() {
        let one = situation(Situation { rtt_ms: 23.0, single: 23.0, best: 92.0, got: 1, separate: true });
        let mut four =
            situation(Situation { rtt_ms: 23.0, single: 23.0, best: 92.0, got: 4, separate: false });
        four.data.get_or_insert_default().runs.retain(|run| run.connections < 4);
        let comparison = compare(&one, &four);
        assert_eq!((comparison.write_times_s, comparison.read_time_ratio), (None, None));
        assert!(
            comparison.paragraph.contains("The rate of 4 connections was not measured"),
            "{comparison:?}"
        );
        assert!(comparison.paragraph.contains("it is not the network"), "{comparison:?}");
    }

    #[test]
    fn route_sizes_and_limits_stand_side_by_side() {
        let near = Situation { rtt_ms: 0.3, single: 900.0, best: 950.0, got: 4, separate: false };
        let (free, mut limited) =
            (situation(near), situation(Situation { single: 60.0, best: 60.2, ..near }));
        if let Some(Protocol::Smb(smb)) = &mut limited.protocol {
            smb.max_read = 65536;
        }
        if let Some(route) = &mut limited.route {
            route.used = "52.239.238.8".parse().unwrap();
        }
        let rows = compare(&free, &limited).rows;
        let of = |what: &str| rows.iter().find(|it| it.what == what).unwrap();
        assert_eq!((of("its scope").first.as_str(), of("its scope").second.as_str()), ("private", "public"));
        assert_eq!(
            (of("largest read, KiB").second.as_str(), of("largest read, KiB").differs),
            ("64.0", true)
        );
        assert!(!of("credits or slots").differs && !of("4 KiB reads a second, the most").differs);
        let limits = of("limits");
        assert_eq!((limits.first.as_str(), limits.second.as_str()), ("none seen", "throughput_limit"));
    }
}
