//! The interface to the transport: [`NfsService`] is the service, [`Connection`] its conversation.
//! [`Endpoints`] combines several servers.

use std::net::SocketAddr;
use std::sync::Arc;

use nfs_wire::rpc::record::RecordMark;
use wire::endpoint::{Principal, RecordPrefix, Service};
use wire::{Conversation, Mailbox, Now, Output, Peer, Transfer};

use crate::compound::active::SuspendedCompound;
use crate::connection::Connection;
use crate::connection::event::Event;
use crate::limits::{MAX_CHANNEL_MESSAGE, MAX_MESSAGE_WITHOUT_SESSION};
use crate::server::Server;
use crate::state::connection_handle::Mail;

/// A [`Server`] as a service of the transport.
#[derive(Debug, Clone)]
pub struct NfsService(pub Arc<Server>);

impl Service for NfsService {
    type Conversation = Connection;

    fn record(&self, prefix: [u8; 4]) -> RecordPrefix {
        record(prefix)
    }

    fn accept(&self, peer: Peer, mailbox: Arc<dyn Mailbox<Event>>, now: Now) -> Option<Connection> {
        Connection::new(&self.0, peer, mailbox, now)
    }
}

/// Several servers behind one transport, each at addresses of its own.
///
/// To a client they are unrelated servers. Each has an owner, a scope, client IDs and sessions of its own
/// (RFC 8881 2.10.5), and the client mounts them separately.
#[derive(Debug)]
pub struct Endpoints {
    /// The servers and their addresses. An unspecified address stands for all addresses that no other server
    /// has.
    routes: Vec<(SocketAddr, NfsService)>,
}

impl Endpoints {
    /// Creates the service from pairs of address and server.
    #[must_use]
    pub fn new(routes: Vec<(SocketAddr, NfsService)>) -> Endpoints {
        Endpoints { routes }
    }

    /// The server for a connection that arrived at this local address.
    fn at(&self, local: SocketAddr) -> Option<&NfsService> {
        let ip = local.ip().to_canonical();
        let here = || self.routes.iter().filter(|(at, _)| at.port() == local.port());
        let own = here().find(|(at, _)| at.ip().to_canonical() == ip);
        own.or_else(|| here().find(|(at, _)| at.ip().is_unspecified())).map(|(_, nfs)| nfs)
    }
}

impl Service for Endpoints {
    type Conversation = Connection;

    fn record(&self, prefix: [u8; 4]) -> RecordPrefix {
        record(prefix)
    }

    fn accept(&self, peer: Peer, mailbox: Arc<dyn Mailbox<Event>>, now: Now) -> Option<Connection> {
        self.at(peer.local)?.accept(peer, mailbox, now)
    }
}

// RFC 5531 11
fn record(prefix: [u8; 4]) -> RecordPrefix {
    let mark = RecordMark::parse(prefix);
    match mark.last {
        _ if mark.len > wire::limits::MAX_MESSAGE => RecordPrefix::Hostile,
        true => RecordPrefix::Message(mark.len),
        false => RecordPrefix::Fragment(mark.len),
    }
}

impl Conversation for Connection {
    type Event = Event;

    fn on_message(&mut self, message: &mut [u8], now: Now, out: &mut Output<Event>) {
        self.counters.begin();
        self.receive(message, now, out);
    }

    fn on_event(&mut self, event: Event, now: Now, out: &mut Output<Event>) {
        match event {
            Event::Answered { finished } => self.answered(finished, out),
            Event::Suspended(suspended) => self.suspended_on_pool(*suspended, now, out),
            Event::Mail(Mail::Resume { token }) => self.resume(token, now, out),
            Event::Mail(Mail::Call(call)) => self.call_client(*call, now, out),
            Event::Mail(Mail::SessionGone { session }) => self.forget_session(session),
            Event::Mail(Mail::Close) => out.close = true,
        }
    }

    fn max_message(&self) -> usize {
        if self.is_proved() { MAX_CHANNEL_MESSAGE as usize } else { MAX_MESSAGE_WITHOUT_SESSION }
    }

    // The first message of a connection may be a WRITE of a session on other connections: Linux binds none
    // after a cut.
    fn vouches_for(&self, head: &[u8]) -> bool {
        self.names_session(head)
    }

    fn is_proved(&self) -> bool {
        self.carries_session()
    }

    // The client alone says who the users of AUTH_SYS are. A client that has opened nothing yet may be
    // anybody.
    fn principal(&self) -> Option<Principal> {
        self.works_for_known_client().then_some(Principal::Host)
    }

    fn holds(&self) -> usize {
        self.suspended_bytes
    }

    fn event_bytes(&self, event: &Event) -> usize {
        match event {
            Event::Answered { finished: Some(finished) } => finished.frame.held(),
            _ => 0,
        }
    }

    fn deadline(&self) -> Option<u64> {
        None
    }

    fn on_deadline(&mut self, _now: Now, _out: &mut Output<Event>) {}

    fn before_sending(&mut self) {
        self.opens_to_record.record(&self.server);
    }

    fn batch_ended(&mut self, ended_ns: u64, end: u64) {
        self.counters.turned(ended_ns, end, self.requests_in_progress());
        self.suspended_bytes = self.suspended.values_mut().map(SuspendedCompound::memory_bytes).sum();
    }

    fn sent(&mut self, taken: u64, at_ns: u64) {
        self.counters.sent(taken, at_ns);
    }

    fn transfer(&self) -> Option<&Transfer> {
        Some(&self.handle.transfer)
    }

    fn on_close(&mut self, now: Now) {
        self.end_suspended(now);
        self.closed(now);
    }
}
