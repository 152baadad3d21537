//! Open: what CREATE made (MS-SMB2 3.3.1.10).
//!
//! An Open has two halves. [`Body`] is what it is and stays for its whole life; [`Open`] says by which id
//! and through which session and tree it is reached, and is made anew when a client comes back for it
//! ([`Open::rebound`]). The table of Opens holds the newest, so that READ and WRITE find session, tree and
//! file by one load and no lock.

mod changes;
pub(crate) mod changing;
pub(crate) mod listing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use share::{ClientKey, Identity, LockOwner, Share};
use smb_wire::FileId;
use smb_wire::rpc::Pipe;
use wire::Now;

use changes::{Awaiting, Changes, Looks};
use listing::Listing;

use super::durable::{Made, Promise, Survival};
use super::sequence::{ChannelSequence, LockSequences, RefusedLocks};
use super::tree::Tree;
use crate::info::Kept;
use crate::table::Keyed;

/// What an Open leads to.
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

/// The session of an Open that has none, since its client is gone: no session's id is zero.
pub const NO_SESSION: u64 = 0;

/// One Open, as one session reaches it.
pub struct Open {
    /// Both halves of its id. The volatile one is another after a reconnect.
    pub id: FileId,
    /// The session it belongs to, or [`NO_SESSION`].
    pub session_id: u64,
    /// The client of that session.
    pub client: ClientKey,
    /// Which of its lives this is: only in that anything is changed through it.
    pub(crate) life: u32,
    /// The tree it is reached through; of an Open without session, the one it was last reached through.
    pub tree: Arc<Tree>,
    body: Arc<Body>,
}

/// An Open that leads to a file of a share, taken apart. What has one needs no answer for pipes.
#[derive(Clone, Copy)]
pub(crate) struct OnDisk<'a> {
    pub open: &'a Open,
    /// The share's engine.
    pub engine: &'a Arc<Share>,
    /// The engine's side of the Open.
    pub file: &'a Arc<share::Open>,
    /// The session's user, held to the share's limits.
    pub identity: &'a Arc<Identity>,
}

/// What every READ and WRITE on an Open changes, on one cache line and with nothing else on it: requests come on the
/// threads of several channels, and what they only look at should not go from thread to thread with it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Moving {
    /// Which requests are late.
    pub(crate) sequence: ChannelSequence,
    /// What is being changed through it.
    pub(crate) changes: Changes,
    /// What some information classes ask for.
    pub(crate) kept: Kept,
}

/// What of an Open stays the same whoever reaches it.
pub struct Body {
    /// When it was made.
    pub created: Now,
    object: OnceLock<Object>,
    /// Its directory listing.
    pub(crate) listing: Mutex<Listing>,
    /// What its requests change.
    pub(crate) moving: Moving,
    /// What only looks at it elsewhere.
    pub(crate) looks: Looks,
    /// Who waits for the last change through it, or until nothing looks at it any more.
    pub(crate) awaiting: Awaiting,
    /// The numbers of its LOCK requests.
    pub(crate) locks: LockSequences,
    /// Those of them whose first copies take nothing any more.
    pub(crate) refused_locks: RefusedLocks,
    /// The lease it was opened with.
    pub lease_key: OnceLock<[u8; 16]>,
    /// How it was asked for, where that is needed later.
    pub made: OnceLock<Made>,
    /// Whether and for how long it outlives its session. Held while a client comes back for it.
    pub survival: Mutex<Survival>,
    /// Whether its client knows of it, where it is persistent.
    pub(crate) promise: Promise,
    /// Whether the CREATE that made it may be replayed (IsReplayEligible).
    replayable: AtomicBool,
    /// The key of its own caching right.
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
    /// An Open whose object is not known yet: the id must exist before the engine is asked, since a
    /// break may come before its answer.
    pub fn new(id: FileId, session_id: u64, client: ClientKey, tree: Arc<Tree>, created: Now) -> Open {
        let body = Arc::new(Body::new(id, oplock_key(id), client, created));
        Open { id, session_id, client, life: 0, tree, body }
    }

    /// One from before a restart, without a session.
    pub(crate) fn made_again(
        id: FileId,
        oplock_key: share::CacheKey,
        client: ClientKey,
        tree: Arc<Tree>,
        created: Now,
    ) -> Open {
        let body = Arc::new(Body::new(id, oplock_key, client, created));
        Open { id, session_id: NO_SESSION, client, life: 0, tree, body }
    }

    /// The same Open under another volatile id, reached through another session and tree, in the life that it is in now.
    #[must_use]
    pub fn rebound(&self, volatile: u64, session_id: u64, client: ClientKey, tree: Arc<Tree>) -> Open {
        let id = FileId { volatile, ..self.id };
        let life = self.moving.changes.life();
        Open { id, session_id, client, life, tree, body: Arc::clone(&self.body) }
    }

    /// What it leads to, if that is a file of a share.
    pub(crate) fn on_disk(&self) -> Option<OnDisk<'_>> {
        let ((engine, file), identity) = self.file().zip(self.tree.identity())?;
        Some(OnDisk { open: self, engine, file, identity })
    }

    /// The same Open without a session.
    #[must_use]
    pub fn without_session(&self) -> Open {
        self.rebound(self.id.volatile, NO_SESSION, self.client, Arc::clone(&self.tree))
    }
}

impl Body {
    fn new(id: FileId, oplock_key: share::CacheKey, client: ClientKey, created: Now) -> Body {
        Body {
            created,
            object: OnceLock::new(),
            listing: Mutex::default(),
            moving: Moving::default(),
            looks: Looks::default(),
            awaiting: Awaiting::default(),
            locks: LockSequences::default(),
            refused_locks: RefusedLocks::default(),
            lease_key: OnceLock::new(),
            made: OnceLock::new(),
            survival: Mutex::default(),
            promise: Promise::default(),
            replayable: AtomicBool::new(false),
            oplock_key,
            lock_owner: LockOwner { client, owner: u128::from(id.persistent) },
        }
    }

    /// Its session is a new one, which sends its first request for it under this ChannelSequence.
    pub(crate) fn start_sequence(&self, sequence: u16) {
        self.refused_locks.forget();
        self.moving.sequence.start(sequence);
    }

    /// What it leads to has been opened.
    pub fn settle(&self, object: Object) {
        let _ = self.object.set(object);
    }

    /// What it leads to; none while CREATE is under way.
    #[inline]
    pub fn object(&self) -> Option<&Object> {
        self.object.get()
    }

    /// The engine's side, if it leads to a file.
    #[inline]
    pub fn file(&self) -> Option<(&Arc<Share>, &Arc<share::Open>)> {
        match self.object.get() {
            Some(Object::File { engine, open }) => Some((engine, open)),
            _ => None,
        }
    }

    /// Who owns the byte ranges that are locked through it: the same before and after a reconnect.
    #[inline]
    pub fn lock_owner(&self) -> LockOwner {
        self.lock_owner
    }

    /// Whether the CREATE that made it may be replayed.
    pub fn is_replayable(&self) -> bool {
        self.replayable.load(Ordering::Acquire)
    }

    /// The CREATE that made it may be replayed until it is used.
    pub(crate) fn set_replayable(&self) {
        self.replayable.store(true, Ordering::Release);
    }

    /// It is used, so the client knows that its CREATE has been answered.
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

/// The key of a caching right that belongs to one Open: the FileId under which it was made.
#[must_use]
pub fn oplock_key(id: FileId) -> share::CacheKey {
    share::CacheKey((u128::from(id.persistent) << 64) | u128::from(id.volatile))
}
