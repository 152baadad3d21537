//! The state of a file while it is open: its opens, names, streams and rights.
//!
//! A [`File`] is in the table from its first open to its last close, and longer while there is a reference to
//! it (`table`). The state that two opens must agree on is in its one [`FileState`], under one lock.

mod queries;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use volume::security::Rights;
use volume::{Name, Node, NodeId, NodeKind, OpenHow, Stat};

use crate::caching::grants::{GrantConditions, Grants, Requester};
use crate::engine::parts::names::cache::NewFile;
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;
use crate::open::OpenParty;
use crate::ranges::table::Ranges;
use crate::ranked::{Mutex, Rank};
use crate::{Caching, ClientKey, Deny, Open, Options, Ticket};

/// Rights whose use others may deny. An open with one of them counts for sharing.
// MS-FSA 2.1.5.1.2.2
pub(crate) const SHARED_RIGHTS: Rights = Rights::READ_DATA
    .union(Rights::EXECUTE)
    .union(Rights::WRITE_DATA)
    .union(Rights::APPEND_DATA)
    .union(Rights::DELETE);

/// Permission bits that let a program run with the rights of its owner and its group.
pub(crate) const SET_ID_BITS: u32 = 0o6000;

/// The bit by which a program runs with the rights of its group. In a directory it gives new objects the
/// directory's group.
pub(crate) const SET_GROUP: u32 = 0o2000;

/// A file that is open.
pub(crate) struct File {
    pub id: NodeId,
    pub kind: NodeKind,
    pub is_directory: bool,
    /// The number of requests that decide about it and have not opened it yet
    /// ([`FileRef`](crate::engine::parts::open_files::FileRef)).
    pub references: AtomicUsize,
    /// Counts changes of data since it was opened.
    pub changes: AtomicU64,
    /// Counts changes of its times, mode, owner and storage, new names, sidecar data, and changes reported by
    /// the host.
    pub own_changes: AtomicU64,
    /// Whether the time of modification was put back. The next change of data then sets it, because that
    /// change may have come before.
    pub time_put_back: AtomicBool,
    /// How often the host could not store data that was written to it or one of its streams.
    pub failed_syncs: AtomicU64,
    /// Whether the host may let it run with the rights of its owner or group. The next change of its data
    /// clears those bits.
    pub may_set_id: AtomicBool,
    /// When the oldest of its caching rights was granted (monotonic seconds).
    pub granted_s: AtomicU64,
    /// Held while its sidecar data (its record, descriptor, extended attributes) is read, changed and stored
    /// again.
    pub beside: Mutex<()>,
    pub state: Mutex<FileState>,
}

/// One name of a file, as opens know it.
pub(crate) struct HardLinkedName {
    parent_and_name: Mutex<(Arc<Directory>, Name)>,
}

impl HardLinkedName {
    /// The current parent and name.
    pub fn parent_and_name(&self) -> (Arc<Directory>, Name) {
        self.parent_and_name.lock().clone()
    }

    /// Appends its current path with slashes. It allocates nothing but room in `out`.
    pub fn append_path(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let parent = {
            let parent_and_name = self.parent_and_name.lock();
            out.extend_from_slice(parent_and_name.1.as_bytes());
            Arc::clone(&parent_and_name.0)
        };
        out.push(b'/');
        parent.insert_path(start, out);
    }

    pub fn set_place(&self, directory: Arc<Directory>, name: Name) {
        *self.parent_and_name.lock() = (directory, name);
    }

    pub fn is_at(&self, directory: NodeId, name: &Name) -> bool {
        let parent_and_name = self.parent_and_name.lock();
        parent_and_name.0.id == directory && parent_and_name.1 == *name
    }

    /// Its current path from the root of the share.
    pub fn path(&self) -> Vec<Name> {
        let (parent, name) = self.parent_and_name();
        parent.path_to(&name)
    }
}

/// A stream of a file, the unnamed one included.
pub(crate) struct Stream {
    pub is_named: bool,
    name: Mutex<Option<Name>>,
    /// Whether there may be byte ranges. If false, there are none, and no lock is needed to know it.
    pub has_ranges: AtomicBool,
    /// Whether there may be a caching right. If false, there is none, and no lock is needed to know it.
    pub has_grants: AtomicBool,
    /// Held by a write behind the end, wherever that is.
    pub appending: Mutex<()>,
    /// The number of caching rights that were granted ([`Stream::given`]).
    pub gave: AtomicU64,
}

impl Stream {
    fn new(name: Option<Name>) -> Arc<Stream> {
        Arc::new(Stream {
            is_named: name.is_some(),
            name: Mutex::new(Rank::StreamName, name),
            has_ranges: AtomicBool::new(false),
            has_grants: AtomicBool::new(false),
            appending: Mutex::of_default(Rank::Appending),
            gave: AtomicU64::new(0),
        })
    }

    /// The number of rights granted until now. Take it before holders are asked to release their rights. Pass
    /// it to [`Share::catch_up`](crate::engine::Share::catch_up) after the action for which they released
    /// them.
    pub fn given(&self) -> u64 {
        self.gave.load(Ordering::SeqCst)
    }

    pub fn name(&self) -> Option<Name> {
        if self.is_named { self.name.lock().clone() } else { None }
    }

    pub fn set_name(&self, name: Name) {
        *self.name.lock() = Some(name);
    }

    /// The stat of a named stream.
    pub fn figures(&self, data: &dyn Node) -> volume::Result<Option<Stat>> {
        if self.is_named { data.stat().map(Some) } else { Ok(None) }
    }
}

/// The state that opens of one stream share.
pub(crate) struct StreamState {
    pub stream: Arc<Stream>,
    pub ranges: Ranges,
    pub grants: Grants,
    /// Whether the stream is named and is deleted with its last open.
    pub delete: bool,
}

impl StreamState {
    /// Updates the flags that say without the lock that there is nothing.
    pub fn publish(&self) {
        self.stream.has_ranges.store(!self.ranges.is_empty(), Ordering::Release);
        self.stream.has_grants.store(!self.grants.is_empty(), Ordering::Release);
    }
}

/// The moment when a name is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// With the last open.
    WithLast,
    /// With the open that requested it, while others go on without a name.
    WithOpen(u64),
}

impl Deletion {
    /// The mark that the close of the open `id`, made with these options, puts on the name; none if it puts
    /// none.
    pub fn on_close(id: u64, options: Options) -> Option<Deletion> {
        let how = if options.contains(Options::DELETE_AT_ONCE) {
            Deletion::WithOpen(id)
        } else {
            Deletion::WithLast
        };
        options.contains(Options::DELETE_ON_CLOSE).then_some(how)
    }
}

/// The state that opens through one name share.
pub(crate) struct LinkState {
    pub link: Arc<HardLinkedName>,
    pub delete: Option<Deletion>,
    /// The origin of the request that marked it.
    pub deleter: Requester,
    /// The user as whom the host removes the name, and the client, whichever open closes last. Both are not
    /// known after a restart.
    pub deletes_as: Option<OpenParty>,
    /// The name was removed. The remaining opens go on.
    pub removed: bool,
}

/// The part of an open that other opens must know.
pub(crate) struct Member {
    pub id: u64,
    pub stream: Arc<Stream>,
    pub link: Option<Arc<HardLinkedName>>,
    /// The rights of the open that count for sharing; none if the open does not count.
    pub access: Rights,
    /// Whether the open only looks: caching covers nothing that it may do.
    pub looks: bool,
    pub deny: Deny,
    pub requester: Requester,
    /// The mark that its close puts on the name, if any.
    pub delete_on_close: Option<Deletion>,
    pub open: Weak<Open>,
}

/// The parts that were taken out of a file's state.
pub(crate) struct UnusedState {
    _streams: Vec<StreamState>,
    _links: Vec<LinkState>,
}

/// The mutable state of an open file.
#[derive(Default)]
pub(crate) struct FileState {
    /// The number of closes that are just removing a name or stream. Until they are done the file stays in
    /// the table with the state of its names. A request that comes meanwhile must find that they are being
    /// removed.
    pub removing: u32,
    pub members: Vec<Member>,
    pub links: Vec<LinkState>,
    /// The number of all its names, as far as it was seen. Clients may know it by more names than those by
    /// which it is open.
    pub names: u32,
    pub streams: Vec<StreamState>,
    /// Requests that wait for the end of opens or caching rights.
    pub waiting: Vec<Ticket>,
    /// The node with the most access. Opens that need no more share it.
    pub node: Option<Arc<dyn Node>>,
    /// The stored attribute record; none if it was not read yet.
    pub record: Option<Record>,
    pub security: Option<Arc<Security>>,
    /// The cache entry for its creation, set by one of its opens.
    pub made: Option<Arc<NewFile>>,
    /// Size of the extended attributes in list form, if it was counted.
    pub extended_size: Option<u32>,
}

impl File {
    pub fn new(id: NodeId, kind: NodeKind) -> File {
        let is_directory = kind == NodeKind::Directory;
        File {
            id,
            kind,
            is_directory,
            references: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            own_changes: AtomicU64::new(0),
            time_put_back: AtomicBool::new(false),
            failed_syncs: AtomicU64::new(0),
            may_set_id: AtomicBool::new(false),
            granted_s: AtomicU64::new(0),
            beside: Mutex::of_default(Rank::Beside),
            state: Mutex::of_default(Rank::FileState),
        }
    }

    /// Whether anything of it was changed since it was opened.
    pub fn is_changed(&self) -> bool {
        self.changes.load(Ordering::SeqCst) != 0 || self.own_changes.load(Ordering::SeqCst) != 0
    }

    /// How often the host could not store data that was written to it, since it was opened.
    pub fn failed_syncs(&self) -> u64 {
        self.failed_syncs.load(Ordering::Acquire)
    }

    /// Records permission bits that were seen or set.
    pub fn note_mode(&self, mode: u32) {
        if mode & SET_ID_BITS != 0 && self.kind == NodeKind::File {
            self.may_set_id.store(true, Ordering::Relaxed);
        }
    }
}

impl FileState {
    /// The state of a stream, which is created if it is not there.
    pub fn enter_stream(&mut self, name: Option<&Name>) -> Arc<Stream> {
        let known = self.streams.iter().find(|s| s.stream.name().as_ref() == name);
        if let Some(known) = known {
            return Arc::clone(&known.stream);
        }
        let stream = Stream::new(name.cloned());
        self.streams.push(StreamState {
            stream: Arc::clone(&stream),
            ranges: Ranges::default(),
            grants: Grants::default(),
            delete: false,
        });
        stream
    }

    /// The state of a stream with an open. It stays as long as the stream has one.
    pub fn stream(&mut self, stream: &Arc<Stream>) -> &mut StreamState {
        let at = self.streams.iter().position(|s| Arc::ptr_eq(&s.stream, stream));
        let at = at.unwrap_or_else(|| {
            self.streams.push(StreamState {
                stream: Arc::clone(stream),
                ranges: Ranges::default(),
                grants: Grants::default(),
                delete: false,
            });
            self.streams.len() - 1
        });
        &mut self.streams[at]
    }

    /// The state of a name, which is created if it is not there.
    pub fn enter_link(&mut self, directory: &Arc<Directory>, name: &Name) -> Arc<HardLinkedName> {
        let known = self.links.iter().find(|l| !l.removed && l.link.is_at(directory.id, name));
        if let Some(known) = known {
            return Arc::clone(&known.link);
        }
        let link = Arc::new(HardLinkedName {
            parent_and_name: Mutex::new(Rank::LinkPlace, (Arc::clone(directory), name.clone())),
        });
        self.links.push(LinkState {
            link: Arc::clone(&link),
            delete: None,
            deleter: Requester::NOBODY,
            deletes_as: None,
            removed: false,
        });
        link
    }

    pub fn link(&mut self, link: &Arc<HardLinkedName>) -> Option<&mut LinkState> {
        self.links.iter_mut().find(|l| Arc::ptr_eq(&l.link, link))
    }

    /// Whether one of its names is known.
    pub fn has_known_name(&self) -> bool {
        self.links.iter().any(|entry| !entry.removed)
    }

    /// Whether only a part of its names is known, so that any name that is removed may be one of them.
    pub fn has_unknown_names(&self) -> bool {
        (self.links.iter().filter(|entry| !entry.removed).count() as u64) < u64::from(self.names)
    }

    /// Whether the name is removed with its last open.
    pub fn is_deleted(&self, link: Option<&Arc<HardLinkedName>>) -> bool {
        link.is_some_and(|link| {
            self.links.iter().any(|l| Arc::ptr_eq(&l.link, link) && (l.delete.is_some() || l.removed))
        })
    }

    /// The requester that has marked a name for deletion.
    pub fn deleter(&self, link: &Arc<HardLinkedName>) -> Option<Requester> {
        let entry = self.links.iter().find(|entry| Arc::ptr_eq(&entry.link, link))?;
        entry.delete.map(|_| entry.deleter)
    }

    /// Stores the node if it has more access than the stored one. Returns the better one.
    pub fn share_node(&mut self, node: Arc<dyn Node>) -> Arc<dyn Node> {
        match &self.node {
            Some(kept) if kept.how() >= node.how() => Arc::clone(kept),
            _ => {
                self.node = Some(Arc::clone(&node));
                node
            }
        }
    }

    /// The stored node, if it has this access.
    pub fn node_for(&self, how: OpenHow) -> Option<Arc<dyn Node>> {
        self.node.as_ref().filter(|kept| kept.how() >= how).map(Arc::clone)
    }

    /// The conditions for a grant to `requester` on `stream`, which has storage up to `extent`. Ranges behind
    /// that do not conflict.
    // MS-FSA 2.1.5.18
    pub fn surroundings(
        &self,
        stream: &Arc<Stream>,
        requester: &Requester,
        directory: bool,
        extent: u64,
    ) -> GrantConditions {
        let is_other = |m: &&Member| {
            let same_key = m.requester.key.is_some()
                && (m.requester.client, m.requester.key) == (requester.client, requester.key);
            Arc::ptr_eq(&m.stream, stream) && !m.looks && !same_key
        };
        let others = self.members.iter().any(|m| is_other(&m));
        let writes = Rights::WRITE_DATA | Rights::APPEND_DATA;
        let writers = self.members.iter().filter(is_other).any(|m| m.access.intersects(writes));
        let state = self.streams.iter().find(|s| Arc::ptr_eq(&s.stream, stream));
        GrantConditions {
            others,
            delete_pending: state.is_some_and(|s| s.delete) || self.links.iter().any(|l| l.delete.is_some()),
            ranges: state.is_some_and(|s| s.ranges.begins_before(extent)),
            directory,
            writers,
        }
    }

    /// Whether an open with the rights `access` and the denials `deny` is compatible with the existing opens.
    // MS-FSA 2.1.5.1.2.1
    // MS-FSA 2.1.5.1.2.2
    pub fn shares(&self, stream: &Arc<Stream>, access: Rights, deny: Deny) -> bool {
        self.shares_with(stream, access, deny, |_| true)
    }

    /// As [`FileState::shares`], without the opens that are kept over a restart for clients that are not back
    /// yet.
    pub fn shares_but_for_absent(&self, stream: &Arc<Stream>, access: Rights, deny: Deny) -> bool {
        let is_absent = |open: Arc<Open>| open.is_persistent() && open.is_detached();
        self.shares_with(stream, access, deny, |member| !member.open.upgrade().is_some_and(is_absent))
    }

    /// As [`FileState::shares`], without the open `id`.
    pub fn shares_but_for(&self, id: u64, stream: &Arc<Stream>, access: Rights, deny: Deny) -> bool {
        self.shares_with(stream, access, deny, |member| member.id != id)
    }

    /// Whether a persistent open of an absent client keeps the stream from `client`. If another client's open
    /// has a right to hold writes back and to keep the file open, that right is recalled first, as if its
    /// client were there. A client that only looks at attributes is not kept from its own file: Linux looks
    /// before it reclaims its handles.
    // MS-SMB2 3.3.5.9, note 301
    pub fn is_kept_from(&mut self, client: ClientKey, looks: bool, stream: &Arc<Stream>) -> bool {
        let is_away = |open: Arc<Open>| open.is_detached() && open.is_kept_for_owner();
        let away: Vec<Requester> = self
            .members
            .iter()
            .filter(|member| {
                Arc::ptr_eq(&member.stream, stream) && member.open.upgrade().is_some_and(is_away)
            })
            .map(|member| member.requester)
            .collect();
        let topmost = Caching::READ | Caching::WRITE | Caching::HANDLE;
        away.into_iter().any(|requester| {
            let held = requester.client.zip(requester.key).and_then(|(owner, (key, keyed))| {
                self.stream(stream).grants.of(owner, key, keyed).map(|grant| grant.state)
            });
            if requester.client == Some(client) { !looks } else { held != Some(topmost) }
        })
    }

    fn shares_with(
        &self,
        stream: &Arc<Stream>,
        access: Rights,
        deny: Deny,
        counts: impl Fn(&Member) -> bool,
    ) -> bool {
        if !access.intersects(SHARED_RIGHTS) {
            return true;
        }
        self.members.iter().filter(|m| !m.access.is_empty() && counts(m)).all(|member| {
            let same = Arc::ptr_eq(&member.stream, stream);
            if same {
                return !denies(member.deny, access) && !denies(deny, member.access);
            }
            // Deleting the unnamed stream deletes the file with all the others.
            let whole = |is_named: bool, access: Rights| !is_named && access.contains(Rights::DELETE);
            let denied = deny.contains(Deny::DELETE) && whole(member.stream.is_named, member.access);
            let denying = member.deny.contains(Deny::DELETE) && whole(stream.is_named, access);
            !denied && !denying
        })
    }

    /// Takes out streams and names without opens. They may be the last references that hold a directory open,
    /// so they are to be dropped when the lock is released.
    #[must_use]
    pub fn sweep(&mut self) -> UnusedState {
        if self.removing > 0 {
            return UnusedState { _streams: Vec::new(), _links: Vec::new() };
        }
        let members = &self.members;
        let streams =
            self.streams.extract_if(.., |s| !members.iter().any(|m| Arc::ptr_eq(&m.stream, &s.stream)));
        let streams = streams.collect();
        let is_of = |m: &Member, link: &Arc<HardLinkedName>| {
            m.link.as_ref().is_some_and(|own| Arc::ptr_eq(own, link))
        };
        let links = self.links.extract_if(.., |l| !members.iter().any(|m| is_of(m, &l.link))).collect();
        UnusedState { _streams: streams, _links: links }
    }
}

/// Whether `deny` forbids a right of `access`.
fn denies(deny: Deny, access: Rights) -> bool {
    let reads = Rights::READ_DATA | Rights::EXECUTE;
    let writes = Rights::WRITE_DATA | Rights::APPEND_DATA;
    (deny.contains(Deny::READ) && access.intersects(reads))
        || (deny.contains(Deny::WRITE) && access.intersects(writes))
        || (deny.contains(Deny::DELETE) && access.contains(Rights::DELETE))
}

/// Whether these rights neither read nor write data, nor anything that caching covers.
// MS-FSA 2.1.4.12
pub(crate) fn looks_only(access: Rights) -> bool {
    let looks = Rights::READ_ATTRIBUTES | Rights::WRITE_ATTRIBUTES | Rights::SYNCHRONIZE;
    looks.contains(access.mapped())
}

/// Whether an open does not keep others from an exclusive cache of a file's data.
pub(crate) fn only_looks(granted: Rights, options: Options) -> bool {
    options.contains(Options::UNSHARED_METADATA) || looks_only(granted)
}

/// The rights of an open that count for sharing.
pub(crate) fn counted(granted: Rights, options: Options) -> Rights {
    if options.contains(Options::UNSHARED_METADATA) { Rights::empty() } else { granted & SHARED_RIGHTS }
}
