//! Connection: carries bytes for the sessions bound to it (MS-SMB2 3.3.1.7).
//!
//! Start with [`Connection::on_message`](wire::Conversation::on_message) in [`crate::service`]; here is what a connection
//! knows, and in the files beside it what it does for whoever is above: whether a request is looked at (`admit.rs`), what it
//! names (`lookup.rs`), how it is put aside (`parking.rs`) and answered (`answers.rs`). It calls no command.

mod admit;
mod announcing;
mod answers;
mod complaints;
mod controls;
mod locks;
mod lookup;
mod notices;
mod noting;
mod pacing;
mod parking;
mod recording;
pub(crate) mod setup;
mod waits;
mod window;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use auth::crypto::Signer;
use share::counts::ConnectionCounters;
use share::{ClientKey, Origin};
use smallvec::SmallVec;
use smb_wire::Guid;
use smb_wire::negotiate::{Capabilities, SecurityMode};
use wire::{Mailbox, Now, Output, Peer};

pub(crate) use admit::Refused;
use controls::Controls;
use setup::Setup;
use window::Window;

use crate::config::ServerConfig;
use crate::config::account::Known;
use crate::exchange::parked::{Parked, ParkingLot};
use crate::keys::Protection;
use crate::limits::{LOGON_TIME_NS, MAX_PARTING};
use crate::state::notice::Notice;
use crate::state::{Event, Handle, Server, Session};

/// What NEGOTIATE settled.
#[derive(Debug, Clone, Copy)]
pub struct Negotiated {
    /// Dialect, signing, cipher.
    pub protection: Protection,
    /// The client.
    pub client_guid: Guid,
    /// The client for the engine.
    pub client: ClientKey,
    /// What the client said it can do.
    pub client_capabilities: Capabilities,
    /// How the client said it signs.
    pub client_security: SecurityMode,
    /// What we said.
    pub capabilities: Capabilities,
    /// How we said that we sign.
    pub security: SecurityMode,
    /// Largest READ, WRITE and TRANSACT.
    pub max_io: u32,
    /// Whether the client speaks the POSIX extensions.
    pub posix: bool,
}

impl Negotiated {
    /// Whether requests may take more than one credit.
    pub fn multi_credit(&self) -> bool {
        self.capabilities.contains(Capabilities::LARGE_MTU)
    }
}

/// A session on this connection: a channel (MS-SMB2 3.3.1.14).
pub struct Channel {
    /// The session.
    pub session: Arc<Session>,
    /// Signs on this channel.
    pub signer: Signer,
}

/// A notice that was sent on a connection and that the client may not have read.
#[derive(Debug)]
pub(crate) struct Unproved {
    /// The question to the transport after which it goes to another connection if it has not arrived.
    pub first: u64,
    /// The question after which it counts as read, or this connection is given up.
    pub last: u64,
    /// Until another connection has it.
    pub notice: Option<Notice>,
    /// The client's host has it.
    pub arrived: bool,
}

impl Unproved {
    pub fn settle(self) {
        if let Some(notice) = self.notice {
            notice.settle();
        }
    }
}

/// One connection.
pub struct Connection {
    pub(crate) server: Arc<Server>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) negotiated: Option<Negotiated>,
    /// Hash of the dialects that the client offered (ClientDialects of MS-SMB2 3.3.1.7), which it may offer by the thousand.
    pub(crate) offered: [u8; 64],
    /// The client has sent an SMB1 NEGOTIATE that leads here (MS-SMB2 3.3.5.3.2).
    pub(crate) multi_protocol: bool,
    /// Nobody with a name has logged on here yet (ConstrainedConnection).
    pub(crate) constrained: bool,
    /// Its own client, and those of sessions that another client made and that are bound here.
    clients: SmallVec<[ClientKey; 1]>,
    /// Its account, where that is known since NEGOTIATE.
    pub(crate) account: Option<Known>,
    pub(crate) preauth: [u8; 64],
    /// Where its requests are counted.
    pub(crate) desk: ConnectionCounters,
    pub(crate) window: Window,
    pub(crate) channels: Vec<Channel>,
    /// Channels of sessions that have ended, for answers that are still to be signed and sealed: those to requests
    /// that were under way, and the refusals of what the client sends before it knows.
    parting: Vec<Channel>,
    pub(crate) setups: Vec<Setup>,
    /// The requests that are put aside.
    pub(crate) parked: ParkingLot,
    /// Those of them that nobody was told of, each with when that ends.
    pub(crate) silent: Vec<(u64, u64)>,
    next_async: std::cell::Cell<u64>,
    pub(crate) deadline: Option<u64>,
    /// Notices whose arrival is not known.
    pub(crate) unproved: VecDeque<Unproved>,
    pub(crate) next_receipt: u64,
    /// What a test of the server has asked for.
    pub(crate) controls: Controls,
}

impl Connection {
    /// A connection that has just been accepted; none when there are too many.
    pub fn new(
        server: &Arc<Server>,
        peer: Peer,
        mailbox: Arc<dyn Mailbox<Event>>,
        now: Now,
    ) -> Option<Connection> {
        let desk = ConnectionCounters::new(&server.counts);
        let visits = Arc::clone(desk.activity());
        let handle = Arc::new(Handle::new(server.next_connection(), peer, now, mailbox, visits));
        server.add_connection(&handle).then(|| Connection {
            server: Arc::clone(server),
            handle,
            negotiated: None,
            offered: [0; 64],
            multi_protocol: false,
            constrained: true,
            clients: SmallVec::new(),
            account: None,
            preauth: [0; 64],
            desk,
            window: Window::new(server.config().max_credits),
            channels: Vec::new(),
            parting: Vec::new(),
            setups: Vec::new(),
            silent: Vec::new(),
            parked: ParkingLot::default(),
            next_async: std::cell::Cell::new(0),
            deadline: Some(now.mono_ns.saturating_add(LOGON_TIME_NS)),
            unproved: VecDeque::new(),
            next_receipt: 0,
            controls: Controls::default(),
        })
    }

    /// The settings that count here: the server's, and what its account demands besides, where that is known.
    pub(crate) fn settings(&self) -> Arc<ServerConfig> {
        let config = self.server.config();
        match &self.account {
            Some(known) => Arc::new(config.of_account(known)),
            None => Arc::clone(&config),
        }
    }

    /// Where the channel of a session is in the list.
    #[inline]
    pub(crate) fn channel_of(&self, session_id: u64) -> Option<usize> {
        self.channels.iter().position(|channel| channel.session.id == session_id)
    }

    /// What the engine is told of where its requests come from.
    pub(crate) fn origin(&self) -> Origin {
        Origin { connection: self.handle.id, is_itself: true }
    }

    /// The client broke the protocol in a way that costs it the connection.
    pub(crate) fn hang_up(&self, why: &str, out: &mut Output<Event>) {
        tracing::info!(peer = %self.handle.peer.remote, why, "closing the connection");
        out.close = true;
    }

    /// The channel of a session, also of one that has ended while requests were under way.
    pub(crate) fn channel_or_parting(&self, session_id: u64) -> Option<&Channel> {
        let mut all = self.channels.iter().chain(&self.parting);
        all.find(|channel| channel.session.id == session_id)
    }

    /// The session has ended: nothing of it is kept here but the keys for what was asked before.
    pub(crate) fn forget_session(&mut self, session_id: u64) {
        self.parting.extend(self.channels.extract_if(.., |channel| channel.session.id == session_id));
        self.setups.retain(|setup| setup.session.id != session_id);
        self.part();
    }

    /// Lets go of the keys of sessions that ended longest ago, unless a request that waits needs them.
    fn part(&mut self) {
        let mut more = self.parting.len().saturating_sub(MAX_PARTING);
        let Connection { parting, parked, .. } = self;
        parting.retain(|channel| {
            let is_its = |parked: &Parked| parked.exchange.compound.related.session_id == channel.session.id;
            let keep = more == 0 || parked.iter().any(|(_, parked)| is_its(parked));
            more -= usize::from(!keep);
            keep
        });
    }

    /// Breaks for this client may come over this connection.
    pub(crate) fn join(&mut self, client: ClientKey) {
        if !self.clients.contains(&client) {
            self.clients.push(client);
            self.server.join_client(client, &self.handle);
        }
    }

    /// When the connection is to be called. While a log-on waits for its turn nothing else can be expected.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let turns = self.parked.log_ons().filter_map(|(_, at_ns)| at_ns).min();
        let logon = if self.parked.has_log_ons() { turns } else { self.deadline };
        logon.into_iter().chain(self.silence_ends()).min()
    }

    /// A connection on which nobody is logged on must see a log-on in time, also after the last LOGOFF.
    pub(crate) fn expect_logon(&mut self, now: Now) {
        if self.channels.is_empty() {
            self.deadline = Some(now.mono_ns.saturating_add(LOGON_TIME_NS));
        }
    }

    /// Ends the connection's part in everything (MS-SMB2 3.3.7.1).
    pub(crate) fn closed(&mut self, now: Now) {
        self.let_go_of_waiting();
        self.server.remove_connection(self.handle.id);
        // A channel that was not bound yet is none of its session's.
        for setup in self.setups.drain(..).filter(|setup| !setup.binds()) {
            if setup.session.remove_channel(self.handle.id) {
                self.server.end_session(&setup.session, now.into());
            }
        }
        for Channel { session, .. } in self.channels.drain(..) {
            if session.remove_channel(self.handle.id) {
                self.server.end_session(&session, now.into());
            } else {
                session.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        for client in self.clients.drain(..) {
            self.server.leave_client(client, self.handle.id);
        }
        self.handle.way.end();
        // What may not have arrived goes to another connection.
        self.unproved.clear();
        drop(self.handle.own_notices.take());
    }
}
