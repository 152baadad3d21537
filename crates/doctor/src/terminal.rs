//! The report for a terminal: the verdict first, and then each layer with its measured values.

use std::fmt::{self, Display, Formatter};

use crate::finding::Layer;
use crate::measurements::{
    Connections, Connects, Data, Interface, Metadata, NfsProperties, Protocol, Route, RunKind, Scope,
    ServerTransactions, SmbProperties, TargetMeasurements, Transport, median,
};
use crate::mount::Mount;
use crate::report::{Examined, Report};
use crate::rules::short;

/// The width of the text in columns.
const WIDTH: usize = 100;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for examined in &self.targets {
            examined.fmt(f)?;
        }
        if let Some(comparison) = &self.comparison {
            writeln!(f, "\n== Both ==")?;
            let width = comparison.rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
            for row in &comparison.rows {
                let mark = if row.differs { "  differs" } else { "" };
                writeln!(f, "  {:width$}  {:>18}  {:>18}{mark}", row.what, row.first, row.second)?;
            }
            writeln!(f)?;
            wrapped(f, "", &comparison.paragraph)?;
        }
        writeln!(f, "\n{} course, {} s", self.course, short(self.took_s))
    }
}

/// Wraps text. Further lines are indented to the start of the first.
fn wrapped(f: &mut Formatter<'_>, lead: &str, text: &str) -> fmt::Result {
    let indent = " ".repeat(lead.chars().count());
    let mut line = lead.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(f, "{line}")?;
            line.clone_from(&indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    writeln!(f, "{line}")
}

impl Display for Examined {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let measurements = &self.facts;
        writeln!(f, "== {} ==\n", measurements.target)?;
        wrapped(f, "", &self.verdict.paragraph)?;
        for (number, change) in self.verdict.changes.iter().enumerate() {
            let gain = change.gain.filter(|it| *it > 1.05).map(|it| format!(" (about {} times)", short(it)));
            let lead = format!("  {}. {}: ", number + 1, change.side.name());
            wrapped(f, &lead, &format!("{}{}", change.what, gain.unwrap_or_default()))?;
        }
        if let Some(path) = &measurements.left_behind {
            wrapped(f, "", &format!("Left behind, since the server did not answer in time: delete {path}"))?;
        }
        layers(f, measurements)?;
        self.notes(f)?;
        for it in &measurements.left_out {
            writeln!(f, "  left out: {it}")?;
        }
        Ok(())
    }
}

impl Examined {
    fn notes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.findings.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhat follows, by layer (! holds it back)")?;
        let mut findings: Vec<_> = self.findings.iter().collect();
        findings.sort_by_key(|it: &&crate::finding::Finding| it.layer);
        for finding in findings {
            let mark = if finding.holds_back { "!" } else { "-" };
            let layer: Layer = finding.layer;
            wrapped(f, &format!("  {mark} {}: ", layer.name()), &finding.says)?;
            for by in &finding.rests_on {
                wrapped(f, "      measured: ", by)?;
            }
        }
        Ok(())
    }
}

fn layers(f: &mut Formatter<'_>, measurements: &TargetMeasurements) -> fmt::Result {
    if let Some(it) = &measurements.route {
        route(f, it)?;
    }
    if let (Some(it), Some(to)) = (&measurements.transport, &measurements.route) {
        transport(f, it, to, measurements.data.as_ref())?;
    }
    if let Some(it) = &measurements.protocol {
        protocol(f, it)?;
    }
    if let Some(it) = &measurements.connections {
        connections(f, it, measurements)?;
    }
    if let Some(it) = measurements.data.as_ref().filter(|it| !it.runs.is_empty()) {
        data(f, it)?;
    }
    if let Some(it) = &measurements.metadata {
        metadata(f, it)?;
    }
    if let Some(it) = &measurements.told {
        limits(f, it)?;
    }
    Ok(())
}

fn route(f: &mut Formatter<'_>, it: &Route) -> fmt::Result {
    writeln!(f, "\n1 Name and route")?;
    for address in &it.addresses {
        let scope = match address.scope {
            Scope::Loopback => "loopback",
            Scope::LinkLocal => "link-local",
            Scope::Private => "private",
            Scope::Public => "public",
        };
        let used = match (address.address == it.used, address.reachable) {
            (true, _) => ", used",
            (_, Some(false)) => ", no answer",
            _ => "",
        };
        writeln!(f, "  {} -> {} ({scope}{used})", it.name, address.address)?;
    }
    let or = |it: Option<String>| it.unwrap_or_else(|| "?".to_owned());
    writeln!(
        f,
        "  from {} ({}), packets of {} bytes here, {} on the path",
        or(it.source.map(|it| it.to_string())),
        or(it.interface.clone()),
        or(it.interface_mtu.map(|it| it.to_string())),
        or(it.path_mtu.map(|it| it.to_string()))
    )
}

/// Prints connects in the form of psping.
fn connects(f: &mut Formatter<'_>, it: &Connects) -> fmt::Result {
    let received = it.times_ms.len();
    let part = it.lost * 100 / it.sent.max(1);
    writeln!(f, "  Sent = {}, Received = {received}, Lost = {} ({part}% loss),", it.sent, it.lost)?;
    if let Some([least, most, mean]) = it.spread() {
        writeln!(f, "  Minimum = {least:.2}ms, Maximum = {most:.2}ms, Average = {mean:.2}ms")?;
    }
    Ok(())
}

fn transport(f: &mut Formatter<'_>, it: &Transport, to: &Route, data: Option<&Data>) -> fmt::Result {
    writeln!(f, "\n2 Transport\n  TCP connect statistics for {}:", to.destination())?;
    connects(f, &it.connect)?;
    writeln!(f, "  Latency\tCount")?;
    for (from, count) in it.connect.histogram().into_iter().filter(|(_, count)| *count > 0) {
        writeln!(f, "  {from:.2}\t\t{count}")?;
    }
    if let Some(loaded) = it.connect_under_load.as_ref().and_then(Connects::median) {
        writeln!(f, "  while the share is read: {loaded:.2}ms (median)")?;
    }
    if let Some(loaded) = it.connect_under_writes.as_ref().and_then(Connects::median) {
        writeln!(f, "  while it is written: {loaded:.2}ms (median)")?;
    }
    if let Some(info) = &it.first_connection {
        writeln!(
            f,
            "  kernel: round trip {} ms (least {}), window of {} packets of {} bytes, {} of {} segments sent \
             again, {}",
            short(info.rtt_ms),
            short(info.min_rtt_ms),
            info.congestion_window,
            info.segment,
            info.segments_sent_again,
            info.segments_sent,
            info.congestion_control
        )?;
    }
    windows(f, it, data)
}

/// Compares the bandwidth-delay product with the windows: the highest rate of one connection.
fn windows(f: &mut Formatter<'_>, it: &Transport, data: Option<&Data>) -> fmt::Result {
    let Some(base) = it.connect.median().filter(|it| *it > 0.0) else { return Ok(()) };
    let most = |window: u64| short(window as f64 / (base / 1000.0) / 1_048_576.0);
    for (window, what, verb) in [(it.receive_window, "receive", "reads"), (it.send_window, "send", "writes")]
    {
        if let Some(window) = window {
            writeln!(
                f,
                "  {what} window of this host {} KiB, round trip {} ms: one connection {verb} {} MiB/s at \
                 most",
                window >> 10,
                short(base),
                most(window)
            )?;
        }
    }
    for work in [RunKind::Read, RunKind::Write] {
        if let Some(best) = data.and_then(|it| it.best(work, u32::MAX)) {
            writeln!(
                f,
                "  bandwidth-delay product of {}s: {} MiB/s times {} ms are {} KiB on the path",
                self::work(work),
                short(best.mib_s),
                short(base),
                short(best.mib_s * 1024.0 * base / 1000.0)
            )?;
        }
    }
    Ok(())
}

fn protocol(f: &mut Formatter<'_>, it: &Protocol) -> fmt::Result {
    writeln!(f, "\n3 Protocol")?;
    match it {
        Protocol::Smb(smb) => self::smb(f, smb),
        Protocol::Nfs(nfs) => self::nfs(f, nfs),
        Protocol::Mount(mount) => self::mount(f, mount),
    }
}

/// The median of times.
fn ms(values: &[f64]) -> String {
    median(values).map_or_else(|| "?".to_owned(), short)
}

fn smb(f: &mut Formatter<'_>, smb: &SmbProperties) -> fmt::Result {
    let cipher = smb.cipher.as_deref().unwrap_or("nothing");
    let how = match (smb.seals, smb.signs) {
        (true, _) => format!("sealed ({cipher})"),
        (_, true) => format!("signed ({})", smb.signing),
        _ => "neither signed nor sealed, as nobody demands it".to_owned(),
    };
    writeln!(f, "  SMB {}, {how}; would sign by {}, seal by {cipher}", smb.dialect, smb.signing)?;
    let [read, write, other] = [smb.max_read, smb.max_write, smb.max_transact].map(|it| it >> 10);
    let credits = format!("{} credits of {} asked for", smb.credits, smb.credits_asked);
    writeln!(f, "  READ {read} KiB, WRITE {write} KiB, other {other} KiB; {credits}")?;
    writeln!(f, "  the server has {}", smb.capabilities.join(", "))?;
    writeln!(f, "  server {}, its clock {} ms from ours", smb.server_guid, smb.clock_ahead_ms)?;
    writeln!(f, "  log-on {} ms, echo {} ms", short(smb.log_on_ms), ms(&smb.echo_ms))
}

fn nfs(f: &mut Formatter<'_>, nfs: &NfsProperties) -> fmt::Result {
    let slots = format!("{} slots of {} asked for", nfs.slots, nfs.slots_asked);
    let size = nfs.max_io >> 10;
    writeln!(f, "  NFS 4.{}, {slots}, {size} KiB a request, lease {} s", nfs.minor_version, nfs.lease_s)?;
    let software = nfs.software.as_ref().map(|it| format!(", {it}")).unwrap_or_default();
    writeln!(f, "  server owner {}, scope {}{software}", nfs.owner, nfs.scope)?;
    if let Some(ahead) = nfs.clock_ahead_ms {
        writeln!(f, "  its clock {ahead} ms from ours")?;
    }
    if let Some(granted) = nfs.delegation {
        let given = if granted { "a delegation" } else { "no delegation" };
        writeln!(f, "  an open for writing was given {given}")?;
    }
    writeln!(f, "  session and export {} ms, echo {} ms", short(nfs.log_on_ms), ms(&nfs.echo_ms))
}

fn mount(f: &mut Formatter<'_>, mount: &Mount) -> fmt::Result {
    writeln!(f, "  {} {} on {}", mount.kind, mount.source, mount.place)?;
    writeln!(f, "  options {}", mount.options.join(","))?;
    for (address, connected) in &mount.interfaces {
        writeln!(f, "  the server offers {address}{}", if *connected { ", connected" } else { "" })?;
    }
    for (name, rtt, whole) in &mount.times_ms {
        writeln!(f, "  {name} {} ms on the network, {} ms in all", short(*rtt), short(*whole))?;
    }
    Ok(())
}

fn connections(f: &mut Formatter<'_>, it: &Connections, measurements: &TargetMeasurements) -> fmt::Result {
    writeln!(f, "\n4 Connections\n  MaxChannels {} (asked for), CurrentChannels {}", it.asked, it.got)?;
    if let (Some(Protocol::Nfs(_)), false) = (&measurements.protocol, it.client_off || it.asked < 2) {
        let trunking = if it.got > 1 { "allowed" } else { "not seen" };
        writeln!(f, "  trunking {trunking}: one session took {} connections of {}", it.got, it.asked)?;
    }
    if let Some(failure) = &it.failure {
        wrapped(f, "  No further one: ", failure)?;
    }
    interfaces(f, it, measurements.route.as_ref())?;
    for channel in &it.channels {
        let info = channel.tcp.as_ref();
        let rtt = info.map_or_else(|| "?".to_owned(), |it| short(it.rtt_ms));
        let busy =
            channel.busy.map_or_else(String::new, |it| format!(", busy {:.0} % of the time", it * 100.0));
        let rate =
            channel.mib_s.map_or_else(|| "not measured".to_owned(), |it| format!("{} MiB/s", short(it)));
        writeln!(f, "  {} -> {}  {rate}{busy}, round trip {rtt} ms", channel.local, channel.peer)?;
    }
    Ok(())
}

/// The columns of Get-SmbMultichannelConnection. An unknown value is `-`.
fn interfaces(f: &mut Formatter<'_>, it: &Connections, route: Option<&Route>) -> fmt::Result {
    if it.interfaces.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "  Server Name  Selected  Client IP  Server IP  Client Interface Index  Server Interface Index  \
         Client RSS Capable  Client RDMA Capable  Failed  FailureCount  ClientLinkSpeed  ServerLinkSpeed  \
         ServerRSSCapable  ServerRdmaCapable"
    )?;
    for interface in &it.interfaces {
        writeln!(f, "  {}", row(it, interface, route).join("  "))?;
        if let Some(reason) = &interface.reason {
            writeln!(f, "      not selected: {reason}")?;
        }
    }
    Ok(())
}

/// A row of the table of interfaces. The local end is that of a connection to the address; for the first
/// connection it is the start of the route.
fn row(it: &Connections, interface: &Interface, route: Option<&Route>) -> [String; 14] {
    let own = route.and_then(|it| it.source);
    let of_first = || own.filter(|_| route.is_some_and(|it| it.used == interface.address));
    let channel = it.channels.iter().find(|it| it.peer.ip() == interface.address);
    let client = channel.map(|it| it.local.ip()).or_else(of_first).filter(|_| interface.selected);
    let is_main = client.is_some() && client == own;
    let or = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
    let failed = interface.reachable.map(|reachable| !reachable);
    [
        route.map_or_else(String::new, |it| it.name.clone()),
        truth(interface.selected).to_owned(),
        or(client.map(|it| it.to_string())),
        interface.address.to_string(),
        or(it.client_index.filter(|_| is_main).map(|it| it.to_string())),
        interface.index.to_string(),
        // Whether the local interface has several queues is not determined, and the doctor's own client
        // uses only TCP.
        or(None),
        truth(false).to_owned(),
        or(failed.map(|it| truth(it).to_owned())),
        or(failed.map(|it| u32::from(it).to_string())),
        or(route.and_then(|it| it.interface_mbit).filter(|_| is_main).map(speed)),
        speed(interface.mbit),
        truth(interface.rss).to_owned(),
        truth(interface.rdma).to_owned(),
    ]
}

/// Prints the limits as the server itself reports them.
fn limits(f: &mut Formatter<'_>, it: &ServerTransactions) -> fmt::Result {
    let (held, all) = it.throttled();
    writeln!(f, "\n7 Limits, by the server's own account\n  {held} of {all} transactions were held")?;
    for (kind, count) in &it.by_type {
        writeln!(f, "  {kind:34} {count:>10}")?;
    }
    Ok(())
}

fn truth(it: bool) -> &'static str {
    if it { "True" } else { "False" }
}

fn speed(mbit: u64) -> String {
    if mbit >= 1000 { format!("{} Gbps", mbit / 1000) } else { format!("{mbit} Mbps") }
}

fn data(f: &mut Formatter<'_>, it: &Data) -> fmt::Result {
    writeln!(f, "\n5 Connections and depth")?;
    writeln!(
        f,
        "  {:12} {:>5} {:>6} {:>12} {:>11} {:>22} {:>10} {:>10}",
        "work", "conn", "depth", "MiB/s", "per s", "turns of per s", "median ms", "99th ms"
    )?;
    for run in &it.runs {
        let interval = format!("{} .. {}", short(run.interval[0]), short(run.interval[1]));
        writeln!(
            f,
            "  {:12} {:>5} {:>6} {:>12} {:>11} {interval:>22} {:>10} {:>10}",
            work(run.work),
            run.connections,
            run.depth,
            short(run.mib_s),
            short(run.per_s),
            short(run.median_ms),
            short(run.p99_ms)
        )?;
    }
    if let Some(why) = &it.not_written {
        writeln!(f, "  nothing was written: {why}")?;
    }
    if let Some(others) = &it.others {
        let used = short(others.part * f64::from(others.processors));
        writeln!(
            f,
            "  other programs used {used} of the {} processors of this host meanwhile",
            others.processors
        )?;
    }
    Ok(())
}

/// The name of a run's operations.
pub(crate) fn work(work: RunKind) -> &'static str {
    match work {
        RunKind::Write => "write",
        RunKind::Read => "read",
        RunKind::SmallRead => "4 KiB read",
        RunKind::SmallFiles => "small files",
        RunKind::ReadAgain => "read again",
    }
}

fn metadata(f: &mut Formatter<'_>, it: &Metadata) -> fmt::Result {
    writeln!(f, "\n6 Names ({} of them)", it.names)?;
    for operation in &it.operations {
        if operation.what == "close" {
            writeln!(f, "  close   {} ms of each open", short(operation.median_ms))?;
            continue;
        }
        let rate = operation.per_s.map_or_else(String::new, |it| {
            format!(", {} a second with {} under way", short(it), operation.depth)
        });
        writeln!(f, "  {:7} {} ms one after the other{rate}", operation.what, short(operation.median_ms))?;
    }
    if let Some(list) = median(&it.list_ms) {
        let rate =
            it.list_names_per_s.map_or_else(String::new, |it| format!(", {} names a second", short(it)));
        writeln!(f, "  list    {} ms{rate}", short(list))?;
    }
    if let Some(missing) = it.missing_ms {
        writeln!(f, "  missing {} ms", short(missing))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Channel;
    use crate::rules::tests_support::{Situation, situation};

    fn shown(measurements: TargetMeasurements) -> String {
        let findings = crate::rules::findings(&measurements);
        let verdict = crate::verdict::verdict(&measurements, &findings);
        Examined { facts: measurements, findings, verdict }.to_string()
    }

    const FAR: Situation = Situation { rtt_ms: 23.0, single: 23.0, best: 91.0, got: 4, separate: false };

    #[test]
    fn each_row_has_the_client_address_of_its_own_connection() {
        let mut measurements = situation(FAR);
        let interface = |address: &str, selected, reachable| Interface {
            address: address.parse().unwrap(),
            index: 7,
            mbit: 10_000,
            rss: true,
            rdma: false,
            selected,
            reachable: Some(reachable),
            reason: None,
        };
        let connections = measurements.connections.get_or_insert_default();
        connections.client_index = Some(2);
        connections.interfaces = vec![
            interface("10.0.0.1", true, true),
            interface("10.1.0.1", true, true),
            interface("10.2.0.1", false, false),
        ];
        let (local, peer) = ("10.1.0.2:4000".parse().unwrap(), "10.1.0.1:445".parse().unwrap());
        connections.channels = vec![Channel { local, peer, mib_s: Some(1.0), busy: None, tcp: None }];
        let text = shown(measurements);
        for row in [
            "files  True  10.0.0.2  10.0.0.1  2  7  -  False  False  0  -  10 Gbps  True  False",
            "files  True  10.1.0.2  10.1.0.1  -  7  -  False  False  0  -  10 Gbps  True  False",
            "files  False  -  10.2.0.1  -  7  -  False  True  1  -  10 Gbps  True  False",
        ] {
            assert!(text.contains(row), "{row} in {text}");
        }
    }

    #[test]
    fn the_transport_says_what_one_connection_can_carry_without_any_fault() {
        let text = shown(situation(FAR));
        for wanted in ["one connection reads 130 MiB/s at most", "are 2147 KiB on the path"] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }

    #[test]
    fn nfs_says_whether_a_session_takes_several_connections() {
        let mut measurements = situation(FAR);
        measurements.protocol = Some(Protocol::Nfs(NfsProperties::default()));
        assert!(
            shown(measurements.clone()).contains("trunking allowed: one session took 4 connections of 4")
        );
        measurements.connections.get_or_insert_default().got = 1;
        assert!(shown(measurements).contains("trunking not seen: one session took 1 connections of 4"));
    }
}
