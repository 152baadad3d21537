//! Layers 5 to 7 from the server's side: its store, its names, and what it allows.

use admin::workload::ThrottledCounts;

use super::connections::knee;
use super::path::by_server;
use super::{has_queue, rtt, short, shown, single, waited};
use crate::facts::{Cause, Data, Facts, NameWork, Run, Work};
use crate::finding::{Finding, Layer, Side};

/// What a server may take for something small without being called slow, in ms.
const QUICK_MS: f64 = 4.0;
/// Below such a rate a limit on operations is felt, for a second.
const FEW: f64 = 20_000.0;
/// Parts of the time that differ by no more are a limit's.
const EVEN: f64 = 0.06;
/// Below such a rate a limit on throughput is felt, in MiB/s.
const LITTLE: f64 = 700.0;

/// The store: room, and time beyond the network's.
pub(super) fn store(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(stopped) = facts.stopped.as_ref().filter(|it| it.cause == Cause::Full) {
        let says = "the server's disk, or our quota there, is full: nothing can be written";
        let finding = Finding::held(Layer::Storage, "full", says).by(stopped.why.clone());
        found.push(finding.change(Side::Server, "make room there"));
    }
    let small = facts
        .data
        .as_ref()
        .and_then(|it| it.runs.iter().find(|it| it.work == Work::SmallRead && it.depth == 1));
    if let (Some(run), Some(base)) = (small, rtt(facts))
        && run.operations > 3
    {
        let own = run.median_ms - base;
        // A bound on operations shows as waiting too, and is told apart by the curve. Where a mount is held to a bound of ours,
        // operations wait for their turn, and their times count from there.
        let is_paced = matches!(facts.protocol, Some(crate::facts::Protocol::Mount(_)))
            && facts.data.as_ref().is_some_and(Data::is_bounded);
        if own > QUICK_MS
            && !is_paced
            && own > base
            && !is_capped(facts)
            && !has_queue(facts, Work::SmallRead)
            && late_echo(facts) < own / 2.0
        {
            let says = format!(
                "the server needs {} ms for a read of 4 KiB, beyond the {} ms of the network: its store is slow",
                short(own),
                short(base)
            );
            let finding = Finding::held(Layer::Storage, "slow_store", says)
                .by(shown(run))
                .gain(run.median_ms / (base + 0.5));
            found.push(finding.change(
                Side::Server,
                "look at the disks there (iostat -x), at their cache, at the tier that was bought",
            ));
        }
    }
    if let Some((knee, curve)) = knee(facts) {
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

/// How long an answer takes that costs the server nothing.
fn echo(facts: &Facts) -> Option<f64> {
    match facts.protocol.as_ref()? {
        crate::facts::Protocol::Smb(smb) => crate::facts::median(&smb.echo_ms),
        crate::facts::Protocol::Nfs(nfs) => crate::facts::median(&nfs.echo_ms),
        crate::facts::Protocol::Mount(_) => None,
    }
}

/// How much later than the network needs such an answer comes.
fn late_echo(facts: &Facts) -> f64 {
    echo(facts).zip(rtt(facts)).map_or(0.0, |(echo, base)| (echo - base).max(0.0))
}

fn operation<'a>(facts: &'a Facts, what: &str) -> Option<&'a NameWork> {
    facts.metadata.as_ref()?.operations.iter().find(|it| it.what == what)
}

/// Names: what each costs beyond the round trips, scans, and rates that stop.
pub(super) fn names(facts: &Facts) -> Vec<Finding> {
    let Some(metadata) = &facts.metadata else { return Vec::new() };
    let base = rtt(facts).unwrap_or(0.0) + late_echo(facts);
    let mut found = Vec::new();
    found.extend(capped_names(facts));
    let is_capped = !found.is_empty();
    // A host without time is slow with names by itself.
    for it in metadata.operations.iter().filter(|it| !is_capped && it.idle > 0.1 && it.median_ms > 0.0) {
        let own = it.median_ms - base * f64::from(it.trips);
        if own > QUICK_MS * f64::from(it.trips) && own > base {
            let says = format!(
                "{} takes {} ms, of which the network explains {} ms: the server is slow with names, as without a cache of them",
                it.what,
                short(it.median_ms),
                short(base * f64::from(it.trips))
            );
            let finding = Finding::held(Layer::Metadata, "slow_names", says)
                .by(format!(
                    "{}: {} ms in the middle, {} round trips",
                    it.what,
                    short(it.median_ms),
                    it.trips
                ))
                .gain(it.median_ms / (it.median_ms - own + 0.5));
            found.push(finding.change(
                Side::Server,
                "a cache of metadata there, quicker disks for it, or fewer and larger files",
            ));
            break;
        }
    }
    if let (Some(missing), Some(stat)) = (metadata.missing_ms, operation(facts, "stat"))
        && stat.median_ms > 0.0
        && missing > stat.median_ms * 3.0 + 2.0
        && stat.idle > 0.1
    {
        let says = "names that are not there take the server much longer than those that are, as when it reads the whole directory to compare without regard to case";
        let finding = Finding::held(Layer::Metadata, "scans", says).by(format!(
            "{} ms for a missing name, {} ms for one that is there, among {} names",
            short(missing),
            short(stat.median_ms),
            metadata.names
        ));
        found.push(finding.gain(missing / stat.median_ms.max(0.05)).change(
            Side::Server,
            "an index of names without regard to case, or `case sensitive = yes` (Samba)",
        ));
    }
    if let Some(slowest) = metadata.operations.iter().max_by(|a, b| a.median_ms.total_cmp(&b.median_ms)) {
        // Within a host a connect takes longer than a question over a connection that is there: both ends make a socket for it.
        let trip = echo(facts).unwrap_or(base);
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

/// Rates of several kinds of work with names that stop evenly, while this host had time. A server that is at its end does not
/// stop evenly, and not with each kind.
fn capped_names(facts: &Facts) -> Option<Finding> {
    const KINDS: usize = 2;
    // A bound of our own stops evenly.
    if facts.data.as_ref().is_some_and(|it| it.bound_iops.is_some()) {
        return None;
    }
    let base = rtt(facts).unwrap_or(0.0) + late_echo(facts);
    let stops = |it: &&NameWork| {
        let Some(rate) = it.per_s else { return false };
        // With so many under way there would be many times as many if nothing held them.
        let expected = f64::from(it.depth) / (it.median_ms / 1000.0).max(1e-6);
        // One alone is quick: a store that is slow with each is no limit.
        let is_quick = it.median_ms - base * f64::from(it.trips) <= QUICK_MS * f64::from(it.trips);
        is_quick && it.idle >= 0.25 && unevenness(&it.parts) <= EVEN && rate <= expected * 0.5 && rate <= FEW
    };
    let stopped: Vec<&NameWork> = facts.metadata.as_ref()?.operations.iter().filter(stops).collect();
    let is_full = has_queue(facts, Work::Read) || has_queue(facts, Work::Write);
    let first = stopped.first().filter(|_| stopped.len() >= KINDS && !is_full)?;
    let names: Vec<&str> = stopped.iter().map(|it| it.what).collect();
    let says = format!(
        "work with names ({}) stops evenly, though this host and the path have time: a limit of the server",
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
        Side::Server,
        "buy or allow more operations on metadata, cache it, or spread over several shares",
    ))
}

/// Standard deviation of parts against their mean.
fn unevenness(parts: &[f64]) -> f64 {
    let mean = parts.iter().sum::<f64>() / parts.len().max(1) as f64;
    if mean <= 0.0 {
        return f64::INFINITY;
    }
    let variance = parts.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / parts.len() as f64;
    variance.sqrt() / mean
}

/// Whether more under way bring no more, while nothing here or on the path is full: the two runs that say so.
fn cap(facts: &Facts) -> Option<(&Run, &Run)> {
    let data = facts.data.as_ref().filter(|it| !it.is_bounded())?;
    let curve: Vec<&Run> = data.runs.iter().filter(|it| it.work == Work::SmallRead).collect();
    let last = curve.last()?;
    let earlier = curve.iter().rev().find(|it| it.depth * 4 <= last.depth)?;
    let flat = last.per_s < earlier.per_s * 1.15;
    let waits = last.median_ms > earlier.median_ms * 2.0;
    // A server on this host that has no more processors to take answers as evenly as one that is held to a limit.
    let held = by_server(facts, last);
    (flat && waits && held && last.per_s < FEW && last.operations > 20).then_some((*earlier, *last))
}

fn is_capped(facts: &Facts) -> bool {
    cap(facts).is_some()
}

/// Layer 7.
pub(super) fn limits(facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = told(facts).into_iter().collect();
    let Some(data) = &facts.data else { return found };
    if let Some((earlier, last)) = cap(facts) {
        let says = format!(
            "the server answers {} small requests a second, however many are under way: a limit on operations, or a store that does no more",
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
        found.push(
            finding.change(Side::Server, "buy or allow more operations a second, or ask for larger pieces"),
        );
    }
    found.extend(throughput(facts, data));
    found.extend(burst(facts, data));
    found.extend(sawtooth(data));
    found.extend(full_host(data));
    found
}

/// What the server itself says of its limits.
fn told(facts: &Facts) -> Option<Finding> {
    let told = facts.told.as_ref()?;
    let (held, all) = told.throttled();
    if held == 0 {
        return None;
    }
    let kinds: Vec<String> = told.by_type.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let percent = held as f64 * 100.0 / all as f64;
    let says = format!("the server says that its limits held {} % of our requests", short(percent));
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
    what.push("`trunkline status transactions --share SHARE` shows which operations are held".to_owned());
    Some(finding.change(Side::Server, what.join("; ")).only_a_note_unless(percent >= 1.0))
}

/// Reads or writes that stop at a rate which no number of connections changes, on a path that has room.
fn throughput(facts: &Facts, data: &Data) -> Option<Finding> {
    if data.bound_mib_s.is_some() {
        return None;
    }
    let held = |work: Work| {
        let (one, best) = (data.run(work, 1)?, data.best(work, u32::MAX)?);
        if !data.has_other_counts(one) {
            return None;
        }
        let flat = best.per_s < one.per_s * 1.15;
        let rates = data.runs.iter().filter(|run| run.work == work && run.connections != one.connections);
        let count = rates.clone().count();
        let even = count > 1 && rates.into_iter().all(|run| (run.per_s - one.per_s).abs() < 0.03 * one.per_s);
        let no_queue = super::queued(facts, work).is_some() && !has_queue(facts, work);
        let held = by_server(facts, one) || (even && one.own_processors < 0.5 && no_queue);
        let waits = waited(facts, best);
        (flat && waits && one.mib_s < LITTLE && held && one.operations > 5).then_some((one, best))
    };
    let (reads, writes) = (held(Work::Read), held(Work::Write));
    let both = reads.is_some() && writes.is_some();
    let (one, best) = reads.or(writes)?;
    let which = match (both, one.work) {
        (true, _) => "reads and writes",
        (_, Work::Write) => "writes",
        _ => "reads",
    };
    let says = format!(
        "{which} stop at {} MiB/s whatever the number of connections, while the path and this host have room: a limit of the server, or of its store",
        short(best.mib_s)
    );
    let mut finding = Finding::held(Layer::Limits, "throughput_limit", says).by(shown(one));
    if best.connections != one.connections {
        finding = finding.by(shown(best));
    }
    if let (false, Some(other)) =
        (both, single(facts, if one.work == Work::Read { Work::Write } else { Work::Read }))
    {
        finding = finding.by(shown(other));
    }
    if let Some(queued) = super::queued(facts, one.work) {
        finding = finding.by(format!("a connect under load took {} ms longer", short(queued.max(0.0))));
    }
    Some(finding.change(Side::Server, "buy or allow more throughput there; more connections bring none"))
}

/// The part of the first rate below which all rates stay where credits are used up.
const STAYS_BELOW: f64 = 0.95;

/// The first reads against the same at the end.
fn burst(facts: &Facts, data: &Data) -> Option<Finding> {
    let first = data.runs.iter().find(|it| it.work == Work::Read && it.connections == 1)?;
    let last = data.runs.iter().find(|it| it.work == Work::ReadAgain)?;
    // Credits are there at the beginning alone, and so it is the first turn.
    let begun = first.turns.first().copied().unwrap_or(first.per_s);
    let change = last.per_s / begun.max(1e-6);
    // A limit holds for good. A host that had no time for a moment comes back to the old rate.
    let late = &last.parts[last.parts.len() / 2..];
    let stays = late.iter().all(|rate| *rate < begun * STAYS_BELOW) && last.interval[1] < begun * STAYS_BELOW;
    if change < 0.6 && stays && by_server(facts, last) {
        let says = format!(
            "reads became {} times slower in the course of the examination: burst credits are used up, or a cache is",
            short(1.0 / change)
        );
        let finding =
            Finding::held(Layer::Limits, "burst", says).by(shown(first)).by(shown(last)).gain(1.0 / change);
        return Some(finding.change(Side::Server, "count on the lower rate; buy more if it does not do"));
    }
    if change > 1.6 && last.interval[0] > begun {
        let says = "the first reads were much slower than the same at the end: the first run warms up, and is not to be believed";
        return Some(Finding::note(Layer::Limits, "warm_up", says).by(shown(first)).by(shown(last)));
    }
    None
}

/// A rate that breaks down at even distances. A note: a bucket of tokens that empties does that, and a path that drops packets.
fn sawtooth(data: &Data) -> Option<Finding> {
    let it = data.sawtooth.as_ref()?;
    let says = format!(
        "the rate breaks down to less than half every {} s: as where a service throttles in steps, or a path drops what is too much for it",
        short(it.every_s)
    );
    let by = format!(
        "{} times while large blocks were {} over {} connections, between {} operations a second",
        it.collapses,
        if it.work == Work::Write { "written" } else { "read" },
        it.connections,
        short(it.usual_per_s)
    );
    Some(Finding::note(Layer::Limits, "sawtooth", says).by(by))
}

/// This host was full, so that it is what was measured.
fn full_host(data: &Data) -> Option<Finding> {
    let best = data
        .runs
        .iter()
        .filter(|it| matches!(it.work, Work::Read | Work::Write))
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
