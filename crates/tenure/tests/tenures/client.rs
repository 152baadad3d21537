//! Clients of a virtual server: they read, write and lock over a connection, and try again when nothing
//! comes.

use crate::checks::Breach;
use crate::clock::{MILLI, SECOND};
use crate::process::ProcessEvent;
use crate::storage::ClientNumber;
use crate::world::{LOCKS, ProcessId, World, WorldEvent};

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct ClientRequest {
    pub server: u32,
    pub client: ClientNumber,
    /// Each attempt of a client has a higher number. A server forgets the older ones, which came over a
    /// connection that is closed.
    pub attempt: u64,
    pub kind: RequestKind,
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    Read,
    Write,
    Lock(usize),
    Unlock(usize),
}

/// A reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientReply {
    Version(u64),
    Granted(usize),
    Denied,
    Unlocked,
}

/// Something that happens to a client.
#[derive(Debug, Clone, Copy)]
pub enum ClientEvent {
    /// It makes its next request.
    Think,
    /// No reply has come for this attempt, or its connection was reset.
    TryAgain {
        attempt: u64,
    },
    Reply {
        attempt: u64,
        reply: ClientReply,
    },
}

/// A client.
#[derive(Debug, Clone, Default)]
pub struct SimulatedClient {
    attempt: u64,
    /// The present request. None while it thinks.
    kind: Option<RequestKind>,
    /// The newest version that anybody was told before the request.
    told_before: u64,
    connection: Option<ProcessId>,
}

impl World {
    pub fn client_event(&mut self, server: u32, client: u8, event: ClientEvent) {
        let it = &self.servers[server as usize].clients[usize::from(client)];
        match event {
            ClientEvent::Think => {
                self.begin(server, client);
                self.send_request(server, client);
            }
            ClientEvent::TryAgain { attempt } if it.attempt == attempt && it.kind.is_some() => {
                let address = self.servers[server as usize].address;
                self.servers[server as usize].clients[usize::from(client)].connection = address;
                self.send_request(server, client);
            }
            ClientEvent::Reply { attempt, reply } if it.attempt == attempt => {
                self.replied(server, client, reply);
            }
            ClientEvent::TryAgain { .. } | ClientEvent::Reply { .. } => {}
        }
    }

    fn begin(&mut self, server: u32, client: u8) {
        let (roll, lock) = (self.chance.below(20), self.chance.below(LOCKS));
        let it = &mut self.servers[server as usize];
        let kind = match roll {
            0..8 => RequestKind::Read,
            8..14 => RequestKind::Write,
            _ if it.holders[lock] == Some(client) => {
                it.holders[lock] = None;
                RequestKind::Unlock(lock)
            }
            _ => RequestKind::Lock(lock),
        };
        let told = it.told_version;
        let it = &mut it.clients[usize::from(client)];
        it.kind = Some(kind);
        it.told_before = told;
    }

    fn send_request(&mut self, server: u32, client: u8) {
        let (limit, delay) = (self.habits.client_limit, self.jitter());
        let reset = self.chance.between(10 * MILLI, SECOND);
        let address = self.servers[server as usize].address;
        let it = &mut self.servers[server as usize].clients[usize::from(client)];
        let Some(kind) = it.kind else { return };
        it.attempt += 1;
        it.connection = it.connection.or(address);
        let (attempt, connection) = (it.attempt, it.connection);
        let request = ClientRequest { server, client, attempt, kind };
        self.checks.line(self.now, || format!("server {server}: {request:?} to {connection:?}"));
        let mut patience = limit;
        match connection {
            Some(to) if self.process(to).is_some() => {
                self.push(self.now + delay, WorldEvent::process(to, ProcessEvent::Request(request)));
            }
            // Nobody listens there. If the host is up it says so.
            Some(to) if self.node_of(to).is_up => patience = reset,
            _ => patience = limit.min(SECOND),
        }
        let event = ClientEvent::TryAgain { attempt };
        self.push(self.now + patience, WorldEvent::Client { server, client, event });
    }

    fn replied(&mut self, server: u32, client: u8, reply: ClientReply) {
        let (now, calm_at) = (self.now, self.calm_at);
        let it = &mut self.servers[server as usize];
        let asking = &mut it.clients[usize::from(client)];
        let Some(kind) = asking.kind.take() else { return };
        let told_before = asking.told_before;
        self.checks.line(now, || format!("server {server}: client {client} hears {reply:?} for {kind:?}"));
        match reply {
            ClientReply::Version(version) => {
                let may_be_stale = self.clocks_stand_still || kind == RequestKind::Write;
                self.checks.must(version >= told_before || may_be_stale, Breach::StaleRead, now, || {
                    format!("server {server}: client {client} reads {version} after {told_before}")
                });
                it.told_version = it.told_version.max(version);
            }
            ClientReply::Granted(lock) => {
                let holder = it.holders[lock].replace(client);
                self.checks.tally.grants += 1;
                self.checks.must(holder.is_none_or(|it| it == client), Breach::GrantedTwice, now, || {
                    format!("server {server}: {holder:?} has lock {lock}, and {client} is granted it")
                });
            }
            ClientReply::Denied | ClientReply::Unlocked => {}
        }
        if now >= calm_at {
            it.longest_gap = it.longest_gap.max(now - it.last_reply.max(calm_at));
        }
        it.last_reply = now;
        let think = self.shape.think_ms * MILLI;
        let at = now + self.chance.between(think / 10, 2 * think);
        self.push(at, WorldEvent::Client { server, client, event: ClientEvent::Think });
    }

    /// A new owner resets the connections to the former one, as far as the clients hear of it.
    pub fn reset_clients(&mut self, server: u32) {
        let address = self.servers[server as usize].address;
        for client in 0..self.shape.clients {
            let it = &self.servers[server as usize].clients[usize::from(client)];
            let (attempt, connection) = (it.attempt, it.connection);
            if connection.is_none() || connection == address || self.chance.one_in(3) {
                continue;
            }
            let at = self.now + self.jitter();
            self.servers[server as usize].clients[usize::from(client)].connection = None;
            self.push(at, WorldEvent::Client { server, client, event: ClientEvent::TryAgain { attempt } });
        }
    }
}
