//! Limits on this machine: the program with a limited share, loaded by the project's own clients over both
//! protocols. `crates/metering/tests/pacing_limits.rs` checks the same exactly in virtual time. This test
//! checks whether the whole system keeps up.
//!
//! The quick form runs three seconds of the most important cases. With `TRUNKLINE_FULL=1` it runs ten seconds
//! of each with 1, 4 and 16 connections over SMB, NFS and both at once, within 2 %. Then it checks fairness
//! and isolation over each protocol within 10 %, as the medians of [`PAIRS`] interleaved pairs. The server
//! counts the load over both protocols at once, since it has only one clock. All of it takes some twenty
//! minutes. `TRUNKLINE_PAIRS=N` runs only N pairs over each protocol.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proving::server_process::{ServerProcess, program};
use serde_json::Value;

/// The limits of a small standard share: operations a second, and bytes a second in both directions together.
const OPERATIONS: f64 = 1000.0;
const BYTES: f64 = 60.0 * 1024.0 * 1024.0;

/// The number of pairs of runs over one protocol, whose median is used.
const PAIRS: usize = 20;
/// The duration of each run of a pair in seconds.
const PAIR_S: u32 = 3;
/// The allowed difference between two clients of one share, and the allowed cost of a limited share for its
/// neighbour.
const APART: f64 = 0.1;

const TABLES: &str = "[account.lab]\nkind = \"standard\"\nformula = \"small\"\n\
                      [share.files]\npath = \"files\"\naccount = \"lab\"\nusers = { anna = \"full\" }\n\
                      protocols = [\"smb\", \"nfs\"]\nnfs_secure_port = false\nroot_squash = \"none\"\n\
                      [share.free]\npath = \"free\"\nusers = { anna = \"full\" }\n\
                      protocols = [\"smb\", \"nfs\"]\nnfs_secure_port = false\nroot_squash = \"none\"\n";

/// The number of pairs over each protocol, if nothing else is to be run.
fn only_pairs() -> Option<usize> {
    let value = std::env::var("TRUNKLINE_PAIRS").ok()?;
    Some(value.parse().expect("a number in TRUNKLINE_PAIRS"))
}

fn is_full() -> bool {
    std::env::var_os("TRUNKLINE_FULL").is_some_and(|value| value == "1")
}

/// The measured seconds.
fn seconds() -> u32 {
    if is_full() { 10 } else { 3 }
}

/// The fractions by which a limit may be exceeded and missed. In the quick form a busy machine may deliver
/// less: that is a property of the machine, and not of the limit.
fn slack() -> (f64, f64) {
    if is_full() { (0.02, 0.02) } else { (0.04, 0.25) }
}

fn serve(directory: &Path) -> ServerProcess {
    for share in ["files", "free"] {
        std::fs::create_dir(directory.join(share)).expect("the share's root");
    }
    ServerProcess::start(directory, TABLES)
}

/// One load of a share.
#[derive(Clone, Copy)]
struct Load<'a> {
    protocol: &'a str,
    directory: &'a str,
    rw: &'a str,
    bs: &'a str,
    connections: u32,
    /// The duration in seconds.
    seconds: u32,
}

impl Load<'_> {
    fn begin(&self, program: &Path, server: &ServerProcess) -> Child {
        let Load { protocol, directory, rw, bs, connections, .. } = self;
        let target = match (*protocol, server.nfs) {
            ("nfs", Some(nfs)) => format!("nfs://{nfs}/{directory}"),
            _ => format!("smb://anna@{}/{directory}", server.smb),
        };
        let depth = (32 / connections).max(2);
        let connections = connections.to_string();
        let mut command = Command::new(program);
        command.args(["load", &target, "--rw", rw, "--bs", bs, "--channels", &connections, "--json"]);
        command.args(["--iodepth", &(depth * self.connections).to_string(), "--filesize", "4m"]);
        command.args(["--runtime", &self.seconds.to_string(), "--ramp_time", "1"]);
        command.env("TRUNKLINE_PASSWORD", "s3cret").stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    /// Operations and bytes a second.
    fn end(&self, child: Child) -> (f64, f64) {
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "it never sees an error: {text}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let side = if self.rw.ends_with("write") { "write" } else { "read" };
        let of =
            |key: &str| report["jobs"][0][side][key].as_f64().unwrap_or_else(|| panic!("no {key} in {text}"));
        (of("iops"), of("bw_bytes"))
    }
}

fn is_near(what: &str, got: f64, wanted: f64, (above, below): (f64, f64)) {
    println!("{what}: {got:.0} of {wanted:.0}, {:+.2} %", (got / wanted - 1.0) * 100.0);
    let bounds = wanted * (1.0 - below)..=wanted * (1.0 + above);
    assert!(bounds.contains(&got), "{what}: {got:.0} of {wanted:.0}");
}

/// The clients' use of the limited share over both protocols, by the server's own counters: the time,
/// operations, bytes.
fn had(program: &Path, directory: &Path) -> (f64, f64, f64) {
    let mut command = Command::new(program);
    command.args(["status", "transactions", "--json", "--config", "trunkline.toml"]).current_dir(directory);
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let all: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let counted = all["counted"].as_array().expect("what was counted");
    let sum = |keys: [&str; 2]| -> f64 {
        let of_share = counted.iter().filter(|one| one["file_share"] == "files");
        of_share.flat_map(|one| keys.map(|key| one["work"][key].as_f64().expect("a number"))).sum()
    };
    let at = all["at_ns"].as_f64().expect("a time") / 1e9;
    (at, sum(["reads", "writes"]), sum(["read_bytes", "written_bytes"]))
}

/// Checks that ten seconds in the middle of a load over each protocol together stay within the share's
/// limits.
fn both_at_once(program: &Path, server: &ServerProcess, directory: &Path, load: Load<'_>) {
    // The load is longer than the measured part, by the time that both may need to start.
    let smb = Load { seconds: seconds() + 8, ..load };
    let nfs = Load { protocol: "nfs", ..smb };
    let begun = Instant::now();
    let running = [smb.begin(program, server), nfs.begin(program, server)];
    std::thread::sleep(Duration::from_secs(4).saturating_sub(begun.elapsed()));
    let first = had(program, directory);
    std::thread::sleep(Duration::from_secs(seconds().into()));
    let last = had(program, directory);
    let [first_of, second_of] = running;
    let each = [smb.end(first_of), nfs.end(second_of)];
    assert!(each.iter().all(|(operations, _)| *operations > 0.0), "both had something: {each:?}");
    let took = last.0 - first.0;
    let Load { rw, bs, connections, .. } = load;
    let what = format!("both {rw} of {bs} over {connections}");
    let (got, wanted) = if bs == "4k" { (last.1 - first.1, OPERATIONS) } else { (last.2 - first.2, BYTES) };
    is_near(&what, got / took, wanted, slack());
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
}

/// Two clients of the limited share get the same, although one of them has more connections. A share without
/// limits delivers the same whether or not the load of its limited neighbour exceeds the limits.
fn pairs(program: &Path, server: &ServerProcess, load: Load<'_>, count: usize) {
    let (one, other) = (load, Load { connections: 1, ..load });
    let free = Load { directory: "free", connections: 1, ..load };
    let (mut shares, mut costs) = (Vec::new(), Vec::new());
    for pair in 0..count {
        let running = [one.begin(program, server), other.begin(program, server)];
        let [first, second] = running;
        shares.push(one.end(first).0 / other.end(second).0);
        let alone = || free.end(free.begin(program, server)).0;
        let beside = || {
            let longer = Load { seconds: PAIR_S + 1, ..one };
            let neighbour = longer.begin(program, server);
            let got = free.end(free.begin(program, server)).0;
            longer.end(neighbour);
            got
        };
        // The order alternates, so that a drift affects both.
        let (alone, beside) = if pair % 2 == 0 {
            let alone = alone();
            (alone, beside())
        } else {
            let beside = beside();
            (alone(), beside)
        };
        costs.push(beside / alone);
    }
    let (share, cost) = (median(shares), median(costs));
    let protocol = load.protocol;
    println!(
        "{protocol} fairness: {share:.3} of each other's; isolation: {cost:.3} of what it is alone; medians \
         of {count}"
    );
    assert!((share - 1.0).abs() <= APART, "{protocol}: one client has {share:.3} times what the other has");
    assert!(
        cost >= 1.0 - APART,
        "{protocol}: a limited neighbour leaves {cost:.3} of what a share gives alone"
    );
}

/// A single test, since its loads must not affect each other.
#[test]
fn a_limited_share_gives_what_it_has_and_no_more() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (server, program) = (serve(directory.path()), program());
    let small = [("randread", "4k"), ("randwrite", "4k")];
    let large = [("read", "1m"), ("write", "1m")];
    let connections: &[u32] = if is_full() { &[1, 4, 16] } else { &[4] };
    let kinds = if is_full() { [small, large].concat() } else { vec![small[0], large[1]] };
    let base =
        Load { protocol: "smb", directory: "files", rw: "", bs: "", connections: 1, seconds: seconds() };
    let pairs_of_each = |count| {
        for protocol in ["smb", "nfs"] {
            let load = Load { protocol, rw: "randread", bs: "4k", connections: 4, seconds: PAIR_S, ..base };
            pairs(&program, &server, load, count);
        }
    };
    if let Some(count) = only_pairs() {
        return pairs_of_each(count);
    }
    for protocol in ["smb", "nfs"] {
        for &(rw, bs) in &kinds {
            for &connections in connections {
                let load = Load { protocol, rw, bs, connections, ..base };
                let (operations, bytes) = load.end(load.begin(&program, &server));
                let what = format!("{protocol} {rw} of {bs} over {connections}");
                let (got, wanted) = if bs == "4k" { (operations, OPERATIONS) } else { (bytes, BYTES) };
                is_near(&what, got, wanted, slack());
            }
        }
    }
    // Two clients, one for each protocol, share the limit, and their neighbour is not throttled. The run is
    // so long that a difference of a moment between their starts hardly matters.
    let seconds = if is_full() { base.seconds } else { 9 };
    let smb = Load { rw: "randread", bs: "4k", connections: 4, seconds, ..base };
    let nfs = Load { protocol: "nfs", connections: 1, ..smb };
    let free = Load { directory: "free", connections: 1, ..smb };
    if is_full() {
        for (rw, bs) in kinds {
            for &connections in connections {
                both_at_once(&program, &server, directory.path(), Load { rw, bs, connections, ..base });
            }
        }
        pairs_of_each(PAIRS);
        return;
    }
    let (first, second, third) =
        (smb.begin(&program, &server), nfs.begin(&program, &server), free.begin(&program, &server));
    let (first, second, third) = (smb.end(first).0, nfs.end(second).0, free.end(third).0);
    // They do not start at the same instant, so one of them has the whole limit for a moment.
    is_near("SMB of both", first, OPERATIONS / 2.0, (0.15, 0.3));
    is_near("NFS of both", second, OPERATIONS / 2.0, (0.15, 0.3));
    assert!(third > 2.0 * OPERATIONS, "a share without limits gives {third:.0} beside a limited one");
}
