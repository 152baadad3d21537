//! The rules: the findings that follow from the [`TargetMeasurements`] of one server. All are pure
//! functions of the measured values. The table in `tests` checks them against situations.
//!
//! [`findings`] evaluates each layer, from the lowest up. A rule that could confuse two causes checks the
//! value that distinguishes them. The round trip under load distinguishes a lossy path from a full one,
//! and a server's limit from a narrow path. The waiting time of operations distinguishes a limit from too
//! few operations under way. A consequence of a cause is not reported as a second fault (`BRINGS`).

mod connections;
mod limits;
mod path;
mod protocol;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_paths;
#[cfg(test)]
pub(crate) mod tests_support;

use crate::connection_gain::Gain;
use crate::finding::{Finding, Layer};
use crate::measurements::{Data, Run, RunKind, TargetMeasurements};

/// All findings about one server.
#[must_use]
pub fn findings(measurements: &TargetMeasurements) -> Vec<Finding> {
    let mut all = path::name(measurements);
    all.extend(path::host(measurements));
    all.extend(path::transport(measurements));
    all.extend(protocol::protocol(measurements));
    all.extend(connections::connections(measurements));
    all.extend(connections::mount(measurements));
    all.extend(limits::store(measurements));
    all.extend(limits::names(measurements));
    all.extend(limits::limits(measurements));
    explain(&mut all);
    all
}

/// The consequences of causes. On a path that loses packets, rates fall, differ and stop, whatever the
/// server does. The same is so for a window, a slot table or a grant of credits that is too small, and
/// for replies that are delayed.
const BRINGS: &[(&str, &[&str])] = &[
    (
        "black_hole",
        &[
            "loss",
            "window",
            "throughput_limit",
            "operations_limit",
            "metadata_limit",
            "burst",
            "slow_names",
            "slow_store",
        ],
    ),
    (
        "loss",
        &[
            "throughput_limit",
            "operations_limit",
            "metadata_limit",
            "burst",
            "slow_names",
            "scans",
            "slow_store",
            "slow_channel",
        ],
    ),
    (
        "narrow",
        &["throughput_limit", "operations_limit", "metadata_limit", "burst", "slow_names", "slow_store"],
    ),
    ("window", &["throughput_limit", "operations_limit", "burst"]),
    (
        "held_answers",
        &["throughput_limit", "operations_limit", "metadata_limit", "burst", "slow_names", "slow_store"],
    ),
    ("slots", &["throughput_limit", "operations_limit", "metadata_limit"]),
    ("credits", &["throughput_limit", "operations_limit"]),
];

/// Turns findings that another finding explains into notes.
fn explain(all: &mut [Finding]) {
    let held: Vec<(&'static str, Layer)> =
        all.iter().filter(|it| it.holds_back).map(|it| (it.kind, it.layer)).collect();
    for (cause, effects) in BRINGS {
        let Some((_, layer)) = held.iter().find(|(kind, _)| kind == cause) else { continue };
        for it in all.iter_mut().filter(|it| it.holds_back && effects.contains(&it.kind)) {
            it.holds_back = false;
            it.says = format!("{}; what was found of the {} layer brings that about", it.says, layer.name());
        }
    }
}

/// The round trip of a connect on the idle path, in ms.
pub(crate) fn rtt(measurements: &TargetMeasurements) -> Option<f64> {
    measurements.transport.as_ref()?.connect.median()
}

/// The additional time of a connect under a load of this kind, in ms. A path that is full in one
/// direction has its queue there, and a line may be narrow in only one direction.
pub(crate) fn queued(measurements: &TargetMeasurements, work: RunKind) -> Option<f64> {
    let transport = measurements.transport.as_ref()?;
    let loaded = match work {
        RunKind::Write | RunKind::SmallFiles => &transport.connect_under_writes,
        RunKind::Read | RunKind::SmallRead | RunKind::ReadAgain => &transport.connect_under_load,
    };
    Some(loaded.as_ref()?.median()? - transport.connect.median()?)
}

/// Whether the path had a queue under such a load: connects took much longer.
pub(crate) fn has_queue(measurements: &TargetMeasurements, work: RunKind) -> bool {
    let Some(base) = rtt(measurements) else { return false };
    queued(measurements, work).is_some_and(|it| it > (base * 0.5).max(5.0))
}

/// The large run with one connection.
pub(crate) fn single(measurements: &TargetMeasurements, work: RunKind) -> Option<&Run> {
    measurements.data.as_ref()?.run(work, 1)
}

/// The gain of several connections over one, for reads or writes, whichever gain more. `None` if a limit
/// of the doctor slowed down both.
pub(crate) fn gain(measurements: &TargetMeasurements) -> Option<Gain<'_>> {
    unbounded(measurements)?.gain(&[RunKind::Read, RunKind::Write])
}

/// The runs whose rates say something about path and server: those without a limit of the doctor
/// (`--max-rate`).
pub(crate) fn unbounded(measurements: &TargetMeasurements) -> Option<&Data> {
    measurements.data.as_ref().filter(|it| it.bound_mib_s.is_none())
}

/// Whether operations waited for longer than the round trip. If they did not, more of them under way
/// would have increased the rate, so the rate says nothing about the server.
pub(crate) fn waited(measurements: &TargetMeasurements, run: &Run) -> bool {
    run.median_ms > 2.0 * rtt(measurements).unwrap_or(0.0) + 2.0
}

/// Whether operations took hardly longer than the round trip, so that more of them under way would have
/// increased the rate.
pub(crate) fn had_too_little(measurements: &TargetMeasurements, run: &Run) -> bool {
    rtt(measurements).is_some_and(|base| base >= 1.0 && run.median_ms < 1.5 * base + 2.0)
}

/// Whether this host had enough idle time in a run, so that something else held it back.
pub(crate) fn had_time(run: &Run) -> bool {
    run.idle > 0.25 && run.own_processors < 0.85
}

/// A number with the significant digits.
pub(crate) fn short(value: f64) -> String {
    load::plots::short(value)
}

/// `read over 4 connections: 96.2 MiB/s (95.1 to 97.3)`.
pub(crate) fn shown(run: &Run) -> String {
    let connections = if run.connections == 1 {
        "1 connection".to_owned()
    } else {
        format!("{} connections", run.connections)
    };
    let (what, large) = match run.work {
        RunKind::Write => ("writes", true),
        RunKind::Read => ("reads", true),
        RunKind::ReadAgain => ("reads at the end", true),
        RunKind::SmallRead => ("4 KiB reads", false),
        RunKind::SmallFiles => ("small files", false),
    };
    if large {
        let unit = f64::from(run.block) / 1_048_576.0;
        let [least, most] = run.interval.map(|it| short(it * unit));
        return format!("{what} over {connections}: {} MiB/s ({least} to {most})", short(run.mib_s));
    }
    let [least, most] = run.interval.map(short);
    let (rate, depth) = (short(run.per_s), run.depth);
    format!("{what} over {connections}, {depth} under way: {rate}/s ({least} to {most})")
}
