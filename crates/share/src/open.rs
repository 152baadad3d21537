//! What a client holds: one open of a file, a directory or a stream.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bitflags::bitflags;
use metering::FileNumber;
use volume::security::Rights;
use volume::{Name, Node, NodeId, Time};

use crate::caching::grants::Asker;
use crate::engine::parts::file::{File, Link, Stream};
use crate::engine::parts::names::directory::Directory;
use crate::engine::parts::trail::Followed;
use crate::engine::values::giving_back::Held;
use crate::memory::{Charge, Payer};
use crate::ranked::{Mutex, RwLock};
use crate::{Attributes, CacheKey, Caching, ClientKey, Deny, Identity, Info, Options};

pub use crate::caching::grants::Grant;

/// What became of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It existed and was replaced.
    Superseded,
    /// It existed.
    Opened,
    /// It was made.
    Created,
    /// It existed and was cut to nothing.
    Overwritten,
}

/// The answer to a request to open.
#[derive(Debug)]
pub struct Opened {
    /// The open; lives until [`crate::Share::close`].
    pub open: Arc<Open>,
    /// What became of the name.
    pub outcome: Outcome,
    /// What is known of the file.
    pub info: Info,
    /// The caching right, when one was asked for; its state may be nothing.
    pub granted: Option<Grant>,
}

bitflags! {
    /// Times that an open has taken into its hands: what is done through it leaves them as they are,
    /// though another open may move them.
    // MS-FSA 2.1.1.6
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct OwnTimes: u8 {
        const ACCESSED = 1;
        const MODIFIED = 2;
        const CHANGED = 4;
    }
}

/// Among an open's untold changes: those who keep a copy of the directory have not been told that what it
/// shows of the file is no longer so. They hear of it with the flush or close, not with each write.
pub(crate) const UNSEEN: u32 = 1 << 31;

/// Whose an open is. Another takes its place when somebody comes back for it.
#[derive(Clone)]
pub(crate) struct Party {
    pub client: ClientKey,
    pub identity: Arc<Identity>,
    pub asker: Asker,
}

/// One open of a file, a directory or a stream.
pub struct Open {
    pub(crate) id: u64,
    pub(crate) file: Arc<File>,
    pub(crate) stream: Arc<Stream>,
    /// Where the data is: the file or one of its streams.
    pub(crate) data: Arc<dyn Node>,
    /// The file itself: attributes, notes, names. Dropped last of what holds it, which fields above may do too.
    pub(crate) node: Held,
    /// The name it was opened by; none for the root.
    pub(crate) link: Option<Arc<Link>>,
    pub(crate) granted: Rights,
    pub(crate) deny: Deny,
    pub(crate) options: Options,
    /// Each operation reads it, and it seldom changes. A lock is quicker to make and drop than an `ArcSwap`.
    pub(crate) party: RwLock<Party>,
    pub(crate) opened_at: Time,
    pub(crate) closed: AtomicBool,
    /// Its client is gone and it is kept; changed under the file's lock.
    pub(crate) detached: AtomicBool,
    /// It is recorded and outlives the process.
    pub(crate) lasting: AtomicBool,
    /// It is recorded for a client that will say itself what it had: that it or a range of it is given back need
    /// not be on record at once.
    pub(crate) claimed: AtomicBool,
    /// As bits of [`OwnTimes`].
    pub(crate) own_times: AtomicU8,
    /// Changes that were made and not yet told, as bits of `ChangeFilter`, and [`UNSEEN`].
    pub(crate) untold: AtomicU32,
    /// Up to which of the file's failures to store what was written its client was told.
    pub(crate) told_failures: AtomicU64,
    /// The links by which it was come to; none is most common.
    pub(crate) followed: OnceLock<Box<Followed>>,
    pub(crate) watch: Mutex<Option<Arc<crate::watch::Watch>>>,
    /// Its part of the memory for clients.
    pub(crate) charge: Mutex<Charge>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("id", &self.id).field("node", &self.file.id).finish_non_exhaustive()
    }
}

impl Open {
    /// Unique within its share.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The file.
    pub fn node_id(&self) -> NodeId {
        self.file.id
    }

    /// The file's number, as limits and counts know it.
    pub fn file_number(&self) -> FileNumber {
        let NodeId { device, inode } = self.file.id;
        FileNumber { device, inode }
    }

    /// What the opener may do through it.
    pub fn granted(&self) -> Rights {
        self.granted
    }

    /// What others may not do meanwhile.
    pub fn deny(&self) -> Deny {
        self.deny
    }

    /// How it was opened.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The named stream; none for the file's own data.
    pub fn stream(&self) -> Option<Name> {
        self.stream.name()
    }

    /// Whether it is a directory (and not a stream of one).
    pub fn is_directory(&self) -> bool {
        self.file.is_directory && !self.stream.is_named
    }

    /// The payer for it and its byte ranges.
    pub fn payer(&self) -> Payer {
        self.charge.lock().payer()
    }

    /// Through which client it was opened.
    pub fn client(&self) -> ClientKey {
        self.party.read().client
    }

    /// Who opened it.
    pub fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.party.read().identity)
    }

    /// Whose it is, as far as caching rights are concerned.
    pub(crate) fn asker(&self) -> Asker {
        self.party.read().asker
    }

    /// Whether its client is gone and it is kept for them.
    pub fn is_detached(&self) -> bool {
        self.detached.load(Ordering::Acquire)
    }

    /// Whether it is recorded, so that it is there again after a restart.
    pub fn is_lasting(&self) -> bool {
        self.lasting.load(Ordering::Acquire)
    }

    /// Whether it outlives the process for an owner who takes it up by what it is, and does not claim it anew.
    pub(crate) fn is_kept_for_owner(&self) -> bool {
        self.is_lasting() && !self.claimed.load(Ordering::Acquire)
    }

    /// When it was opened.
    pub fn opened_at(&self) -> Time {
        self.opened_at
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The times it has taken into its hands.
    pub(crate) fn own_times(&self) -> OwnTimes {
        OwnTimes::from_bits_truncate(self.own_times.load(Ordering::Relaxed))
    }

    /// The name it has now in its directory; none for the root.
    pub fn name(&self) -> Option<Name> {
        self.link.as_ref().map(|link| link.place().1)
    }

    /// Where its name stands; none for the root, and for what was found by its address.
    pub(crate) fn place(&self) -> Option<(Arc<Directory>, Name)> {
        self.link.as_ref().map(|link| link.place())
    }

    /// The path that it has now, from the root of the share.
    pub(crate) fn path(&self) -> Vec<Name> {
        self.link.as_ref().map_or_else(Vec::new, |link| link.path())
    }

    /// The caching right that belongs to it, as its key or itself holds it now.
    pub fn caching(&self) -> Option<Grant> {
        let Asker { client, key, .. } = self.asker();
        let (key, keyed) = key?;
        self.file.grant_of(&self.stream, (client?, key, keyed))
    }

    /// The key of its caching right, if it was made with one.
    pub fn cache_key(&self) -> Option<CacheKey> {
        self.asker().key.map(|(key, _)| key)
    }

    /// Whether it was made with a wish for a caching right.
    pub fn asked_for_caching(&self) -> bool {
        self.asker().key.is_some()
    }

    /// Whether the right that belongs to it lets the client write back later.
    pub fn caches_writes(&self) -> bool {
        self.caching().is_some_and(|grant| grant.state.contains(Caching::WRITE))
    }

    /// Attribute bits as they were last seen, without asking the volume.
    pub fn known_attributes(&self) -> Option<Attributes> {
        self.file.record().and_then(|record| record.attributes)
    }
}
