//! `trunkline advise`: the value of several connections, depth and caches for a workload. The rules are
//! those that vendors publish for SMB Multichannel and nconnect. A measurement of the path takes
//! precedence over them. Each line says whether it is based on a rule or on a measurement.

use std::fmt::{self, Display, Formatter};

use load::comparison::{GainVerdict, Range, Uncertainty, count_to_take};
use serde::Serialize;
use serde_json::Value;

use crate::observed_workload::ObservedWorkload;
use crate::rules::short;
use crate::{Error, server_account};

/// The options that describe a workload.
#[derive(Debug, Clone, clap::Args)]
pub struct AdviseArgs {
    /// Threads that read or write at the same time
    #[arg(
        long, visible_alias = "threads", value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub numjobs: u32,
    /// Files that they work on together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub nrfiles: u32,
    /// Bytes of one read or write
    #[arg(long, value_name = "SIZE", value_parser = client::written::size, default_value = "64k")]
    pub bs: u64,
    /// Operations that each thread keeps under way
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub iodepth: u32,
    /// Percentage of operations that read
    #[arg(
        long, value_name = "PERCENT", default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(0..=100)
    )]
    pub rwmixread: u32,
    /// Percentage of requests about names: open, close, create, delete, list
    #[arg(
        long, value_name = "PERCENT", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=100)
    )]
    pub names: u32,
    /// The latency of one operation counts, and not the throughput
    #[arg(long)]
    pub latency: bool,
    /// Result of `trunkline doctor --json` on this path; or a running Trunkline server, whose counts of
    /// --share are the workload: its state directory, control socket, or the address of its metrics
    /// (http://127.0.0.1:9445). Twice for both
    #[arg(long, value_name = "FILE|SERVER")]
    pub from: Vec<String>,
    /// Share whose workload is taken from the running server
    #[arg(long, value_name = "NAME", requires = "from")]
    pub share: Option<String>,
    /// Only the work of one client of the share, by its address or user
    #[arg(long, value_name = "CLIENT", requires = "share")]
    pub client: Option<String>,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// The advice for a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// All operations under way at once.
    pub under_way: u32,
    /// The workload of a running server. `None` if options describe the workload.
    pub taken: Option<ObservedWorkload>,
    /// The pieces of advice.
    pub lines: Vec<Piece>,
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Piece {
    /// The subject, for programs.
    pub about: &'static str,
    /// The recommendation.
    pub advice: Choice,
    /// The recommended number, if there is one.
    pub count: Option<u32>,
    /// The reason.
    pub says: String,
    /// The basis of the recommendation.
    pub basis: Basis,
}

/// A recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Recommended.
    Yes,
    /// It matters little.
    Neutral,
    /// Not recommended.
    No,
}

/// The basis of a piece of advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Published rules.
    Rule,
    /// A measurement of this path.
    Measured,
}

/// A measured curve: connections and rate.
type Curve = Vec<(u32, f64)>;

/// The rates of each number of connections in each turn, and the uncertainty of a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
struct Compared {
    turns: Vec<(u32, Vec<f64>)>,
    doubt: Uncertainty,
}

impl Compared {
    /// The number of connections to use, and its factor over one connection. `None` if it was not
    /// measured in turns, or if the turns are not clear.
    fn worth(&self) -> Option<(u32, Range)> {
        let all: Vec<(u32, &[f64])> = self.turns.iter().map(|(count, turns)| (*count, &turns[..])).collect();
        let of = |wanted: u32| all.iter().find(|(count, _)| *count == wanted).map(|(_, turns)| *turns);
        let count = count_to_take(&all, self.doubt)?;
        Some((count, Range::of(of(1)?, of(count)?, self.doubt)?))
    }
}

/// The measured values of a path that advice needs.
#[derive(Debug, Clone, Default, PartialEq)]
struct Path {
    /// Large reads and writes.
    reads: Compared,
    writes: Compared,
    /// Small reads a second, by depth.
    depths: Curve,
    /// The examined target.
    target: String,
    /// Whether a session got only one connection although more were requested.
    takes_one: bool,
}

/// Smaller reads of one file gain nothing from more connections, in bytes (the published figure is about
/// 16 KiB).
const SMALL: u64 = 16 << 10;
/// The depth beyond which nothing is gained.
const MOST_DEPTH: u32 = 64;
/// Below this depth several connections do not help one thread whose latency counts.
const LOW_DEPTH: u32 = 16;
/// The number of connections beyond which nothing is gained.
const CONNECTIONS: u32 = 4;
/// The least factor that is worth a change.
const WORTH: f64 = crate::connection_gain::WORTH;

/// Gives advice for a workload.
///
/// # Errors
/// If the measurement cannot be read, or if the server does not tell the work of its clients.
pub fn advise(args: &AdviseArgs) -> Result<Advice, Error> {
    let (mut paths, mut taken) = (vec![Path::default()], None);
    for source in &args.from {
        if server_account::is_server(source) {
            let counted =
                server_account::workload(source).and_then(|counted| ObservedWorkload::from(&counted, args));
            taken = Some(counted.map_err(|why| Error::Usage(format!("--from {source}: {why}")))?);
        } else {
            paths = read(source)?;
        }
    }
    let asked = taken.as_ref().map_or_else(|| args.clone(), |taken| taken.as_options(args));
    let under_way = asked.numjobs.saturating_mul(asked.iodepth);
    Ok(Advice { under_way, taken, lines: all_pieces(&asked, &paths) })
}

fn read(file: &str) -> Result<Vec<Path>, Error> {
    let wrong = |why: &dyn Display| Error::Usage(format!("--from {file}: {why}"));
    let text = std::fs::read_to_string(file).map_err(|why| wrong(&why))?;
    let report: Value = serde_json::from_str(&text).map_err(|why| wrong(&why))?;
    let targets = report["targets"].as_array();
    let has_runs = |it: &&Value| it["facts"]["data"]["runs"].as_array().is_some_and(|runs| !runs.is_empty());
    let paths: Vec<Path> = targets.into_iter().flatten().filter(has_runs).map(curves).collect();
    if paths.is_empty() {
        return Err(wrong(&"it holds no runs; write it with `trunkline doctor TARGET --json`"));
    }
    Ok(paths)
}

/// The advice for all paths: the pieces that rest on rules once, and the measured ones for each path.
fn all_pieces(args: &AdviseArgs, paths: &[Path]) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::new();
    for path in paths {
        for mut piece in pieces(args, path) {
            if paths.len() > 1 && piece.basis == Basis::Measured {
                piece.says = format!("{}: {}", path.target, piece.says);
            }
            if !all.contains(&piece) {
                all.push(piece);
            }
        }
    }
    all
}

/// Adds a point to a curve. It replaces an earlier one of the same number.
fn point(curve: &mut Curve, at: f64, rate: f64) {
    curve.retain(|(other, _)| *other != at as u32);
    curve.push((at as u32, rate));
}

/// The curves of one target in a report of the doctor. Runs that a limit of the doctor slowed down say
/// nothing about the path.
fn curves(target: &Value) -> Path {
    let (measurements, mut path) = (&target["facts"], Path::default());
    let (data, connections) = (&measurements["data"], &measurements["connections"]);
    path.target = measurements["target"].as_str().unwrap_or_default().to_owned();
    let separate = connections["separate_sessions"].as_bool() == Some(true);
    let client_off = connections["client_off"].as_bool() == Some(true);
    path.takes_one = separate && !client_off;
    let is_slowed = data["bound_mib_s"].is_number();
    let is_bounded = is_slowed || data["bound_iops"].is_number();
    for run in data["runs"].as_array().into_iter().flatten() {
        let number = |name: &str| run[name].as_f64();
        let (Some(connections), Some(depth)) = (number("connections"), number("depth")) else { continue };
        let Some(rate) = number("per_s") else { continue };
        let turns: Vec<f64> =
            run["turns"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        match run["work"].as_str() {
            Some("small_read") if !is_bounded => point(&mut path.depths, depth, rate),
            // The rate of several sessions with one connection each is not the rate of one session.
            _ if is_slowed || separate => {}
            Some("read") => path.reads.turns.push((connections as u32, turns)),
            Some("write") => path.writes.turns.push((connections as u32, turns)),
            _ => {}
        }
    }
    for (compared, work) in [(&mut path.reads, "read"), (&mut path.writes, "write")] {
        compared.doubt = doubt(data, work);
    }
    path
}

/// The uncertainty of runs of one kind, by the same rules as in the doctor.
fn doubt(data: &Value, work: &str) -> Uncertainty {
    let others = &data["others"];
    let part = others["part"].as_f64().unwrap_or(0.0);
    let runs = || data["runs"].as_array().into_iter().flatten().filter(|run| run["work"] == work);
    let waited = runs().map(|run| run["waited"].as_f64().unwrap_or(1.0)).fold(0.0, f64::max);
    let is_here = others["is_server_here"].as_bool() != Some(false);
    // Reports of earlier versions have no `cut`; the number of operations replaces it.
    let by_operations = |run: &Value| {
        let turns = run["turns"].as_array().map_or(1, Vec::len).max(1);
        Some(turns as f64 / run["operations"].as_f64()?.max(1.0))
    };
    let cuts = runs().filter_map(|run| run["cut"].as_f64().or_else(|| by_operations(run)));
    let cut = cuts.max_by(f64::total_cmp).unwrap_or(0.0).min(1.0);
    Uncertainty { others: if is_here { part } else { part.min(waited) }, cut }
}

/// The first point of a curve that comes near to its maximum, and its factor over the first point of all.
fn knee(curve: &Curve) -> Option<(u32, f64)> {
    let first = curve.iter().min_by_key(|(at, _)| *at)?;
    let best = curve.iter().map(|(_, rate)| *rate).max_by(f64::total_cmp)?;
    let knee = curve.iter().filter(|(_, rate)| *rate >= 0.92 * best).min_by_key(|(at, _)| *at)?;
    (curve.len() > 1 && first.1 > 0.0).then(|| (knee.0, knee.1 / first.1))
}

fn piece(
    about: &'static str,
    advice: Choice,
    count: Option<u32>,
    basis: Basis,
    says: impl Into<String>,
) -> Piece {
    Piece { about, advice, count, says: says.into(), basis }
}

fn pieces(args: &AdviseArgs, path: &Path) -> Vec<Piece> {
    let connections = connections(args, path);
    let options = each_option(&connections);
    let mut pieces = vec![connections, depth(args, path)];
    pieces.splice(1..1, options);
    pieces.extend(latency(args));
    pieces.push(names(args));
    pieces.extend(files(args));
    pieces.extend(shares(args));
    pieces
}

/// The advice on connections, in the options of each protocol.
fn each_option(connections: &Piece) -> [Piece; 2] {
    let count = connections.count.unwrap_or(1);
    let (multichannel, nconnect) = match count {
        1 => (
            "mount without multichannel; Windows: Set-SmbClientConfiguration -EnableMultiChannel $false"
                .to_owned(),
            "mount without nconnect".to_owned(),
        ),
        _ => (
            format!("SMB: mount with multichannel,max_channels={count}; Windows does so by itself"),
            format!("NFS: mount with nconnect={count}; the first mount of a server decides for all"),
        ),
    };
    let of = |about, says| piece(about, connections.advice, Some(count), connections.basis, says);
    [of("multichannel", multichannel), of("nconnect", nconnect)]
}

/// Advice for much work by several threads, which the limit of one share may slow down.
fn shares(args: &AdviseArgs) -> Option<Piece> {
    let under_way = args.numjobs.saturating_mul(args.iodepth);
    let is_much = args.numjobs > 1 && under_way > MOST_DEPTH;
    let says = "spread the work over several shares: each has limits of its own on operations and \
                throughput, and so much under way reaches those of one";
    is_much.then(|| piece("shares", Choice::Yes, Some(under_way.div_ceil(MOST_DEPTH)), Basis::Rule, says))
}

/// The advice on connections by the curve of the path. `None` if the curve does not fit the workload. The
/// curves are measured with many operations under way, so they say nothing about one thread with few.
fn measured_connections(args: &AdviseArgs, path: &Path) -> Option<Piece> {
    let about = "connections";
    let under_way = args.numjobs.saturating_mul(args.iodepth);
    let (compared, what) = match args.rwmixread {
        50.. => (&path.reads, "reads"),
        _ => (&path.writes, "writes"),
    };
    let has_much = args.numjobs > 1 || args.iodepth >= LOW_DEPTH;
    // Small files are measured once, and one turn says nothing about connections.
    let fits = has_much && args.bs >= SMALL && args.names < 50;
    let (count, range) = compared.worth().filter(|_| fits)?;
    // More connections than operations under way would have nothing to carry.
    let count = count.min(under_way).max(1);
    let times = format!("{} times ({} to {})", short(range.middle), short(range.least), short(range.most));
    let (advice, count, says) = match range.says(WORTH) {
        GainVerdict::More if count > 1 => {
            (Choice::Yes, count, format!("{count} connections: on this path {what} gain {times} with them"))
        }
        // Nothing is advised if the turns lie on both sides.
        GainVerdict::Unsure => return None,
        _ => (Choice::No, 1, format!("one connection is enough: on this path {what} gain {times} with more")),
    };
    Some(piece(about, advice, Some(count), Basis::Measured, says))
}

/// Whether and how many connections. Multichannel and nconnect are alike in this.
fn connections(args: &AdviseArgs, path: &Path) -> Piece {
    let about = "connections";
    // These rules precede any curve: a curve shows throughput, and they are about latency.
    if let Some(why) = not_advised(args) {
        return piece(about, Choice::No, Some(1), Basis::Rule, format!("one connection: {why}"));
    }
    if path.takes_one {
        let says = "one connection: a session takes no more of this server; switch Multichannel on there, or \
                    raise its limit, and measure again";
        return piece(about, Choice::No, Some(1), Basis::Measured, says);
    }
    if let Some(measured) = measured_connections(args, path) {
        return measured;
    }
    match (args.numjobs, args.nrfiles, args.bs > SMALL) {
        (1, _, false) | (1, 1, _) if args.iodepth < LOW_DEPTH => piece(
            about,
            Choice::No,
            Some(1),
            Basis::Rule,
            "one connection: a single thread gains nothing from more, and usually loses about 10 %",
        ),
        (1, files, true) if files > 1 => piece(
            about,
            Choice::Neutral,
            Some(CONNECTIONS),
            Basis::Rule,
            "up to 4 connections: a single thread that works on several files with more than 16 KiB at once \
             gains slightly",
        ),
        (1, ..) => piece(
            about,
            Choice::Neutral,
            Some(2),
            Basis::Rule,
            "1 or 2 connections: a single thread gains little, however much it keeps under way",
        ),
        (_, 1, false) => piece(
            about,
            Choice::No,
            Some(1),
            Basis::Rule,
            "one connection: many small operations on a single file lose about 10 % with more; spread them \
             over files first",
        ),
        (_, 1, true) => piece(
            about,
            Choice::Yes,
            Some(CONNECTIONS),
            Basis::Rule,
            "4 connections: several threads on one file gain with more than 16 KiB at once, and more on \
             several files",
        ),
        _ => piece(
            about,
            Choice::Yes,
            Some(CONNECTIONS),
            Basis::Rule,
            "4 connections: several threads on several files gain 2 to 4 times; beyond 4 there is no gain",
        ),
    }
}

fn depth(args: &AdviseArgs, path: &Path) -> Piece {
    let about = "depth";
    let under_way = args.numjobs.saturating_mul(args.iodepth);
    if let Some((knee, gain)) = knee(&path.depths).filter(|_| args.bs <= SMALL) {
        let advice = if under_way < knee { Choice::Yes } else { Choice::Neutral };
        return piece(
            about,
            advice,
            Some(knee),
            Basis::Measured,
            format!(
                "{knee} under way: small reads gain {} times up to there on this path and little behind it; \
                 this workload has {under_way}",
                short(gain)
            ),
        );
    }
    if under_way > MOST_DEPTH {
        return piece(
            about,
            Choice::No,
            Some(MOST_DEPTH),
            Basis::Rule,
            format!(
                "64 under way at most: this workload has {under_way}, and behind 64 only the latency grows"
            ),
        );
    }
    let says = format!("{under_way} under way is sufficient; up to 64 the rate grows on a long path");
    piece(about, Choice::Neutral, Some(under_way), Basis::Rule, says)
}

/// The reason why several connections are not advised for work whose latency counts.
fn not_advised(args: &AdviseArgs) -> Option<&'static str> {
    let is_little = args.numjobs == 1 || args.numjobs.saturating_mul(args.iodepth) < LOW_DEPTH;
    match (args.latency && is_little, args.rwmixread) {
        (true, ..50) => Some(
            "writes that wait for each other, by one thread or with less than 16 under way, are not quicker \
             over several connections",
        ),
        (true, _) if args.bs <= SMALL => {
            Some("small reads with little under way are not quicker over several connections")
        }
        _ => None,
    }
}

/// The effect of several connections on latency, if that counts.
fn latency(args: &AdviseArgs) -> Option<Piece> {
    let about = "latency";
    if !args.latency {
        return None;
    }
    if let Some(why) = not_advised(args) {
        let says = format!("leave nconnect and Multichannel out: {why}");
        return Some(piece(about, Choice::No, None, Basis::Rule, says));
    }
    let is_little = args.numjobs == 1 || args.numjobs.saturating_mul(args.iodepth) < LOW_DEPTH;
    let says = if is_little {
        "large reads take no longer over several connections"
    } else {
        "with so much under way several connections cost no latency"
    };
    Some(piece(about, Choice::Neutral, None, Basis::Rule, says))
}

fn names(args: &AdviseArgs) -> Piece {
    match args.names {
        50.. => piece(
            "metadata_cache",
            Choice::Yes,
            None,
            Basis::Rule,
            "cache metadata: most requests are about names; published gains are 30 % of latency and 60 % of \
             operations, and more on a long path. Few large files instead of many small ones gain most",
        ),
        10.. => piece(
            "metadata_cache",
            Choice::Neutral,
            None,
            Basis::Rule,
            "a cache of metadata helps the part of the work that opens and closes",
        ),
        _ => piece(
            "metadata_cache",
            Choice::No,
            None,
            Basis::Rule,
            "no cache of metadata is needed: hardly any request is about names",
        ),
    }
}

fn files(args: &AdviseArgs) -> Option<Piece> {
    if args.numjobs > 1 && args.nrfiles < args.numjobs {
        let says = format!(
            "spread the work over at least {} files: one file has a limit of its own, and gains grow with \
             the files",
            args.numjobs
        );
        return Some(piece("files", Choice::Yes, Some(args.numjobs), Basis::Rule, says));
    }
    None
}

impl Display for Advice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(taken) = &self.taken {
            writeln!(f, "{}", taken.line())?;
        }
        for line in &self.lines {
            let advice = match line.advice {
                Choice::Yes => "yes",
                Choice::Neutral => "as you like",
                Choice::No => "no",
            };
            let basis = match line.basis {
                Basis::Rule => "published rule",
                Basis::Measured => "measured on this path",
            };
            writeln!(f, "{:15} {advice:12} {} [{basis}]", line.about.replace('_', " "), line.says)?;
        }
        Ok(())
    }
}

impl Advice {
    /// The advice as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::asked;

    fn of<'a>(pieces: &'a [Piece], about: &str) -> &'a Piece {
        pieces.iter().find(|it| it.about == about).expect("there is advice on it")
    }

    #[test]
    fn published_rules_are_followed_case_by_case() {
        for (line, about, advice, count) in [
            ("--numjobs 8 --nrfiles 10 --bs 4k --iodepth 8", "connections", Choice::Yes, Some(4)),
            ("--numjobs 8 --nrfiles 1 --bs 64k", "connections", Choice::Yes, Some(4)),
            ("--numjobs 8 --nrfiles 1 --bs 8k", "connections", Choice::No, Some(1)),
            ("--numjobs 1 --nrfiles 1 --bs 1m", "connections", Choice::No, Some(1)),
            ("--numjobs 1 --nrfiles 8 --bs 8k", "connections", Choice::No, Some(1)),
            ("--numjobs 1 --nrfiles 8 --bs 64k", "connections", Choice::Neutral, Some(4)),
            ("--numjobs 4 --iodepth 32", "depth", Choice::No, Some(64)),
            ("--numjobs 1 --iodepth 64", "depth", Choice::Neutral, Some(64)),
            ("--latency --rwmixread 0 --iodepth 4", "latency", Choice::No, None),
            ("--latency --rwmixread 100 --bs 4k --iodepth 4", "latency", Choice::No, None),
            ("--latency --rwmixread 100 --bs 1m --iodepth 4", "latency", Choice::Neutral, None),
            ("--latency --rwmixread 0 --numjobs 8 --iodepth 8", "latency", Choice::Neutral, None),
            ("--names 80", "metadata_cache", Choice::Yes, None),
            ("--names 5", "metadata_cache", Choice::No, None),
            ("--numjobs 8 --nrfiles 2", "files", Choice::Yes, Some(8)),
        ] {
            let pieces = pieces(&asked(line), &Path::default());
            let piece = of(&pieces, about);
            assert_eq!(
                (piece.advice, piece.count, piece.basis),
                (advice, count, Basis::Rule),
                "{line}: {piece:?}"
            );
        }
        assert!(
            pieces(&asked("--numjobs 2 --nrfiles 2"), &Path::default()).iter().all(|it| it.about != "files")
        );
    }

    #[test]
    fn the_curve_of_the_path_goes_before_the_rules() {
        let run = |work: &str, connections: u32, depth: u32, rate: f64| {
            json!({
                "work": work, "connections": connections, "depth": depth, "per_s": rate, "operations": 1000,
                "turns": [rate, rate, rate, rate]
            })
        };
        let report = json!({ "facts": { "data": { "runs": [
            run("read", 1, 16, 23.0), run("read", 2, 16, 46.0), run("read", 4, 16, 47.0),
            run("write", 1, 16, 50.0), run("write", 4, 16, 50.0),
            run("small_files", 1, 32, 100.0), run("small_files", 2, 32, 180.0),
            run("small_files", 4, 32, 300.0), run("small_read", 4, 1, 40.0),
            run("small_read", 4, 32, 1000.0), run("small_read", 4, 128, 1010.0),
        ] } } });
        let path = curves(&report);
        let measured = |line: &str, about: &'static str| of(&pieces(&asked(line), &path), about).clone();
        let reads = measured("--numjobs 8 --nrfiles 8 --rwmixread 100", "connections");
        assert_eq!(
            (reads.advice, reads.count, reads.basis),
            (Choice::Yes, Some(2), Basis::Measured),
            "{reads:?}"
        );
        let writes = measured("--numjobs 8 --nrfiles 8 --rwmixread 0", "connections");
        assert_eq!((writes.advice, writes.count, writes.basis), (Choice::No, Some(1), Basis::Measured));
        let depth = measured("--numjobs 8 --bs 4k", "depth");
        assert_eq!((depth.advice, depth.count, depth.basis), (Choice::Yes, Some(32), Basis::Measured));
        // With one operation at a time there is nothing to distribute, whatever the path, and with a few
        // there is little. The curve was measured with many.
        for line in ["--numjobs 1 --rwmixread 100", "--numjobs 1 --iodepth 4 --rwmixread 100"] {
            let one = measured(line, "connections");
            assert_eq!((one.advice, one.count, one.basis), (Choice::No, Some(1), Basis::Rule), "{one:?}");
        }
        let deep = measured("--numjobs 1 --iodepth 32 --rwmixread 100", "connections");
        assert_eq!((deep.count, deep.basis), (Some(2), Basis::Measured));
        // Small files were measured once, which says nothing about connections.
        let names = measured("--numjobs 8 --nrfiles 8 --bs 4k --names 80", "connections");
        assert_eq!((names.advice, names.basis), (Choice::Yes, Basis::Rule), "{names:?}");
        assert_eq!(curves(&json!({})), Path::default());
    }

    #[test]
    fn what_is_said_of_connections_and_of_latency_agrees() {
        let all = vec![(1, 100.0), (2, 200.0), (4, 400.0)];
        let measured = Path { reads: even(&all), writes: even(&all), depths: all, ..Path::default() };
        for (reads, jobs, files, size, depth, names) in [0, 49, 50, 100].into_iter().flat_map(|reads| {
            [(1, 1), (1, 8), (8, 1), (8, 8)].into_iter().flat_map(move |(jobs, files)| {
                ["4k", "16k", "1m"].into_iter().flat_map(move |size| {
                    [1, 4, 16]
                        .into_iter()
                        .flat_map(move |depth| [0, 80].map(|names| (reads, jobs, files, size, depth, names)))
                })
            })
        }) {
            let line = format!(
                "--latency --rwmixread {reads} --numjobs {jobs} --nrfiles {files} --bs {size} --iodepth \
                 {depth} --names {names}"
            );
            for path in [&Path::default(), &measured] {
                let pieces = pieces(&asked(&line), path);
                let (connections, latency) = (of(&pieces, "connections"), of(&pieces, "latency"));
                if latency.advice == Choice::No {
                    let wanted = (Choice::No, Some(1), Basis::Rule);
                    let said = (connections.advice, connections.count, connections.basis);
                    assert_eq!(said, wanted, "{line}: {connections:?} and {latency:?}");
                } else {
                    assert!(!connections.says.contains("not quicker"), "{line}: {connections:?}");
                }
            }
        }
        // An earlier version contradicted itself here: 4 connections, and none.
        let pieces = pieces(&asked("--latency --rwmixread 0 --numjobs 8 --nrfiles 8"), &Path::default());
        assert_eq!((of(&pieces, "connections").count, of(&pieces, "latency").advice), (Some(1), Choice::No));
    }

    /// The same rate in each of four turns.
    fn even(curve: &[(u32, f64)]) -> Compared {
        let turns = curve.iter().map(|(count, rate)| (*count, vec![*rate; 4])).collect();
        Compared { turns, doubt: Uncertainty::default() }
    }

    /// The advice for eight threads that read eight files, by a report of one target.
    fn advised(connections: &Value, data: &Value) -> Piece {
        let path = curves(&json!({ "facts": { "connections": connections, "data": data } }));
        of(&pieces(&asked("--numjobs 8 --nrfiles 8 --rwmixread 100"), &path), "connections").clone()
    }

    #[test]
    fn what_is_no_measurement_of_connections_goes_before_no_rule() {
        let run = |work: &str, connections: u32, mib_s: f64| {
            json!({
                "work": work, "connections": connections, "depth": 16, "per_s": mib_s, "operations": 1000,
                "turns": [mib_s, mib_s, mib_s, mib_s]
            })
        };
        let runs = json!([run("read", 1, 20.0), run("read", 4, 80.0)]);
        let plain = advised(&json!({}), &json!({ "runs": runs }));
        assert_eq!((plain.count, plain.basis), (Some(4), Basis::Measured));
        // A limit of the doctor slowed down all of them.
        let bounded = advised(&json!({}), &json!({ "runs": runs, "bound_mib_s": 20.0 }));
        assert_eq!((bounded.count, bounded.basis), (Some(4), Basis::Rule));
        // Nothing is advised by turns that lie on both sides, by rates that other programs may have
        // reduced, or by a single turn.
        let uneven = json!([
            run("read", 1, 20.0),
            {
                "work": "read", "connections": 4, "depth": 16, "per_s": 40.0, "operations": 1000,
                "turns": [80.0, 21.0, 22.0, 40.0]
            }
        ]);
        let once = json!([
            { "work": "read", "connections": 1, "depth": 16, "per_s": 20.0, "turns": [20.0] },
            { "work": "read", "connections": 4, "depth": 16, "per_s": 80.0, "turns": [80.0] }
        ]);
        let others = json!({ "part": 0.8, "processors": 2, "is_server_here": true });
        for data in
            [json!({ "runs": uneven }), json!({ "runs": once }), json!({ "runs": runs, "others": others })]
        {
            assert_eq!(advised(&json!({}), &data).basis, Basis::Rule, "{data}");
        }
        // The sessions are separate, because one takes one connection.
        let off = advised(&json!({ "separate_sessions": true }), &json!({ "runs": runs }));
        assert_eq!((off.advice, off.count, off.basis), (Choice::No, Some(1), Basis::Measured));
        assert!(off.says.contains("a session takes no more"), "{off:?}");
        let client =
            advised(&json!({ "separate_sessions": true, "client_off": true }), &json!({ "runs": runs }));
        assert_eq!((client.count, client.basis), (Some(4), Basis::Rule));
    }

    #[test]
    fn both_targets_of_a_report_are_advised_by_what_was_measured_of_each() {
        let path = |target: &str, best| Path {
            target: target.to_owned(),
            reads: even(&[(1, 20.0), (4, best)]),
            ..Path::default()
        };
        let args = asked("--numjobs 8 --nrfiles 8 --rwmixread 100");
        let all = all_pieces(&args, &[path("first", 80.0), path("second", 20.0)]);
        let counts: Vec<_> = all
            .iter()
            .filter(|it| it.about == "connections")
            .map(|it| (it.count, it.says.as_str()))
            .collect();
        assert_eq!(counts.len(), 2, "{all:?}");
        assert!(counts[0].0 == Some(4) && counts[0].1.starts_with("first: "), "{counts:?}");
        assert!(counts[1].0 == Some(1) && counts[1].1.starts_with("second: "), "{counts:?}");
        assert_eq!(all.iter().filter(|it| it.about == "metadata_cache").count(), 1);
    }

    #[test]
    fn each_protocol_has_a_line_of_its_own_and_much_work_goes_over_shares() {
        let pieces = pieces(&asked("--numjobs 16 --nrfiles 16 --iodepth 16"), &Path::default());
        assert!(of(&pieces, "multichannel").says.contains("max_channels=4"));
        assert!(of(&pieces, "nconnect").says.contains("nconnect=4"));
        assert_eq!((of(&pieces, "shares").advice, of(&pieces, "shares").count), (Choice::Yes, Some(4)));
    }
}
