//! What was measured, layer by layer: plain values without any judgement. [`crate::rules`] reads them, reports show them,
//! and their names are those of the JSON.
//!
//! A layer that was not reached, or does not exist for a target, is missing. Times are in milliseconds, sizes in bytes,
//! rates in MiB (1,048,576 bytes) or operations for a second, unless a name says otherwise.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use crate::tcp::TcpInfo;

/// All that is known of one target.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Facts {
    /// As it was written.
    pub target: String,
    /// Layer 1.
    pub route: Option<Route>,
    /// Layer 2.
    pub transport: Option<Transport>,
    /// Layer 3.
    pub protocol: Option<Protocol>,
    /// Layer 4.
    pub connections: Option<Connections>,
    /// Layer 5 and 7: runs with data.
    pub data: Option<Data>,
    /// Layer 6.
    pub metadata: Option<Metadata>,
    /// What a Trunkline server told of how it answered, where it was asked.
    pub told: Option<Told>,
    /// Where the examination ended early, if it did.
    pub stopped: Option<Stopped>,
    /// What was to be measured and was not, with the reason.
    pub left_out: Vec<String>,
    /// Test files that could not be deleted.
    pub left_behind: Option<String>,
}

/// How far an examination comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Finding the addresses of a name.
    Name,
    /// A TCP connection.
    Connect,
    /// The first words of the protocol.
    Negotiate,
    /// Who we are.
    LogOn,
    /// The share or export.
    Share,
    /// Reading and writing.
    Data,
    /// Work with names.
    Metadata,
}

/// Why an examination ended early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// What was being done.
    pub stage: Stage,
    /// What came of it.
    pub why: String,
    /// Whether there was no answer at all in time.
    pub stalled: bool,
    /// What kind of end it was.
    pub cause: Cause,
}

/// What kind of end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The name has no address.
    NoName,
    /// No answer from host or network.
    Unreachable,
    /// The host says that nobody listens.
    Closed,
    /// Somebody listens who says nothing.
    Silent,
    /// It is not this protocol, or breaks its rules.
    Protocol,
    /// The log-on was refused.
    LogOn,
    /// No such share, or no access to it.
    Share,
    /// Nothing comes any more, on a path that loses large packets.
    LargePackets,
    /// The disk of the server is full.
    Full,
    /// Somebody ended the doctor.
    Interrupted,
    /// Something else.
    Other,
}

/// Layer 1: name and route.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Route {
    /// What was looked up.
    pub name: String,
    /// What it took.
    pub resolved_in_ms: f64,
    /// In the order of the resolver.
    pub addresses: Vec<Address>,
    /// That which is used.
    pub used: IpAddr,
    /// The port.
    pub port: u16,
    /// Our address on the way there.
    pub source: Option<IpAddr>,
    /// Our interface on the way there.
    pub interface: Option<String>,
    /// Bytes of a packet there.
    pub interface_mtu: Option<u32>,
    /// Bytes of a packet that the kernel believes the path to carry.
    pub path_mtu: Option<u32>,
    /// What our interface says of its speed, in Mbit/s.
    pub interface_mbit: Option<u64>,
}

/// An address and what it is good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// From where it is reached.
    pub scope: Scope,
    /// Whether a connection could be made; nothing where none was tried.
    pub reachable: Option<bool>,
    /// Whether the host answered that nobody listens on the port.
    pub refused: bool,
}

/// From where an address is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// From this host.
    Loopback,
    /// From the same wire.
    LinkLocal,
    /// From networks that belong together (RFC 1918, 4193, 6598).
    Private,
    /// From everywhere.
    Public,
}

/// TCP connects, as psping counts them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Connects {
    /// Attempts that count, those of the warm-up left out.
    pub sent: u32,
    /// Attempts that were given up.
    pub lost: u32,
    /// The times of the others, in order.
    pub times_ms: Vec<f64>,
}

/// Layer 2: transport.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Transport {
    /// While nothing else is under way.
    pub connect: Connects,
    /// While a connection reads what it can; nothing where that was not tried.
    pub connect_under_load: Option<Connects>,
    /// While one writes what it can.
    pub connect_under_writes: Option<Connects>,
    /// Bytes that this host lets a connection receive ahead of its reader.
    pub receive_window: Option<u64>,
    /// Bytes that this host keeps of what a connection has sent and the other side has not acknowledged.
    pub send_window: Option<u64>,
    /// How this host decides on its sending rate.
    pub congestion_control: Option<String>,
    /// The kernel's account of the first connection at the end.
    pub first_connection: Option<TcpInfo>,
    /// Whether large packets arrive; nothing where that was not tried, as on this host itself.
    pub packets: Option<Packets>,
}

/// What became of packets of several sizes that were sent there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Packets {
    /// Bytes of the largest that arrived, headers and all.
    pub arrived: u32,
    /// Bytes of the smallest above that which never did; nothing where all arrived.
    pub lost: Option<u32>,
    /// How often the kernel sent that one again.
    pub sent_again: u32,
}

/// Layer 3.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Protocol {
    /// SMB, spoken by us.
    Smb(Smb),
    /// NFSv4, spoken by us.
    Nfs(Nfs),
    /// What the kernel has mounted.
    Mount(crate::mount::Mount),
}

/// SMB.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Smb {
    /// For example 3.1.1.
    pub dialect: String,
    /// The algorithm by which messages are signed where they are.
    pub signing: String,
    /// Whether every message is.
    pub signs: bool,
    /// The cipher, where one was agreed on.
    pub cipher: Option<String>,
    /// Whether every message is sealed.
    pub seals: bool,
    /// Nanoseconds that signing or sealing a MiB takes this host, where it is done.
    pub protection_ns_per_mib: Option<f64>,
    /// Largest READ.
    pub max_read: u32,
    /// Largest WRITE.
    pub max_write: u32,
    /// Largest other buffer.
    pub max_transact: u32,
    /// Credits that a connection has after work, of those that were asked for.
    pub credits: u32,
    /// Credits that were asked for.
    pub credits_asked: u32,
    /// What the server can do.
    pub capabilities: Vec<&'static str>,
    /// Names the server.
    pub server_guid: String,
    /// How far the server's clock is ahead of ours.
    pub clock_ahead_ms: i64,
    /// From the first message to the share.
    pub log_on_ms: f64,
    /// An ECHO, which the server answers without any work, each.
    pub echo_ms: Vec<f64>,
}

/// NFSv4.1 and 4.2.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Nfs {
    /// The highest minor version that both speak.
    pub minor_version: u32,
    /// Major and minor owner.
    pub owner: String,
    /// The scope.
    pub scope: String,
    /// What the server calls itself.
    pub software: Option<String>,
    /// Slots of the session.
    pub slots: u32,
    /// Slots that were asked for.
    pub slots_asked: u32,
    /// Largest READ and WRITE.
    pub max_io: u32,
    /// Length of the lease.
    pub lease_s: u32,
    /// Whether an open for writing was given a delegation; nothing where that was not tried.
    pub delegation: Option<bool>,
    /// How far the server's clock is ahead of ours; nothing where no file was written.
    pub clock_ahead_ms: Option<i64>,
    /// From the first message to the export.
    pub log_on_ms: f64,
    /// A SEQUENCE alone, which the server answers without any work, each.
    pub echo_ms: Vec<f64>,
}

/// Layer 4: connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Connections {
    /// Whether the server offers several connections for a session.
    pub offered: bool,
    /// Whether we did not want several (`--one-connection`), as a client does not whose Multichannel is off.
    pub client_off: bool,
    /// Connections that were asked for.
    pub asked: u32,
    /// Connections that one session got.
    pub got: u32,
    /// What it took to open those beside the first; nothing where there are none.
    pub opened_in_ms: Option<f64>,
    /// Why there are no more.
    pub failure: Option<String>,
    /// Whether runs with several connections used a session for each, since one session takes one alone.
    pub separate_sessions: bool,
    /// The server's interfaces (SMB).
    pub interfaces: Vec<Interface>,
    /// What each connection carried when all were loaded together.
    pub channels: Vec<Channel>,
    /// The columns of Get-SmbMultichannelConnection that belong to the client.
    pub client_index: Option<u32>,
}

/// One address that the server offers for further connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interface {
    /// The address.
    pub address: IpAddr,
    /// The server's number of the interface.
    pub index: u32,
    /// What the server says of its speed, in Mbit/s.
    pub mbit: u64,
    /// Receive side scaling.
    pub rss: bool,
    /// RDMA.
    pub rdma: bool,
    /// Whether a connection of the session goes there.
    pub selected: bool,
    /// Whether a TCP connection could be made there; nothing where none was tried.
    pub reachable: Option<bool>,
    /// Why it is not selected.
    pub reason: Option<String>,
}

/// One connection under load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Channel {
    /// Our end.
    pub local: SocketAddr,
    /// The server's end.
    pub peer: SocketAddr,
    /// What it carried; nothing where that was not measured.
    pub mib_s: Option<f64>,
    /// How often a request was under way on it when it was looked at, of 1; none where that cannot be seen.
    pub busy: Option<f64>,
    /// The kernel's account of it.
    pub tcp: Option<TcpInfo>,
}

/// Layers 5 and 7: runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Data {
    /// In the order in which they were made.
    pub runs: Vec<Run>,
    /// Why nothing was written, where that was so.
    pub not_written: Option<String>,
    /// The bound that was given, in MiB/s.
    pub bound_mib_s: Option<f64>,
    /// The first run whose rate broke down again and again at even distances, where there was one.
    pub sawtooth: Option<Sawtooth>,
    /// The bound on small reads and on work with names that was given, for a second.
    pub bound_iops: Option<u32>,
    /// What other programs used of this host's processors while numbers of connections were compared; nothing where none were.
    pub others: Option<Others>,
}

/// What other programs used of this host's processors, by looks between the runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Others {
    /// Part of all processors, of 1.
    pub part: f64,
    /// Processors of this host.
    pub processors: u32,
    /// Whether the server is on this host, so that it waits for the same processors.
    pub is_server_here: bool,
}

/// A rate that breaks down to less than half again and again, at even distances.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sawtooth {
    /// What was done.
    pub work: Work,
    /// Connections.
    pub connections: u32,
    /// How often it broke down.
    pub collapses: u32,
    /// The time from one to the next, in seconds.
    pub every_s: f64,
    /// Operations for a second in the middle part of the run.
    pub usual_per_s: f64,
}

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Large blocks.
    Write,
    /// Large blocks.
    Read,
    /// Blocks of 4 KiB at random.
    SmallRead,
    /// Files of 16 KiB made, written and closed.
    SmallFiles,
    /// The same large reads once more at the end.
    ReadAgain,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// What was done.
    pub work: Work,
    /// Bytes of one operation.
    pub block: u32,
    /// Operations under way at once.
    pub depth: u32,
    /// Connections.
    pub connections: u32,
    /// The time that counts, in seconds.
    pub lasted_s: f64,
    /// Operations that counted.
    pub operations: u64,
    /// Operations for a second.
    pub per_s: f64,
    /// The part by which `per_s` may be off, since operations that are under way at the borders of a run count whole or not at
    /// all. Nothing where the kernel counted the bytes.
    pub cut: f64,
    /// Least and most of the turns; where there was one, the mean with 95 % confidence, from its parts.
    pub interval: [f64; 2],
    /// Operations for a second in each turn, in order: what runs with other numbers of connections have at the same place was
    /// measured shortly before or after.
    pub turns: Vec<f64>,
    /// Bytes for a second.
    pub mib_s: f64,
    /// Latency of the middle operation.
    pub median_ms: f64,
    /// Latency that one of a hundred exceeds.
    pub p99_ms: f64,
    /// Operations for a second in each part of the run.
    pub parts: Vec<f64>,
    /// Processor time of the doctor in processors: 1 is all of one.
    pub own_processors: f64,
    /// Part of all processors of this host that had nothing to do.
    pub idle: f64,
    /// Part of the time in which we were ready and had to wait for a processor; nothing where the kernel does not count it.
    pub waited: Option<f64>,
    /// What the kernel counted on the connections meanwhile.
    pub tcp: Option<Traffic>,
}

/// What the kernel counted on all connections during a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// Segments that were sent, and those among them sent again.
    pub sent: u64,
    /// Sent again, without those that the other side had already.
    pub sent_again: u64,
    /// Segments that came, and those among them that came out of order, as behind a lost one.
    pub came: u64,
    /// Out of order.
    pub out_of_order: u64,
    /// The kernel's round trip, the mean of all connections: the longest that was seen during the run, since a flow that has
    /// just slowed down finds the path empty.
    pub rtt_ms: f64,
    /// Part of the time with something to send in which the other side's window was full.
    pub held_by_peer_window: f64,
    /// Part of it in which our send buffer was full.
    pub held_by_send_buffer: f64,
}

/// Layer 6: names.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Metadata {
    /// Names in the directory.
    pub names: u32,
    /// One after the other and many at once, for each kind of operation.
    pub operations: Vec<NameWork>,
    /// Listing the directory, each time.
    pub list_ms: Vec<f64>,
    /// Names that a listing brings for a second.
    pub list_names_per_s: Option<f64>,
    /// Opening a name that is not there.
    pub missing_ms: Option<f64>,
}

/// One kind of operation on names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NameWork {
    /// create, open, close, stat, delete. To open is to open and close, of which `close` is the part that closes.
    pub what: &'static str,
    /// Round trips that one takes at least.
    pub trips: u32,
    /// The middle one of those done one after the other.
    pub median_ms: f64,
    /// Operations for a second with many under way.
    pub per_s: Option<f64>,
    /// How many were under way then.
    pub depth: u32,
    /// Rates in parts of the time.
    pub parts: Vec<f64>,
    /// Part of all processors that had nothing to do then.
    pub idle: f64,
}

/// How a Trunkline server answered on the share while it was examined, by its own account.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Told {
    /// Transactions by response type, such as SuccessWithShareIopsThrottling.
    pub by_type: BTreeMap<String, u64>,
    /// Reads and writes of a second that the share may do for ever, where it is limited.
    pub provisioned_iops: Option<u64>,
    /// Bytes of a second that it may send and receive, where it is limited.
    pub provisioned_bandwidth_bytes: Option<u64>,
    /// Burst credits that were left.
    pub burst_credits: Option<u64>,
}

impl Told {
    /// Those that limits held, and all.
    #[must_use]
    pub fn throttled(&self) -> (u64, u64) {
        let held = self.by_type.iter().filter(|(kind, _)| kind.ends_with("Throttling"));
        (held.map(|(_, count)| count).sum(), self.by_type.values().sum())
    }
}

/// The middle of values, whatever their order.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        even if even % 2 == 0 => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

impl Connects {
    /// The shortest, the longest and the mean.
    #[must_use]
    pub fn spread(&self) -> Option<[f64; 3]> {
        let least = self.times_ms.iter().copied().min_by(f64::total_cmp)?;
        let most = self.times_ms.iter().copied().max_by(f64::total_cmp)?;
        Some([least, most, self.times_ms.iter().sum::<f64>() / self.times_ms.len() as f64])
    }

    /// The middle one.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        median(&self.times_ms)
    }

    /// Times in ten steps from the shortest to the longest: where a step begins, and how many fell into it.
    #[must_use]
    pub fn histogram(&self) -> Vec<(f64, u32)> {
        const STEPS: usize = 10;
        let Some([least, most, _]) = self.spread() else { return Vec::new() };
        let step = ((most - least) / STEPS as f64).max(0.001);
        let mut counts = vec![0; STEPS];
        for time in &self.times_ms {
            counts[(((time - least) / step) as usize).min(STEPS - 1)] += 1;
        }
        counts.into_iter().enumerate().map(|(at, count)| (least + step * at as f64, count)).collect()
    }
}

impl Data {
    /// The last run of this kind with so many connections.
    #[must_use]
    pub fn run(&self, work: Work, connections: u32) -> Option<&Run> {
        self.runs.iter().rev().find(|run| run.work == work && run.connections == connections)
    }

    /// The run of this kind that carried most, among those with at most `connections`.
    #[must_use]
    pub fn best(&self, work: Work, connections: u32) -> Option<&Run> {
        let fits = |run: &&Run| run.work == work && run.connections <= connections;
        self.runs.iter().filter(fits).max_by(|a, b| a.per_s.total_cmp(&b.per_s))
    }

    /// Whether small operations were held to a bound of ours, so that their rates say nothing of the server.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.bound_mib_s.is_some() || self.bound_iops.is_some()
    }

    /// Whether large runs of this kind were made with another number of connections than `run`, so that it can be said what more
    /// of them bring.
    #[must_use]
    pub fn has_other_counts(&self, run: &Run) -> bool {
        self.runs.iter().any(|it| it.work == run.work && it.connections != run.connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_holds_every_connect() {
        let times_ms = vec![23.0, 23.5, 24.0, 33.0];
        let connects = Connects { sent: 5, lost: 1, times_ms };
        assert_eq!(connects.histogram().iter().map(|(_, count)| count).sum::<u32>(), 4);
        assert_eq!(connects.histogram()[0], (23.0, 2));
        assert_eq!(connects.histogram()[9].1, 1);
        assert_eq!((connects.median(), connects.spread()), (Some(23.75), Some([23.0, 33.0, 25.875])));
        assert!(Connects::default().histogram().is_empty() && Connects::default().median().is_none());
    }
}
