//! The answer to the admin page, which stays small with thousands of sessions. Tables are filtered and cut
//! here. Counters come as sums since the start, of which the page takes differences.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::channels::{SessionChannels, Traffic};
use crate::limits::LimitedShare;
use crate::nfs::Client;
use crate::open_files::OpenTables;
use crate::status::Session;
use crate::transactions::{Api, Gauges, Latency, ShareTransactions};
use crate::{Channels, Status, Transactions};

/// The rows of a table unless the request says otherwise.
pub const ROWS: usize = 50;
/// The most rows of a table.
pub const MOST_ROWS: usize = 1000;

/// The server at one moment, for the admin page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// The time at which it was taken, RFC 3339.
    pub timestamp: String,
    /// The same time in nanoseconds of a monotonic clock.
    pub at_ns: u64,
    /// The name that clients see.
    pub server_name: String,
    /// The server's version.
    pub version: String,
    /// The start of the server, RFC 3339. Counters begin there.
    pub started_at: String,
    /// Gauges and limits of shares by the share's name.
    pub shares: BTreeMap<String, ShareNow>,
    /// Counters of each share and protocol since the start.
    pub counted: Vec<Sums>,
    /// Histograms of the operations on the requested share since the start.
    pub latencies: Vec<ApiLatencies>,
    /// The addresses at which SMB is served.
    pub listen: Vec<String>,
    /// The addresses at which NFS is served.
    pub nfs_listen: Vec<String>,
    /// SMB sessions.
    pub sessions: Rows<SessionRow>,
    /// NFS clients.
    pub nfs_clients: Rows<NfsRow>,
    /// The number of open files.
    pub open_files: usize,
    /// The number of opens of these files.
    pub opens: usize,
    /// The number of locked byte ranges.
    pub locks: usize,
    /// The opens and locks, if they are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<OpenTables>,
}

/// The state of a share at this moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareNow {
    /// Its gauges.
    pub gauges: Gauges,
    /// Its provisioned limits; null when it is not limited.
    pub limits: Option<LimitedShare>,
}

/// The counters of a share over one protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// The share's name. It is empty for operations of no share, such as a log-on.
    pub file_share: String,
    /// The protocol, `SMB` or `NFS`.
    pub protocol: String,
    /// Operations that read data.
    pub reads: u64,
    /// Operations that wrote data.
    pub writes: u64,
    /// Operations on metadata.
    pub metadata: u64,
    /// The bytes that were read.
    pub read_bytes: u64,
    /// The bytes that were written.
    pub written_bytes: u64,
    /// Counters by SMB command or NFS operation.
    pub apis: BTreeMap<String, ApiSums>,
}

/// The counters of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiSums {
    /// All transactions.
    pub transactions: u64,
    /// The transactions that did not succeed.
    pub failed: u64,
    /// The transactions that limits have held.
    pub throttled: u64,
    /// The number of latencies that were measured, of transactions that succeeded.
    pub timed: u64,
    /// The sum of these latencies at the server, in nanoseconds.
    pub server_ns: u64,
    /// The sum of the latencies until the reply was sent, in nanoseconds.
    pub e2e_ns: u64,
}

/// The histograms of one operation since the start. The difference of two of them gives percentiles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiLatencies {
    /// The protocol, `SMB` or `NFS`.
    pub protocol: String,
    /// The SMB command or NFS operation.
    pub api_name: String,
    /// Latencies at the server.
    pub server: Vec<LatencyStep>,
    /// Latencies until the reply was sent.
    pub e2e: Vec<LatencyStep>,
}

/// A step of a histogram: the lower bound in nanoseconds, the upper bound (null: none), and the number of
/// latencies in it.
pub type LatencyStep = (u64, Option<u64>, u64);

/// A part of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows<T> {
    /// The number of rows of the whole table.
    pub total: usize,
    /// The number of rows that fit the filter.
    pub found: usize,
    /// The first of these rows.
    pub rows: Vec<T>,
}

/// An SMB session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The session id.
    pub session_id: String,
    /// The user's name.
    pub user: String,
    /// The client's address.
    pub client: String,
    /// The dialect, such as `SMB3_11`.
    pub dialect: String,
    /// The cipher or the signing algorithm that protects it; empty without protection.
    pub protection: String,
    /// The shares that it is connected to.
    pub shares: Vec<String>,
    /// The number of its opens.
    pub opens: usize,
    /// The number of connections that it may have.
    pub max_channels: usize,
    /// The reason why it has no more connections, in words.
    pub why: String,
    /// The connections.
    pub channels: Vec<ChannelRow>,
}

/// A connection of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRow {
    /// The client's address and port.
    pub client: String,
    /// The server's address and port.
    pub server: String,
    /// Seconds since it was accepted.
    pub age_seconds: u64,
    /// Requests and bytes.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// An NFS client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsRow {
    /// The client ID, in hex.
    pub client_id: String,
    /// The address of its first connection.
    pub client: String,
    /// The principal that may speak for it.
    pub principal: String,
    /// The shares that it has come to.
    pub shares: Vec<String>,
    /// The number of opens.
    pub opens: usize,
    /// The number of lock-owners with locks on a file.
    pub lock_owners: usize,
    /// The number of delegations.
    pub delegations: usize,
    /// The number of connections that it may have.
    pub max_connections: usize,
    /// The number of connections that it has.
    pub connections: usize,
    /// Seconds since the last request.
    pub lease_age_seconds: u64,
    /// The reason why it has no more connections, in words.
    pub why: String,
}

/// The rows of a table that are requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableFilter {
    /// The text that a row must hold in a name or an address. Case is not minded. Empty: all rows fit.
    pub find: String,
    /// The most rows.
    pub most: usize,
    /// The share whose latencies are requested; none: all shares together.
    pub share: Option<String>,
}

impl Overview {
    /// Makes the overview of the server's own reports.
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
            files: None,
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
        // One row, however the client was authenticated.
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

/// The histograms of all operations on a share, or on all shares.
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

/// The rows that fit. `row` is called for no more than `most` of them.
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
    /// Whether one of the names holds the text of the filter.
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

/// An address and a port as one text.
fn shown_address(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn channel_rows(session: &SessionChannels) -> Vec<ChannelRow> {
    let one = |row: &crate::channels::Row| {
        let used = row.channel.as_ref()?;
        Some(ChannelRow {
            client: shown_address(row.client_ip.as_deref().unwrap_or("?"), used.client_port),
            server: shown_address(&row.server_ip, used.server_port),
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
            (shown_address("127.0.0.1", 445), shown_address("fd00::1", 445)),
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
        let told = sums(&ShareTransactions {
            apis: vec![api("NTLMv2"), api("Anonymous")],
            ..ShareTransactions::default()
        });
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
