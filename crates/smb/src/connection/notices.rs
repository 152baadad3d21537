//! The last step of a notice ([`crate::state::notice`]): it is sent, and the transport reports whether it
//! has arrived.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use share::{BreakNotice, Caching};
use smb_wire::create::OplockLevel;
use smb_wire::create_context::LeaseState;
use smb_wire::id::LeaseKey;
use smb_wire::oplock_break::{Notification, NotificationFlags, Oplock};
use smb_wire::{Header, SmbCommand};
use wire::{Now, Output};

use super::{Connection, UnconfirmedNotice};
use crate::exchange::compound;
use crate::limits::{MAX_UNCONFIRMED, RECEIPT_TIME_NS, SILENCE_NS};
use crate::state::notice::{Notice, open_of};
use crate::state::{Event, Session};

impl Connection {
    /// Sends the breaks of this client's rights that its own request has caused.
    pub(crate) fn send_own_notices(&mut self, now: Now, out: &mut Output<Event>) {
        for notice in self.handle.own_notices.take() {
            self.send_notice(notice, now, out);
        }
    }

    /// Sends a notice, or passes it to another connection if this one does not carry the session any more.
    pub(crate) fn send_notice(&mut self, notice: Notice, now: Now, out: &mut Output<Event>) {
        if !notice.is_wanted() && !notice.must_be_sent() {
            return notice.settle();
        }
        let Some(broken) = notice.broken() else { return };
        let sent = if broken.keyed {
            self.send_lease_break(&broken, out)
        } else {
            self.send_oplock_break(&broken, out)
        };
        if !sent {
            if let Some(notice) = notice.pass_on() {
                notice.settle();
            }
            return;
        }
        let first = self.next_receipt;
        self.next_receipt += 2;
        out.ask_receipt(first, now.mono_ns.saturating_add(RECEIPT_TIME_NS));
        out.ask_receipt(first + 1, now.mono_ns.saturating_add(SILENCE_NS));
        self.unconfirmed.push_back(UnconfirmedNotice {
            first,
            last: first + 1,
            notice: Some(notice),
            arrived: false,
        });
        if self.unconfirmed.len() > MAX_UNCONFIRMED
            && self.unconfirmed.front().is_some_and(|oldest| oldest.arrived)
            && let Some(oldest) = self.unconfirmed.pop_front()
        {
            oldest.settle();
        }
    }

    /// Handles the transport's report on receipt request `token`: whether all earlier frames have arrived.
    pub(crate) fn take_receipt(&mut self, token: u64, arrived: bool, now: Now, out: &mut Output<Event>) {
        let at = self.unconfirmed.iter().position(|sent| sent.first == token || sent.last == token);
        let Some(at) = at else { return };
        let sent = &mut self.unconfirmed[at];
        if arrived && !self.controls.ignores_receipts {
            sent.arrived = true;
            if (sent.last == token || sent.notice.is_none())
                && let Some(read) = self.unconfirmed.remove(at)
            {
                read.settle();
            }
            return;
        }
        self.handle.path.fall_silent();
        match sent.notice.take() {
            Some(notice) if notice.is_wanted() => sent.notice = notice.pass_on(),
            Some(notice) => notice.settle(),
            None => {}
        }
        if sent.last == token {
            self.hang_up("the client's host has not acknowledged a break notice", now, out);
        }
    }

    // MS-SMB2 3.3.4.6
    fn send_oplock_break(&self, notice: &BreakNotice, out: &mut Output<Event>) -> bool {
        let Some(open) = open_of(&self.server, notice) else { return false };
        let Some(at) = self.channel_of(open.session_id) else { return false };
        let oplock_level =
            if notice.to.contains(Caching::READ) { OplockLevel::LevelII } else { OplockLevel::None };
        let session = &self.channels[at].session;
        let sealing = session.sealing_required.load(Ordering::Relaxed).then_some(session);
        queue(&Notification::Oplock(Oplock { oplock_level, file_id: open.id }), sealing, out);
        true
    }

    // MS-SMB2 3.3.4.7
    fn send_lease_break(&self, notice: &BreakNotice, out: &mut Output<Event>) -> bool {
        if self.channels.is_empty() {
            return false;
        }
        let flags = if notice.answer { NotificationFlags::ACK_REQUIRED } else { NotificationFlags::empty() };
        let notification = Notification::Lease {
            new_epoch: notice.epoch,
            flags,
            key: LeaseKey(notice.key.0.to_le_bytes()),
            current_state: LeaseState::from_bits_retain(u32::from(notice.from.bits())),
            new_state: LeaseState::from_bits_retain(u32::from(notice.to.bits())),
        };
        // A lease break names no session. It is sealed if any session here requires that.
        let mut sessions = self.channels.iter().map(|channel| &channel.session);
        let sealing = sessions.find(|session| session.sealing_required.load(Ordering::Relaxed));
        queue(&notification, sealing, out);
        true
    }
}

fn queue(notification: &Notification, sealing: Option<&Arc<Session>>, out: &mut Output<Event>) {
    let mut frame = out.pool.take(128);
    Header::notification(SmbCommand::OplockBreak).push(frame.tail());
    notification.write(frame.tail());
    if let Some(session) = sealing {
        compound::seal(&mut frame, session);
    }
    compound::prefix(&mut frame);
    out.frames.push(frame);
}
