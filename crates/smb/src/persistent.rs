//! Opens that outlive the server (MS-SMB2 3.3.1.10 IsPersistent): what only this protocol knows of them is
//! kept beside the engine's record of each, and [`Server::restore`] makes Opens of it after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use share::{CacheKey, ClientKey, Detached, Restored, Share};
use smb_wire::create::{Access, CreateAction};
use smb_wire::create_context::{Lease, LeaseFlags, LeaseState, LeaseV2};
use smb_wire::id::LeaseKey;
use smb_wire::{FileId, Guid, NtStatus};
use wire::{Cursor, Now, Truncated, Writer};

use crate::config::ShareConfig;
use crate::durable::{Durable, Instance, Made, Survival, Version};
use crate::exchange::outcome::{Aside, Completion, Handled, Stop};
use crate::open::{Object, Open};
use crate::sequence::{LOCKS, LockSequences};
use crate::server::Server;
use crate::tree::{Target, Tree};

/// What a note begins with; another is of another version.
const NOTE_VERSION: u8 = 2;

/// What was asked for, as CREATE that is sent again must ask (MS-SMB2 3.3.5.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedFor {
    /// CreateOptions.
    pub options: u32,
    /// DesiredAccess.
    pub access: u32,
    /// ShareAccess.
    pub share: u32,
}

/// What is kept of a persistent Open beside what the engine keeps.
#[derive(Debug, Clone, PartialEq)]
struct Note {
    persistent: u64,
    oplock_key: u128,
    timeout_ms: u32,
    is_replayable: bool,
    locks: [u8; LOCKS],
    made: Made,
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
            made: open.made.get()?.clone(),
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
        let Made { client, create_guid, lease, action, instance, asked_for } = &self.made;
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

    fn decode(bytes: &[u8]) -> Result<Note, Truncated> {
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
        let asked_for = AskedFor { options: from.u32_le()?, access: from.u32_le()?, share: from.u32_le()? };
        let made = Made { client, create_guid, lease, action, instance, asked_for };
        Ok(Note { persistent, oplock_key, timeout_ms, is_replayable, locks, made })
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

/// Has a new Open recorded; false when it cannot be, and ends with the server.
// MS-SMB2 3.3.5.9.10
pub(crate) fn begin(open: &Open) -> bool {
    let Some((engine, file)) = open.file() else { return false };
    let Some(note) = Note::of(open, open.locks.all()) else { return false };
    let keep_ns = u64::from(note.timeout_ms) * 1_000_000;
    match engine.record(file, keep_ns, note.encode()) {
        Ok(()) => true,
        Err(why) => {
            tracing::warn!(share = %engine.name(), %why, "a persistent open could not be recorded; it is durable only");
            false
        }
    }
}

/// What is recorded beside the byte ranges of a LOCK, in one step with them: which numbers are done. Built where the
/// engine orders such changes, since several may be made at once; `change` is made to the numbers there.
pub(crate) fn lock_note(open: &Open, change: impl Fn(&LockSequences)) -> impl Fn() -> Option<Vec<u8>> {
    // The rest of it is settled.
    let note =
        open.file().filter(|(_, file)| file.is_lasting()).and_then(|_| Note::of(open, open.locks.all()));
    move || {
        change(&open.locks);
        note.as_ref().map(|note| Note { locks: open.locks.all(), ..note.clone() }.encode())
    }
}

/// Whether the client has been told of a persistent Open. From then on it is not taken back, whether it was the CREATE
/// that was answered or a replay of it.
#[derive(Debug, Default)]
pub(crate) struct Promise(AtomicU8);

const TOLD: u8 = 1;
const TAKEN_BACK: u8 = 2;

impl Promise {
    /// The client is told of the Open; false when that was taken back before.
    pub(crate) fn tell(&self) -> bool {
        let told = self.0.compare_exchange(0, TOLD, Ordering::AcqRel, Ordering::Acquire);
        told != Err(TAKEN_BACK)
    }

    /// The Open is not to be; false when its client has been told of it.
    pub(crate) fn take_back(&self) -> bool {
        self.0.compare_exchange(0, TAKEN_BACK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The answer, whose body is written, once everything it says of the Open is on stable storage. To be
/// returned in its place where the Open is persistent. `tell` says whether what it tells still holds, since somebody
/// else who waited may have taken it back; when this one fails, `undo` takes back what was done.
pub(crate) fn when_lasting(
    engine: &Arc<Share>,
    tell: impl FnOnce() -> bool + Send + 'static,
    undo: impl FnOnce() + Send + 'static,
) -> Stop {
    let engine = Arc::clone(engine);
    Stop::Aside(Aside::Lasting(Box::new(move |_body| {
        let status = last(&engine).inspect_err(|_| undo())?;
        // As what comes while the first is under way: it is to be tried again.
        if tell() { Ok(status) } else { Err(NtStatus::FILE_NOT_AVAILABLE) }
    })))
}

/// The same for an answer to a replay, which did nothing itself.
pub(crate) fn replay_when_lasting(open: &Arc<Open>) -> Handled {
    match open.file().filter(|(_, file)| file.is_lasting()) {
        Some((engine, _)) => {
            let open = Arc::clone(open);
            Err(when_lasting(engine, move || open.promise.tell(), || ()))
        }
        None => Ok(NtStatus::SUCCESS),
    }
}

fn last(engine: &Share) -> Completion {
    engine.make_last().map_err(|why| {
        tracing::error!(share = %engine.name(), %why, "a persistent open could not be made to last");
        crate::status::of(&why)
    })?;
    Ok(NtStatus::SUCCESS)
}

impl Server {
    /// Takes in what a share has kept over a restart: each Open waits for its client from now on.
    ///
    /// To be called before clients can connect the share.
    // MS-SMB2 3.3.7.1
    pub fn restore(&self, config: &Arc<ShareConfig>, restored: Vec<Restored>, now: Now) {
        let mut taken = 0;
        for Restored { open, keep_ns, note, is_doubtful, .. } in restored {
            match self.restore_one(config, &open, keep_ns, &note, now) {
                Ok(()) => taken += 1,
                Err(why) => {
                    if is_doubtful {
                        tracing::info!(share = %config.name, why, "an open from before the restart is closed; what it lacks may stand in a damaged record");
                    } else {
                        tracing::warn!(share = %config.name, why, "an open from before the restart is closed");
                    }
                    if let Err(why) = config.engine.close(&open, now) {
                        tracing::warn!(share = %config.name, %why, "it was closed with an error");
                    }
                }
            }
        }
        if taken > 0 {
            tracing::info!(share = %config.name, opens = taken, "opens from before the restart wait for their clients");
        }
    }

    fn restore_one(
        &self,
        config: &Arc<ShareConfig>,
        file: &Arc<share::Open>,
        keep_ns: u64,
        note: &[u8],
        now: Now,
    ) -> Result<(), &'static str> {
        let note = Note::decode(note).map_err(|_| "what was noted of it cannot be read")?;
        if self.index.by_durable_id(note.persistent).is_some() {
            return Err("another has its id");
        }
        // Should the host's clock have gone back.
        self.reserve_above(note.persistent);
        let volatile = self.opens.reserve().ok_or("there are too many")?;
        let identity = file.identity();
        let tree = Arc::new(Tree {
            id: 0,
            connected: now,
            target: Target::Disk {
                config: Arc::clone(config),
                engine: Arc::clone(&config.engine),
                identity: Arc::clone(&identity),
            },
            maximal: Access::from_bits_retain(file.granted().bits()),
            sealed: false,
            signed: false,
            speaks_numbers: AtomicBool::default(),
        });
        let id = FileId { persistent: note.persistent, volatile };
        let open = Open::made_again(id, CacheKey(note.oplock_key), note.made.client, tree, now);
        if let Some(lease) = &note.made.lease {
            let _ = open.lease_key.set(lease.key.0);
        }
        let durable = Durable { version: Version::Two, timeout_ms: note.timeout_ms, persistent: true };
        *open.survival.lock() =
            Survival { durable: Some(durable), resilient_ms: None, owner: Some(identity.sid) };
        if note.is_replayable {
            open.set_replayable();
        }
        open.locks.set_all(note.locks);
        let _ = open.made.set(note.made);
        open.settle(Object::File { engine: Arc::clone(&config.engine), open: Arc::clone(file) });
        let open = Arc::new(open);
        self.opens.fill(Arc::clone(&open));
        self.index.enter(&open, true);
        let until_ns = now.mono_ns.saturating_add(keep_ns);
        let how = Detached { until_ns, yields: false, keeper: Arc::clone(&self.reaper), token: volatile };
        config.engine.leave(file, how, now).map_err(|_| {
            self.opens.remove(volatile);
            self.index.remove(&open);
            "there are too many"
        })
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
        let made = Made {
            client: ClientKey(5),
            create_guid: Some(Guid([6; 16])),
            lease: Some(lease),
            action: CreateAction::Created,
            instance: Some(Instance { id: Guid([8; 16]), version: Some((1, 2)) }),
            asked_for: AskedFor { options: 1, access: 2, share: 3 },
        };
        let note = Note {
            persistent: 9,
            oplock_key: 10,
            timeout_ms: 11,
            is_replayable: true,
            locks: [1; LOCKS],
            made,
        };
        let bytes = note.encode();
        assert_eq!(Note::decode(&bytes).unwrap(), note);
        assert!((0..bytes.len()).all(|len| Note::decode(&bytes[..len]).is_err()));
        assert!(Note::decode(&[&[1], &bytes[1..]].concat()).is_err());
    }
}
