//! The report for people: the tables of diskspd, one row for each connection, then latencies.

use std::fmt;

use super::Report;
use crate::measure::{Record, Tally};

const MIB: f64 = 1024.0 * 1024.0;
const NS_PER_MS: f64 = 1e6;

/// The rows of the latency table, as diskspd has them.
const ROWS: [(&str, f64); 11] = [
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
    ("max", 100.0),
];

/// One kind of operation, out of a record.
type Part = (&'static str, fn(&Record) -> &Tally);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let security = &self.security;
        writeln!(f, "{}", self.title)?;
        writeln!(
            f,
            "{} {}, signing {}, encryption {}; {:.3} s measured",
            security.protocol,
            security.dialect,
            security.signing,
            security.encryption,
            self.all.lasted.as_secs_f64()
        )?;
        let parts: [Part; 3] =
            [("Read", |it| &it.read), ("Write", |it| &it.write), ("Metadata", |it| &it.metadata)];
        let used: Vec<_> = parts.into_iter().filter(|(_, of)| of(&self.all).operations > 0).collect();
        for (name, of) in &used {
            self.rates(f, name, *of)?;
        }
        if !used.is_empty() {
            self.latencies(f, &used)?;
        }
        if self.channels.len() > self.connections.len() {
            self.channels(f)?;
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

impl Report {
    fn rates(&self, f: &mut fmt::Formatter<'_>, name: &str, of: fn(&Record) -> &Tally) -> fmt::Result {
        writeln!(f, "\n{name} IO")?;
        writeln!(
            f,
            "connection |           bytes |         I/Os |      MiB/s |   I/O per s |   AvgLat |  LatStdDev"
        )?;
        let line = "-".repeat(93);
        writeln!(f, "{line}")?;
        let seconds = self.all.lasted.as_secs_f64();
        for (at, record) in self.connections.iter().enumerate() {
            row(f, &at.to_string(), of(record), seconds)?;
        }
        writeln!(f, "{line}")?;
        row(f, "total:", of(&self.all), seconds)
    }

    fn channels(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>22} | {:>22} | {:>12} | {:>15}", "client", "server", "requests", "bytes")?;
        writeln!(f, "{}", "-".repeat(80))?;
        for it in &self.channels {
            let (local, peer) = (it.local.to_string(), it.peer.to_string());
            writeln!(f, "{local:>22} | {peer:>22} | {:>12} | {:>15}", it.requests, it.bytes)?;
        }
        writeln!(f)
    }

    fn latencies(&self, f: &mut fmt::Formatter<'_>, used: &[Part]) -> fmt::Result {
        write!(f, "\n  %-ile")?;
        for (name, _) in used {
            write!(f, " | {:>13}", format!("{name} (ms)"))?;
        }
        writeln!(f, "\n{}", "-".repeat(7 + used.len() * 16))?;
        for (name, percent) in ROWS {
            write!(f, "{name:>7}")?;
            for (_, of) in used {
                let latency = &of(&self.all).latency;
                let value = if percent == 0.0 { latency.min() } else { latency.value_at_percentile(percent) };
                write!(f, " | {:>13.3}", value as f64 / NS_PER_MS)?;
            }
            writeln!(f)?;
        }
        writeln!(f)
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, tally: &Tally, seconds: f64) -> fmt::Result {
    let rate = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    writeln!(
        f,
        "{name:>10} | {:>15} | {:>12} | {:>10.2} | {:>11.2} | {:>8.3} | {:>11.3}",
        tally.bytes,
        tally.operations,
        rate(tally.bytes as f64 / MIB),
        rate(tally.operations as f64),
        tally.latency.mean() / NS_PER_MS,
        tally.latency.stdev() / NS_PER_MS
    )
}
