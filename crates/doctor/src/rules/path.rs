//! Layers 1 and 2: the addresses of the name, and the path.

use super::{gain, had_time, has_queue, queued, rtt, short, shown, single, unbounded};
use crate::finding::{ChangeLocation, Finding, Layer};
use crate::measurements::{Address, Cause, Protocol, Route, Run, RunKind, Scope, Stage, TargetMeasurements};

/// Lookups that take longer matter.
const SLOW_NAME_MS: f64 = 500.0;
/// A path with a lower rate is narrow for a file share, in MiB/s (700 Mbit/s).
const NARROW_MIB_S: f64 = 83.0;
/// A round trip that is longer by this factor, and by this many ms, shows a queue: lost packets may have
/// found it full. The kernel smooths its round trip (RFC 6298 2.3), so a queue of a whole round trip that
/// is soon empty shows little more.
const QUEUED_TRIP: f64 = 1.25;
const QUEUED_MS: f64 = 5.0;
/// The additional time of a connect that shows a queue if the segments of the load waited as well.
const SHORT_QUEUE_MS: f64 = 2.0;
/// The largest part of lost segments on a sound path.
const SOUND_LOSS: f64 = 0.0025;

/// The findings of layer 1.
pub(super) fn name(measurements: &TargetMeasurements) -> Vec<Finding> {
    let Some(route) = &measurements.route else { return Vec::new() };
    let mut found = Vec::new();
    if route.resolved_in_ms > SLOW_NAME_MS {
        let says = "the name service is slow: every mount begins with it";
        let finding = Finding::held(Layer::Name, "slow_name", says).by(format!(
            "{} was found after {} ms",
            route.name,
            short(route.resolved_in_ms)
        ));
        found.push(finding.change(ChangeLocation::Client, "check the resolvers in /etc/resolv.conf"));
    }
    found.extend(dead_addresses(route));
    if crate::route::scope(route.used) == Scope::Public {
        let offered = measurements.connections.iter().flat_map(|it| &it.interfaces);
        let offered_private = offered
            .filter(|it| it.reachable == Some(true) && crate::route::scope(it.address) == Scope::Private)
            .map(|it| it.address)
            .next();
        // Clients do not try the addresses behind the first one that answers.
        let private_of_name = || route.addresses.iter().filter(|it| it.scope == Scope::Private);
        let other = private_of_name().find(|it| it.reachable == Some(true)).map(|it| it.address);
        let untried = private_of_name().find(|it| it.reachable.is_none()).map(|it| it.address);
        let own_is_private = route.source.is_some_and(|it| crate::route::scope(it) == Scope::Private);
        let by = format!(
            "{} stands for {}; our own address is {}",
            route.name,
            route.used,
            shown_or(route.source)
        );
        match offered_private.or(other) {
            Some(private) => {
                let of_whom = match offered_private.is_some() {
                    true => "which the server offers for further connections",
                    false => "which the name has as well",
                };
                let says = format!(
                    "the name leads to the public address {}, although {private}, {of_whom}, answers too",
                    route.used
                );
                let what = format!(
                    "have the name service answer {private} here (a private endpoint's zone, or /etc/hosts)"
                );
                found.push(
                    Finding::held(Layer::Name, "public_address", says)
                        .by(by)
                        .change(ChangeLocation::Client, what),
                );
            }
            None if untried.is_some() => {
                let says = format!(
                    "the name leads to a public address first, and to the private {} behind it, which was \
                     not tried: if both lead to the same server, the private one should come first",
                    shown_or(untried)
                );
                found.push(Finding::note(Layer::Name, "public_address", says).by(by));
            }
            None if own_is_private => {
                let says = "the server is reached by a public address, so through NAT or a gateway; if it \
                            has a private one, the name should lead there";
                found.push(Finding::note(Layer::Name, "public_address", says).by(by));
            }
            None => {}
        }
    }
    found
}

/// Addresses of a name before the one that answers. If none answers, the host is at fault. If an address
/// was given, no name is involved.
fn dead_addresses(route: &Route) -> Vec<Finding> {
    let answers = route.addresses.iter().any(|it| it.reachable == Some(true));
    if route.is_by_address() || !answers {
        return Vec::new();
    }
    let of = |dead: &Address| {
        if dead.refused {
            // A client that is refused continues at once.
            let says = format!(
                "the name leads to {} first, where nobody listens on port {}; {} answers",
                dead.address, route.port, route.used
            );
            let by = format!("{} port {}: connection refused", dead.address, route.port);
            return Finding::note(Layer::Name, "closed_address", says).by(by);
        }
        let says = format!("the name leads to {} first, where nobody answers", dead.address);
        Finding::held(Layer::Name, "dead_address", says)
            .by(format!("no connection to {} port {}; {} answers", dead.address, route.port, route.used))
            .change(ChangeLocation::Server, format!("take {} out of the name service", dead.address))
    };
    route.addresses.iter().filter(|it| it.reachable == Some(false)).map(of).collect()
}

/// The finding about a host none of whose addresses accepted a connection.
pub(super) fn host(measurements: &TargetMeasurements) -> Option<Finding> {
    let (route, stopped) = (measurements.route.as_ref()?, measurements.stopped.as_ref()?);
    let is_refused = |it: &&Address| it.refused;
    let closed = || route.addresses.iter().find(is_refused).map_or(route.used, |it| it.address);
    let (kind, says, side, what) = match (stopped.stage, stopped.cause) {
        (Stage::Connect, Cause::Closed) => (
            "closed_port",
            format!("the host {} is there, and nobody listens on its port {}", closed(), route.port),
            ChangeLocation::Server,
            "start the server there, or name the port on which it listens".to_owned(),
        ),
        (Stage::Connect, Cause::Unreachable) => (
            "dead_host",
            format!("the host {} does not answer on port {}", route.used, route.port),
            ChangeLocation::Path,
            "check whether that host is on, and for a firewall or a missing route".to_owned(),
        ),
        _ => return None,
    };
    Some(Finding::held(Layer::Transport, kind, says).by(stopped.why.clone()).change(side, what))
}

fn shown_or(address: Option<std::net::IpAddr>) -> String {
    address.map_or_else(|| "not known".to_owned(), |it| it.to_string())
}

/// The findings of layer 2.
pub(super) fn transport(measurements: &TargetMeasurements) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(large_packets(measurements));
    found.extend(loss(measurements));
    // A path that loses packets keeps windows small by itself. So does a full path in the direction in
    // which it is full, where more connections gain nothing.
    if found.is_empty() {
        found.extend(window(measurements));
    }
    found.extend(narrow(measurements));
    found.extend(timer(measurements));
    found.extend(distance(measurements));
    found.extend(small_packets(measurements));
    found
}

/// A path on which large packets vanish silently.
fn large_packets(measurements: &TargetMeasurements) -> Option<Finding> {
    let packets = measurements.transport.as_ref()?.packets?;
    let lost = packets.lost?;
    let arrived = packets.arrived;
    let says = format!(
        "the path carries packets of {arrived} bytes and silently loses those of {lost}: its MTU is about \
         {arrived}, and the ICMP messages that report this do not arrive. The server is not at fault: small \
         requests are answered, and larger ones never arrive"
    );
    let by = format!(
        "a packet of {arrived} bytes was acknowledged, one of {lost} bytes was sent again {} times and was \
         not",
        packets.sent_again
    );
    let what = format!(
        "let ICMP \"fragmentation needed\" (IPv6: \"packet too big\") through; until then set the MTU of \
         this interface to {arrived} (ip link set dev INTERFACE mtu {arrived}), clamp the MSS on the router, \
         or set net.ipv4.tcp_mtu_probing=1"
    );
    Some(Finding::held(Layer::Transport, "black_hole", says).by(by).change(ChangeLocation::Path, what))
}

/// The packet size in bytes below which something on the path uses a part of each packet. It is the usual
/// minimum: 1,400 without the headers of common tunnels.
const ORDINARY_MTU: u32 = 1400;

/// Packets that are smaller than usual. It is only a note: each packet costs both ends processor time,
/// which matters only if the processors are full.
fn small_packets(measurements: &TargetMeasurements) -> Option<Finding> {
    let route = measurements.route.as_ref()?;
    let (interface, path) = (route.interface_mtu, route.path_mtu);
    let least = interface.into_iter().chain(path).min().filter(|it| *it < ORDINARY_MTU)?;
    let behind = interface.is_some_and(|own| own > least);
    let says = format!(
        "packets on this path have at most {least} bytes instead of the usual 1,500: {} uses the rest, so \
         both ends handle more packets",
        if behind {
            "a tunnel or an old line behind this host"
        } else {
            "the interface of this host, as a tunnel or a VPN,"
        }
    );
    let told = |mtu: Option<u32>| mtu.map_or_else(|| "not known".to_owned(), |it| it.to_string());
    let by = format!(
        "MTU of the interface: {}, of the path as the kernel knows it: {}",
        told(interface),
        told(path)
    );
    Some(Finding::note(Layer::Transport, "small_packets", says).by(by))
}

/// The round trip under load, if it is longer than without.
fn loaded_rtt(measurements: &TargetMeasurements, run: &Run) -> f64 {
    let base = rtt(measurements).unwrap_or(0.0);
    run.tcp.map_or(0.0, |it| it.rtt_ms).max(base + queued(measurements, run.work).unwrap_or(0.0))
}

/// The part of lost segments, if runs lose them alike. A flow that increases its rate overshoots now and
/// then, and a lossy path loses all the time. The arguments are the lost segments of each run and all its
/// segments.
fn steady(runs: &[(u64, u64)]) -> Option<f64> {
    let (lost, all) = runs.iter().fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
    let part = lost as f64 / all.max(1) as f64;
    let expected = |run: &&(u64, u64)| run.1 as f64 * part;
    let telling: Vec<_> = runs.iter().filter(|run| expected(run) >= 3.0).collect();
    let alike = telling.iter().filter(|run| run.0 as f64 >= expected(run) / 3.0).count();
    (lost >= 15 && telling.len() >= 2 && alike * 4 >= telling.len() * 3).then_some(part)
}

/// The part of the segments that the path loses although it is not full.
fn lost_part(measurements: &TargetMeasurements, base: f64) -> f64 {
    let is_here = measurements.route.as_ref().is_some_and(crate::measurements::Route::is_here);
    let (mut again, mut disorder) = (Vec::new(), Vec::new());
    for run in measurements.data.iter().flat_map(|it| &it.runs) {
        let Some(tcp) = run.tcp else { continue };
        // A host without idle time acknowledges late, and segments that were not lost are sent again.
        if run.idle < 0.1
            || is_here
            || loaded_rtt(measurements, run) > (base * QUEUED_TRIP).max(base + QUEUED_MS)
        {
            continue;
        }
        match run.work {
            RunKind::Write | RunKind::SmallFiles => again.push((tcp.sent_again, tcp.sent)),
            RunKind::Read | RunKind::ReadAgain => disorder.push((tcp.out_of_order, tcp.came)),
            RunKind::SmallRead => {}
        }
    }
    let written = steady(&again).filter(|part| *part > SOUND_LOSS);
    // Behind each lost segment several arrive out of order.
    let read = steady(&disorder).filter(|part| *part > 6.0 * SOUND_LOSS).map(|part| part / 20.0);
    // The segments that were sent again are counted; those that the other side lost are an estimate.
    written.or(read).unwrap_or(0.0)
}

/// Lost packets, if the path is not simply full: a full path loses packets too.
fn loss(measurements: &TargetMeasurements) -> Option<Finding> {
    let transport = measurements.transport.as_ref()?;
    let base = transport.connect.median()?;
    let late = transport.connect.times_ms.iter().filter(|it| **it > base + 900.0).count() as u32;
    let mut by = Vec::new();
    if transport.connect.lost + late > 0 {
        let (lost, sent) = (transport.connect.lost + late, transport.connect.sent);
        by.push(format!("{lost} of {sent} connects were lost, or answered only when tried again"));
    }
    let part = lost_part(measurements, base);
    if part > 0.0 {
        by.push(format!(
            "about {} % of the segments were lost, in all runs alike, while the round trip stayed near {} ms",
            short(part * 100.0),
            short(base)
        ));
    }
    if by.is_empty() {
        return None;
    }
    let says =
        "the path loses packets though it is not full, so that each connection slows down again and again";
    let mut finding = Finding::held(Layer::Transport, "loss", says);
    by.into_iter().for_each(|it| finding.rests_on.push(it));
    if let Some(gain) = gain(measurements).filter(|gain| gain.times() > 1.2) {
        finding = finding.by(shown(gain.one)).by(shown(gain.many)).gain(gain.times());
    }
    let what = "find the lossy link (cable, duplex, radio, an overloaded tunnel); until then use more \
                connections, and BBR on senders that you control";
    Some(finding.change(ChangeLocation::Path, what))
}

/// A path that is full and slow: neither more connections nor more depth gain anything, and data that is
/// sent waits in a queue.
fn narrow(measurements: &TargetMeasurements) -> Option<Finding> {
    let data = unbounded(measurements)?;
    let full = [RunKind::Read, RunKind::Write].into_iter().filter(|work| has_queue(measurements, *work));
    let best =
        full.filter_map(|work| data.best(work, u32::MAX)).min_by(|a, b| a.mib_s.total_cmp(&b.mib_s))?;
    let gain = data.gain(&[best.work]).map(|gain| gain.times());
    if best.mib_s > NARROW_MIB_S || gain.is_some_and(|gain| gain > 1.4) {
        return None;
    }
    let mbit = short(best.mib_s * 8.388_608);
    let [what, direction] = match best.work {
        RunKind::Write => ["written", "to the server"],
        _ => ["read", "from the server"],
    };
    let says = format!(
        "the path is full: it carries {mbit} Mbit/s {direction}, and all further data waits in a queue"
    );
    let load = queued(measurements, best.work)? + rtt(measurements)?;
    let finding = Finding::held(Layer::Transport, "narrow", says).by(shown(best)).by(format!(
        "a connect takes {} ms, and {} ms while the share is {what}",
        short(rtt(measurements)?),
        short(load)
    ));
    let what = match gain {
        Some(_) => {
            "use a faster line, or send less over this one: more connections and tuning gain nothing here"
        }
        None => "use a faster line, or send less over this one",
    };
    Some(finding.change(ChangeLocation::Path, what))
}

/// A window that is too small for the path.
fn window(measurements: &TargetMeasurements) -> Option<Finding> {
    let transport = measurements.transport.as_ref()?;
    let base = rtt(measurements).filter(|it| *it > 1.0)?;
    let data = unbounded(measurements)?;
    // The gain of more connections in the direction in which the window seems to be small.
    let gained = |work: RunKind| data.gain(&[work]).filter(|gain| gain.times() > 1.3);
    let under_way = |run: &Run| run.mib_s * 1_048_576.0 * base / 1000.0;
    let most = |window: f64| short(window / (base / 1000.0) / 1_048_576.0);
    let finding = |work: RunKind, side: ChangeLocation, which: &str, by: String, what: &str| {
        let gain = gained(work)?;
        let (times, best) = (gain.times(), gain.many);
        let holds = best.mib_s * 1_048_576.0 * base / 1000.0;
        let says = format!(
            "{which} is too small for this path, so that one connection waits for the other side most of the \
             time"
        );
        let path = format!(
            "the path holds at least {} KiB (best rate times {} ms)",
            short(holds / 1024.0),
            short(base)
        );
        let finding = Finding::held(Layer::Transport, "window", says).by(by).by(path).by(shown(best));
        Some(finding.gain(times).change(side, what))
    };
    if let (Some(run), Some(window)) = (single(measurements, RunKind::Read), transport.receive_window) {
        let window = window as f64;
        if gained(RunKind::Read).is_some() && under_way(run) > 0.45 * window && under_way(run) < 2.2 * window
        {
            let by = format!(
                "{}; the window of this host is {} KiB, so one connection carries {} MiB/s at most",
                shown(run),
                short(window / 1024.0),
                most(window)
            );
            let what = "raise the third number of net.ipv4.tcp_rmem (sysctl), or take more connections";
            return finding(
                RunKind::Read,
                ChangeLocation::Client,
                "the receive window of this host",
                by,
                what,
            );
        }
    }
    let run = single(measurements, RunKind::Write)?;
    let tcp = run.tcp?;
    let part = |it: f64| short(it * 100.0);
    if tcp.held_by_peer_window > 0.4 {
        let by = format!(
            "{}; {} % of the time the server's window was full",
            shown(run),
            part(tcp.held_by_peer_window)
        );
        let what = "raise net.ipv4.tcp_rmem on the server, or its receive buffer; or take more connections";
        return finding(RunKind::Write, ChangeLocation::Server, "the receive window of the server", by, what);
    }
    if tcp.held_by_send_buffer > 0.4 {
        let by = format!(
            "{}; {} % of the time our send buffer was full",
            shown(run),
            part(tcp.held_by_send_buffer)
        );
        let what = "raise the third number of net.ipv4.tcp_wmem (sysctl), or take more connections";
        return finding(RunKind::Write, ChangeLocation::Client, "the send buffer of this host", by, what);
    }
    None
}

/// Replies that cost nothing and still come late, each by the same time.
fn timer(measurements: &TargetMeasurements) -> Option<Finding> {
    let echo = match measurements.protocol.as_ref()? {
        Protocol::Smb(smb) => &smb.echo_ms,
        Protocol::Nfs(nfs) => &nfs.echo_ms,
        Protocol::Mount(_) => return None,
    };
    let (base, answer) = (rtt(measurements)?, crate::measurements::median(echo)?);
    let late = answer - base;
    if late < 15.0 || late < base * 0.2 {
        return None;
    }
    let even = echo.iter().filter(|it| (**it - answer).abs() < late * 0.3).count() * 10 >= echo.len() * 7;
    let says = match even {
        true => format!(
            "each small reply is delayed by {} ms, as by a timer: Nagle's algorithm with delayed \
             acknowledgements, or a device that collects packets",
            short(late)
        ),
        false => format!(
            "replies that cost nothing arrive {} ms later than the network explains: a device in between, or \
             the server itself, is busy",
            short(late)
        ),
    };
    let finding = Finding::held(Layer::Transport, "held_answers", says)
        .by(format!("an echo takes {} ms, a connect {} ms", short(answer), short(base)))
        .gain(answer / base.max(0.1));
    let what =
        "set TCP_NODELAY on the server, and remove any proxy or inspection that collects small packets";
    Some(finding.change(if even { ChangeLocation::Path } else { ChangeLocation::Server }, what))
}

/// A long path, which is no fault, and the highest rate of one connection over it.
fn distance(measurements: &TargetMeasurements) -> Option<Finding> {
    let transport = measurements.transport.as_ref()?;
    let base = rtt(measurements).filter(|it| *it > 2.0)?;
    let window = transport.receive_window.unwrap_or(u64::MAX).min(transport.send_window.unwrap_or(u64::MAX));
    let says = format!(
        "each request takes {} ms for the round trip, whatever the server does: only more of them under way \
         make up for it",
        short(base)
    );
    let mut finding = Finding::note(Layer::Transport, "distance", says).by(format!(
        "connect: {} of {} answered, median {} ms",
        transport.connect.times_ms.len(),
        transport.connect.sent,
        short(base)
    ));
    if window < u64::MAX {
        let most = window as f64 / (base / 1000.0) / 1_048_576.0;
        finding = finding.by(format!(
            "with the buffers of this host one connection carries {} MiB/s at most",
            short(most)
        ));
    }
    Some(finding)
}

/// Whether something else than this host and the path held a run back. The path must be known to have no
/// queue.
pub(super) fn by_server(measurements: &TargetMeasurements, run: &Run) -> bool {
    had_time(run) && has_free_path(measurements, run)
}

/// Whether the path is known to have had no queue during a run. A short queue counts if a connect beside the
/// run and the run's own segments both show it. The segments alone do not suffice: a server that delays its
/// replies also delays acknowledgments (RFC 1122 4.2.3.2).
pub(super) fn has_free_path(measurements: &TargetMeasurements, run: &Run) -> bool {
    let base = rtt(measurements).unwrap_or(0.0);
    let waited_long = run.tcp.as_ref().is_some_and(|tcp| tcp.rtt_ms > 2.0 * base + 2.0);
    queued(measurements, run.work).is_some_and(|it| !(waited_long && it > SHORT_QUEUE_MS))
        && !has_queue(measurements, run.work)
}
