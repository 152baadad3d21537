//! The measured values, layer by layer, without any judgement. [`crate::rules`] reads them and reports
//! show them. Their names are the names in the JSON.
//!
//! A layer that was not reached, or that a target does not have, is missing. Times are in milliseconds,
//! sizes in bytes, rates in MiB (1,048,576 bytes) or operations a second, unless a name says otherwise.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use crate::tcp::TcpInfo;

/// All measured values of one target.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TargetMeasurements {
    /// The target as it was given.
    pub target: String,
    /// Layer 1: name and route.
    pub route: Option<Route>,
    /// Layer 2: transport.
    pub transport: Option<Transport>,
    /// Layer 3: protocol.
    pub protocol: Option<Protocol>,
    /// Layer 4: connections.
    pub connections: Option<Connections>,
    /// Layers 5 and 7: runs with data.
    pub data: Option<Data>,
    /// Layer 6: names.
    pub metadata: Option<Metadata>,
    /// The transactions that a Trunkline server counted, if it was asked.
    pub told: Option<ServerTransactions>,
    /// The end of the examination, if it ended early.
    pub stopped: Option<Stopped>,
    /// The measurements that were left out, with the reasons.
    pub left_out: Vec<String>,
    /// Test files that could not be deleted.
    pub left_behind: Option<String>,
}

/// The steps of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The lookup of a name.
    Name,
    /// A TCP connection.
    Connect,
    /// The first messages of the protocol.
    Negotiate,
    /// The log-on.
    LogOn,
    /// The connection to the share or export.
    Share,
    /// Reading and writing.
    Data,
    /// Work with names.
    Metadata,
}

/// The reason why an examination ended early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// The step at which it ended.
    pub stage: Stage,
    /// The reason in words.
    pub why: String,
    /// Whether no reply came in time.
    pub stalled: bool,
    /// The kind of the reason.
    pub cause: Cause,
}

/// The kind of reason for an early end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The name has no address.
    NoName,
    /// There was no reply from the host or the network.
    Unreachable,
    /// The host reports that nothing listens on the port.
    Closed,
    /// A process listens, but sends nothing.
    Silent,
    /// It is another protocol, or a violation of this one.
    Protocol,
    /// The log-on was refused.
    LogOn,
    /// There was no log-on with a Kerberos ticket, for a reason that the error names.
    Ticket,
    /// The server refused a Kerberos ticket.
    TicketRefused,
    /// There is no such share, or no access to it.
    Share,
    /// Nothing arrives any more, on a path that loses large packets.
    LargePackets,
    /// The disk of the server is full.
    Full,
    /// A user or a signal ended the doctor.
    Interrupted,
    /// Another reason.
    Other,
}

/// Layer 1: name and route.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Route {
    /// The name that was looked up.
    pub name: String,
    /// The time of the lookup.
    pub resolved_in_ms: f64,
    /// The addresses in the order of the resolver.
    pub addresses: Vec<Address>,
    /// The address that is used.
    pub used: IpAddr,
    /// The port.
    pub port: u16,
    /// The local address on this route.
    pub source: Option<IpAddr>,
    /// The local interface on this route.
    pub interface: Option<String>,
    /// The MTU of the interface in bytes.
    pub interface_mtu: Option<u32>,
    /// The MTU of the path in bytes, as the kernel knows it.
    pub path_mtu: Option<u32>,
    /// The speed of the local interface in Mbit/s, as it reports it.
    pub interface_mbit: Option<u64>,
}

/// An address and its properties.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// The networks from which it can be reached.
    pub scope: Scope,
    /// Whether a connection succeeded. `None` if it was not tried.
    pub reachable: Option<bool>,
    /// Whether the host reported that nothing listens on the port.
    pub refused: bool,
}

/// The networks from which an address can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This host only.
    Loopback,
    /// The same link.
    LinkLocal,
    /// Private networks (RFC 1918, 4193, 6598).
    Private,
    /// All networks.
    Public,
}

/// TCP connects, as psping counts them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Connects {
    /// Attempts without the warm-up.
    pub sent: u32,
    /// Attempts without an answer.
    pub lost: u32,
    /// The times of the others, sorted.
    pub times_ms: Vec<f64>,
}

/// Layer 2: transport.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Transport {
    /// Connects on the idle path.
    pub connect: Connects,
    /// Connects while a connection reads at full speed. `None` if this was not tried.
    pub connect_under_load: Option<Connects>,
    /// Connects while a connection writes at full speed.
    pub connect_under_writes: Option<Connects>,
    /// Bytes that this host buffers for the reader of a connection.
    pub receive_window: Option<u64>,
    /// Bytes of sent and unacknowledged data that this host buffers for a connection.
    pub send_window: Option<u64>,
    /// The congestion control of this host.
    pub congestion_control: Option<String>,
    /// The kernel's counters of the first connection at the end.
    pub first_connection: Option<TcpInfo>,
    /// Whether large packets arrive. `None` if this was not tried, as for this host itself.
    pub packets: Option<Packets>,
}

/// The fate of packets of several sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Packets {
    /// Bytes of the largest packet that arrived, with its headers.
    pub arrived: u32,
    /// Bytes of the smallest larger packet that never arrived. `None` if all arrived.
    pub lost: Option<u32>,
    /// How often the kernel sent that packet again.
    pub sent_again: u32,
}

/// Layer 3.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Protocol {
    /// SMB, with the doctor's own client.
    Smb(SmbProperties),
    /// NFSv4, with the doctor's own client.
    Nfs(NfsProperties),
    /// A mount of the kernel.
    Mount(crate::mount::Mount),
}

/// The properties of an SMB connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SmbProperties {
    /// The dialect, for example 3.1.1.
    pub dialect: String,
    /// The algorithm for signatures.
    pub signing: String,
    /// Whether every message is signed.
    pub signs: bool,
    /// The negotiated cipher, if there is one.
    pub cipher: Option<String>,
    /// Whether every message is encrypted.
    pub seals: bool,
    /// Nanoseconds that this host needs to sign or encrypt a MiB, if it does so.
    pub protection_ns_per_mib: Option<f64>,
    /// The largest READ.
    pub max_read: u32,
    /// The largest WRITE.
    pub max_write: u32,
    /// The largest buffer of other requests.
    pub max_transact: u32,
    /// The credits of a connection after some work.
    pub credits: u32,
    /// Credits that were requested.
    pub credits_asked: u32,
    /// The capabilities of the server.
    pub capabilities: Vec<&'static str>,
    /// The GUID of the server.
    pub server_guid: String,
    /// The difference of the server's clock to this host's. Positive if it is ahead.
    pub clock_ahead_ms: i64,
    /// The time from the first message to the share.
    pub log_on_ms: f64,
    /// The times of ECHO requests, which the server answers without any work.
    pub echo_ms: Vec<f64>,
}

/// The properties of an NFSv4.1 or 4.2 session.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NfsProperties {
    /// The highest minor version that both support.
    pub minor_version: u32,
    /// The major and minor owner of the server.
    pub owner: String,
    /// The scope of the server.
    pub scope: String,
    /// The name of the server's implementation.
    pub software: Option<String>,
    /// The slots of the session.
    pub slots: u32,
    /// Slots that were requested.
    pub slots_asked: u32,
    /// The largest READ and WRITE.
    pub max_io: u32,
    /// The lease time.
    pub lease_s: u32,
    /// Whether an open for writing got a delegation. `None` if this was not tried.
    pub delegation: Option<bool>,
    /// The difference of the server's clock to this host's. `None` if no file was written.
    pub clock_ahead_ms: Option<i64>,
    /// The time from the first message to the export.
    pub log_on_ms: f64,
    /// The times of single SEQUENCE operations, which the server answers without any work.
    pub echo_ms: Vec<f64>,
}

/// Layer 4: connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Connections {
    /// Whether the server offers several connections for a session.
    pub offered: bool,
    /// Whether only one was wanted (`--one-connection`), like a client with Multichannel off.
    pub client_off: bool,
    /// Connections that were requested.
    pub asked: u32,
    /// Connections that one session got.
    pub got: u32,
    /// The time to open the further connections. `None` without any.
    pub opened_in_ms: Option<f64>,
    /// The reason why there are no more.
    pub failure: Option<String>,
    /// Whether runs with several connections used a session for each, because a session takes only one.
    pub separate_sessions: bool,
    /// The server's interfaces (SMB).
    pub interfaces: Vec<Interface>,
    /// The traffic of each connection when all were loaded together.
    pub channels: Vec<Channel>,
    /// The client's columns of Get-SmbMultichannelConnection.
    pub client_index: Option<u32>,
}

/// One address that the server offers for further connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interface {
    /// The address.
    pub address: IpAddr,
    /// The server's index of the interface.
    pub index: u32,
    /// The speed of the interface in Mbit/s, as the server reports it.
    pub mbit: u64,
    /// Whether it has receive side scaling.
    pub rss: bool,
    /// Whether it has RDMA.
    pub rdma: bool,
    /// Whether a connection of the session uses it.
    pub selected: bool,
    /// Whether a TCP connection succeeded. `None` if it was not tried.
    pub reachable: Option<bool>,
    /// The reason why it is not used.
    pub reason: Option<String>,
}

/// One connection under load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Channel {
    /// The local end.
    pub local: SocketAddr,
    /// The server's end.
    pub peer: SocketAddr,
    /// Its rate. `None` if it was not measured.
    pub mib_s: Option<f64>,
    /// The part of samples, from 0 to 1, in which a request was under way. `None` if that cannot be seen.
    pub busy: Option<f64>,
    /// The kernel's counters of the connection.
    pub tcp: Option<TcpInfo>,
}

/// Layers 5 and 7: runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Data {
    /// The runs in their order.
    pub runs: Vec<Run>,
    /// The reason why nothing was written, if that was so.
    pub not_written: Option<String>,
    /// The given limit in MiB/s.
    pub bound_mib_s: Option<f64>,
    /// The first run whose rate collapsed repeatedly at regular intervals, if there was one.
    pub sawtooth: Option<Sawtooth>,
    /// The given limit of small reads and work with names, in operations a second.
    pub bound_iops: Option<u32>,
    /// The use of this host's processors by other programs while numbers of connections were compared.
    /// `None` if none were compared.
    pub others: Option<Others>,
}

/// The use of this host's processors by other programs, sampled between the runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Others {
    /// The part of all processors, from 0 to 1.
    pub part: f64,
    /// The number of processors of this host.
    pub processors: u32,
    /// Whether the server is on this host, so that it waits for the same processors.
    pub is_server_here: bool,
}

/// A rate that collapses to less than half repeatedly, at regular intervals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sawtooth {
    /// The kind of the run.
    pub work: RunKind,
    /// The number of connections.
    pub connections: u32,
    /// The number of collapses.
    pub collapses: u32,
    /// The time from one collapse to the next, in seconds.
    pub every_s: f64,
    /// The median of operations a second over the parts of the run.
    pub usual_per_s: f64,
}

/// The operations of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// Writes of large blocks.
    Write,
    /// Reads of large blocks.
    Read,
    /// Random reads of blocks of 4 KiB.
    SmallRead,
    /// Creation, writing and closing of files of 16 KiB.
    SmallFiles,
    /// The same large reads once more at the end.
    ReadAgain,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// The kind of the run.
    pub work: RunKind,
    /// Bytes of one operation.
    pub block: u32,
    /// Operations under way at once.
    pub depth: u32,
    /// Connections.
    pub connections: u32,
    /// The measured time in seconds.
    pub lasted_s: f64,
    /// The counted operations.
    pub operations: u64,
    /// Operations a second.
    pub per_s: f64,
    /// The relative error of `per_s`: operations that are under way at the ends of a run count completely
    /// or not at all. 0 if the kernel counted the bytes.
    pub cut: f64,
    /// The minimum and maximum of the turns. With one turn, the 95 % confidence interval of the mean,
    /// from its parts.
    pub interval: [f64; 2],
    /// Operations a second in each turn, in order. Runs with other numbers of connections have, at the
    /// same index, a value that was measured shortly before or after.
    pub turns: Vec<f64>,
    /// MiB a second.
    pub mib_s: f64,
    /// The median latency.
    pub median_ms: f64,
    /// The 99th percentile of the latency.
    pub p99_ms: f64,
    /// Operations a second in each part of the run.
    pub parts: Vec<f64>,
    /// The processor time of the doctor, in processors: 1 is one whole processor.
    pub own_processors: f64,
    /// The idle part of all processors of this host.
    pub idle: f64,
    /// The part of the time in which the doctor was ready and waited for a processor. `None` if the
    /// kernel does not count it.
    pub waited: Option<f64>,
    /// The kernel's counters of the connections in that time.
    pub tcp: Option<Traffic>,
}

/// The kernel's counters of all connections during a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// Segments that were sent, including those that were sent again.
    pub sent: u64,
    /// Segments that were sent again, without those that the other side had already.
    pub sent_again: u64,
    /// Segments that arrived, including those out of order, as behind a lost one.
    pub came: u64,
    /// Segments that arrived out of order.
    pub out_of_order: u64,
    /// The kernel's round trip, as the mean of all connections. The longest one during the run is taken,
    /// because a flow that has just slowed down finds the path empty.
    pub rtt_ms: f64,
    /// The part of the sending time in which the other side's window was full.
    pub held_by_peer_window: f64,
    /// The part of the sending time in which the send buffer was full.
    pub held_by_send_buffer: f64,
}

/// Layer 6: names.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Metadata {
    /// Names in the directory.
    pub names: u32,
    /// The results for each kind of operation, one after the other and many at once.
    pub operations: Vec<NameWork>,
    /// The time of each listing of the directory.
    pub list_ms: Vec<f64>,
    /// Names a second in a listing.
    pub list_names_per_s: Option<f64>,
    /// The time to open a missing name.
    pub missing_ms: Option<f64>,
}

/// One kind of operation on names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NameWork {
    /// create, open, close, stat, delete. `open` is opening and closing; `close` is the second part of
    /// it.
    pub what: &'static str,
    /// The least round trips of one operation.
    pub trips: u32,
    /// The median time, one after the other.
    pub median_ms: f64,
    /// Operations a second with many under way.
    pub per_s: Option<f64>,
    /// The number of operations under way then.
    pub depth: u32,
    /// Rates in parts of the time.
    pub parts: Vec<f64>,
    /// The idle part of all processors then.
    pub idle: f64,
}

/// The transactions on the share during the examination, as a Trunkline server counted them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ServerTransactions {
    /// Transactions by response type, such as SuccessWithShareIopsThrottling.
    pub by_type: BTreeMap<String, u64>,
    /// The provisioned reads and writes a second, if the share is limited.
    pub provisioned_iops: Option<u64>,
    /// The provisioned bytes a second, if the share is limited.
    pub provisioned_bandwidth_bytes: Option<u64>,
    /// The remaining burst credits.
    pub burst_credits: Option<u64>,
}

impl ServerTransactions {
    /// The throttled transactions, and all.
    #[must_use]
    pub fn throttled(&self) -> (u64, u64) {
        let held = self.by_type.iter().filter(|(kind, _)| kind.ends_with("Throttling"));
        (held.map(|(_, count)| count).sum(), self.by_type.values().sum())
    }
}

/// The median of values in any order.
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

    /// The median.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        median(&self.times_ms)
    }

    /// A histogram of the times with ten steps from the shortest to the longest: the start of each step
    /// and its count.
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
    /// The last run of this kind with this number of connections.
    #[must_use]
    pub fn run(&self, work: RunKind, connections: u32) -> Option<&Run> {
        self.runs.iter().rev().find(|run| run.work == work && run.connections == connections)
    }

    /// The fastest run of this kind with at most `connections`.
    #[must_use]
    pub fn best(&self, work: RunKind, connections: u32) -> Option<&Run> {
        let fits = |run: &&Run| run.work == work && run.connections <= connections;
        self.runs.iter().filter(fits).max_by(|a, b| a.per_s.total_cmp(&b.per_s))
    }

    /// Whether a limit of the doctor slowed down small operations, so that their rates say nothing about
    /// the server.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.bound_mib_s.is_some() || self.bound_iops.is_some()
    }

    /// Whether large runs of this kind were made with another number of connections than `run`. Only then
    /// the gain of more connections is known.
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
