//! The report of a copy: robocopy's table, its exit status, and JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use client::ChannelStatus;
use serde_json::{Value, json};

use crate::Plan;
use crate::channel::Trial;
use crate::sidecar::Lost;
use crate::tally::{Counts, Tally};

/// The exit status of a copy that could not begin, and the bit of one that ended early.
pub const FATAL: u8 = 16;

/// The results of a copy.
#[derive(Debug, Clone)]
pub struct Report {
    source: String,
    target: String,
    dry_run: bool,
    pub(crate) tally: Tally,
    pub(crate) failures: Vec<(String, String)>,
    pub(crate) notes: Vec<(String, String)>,
    pub(crate) gave_up: bool,
    pub(crate) source_channels: Vec<ChannelStatus>,
    pub(crate) target_channels: Vec<ChannelStatus>,
    /// The measured throughput for each number of connections.
    pub(crate) trials: Vec<Trial>,
    /// The kinds of data that the target could not hold, with the number of files.
    pub(crate) lost: BTreeMap<Lost, u64>,
    /// The bytes that the server of both sides has copied by itself.
    pub(crate) at_server: u64,
    pub(crate) elapsed: Duration,
    /// The time during which some file was in flight.
    pub(crate) copying: Duration,
    /// The time of files that were not copied in the end, added up.
    pub(crate) failing: Duration,
    /// The time spent on finding and deleting extras, added up over directories.
    pub(crate) deleting: Duration,
}

impl Report {
    pub(crate) fn new(plan: &Plan) -> Report {
        Report {
            source: plan.source.to_string(),
            target: plan.target.to_string(),
            dry_run: plan.dry_run,
            tally: Tally::default(),
            failures: Vec::new(),
            notes: Vec::new(),
            gave_up: false,
            source_channels: Vec::new(),
            target_channels: Vec::new(),
            trials: Vec::new(),
            lost: BTreeMap::new(),
            at_server: 0,
            elapsed: Duration::ZERO,
            copying: Duration::ZERO,
            failing: Duration::ZERO,
            deleting: Duration::ZERO,
        }
    }

    /// robocopy's exit status. 1: files were copied. 2: the target has extras. 4: an object of another type
    /// is in a file's place. 8: something could not be copied. 16: the copy ended early.
    #[must_use]
    pub fn status(&self) -> u8 {
        let any = |of: fn(&Counts) -> u64| of(&self.tally.files) + of(&self.tally.directories) > 0;
        let failed = any(|row| row.failed) || !self.failures.is_empty();
        let bits = [
            (self.tally.files.copied > 0 && !self.dry_run, 1),
            (any(|row| row.extras), 2),
            (any(|row| row.mismatch), 4),
            (failed, 8),
            (self.gave_up, FATAL),
        ];
        bits.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
    }

    /// The bytes copied per second.
    fn speed(&self) -> f64 {
        self.tally.bytes.copied as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// All results, for programs. Times are in seconds.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |it: &Counts| {
            json!({
                "total": it.total, "copied": it.copied, "skipped": it.skipped,
                "mismatch": it.mismatch, "failed": it.failed, "extras": it.extras,
            })
        };
        let channel = |it: &ChannelStatus| {
            json!({
                "local": it.local.to_string(), "peer": it.peer.to_string(),
                "requests": it.requests, "bytes": it.bytes,
            })
        };
        let trial = |it: &Trial| json!({ "channels": it.channels, "bytes_per_second": it.rate.round() });
        let said = |it: &(String, String)| json!({ "path": it.0, "why": it.1 });
        let lost: BTreeMap<_, _> = self.lost.iter().map(|(kind, count)| (kind.name(), *count)).collect();
        json!({
            "source": self.source,
            "target": self.target,
            "dry_run": self.dry_run,
            "exit_status": self.status(),
            "ended_early": self.gave_up,
            "dirs": row(&self.tally.directories),
            "files": row(&self.tally.files),
            "bytes": row(&self.tally.bytes),
            "left_out": self.tally.others,
            "bytes_copied_by_server": self.at_server,
            "seconds": self.elapsed.as_secs_f64(),
            "seconds_copying": self.copying.as_secs_f64(),
            "bytes_per_second": self.speed(),
            "failures": self.failures.iter().map(said).collect::<Vec<_>>(),
            "notes": self.notes.iter().map(said).collect::<Vec<_>>(),
            "not_kept": lost,
            "channels_tried": self.trials.iter().map(trial).collect::<Vec<_>>(),
            "channels": {
                "source": self.source_channels.iter().map(channel).collect::<Vec<_>>(),
                "target": self.target_channels.iter().map(channel).collect::<Vec<_>>(),
            },
        })
    }
}

/// Bytes in robocopy's form: whole below 1024, else with a unit and two places.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["k", "m", "g", "t"];
    let mut value = count as f64;
    let mut unit = None;
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = Some(next);
    }
    unit.map_or_else(|| count.to_string(), |unit| format!("{value:.2} {unit}"))
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = "-".repeat(78);
        writeln!(f, "{line}\n\n  Source : {}\n    Dest : {}", self.source, self.target)?;
        if self.dry_run {
            writeln!(f, "    Note : a dry run: nothing was copied or deleted")?;
        }
        writeln!(f, "\n{line}\n")?;
        let head = ["Total", "Copied", "Skipped", "Mismatch", "FAILED", "Extras"];
        let row = |f: &mut fmt::Formatter<'_>, name: &str, cells: [String; 6]| {
            write!(f, "{name:>8}{}", if name.is_empty() { "  " } else { " :" })?;
            cells.iter().try_for_each(|cell| write!(f, "{cell:>10}"))?;
            writeln!(f)
        };
        row(f, "", head.map(str::to_owned))?;
        let cells = |it: &Counts, shown: fn(u64) -> String| {
            [it.total, it.copied, it.skipped, it.mismatch, it.failed, it.extras].map(shown)
        };
        row(f, "Dirs", cells(&self.tally.directories, |count| count.to_string()))?;
        row(f, "Files", cells(&self.tally.files, |count| count.to_string()))?;
        row(f, "Bytes", cells(&self.tally.bytes, bytes))?;
        let none = String::new;
        let [total, copied, failed, extras] =
            [self.elapsed, self.copying, self.failing, self.deleting].map(clock);
        row(f, "Times", [total, copied, none(), none(), failed, extras])?;
        if self.tally.others > 0 {
            let count = self.tally.others;
            writeln!(f, "\n    Left : {count} left out: neither files nor directories (among Skipped)")?;
        }
        for (kind, count) in &self.lost {
            writeln!(f, "\n    Lost : {count} {}", kind.name())?;
        }
        if self.at_server > 0 {
            writeln!(f, "\n  Server : {} were copied by the server itself", bytes(self.at_server))?;
        }
        let speed = self.speed();
        writeln!(f, "\n   Speed : {speed:.0} Bytes/sec.")?;
        writeln!(f, "   Speed : {:.3} MegaBytes/min.", speed * 60.0 / f64::from(1 << 20))
    }
}
