//! The report for people, in the form of diskspd: the options, the processors, one row for each job, and
//! the latencies. The values that only this program has follow.

use std::fmt;

use super::plots::short;
use super::{Report, deviation};
use crate::comparison::UNFELT_PART;
use crate::measure::{Record, Tally};

const MIB: f64 = 1024.0 * 1024.0;
const NS_PER_MS: f64 = 1e6;

/// The rows of the latency table, as diskspd has them.
const ROWS: [(&str, f64); 15] = [
    ("min", 0.0),
    ("25th", 25.0),
    ("50th", 50.0),
    ("75th", 75.0),
    ("90th", 90.0),
    ("95th", 95.0),
    ("99th", 99.0),
    ("3-nines", 99.9),
    ("4-nines", 99.99),
    ("5-nines", 99.999),
    ("6-nines", 99.9999),
    ("7-nines", 99.999_99),
    ("8-nines", 99.999_999),
    ("9-nines", 99.999_999_9),
    ("max", 100.0),
];

/// A kind of operation, and its tally in a record.
type ReportSection = (&'static str, fn(&Record) -> Tally);

const READ: ReportSection = ("Read", |it| it.read.clone());
const WRITE: ReportSection = ("Write", |it| it.write.clone());
const METADATA: ReportSection = ("Metadata", |it| it.metadata.clone());
const TOTAL: ReportSection = ("Total", Record::total);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let security = &self.measured.security;
        writeln!(f, "{}", self.title)?;
        writeln!(
            f,
            "{} {}, signing {}, encryption {}",
            security.protocol, security.dialect, security.signing, security.encryption
        )?;
        if let Some(credits) = self.most_credits() {
            writeln!(
                f,
                "the server grants {credits} credits at once: larger requests were sent in parts, one after \
                 the other"
            )?;
        }
        self.input(f)?;
        self.time(f)?;
        self.processors(f)?;
        let parts: &[ReportSection] =
            if self.parameters.is_data { &[TOTAL, READ, WRITE] } else { &[METADATA] };
        for (name, of) in parts {
            self.rates(f, name, *of)?;
        }
        let parts: &[ReportSection] =
            if self.parameters.is_data { &[READ, WRITE, TOTAL] } else { &[METADATA] };
        self.latencies(f, parts)?;
        if self.measured.channels.len() > 1 {
            self.channels(f)?;
        }
        self.turns(f)?;
        self.checks(f)
    }
}

impl Report {
    fn input(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = &self.parameters;
        writeln!(f, "\nInput parameters:\n\n\ttimespan:   1\n\t-------------")?;
        if let Some(runtime) = parameters.runtime {
            writeln!(f, "\tduration: {}s", runtime.as_secs_f64())?;
        }
        writeln!(f, "\twarm up time: {}s", parameters.ramp.as_secs_f64())?;
        writeln!(f, "\tcool down time: {}s", parameters.cool_down.as_secs_f64())?;
        if parameters.is_data {
            writeln!(f, "\tblock size: {}", parameters.block)?;
        }
        writeln!(f, "\tnumber of outstanding I/O operations per thread: {}", parameters.depth)?;
        if let Some(rate) = parameters.rate {
            writeln!(f, "\tplanned I/O operations per s: {rate}")?;
        }
        Ok(())
    }

    fn time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nResults for timespan 1:\n{}\n", "*".repeat(79))?;
        writeln!(f, "actual test time:\t{:.2}s", self.all.lasted.as_secs_f64())?;
        writeln!(f, "thread count:\t\t{}", self.parameters.jobs)?;
        writeln!(f, "proc count:\t\t{}", self.measured.usage.0.len())
    }

    fn processors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = &self.measured.usage.0;
        if usage.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nCPU |  Usage |  User  |  Kernel |  Idle\n{}", "-".repeat(43))?;
        let mut sum = [0; 3];
        for (number, ticks) in usage.iter().enumerate() {
            shares(f, &format!("{number:>4}"), ticks)?;
            sum = std::array::from_fn(|at| sum[at] + ticks[at]);
        }
        writeln!(f, "{}", "-".repeat(43))?;
        shares(f, "avg.", &sum)
    }

    fn rates(&self, f: &mut fmt::Formatter<'_>, name: &str, of: fn(&Record) -> Tally) -> fmt::Result {
        writeln!(f, "\n{name} IO")?;
        writeln!(
            f,
            "thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | IopsStdDev | \
             LatStdDev |  file"
        )?;
        let line = "-".repeat(117);
        writeln!(f, "{line}")?;
        for (at, (file, record)) in self.rows.iter().enumerate() {
            self.row(f, &format!("{at:>6} |"), &of(record), &format!(" | {file}"))?;
        }
        writeln!(f, "{line}")?;
        self.row(f, "total:  ", &of(&self.all), "")
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str, tally: &Tally, file: &str) -> fmt::Result {
        let seconds = self.all.lasted.as_secs_f64();
        let rate = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let rates: Vec<f64> =
            tally.rates(self.all.lasted).into_iter().map(|(operations, _)| operations).collect();
        writeln!(
            f,
            "{name} {:>15} | {:>12} | {:>10.2} | {:>10.2} | {:>8.3} | {:>10.2} | {:>9.3}{file}",
            tally.bytes,
            tally.operations,
            rate(tally.bytes as f64 / MIB),
            rate(tally.operations as f64),
            tally.latency.mean() / NS_PER_MS,
            deviation(&rates),
            tally.latency.stdev() / NS_PER_MS
        )
    }

    fn latencies(&self, f: &mut fmt::Formatter<'_>, parts: &[ReportSection]) -> fmt::Result {
        let tallies: Vec<Tally> = parts.iter().map(|(_, of)| of(&self.all)).collect();
        write!(f, "\n\ntotal:\n  %-ile")?;
        for (name, _) in parts {
            write!(f, " | {:>10}", format!("{name} (ms)"))?;
        }
        writeln!(f, "\n{}", "-".repeat(7 + parts.len() * 14))?;
        for (name, percent) in ROWS {
            write!(f, "{name:>7}")?;
            for ((part, _), tally) in parts.iter().zip(&tallies) {
                let width = 10.max(part.len() + 5);
                let latency = &tally.latency;
                let value = if percent == 0.0 { latency.min() } else { latency.value_at_percentile(percent) };
                match latency.is_empty() {
                    true => write!(f, " | {:>width$}", "N/A")?,
                    false => write!(f, " | {:>width$.3}", value as f64 / NS_PER_MS)?,
                }
            }
            writeln!(f)?;
        }
        writeln!(f)
    }

    fn channels(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>22} | {:>22} | {:>12} | {:>15}", "client", "server", "requests", "bytes")?;
        writeln!(f, "{}", "-".repeat(80))?;
        for it in &self.measured.channels {
            let (local, peer) = (it.local.to_string(), it.peer.to_string());
            writeln!(f, "{local:>22} | {peer:>22} | {:>12} | {:>15}", it.requests, it.bytes)?;
        }
        writeln!(f)
    }

    /// Prints the turns, and the comparison of these channels with the first number of channels.
    fn turns(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turns = &self.turns;
        if turns.per_s.is_empty() {
            return Ok(());
        }
        let each: Vec<String> = turns.per_s.iter().map(|it| short(*it)).collect();
        writeln!(f, "I/O per s in each turn: {}", each.join(", "))?;
        let processors = self.measured.usage.0.len() as f64;
        let others = (turns.others >= UNFELT_PART).then(|| short(turns.others * processors));
        if let Some((channels, _)) = &turns.beside {
            match turns.range() {
                Some(range) => writeln!(
                    f,
                    "{} channels carried {} times as much as {channels} ({} to {})",
                    self.parameters.channels,
                    short(range.middle),
                    short(range.least),
                    short(range.most)
                )?,
                None => writeln!(
                    f,
                    "the gain of {} channels is not known: see the turns",
                    self.parameters.channels
                )?,
            }
        }
        match others {
            Some(used) => writeln!(f, "other programs used {used} processors of this host meanwhile"),
            None => Ok(()),
        }
    }

    /// Prints the consistency checks of the numbers, and processor times.
    fn checks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.all.lasted.as_secs_f64();
        if let Some(holds) = self.size_times_operations_holds().filter(|_| seconds > 0.0) {
            let iops = self.operations() as f64 / seconds;
            let product = iops * f64::from(self.parameters.block) / MIB;
            let counted = self.bytes() as f64 / MIB / seconds;
            let verdict = if holds { "holds" } else { "DOES NOT HOLD" };
            writeln!(
                f,
                "I/O size x I/O per s = {} x {iops:.2} = {product:.2} MiB/s; counted {counted:.2} MiB/s: \
                 {verdict}",
                self.parameters.block
            )?;
        }
        if self.parameters.rate.is_none() {
            let (under_way, workers) = (self.under_way(), self.parameters.workers);
            writeln!(f, "I/O per s x mean latency = {under_way:.1} under way, of {workers}")?;
        }
        if self.missed() > 0 {
            let missed = self.missed();
            writeln!(
                f,
                "{missed} planned operations were not begun in time: this is more than the server can do"
            )?;
        }
        for (who, spent) in
            [("server", self.server_ns_per_operation()), ("client", self.client_ns_per_operation())]
        {
            if let Some(spent) = spent {
                writeln!(f, "{who} processor time: {:.2} us for each I/O", spent / 1000.0)?;
            }
        }
        Ok(())
    }
}

/// The percentages of a processor's time.
fn shares(f: &mut fmt::Formatter<'_>, name: &str, [user, kernel, all]: &[u64; 3]) -> fmt::Result {
    let percent = |ticks: u64| ticks as f64 * 100.0 / (*all).max(1) as f64;
    let used = user + kernel;
    writeln!(
        f,
        "{name}| {:>5.2}% | {:>5.2}% | {:>6.2}% | {:>5.2}%",
        percent(used),
        percent(*user),
        percent(*kernel),
        percent(all.saturating_sub(used))
    )
}
