//! A self-contained page: a table of the results, and plots by channels, by the size of an operation and
//! by the depth of the queue.

use super::plots::{Plot, PlotLine, STYLE, escape, short};
use super::{LoadParameters, Report};
use crate::measure::SLICE;

const MIB: f64 = 1024.0 * 1024.0;
const NS_PER_MS: f64 = 1e6;

/// The horizontal axis of a plot.
struct Axis {
    name: &'static str,
    option: &'static str,
    of: fn(&LoadParameters) -> u64,
    /// The parameters that are the same along one line.
    rest: fn(&LoadParameters) -> String,
    shown: fn(u64) -> String,
}

const AXES: [Axis; 3] = [
    Axis {
        name: "channels",
        option: "--channels 1,2,4",
        of: |it| it.channels.into(),
        rest: |it| format!("{} {}, depth {}", it.what, bytes(it.block.into()), it.depth),
        shown: |it| it.to_string(),
    },
    Axis {
        name: "I/O size",
        option: "--bs 4k,64k,1m",
        of: |it| it.block.into(),
        rest: |it| format!("{}, depth {}, {}", it.what, it.depth, channels(it)),
        shown: bytes,
    },
    Axis {
        name: "queue depth",
        option: "--iodepth 1,8,64",
        of: |it| it.depth.into(),
        rest: |it| format!("{} {}, {}", it.what, bytes(it.block.into()), channels(it)),
        shown: |it| it.to_string(),
    },
];

/// A plotted value of a report.
type Value = (&'static str, fn(&Report) -> f64);

const VALUES: [Value; 6] = [
    ("throughput, MiB/s", throughput),
    ("operations for a second", iops),
    ("latency, 50th percentile, ms", |it| latency(it, 50.0)),
    ("latency, 95th percentile, ms", |it| latency(it, 95.0)),
    ("latency, 99th percentile, ms", |it| latency(it, 99.0)),
    ("latency, 99.9th percentile, ms", |it| latency(it, 99.9)),
];

/// The horizontal axis of the latency curve.
const PERCENTILES: [(&str, f64); 9] = [
    ("0", 0.0),
    ("25", 25.0),
    ("50", 50.0),
    ("75", 75.0),
    ("90", 90.0),
    ("99", 99.0),
    ("99.9", 99.9),
    ("99.99", 99.99),
    ("max", 100.0),
];

/// The reports as one page; `command` is the command line.
#[must_use]
pub fn html(reports: &[Report], command: &str) -> String {
    let title = reports.first().map_or("", |report| &report.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>trunkline load: \
         {0}</title><style>{STYLE}</style>\n\
         <h1>Results</h1>\n<p>{0}</p>\n<p><code>{1}</code></p>\n",
        escape(title),
        escape(command)
    );
    page.push_str(&table(reports));
    for axis in &AXES {
        page.push_str(&section(reports, axis));
    }
    page.push_str("<h2>Latency by percentile</h2>\n<div class=\"plots\">\n");
    page.push_str(&by_percentile(reports).draw());
    page.push_str(&over_time(reports).draw());
    page.push_str(
        "</div>\n<h2>Meaning of the numbers</h2>\n<p>An operation counts if it begins in the measured time; \
         the warm-up does not count. A latency runs from the start of an operation to its reply; with a \
         rate, from its planned start. 1 MiB is 1,048,576 bytes. Throughput is the size of an operation \
         times operations a second; the last column shows whether the counted bytes agree.</p>\n</html>\n",
    );
    page
}

fn throughput(report: &Report) -> f64 {
    per_second(report, report.bytes()) / MIB
}

fn iops(report: &Report) -> f64 {
    per_second(report, report.operations())
}

fn per_second(report: &Report, count: u64) -> f64 {
    let seconds = report.lasted().as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn latency(report: &Report, percent: f64) -> f64 {
    let latency = report.all.total().latency;
    let value = if percent == 0.0 { latency.min() } else { latency.value_at_percentile(percent) };
    value as f64 / NS_PER_MS
}

/// A number of bytes in the largest unit that divides it.
fn bytes(count: u64) -> String {
    match count {
        0 => "0".to_owned(),
        _ if count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} B"),
    }
}

fn channels(parameters: &LoadParameters) -> String {
    if parameters.channels == 1 {
        "1 channel".to_owned()
    } else {
        format!("{} channels", parameters.channels)
    }
}

fn name(report: &Report) -> String {
    let parameters = &report.parameters;
    format!(
        "{} {}, depth {}, {}",
        parameters.what,
        bytes(parameters.block.into()),
        parameters.depth,
        channels(parameters)
    )
}

fn table(reports: &[Report]) -> String {
    let mut out = "<table><tr><th>load<th>MiB/s<th>I/O per s<th>mean \
                   ms<th>50th<th>95th<th>99th<th>99.9th<th>size x I/O per s</tr>\n"
        .to_owned();
    for report in reports {
        let mean = report.all.total().latency.mean() / NS_PER_MS;
        let percentiles = [50.0, 95.0, 99.0, 99.9].map(|it| format!("<td>{}", short(latency(report, it))));
        let holds = match report.size_times_operations_holds() {
            None => "&ndash;",
            Some(true) => "holds",
            Some(false) => "DOES NOT HOLD",
        };
        out.push_str(&format!(
            "<tr><td>{}<td>{}<td>{}<td>{}{}<td>{holds}</tr>\n",
            escape(&name(report)),
            short(throughput(report)),
            short(iops(report)),
            short(mean),
            percentiles.concat()
        ));
    }
    out.push_str("</table>\n");
    out
}

/// The distinct values, sorted.
fn distinct(reports: &[Report], of: fn(&LoadParameters) -> u64) -> Vec<u64> {
    let mut values: Vec<u64> = reports.iter().map(|report| of(&report.parameters)).collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn section(reports: &[Report], axis: &Axis) -> String {
    let places = distinct(reports, axis.of);
    let mut out = format!("<h2>By {}</h2>\n", axis.name);
    if let [only] = places.as_slice() {
        let only = (axis.shown)(*only);
        out.push_str(&format!("<p>Measured at {only} alone; <code>{}</code> compares.</p>\n", axis.option));
        return out;
    }
    out.push_str("<div class=\"plots\">\n");
    let mut names: Vec<String> = reports.iter().map(|report| (axis.rest)(&report.parameters)).collect();
    names.sort();
    names.dedup();
    for (title, value) in VALUES {
        let at = |name: &str, parameter: u64| {
            let is_it =
                |it: &&Report| (axis.rest)(&it.parameters) == name && (axis.of)(&it.parameters) == parameter;
            reports.iter().find(is_it).map(value)
        };
        let line = |name: &String| PlotLine {
            name: name.clone(),
            values: places.iter().map(|parameter| at(name, *parameter)).collect(),
        };
        let lines = names.iter().map(line).collect();
        let places = places.iter().map(|parameter| (axis.shown)(*parameter)).collect();
        out.push_str(&Plot { title, across: axis.name, places, lines, logarithmic: false }.draw());
    }
    out.push_str("</div>\n");
    out
}

fn by_percentile(reports: &[Report]) -> Plot<'static> {
    let line = |report: &Report| PlotLine {
        name: name(report),
        values: PERCENTILES
            .iter()
            .map(|(_, percent)| Some(latency(report, *percent)).filter(|it| *it > 0.0))
            .collect(),
    };
    Plot {
        title: "latency, ms",
        across: "percentile",
        places: PERCENTILES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        lines: reports.iter().map(line).collect(),
        logarithmic: true,
    }
}

/// The most points of a line over time. With more slices, several form one point.
const POINTS: usize = 240;

fn over_time(reports: &[Report]) -> Plot<'static> {
    let rates: Vec<Vec<f64>> = reports
        .iter()
        .map(|report| {
            report.all.total().rates(report.lasted()).into_iter().map(|(operations, _)| operations).collect()
        })
        .collect();
    let longest = rates.iter().map(Vec::len).max().unwrap_or(0);
    let together = longest.div_ceil(POINTS).max(1);
    let mean = |slices: &[f64]| Some(slices.iter().sum::<f64>() / slices.len() as f64);
    let line = |(report, rates): (&Report, &Vec<f64>)| PlotLine {
        name: name(report),
        values: rates.chunks(together).map(mean).collect(),
    };
    let seconds = |point: usize| format!("{:.1}", (point * together) as f64 * SLICE.as_secs_f64());
    Plot {
        title: "operations for a second, over time",
        across: "s",
        places: (0..longest.div_ceil(together)).map(seconds).collect(),
        lines: reports.iter().zip(&rates).map(line).collect(),
        logarithmic: false,
    }
}
