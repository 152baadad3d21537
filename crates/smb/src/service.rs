//! Connects the SMB server to the transport: [`Server`] is a service, [`Connection`] its conversation.

use std::sync::Arc;

use wire::endpoint::{Principal, RecordPrefix, Service};
use wire::{Conversation, Mailbox, Now, Output, Peer, Transfer};

use crate::connection::Connection;
use crate::exchange::parked::Parked;
use crate::limits::MAX_MESSAGE_BEFORE_LOGON;
use crate::run;
use crate::state::{Event, Server};

/// A [`Server`] as a service of the transport.
#[derive(Debug, Clone)]
pub struct SmbService(pub Arc<Server>);

impl Service for SmbService {
    type Conversation = Connection;

    // MS-SMB2 2.1
    fn record(&self, prefix: [u8; 4]) -> RecordPrefix {
        let length = u32::from_be_bytes(prefix) & 0x00ff_ffff;
        match prefix[0] {
            0x00 if length as usize <= wire::limits::MAX_MESSAGE => RecordPrefix::Message(length as usize),
            // A NetBIOS keep-alive (RFC 1002 4.3.7), which some clients send on direct TCP too.
            0x85 if length == 0 => RecordPrefix::Skip(0),
            _ => RecordPrefix::Hostile,
        }
    }

    fn accept(&self, peer: Peer, mailbox: Arc<dyn Mailbox<Event>>, now: Now) -> Option<Connection> {
        Connection::new(&self.0, peer, mailbox, now)
    }
}

impl Conversation for Connection {
    type Event = Event;

    fn on_message(&mut self, message: &mut [u8], now: Now, out: &mut Output<Event>) {
        self.handle.path.heard(now);
        self.handle.counters.received(message.len());
        self.desk.begin();
        let before = out.frames.len();
        run::receive(self, message, now, out);
        self.end_batch(before, now, out);
        self.handle.path.set_sessions(self.channels.len());
    }

    fn on_event(&mut self, event: Event, now: Now, out: &mut Output<Event>) {
        let before = out.frames.len();
        match event {
            Event::Wake { async_id } => run::wake(self, async_id, now, out),
            Event::JobDone { async_id, frame, completion } => {
                run::job_done(self, async_id, frame, completion, now, out);
            }
            Event::Break(notice) => self.send_notice(notice, now, out),
            Event::SessionGone { session_id } => {
                // The end of a session that nobody had logged on to does not extend the time for a log-on.
                let was_carried = self.channel_of(session_id).is_some();
                self.forget_session(session_id);
                self.handle.path.set_sessions(self.channels.len());
                if was_carried {
                    self.expect_logon(now);
                }
            }
            Event::Close => out.close = true,
        }
        self.end_batch(before, now, out);
    }

    fn is_urgent(&self, event: &Event) -> bool {
        match event {
            Event::Break(_) | Event::SessionGone { .. } | Event::Close => true,
            Event::Wake { async_id } => self.parked.get(*async_id).is_some_and(Parked::is_brief),
            Event::JobDone { .. } => false,
        }
    }

    fn max_message(&self) -> usize {
        if self.channels.is_empty() { MAX_MESSAGE_BEFORE_LOGON } else { wire::limits::MAX_MESSAGE }
    }

    fn is_proved(&self) -> bool {
        !self.channels.is_empty()
    }

    fn principal(&self) -> Option<Principal> {
        let mut all = self.channels.iter().filter_map(|channel| channel.session.principal());
        let first = all.next()?;
        // A connection of several users belongs to their host.
        Some(if all.all(|other| other == first) { first } else { Principal::Host })
    }

    fn holds(&self) -> usize {
        self.parked.bytes()
    }

    fn event_bytes(&self, event: &Event) -> usize {
        match event {
            Event::JobDone { frame, .. } => frame.held(),
            _ => 0,
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.next_deadline()
    }

    fn on_deadline(&mut self, now: Now, out: &mut Output<Event>) {
        let before = out.frames.len();
        run::resume_log_ons(self, now, out);
        self.announce_silent(now, out);
        self.end_batch(before, now, out);
        if !self.parked.has_log_ons() && self.deadline.is_some_and(|deadline| deadline <= now.mono_ns) {
            self.hang_up("nobody logged on in time", now, out);
        }
    }

    fn on_receipt(&mut self, token: u64, arrived: bool, now: Now, out: &mut Output<Event>) {
        self.take_receipt(token, arrived, now, out);
    }

    fn batch_ended(&mut self, ended_ns: u64, end: u64) {
        self.desk.turned(ended_ns, end, self.parked.len());
    }

    fn sent(&mut self, taken: u64, at_ns: u64) {
        self.desk.sent(taken, at_ns);
    }

    fn transfer(&self) -> Option<&Transfer> {
        Some(&self.handle.transfer)
    }

    fn on_close(&mut self, now: Now) {
        self.closed(now);
    }
}
