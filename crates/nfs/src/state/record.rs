//! The binary format of everything that is kept over a restart: the client records ([`ClientRecord`], in a
//! journal of the server), and the NFS part of an open's record ([`Note`], beside the engine's own record of
//! the open).
//!
//! Numbers are little-endian. Byte strings have their length in front.

use share::{ClientKey, MAX_NOTE};
use wire::{Cursor, Truncated, Writer};

use nfs_wire::op::open::{ShareAccess, ShareDeny};
use nfs_wire::types::{StateId, Verifier};

use crate::state::client::Client;
use crate::state::credentials::Principal;
use crate::state::open::Modes;
use crate::state::stateid::LockingState;

/// The first byte of a note of this server. Other servers of the same share begin theirs with other bytes.
const NOTE: u8 = b'N';
/// The bit in the second byte of a note that has a [`ResumableState`].
const RESUMABLE: u8 = 2;
/// The version of the journal's layout.
pub const VERSION: u32 = 2;
/// The oldest version that can be read.
pub const OLDEST: u32 = 1;
/// The most lock-owners that the note of an open names.
const MAX_LOCK_OWNERS: usize = 64;

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
    /// Everything else that makes it the same state after a restart. None: it was recorded by an earlier
    /// version, or has too many lock-owners. Its client reclaims then.
    pub resumable: Option<ResumableState>,
}

/// The part of a state that a client need not know of in order to reclaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumableState {
    /// Its stateid.
    pub id: StateId,
    /// The pairs of access and deny of an open.
    pub modes: Modes,
    /// The user and the group who opened it.
    pub user: (u32, u32),
    /// Whether the holder of a delegation keeps the times of the file.
    pub keeps_times: bool,
    /// Whether the client has surely received the reply to its last OPEN.
    pub is_settled: bool,
    /// The lock-owners that have a stateid through an open.
    pub lock_owners: Vec<RecordedLockOwner>,
}

/// A lock-owner that has a stateid through an open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedLockOwner {
    /// The `other` part of the stateid.
    pub other: [u8; 12],
    /// The lock-owner, as the client calls it.
    pub owner: Box<[u8]>,
}

impl ResumableState {
    fn encode(&self, out: &mut Writer<'_>) {
        out.u32_le(self.id.seqid);
        out.bytes(&self.id.other);
        out.u16_le(self.modes.bits());
        out.u32_le(self.user.0);
        out.u32_le(self.user.1);
        out.u8(u8::from(self.keeps_times) | u8::from(self.is_settled) << 1);
        out.u32_le(self.lock_owners.len() as u32);
        for RecordedLockOwner { other, owner } in &self.lock_owners {
            out.bytes(other);
            put(out, owner);
        }
    }

    fn decode(from: &mut Cursor<'_>) -> Result<ResumableState, Truncated> {
        let id = StateId { seqid: from.u32_le()?, other: from.array()? };
        let modes = Modes::of_bits(from.u16_le()?);
        let (user, flags) = ((from.u32_le()?, from.u32_le()?), from.u8()?);
        let (keeps_times, is_settled) = (flags & 1 != 0, flags & 2 != 0);
        let lock_owners = (0..from.u32_le()?)
            .map(|_| Ok(RecordedLockOwner { other: from.array()?, owner: take(from)? }))
            .collect::<Result<_, Truncated>>()?;
        Ok(ResumableState { id, modes, user, keeps_times, is_settled, lock_owners })
    }
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
        let kind = u8::from(self.kind == RecordedKind::Delegation);
        match &self.resumable {
            None => out.u8(kind),
            Some(state) => {
                out.u8(kind | RESUMABLE);
                state.encode(&mut out);
            }
        }
        out.u32_le(self.export);
        out.u32_le(self.access.bits());
        out.u32_le(self.deny.bits());
        out.bytes(&self.owner);
        bytes
    }

    /// Encodes the note within [`MAX_NOTE`] bytes: without what makes it the same state if that is too long.
    fn encode_bounded(self) -> Vec<u8> {
        let bytes = self.encode();
        if bytes.len() <= MAX_NOTE { bytes } else { Note { resumable: None, ..self }.encode() }
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
        let kind = from.u8()?;
        let resumable = match kind & RESUMABLE {
            0 => None,
            _ => Some(ResumableState::decode(&mut from)?),
        };
        let kind = match kind & !RESUMABLE {
            0 => RecordedKind::Open,
            1 => RecordedKind::Delegation,
            _ => return Err(Truncated { at: 1 }),
        };
        let export = from.u32_le()?;
        let access = ShareAccess::from_bits_retain(from.u32_le()?);
        let deny = ShareDeny::from_bits_retain(from.u32_le()?);
        let owner = from.bytes(from.remaining())?.into();
        Ok(Note { kind, owner, export, access, deny, resumable })
    }
}

/// The note of a state of a client, with the pairs of access and deny of an open. The caller keeps other
/// changes of the state away.
#[must_use]
pub fn note_of(client: &Client, state: &LockingState, modes: Modes) -> Vec<u8> {
    let holding = state.holding();
    let (kind, owner) = match state.opened() {
        Some(open) => (RecordedKind::Open, open.owner.clone()),
        None => (RecordedKind::Delegation, Box::default()),
    };
    let locks = client.locks_through(state, MAX_LOCK_OWNERS + 1);
    let user = holding.open.identity();
    let resumable = ResumableState {
        id: state.id(),
        modes,
        user: (user.uid, user.gid),
        keeps_times: state.delegation().is_some_and(|delegation| delegation.before().is_some()),
        is_settled: state.is_settled(),
        lock_owners: locks.iter().filter_map(|state| named(state)).collect(),
    };
    let (access, deny) = (holding.access, holding.deny);
    let resumable = (locks.len() <= MAX_LOCK_OWNERS).then_some(resumable);
    Note { kind, owner, export: state.export.id, access, deny, resumable }.encode_bounded()
}

fn named(locks: &LockingState) -> Option<RecordedLockOwner> {
    Some(RecordedLockOwner { other: locks.id().other, owner: locks.locks()?.owner.clone() })
}

/// Has the engine record a state of a client, so that the client has it after a restart. The caller keeps
/// other changes of the state away. Returns false if the state ends with the server.
#[must_use]
pub fn enlist(client: &Client, state: &LockingState, modes: Modes) -> bool {
    let engine = &state.export.engine;
    if !engine.keeps_opens() {
        return false;
    }
    let note = note_of(client, state, modes);
    let done = engine.enlist(&state.holding().open, state.handle.address(), note);
    if let Err(why) = &done {
        let export = &state.export.name;
        tracing::warn!(%export, %why, "an open could not be recorded; it ends with the server");
    }
    done.is_ok()
}

/// Changes the note of a recorded state.
pub fn note_again(client: &Client, state: &LockingState, modes: Modes) {
    let engine = &state.export.engine;
    if engine.keeps_opens() {
        engine.set_record_note(&state.holding().open, note_of(client, state, modes));
    }
}

/// The same, with the next record or at the next tick.
pub fn note_lazily(client: &Client, state: &LockingState, modes: Modes) {
    let engine = &state.export.engine;
    if engine.keeps_opens() {
        engine.set_record_note_lazily(&state.holding().open, note_of(client, state, modes));
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
    /// Its client ID. Zero if it cannot be used again after a restart.
    pub id: u64,
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
                // An earlier version recorded no client ID.
                out.u8(if known.id == 0 { 1 } else { 3 });
                out.u128_le(known.key.0);
                if known.id != 0 {
                    out.u64_le(known.id);
                }
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
            kind @ (1 | 3) => ClientRecord::Confirmed(RecordedIdentity {
                key: ClientKey(from.u128_le()?),
                id: if kind == 3 { from.u64_le()? } else { 0 },
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
        let (key, owner) = (ClientKey(5), Box::from(*b"me"));
        let known = RecordedIdentity { key, id: 6, owner, verifier: [3; 8], principal };
        let earlier = ClientRecord::Confirmed(RecordedIdentity { id: 0, ..known.clone() });
        let head = ClientRecord::Head { version: VERSION, boot: Box::from(*b"boot") };
        for record in [head, ClientRecord::Confirmed(known), earlier, ClientRecord::Gone(ClientKey(9))] {
            let bytes = record.encode();
            assert_eq!(ClientRecord::decode(&bytes), Ok(record));
            assert!((0..bytes.len()).all(|len| ClientRecord::decode(&bytes[..len]).is_err()));
        }
        assert!(ClientRecord::decode(&[4]).is_err());
    }

    #[test]
    fn a_note_is_read_with_and_without_what_makes_its_state_the_same_again() {
        let (access, deny) = (ShareAccess::BOTH, ShareDeny::WRITE);
        let (kind, owner) = (RecordedKind::Delegation, Box::from(*b"owner"));
        let locker = RecordedLockOwner { other: [8; 12], owner: Box::from(*b"locker") };
        let resumable = ResumableState {
            id: StateId { seqid: 3, other: [9; 12] },
            modes: Modes::of_bits(0x120),
            user: (7, 8),
            keeps_times: true,
            is_settled: false,
            lock_owners: vec![locker.clone(), locker],
        };
        let note = Note { kind, owner, export: 7, access, deny, resumable: None };
        for (resumable, least) in [(None, 14), (Some(resumable), 14 + 31 + 44)] {
            let note = Note { resumable, ..note.clone() };
            let bytes = note.encode();
            assert!(Note::is_one(&bytes) && !Note::is_one(&[2]) && !Note::is_one(&[]));
            assert_eq!(Note::decode(&bytes), Ok(note));
            assert!((0..least).all(|len| Note::decode(&bytes[..len]).is_err()));
            assert!(Note::decode(&[&[1], &bytes[1..]].concat()).is_err());
        }
    }
}
