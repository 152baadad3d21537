//! What is kept of a file while anybody has it open: its opens, names, streams and rights.
//!
//! A [`File`] is in the table from its first open to its last close, and longer while somebody refers to it (`table`). Everything
//! that two opens must agree on is in its one [`State`], under one lock.

mod asked;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use volume::security::Rights;
use volume::{Name, Node, NodeId, NodeKind, OpenHow, Stat};

use crate::caching::grants::{Asker, Grants, Surroundings};
use crate::engine::parts::names::cache::Made;
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;
use crate::ranges::table::Ranges;
use crate::ranked::{Mutex, Rank};
use crate::{Caching, ClientKey, Deny, Identity, Open, Options, Ticket};

/// Rights whose use others may deny, and which make an open count for sharing.
// MS-FSA 2.1.5.1.2.2
pub(crate) const SHARED_RIGHTS: Rights = Rights::READ_DATA
    .union(Rights::EXECUTE)
    .union(Rights::WRITE_DATA)
    .union(Rights::APPEND_DATA)
    .union(Rights::DELETE);

/// Permission bits that let a program run with the rights of its owner and its group.
pub(crate) const LENDING: u32 = 0o6000;

/// The bit by which a program runs with the rights of its group, and what is made in a directory belongs to its group.
pub(crate) const SET_GROUP: u32 = 0o2000;

/// A file that is open.
pub(crate) struct File {
    pub id: NodeId,
    pub kind: NodeKind,
    pub is_directory: bool,
    /// How many decide about it and do not have it open yet ([`FileRef`](crate::engine::parts::open_files::FileRef)).
    pub references: AtomicUsize,
    /// Counts changes of data since it was opened.
    pub changes: AtomicU64,
    /// Counts changes of its times, mode, owner and storage, new names, what is stored with it, and what the host told of it.
    pub own_changes: AtomicU64,
    /// Whether the time of modification was put back: the next change of data sets it, as it may have come before that.
    pub time_put_back: AtomicBool,
    /// Counts the times that the host could not store what was written to it or one of its streams.
    pub failed_syncs: AtomicU64,
    /// The host may let it run with the rights of its owner or group, which goes with the next change of its data.
    pub lends_rights: AtomicBool,
    /// When the first of the caching rights was given that somebody may hold on it (monotonic seconds).
    pub granted_s: AtomicU64,
    /// Held while what lies beside it (its record, descriptor, extended attributes) is read, changed and stored again.
    pub beside: Mutex<()>,
    pub state: Mutex<State>,
}

/// One name of a file, as opens know it.
pub(crate) struct Link {
    place: Mutex<(Arc<Directory>, Name)>,
}

impl Link {
    /// Where it is now.
    pub fn place(&self) -> (Arc<Directory>, Name) {
        self.place.lock().clone()
    }

    pub fn set_place(&self, directory: Arc<Directory>, name: Name) {
        *self.place.lock() = (directory, name);
    }

    pub fn is_at(&self, directory: NodeId, name: &Name) -> bool {
        let place = self.place.lock();
        place.0.id == directory && place.1 == *name
    }

    /// Its path now, from the root of the share.
    pub fn path(&self) -> Vec<Name> {
        let (parent, name) = self.place();
        parent.path_to(&name)
    }
}

/// A stream of a file, the unnamed one included.
pub(crate) struct Stream {
    pub is_named: bool,
    name: Mutex<Option<Name>>,
    /// Whether somebody may hold byte ranges: says without the lock that nobody does.
    pub has_ranges: AtomicBool,
    /// Whether somebody may hold a caching right: says without the lock that nobody does.
    pub has_grants: AtomicBool,
    /// Held by whoever writes behind the end, wherever that is.
    pub appending: Mutex<()>,
    /// How many caching rights were given ([`Stream::given`]).
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

    /// To be taken before the holders of rights are asked to give way, and given to
    /// [`Share::catch_up`](crate::engine::Share::catch_up) when what they gave way for is done.
    pub fn given(&self) -> u64 {
        self.gave.load(Ordering::SeqCst)
    }

    pub fn name(&self) -> Option<Name> {
        if self.is_named { self.name.lock().clone() } else { None }
    }

    pub fn set_name(&self, name: Name) {
        *self.name.lock() = Some(name);
    }

    /// Its own figures, when it is a named one.
    pub fn figures(&self, data: &dyn Node) -> volume::Result<Option<Stat>> {
        if self.is_named { data.stat().map(Some) } else { Ok(None) }
    }
}

/// What two opens of one stream must agree on.
pub(crate) struct StreamState {
    pub stream: Arc<Stream>,
    pub ranges: Ranges,
    pub grants: Grants,
    /// A named stream that goes with its last open.
    pub delete: bool,
}

impl StreamState {
    /// Brings the hints up to date that say without the lock that there is nothing.
    pub fn publish(&self) {
        self.stream.has_ranges.store(!self.ranges.is_empty(), Ordering::Release);
        self.stream.has_grants.store(!self.grants.is_empty(), Ordering::Release);
    }
}

/// How a name goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// With the last open.
    WithLast,
    /// With the open that asked for it, while others go on without a name.
    WithOpen(u64),
}

impl Deletion {
    /// How the close of the open `id`, made with these options, marks the name; none when it does not.
    pub fn on_close(id: u64, options: Options) -> Option<Deletion> {
        let how = if options.contains(Options::DELETE_AT_ONCE) {
            Deletion::WithOpen(id)
        } else {
            Deletion::WithLast
        };
        options.contains(Options::DELETE_ON_CLOSE).then_some(how)
    }
}

/// What two opens through one name must agree on.
pub(crate) struct LinkState {
    pub link: Arc<Link>,
    pub delete: Option<Deletion>,
    /// Who said so.
    pub deleter: Asker,
    /// As whom the host removes the name, whoever closes last; nobody is known after a restart.
    pub deletes_as: Option<Arc<Identity>>,
    /// The name was removed; opens that are left work on.
    pub removed: bool,
}

/// What others must know of one open.
pub(crate) struct Member {
    pub id: u64,
    pub stream: Arc<Stream>,
    pub link: Option<Arc<Link>>,
    /// What it may do, of what counts for sharing; nothing when it does not count.
    pub access: Rights,
    /// It only looks: caching covers nothing of what it may do.
    pub looks: bool,
    pub deny: Deny,
    pub asker: Asker,
    /// How its close marks the name, if it does.
    pub delete_on_close: Option<Deletion>,
    pub open: Weak<Open>,
}

/// What was taken out of a file's state.
pub(crate) struct Swept {
    _streams: Vec<StreamState>,
    _links: Vec<LinkState>,
}

/// Everything about an open file that changes.
#[derive(Default)]
pub(crate) struct State {
    /// Closes that are just removing what goes with them. Until they are done it stays in the table, and what is known of its
    /// names with it: who comes meanwhile must find that they go.
    pub removing: u32,
    pub members: Vec<Member>,
    pub links: Vec<LinkState>,
    /// How many names it has in all, as far as was seen: clients may know it by more than those it is open under.
    pub names: u32,
    pub streams: Vec<StreamState>,
    /// Requests that wait for opens or caching rights to go.
    pub waiting: Vec<Ticket>,
    /// The node that can do most, shared by opens that need no more.
    pub node: Option<Arc<dyn Node>>,
    /// The attribute record as stored; none when not read yet.
    pub record: Option<Record>,
    pub security: Option<Arc<Security>>,
    /// What is remembered of its having been made, by one of those who have it open.
    pub made: Option<Arc<Made>>,
    /// Size of the extended attributes in list form, when it was counted.
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
            lends_rights: AtomicBool::new(false),
            granted_s: AtomicU64::new(0),
            beside: Mutex::of_default(Rank::Beside),
            state: Mutex::of_default(Rank::FileState),
        }
    }

    /// Whether anything of it was changed since it was opened.
    pub fn is_changed(&self) -> bool {
        self.changes.load(Ordering::SeqCst) != 0 || self.own_changes.load(Ordering::SeqCst) != 0
    }

    /// How often the host could not store what was written to it, since it was opened.
    pub fn failed_syncs(&self) -> u64 {
        self.failed_syncs.load(Ordering::Acquire)
    }

    /// Takes note of permission bits that were seen or set.
    pub fn note_mode(&self, mode: u32) {
        if mode & LENDING != 0 && self.kind == NodeKind::File {
            self.lends_rights.store(true, Ordering::Relaxed);
        }
    }
}

impl State {
    /// The stream's state, made when it is not there.
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

    /// The state of a stream that an open is of; it stays as long as one is.
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

    /// The name's state, made when it is not there.
    pub fn enter_link(&mut self, directory: &Arc<Directory>, name: &Name) -> Arc<Link> {
        let known = self.links.iter().find(|l| !l.removed && l.link.is_at(directory.id, name));
        if let Some(known) = known {
            return Arc::clone(&known.link);
        }
        let link =
            Arc::new(Link { place: Mutex::new(Rank::LinkPlace, (Arc::clone(directory), name.clone())) });
        self.links.push(LinkState {
            link: Arc::clone(&link),
            delete: None,
            deleter: Asker::NOBODY,
            deletes_as: None,
            removed: false,
        });
        link
    }

    pub fn link(&mut self, link: &Arc<Link>) -> Option<&mut LinkState> {
        self.links.iter_mut().find(|l| Arc::ptr_eq(&l.link, link))
    }

    /// Whether it is known by any of its names.
    pub fn has_known_name(&self) -> bool {
        self.links.iter().any(|entry| !entry.removed)
    }

    /// Whether it is known only by a part of its names, so that any name that goes may be one of its.
    pub fn has_unknown_names(&self) -> bool {
        (self.links.iter().filter(|entry| !entry.removed).count() as u64) < u64::from(self.names)
    }

    /// Whether the name goes with its last open.
    pub fn is_deleted(&self, link: Option<&Arc<Link>>) -> bool {
        link.is_some_and(|link| {
            self.links.iter().any(|l| Arc::ptr_eq(&l.link, link) && (l.delete.is_some() || l.removed))
        })
    }

    /// Keeps the node if it can do more than the one that is kept; gives back the better one.
    pub fn share_node(&mut self, node: Arc<dyn Node>) -> Arc<dyn Node> {
        match &self.node {
            Some(kept) if kept.how() >= node.how() => Arc::clone(kept),
            _ => {
                self.node = Some(Arc::clone(&node));
                node
            }
        }
    }

    /// The kept node, if it can do this much.
    pub fn node_for(&self, how: OpenHow) -> Option<Arc<dyn Node>> {
        self.node.as_ref().filter(|kept| kept.how() >= how).map(Arc::clone)
    }

    /// What there is around a grant to `asker` on `stream`, which has storage up to `extent`. Ranges that are
    /// held behind that are in nobody's way.
    // MS-FSA 2.1.5.18
    pub fn surroundings(
        &self,
        stream: &Arc<Stream>,
        asker: &Asker,
        directory: bool,
        extent: u64,
    ) -> Surroundings {
        let is_other = |m: &&Member| {
            let same_key =
                m.asker.key.is_some() && (m.asker.client, m.asker.key) == (asker.client, asker.key);
            Arc::ptr_eq(&m.stream, stream) && !m.looks && !same_key
        };
        let others = self.members.iter().any(|m| is_other(&m));
        let writes = Rights::WRITE_DATA | Rights::APPEND_DATA;
        let writers = self.members.iter().filter(is_other).any(|m| m.access.intersects(writes));
        let state = self.streams.iter().find(|s| Arc::ptr_eq(&s.stream, stream));
        Surroundings {
            others,
            delete_pending: state.is_some_and(|s| s.delete) || self.links.iter().any(|l| l.delete.is_some()),
            ranges: state.is_some_and(|s| s.ranges.begins_before(extent)),
            directory,
            writers,
        }
    }

    /// Whether an open that may do `access` and denies `deny` can stand beside those that are there.
    // MS-FSA 2.1.5.1.2.1
    // MS-FSA 2.1.5.1.2.2
    pub fn shares(&self, stream: &Arc<Stream>, access: Rights, deny: Deny) -> bool {
        self.shares_with(stream, access, deny, |_| true)
    }

    /// The same, were it not for opens that are kept over a restart for clients who are not back yet.
    pub fn shares_but_for_absent(&self, stream: &Arc<Stream>, access: Rights, deny: Deny) -> bool {
        let is_absent = |open: Arc<Open>| open.is_lasting() && open.is_detached();
        self.shares_with(stream, access, deny, |member| !member.open.upgrade().is_some_and(is_absent))
    }

    /// The same, were it not for this one open.
    pub fn shares_but_for(&self, id: u64, stream: &Arc<Stream>, access: Rights, deny: Deny) -> bool {
        self.shares_with(stream, access, deny, |member| member.id != id)
    }

    /// Whether the stream is kept from `client` for somebody who is away, with an open that outlives the process. An open
    /// with which another client may write back and keep the file open is asked for that first, as if its client were there.
    /// A client that only looks at attributes is not kept from what is its own: Linux looks before it takes its handles up.
    // MS-SMB2 3.3.5.9, note 301
    pub fn is_kept_from(&mut self, client: ClientKey, looks: bool, stream: &Arc<Stream>) -> bool {
        let is_away = |open: Arc<Open>| open.is_detached() && open.is_kept_for_owner();
        let away: Vec<Asker> = self
            .members
            .iter()
            .filter(|member| {
                Arc::ptr_eq(&member.stream, stream) && member.open.upgrade().is_some_and(is_away)
            })
            .map(|member| member.asker)
            .collect();
        let topmost = Caching::READ | Caching::WRITE | Caching::HANDLE;
        away.into_iter().any(|asker| {
            let held = asker.client.zip(asker.key).and_then(|(owner, (key, keyed))| {
                self.stream(stream).grants.of(owner, key, keyed).map(|grant| grant.state)
            });
            if asker.client == Some(client) { !looks } else { held != Some(topmost) }
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

    /// Takes out streams and names that no open is of. They may be the last to hold a directory open,
    /// so they are to be dropped when the lock is released.
    #[must_use]
    pub fn sweep(&mut self) -> Swept {
        if self.removing > 0 {
            return Swept { _streams: Vec::new(), _links: Vec::new() };
        }
        let members = &self.members;
        let streams =
            self.streams.extract_if(.., |s| !members.iter().any(|m| Arc::ptr_eq(&m.stream, &s.stream)));
        let streams = streams.collect();
        let is_of = |m: &Member, link: &Arc<Link>| m.link.as_ref().is_some_and(|own| Arc::ptr_eq(own, link));
        let links = self.links.extract_if(.., |l| !members.iter().any(|m| is_of(m, &l.link))).collect();
        Swept { _streams: streams, _links: links }
    }
}

/// Whether `deny` forbids something of `access`.
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

/// Whether an open keeps nobody from having a file's data to themselves.
pub(crate) fn only_looks(granted: Rights, options: Options) -> bool {
    options.contains(Options::UNSHARED_METADATA) || looks_only(granted)
}

/// What of an open's rights counts for sharing.
pub(crate) fn counted(granted: Rights, options: Options) -> Rights {
    if options.contains(Options::UNSHARED_METADATA) { Rights::empty() } else { granted & SHARED_RIGHTS }
}
