//! The SMB server for the transport: [`Server`] is a service, [`Connection`] its conversation.

use std::sync::Arc;

use smb_wire::create::OplockLevel;
use smb_wire::create_context::LeaseState;
use smb_wire::id::LeaseKey;
use smb_wire::oplock_break::{Notification, NotificationFlags, Oplock};
use smb_wire::{Command, FileId, Header};
use wire::endpoint::{Record, Service};
use wire::{Conversation, Mailbox, Now, Output, Peer};

use crate::compound;
use crate::connection::Connection;
use crate::event::{Event, LeaseBreak};
use crate::limits::MAX_MESSAGE_BEFORE_LOGON;
use crate::server::Server;

/// [`Server`] as the transport wants it.
#[derive(Debug, Clone)]
pub struct Smb(pub Arc<Server>);

impl Service for Smb {
    type Conversation = Connection;

    // MS-SMB2 2.1
    fn record(&self, prefix: [u8; 4]) -> Record {
        let length = u32::from_be_bytes(prefix) & 0x00ff_ffff;
        match prefix[0] {
            0x00 if length as usize <= wire::limits::MAX_MESSAGE => Record::Message(length as usize),
            // A NetBIOS keep-alive (RFC 1002 4.3.7), which some clients send on direct TCP too.
            0x85 if length == 0 => Record::Skip(0),
            _ => Record::Hostile,
        }
    }

    fn accept(&self, peer: Peer, mailbox: Arc<dyn Mailbox<Event>>, now: Now) -> Option<Connection> {
        Connection::new(&self.0, peer, mailbox, now)
    }
}

impl Conversation for Connection {
    type Event = Event;

    fn on_message(&mut self, message: &mut [u8], now: Now, out: &mut Output<Event>) {
        self.receive(message, now, out);
    }

    fn on_event(&mut self, event: Event, now: Now, out: &mut Output<Event>) {
        match event {
            Event::Wake { async_id } => self.wake(async_id, now, out),
            Event::JobDone { async_id, frame, completion } => {
                self.job_done(async_id, frame, completion, now, out)
            }
            Event::OplockBreak { session_id, file_id, level } => {
                self.send_oplock_break(session_id, file_id, level, out)
            }
            Event::LeaseBreak(lease) => self.send_lease_break(lease, out),
            Event::SessionGone { session_id } => {
                self.forget_session(session_id);
                self.expect_logon(now);
            }
            Event::Close => out.close = true,
        }
    }

    fn max_message(&self) -> usize {
        if self.channels.is_empty() { MAX_MESSAGE_BEFORE_LOGON } else { wire::limits::MAX_MESSAGE }
    }

    fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    fn on_deadline(&mut self, now: Now, out: &mut Output<Event>) {
        if self.deadline.is_some_and(|deadline| deadline <= now.mono_ns) {
            self.hang_up("nobody logged on in time", out);
        }
    }

    fn on_close(&mut self, now: Now) {
        self.closed(now);
    }
}

impl Connection {
    // MS-SMB2 3.3.4.6
    fn send_oplock_break(
        &mut self,
        session_id: u64,
        file_id: FileId,
        level: OplockLevel,
        out: &mut Output<Event>,
    ) {
        let mut frame = out.pool.take(128);
        Header::notification(Command::OplockBreak).push(frame.tail());
        Notification::Oplock(Oplock { oplock_level: level, file_id }).write(frame.tail());
        let sealed = self.channel_of(session_id).map(|at| &self.channels[at].session);
        let sealed =
            sealed.filter(|session| session.sealing_required.load(std::sync::atomic::Ordering::Relaxed));
        if let Some(session) = sealed {
            compound::seal(&mut frame, session);
        }
        compound::prefix(&mut frame);
        out.frames.push(frame);
    }

    // MS-SMB2 3.3.4.7
    fn send_lease_break(&mut self, lease: LeaseBreak, out: &mut Output<Event>) {
        let mut frame = out.pool.take(128);
        Header::notification(Command::OplockBreak).push(frame.tail());
        let flags = if lease.ack { NotificationFlags::ACK_REQUIRED } else { NotificationFlags::empty() };
        Notification::Lease {
            new_epoch: lease.epoch,
            flags,
            key: LeaseKey(lease.lease_key),
            current_state: LeaseState::from_bits_retain(lease.current),
            new_state: LeaseState::from_bits_retain(lease.new),
        }
        .write(frame.tail());
        // The notice names no session; it is sealed where any session here asks for it.
        let required = |session: &Arc<crate::session::Session>| {
            session.sealing_required.load(std::sync::atomic::Ordering::Relaxed)
        };
        if let Some(channel) = self.channels.iter().find(|channel| required(&channel.session)) {
            compound::seal(&mut frame, &channel.session);
        }
        compound::prefix(&mut frame);
        out.frames.push(frame);
    }
}
