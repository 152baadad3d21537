//! The load of each connected client on each share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use admin::transactions::IoCounters;
use admin::workload::{ClientWork, ThrottledCounts, WorkloadContext, advice};
use share::counts::{AccessPattern, ConnectionActivity};
use smb::state::Object;
use smb_wire::Guid;

use super::exports::Servers;
use super::transactions::work;

/// Whether metadata is cached, by share.
type Caching = BTreeMap<String, bool>;

/// The load of all clients.
pub fn clients(server: &smb::Server, nfs: &Servers, caching: &Caching) -> Vec<ClientWork> {
    let mut all = of_smb(server, caching);
    for (_, server) in nfs.list() {
        all.extend(of_nfs(server, caching));
    }
    all.sort_by(|one, other| (&one.client, &one.file_share).cmp(&(&other.client, &other.file_share)));
    all
}

/// A client with its counters.
struct ClientActivity {
    client: String,
    user: String,
    protocol: &'static str,
    visits: Vec<Arc<ConnectionActivity>>,
    /// Opens by share.
    opens: BTreeMap<String, u64>,
}

impl ClientActivity {
    /// The client's load on each share.
    fn work(self, caching: &Caching) -> Vec<ClientWork> {
        let mut depth = AccessPattern::default();
        let mut shares: BTreeMap<String, IoCounters> = BTreeMap::new();
        for visits in &self.visits {
            let (of_it, on_shares) = visits.read();
            depth.add(&of_it);
            for (share, habit) in on_shares {
                shares.entry(share).or_default().add(&work(&habit));
            }
        }
        let connections = self.visits.len() as u64;
        let at_once_thousandths = (depth.at_once * 1000).checked_div(depth.turns).unwrap_or(0);
        let one = |(file_share, work): (String, IoCounters)| ClientWork {
            client: self.client.clone(),
            user: self.user.clone(),
            protocol: self.protocol.to_owned(),
            connections,
            most_at_once: depth.most_at_once,
            at_once_thousandths,
            open_files: self.opens.get(&file_share).copied().unwrap_or(0),
            advice: advice(
                &work,
                &WorkloadContext {
                    protocol: self.protocol,
                    caching: caching.get(&file_share).copied(),
                    held: ThrottledCounts::default(),
                    at_once: Some((at_once_thousandths, connections)),
                },
            ),
            file_share,
            work,
        };
        shares.into_iter().map(one).collect()
    }
}

fn of_smb(server: &smb::Server, caching: &Caching) -> Vec<ClientWork> {
    #[derive(Default)]
    struct Machine {
        key: Option<share::ClientKey>,
        users: BTreeSet<String>,
        connections: BTreeMap<u64, (String, Arc<ConnectionActivity>)>,
    }
    let mut machines: BTreeMap<Guid, Machine> = BTreeMap::new();
    for session in server.sessions() {
        let machine = machines.entry(session.client_guid).or_default();
        machine.key = Some(session.client);
        machine.users.insert(session.user_name().to_owned());
        for channel in session.channels() {
            let address = channel.peer.remote.ip().to_canonical().to_string();
            machine.connections.insert(channel.id, (address, Arc::clone(&channel.visits)));
        }
    }
    let mut opens: BTreeMap<(u128, String), u64> = BTreeMap::new();
    for open in server.opens.all() {
        if matches!(open.object(), Some(Object::File { .. })) {
            *opens.entry((open.client.0, open.tree.share_name().to_owned())).or_default() += 1;
        }
    }
    let known = machines.into_values().map(|Machine { key, users, connections }| ClientActivity {
        client: connections.values().next().map(|(address, _)| address.clone()).unwrap_or_default(),
        user: users.into_iter().filter(|user| !user.is_empty()).collect::<Vec<_>>().join(", "),
        protocol: "SMB",
        visits: connections.into_values().map(|(_, visits)| visits).collect(),
        opens: opens
            .iter()
            .filter(|((client, _), _)| key.is_some_and(|key| key.0 == *client))
            .map(|((_, share), count)| (share.clone(), *count))
            .collect(),
    });
    known.flat_map(|known| known.work(caching)).collect()
}

fn of_nfs(server: &nfs::Server, caching: &Caching) -> Vec<ClientWork> {
    let mut opens: BTreeMap<u64, BTreeMap<String, u64>> = BTreeMap::new();
    for state in server.all_states().iter().filter(|state| state.opened().is_some()) {
        let shares = opens.entry(state.client).or_default();
        *shares.entry(state.export.name.clone()).or_default() += 1;
    }
    let clients = server.clients.all();
    let known = clients.iter().map(|client| {
        let ways = client.connections();
        ClientActivity {
            client: ways
                .first()
                .map(|way| way.peer.remote.ip().to_canonical().to_string())
                .unwrap_or_default(),
            user: client.principal.to_string(),
            protocol: "NFS",
            visits: ways.iter().map(|way| Arc::clone(&way.visits)).collect(),
            opens: opens.remove(&client.id).unwrap_or_default(),
        }
    });
    known.collect::<Vec<_>>().into_iter().flat_map(|known| known.work(caching)).collect()
}
