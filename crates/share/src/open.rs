//! One open of a file, a directory or a stream, as a client holds it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bitflags::bitflags;
use metering::FileNumber;
use volume::security::Rights;
use volume::{Name, Node, NodeId, Time};

use crate::caching::grants::Requester;
use crate::engine::parts::file::{File, HardLinkedName, Stream};
use crate::engine::parts::followed_links::FollowedLinks;
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::deferred_close::OpenNode;
use crate::memory::{Charge, MemoryAccount};
use crate::ranked::{Mutex, RwLock};
use crate::{Attributes, CacheKey, Caching, ClientDetails, ClientKey, Deny, Identity, Info, Options};

pub use crate::caching::grants::Grant;

/// The effect of an open on the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It existed and was replaced.
    Superseded,
    /// It existed.
    Opened,
    /// It was created.
    Created,
    /// It existed and was cut to nothing.
    Overwritten,
}

/// The result of a request to open.
#[derive(Debug)]
pub struct OpenResult {
    /// The open. It lives until [`crate::Share::close`].
    pub open: Arc<Open>,
    /// The effect on the name.
    pub outcome: Outcome,
    /// The properties of the file.
    pub info: Info,
    /// The caching right, if one was asked for. Its state may be nothing.
    pub granted: Option<Grant>,
}

bitflags! {
    /// Times that an open holds fixed: actions through it do not change them, though another open may.
    // MS-FSA 2.1.1.6
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct FixedTimes: u8 {
        const ACCESSED = 1;
        const MODIFIED = 2;
        const CHANGED = 4;
    }
}

/// A flag among an open's unreported changes. Holders that cache the directory do not know yet that its entry
/// of the file has changed. They are notified at the flush or close, not with each write.
pub(crate) const UNSEEN: u32 = 1 << 31;

/// The owner of an open. Another one takes its place when the open is reclaimed.
#[derive(Clone)]
pub(crate) struct OpenParty {
    pub client: ClientKey,
    pub identity: Arc<Identity>,
    pub requester: Requester,
    /// The session through which it was opened; none after a restart.
    pub details: Option<Arc<ClientDetails>>,
}

/// One open of a file, a directory or a stream.
pub struct Open {
    pub(crate) id: u64,
    pub(crate) file: Arc<File>,
    pub(crate) stream: Arc<Stream>,
    /// The node with the data: the file or one of its streams.
    pub(crate) data: Arc<dyn Node>,
    /// The file itself: attributes, notes, names. It is the last of the references to it to be dropped, and
    /// the fields above may be others.
    pub(crate) node: OpenNode,
    /// The name by which it was opened; none for the root.
    pub(crate) link: Option<Arc<HardLinkedName>>,
    pub(crate) granted: Rights,
    pub(crate) deny: Deny,
    pub(crate) options: Options,
    /// Each operation reads it, and it seldom changes. A lock is quicker to make and drop than an `ArcSwap`.
    pub(crate) party: RwLock<OpenParty>,
    pub(crate) opened_at: Time,
    pub(crate) closed: AtomicBool,
    /// Its client is gone and it is kept. It changes under the file's lock.
    pub(crate) detached: AtomicBool,
    /// It is recorded and outlives the process.
    pub(crate) persistent: AtomicBool,
    /// It is recorded for a client that will claim its state itself. Its close, or the release of a range,
    /// need not be recorded at once.
    pub(crate) claimed: AtomicBool,
    /// As bits of [`FixedTimes`].
    pub(crate) fixed_times: AtomicU8,
    /// Changes that were made and not reported yet, as bits of `ChangeFilter`, and [`UNSEEN`].
    pub(crate) unreported: AtomicU32,
    /// The last of the file's failed flushes that was reported to its client.
    pub(crate) told_failures: AtomicU64,
    /// The links on its path; mostly there are none.
    pub(crate) followed: OnceLock<Box<FollowedLinks>>,
    pub(crate) watch: Mutex<Option<Arc<crate::watch::DirectoryWatch>>>,
    /// Its part of the memory for clients.
    pub(crate) charge: Mutex<Charge>,
    /// Counted only while the share is audited.
    pub(crate) audited: AuditedUse,
}

/// The use of an open, for the audit.
#[derive(Debug, Default)]
pub(crate) struct AuditedUse {
    /// Bytes that were read.
    pub read: AtomicU64,
    /// Bytes that were written.
    pub written: AtomicU64,
    /// The first uses that were told, as bits of [`FirstUse`].
    pub told: AtomicU8,
}

impl AuditedUse {
    /// The use until now, for the open that takes this one's place.
    pub fn hand_over(&self) -> AuditedUse {
        AuditedUse {
            read: AtomicU64::new(self.read.load(Ordering::Relaxed)),
            written: AtomicU64::new(self.written.load(Ordering::Relaxed)),
            told: AtomicU8::new(self.told.load(Ordering::Relaxed)),
        }
    }
}

bitflags! {
    /// Uses of an open of which the audit tells the first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct FirstUse: u8 {
        const READ = 1;
        const WRITE = 2;
        const LIST = 4;
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("id", &self.id).field("node", &self.file.id).finish_non_exhaustive()
    }
}

impl Open {
    /// A number that is unique within its share.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The file.
    pub fn node_id(&self) -> NodeId {
        self.file.id
    }

    /// The file's number, as limits and counters know it.
    pub fn file_number(&self) -> FileNumber {
        let NodeId { device, inode } = self.file.id;
        FileNumber { device, inode }
    }

    /// The rights of the open.
    pub fn granted(&self) -> Rights {
        self.granted
    }

    /// The access that it denies to others.
    pub fn deny(&self) -> Deny {
        self.deny
    }

    /// The options with which it was opened.
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

    /// The account for it and its byte ranges.
    pub fn account(&self) -> MemoryAccount {
        self.charge.lock().account()
    }

    /// The client that holds it.
    pub fn client(&self) -> ClientKey {
        self.party.read().client
    }

    /// The identity that opened it.
    pub fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.party.read().identity)
    }

    /// The client, user and session that hold it.
    pub(crate) fn party(&self) -> OpenParty {
        self.party.read().clone()
    }

    /// Its origin, as far as caching rights are concerned.
    pub(crate) fn requester(&self) -> Requester {
        self.party.read().requester
    }

    /// Whether its client is gone and it is kept.
    pub fn is_detached(&self) -> bool {
        self.detached.load(Ordering::Acquire)
    }

    /// Whether it is recorded, so that it is restored after a restart.
    pub fn is_persistent(&self) -> bool {
        self.persistent.load(Ordering::Acquire)
    }

    /// Whether it outlives the process for an owner that reclaims it by its identity, and does not claim it
    /// anew.
    pub(crate) fn is_kept_for_owner(&self) -> bool {
        self.is_persistent() && !self.is_claimed_anew()
    }

    /// Whether its client claims it after a restart of the server, instead of reclaiming it by its identity.
    pub(crate) fn is_claimed_anew(&self) -> bool {
        self.claimed.load(Ordering::Acquire)
    }

    /// Whether it is closed when its client is back and does not reclaim it: it outlives the process, or its
    /// client has marked its name for deletion.
    pub(crate) fn may_be_unclaimed(&self) -> bool {
        self.is_kept_for_owner()
            || self.link.as_ref().is_some_and(|link| {
                let deleter = self.file.state.lock().deleter(link);
                deleter.is_some_and(|deleter| deleter.client == self.requester().client)
            })
    }

    /// The time of opening.
    pub fn opened_at(&self) -> Time {
        self.opened_at
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The times that it holds fixed.
    pub(crate) fn fixed_times(&self) -> FixedTimes {
        FixedTimes::from_bits_truncate(self.fixed_times.load(Ordering::Relaxed))
    }

    /// The name that it has now in its directory; none for the root.
    pub fn name(&self) -> Option<Name> {
        self.link.as_ref().map(|link| link.parent_and_name().1)
    }

    /// The parent and name; none for the root, and for a file that was found by its address.
    pub(crate) fn parent_and_name(&self) -> Option<(Arc<Directory>, Name)> {
        self.link.as_ref().map(|link| link.parent_and_name())
    }

    /// The path that it has now, from the root of the share.
    pub(crate) fn path(&self) -> Vec<Name> {
        self.link.as_ref().map_or_else(Vec::new, |link| link.path())
    }

    /// The caching right of its key, or its own, as it is held now.
    pub fn caching(&self) -> Option<Grant> {
        let Requester { client, key, .. } = self.requester();
        let (key, keyed) = key?;
        self.file.grant_of(&self.stream, (client?, key, keyed))
    }

    /// The key of its caching right, if it was opened with one.
    pub fn cache_key(&self) -> Option<CacheKey> {
        self.requester().key.map(|(key, _)| key)
    }

    /// Whether it was opened with a request for a caching right.
    pub fn asked_for_caching(&self) -> bool {
        self.requester().key.is_some()
    }

    /// Whether its right lets the client hold writes back.
    pub fn caches_writes(&self) -> bool {
        self.caching().is_some_and(|grant| grant.state.contains(Caching::WRITE))
    }

    /// Attribute bits as they were last seen, without asking the volume.
    pub fn known_attributes(&self) -> Option<Attributes> {
        self.file.record().and_then(|record| record.attributes)
    }
}
