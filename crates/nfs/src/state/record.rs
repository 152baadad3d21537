//! The binary format of everything that is kept over a restart: the client records ([`ClientRecord`], in a
//! journal of the server), and the NFS part of an open's record ([`Note`], beside the engine's own record of
//! the open).
//!
//! Numbers are little-endian. Byte strings have their length in front.

use share::ClientKey;
use wire::{Cursor, Truncated, Writer};

use nfs_wire::op::open::{ShareAccess, ShareDeny};
use nfs_wire::types::Verifier;

use crate::state::credentials::Principal;
use crate::state::stateid::LockingState;

/// The first byte of a note of this server. Other servers of the same share begin theirs with other bytes.
const NOTE: u8 = b'N';
/// The version of the journal's layout.
pub const VERSION: u32 = 1;

/// The kind of NFS state that an engine's open belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedKind {
    /// The open of an open-owner.
    Open,
    /// A delegation.
    Delegation,
}

/// The part of an open's record that the engine does not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The kind of state.
    pub kind: RecordedKind,
    /// The client's name of the open-owner. Empty for a delegation.
    pub owner: Box<[u8]>,
    /// The number of the export.
    pub export: u32,
    /// The access that it allows.
    pub access: ShareAccess,
    /// The access that it denies to others.
    pub deny: ShareDeny,
}

impl Note {
    /// Whether these bytes are a note of this server.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.first() == Some(&NOTE)
    }

    /// Encodes the note.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + self.owner.len());
        let mut out = Writer::new(&mut bytes);
        out.u8(NOTE);
        out.u8(u8::from(self.kind == RecordedKind::Delegation));
        out.u32_le(self.export);
        out.u32_le(self.access.bits());
        out.u32_le(self.deny.bits());
        out.bytes(&self.owner);
        bytes
    }

    /// Decodes a note.
    ///
    /// # Errors
    /// [`Truncated`] if the bytes are no note.
    pub fn decode(bytes: &[u8]) -> Result<Note, Truncated> {
        let mut from = Cursor::new(bytes);
        if from.u8()? != NOTE {
            return Err(Truncated { at: 0 });
        }
        let kind = match from.u8()? {
            0 => RecordedKind::Open,
            1 => RecordedKind::Delegation,
            _ => return Err(Truncated { at: 1 }),
        };
        let export = from.u32_le()?;
        let access = ShareAccess::from_bits_retain(from.u32_le()?);
        let deny = ShareDeny::from_bits_retain(from.u32_le()?);
        let owner = from.bytes(from.remaining())?.into();
        Ok(Note { kind, owner, export, access, deny })
    }
}

/// Has the engine record an open, so that its client can reclaim it after a restart.
pub fn enlist(state: &LockingState) {
    let engine = &state.export.engine;
    if !engine.keeps_opens() {
        return;
    }
    let holding = state.holding();
    let (kind, owner) = match state.opened() {
        Some(open) => (RecordedKind::Open, open.owner.clone()),
        None => (RecordedKind::Delegation, Box::default()),
    };
    let note = Note { kind, owner, export: state.export.id, access: holding.access, deny: holding.deny };
    if let Err(why) = engine.enlist(&holding.open, state.handle.address(), note.encode()) {
        let export = &state.export.name;
        tracing::warn!(%export, %why, "an open could not be recorded; it ends with the server");
    }
}

/// One record in the journal of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientRecord {
    /// Always the first record: the layout, and the boot of the host.
    Head {
        /// [`VERSION`].
        version: u32,
        /// The host's own identifier of the boot.
        boot: Box<[u8]>,
    },
    /// A client has created its first session.
    Confirmed(RecordedIdentity),
    /// A client has ended, or has nothing to reclaim.
    Gone(ClientKey),
}

/// The identity by which a client is recognised after a restart (RFC 8881 2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedIdentity {
    /// The key under which its opens are kept.
    pub key: ClientKey,
    /// The client's own name for itself (co_ownerid).
    pub owner: Box<[u8]>,
    /// Changes when the client restarts.
    pub verifier: Verifier,
    /// The principal that may change the client's record.
    pub principal: Principal,
}

impl ClientRecord {
    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let mut out = Writer::new(&mut bytes);
        match self {
            ClientRecord::Head { version, boot } => {
                out.u8(0);
                out.u32_le(*version);
                put(&mut out, boot);
            }
            ClientRecord::Confirmed(known) => {
                out.u8(1);
                out.u128_le(known.key.0);
                put(&mut out, &known.owner);
                out.bytes(&known.verifier);
                let (flavor, uid, machine) = known.principal.parts();
                out.u32_le(flavor);
                out.u32_le(uid);
                put(&mut out, machine);
            }
            ClientRecord::Gone(key) => {
                out.u8(2);
                out.u128_le(key.0);
            }
        }
        bytes
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// [`Truncated`] if the bytes are no record.
    pub fn decode(bytes: &[u8]) -> Result<ClientRecord, Truncated> {
        let mut from = Cursor::new(bytes);
        Ok(match from.u8()? {
            0 => ClientRecord::Head { version: from.u32_le()?, boot: take(&mut from)? },
            1 => ClientRecord::Confirmed(RecordedIdentity {
                key: ClientKey(from.u128_le()?),
                owner: take(&mut from)?,
                verifier: from.array()?,
                principal: Principal::of(from.u32_le()?, from.u32_le()?, take(&mut from)?),
            }),
            2 => ClientRecord::Gone(ClientKey(from.u128_le()?)),
            _ => return Err(Truncated { at: 0 }),
        })
    }
}

fn put(out: &mut Writer<'_>, bytes: &[u8]) {
    out.u32_le(bytes.len() as u32);
    out.bytes(bytes);
}

fn take(from: &mut Cursor<'_>) -> Result<Box<[u8]>, Truncated> {
    let len = from.u32_le()?;
    Ok(from.bytes(len as usize)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_shorter_is() {
        let principal = Principal::of(1, 7, Box::from(*b"host"));
        let known =
            RecordedIdentity { key: ClientKey(5), owner: Box::from(*b"me"), verifier: [3; 8], principal };
        let head = ClientRecord::Head { version: VERSION, boot: Box::from(*b"boot") };
        for record in [head, ClientRecord::Confirmed(known), ClientRecord::Gone(ClientKey(9))] {
            let bytes = record.encode();
            assert_eq!(ClientRecord::decode(&bytes), Ok(record));
            assert!((0..bytes.len()).all(|len| ClientRecord::decode(&bytes[..len]).is_err()));
        }
        assert!(ClientRecord::decode(&[3]).is_err());
        let (access, deny) = (ShareAccess::BOTH, ShareDeny::WRITE);
        let note =
            Note { kind: RecordedKind::Delegation, owner: Box::from(*b"owner"), export: 7, access, deny };
        let bytes = note.encode();
        assert!(Note::is_one(&bytes) && !Note::is_one(&[2]) && !Note::is_one(&[]));
        assert_eq!(Note::decode(&bytes), Ok(note));
        assert!((0..14).all(|len| Note::decode(&bytes[..len]).is_err()));
        assert!(Note::decode(&[&[1], &bytes[1..]].concat()).is_err());
    }
}
