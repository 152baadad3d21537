//! Layer 4: the number of connections, their addresses, and the gain of further ones.

use load::comparison::{GainVerdict, UNFELT_PART};

use super::{gain, short, shown};
use crate::connection_gain::{Gain, WORTH};
use crate::finding::{ChangeLocation, Finding, Layer};
use crate::measurements::{Channel, Connections, Protocol, Run, RunKind, TargetMeasurements, median};
use crate::mount::Mount;

pub(super) fn connections(measurements: &TargetMeasurements) -> Vec<Finding> {
    let Some(connections) = &measurements.connections else { return Vec::new() };
    // The kernel's own client decides about the connections of a mount: [`mount`].
    if matches!(measurements.protocol, Some(Protocol::Mount(_))) {
        return Vec::new();
    }
    let is_smb = matches!(measurements.protocol, Some(Protocol::Smb(_)));
    let mut found = Vec::new();
    found.extend(unreachable(connections));
    found.extend(slow_one(connections));
    found.extend(if is_smb {
        few_channels(measurements, connections)
    } else {
        few_of_nfs(measurements, connections)
    });
    if found.iter().all(|it| it.kind == "unreachable_address") && connections.got > 1 {
        found.extend(worth(measurements));
    }
    found
}

/// The gain of several connections, if they are available. Advice is given only if the whole range of the
/// turns lies on one side.
fn worth(measurements: &TargetMeasurements) -> Option<Finding> {
    let gain = gain(measurements)?;
    let (one, many) = (gain.one, gain.many);
    let count = many.connections;
    let Some(range) = gain.range else {
        return Some(unknown(measurements, &gain));
    };
    let times = format!(
        "{} times as much ({} to {} in {} turns)",
        short(range.middle),
        short(range.least),
        short(range.most),
        one.turns.len().min(many.turns.len())
    );
    let data = measurements.data.as_ref()?;
    let is_past = |run: &Run| run.work == many.work && run.connections > count;
    let behind = if data.runs.iter().any(is_past) { ", and more bring little" } else { "" };
    let (kind, says) = match range.says(WORTH) {
        GainVerdict::More => (
            "worth",
            format!(
                "one connection uses only a part of what is possible: {count} of them are worth \
                 {times}{behind}"
            ),
        ),
        GainVerdict::Enough if range.least > 1.0 => {
            ("little_gain", format!("further connections gain little: {count} carry {times}"))
        }
        GainVerdict::Enough => (
            "no_gain",
            format!(
                "further connections make nothing faster here, and only help when one is lost: {count} carry \
                 {times}"
            ),
        ),
        GainVerdict::Unsure => (
            "gain_unsure",
            format!(
                "the gain of further connections is not certain, because the turns differ by themselves: \
                 {count} carried {times}"
            ),
        ),
    };
    let mut finding =
        Finding::note(Layer::Connections, kind, says).by(shown(one)).by(shown(many)).range(range);
    finding.rests_on.extend(others(measurements));
    if kind != "worth" {
        return Some(finding);
    }
    let what = match measurements.protocol {
        Some(Protocol::Smb(_)) => format!(
            "mount with multichannel,max_channels={count}; Windows does so by itself; copy with several \
             threads"
        ),
        _ => format!("mount with nconnect={count}, and copy with several threads"),
    };
    Some(finding.change(ChangeLocation::Client, what))
}

/// The finding for runs whose turns say nothing about further connections, with the reason.
fn unknown(measurements: &TargetMeasurements, gain: &Gain<'_>) -> Finding {
    let why = match (others(measurements), gain.one.turns.len().min(gain.many.turns.len())) {
        (_, ..2) => "there was no time for a second turn: take a longer course".to_owned(),
        (Some(others), _) => format!("{others}: stop them, and examine again"),
        (None, _) => "one turn made no progress: examine again when the server answers evenly".to_owned(),
    };
    let says = format!("the gain of further connections was not measured: {why}");
    Finding::note(Layer::Connections, "gain_unsure", says).by(shown(gain.one)).by(shown(gain.many))
}

/// The use of this host's processors by other programs, if it matters.
pub(super) fn others(measurements: &TargetMeasurements) -> Option<String> {
    let others = measurements.data.as_ref()?.others.filter(|it| it.part >= UNFELT_PART)?;
    let used = short(others.part * f64::from(others.processors));
    Some(format!("other programs used {used} of the {} processors of this host meanwhile", others.processors))
}

fn few_channels(measurements: &TargetMeasurements, connections: &Connections) -> Option<Finding> {
    if connections.got >= connections.asked || connections.asked < 2 {
        return None;
    }
    let without_rss = !connections.interfaces.is_empty() && connections.interfaces.iter().all(|it| !it.rss);
    let failure = connections.failure.clone().unwrap_or_default();
    if connections.client_off && connections.offered {
        return Some(client_off(measurements, connections, true));
    }
    let (kind, says, what) = match (connections.offered, without_rss) {
        (false, _) => (
            "multichannel_off",
            "the server offers one connection for a session: Multichannel is off there".to_owned(),
            "switch Multichannel on at the server (Trunkline: `multichannel = true`; Samba: `server multi \
             channel support = yes`; Azure Files: SSD shares, the account's SMB Multichannel setting)",
        ),
        (true, true) => (
            "no_rss",
            format!(
                "the server reports receive side scaling for none of its interfaces, so clients open one \
                 connection to each: {} here",
                connections.got
            ),
            "switch receive side scaling on there, or make the server report it (Trunkline: `rss = \
             \"always\"`; Samba: `interfaces = \"ADDRESS;capability=RSS\"`)",
        ),
        _ => (
            "few_channels",
            format!(
                "the session got {} connections of the {} that were asked for",
                connections.got, connections.asked
            ),
            "raise the limit of the server (Trunkline: `max_channels`), and check firewalls in between",
        ),
    };
    let mut finding = Finding::held(Layer::Connections, kind, says);
    if !failure.is_empty() {
        finding = finding.by(failure);
    }
    Some(with_gain(measurements, connections, finding).change(ChangeLocation::Server, what))
}

/// Adds the gain of more connections. Without a gain, or with an unknown one, the finding becomes a note.
fn with_gain(measurements: &TargetMeasurements, connections: &Connections, finding: Finding) -> Finding {
    // Several sessions with a connection each together reach the rate that several channels of one would
    // reach.
    let Some(gain) = gain(measurements) else { return finding.only_a_note_unless(false) };
    let (one, best) = (gain.one, gain.many);
    // On a short path to a host without idle time, rates differ by themselves.
    let has_time = one.idle > 0.1 || super::rtt(measurements).is_some_and(|it| it > 1.0);
    let is_sure = gain.is_sure() && has_time;
    let mut finding = finding.by(shown(one)).by(shown(best));
    if connections.separate_sessions {
        finding =
            finding.by(format!("each of those {} connections was a session of its own", best.connections));
    }
    finding.rests_on.extend(others(measurements));
    if is_sure && connections.separate_sessions {
        finding = finding.gain(gain.times());
    }
    // If the session has some channels, the gain of more was not measured.
    finding.only_a_note_unless(is_sure && (connections.separate_sessions || connections.got < 4))
}

/// The finding that this client uses one connection although the server offers more.
fn client_off(measurements: &TargetMeasurements, connections: &Connections, is_smb: bool) -> Finding {
    let (kind, says, what) = match is_smb {
        true => (
            "client_multichannel_off",
            "the server offers several connections for a session and this client takes one: Multichannel is \
             off at the client",
            "switch it on at the client (Linux: mount with multichannel,max_channels=4; Windows: \
             Set-SmbClientConfiguration -EnableMultiChannel $true)",
        ),
        false => (
            "client_few_connections",
            "this client takes one connection for a session, as a mount without nconnect",
            "mount with nconnect=4",
        ),
    };
    let finding =
        Finding::held(Layer::Connections, kind, says).by("1 connection was asked for (--one-connection)");
    with_gain(measurements, connections, finding).change(ChangeLocation::Client, what)
}

fn few_of_nfs(measurements: &TargetMeasurements, connections: &Connections) -> Option<Finding> {
    if connections.got >= connections.asked || connections.asked < 2 {
        return None;
    }
    if connections.client_off {
        return Some(client_off(measurements, connections, false));
    }
    let says = format!(
        "the server took {} connections of one session, {} were tried",
        connections.got, connections.asked
    );
    let mut finding = Finding::held(Layer::Connections, "few_connections", says);
    if let Some(failure) = &connections.failure {
        finding = finding.by(failure.clone());
    }
    let sure = gain(measurements).filter(Gain::is_sure);
    let is_sure = sure.is_some();
    if let Some(gain) = sure {
        finding = finding.by(shown(gain.one)).by(shown(gain.many)).gain(gain.times());
    }
    let what =
        "raise the limit of the server (Trunkline: `nfs_max_connections`), and check firewalls in between";
    Some(finding.change(ChangeLocation::Server, what).only_a_note_unless(is_sure || connections.got == 1))
}

fn unreachable(connections: &Connections) -> Vec<Finding> {
    let lost = connections.interfaces.iter().filter(|it| {
        let is_local = crate::route::scope(it.address) == crate::measurements::Scope::LinkLocal;
        it.reachable == Some(false) && !it.selected && !is_local
    });
    lost.map(|it| {
        let says = format!(
            "the server offers {} for further connections, but it cannot be reached: clients wait for it \
             again and again",
            it.address
        );
        let finding = Finding::held(Layer::Connections, "unreachable_address", says)
            .by(format!("interface {}, {} Mbit/s, was tried", it.index, it.mbit));
        let what = "remove that address (Trunkline: `listen`, `advertise`; Samba: `interfaces`), or make it \
                    reachable";
        finding.change(ChangeLocation::Server, what)
    })
    .collect()
}

/// The rates of the channels that `is_slow` selects, and of the others, if the others are clearly faster
/// and not all uneven.
fn apart(channels: &[Channel], is_slow: impl Fn(&Channel) -> bool) -> Option<(Vec<f64>, Vec<f64>)> {
    let (slow, others): (Vec<&Channel>, Vec<&Channel>) = channels.iter().partition(|it| is_slow(it));
    let [slow, others] = [slow, others].map(|of| of.iter().filter_map(|it| it.mib_s).collect::<Vec<f64>>());
    let most = slow.iter().copied().max_by(f64::total_cmp)?;
    let least = others.iter().copied().min_by(f64::total_cmp)?;
    let middle = median(&others)?;
    let are_slow = middle >= 0.5 && most <= 0.4 * middle && most <= 0.25 * least;
    (others.len() >= 2 && are_slow).then_some((slow, others))
}

/// The least part of samples in which a connection was busy. The rate of a connection with few requests
/// says nothing about it.
const IN_USE: f64 = 0.5;

/// Finds one connection that is clearly slower than the others, or all connections to one address if
/// others lead elsewhere.
fn slow_one(connections: &Connections) -> Option<Finding> {
    let is_in_use = |it: &&Channel| it.mib_s.is_some() && it.busy.is_none_or(|busy| busy >= IN_USE);
    let channels: &Vec<Channel> = &connections.channels.iter().filter(is_in_use).cloned().collect();
    let rate = |it: &Channel| it.mib_s.unwrap_or(0.0);
    let slowest = channels.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let leads_there = |it: &Channel| it.peer.ip() == slowest.peer.ip();
    let is_it = |it: &Channel| std::ptr::eq(it, slowest);
    let (slow, others) = apart(channels, leads_there).or_else(|| apart(channels, is_it))?;
    let says = format!(
        "the connection to {} carries {} MiB/s, the others about {}: work that uses all of them waits for it",
        slowest.peer,
        short(median(&slow)?),
        short(median(&others)?)
    );
    let all = slow.len() + others.len();
    let by = format!(
        "MiB/s of each under the same load: {}",
        channels.iter().map(|it| short(rate(it))).collect::<Vec<_>>().join(", ")
    );
    // The gain if it were as fast as the others.
    let sum = others.iter().sum::<f64>();
    let gain = sum / others.len() as f64 * all as f64 / (sum + slow.iter().sum::<f64>());
    let finding = Finding::held(Layer::Connections, "slow_channel", says).by(by).gain(gain);
    let what = format!(
        "check the path to {}: its interface, cable, queue; or remove the address",
        slowest.peer.ip()
    );
    Some(finding.change(ChangeLocation::Path, what))
}

/// The findings about a mount of the kernel.
pub(super) fn mount(measurements: &TargetMeasurements) -> Vec<Finding> {
    let Some(Protocol::Mount(mount)) = &measurements.protocol else { return Vec::new() };
    let mut found = Vec::new();
    let connected = mount.connected();
    let state = format!("{} connections of this mount are in use", connected);
    if mount.is_smb() {
        let wanted = mount.number("max_channels").unwrap_or(1);
        if mount.option("multichannel").is_none() && wanted <= 1 {
            let says = "the mount has one connection: it was made without Multichannel";
            let finding =
                Finding::held(Layer::Connections, "client_multichannel_off", says).by(state.clone());
            let what = "mount with vers=3.1.1,multichannel,max_channels=4";
            found.push(
                finding
                    .by(format!("options: {}", mount.options.join(",")))
                    .change(ChangeLocation::Client, what),
            );
        } else if connected > 0 && (connected as u64) < wanted {
            let says = format!("the mount has {connected} connections of the {wanted} that were requested");
            let finding = Finding::held(Layer::Connections, "client_few_channels", says).by(state.clone());
            let what = "examine the server itself: trunkline doctor smb://USER@HOST/SHARE shows which of its \
                        addresses answer; older kernels silently leave channels out";
            found.push(finding.change(ChangeLocation::Client, what));
        }
    } else {
        found.extend(nfs_mount(mount, &state));
    }
    found.extend(uneven_mount(measurements, mount));
    found.extend(mount_options(mount));
    found
}

/// The distribution of a mount's work over its connections. If the kernel's table of sockets has as many
/// connections as the mount, the rates of each in the doctor's own runs count. Otherwise the requests of
/// each count (NFS).
fn uneven_mount(measurements: &TargetMeasurements, mount: &Mount) -> Option<Finding> {
    let channels = measurements.connections.iter().flat_map(|it| &it.channels);
    let rates: Vec<f64> = channels.filter_map(|it| it.mib_s).collect();
    let requests: Vec<f64> =
        mount.connections.iter().filter_map(|it| it.requests).map(|it| it as f64).collect();
    let (each, least, what) = match rates.len() == mount.connected() {
        // Other mounts of the same server have sockets too. Only with equal numbers it is known which
        // sockets belong to this mount.
        true if rates.len() > 2 => (rates, 1.0, "MiB/s of each while the mount was read"),
        _ => (requests, 1000.0, "requests of each"),
    };
    let (lowest, middle) = (each.iter().copied().min_by(f64::total_cmp)?, median(&each)?);
    if each.len() < 3 || middle <= least || lowest >= middle / 4.0 {
        return None;
    }
    let says = "one connection of the mount carries far less than the others";
    let all: Vec<String> = each.iter().map(|it| short(*it)).collect();
    let by = format!("{what}: {}", all.join(", "));
    Some(Finding::note(Layer::Connections, "client_uneven", says).by(by))
}

/// The findings about the connections of an NFS mount.
fn nfs_mount(mount: &Mount, state: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let connected = mount.connected();
    let wanted = mount.number("nconnect").unwrap_or(1);
    if connected > 0 && (connected as u64) < wanted {
        let says = format!(
            "the mount requested {wanted} connections and has {connected}: the first mount of a server \
             decides for all of them"
        );
        let finding = Finding::held(Layer::Connections, "client_few_connections", says).by(state);
        let what =
            "unmount all of this server, and mount with nconnect first; or give the share a port of its own";
        found.push(finding.change(ChangeLocation::Client, what));
    } else if wanted <= 1 {
        let says = "the mount has one connection, as the first mount of a server decides for all of them; \
                    nconnect=4 helps where each connection is slow by itself";
        found.push(Finding::note(Layer::Connections, "client_one_connection", says).by(state));
    }
    if let Some((again, all)) = mount.sent_again.filter(|(again, all)| *again > 3 && *again * 1000 > *all) {
        let says = "requests of this mount had to be sent again: connections were lost, or the server did \
                    not answer";
        let by = format!("{again} of {all} reads and writes");
        found.push(Finding::held(Layer::Transport, "client_sent_again", says).by(by));
    }
    found
}

/// The findings about options that cost performance.
fn mount_options(mount: &Mount) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, least) in [("rsize", 1 << 20), ("wsize", 1 << 20)] {
        if let Some(size) = mount.number(name).filter(|size| *size < least) {
            let says = format!("{name} is {} KiB: large files take many requests", size >> 10);
            let finding =
                Finding::held(Layer::Protocol, "client_small_requests", says).by(format!("{name}={size}"));
            found.push(
                finding
                    .change(ChangeLocation::Client, format!("mount with {name}=1048576"))
                    .only_a_note_unless(size <= 128 << 10),
            );
        }
    }
    for (option, costs) in [
        ("sync", "every write waits for the server's storage"),
        ("noac", "no attributes are cached: every access needs a request"),
        ("actimeo=0", "no attributes are cached: every access needs a request"),
    ] {
        if mount.options.iter().any(|it| it == option) {
            let finding =
                Finding::held(Layer::Metadata, "client_option", format!("the mount has {option}: {costs}"))
                    .by(option);
            found.push(
                finding.change(ChangeLocation::Client, format!("mount without {option} if nothing needs it")),
            );
        }
    }
    found
}

/// The depth beyond which small reads gain little, with the rates.
pub(crate) fn knee(measurements: &TargetMeasurements) -> Option<(u32, Vec<(u32, f64)>)> {
    let data = measurements.data.as_ref().filter(|it| !it.is_bounded())?;
    let runs = data.runs.iter().filter(|it| it.work == RunKind::SmallRead);
    let curve: Vec<(u32, f64)> = runs.map(|it| (it.depth, it.per_s)).collect();
    let best = curve.iter().map(|(_, rate)| *rate).max_by(f64::total_cmp).filter(|best| *best > 0.0)?;
    let knee = curve.iter().find(|(_, rate)| *rate > 0.9 * best)?.0;
    (curve.len() > 1).then_some((knee, curve))
}
