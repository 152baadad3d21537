//! Layers 5 to 7 on the side of the server: its storage, its work with names, and its limits.

use admin::workload::ThrottledCounts;

use super::connections::knee;
use super::path::{by_server, has_free_path};
use super::{had_time, has_queue, rtt, short, shown, single, waited};
use crate::finding::{ChangeLocation, Finding, Layer};
use crate::measurements::{Cause, Data, NameWork, Run, RunKind, TargetMeasurements};

/// The time in ms that a server may take for a small operation without being called slow.
const QUICK_MS: f64 = 4.0;
/// A limit of operations a second matters only below this rate.
const FEW: f64 = 20_000.0;
/// The relative unevenness of parts up to which a limit is assumed.
const EVEN: f64 = 0.06;
/// A limit of throughput matters only below this rate, in MiB/s.
const LITTLE: f64 = 700.0;

/// Findings about the storage: free space, and time beyond the network's.
pub(super) fn store(measurements: &TargetMeasurements) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(stopped) = measurements.stopped.as_ref().filter(|it| it.cause == Cause::Full) {
        let says = "the server's disk, or our quota there, is full: nothing can be written";
        let finding = Finding::held(Layer::Storage, "full", says).by(stopped.why.clone());
        found.push(finding.change(ChangeLocation::Server, "free space there"));
    }
    let small = measurements
        .data
        .as_ref()
        .and_then(|it| it.runs.iter().find(|it| it.work == RunKind::SmallRead && it.depth == 1));
    if let (Some(run), Some(base)) = (small, rtt(measurements))
        && run.operations > 3
    {
        let own = run.median_ms - base;
        // A limit of operations also appears as waiting, and the curve distinguishes it. If a limit of
        // the doctor slows down a mount, operations wait for their planned start, and their times count
        // from there.
        let is_paced = matches!(measurements.protocol, Some(crate::measurements::Protocol::Mount(_)))
            && measurements.data.as_ref().is_some_and(Data::is_bounded);
        if own > QUICK_MS
            && !is_paced
            && own > base
            && !is_capped(measurements)
            && !has_queue(measurements, RunKind::SmallRead)
            && late_echo(measurements) < own / 2.0
        {
            let says = format!(
                "the server needs {} ms for a read of 4 KiB, beyond the {} ms of the network: its storage is \
                 slow",
                short(own),
                short(base)
            );
            let finding = Finding::held(Layer::Storage, "slow_store", says)
                .by(shown(run))
                .gain(run.median_ms / (base + 0.5));
            found.push(finding.change(
                ChangeLocation::Server,
                "check the disks there (iostat -x), their cache, and the performance tier",
            ));
        }
    }
    if let Some((knee, curve)) = knee(measurements) {
        let is_last = curve.iter().all(|(depth, _)| *depth <= knee);
        let curve: Vec<String> =
            curve.iter().map(|(depth, rate)| format!("{depth}: {}", short(*rate))).collect();
        let behind = if is_last { "the most that was tried" } else { "and little behind that" };
        let says = format!("small reads gain up to {knee} under way, {behind}");
        found.push(
            Finding::note(Layer::Storage, "knee", says)
                .by(format!("4 KiB reads for a second, by depth: {}", curve.join(", "))),
        );
    }
    found
}

/// The time of a reply that costs the server nothing.
fn echo(measurements: &TargetMeasurements) -> Option<f64> {
    match measurements.protocol.as_ref()? {
        crate::measurements::Protocol::Smb(smb) => crate::measurements::median(&smb.echo_ms),
        crate::measurements::Protocol::Nfs(nfs) => crate::measurements::median(&nfs.echo_ms),
        crate::measurements::Protocol::Mount(_) => None,
    }
}

/// The delay of such a reply beyond the network's time.
fn late_echo(measurements: &TargetMeasurements) -> f64 {
    echo(measurements).zip(rtt(measurements)).map_or(0.0, |(echo, base)| (echo - base).max(0.0))
}

fn operation<'a>(measurements: &'a TargetMeasurements, what: &str) -> Option<&'a NameWork> {
    measurements.metadata.as_ref()?.operations.iter().find(|it| it.what == what)
}

/// Findings about names: their cost beyond the round trips, scans, and rates that stop.
pub(super) fn names(measurements: &TargetMeasurements) -> Vec<Finding> {
    let Some(metadata) = &measurements.metadata else { return Vec::new() };
    let base = rtt(measurements).unwrap_or(0.0) + late_echo(measurements);
    let mut found = Vec::new();
    found.extend(capped_names(measurements));
    let is_capped = !found.is_empty();
    // A host without idle time is slow with names by itself.
    for it in metadata.operations.iter().filter(|it| !is_capped && it.idle > 0.1 && it.median_ms > 0.0) {
        let own = it.median_ms - base * f64::from(it.trips);
        if own > QUICK_MS * f64::from(it.trips) && own > base {
            let says = format!(
                "{} takes {} ms, of which the network explains {} ms: the server is slow with names, as \
                 without a metadata cache",
                it.what,
                short(it.median_ms),
                short(base * f64::from(it.trips))
            );
            let finding = Finding::held(Layer::Metadata, "slow_names", says)
                .by(format!("{}: median {} ms, {} round trips", it.what, short(it.median_ms), it.trips))
                .gain(it.median_ms / (it.median_ms - own + 0.5));
            found.push(finding.change(
                ChangeLocation::Server,
                "use a metadata cache there, faster disks for it, or fewer and larger files",
            ));
            break;
        }
    }
    if let (Some(missing), Some(stat)) = (metadata.missing_ms, operation(measurements, "stat"))
        && stat.median_ms > 0.0
        && missing > stat.median_ms * 3.0 + 2.0
        && stat.idle > 0.1
    {
        let says = "missing names take the server much longer than existing ones, as if it read the whole \
                    directory to compare names without regard to case";
        let finding = Finding::held(Layer::Metadata, "scans", says).by(format!(
            "{} ms for a missing name, {} ms for one that is there, among {} names",
            short(missing),
            short(stat.median_ms),
            metadata.names
        ));
        found.push(finding.gain(missing / stat.median_ms.max(0.05)).change(
            ChangeLocation::Server,
            "use a case-insensitive index of names, or `case sensitive = yes` (Samba)",
        ));
    }
    if let Some(slowest) = metadata.operations.iter().max_by(|a, b| a.median_ms.total_cmp(&b.median_ms)) {
        // Within a host a connect takes longer than a request over an existing connection, because both
        // ends create a socket for it.
        let trip = echo(measurements).unwrap_or(base);
        let share = (trip * f64::from(slowest.trips) / slowest.median_ms.max(1e-6)).min(1.0) * 100.0;
        let says = format!(
            "of {} ms for {} the network's round trips are {} %",
            short(slowest.median_ms),
            slowest.what,
            short(share)
        );
        let by: Vec<String> =
            metadata.operations.iter().map(|it| format!("{} {} ms", it.what, short(it.median_ms))).collect();
        found.push(Finding::note(Layer::Metadata, "trips", says).by(by.join(", ")));
    }
    found
}

/// Finds rates of several kinds of work with names that stop evenly while this host had idle time. An
/// overloaded server does not stop evenly, and not for each kind.
fn capped_names(measurements: &TargetMeasurements) -> Option<Finding> {
    const KINDS: usize = 2;
    // A limit of the doctor stops evenly too.
    if measurements.data.as_ref().is_some_and(|it| it.bound_iops.is_some()) {
        return None;
    }
    let base = rtt(measurements).unwrap_or(0.0) + late_echo(measurements);
    let stops = |it: &&NameWork| {
        let Some(rate) = it.per_s else { return false };
        // Without a limit there would be many times as many with this number under way.
        let expected = f64::from(it.depth) / (it.median_ms / 1000.0).max(1e-6);
        // A single operation is fast: a storage that is slow for each operation is no limit.
        let is_quick = it.median_ms - base * f64::from(it.trips) <= QUICK_MS * f64::from(it.trips);
        is_quick && it.idle >= 0.25 && unevenness(&it.parts) <= EVEN && rate <= expected * 0.5 && rate <= FEW
    };
    let stopped: Vec<&NameWork> = measurements.metadata.as_ref()?.operations.iter().filter(stops).collect();
    let is_full = has_queue(measurements, RunKind::Read) || has_queue(measurements, RunKind::Write);
    let first = stopped.first().filter(|_| stopped.len() >= KINDS && !is_full)?;
    let names: Vec<&str> = stopped.iter().map(|it| it.what).collect();
    let says = format!(
        "work with names ({}) stops at an even rate, although this host and the path have capacity left: a \
         limit of the server",
        names.join(", ")
    );
    let finding = Finding::held(Layer::Limits, "metadata_limit", says)
        .by(format!(
            "{} times {} a second with {} under way; one alone takes {} ms",
            short(first.per_s?),
            first.what,
            first.depth,
            short(first.median_ms)
        ))
        .by(format!("parts of the time differ by {} %", short(unevenness(&first.parts) * 100.0)));
    Some(finding.change(
        ChangeLocation::Server,
        "buy or allow more operations on metadata, cache it, or spread over several shares",
    ))
}

/// The standard deviation of parts relative to their mean.
fn unevenness(parts: &[f64]) -> f64 {
    let mean = parts.iter().sum::<f64>() / parts.len().max(1) as f64;
    if mean <= 0.0 {
        return f64::INFINITY;
    }
    let variance = parts.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / parts.len() as f64;
    variance.sqrt() / mean
}

/// The two runs that show that more operations under way gain nothing, while neither this host nor the
/// path is full.
fn cap(measurements: &TargetMeasurements) -> Option<(&Run, &Run)> {
    let data = measurements.data.as_ref().filter(|it| !it.is_bounded())?;
    let curve: Vec<&Run> = data.runs.iter().filter(|it| it.work == RunKind::SmallRead).collect();
    let last = curve.last()?;
    let earlier = curve.iter().rev().find(|it| it.depth * 4 <= last.depth)?;
    let flat = last.per_s < earlier.per_s * 1.15;
    let waits = last.median_ms > earlier.median_ms * 2.0;
    // A server on this host without free processors answers as evenly as one with a limit.
    let held = by_server(measurements, last);
    (flat && waits && held && last.per_s < FEW && last.operations > 20).then_some((*earlier, *last))
}

fn is_capped(measurements: &TargetMeasurements) -> bool {
    cap(measurements).is_some()
}

/// The findings of layer 7.
pub(super) fn limits(measurements: &TargetMeasurements) -> Vec<Finding> {
    let mut found: Vec<Finding> = reported_limits(measurements).into_iter().collect();
    let Some(data) = &measurements.data else { return found };
    if let Some((earlier, last)) = cap(measurements) {
        let says = format!(
            "the server answers {} small requests a second, however many are under way: a limit of \
             operations, or of its storage",
            short(last.per_s)
        );
        let finding = Finding::held(Layer::Limits, "operations_limit", says)
            .by(shown(earlier))
            .by(shown(last))
            .by(format!(
                "parts of the time differ by {} %; {} % of this host was idle",
                short(unevenness(&last.parts) * 100.0),
                short(last.idle * 100.0)
            ));
        found.push(finding.change(
            ChangeLocation::Server,
            "buy or allow more operations a second, or make larger requests",
        ));
    }
    found.extend(throughput(measurements, data));
    found.extend(burst(measurements, data));
    found.extend(sawtooth(data));
    found.extend(full_host(data));
    found
}

/// The finding about the server's own report of its limits.
fn reported_limits(measurements: &TargetMeasurements) -> Option<Finding> {
    let told = measurements.told.as_ref()?;
    let (held, all) = told.throttled();
    if held == 0 {
        return None;
    }
    let kinds: Vec<String> = told.by_type.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let percent = held as f64 * 100.0 / all as f64;
    let says = format!("the server reports that its limits throttled {} % of our requests", short(percent));
    let mut finding = Finding::held(Layer::Limits, "throttled", says)
        .by(format!("response types of {all} transactions: {}", kinds.join(", ")));
    if let Some(iops) = told.provisioned_iops {
        finding = finding.by(format!("{iops} reads and writes a second are provisioned"));
    }
    if let Some(bytes) = told.provisioned_bandwidth_bytes {
        finding = finding.by(format!("{} MiB/s are provisioned", short(bytes as f64 / 1_048_576.0)));
    }
    if let Some(credits) = told.burst_credits {
        finding = finding.by(format!("{credits} burst credits are left"));
    }
    let by_limit = ThrottledCounts::of(told.by_type.iter().map(|(kind, count)| (&**kind, *count)));
    let mut what = by_limit.advice(all, None);
    what.push(
        "`trunkline status transactions --share SHARE` shows which operations are throttled".to_owned(),
    );
    Some(finding.change(ChangeLocation::Server, what.join("; ")).only_a_note_unless(percent >= 1.0))
}

/// Finds reads or writes that stop at a rate which no number of connections changes, on a path with free
/// capacity.
fn throughput(measurements: &TargetMeasurements, data: &Data) -> Option<Finding> {
    if data.bound_mib_s.is_some() {
        return None;
    }
    let held = |work: RunKind| {
        let (one, best) = (data.run(work, 1)?, data.best(work, u32::MAX)?);
        if !data.has_other_counts(one) {
            return None;
        }
        let flat = best.per_s < one.per_s * 1.15;
        let others = || data.runs.iter().filter(|run| run.work == work && run.connections != one.connections);
        let even =
            others().count() > 1 && others().all(|run| (run.per_s - one.per_s).abs() < 0.03 * one.per_s);
        let is_even = even && one.own_processors < 0.5 && has_free_path(measurements, one);
        // More connections cannot gain on a host that they fill.
        let held = by_server(measurements, one) && others().any(had_time) || is_even;
        let waits = waited(measurements, best);
        (flat && waits && one.mib_s < LITTLE && held && one.operations > 5).then_some((one, best))
    };
    let (reads, writes) = (held(RunKind::Read), held(RunKind::Write));
    let both = reads.is_some() && writes.is_some();
    let (one, best) = reads.or(writes)?;
    let which = match (both, one.work) {
        (true, _) => "reads and writes",
        (_, RunKind::Write) => "writes",
        _ => "reads",
    };
    let says = format!(
        "{which} stop at {} MiB/s whatever the number of connections, while the path and this host have \
         capacity left: a limit of the server, or of its storage",
        short(best.mib_s)
    );
    let mut finding = Finding::held(Layer::Limits, "throughput_limit", says).by(shown(one));
    if best.connections != one.connections {
        finding = finding.by(shown(best));
    }
    if let (false, Some(other)) =
        (both, single(measurements, if one.work == RunKind::Read { RunKind::Write } else { RunKind::Read }))
    {
        finding = finding.by(shown(other));
    }
    if let Some(queued) = super::queued(measurements, one.work) {
        finding = finding.by(format!("a connect under load took {} ms longer", short(queued.max(0.0))));
    }
    Some(
        finding.change(
            ChangeLocation::Server,
            "buy or allow more throughput there; more connections gain nothing",
        ),
    )
}

/// The part of the first rate below which all rates stay if credits are used up.
const STAYS_BELOW: f64 = 0.95;

/// Compares the first reads with the same reads at the end.
fn burst(measurements: &TargetMeasurements, data: &Data) -> Option<Finding> {
    let first = data.runs.iter().find(|it| it.work == RunKind::Read && it.connections == 1)?;
    let last = data.runs.iter().find(|it| it.work == RunKind::ReadAgain)?;
    // Credits exist only at the beginning, so the first turn counts.
    let begun = first.turns.first().copied().unwrap_or(first.per_s);
    let change = last.per_s / begun.max(1e-6);
    // A limit lasts. A host that was busy for a moment returns to the old rate.
    let late = &last.parts[last.parts.len() / 2..];
    let stays = late.iter().all(|rate| *rate < begun * STAYS_BELOW) && last.interval[1] < begun * STAYS_BELOW;
    if change < 0.6 && stays && by_server(measurements, last) {
        let says = format!(
            "reads became {} times slower during the examination: burst credits or a cache are used up",
            short(1.0 / change)
        );
        let finding =
            Finding::held(Layer::Limits, "burst", says).by(shown(first)).by(shown(last)).gain(1.0 / change);
        return Some(
            finding.change(ChangeLocation::Server, "expect the lower rate; buy more if it is not sufficient"),
        );
    }
    if change > 1.6 && last.interval[0] > begun {
        let says = "the first reads were much slower than the same at the end: the first run warms up, so \
                    its rate is not reliable";
        return Some(Finding::note(Layer::Limits, "warm_up", says).by(shown(first)).by(shown(last)));
    }
    None
}

/// A rate that collapses at regular intervals. It is only a note: an empty token bucket and a path that
/// drops packets both do this.
fn sawtooth(data: &Data) -> Option<Finding> {
    let it = data.sawtooth.as_ref()?;
    let says = format!(
        "the rate collapses to less than half every {} s, as when a service throttles in steps, or a path \
         drops excess packets",
        short(it.every_s)
    );
    let by = format!(
        "{} times while large blocks were {} over {} connections, between {} operations a second",
        it.collapses,
        if it.work == RunKind::Write { "written" } else { "read" },
        it.connections,
        short(it.usual_per_s)
    );
    Some(Finding::note(Layer::Limits, "sawtooth", says).by(by))
}

/// Finds that this host was full, so that the host was measured instead of the server.
fn full_host(data: &Data) -> Option<Finding> {
    let best = data
        .runs
        .iter()
        .filter(|it| matches!(it.work, RunKind::Read | RunKind::Write))
        .max_by(|a, b| a.mib_s.total_cmp(&b.mib_s))?;
    if best.idle > 0.1 && best.own_processors < 0.9 {
        return None;
    }
    let says =
        "at the highest rates the processors of this host were full: the server may be able to do more";
    let by = format!(
        "{}; {} processors were used by the doctor, {} % of all were idle",
        shown(best),
        short(best.own_processors),
        short(best.idle * 100.0)
    );
    Some(Finding::note(Layer::Client, "full_host", says).by(by))
}
