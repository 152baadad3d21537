//! The part of `trunkline status` about NFS clients.

use std::fmt::Write;

use admin::nfs::{Client, Nfs};

use super::channels::age;
use super::status::table;
use super::table::{plain, shown};

/// The NFS tables as text for people. Without NFS endpoints it appends nothing.
pub fn page(nfs: &Nfs, out: &mut String) {
    if nfs.endpoints.is_empty() {
        return;
    }
    let rows = nfs.endpoints.iter().map(|endpoint| {
        [
            endpoint.name.clone(),
            endpoint.listen.join(", "),
            shown(&endpoint.shares.join(", ")),
            endpoint.max_connections.to_string(),
        ]
    });
    table(
        "NFS endpoints",
        ["ENDPOINT", "LISTENS ON", "SHARES", "CONNECTIONS PER CLIENT"],
        &rows.collect::<Vec<_>>(),
        out,
    );
    clients(nfs, out);
    connections(nfs, out);
    delegations(nfs, out);
}

fn clients(nfs: &Nfs, out: &mut String) {
    let rows = nfs.clients.iter().map(|client| {
        [
            client.client_id.clone(),
            shown(&client.address),
            client.endpoint.clone(),
            versions(client),
            format!("{} of {}", age(client.lease_age_seconds), age(client.lease_seconds)),
            state(client).to_owned(),
            client.opens.to_string(),
            client.lock_owners.to_string(),
            client.delegations.len().to_string(),
            shown(&client.shares.join(", ")),
            client.principal.clone(),
            client.owner.clone(),
        ]
    });
    let titles = [
        "CLIENT ID",
        "ADDRESS",
        "ENDPOINT",
        "VERSION",
        "SILENT FOR",
        "STATE",
        "OPENS",
        "LOCK-OWNERS",
        "DELEGATIONS",
        "SHARES",
        "PRINCIPAL",
        "OWNER",
    ];
    table("NFS clients", titles, &rows.collect::<Vec<_>>(), out);
}

fn versions(client: &Client) -> String {
    let all: Vec<_> = client.minor_versions.iter().map(|minor| format!("4.{minor}")).collect();
    shown(&all.join(", "))
}

fn state(client: &Client) -> &'static str {
    match client {
        Client { confirmed: false, .. } => "unconfirmed",
        Client { courtesy: true, .. } => "lease expired, state kept until another client needs it",
        Client { reclaimed: false, .. } => "reclaims",
        _ => "active",
    }
}

fn connections(nfs: &Nfs, out: &mut String) {
    for client in &nfs.clients {
        for session in &client.sessions {
            let _ = writeln!(
                out,
                "\nNFS session {} of {}: {} of {} slots busy, {}",
                session.session_id,
                client.client_id,
                session.busy_slots,
                session.slots,
                if session.back_channel {
                    "the client accepts callbacks"
                } else {
                    "the client accepts no callbacks"
                },
            );
            let of = format!("{} of {}", client.current_connections, client.max_connections);
            let closed = match client.crowded_out {
                0 => String::new(),
                count => format!("; {count} closed to make room for others"),
            };
            let _ = writeln!(out, "Connections {of}{closed}. No further one: {}", plain(&client.why));
            let rows = session.connections.iter().map(|connection| {
                [
                    connection.remote_address.clone(),
                    connection.local_address.clone(),
                    match (connection.fore, connection.back) {
                        (true, true) => "requests, callbacks",
                        (false, true) => "callbacks",
                        _ => "requests",
                    }
                    .to_owned(),
                    connection.traffic.requests.to_string(),
                    connection.traffic.bytes_in.to_string(),
                    connection.traffic.bytes_out.to_string(),
                    connection.large_reads.name().to_owned(),
                    age(connection.silent_seconds),
                    age(connection.age_seconds),
                ]
            });
            let titles = [
                "CLIENT",
                "SERVER",
                "CARRIES",
                "REQUESTS",
                "BYTES IN",
                "BYTES OUT",
                "LARGE READS",
                "SILENT FOR",
                "AGE",
            ];
            super::table::rows(titles, &rows.collect::<Vec<_>>(), out);
            let reads = session.connections.iter();
            super::channels::reasons(reads.map(|one| (one.remote_address.clone(), &one.large_reads)), out);
        }
    }
}

fn delegations(nfs: &Nfs, out: &mut String) {
    let all = nfs.clients.iter().flat_map(|client| client.delegations.iter().map(move |one| (client, one)));
    let rows = all.map(|(client, one)| {
        let state = match one {
            _ if one.revoked => "revoked",
            _ if one.recalled => "recalled",
            _ => "held",
        };
        [
            one.kind.clone(),
            state.to_owned(),
            client.client_id.clone(),
            one.share.clone(),
            one.filename.clone(),
        ]
    });
    table("NFS delegations", ["KIND", "STATE", "CLIENT ID", "SHARE", "FILE"], &rows.collect::<Vec<_>>(), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::channels::Traffic;
    use admin::nfs::{Delegation, Endpoint, NfsConnection, NfsSession, Reason};

    fn client() -> Client {
        let way = |port: u16, back| NfsConnection {
            remote_address: format!("10.0.0.5:{port}"),
            local_address: "10.0.0.1:2049".to_owned(),
            fore: true,
            back,
            traffic: Traffic { requests: 17, bytes_in: 4096, bytes_out: 1_234_567 },
            age_seconds: 61,
            ..NfsConnection::default()
        };
        let session = NfsSession {
            session_id: "0a".to_owned(),
            slots: 64,
            busy_slots: 3,
            back_channel: true,
            connections: vec![way(700, true), way(701, false)],
            ..NfsSession::default()
        };
        let held = Delegation {
            kind: "write".to_owned(),
            share: "docs".to_owned(),
            filename: "a/b".to_owned(),
            recalled: true,
            ..Delegation::default()
        };
        Client {
            client_id: "01".to_owned(),
            owner: "Linux\u{1b}[2J".to_owned(),
            endpoint: "server".to_owned(),
            address: "10.0.0.5".to_owned(),
            principal: "sys uid 0 of host".to_owned(),
            minor_versions: vec![1, 2],
            confirmed: true,
            reclaimed: true,
            lease_age_seconds: 3,
            lease_seconds: 90,
            opens: 2,
            lock_owners: 1,
            delegations: vec![held],
            shares: vec!["docs".to_owned(), "music".to_owned()],
            max_connections: 32,
            current_connections: 2,
            crowded_out: 5,
            reason: Reason::SharedMounts,
            why: Reason::SharedMounts.to_string(),
            sessions: vec![session],
            ..Client::default()
        }
    }

    #[test]
    fn a_page_shows_each_connection_and_why_there_are_no_more() {
        let endpoint = Endpoint {
            name: "server".to_owned(),
            listen: vec!["10.0.0.1:2049".to_owned()],
            shares: vec!["docs".to_owned()],
            max_connections: 32,
        };
        let mut out = String::new();
        page(&Nfs { endpoints: vec![endpoint], clients: vec![client()] }, &mut out);
        let wanted = "
NFS endpoints: 1
ENDPOINT  LISTENS ON     SHARES  CONNECTIONS PER CLIENT
server    10.0.0.1:2049  docs    32

NFS clients: 1
CLIENT ID  ADDRESS   ENDPOINT  VERSION   SILENT FOR   STATE   OPENS  LOCK-OWNERS  DELEGATIONS  SHARES       \
PRINCIPAL          OWNER
01         10.0.0.5  server    4.1, 4.2  3s of 1m30s  active  2      1            1            docs, music  \
sys uid 0 of host  Linux\u{fffd}[2J

NFS session 0a of 01: 3 of 64 slots busy, the client accepts callbacks
Connections 2 of 32; 5 closed to make room for others. No further one: several shares are mounted from one \
endpoint, and the `nconnect` of the first mount counts for all; an `nfs_port` for a share or account of its \
own gives it its own
CLIENT        SERVER         CARRIES              REQUESTS  BYTES IN  BYTES OUT  LARGE READS  SILENT FOR  AGE
10.0.0.5:700  10.0.0.1:2049  requests, callbacks  17        4096      1234567    copied       0s          \
1m01s
10.0.0.5:701  10.0.0.1:2049  requests             17        4096      1234567    copied       0s          \
1m01s

NFS delegations: 1
KIND   STATE     CLIENT ID  SHARE  FILE
write  recalled  01         docs   a/b
";
        assert_eq!(out, wanted);
    }

    #[test]
    fn where_nobody_serves_nfs_nothing_is_said_of_it() {
        let mut out = String::new();
        page(&Nfs::default(), &mut out);
        assert_eq!(out, "");
    }
}
