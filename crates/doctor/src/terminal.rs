//! The report for a terminal: the verdict first, then each layer with what was measured.

use std::fmt::{self, Display, Formatter};

use crate::facts::{
    Connections, Connects, Data, Facts, Metadata, Nfs, Protocol, Route, Scope, Smb, Told, Transport, Work,
    median,
};
use crate::finding::Layer;
use crate::mount::Mount;
use crate::report::{Examined, Report};
use crate::rules::short;

/// Columns of text.
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

/// Breaks text into lines, those after the first indented as far as the first begins.
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
        let facts = &self.facts;
        writeln!(f, "== {} ==\n", facts.target)?;
        wrapped(f, "", &self.verdict.paragraph)?;
        for (number, change) in self.verdict.changes.iter().enumerate() {
            let gain = change.gain.filter(|it| *it > 1.05).map(|it| format!(" (about {} times)", short(it)));
            let lead = format!("  {}. {}: ", number + 1, change.side.name());
            wrapped(f, &lead, &format!("{}{}", change.what, gain.unwrap_or_default()))?;
        }
        if let Some(path) = &facts.left_behind {
            wrapped(f, "", &format!("Left behind, since the server did not answer in time: delete {path}"))?;
        }
        layers(f, facts)?;
        self.notes(f)?;
        for it in &facts.left_out {
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

fn layers(f: &mut Formatter<'_>, facts: &Facts) -> fmt::Result {
    if let Some(it) = &facts.route {
        route(f, it)?;
    }
    if let (Some(it), Some(to)) = (&facts.transport, &facts.route) {
        transport(f, it, to)?;
    }
    if let Some(it) = &facts.protocol {
        protocol(f, it)?;
    }
    if let Some(it) = &facts.connections {
        connections(f, it, facts)?;
    }
    if let Some(it) = facts.data.as_ref().filter(|it| !it.runs.is_empty()) {
        data(f, it)?;
    }
    if let Some(it) = &facts.metadata {
        metadata(f, it)?;
    }
    if let Some(it) = &facts.told {
        told(f, it)?;
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

/// As psping prints it.
fn connects(f: &mut Formatter<'_>, it: &Connects) -> fmt::Result {
    let received = it.times_ms.len();
    let part = it.lost * 100 / it.sent.max(1);
    writeln!(f, "  Sent = {}, Received = {received}, Lost = {} ({part}% loss),", it.sent, it.lost)?;
    if let Some([least, most, mean]) = it.spread() {
        writeln!(f, "  Minimum = {least:.2}ms, Maximum = {most:.2}ms, Average = {mean:.2}ms")?;
    }
    Ok(())
}

fn transport(f: &mut Formatter<'_>, it: &Transport, to: &Route) -> fmt::Result {
    writeln!(f, "\n2 Transport\n  TCP connect statistics for {}:", to.destination())?;
    connects(f, &it.connect)?;
    writeln!(f, "  Latency\tCount")?;
    for (from, count) in it.connect.histogram().into_iter().filter(|(_, count)| *count > 0) {
        writeln!(f, "  {from:.2}\t\t{count}")?;
    }
    if let Some(loaded) = it.connect_under_load.as_ref().and_then(Connects::median) {
        writeln!(f, "  while the share is read: {loaded:.2}ms in the middle")?;
    }
    if let Some(loaded) = it.connect_under_writes.as_ref().and_then(Connects::median) {
        writeln!(f, "  while it is written: {loaded:.2}ms in the middle")?;
    }
    if let Some(info) = &it.first_connection {
        writeln!(
            f,
            "  kernel: round trip {} ms (least {}), window of {} packets of {} bytes, {} of {} segments sent again, {}",
            short(info.rtt_ms),
            short(info.min_rtt_ms),
            info.congestion_window,
            info.segment,
            info.segments_sent_again,
            info.segments_sent,
            info.congestion_control
        )?;
    }
    if let (Some(window), Some(base)) = (it.receive_window, it.connect.median().filter(|it| *it > 1.0)) {
        let most = window as f64 / (base / 1000.0) / 1_048_576.0;
        writeln!(
            f,
            "  window of this host {} KiB: one connection carries {} MiB/s at most",
            window >> 10,
            short(most)
        )?;
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

/// The middle of times.
fn ms(values: &[f64]) -> String {
    median(values).map_or_else(|| "?".to_owned(), short)
}

fn smb(f: &mut Formatter<'_>, smb: &Smb) -> fmt::Result {
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

fn nfs(f: &mut Formatter<'_>, nfs: &Nfs) -> fmt::Result {
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

fn connections(f: &mut Formatter<'_>, it: &Connections, facts: &Facts) -> fmt::Result {
    writeln!(f, "\n4 Connections\n  MaxChannels {} (asked for), CurrentChannels {}", it.asked, it.got)?;
    if let Some(failure) = &it.failure {
        wrapped(f, "  No further one: ", failure)?;
    }
    if !it.interfaces.is_empty() {
        let client =
            facts.route.as_ref().and_then(|it| it.source).map_or_else(|| "?".to_owned(), |it| it.to_string());
        let index = it.client_index.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let name = facts.route.as_ref().map_or("", |it| &it.name);
        writeln!(
            f,
            "  Server Name  Selected  Client IP  Server IP  Client Index  Server Index  Server Speed  Server RSS  Server RDMA"
        )?;
        for interface in &it.interfaces {
            writeln!(
                f,
                "  {name}  {}  {client}  {}  {index}  {}  {}  {}  {}",
                truth(interface.selected),
                interface.address,
                interface.index,
                speed(interface.mbit),
                truth(interface.rss),
                truth(interface.rdma)
            )?;
            if let Some(reason) = &interface.reason {
                writeln!(f, "      not selected: {reason}")?;
            }
        }
    }
    for channel in &it.channels {
        let info = channel.tcp.as_ref();
        let rtt = info.map_or_else(|| "?".to_owned(), |it| short(it.rtt_ms));
        let busy =
            channel.busy.map_or_else(String::new, |it| format!(", busy {:.0} % of the time", it * 100.0));
        writeln!(
            f,
            "  {} -> {}  {} MiB/s{busy}, round trip {rtt} ms",
            channel.local,
            channel.peer,
            short(channel.mib_s)
        )?;
    }
    Ok(())
}

/// What the server says of its limits.
fn told(f: &mut Formatter<'_>, it: &Told) -> fmt::Result {
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
    writeln!(f, "\n5 What connections and depth are worth")?;
    writeln!(
        f,
        "  {:12} {:>5} {:>6} {:>12} {:>11} {:>22} {:>10} {:>10}",
        "work", "conn", "depth", "MiB/s", "per s", "95 % of per s", "median ms", "99th ms"
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
    Ok(())
}

/// What a run does, in a word.
pub(crate) fn work(work: Work) -> &'static str {
    match work {
        Work::Write => "write",
        Work::Read => "read",
        Work::SmallRead => "4 KiB read",
        Work::SmallFiles => "small files",
        Work::ReadAgain => "read again",
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
