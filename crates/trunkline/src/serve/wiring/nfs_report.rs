//! Reads the NFS servers' tables for the status: endpoints, clients, sessions, connections, and opens.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use admin::Status;
use admin::channels::Traffic;
use admin::nfs::{Client, Delegation, Endpoint, NfsConnection, NfsSession, Reason};
use admin::status::{FileId, Mask, Open, OpenFile};
use nfs::state::stateid::LockingState;
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use wire::Now;

use super::close_ids::CloseId;
use super::engines::EngineList;
use super::exports::Servers;
use super::report::{caching_mask, own, shown, time};
use crate::calendar::rfc3339;
use crate::serve::listen::BoundEndpoint;

/// Adds the state of `servers` to the status. Gives the names of their locks, which the engines list.
pub fn fill(servers: &Servers, engines: &EngineList, now: Now, status: &mut Status) -> LockNames {
    let mut locks = LockNames::new();
    for (endpoint, server) in servers.list() {
        status.nfs.endpoints.push(one_endpoint(endpoint, server));
        let mut clients = server.clients.all();
        clients.sort_by_key(|client| client.id);
        for client in clients {
            let view = View { endpoint, server, now };
            status.nfs.clients.push(view.client(&client));
        }
        for state in server.all_states().into_iter().filter(|state| !state.is_admin_revoked()) {
            if state.opened().is_some() {
                one_open(server, engines, &state, status);
            }
            if let Some(of_state) = state.locks() {
                let name = LockName {
                    in_words: format!("nfs {:016x} {}", state.client, readable(&of_state.owner)),
                    close_id: CloseId::of_state(&state).to_string(),
                    open_id: CloseId::of_state(&of_state.open).to_string(),
                };
                locks.insert((of_state.number, state.node), name);
            }
        }
    }
    locks
}

/// The locks of one owner on one file.
pub struct LockName {
    /// The client and its owner in words.
    pub in_words: String,
    /// The id by which they are released.
    pub close_id: String,
    /// The id by which the open that they were taken through is closed.
    pub open_id: String,
}

/// The locks of NFS clients by their owner and file.
pub type LockNames = HashMap<(share::LockOwner, volume::NodeId), LockName>;

fn one_endpoint(endpoint: &BoundEndpoint, server: &nfs::Server) -> Endpoint {
    Endpoint {
        name: endpoint.owner.to_string(),
        listen: endpoint.addresses.iter().map(ToString::to_string).collect(),
        shares: server.exports().list().iter().map(|export| export.name.clone()).collect(),
        max_connections: server.config().connections_per_client,
    }
}

/// A server with its endpoint and the current time.
struct View<'a> {
    endpoint: &'a BoundEndpoint,
    server: &'a nfs::Server,
    now: Now,
}

impl View<'_> {
    fn client(&self, client: &nfs::state::client::Client) -> Client {
        let ways = client.connections();
        let mut sessions = client.sessions();
        sessions.sort_by_key(|session| session.id);
        let (opens, lock_owners, _) = client.counts();
        let lease_seconds = u64::from(self.server.config().lease_time_s);
        let lease_age_seconds = client.silent_ns(self.now) / 1_000_000_000;
        let exports = self.server.exports();
        let used = client.used_exports();
        let shares: Vec<_> =
            used.iter().filter_map(|id| exports.get(*id).map(|export| export.name.clone())).collect();
        let most = self.server.config().connections_per_client;
        let reason = why(ways.len(), most, shares.len());
        let mut minor_versions: Vec<u32> = sessions.iter().map(|session| session.calling().minor).collect();
        minor_versions.sort_unstable();
        minor_versions.dedup();
        Client {
            client_id: format!("{:016x}", client.id),
            owner: readable(&client.owner),
            endpoint: self.endpoint.owner.to_string(),
            address: ways
                .first()
                .map(|way| way.peer.remote.ip().to_canonical().to_string())
                .unwrap_or_default(),
            principal: client.principal.to_string(),
            minor_versions,
            confirmed: client.is_confirmed(),
            lease_age_seconds,
            lease_seconds,
            courtesy: client.is_confirmed() && lease_age_seconds >= lease_seconds,
            reclaimed: client.has_reclaimed(),
            opens,
            lock_owners,
            delegations: client.delegations().iter().map(|state| self.delegation(state)).collect(),
            shares,
            max_connections: most,
            current_connections: ways.len(),
            crowded_out: client.crowded_out(),
            reason,
            why: reason.to_string(),
            sessions: sessions.iter().map(|session| self.session(session)).collect(),
        }
    }

    fn session(&self, session: &nfs::state::session::Session) -> NfsSession {
        let mut ways = session.connections();
        ways.sort_by_key(|(way, ..)| way.id);
        NfsSession {
            session_id: hex(&session.id),
            minor_version: session.calling().minor,
            slots: session.slots.len(),
            busy_slots: session.busy_slots(),
            back_channel: session.has_back_channel(),
            connections: ways.iter().map(|(way, fore, back)| self.connection(way, *fore, *back)).collect(),
        }
    }

    fn connection(
        &self,
        way: &nfs::state::connection_handle::ConnectionHandle,
        fore: bool,
        back: bool,
    ) -> NfsConnection {
        let seconds_since = |ns| self.now.mono_ns.saturating_sub(ns) / 1_000_000_000;
        NfsConnection {
            remote_address: way.peer.remote.to_string(),
            local_address: way.peer.local.to_string(),
            connected_at: rfc3339(way.since.wall_ns),
            age_seconds: seconds_since(way.since.mono_ns),
            silent_seconds: seconds_since(way.heard_ns()),
            fore,
            back,
            traffic: Traffic {
                requests: way.requests.load(Relaxed),
                bytes_in: way.received.load(Relaxed),
                bytes_out: way.sent.load(Relaxed),
            },
            large_reads: super::channels::large_reads(&way.transfer),
        }
    }

    fn delegation(&self, state: &LockingState) -> Delegation {
        let holding = state.holding();
        let told = state.delegation();
        Delegation {
            state_id: hex(&state.id().other),
            kind: if holding.access.contains(ShareAccess::WRITE) { "write" } else { "read" }.to_owned(),
            share: state.export.name.clone(),
            filename: shown(&state.export.engine.path_of(&holding.open), None),
            recalled: told.is_some_and(nfs::state::delegation::DelegationState::is_recalled),
            revoked: told.is_some_and(nfs::state::delegation::DelegationState::is_revoked),
        }
    }
}

/// The reason why a client has no more connections, by the number that it has, the maximum, and the number of
/// shares that it uses.
fn why(connections: usize, most: usize, shares: usize) -> Reason {
    match connections {
        0 => Reason::Gone,
        _ if connections >= most => Reason::Limit,
        _ if shares > 1 => Reason::SharedMounts,
        1 => Reason::OpensNone,
        _ => Reason::Several,
    }
}

const ACCESS: [(ShareAccess, u32, &str); 2] = [(ShareAccess::READ, 1, "R"), (ShareAccess::WRITE, 2, "W")];
/// The access that an open allows others, in the bits of SMB's share access.
const SHARING: [(ShareDeny, u32, &str); 2] = [(ShareDeny::READ, 1, "R"), (ShareDeny::WRITE, 2, "W")];

fn one_open(server: &nfs::Server, engines: &EngineList, state: &LockingState, status: &mut Status) {
    let holding = state.holding();
    let engine = &state.export.engine;
    let root = engines.iter().find(|(_, known)| Arc::ptr_eq(known, engine)).map(|(path, _)| path.clone());
    let root = root.unwrap_or_default();
    let file = &holding.open;
    let name = shown(&engine.path_of(file), None);
    let id = hex(&state.id().other);
    let access =
        ACCESS.iter().filter(|(access, ..)| holding.access.contains(*access)).map(|(_, bit, _)| bit).sum();
    let sharing = SHARING.iter().filter(|(deny, ..)| !holding.deny.contains(*deny)).map(|(_, bit, _)| bit);
    // NFS opens never deny deletion to others.
    let sharing = sharing.sum::<u32>() | 4;
    let caching = file.caching().map_or(share::Caching::empty(), |grant| grant.state);
    let client = server.clients.get(state.client).map(|client| format!("{:016x}", client.id));
    let entry = Open {
        share_file_id: id.clone(),
        close_id: CloseId::of_state(state).to_string(),
        session_id: String::new(),
        client_id: client.unwrap_or_default(),
        protocol: "nfs".to_owned(),
        server_id: own(),
        uid: file.identity().uid,
        username: file.identity().name.clone(),
        sharemode: Mask::new(sharing, &[(1, "R"), (2, "W"), (4, "D")]),
        access_mask: Mask::new(access, &ACCESS.map(|(_, bit, letter)| (bit, letter))),
        caching: caching_mask(caching),
        oplock: if caching.is_empty() { "none" } else { "delegation" }.to_owned(),
        lease: None,
        persistence: "none".to_owned(),
        detached: file.is_detached(),
        opened_at: time(file.opened_at()),
    };
    let node = file.node_id();
    let of_file =
        status.open_files.entry(root.join(&name).display().to_string()).or_insert_with(|| OpenFile {
            service_path: root.display().to_string(),
            share: state.export.name.clone(),
            filename: name,
            fileid: FileId { devid: node.device, inode: node.inode, extid: 0 },
            ..OpenFile::default()
        });
    of_file.opens.insert(format!("nfs/{id}"), entry);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name from a client: as text if it is printable, else in hex.
fn readable(name: &[u8]) -> String {
    let name = name.strip_suffix(&[0]).unwrap_or(name);
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => hex(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_client_has_no_more_connections() {
        assert_eq!(why(0, 32, 1), Reason::Gone);
        assert_eq!(why(1, 32, 1), Reason::OpensNone);
        assert_eq!(why(1, 32, 2), Reason::SharedMounts);
        assert_eq!(why(4, 32, 1), Reason::Several);
        assert_eq!(why(32, 32, 2), Reason::Limit);
        assert_eq!(why(1, 1, 1), Reason::Limit);
    }

    #[test]
    fn names_of_clients_are_text_where_they_are_that() {
        assert_eq!(readable(b"Linux NFSv4.2 host"), "Linux NFSv4.2 host");
        assert_eq!(readable(b"open id:\0\0"), "6f70656e2069643a00");
    }
}
