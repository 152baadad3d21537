//! Two servers side by side: what differs, and whether that explains why one of them is slower.

use serde::Serialize;

use crate::facts::{Data, Facts, Protocol, Work};
use crate::rules::short;

/// Both servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What was measured of both.
    pub rows: Vec<Row>,
    /// How many times as long as the second the first takes for a large copy to it, and from it.
    pub write_time_ratio: Option<f64>,
    /// The same for reading.
    pub read_time_ratio: Option<f64>,
    /// What follows.
    pub paragraph: String,
}

/// One thing of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What.
    pub what: &'static str,
    /// Of the first.
    pub first: String,
    /// Of the second.
    pub second: String,
    /// Whether they differ by more than measuring does.
    pub differs: bool,
}

/// Figures that differ by less are the same.
const SAME: f64 = 0.10;

/// The rate that a client gets which opens as many connections as a session takes, up to four.
fn usable(facts: &Facts, work: Work) -> Option<f64> {
    let most = facts.connections.as_ref().map_or(1, |it| it.got.clamp(1, 4));
    let data: &Data = facts.data.as_ref()?;
    Some(data.best(work, most)?.mib_s)
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

fn dialect(facts: &Facts) -> Option<String> {
    match facts.protocol.as_ref()? {
        Protocol::Smb(smb) => Some(format!("SMB {}", smb.dialect)),
        Protocol::Nfs(nfs) => Some(format!("NFS 4.{}", nfs.minor_version)),
        Protocol::Mount(mount) => Some(format!("{} of this host's kernel", mount.kind)),
    }
}

fn protection(facts: &Facts) -> Option<String> {
    match facts.protocol.as_ref()? {
        Protocol::Smb(smb) if smb.seals => smb.cipher.clone(),
        Protocol::Smb(smb) if smb.signs => Some(format!("signed, {}", smb.signing)),
        _ => Some("none".to_owned()),
    }
}

/// Holds the second server against the first.
#[must_use]
pub fn compare(first: &Facts, second: &Facts) -> Comparison {
    let both = [first, second];
    let mut table = Table(Vec::new());
    let rtt = both.map(crate::rules::rtt);
    table.figures("connect, ms", rtt);
    table.words("dialect", both.map(dialect));
    table.words("protection", both.map(protection));
    let connections = both.map(|it| it.connections.as_ref().map(|it| f64::from(it.got)));
    table.figures("connections a session takes", connections);
    let of =
        |work, count| both.map(|it| it.data.as_ref().and_then(|data| Some(data.run(work, count)?.mib_s)));
    let single = [of(Work::Write, 1), of(Work::Read, 1)];
    table.figures("writes over one connection, MiB/s", single[0]);
    table.figures("reads over one connection, MiB/s", single[1]);
    let writes = both.map(|it| usable(it, Work::Write));
    let reads = both.map(|it| usable(it, Work::Read));
    table.figures("writes over what a session takes, up to 4", writes);
    table.figures("reads over what a session takes, up to 4", reads);
    for (title, what) in [("create, ms", "create"), ("open, ms", "open"), ("delete, ms", "delete")] {
        let of = |it: &Facts| {
            let operations = &it.metadata.as_ref()?.operations;
            operations.iter().find(|it| it.what == what).map(|it| it.median_ms)
        };
        table.figures(title, both.map(of));
    }
    let ratio = |rates: [Option<f64>; 2]| match rates {
        [Some(first), Some(second)] if first > 0.0 => Some(second / first),
        _ => None,
    };
    let (write_time_ratio, read_time_ratio) = (ratio(writes), ratio(reads));
    let paragraph = explain(rtt, connections, &single, write_time_ratio, read_time_ratio);
    Comparison { rows: table.0, write_time_ratio, read_time_ratio, paragraph }
}

/// What differs, and whether it explains the difference: the method of elimination, from the network up.
fn explain(
    rtt: [Option<f64>; 2],
    connections: [Option<f64>; 2],
    single: &[[Option<f64>; 2]; 2],
    write_ratio: Option<f64>,
    read_ratio: Option<f64>,
) -> String {
    let mut parts = Vec::new();
    let mut network_is_same = false;
    if let [Some(a), Some(b)] = rtt {
        network_is_same = same(a, b);
        parts.push(match network_is_same {
            true => format!(
                "A connect takes {} ms to the first and {} ms to the second, so it is not the network.",
                short(a),
                short(b)
            ),
            false => format!(
                "A connect takes {} ms to the first and {} ms to the second: the ways differ.",
                short(a),
                short(b)
            ),
        });
    }
    let Some(ratio) = write_ratio.or(read_ratio) else {
        parts.push(
            "Reads and writes were not measured of both, so that nothing can be said of a copy.".to_owned(),
        );
        return parts.join(" ");
    };
    let what = if write_ratio.is_some() { "to" } else { "from" };
    let times = |ratio: f64| match ratio >= 1.0 {
        true => {
            format!("A large copy {what} the first takes {} times as long as {what} the second", short(ratio))
        }
        false => format!(
            "A large copy {what} the second takes {} times as long as {what} the first",
            short(1.0 / ratio)
        ),
    };
    if same(ratio, 1.0) {
        parts.push(format!("{}: no difference that could be measured.", times(ratio)));
        return parts.join(" ");
    }
    let of_one = single[usize::from(write_ratio.is_none())];
    match (of_one, connections) {
        ([Some(a), Some(b)], [Some(first), Some(second)]) if same(a, b) && first != second => parts.push(format!(
            "One connection carries as much to both ({} and {} MiB/s), but a session takes {first} at the first and {second} at the second. That explains it: {}.",
            short(a), short(b), lower(&times(ratio))
        )),
        ([Some(a), Some(b)], _) if !same(a, b) => {
            let cause = if network_is_same { "the servers themselves differ, not their connections" } else { "the way or the server differs" };
            parts.push(format!(
                "One connection carries {} MiB/s to the first and {} MiB/s to the second, so {cause}: {}.",
                short(a), short(b), lower(&times(ratio))
            ));
        }
        _ => parts.push(format!("{}; what was measured does not explain it.", times(ratio))),
    }
    parts.join(" ")
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
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
        assert!(compare(&four, &four).paragraph.contains("no difference"));
    }
}
