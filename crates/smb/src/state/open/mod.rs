//! An Open, the result of a CREATE (MS-SMB2 3.3.1.10).
//!
//! An Open has two halves. [`Body`] keeps its values for the Open's whole life. [`Open`] has the id, the
//! session and the tree. A reconnect makes a new [`Open`] ([`Open::reconnected`]) with the same body. The
//! table of Opens has the newest one. So READ and WRITE find session, tree and file with one load and no
//! lock.

mod changes;
pub(crate) mod listing;
pub(crate) mod pending;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use share::{ClientKey, Identity, LockOwner, Share};
use smb_wire::FileId;
use smb_wire::rpc::Pipe;
use wire::Now;

use changes::{Changes, EndWaiters, PendingReads};
use listing::Listing;

use super::durable::{CreateRecord, RevocationState, Survival};
use super::sequence::{ChannelSequence, LockSequences, RefusedLocks};
use super::tree::Tree;
use crate::info::PositionMode;
use crate::table::Keyed;

/// The object that an Open leads to.
pub enum Object {
    /// A file or directory of a share.
    File {
        /// The share's engine.
        engine: Arc<Share>,
        /// The engine's side of the Open.
        open: Arc<share::Open>,
    },
    /// A named pipe.
    Pipe(Mutex<Pipe>),
}

/// The session id of an Open whose client is gone. No session has the id zero.
pub const NO_SESSION: u64 = 0;

/// One Open as a session reaches it.
pub struct Open {
    /// Both halves of its id. The volatile half changes at a reconnect.
    pub id: FileId,
    /// The session it belongs to, or [`NO_SESSION`].
    pub session_id: u64,
    /// The client of that session.
    pub client: ClientKey,
    /// The number of its life. It can change the file only in that life.
    pub(crate) life: u32,
    /// The tree that it belongs to, or did if it has no session.
    pub tree: Arc<Tree>,
    body: Arc<Body>,
}

/// An Open of a file on a share, with its parts. Code that has one needs no case for pipes.
#[derive(Clone, Copy)]
pub(crate) struct OnDisk<'a> {
    pub open: &'a Open,
    /// The share's engine.
    pub engine: &'a Arc<Share>,
    /// The engine's side of the Open.
    pub file: &'a Arc<share::Open>,
    /// The session's user within the share's limits.
    pub identity: &'a Arc<Identity>,
}

/// The values that every READ and WRITE on an Open changes. They are alone on one cache line. Requests come
/// on the threads of several channels, and values that they only read should not move between the threads
/// with this line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct PerRequestState {
    /// Detects late requests.
    pub(crate) sequence: ChannelSequence,
    /// The changes under way.
    pub(crate) changes: Changes,
    /// Values for some information classes.
    pub(crate) position_mode: PositionMode,
}

/// The part of an Open that stays the same after a reconnect.
pub struct Body {
    /// When it was created.
    pub created: Now,
    object: OnceLock<Object>,
    /// Its directory listing.
    pub(crate) listing: Mutex<Listing>,
    /// The values that its requests change.
    pub(crate) per_request: PerRequestState,
    /// The read-only operations on the blocking pool.
    pub(crate) pending_reads: PendingReads,
    /// The waiters for the end of its operations.
    pub(crate) end_waiters: EndWaiters,
    /// The lock sequence numbers of its LOCK requests.
    pub(crate) locks: LockSequences,
    /// Refused LOCKs whose late first copies must have no effect.
    pub(crate) refused_locks: RefusedLocks,
    /// The key of the lease that it was opened with.
    pub lease_key: OnceLock<[u8; 16]>,
    /// The record of its CREATE, if that is needed later.
    pub create_record: OnceLock<CreateRecord>,
    /// Whether and for how long it outlives its session. It is locked during a reconnect.
    pub survival: Mutex<Survival>,
    /// Whether its client was told of it, if it is persistent.
    pub(crate) promise: RevocationState,
    /// Whether its CREATE may be replayed (IsReplayEligible).
    replayable: AtomicBool,
    /// The key of its oplock in the engine.
    pub oplock_key: share::CacheKey,
    lock_owner: LockOwner,
}

impl std::ops::Deref for Open {
    type Target = Body;

    #[inline]
    fn deref(&self) -> &Body {
        &self.body
    }
}

impl Open {
    /// An Open whose object is not set yet. Its id must exist before the call of the engine, since a break
    /// may come before that returns.
    pub fn new(id: FileId, session_id: u64, client: ClientKey, tree: Arc<Tree>, created: Now) -> Open {
        let body = Arc::new(Body::new(id, oplock_key(id), client, created));
        Open { id, session_id, client, life: 0, tree, body }
    }

    /// An Open from before a restart, without a session.
    pub(crate) fn restored(
        id: FileId,
        oplock_key: share::CacheKey,
        client: ClientKey,
        tree: Arc<Tree>,
        created: Now,
    ) -> Open {
        let body = Arc::new(Body::new(id, oplock_key, client, created));
        Open { id, session_id: NO_SESSION, client, life: 0, tree, body }
    }

    /// The same Open with another volatile id, session and tree, in the current life.
    #[must_use]
    pub fn reconnected(&self, volatile: u64, session_id: u64, client: ClientKey, tree: Arc<Tree>) -> Open {
        let id = FileId { volatile, ..self.id };
        let life = self.per_request.changes.life();
        Open { id, session_id, client, life, tree, body: Arc::clone(&self.body) }
    }

    /// The parts of the Open, if it leads to a file of a share.
    pub(crate) fn on_disk(&self) -> Option<OnDisk<'_>> {
        let ((engine, file), identity) = self.file().zip(self.tree.identity())?;
        Some(OnDisk { open: self, engine, file, identity })
    }

    /// The same Open without a session.
    #[must_use]
    pub fn without_session(&self) -> Open {
        self.reconnected(self.id.volatile, NO_SESSION, self.client, Arc::clone(&self.tree))
    }
}

impl Body {
    fn new(id: FileId, oplock_key: share::CacheKey, client: ClientKey, created: Now) -> Body {
        Body {
            created,
            object: OnceLock::new(),
            listing: Mutex::default(),
            per_request: PerRequestState::default(),
            pending_reads: PendingReads::default(),
            end_waiters: EndWaiters::default(),
            locks: LockSequences::default(),
            refused_locks: RefusedLocks::default(),
            lease_key: OnceLock::new(),
            create_record: OnceLock::new(),
            survival: Mutex::default(),
            promise: RevocationState::default(),
            replayable: AtomicBool::new(false),
            oplock_key,
            lock_owner: LockOwner { client, owner: u128::from(id.persistent) },
        }
    }

    /// Starts the ChannelSequence again for a new session, at the sequence of its first request.
    pub(crate) fn start_sequence(&self, sequence: u16) {
        self.refused_locks.forget();
        self.per_request.sequence.start(sequence);
    }

    /// Sets the object that was opened.
    pub fn settle(&self, object: Object) {
        let _ = self.object.set(object);
    }

    /// Its object. `None` while the CREATE is under way.
    #[inline]
    pub fn object(&self) -> Option<&Object> {
        self.object.get()
    }

    /// The engine's side, if the Open leads to a file.
    #[inline]
    pub fn file(&self) -> Option<(&Arc<Share>, &Arc<share::Open>)> {
        match self.object.get() {
            Some(Object::File { engine, open }) => Some((engine, open)),
            _ => None,
        }
    }

    /// The owner of its byte-range locks. It stays the same at a reconnect.
    #[inline]
    pub fn lock_owner(&self) -> LockOwner {
        self.lock_owner
    }

    /// Whether its CREATE may be replayed.
    pub fn is_replayable(&self) -> bool {
        self.replayable.load(Ordering::Acquire)
    }

    /// Allows a replay of its CREATE until the Open is used.
    pub(crate) fn set_replayable(&self) {
        self.replayable.store(true, Ordering::Release);
    }

    /// Records the first use. The client knows by then that its CREATE was answered.
    #[inline]
    pub(crate) fn used(&self) {
        if self.replayable.load(Ordering::Relaxed) {
            self.replayable.store(false, Ordering::Release);
        }
    }
}

impl Keyed for Open {
    fn key(&self) -> u64 {
        self.id.volatile
    }
}

/// The engine's key of an Open's oplock: the FileId at its creation.
#[must_use]
pub fn oplock_key(id: FileId) -> share::CacheKey {
    share::CacheKey((u128::from(id.persistent) << 64) | u128::from(id.volatile))
}
