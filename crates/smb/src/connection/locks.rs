//! LOCKs that fail and may have been sent twice (MS-SMB2 3.3.5.14).

use smb_wire::negotiate::{Capabilities, Dialect};
use smb_wire::{FileId, Header, SmbCommand, lock};

use super::{Connection, Negotiated};
use crate::state::Open;
use crate::state::sequence::LockNumber;

impl Negotiated {
    /// Whether the lock sequence numbers of an Open count. They do if a LOCK may be sent again.
    // MS-SMB2 3.3.5.14
    pub(crate) fn counts_locks(&self, open: &Open) -> bool {
        let dialect = self.protection.dialect;
        let multichannel = dialect.is_smb3() && self.capabilities.contains(Capabilities::MULTI_CHANNEL);
        multichannel || (dialect != Dialect::Smb202 && open.survival.lock().survives())
    }
}

impl Connection {
    /// Records the refusal of a LOCK. If the LOCK was a repetition after a lost channel, its late first copy
    /// then has no effect. Returns false if the first copy was done already. Both then get that result.
    pub(crate) fn note_refused_lock(&self, open: &Open, header: &Header, numbered: LockNumber) -> bool {
        // Before 3.0 the field of the ChannelSequence has another meaning (MS-SMB2 2.2.1.1).
        let Some(negotiated) = self.negotiated.filter(|it| it.protection.dialect.is_smb3()) else {
            return true;
        };
        // This is read first: nothing else of the Open may be locked while the list of refused LOCKs is.
        let is_verified = negotiated.counts_locks(open);
        let is_done = || is_verified && open.locks.was_done(numbered);
        open.refused_locks.note(numbered, header.channel_sequence(), is_done)
    }

    /// Records that a waiting request was refused or cancelled. `message` is the request on the Open `id`.
    /// Returns false for a LOCK whose first copy was done already. That result is its reply too.
    pub(crate) fn note_ended(&self, header: &Header, id: Option<FileId>, message: &[u8]) -> bool {
        let id = id.filter(|_| header.command() == SmbCommand::Lock);
        let open = id.and_then(|id| self.server.opens.get(id.volatile).filter(|open| open.id == id));
        match (open, lock::Request::parse(message)) {
            (Some(open), Ok(asked)) => self.note_refused_lock(&open, header, LockNumber::of(&asked)),
            _ => true,
        }
    }
}
