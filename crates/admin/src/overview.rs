//! What the admin page shows, in one answer that stays small with thousands of sessions: tables are filtered and cut here, and
//! of what was counted only sums are told, from which whoever asks again takes differences.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::channels::{SessionChannels, Traffic};
use crate::limits::LimitedShare;
use crate::nfs::Client;
use crate::status::Session;
use crate::transactions::{Api, Gauges, Latency, ShareTransactions};
use crate::{Channels, Status, Transactions};

/// Rows of a table unless the question says otherwise, and at most.
pub const ROWS: usize = 50;
/// At most so many.
pub const MOST_ROWS: usize = 1000;

/// The server at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// When it was taken, RFC 3339.
    pub timestamp: String,
    /// The same in nanoseconds of a clock that only goes forward.
    pub at_ns: u64,
    /// Name that clients see.
    pub server_name: String,
    /// Version of the server.
    pub version: String,
    /// Start, RFC 3339: counts are from there.
    pub started_at: String,
    /// Shares by name.
    pub shares: BTreeMap<String, ShareNow>,
    /// What was counted since the start.
    pub counted: Vec<Sums>,
    /// The latencies of the operations on the share that was asked for, since the start.
    pub latencies: Vec<ApiLatencies>,
    /// Addresses at which SMB is served.
    pub listen: Vec<String>,
    /// Addresses at which NFS is served.
    pub nfs_listen: Vec<String>,
    /// SMB sessions.
    pub sessions: Rows<SessionRow>,
    /// NFS clients.
    pub nfs_clients: Rows<NfsRow>,
    /// Files that are open.
    pub open_files: usize,
    /// Opens of them.
    pub opens: usize,
    /// Byte ranges that are locked.
    pub locks: usize,
}

/// What is so now of a share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareNow {
    /// What is used of it.
    pub gauges: Gauges,
    /// What it may do; null: it is not limited.
    pub limits: Option<LimitedShare>,
}

/// What was counted on a share over one protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// The share's name; empty for what is of no share, such as log-on.
    pub file_share: String,
    /// `SMB` or `NFS`.
    pub protocol: String,
    /// Operations that read, wrote, worked on metadata.
    pub reads: u64,
    /// See `reads`.
    pub writes: u64,
    /// See `reads`.
    pub metadata: u64,
    /// Bytes of data that were read.
    pub read_bytes: u64,
    /// Bytes of data that were written.
    pub written_bytes: u64,
    /// By SMB command or NFS operation.
    pub apis: BTreeMap<String, ApiSums>,
}

/// What was counted of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiSums {
    /// All of them.
    pub transactions: u64,
    /// Those that did not succeed.
    pub failed: u64,
    /// Those that limits have held.
    pub throttled: u64,
    /// How many times were measured, of those that succeeded.
    pub timed: u64,
    /// All these times together at the server, in nanoseconds.
    pub server_ns: u64,
    /// The same until the answer was sent.
    pub e2e_ns: u64,
}

/// How often one operation took how long since the start. Differences of two of these give percentiles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiLatencies {
    /// `SMB` or `NFS`.
    pub protocol: String,
    /// The SMB command or NFS operation.
    pub api_name: String,
    /// Times at the server.
    pub server: Vec<LatencyStep>,
    /// Times until the answer was sent.
    pub e2e: Vec<LatencyStep>,
}

/// A step of a histogram: its first nanosecond, the first one behind it (null: no bound), and how often a time
/// fell into it.
pub type LatencyStep = (u64, Option<u64>, u64);

/// A part of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows<T> {
    /// Rows of the whole table.
    pub total: usize,
    /// Those that fit what was looked for.
    pub found: usize,
    /// The first of these.
    pub rows: Vec<T>,
}

/// An SMB session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Session id.
    pub session_id: String,
    /// The user's name.
    pub user: String,
    /// The client's address.
    pub client: String,
    /// Dialect, such as `SMB3_11`.
    pub dialect: String,
    /// What protects it: a cipher, a signature's algorithm, or nothing.
    pub protection: String,
    /// Shares that it is connected to.
    pub shares: Vec<String>,
    /// What it has open.
    pub opens: usize,
    /// Connections that it may have.
    pub max_channels: usize,
    /// Why it has no more than it has.
    pub why: String,
    /// Its connections.
    pub channels: Vec<ChannelRow>,
}

/// A connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRow {
    /// The client's address, with its port.
    pub client: String,
    /// Our address, with our port.
    pub server: String,
    /// Seconds since it was accepted.
    pub age_seconds: u64,
    /// What came and went.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// An NFS client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsRow {
    /// Its client ID, in hex.
    pub client_id: String,
    /// The address of its first connection.
    pub client: String,
    /// Who speaks of it.
    pub principal: String,
    /// Shares that it has come to.
    pub shares: Vec<String>,
    /// Opens.
    pub opens: usize,
    /// Lock-owners with locks on a file.
    pub lock_owners: usize,
    /// What it may do by itself.
    pub delegations: usize,
    /// Connections that it may have.
    pub max_connections: usize,
    /// Connections that it has.
    pub connections: usize,
    /// Seconds since it was heard last.
    pub lease_age_seconds: u64,
    /// Why it has no more connections.
    pub why: String,
}

/// What of the tables is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableFilter {
    /// Rows that hold this in some name or address, case not minded; empty: all.
    pub find: String,
    /// So many of them.
    pub most: usize,
    /// The share whose latencies are asked for; none: all shares together.
    pub share: Option<String>,
}

impl Overview {
    /// Puts it together from what the server says of itself.
    #[must_use]
    pub fn new(
        status: &Status,
        channels: &Channels,
        counted: &Transactions,
        question: &TableFilter,
    ) -> Overview {
        let share = |name: &String| {
            let gauges = counted.gauges.get(name).cloned().unwrap_or_default();
            (name.clone(), ShareNow { gauges, limits: status.limits.get(name).cloned() })
        };
        Overview {
            timestamp: counted.timestamp.clone(),
            at_ns: counted.at_ns,
            server_name: counted.server_name.clone(),
            version: counted.version.clone(),
            started_at: counted.since.clone(),
            shares: counted.shares.iter().map(share).collect(),
            counted: counted.counted.iter().map(sums).collect(),
            latencies: latencies(counted, question.share.as_deref()),
            listen: status.server.listen.clone(),
            nfs_listen: status.nfs.endpoints.iter().flat_map(|endpoint| endpoint.listen.clone()).collect(),
            sessions: sessions(status, channels, question),
            nfs_clients: nfs_clients(status, question),
            open_files: status.open_files.len(),
            opens: status.open_files.values().map(|file| file.opens.len()).sum(),
            locks: status.byte_range_locks.values().map(|file| file.locks.len()).sum(),
        }
    }
}

fn sums(counted: &ShareTransactions) -> Sums {
    let ShareTransactions { file_share, protocol, apis, work } = counted;
    let mut sums = Sums {
        file_share: file_share.clone(),
        protocol: protocol.clone(),
        reads: work.reads,
        writes: work.writes,
        metadata: work.metadata,
        read_bytes: work.read_bytes,
        written_bytes: work.written_bytes,
        apis: BTreeMap::new(),
    };
    for api in apis {
        // One row for all ways to prove who asks.
        let sum = sums.apis.entry(api.api_name.clone()).or_default();
        let of = |fits: &dyn Fn(&str) -> bool| {
            api.transactions.iter().filter(|(kind, _)| fits(kind)).map(|(_, count)| count).sum::<u64>()
        };
        sum.transactions += Api::all(api);
        sum.failed += of(&|kind| !kind.starts_with("Success"));
        sum.throttled += of(&|kind| kind.ends_with("Throttling"));
        sum.timed += api.success_server_latency.count;
        sum.server_ns += api.success_server_latency.sum_ns;
        sum.e2e_ns += api.success_e2e_latency.sum_ns;
    }
    sums
}

/// The latencies of all operations on a share, or on all.
fn latencies(counted: &Transactions, share: Option<&str>) -> Vec<ApiLatencies> {
    let mut all: BTreeMap<(&str, &str), (Latency, Latency)> = BTreeMap::new();
    let is_asked = |one: &&ShareTransactions| share.is_none_or(|share| one.file_share == share);
    for one in counted.counted.iter().filter(is_asked) {
        for api in &one.apis {
            let (server, e2e) = all.entry((&one.protocol, &api.api_name)).or_default();
            server.add(&api.success_server_latency);
            e2e.add(&api.success_e2e_latency);
        }
    }
    let steps = |latency: Latency| {
        latency.steps.iter().map(|step| (step.from_ns, step.below_ns, step.count)).collect()
    };
    let row = |((protocol, api_name), (server, e2e)): ((&str, &str), (Latency, Latency))| ApiLatencies {
        protocol: protocol.to_owned(),
        api_name: api_name.to_owned(),
        server: steps(server),
        e2e: steps(e2e),
    };
    all.into_iter().map(row).collect()
}

/// The rows that fit, of which `row` makes no more than are asked for.
pub(crate) fn rows<I, T>(
    all: impl ExactSizeIterator<Item = I>,
    most: usize,
    fits: impl Fn(&I) -> bool,
    row: impl Fn(I) -> T,
) -> Rows<T> {
    let mut rows = Rows { total: all.len(), found: 0, rows: Vec::new() };
    for item in all.filter(fits) {
        rows.found += 1;
        if rows.rows.len() < most.min(MOST_ROWS) {
            rows.rows.push(row(item));
        }
    }
    rows
}

impl TableFilter {
    /// Whether one of these holds what is looked for.
    pub(crate) fn is_in<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> bool {
        let wanted = self.find.to_lowercase();
        wanted.is_empty() || names.into_iter().any(|name| name.to_lowercase().contains(&wanted))
    }
}

fn sessions(status: &Status, channels: &Channels, question: &TableFilter) -> Rows<SessionRow> {
    let mut shares: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for tree in status.tcons.values() {
        shares.entry(&tree.session_id).or_default().insert(&tree.service);
    }
    let mut opens: BTreeMap<&str, usize> = BTreeMap::new();
    for open in status.open_files.values().flat_map(|file| file.opens.values()) {
        *opens.entry(&open.session_id).or_default() += 1;
    }
    let known: BTreeMap<&str, &SessionChannels> =
        channels.sessions.iter().map(|session| (session.session_id.as_str(), session)).collect();
    let row = |(id, session): (&String, &Session)| {
        let of_it = known.get(id.as_str());
        let protection = [&session.encryption.cipher, &session.signing.cipher];
        SessionRow {
            session_id: id.clone(),
            user: session.username.clone(),
            client: session.remote_machine.clone(),
            dialect: session.session_dialect.clone(),
            protection: protection.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default(),
            shares: shares.get(id.as_str()).into_iter().flatten().map(|name| (*name).to_owned()).collect(),
            opens: opens.get(id.as_str()).copied().unwrap_or_default(),
            max_channels: of_it.map_or(1, |session| session.max_channels),
            why: of_it.map_or_else(String::new, |session| session.why.clone()),
            channels: of_it.map_or_else(Vec::new, |session| channel_rows(session)),
        }
    };
    let fits = |(id, session): &(&String, &Session)| {
        let own = [id.as_str(), &session.username, &session.remote_machine, &session.hostname];
        question.is_in(own.into_iter().chain(shares.get(id.as_str()).into_iter().flatten().copied()))
    };
    rows(status.sessions.iter(), question.most, fits, row)
}

/// An address with its port, as they are written together.
fn place(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn channel_rows(session: &SessionChannels) -> Vec<ChannelRow> {
    let one = |row: &crate::channels::Row| {
        let used = row.channel.as_ref()?;
        Some(ChannelRow {
            client: place(row.client_ip.as_deref().unwrap_or("?"), used.client_port),
            server: place(&row.server_ip, used.server_port),
            age_seconds: used.age_seconds,
            traffic: used.traffic,
        })
    };
    session.connections.iter().filter_map(one).collect()
}

fn nfs_clients(status: &Status, question: &TableFilter) -> Rows<NfsRow> {
    let row = |client: &Client| NfsRow {
        client_id: client.client_id.clone(),
        client: client.address.clone(),
        principal: client.principal.clone(),
        shares: client.shares.clone(),
        opens: client.opens,
        lock_owners: client.lock_owners,
        delegations: client.delegations.len(),
        max_connections: client.max_connections,
        connections: client.current_connections,
        lease_age_seconds: client.lease_age_seconds,
        why: client.why.clone(),
    };
    let fits = |client: &&Client| {
        let own = [client.client_id.as_str(), &client.owner, &client.address, &client.principal];
        question.is_in(own.into_iter().chain(client.shares.iter().map(String::as_str)))
    };
    rows(status.nfs.clients.iter(), question.most, fits, row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::TreeConnect;

    fn question(find: &str, most: usize) -> TableFilter {
        TableFilter { find: find.to_owned(), most, share: None }
    }

    #[test]
    fn of_many_sessions_those_are_told_that_are_looked_for() {
        let mut status = Status::default();
        let mut channels = Channels::default();
        for number in 0..2000 {
            let id = format!("{number:04}");
            let session = Session { username: format!("user{}", number % 10), ..Session::default() };
            status.sessions.insert(id.clone(), session);
            channels.sessions.push(SessionChannels { session_id: id, max_channels: 4, ..Default::default() });
        }
        let tree = TreeConnect { session_id: "1234".into(), service: "Docs".into(), ..Default::default() };
        status.tcons.insert("1".to_owned(), tree);
        let of = |question: &TableFilter| {
            Overview::new(&status, &channels, &Transactions::default(), question).sessions
        };
        let all = of(&question("", 50));
        assert_eq!((all.total, all.found, all.rows.len(), all.rows[0].max_channels), (2000, 2000, 50, 4));
        let some = of(&question("USER7", 5));
        assert_eq!((some.found, some.rows.len(), some.rows[0].user.as_str()), (200, 5, "user7"));
        let one = of(&question("docs", 50));
        assert_eq!(
            (one.found, &one.rows[0].session_id, &one.rows[0].shares[..]),
            (1, &"1234".to_owned(), &["Docs".to_owned()][..])
        );
        assert_eq!(of(&question("", usize::MAX)).rows.len(), MOST_ROWS);
    }

    #[test]
    fn addresses_are_written_with_their_ports() {
        assert_eq!(
            (place("127.0.0.1", 445), place("fd00::1", 445)),
            ("127.0.0.1:445".into(), "[fd00::1]:445".into())
        );
    }

    #[test]
    fn an_operation_is_one_row_whoever_asked() {
        let api = |who: &str| {
            let counts = [("Success", 5), ("SuccessWithShareIopsThrottling", 3), ("ClientOtherError", 2)];
            Api {
                api_name: "Read".to_owned(),
                authentication: who.to_owned(),
                transactions: counts.map(|(kind, count)| (kind.to_owned(), count)).into(),
                success_server_latency: Latency { count: 8, sum_ns: 800, steps: Vec::new() },
                ..Api::default()
            }
        };
        let told = sums(&ShareTransactions { apis: vec![api("NTLMv2"), api("Anonymous")], ..ShareTransactions::default() });
        let wanted =
            ApiSums { transactions: 20, failed: 4, throttled: 6, timed: 16, server_ns: 1600, e2e_ns: 0 };
        assert_eq!(told.apis, [("Read".to_owned(), wanted)].into());
    }

    #[test]
    fn latencies_are_those_of_the_share_that_is_asked_for() {
        use crate::transactions::Step;
        let counted = |share: &str, count| {
            let steps = vec![Step { from_ns: 1024, below_ns: Some(1152), count }];
            let took = Latency { count, sum_ns: count * 1100, steps };
            let api = |authentication: &str| Api {
                api_name: "Read".to_owned(),
                authentication: authentication.to_owned(),
                success_server_latency: took.clone(),
                ..Api::default()
            };
            let apis = vec![api("NTLMv2"), api("Key")];
            ShareTransactions { file_share: share.to_owned(), apis, ..ShareTransactions::default() }
        };
        let all = Transactions { counted: vec![counted("a", 3), counted("b", 4)], ..Transactions::default() };
        for (share, count) in [(None, 14), (Some("a"), 6), (Some("none"), 0)] {
            let told = latencies(&all, share);
            let sum: u64 = told.iter().flat_map(|one| &one.server).map(|(_, _, count)| count).sum();
            assert_eq!(sum, count, "{share:?}");
        }
        assert_eq!(latencies(&all, Some("a"))[0].server, [(1024, Some(1152), 6)]);
    }
}
