//! A connection carries messages for the sessions that are bound to it (MS-SMB2 3.3.1.7).
//!
//! Start with [`Connection::on_message`](wire::Conversation::on_message) in [`crate::service`]. This file
//! has the state of a connection. The files beside it have its services for the floors above: it admits a
//! request (`admit.rs`), looks up its objects (`lookup.rs`), puts it aside (`parking.rs`) and answers it
//! (`replies.rs`). It calls no command.

mod admit;
mod interim;
mod locks;
mod lookup;
mod notices;
mod parking;
mod pending_changes;
mod records;
mod refusal_log;
mod replies;
pub(crate) mod setup;
mod test_controls;
mod throttling;
mod transactions;
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
use wire::{Mailbox, Now, Peer};

pub(crate) use admit::AdmissionRefusal;
use setup::Setup;
use test_controls::Controls;
use window::Window;

use crate::config::ServerConfig;
use crate::config::account::AccountHint;
use crate::exchange::parked::{Parked, ParkingLot};
use crate::keys::Protection;
use crate::limits::{LOGON_TIME_NS, MAX_PARTING};
use crate::state::notice::Notice;
use crate::state::{Event, Handle, Server, Session};

/// The values that NEGOTIATE has set.
#[derive(Debug, Clone, Copy)]
pub struct Negotiated {
    /// Dialect, signing, cipher.
    pub protection: Protection,
    /// The ClientGuid.
    pub client_guid: Guid,
    /// The client's key in the engine.
    pub client: ClientKey,
    /// The capabilities of the client.
    pub client_capabilities: Capabilities,
    /// The security mode of the client.
    pub client_security: SecurityMode,
    /// The capabilities of the server.
    pub capabilities: Capabilities,
    /// The security mode of the server.
    pub security: SecurityMode,
    /// Largest READ, WRITE and TRANSACT.
    pub max_io: u32,
    /// Whether the client uses the POSIX extensions.
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

/// A notice that was sent on a connection. The client may not have read it yet.
#[derive(Debug)]
pub(crate) struct UnconfirmedNotice {
    /// The receipt request after which the notice goes to another connection if it has not arrived.
    pub first: u64,
    /// The receipt request after which the notice counts as read, or this connection is closed.
    pub last: u64,
    /// The notice, until another connection has it.
    pub notice: Option<Notice>,
    /// The client's host has acknowledged it.
    pub arrived: bool,
}

impl UnconfirmedNotice {
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
    /// Hash of the dialects that the client offered (ClientDialects of MS-SMB2 3.3.1.7). A client may offer
    /// thousands.
    pub(crate) offered: [u8; 64],
    /// The client has sent an SMB1 NEGOTIATE that led to this dialect (MS-SMB2 3.3.5.3.2).
    pub(crate) multi_protocol: bool,
    /// No user but an anonymous one has logged on here yet (ConstrainedConnection).
    pub(crate) constrained: bool,
    /// Its own client, and the clients of sessions that were made elsewhere and are bound here.
    clients: SmallVec<[ClientKey; 1]>,
    /// Its account, if NEGOTIATE has named it.
    pub(crate) account: Option<AccountHint>,
    pub(crate) preauth: [u8; 64],
    /// The counters for its requests.
    pub(crate) desk: ConnectionCounters,
    pub(crate) window: Window,
    pub(crate) channels: Vec<Channel>,
    /// Channels of ended sessions. They sign and seal the replies to requests under way, and the refusals of
    /// requests that the client sends before it learns of the end.
    parting: Vec<Channel>,
    pub(crate) setups: Vec<Setup>,
    /// How many log-ons have begun.
    pub(crate) setups_begun: u64,
    /// The requests that are put aside.
    pub(crate) parked: ParkingLot,
    /// Waiting requests without an interim response, each with the time at which it gets one.
    pub(crate) silent: Vec<(u64, u64)>,
    next_async: std::cell::Cell<u64>,
    pub(crate) deadline: Option<u64>,
    /// Notices that may not have arrived.
    pub(crate) unconfirmed: VecDeque<UnconfirmedNotice>,
    pub(crate) next_receipt: u64,
    /// The controls that a test of the server has set.
    pub(crate) controls: Controls,
}

impl Connection {
    /// A connection that was just accepted. Returns `None` if there are too many.
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
            setups_begun: 0,
            silent: Vec::new(),
            parked: ParkingLot::default(),
            next_async: std::cell::Cell::new(0),
            deadline: Some(now.mono_ns.saturating_add(LOGON_TIME_NS)),
            unconfirmed: VecDeque::new(),
            next_receipt: 0,
            controls: Controls::default(),
        })
    }

    /// The settings of this connection: the server's, and the requirements of its account if that is known.
    pub(crate) fn settings(&self) -> Arc<ServerConfig> {
        let config = self.server.config();
        match &self.account {
            Some(known) => Arc::new(config.of_account(known)),
            None => Arc::clone(&config),
        }
    }

    /// The index of a session's channel.
    #[inline]
    pub(crate) fn channel_of(&self, session_id: u64) -> Option<usize> {
        self.channels.iter().position(|channel| channel.session.id == session_id)
    }

    /// The origin that the engine gets with the requests of this connection.
    pub(crate) fn origin(&self) -> Origin {
        Origin { connection: self.handle.id, is_itself: true }
    }

    /// The channel of a session, also of one that ended while requests were under way.
    pub(crate) fn channel_or_parting(&self, session_id: u64) -> Option<&Channel> {
        let mut all = self.channels.iter().chain(&self.parting);
        all.find(|channel| channel.session.id == session_id)
    }

    /// Forgets a session that has ended. Only its keys are kept, for the replies to earlier requests.
    pub(crate) fn forget_session(&mut self, session_id: u64) {
        self.parting.extend(self.channels.extract_if(.., |channel| channel.session.id == session_id));
        self.setups.retain(|setup| setup.session.id != session_id);
        self.part();
    }

    /// Drops the keys of the sessions that ended the longest ago, unless a waiting request needs them.
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

    /// Makes this connection a path for breaks of this client.
    pub(crate) fn join(&mut self, client: ClientKey) {
        if !self.clients.contains(&client) {
            self.clients.push(client);
            self.server.join_client(client, &self.handle);
        }
    }

    /// When the connection must be called next. While a log-on waits, no other log-on can be expected.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let turns = self.parked.log_ons().filter_map(|(_, at_ns)| at_ns).min();
        let logon = if self.parked.has_log_ons() { turns } else { self.deadline };
        logon.into_iter().chain(self.silence_ends()).min()
    }

    /// Sets the deadline for a log-on if no session is left, also after the last LOGOFF.
    pub(crate) fn expect_logon(&mut self, now: Now) {
        if self.channels.is_empty() {
            self.deadline = Some(now.mono_ns.saturating_add(LOGON_TIME_NS));
        }
    }

    /// Ends all state of the connection (MS-SMB2 3.3.7.1).
    pub(crate) fn closed(&mut self, now: Now) {
        self.release_waiting();
        self.server.remove_connection(self.handle.id);
        // A connection whose binding is unfinished is not yet a channel of the session.
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
        self.handle.path.end();
        // Notices that may not have arrived go to another connection.
        self.unconfirmed.clear();
        drop(self.handle.own_notices.take());
    }
}
