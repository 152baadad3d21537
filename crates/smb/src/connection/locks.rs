//! LOCKs that end without their ranges, and may have been sent twice (MS-SMB2 3.3.5.14).

use smb_wire::negotiate::{Capabilities, Dialect};
use smb_wire::{Command, FileId, Header, lock};

use super::{Connection, Negotiated};
use crate::state::Open;
use crate::state::sequence::LockNumber;

impl Negotiated {
    /// Whether the numbers of LOCK requests on an Open count: where one may be sent again.
    // MS-SMB2 3.3.5.14
    pub(crate) fn counts_locks(&self, open: &Open) -> bool {
        let dialect = self.protection.dialect;
        let multichannel = dialect.is_smb3() && self.capabilities.contains(Capabilities::MULTI_CHANNEL);
        multichannel || (dialect != Dialect::Smb202 && open.survival.lock().survives())
    }
}

impl Connection {
    /// A LOCK is refused: if it was sent again after a channel was lost, its first copy takes nothing when it comes late. False
    /// when that was done already, which is the answer to both then.
    pub(crate) fn note_refused_lock(&self, open: &Open, header: &Header, numbered: LockNumber) -> bool {
        // Before 3.0 the field of the ChannelSequence says something else (MS-SMB2 2.2.1.1).
        let Some(settled) = self.negotiated.filter(|it| it.protection.dialect.is_smb3()) else {
            return true;
        };
        // Asked first: nothing else of the Open is locked while the refused ones are.
        let is_verified = settled.counts_locks(open);
        let is_done = || is_verified && open.locks.was_done(numbered);
        open.refused_locks.note(numbered, header.channel_sequence(), is_done)
    }

    /// A request that waits, or was about to, is refused or taken back: `message` on the Open `id`. False for a LOCK whose first
    /// copy was done already, which is its answer too.
    pub(crate) fn note_ended(&self, header: &Header, id: Option<FileId>, message: &[u8]) -> bool {
        let id = id.filter(|_| header.command() == Command::Lock);
        let open = id.and_then(|id| self.server.opens.get(id.volatile).filter(|open| open.id == id));
        match (open, lock::Request::parse(message)) {
            (Some(open), Ok(asked)) => self.note_refused_lock(&open, header, LockNumber::of(&asked)),
            _ => true,
        }
    }
}
