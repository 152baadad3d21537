//! Opens that outlive the server (MS-SMB2 3.3.1.10 IsPersistent). The engine records each of them. This
//! module adds the SMB part of such a record.
//! [`Server::restore_open`](super::server::Server::restore_open) makes an Open from it after a restart.

use share::ClientKey;
use smb_wire::Guid;
use smb_wire::create::CreateAction;
use smb_wire::create_context::{Lease, LeaseFlags, LeaseState, LeaseV2};
use smb_wire::id::LeaseKey;
use wire::{Cursor, Truncated, Writer};

use super::durable::{CreateRecord, Instance, ReplayParameters};
use super::open::Open;
use super::sequence::{LOCKS, LockSequences};

/// The first byte of a note. Another value is another version.
const NOTE_VERSION: u8 = 2;

/// The SMB part of a persistent Open's record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    pub persistent: u64,
    pub oplock_key: u128,
    pub timeout_ms: u32,
    pub is_replayable: bool,
    pub locks: [u8; LOCKS],
    pub create_record: CreateRecord,
}

impl Note {
    fn of(open: &Open, locks: [u8; LOCKS]) -> Option<Note> {
        let durable = open.survival.lock().durable.filter(|durable| durable.persistent)?;
        Some(Note {
            persistent: open.id.persistent,
            oplock_key: open.oplock_key.0,
            timeout_ms: durable.timeout_ms,
            is_replayable: open.is_replayable(),
            locks,
            create_record: open.create_record.get()?.clone(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        let mut out = Writer::new(&mut bytes);
        out.u8(NOTE_VERSION);
        out.u64_le(self.persistent);
        out.u128_le(self.oplock_key);
        out.u32_le(self.timeout_ms);
        out.u8(u8::from(self.is_replayable));
        out.bytes(&self.locks);
        let CreateRecord { client, create_guid, lease, action, instance, asked_for } = &self.create_record;
        out.u128_le(client.0);
        put(&mut out, create_guid.as_ref(), |out, guid| out.bytes(&guid.0));
        put(&mut out, lease.as_ref(), |out, lease| {
            out.bytes(&lease.key.0);
            out.u32_le(lease.state.bits());
            out.u32_le(lease.flags.bits());
            put(out, lease.v2.as_ref(), |out, v2| {
                out.bytes(&v2.parent_key.0);
                out.u16_le(v2.epoch);
            });
        });
        out.u32_le(action.get());
        put(&mut out, instance.as_ref(), |out, instance| {
            out.bytes(&instance.id.0);
            put(out, instance.version.as_ref(), |out, (high, low)| {
                out.u64_le(*high);
                out.u64_le(*low);
            });
        });
        out.u32_le(asked_for.options);
        out.u32_le(asked_for.access);
        out.u32_le(asked_for.share);
        bytes
    }

    /// Decodes the bytes that [`begin`] has recorded.
    pub fn decode(bytes: &[u8]) -> Result<Note, Truncated> {
        let mut from = Cursor::new(bytes);
        if from.u8()? != NOTE_VERSION {
            return Err(Truncated { at: 0 });
        }
        let persistent = from.u64_le()?;
        let oplock_key = from.u128_le()?;
        let timeout_ms = from.u32_le()?;
        let is_replayable = from.u8()? != 0;
        let locks = from.array()?;
        let client = ClientKey(from.u128_le()?);
        let create_guid = take(&mut from, |from| Ok(Guid(from.array()?)))?;
        let lease = take(&mut from, |from| {
            Ok(Lease {
                key: LeaseKey(from.array()?),
                state: LeaseState::from_bits_retain(from.u32_le()?),
                flags: LeaseFlags::from_bits_retain(from.u32_le()?),
                v2: take(from, |from| {
                    Ok(LeaseV2 { parent_key: LeaseKey(from.array()?), epoch: from.u16_le()? })
                })?,
            })
        })?;
        let action = CreateAction::new(from.u32_le()?);
        let instance = take(&mut from, |from| {
            let id = Guid(from.array()?);
            Ok(Instance { id, version: take(from, |from| Ok((from.u64_le()?, from.u64_le()?)))? })
        })?;
        let asked_for =
            ReplayParameters { options: from.u32_le()?, access: from.u32_le()?, share: from.u32_le()? };
        let create_record = CreateRecord { client, create_guid, lease, action, instance, asked_for };
        Ok(Note { persistent, oplock_key, timeout_ms, is_replayable, locks, create_record })
    }
}

fn put<T>(out: &mut Writer<'_>, value: Option<&T>, how: impl FnOnce(&mut Writer<'_>, &T)) {
    out.u8(u8::from(value.is_some()));
    if let Some(value) = value {
        how(out, value);
    }
}

fn take<T>(
    from: &mut Cursor<'_>,
    how: impl FnOnce(&mut Cursor<'_>) -> Result<T, Truncated>,
) -> Result<Option<T>, Truncated> {
    if from.u8()? == 0 { Ok(None) } else { how(from).map(Some) }
}

/// Records a new Open. Returns false if that fails. The Open then ends with the server.
// MS-SMB2 3.3.5.9.10
pub(crate) fn begin(open: &Open) -> bool {
    let Some((engine, file)) = open.file() else { return false };
    let Some(note) = Note::of(open, open.locks.all()) else { return false };
    let keep_ns = u64::from(note.timeout_ms) * 1_000_000;
    match engine.record(file, keep_ns, note.encode()) {
        Ok(()) => true,
        Err(why) => {
            let share = engine.name();
            tracing::warn!(%share, %why, "a persistent open could not be recorded; it is durable only");
            false
        }
    }
}

/// The note that is recorded in one step with the byte ranges of a LOCK. It says which lock sequence numbers
/// are done. The engine builds it where it orders such changes, since several may run at once. `change` is
/// applied to the sequence numbers there.
pub(crate) fn lock_note(open: &Open, change: impl Fn(&LockSequences)) -> impl Fn() -> Option<Vec<u8>> {
    // The other values of the note do not change.
    let note =
        open.file().filter(|(_, file)| file.is_persistent()).and_then(|_| Note::of(open, open.locks.all()));
    move || {
        change(&open.locks);
        note.as_ref().map(|note| Note { locks: open.locks.all(), ..note.clone() }.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_no_other_bytes_are() {
        let lease = Lease {
            key: LeaseKey([3; 16]),
            state: LeaseState::READ_CACHING,
            flags: LeaseFlags::PARENT_LEASE_KEY_SET,
            v2: Some(LeaseV2 { parent_key: LeaseKey([4; 16]), epoch: 7 }),
        };
        let create_record = CreateRecord {
            client: ClientKey(5),
            create_guid: Some(Guid([6; 16])),
            lease: Some(lease),
            action: CreateAction::Created,
            instance: Some(Instance { id: Guid([8; 16]), version: Some((1, 2)) }),
            asked_for: ReplayParameters { options: 1, access: 2, share: 3 },
        };
        let note = Note {
            persistent: 9,
            oplock_key: 10,
            timeout_ms: 11,
            is_replayable: true,
            locks: [1; LOCKS],
            create_record,
        };
        let bytes = note.encode();
        assert_eq!(Note::decode(&bytes).unwrap(), note);
        assert!((0..bytes.len()).all(|len| Note::decode(&bytes[..len]).is_err()));
        assert!(Note::decode(&[&[1], &bytes[1..]].concat()).is_err());
    }
}
