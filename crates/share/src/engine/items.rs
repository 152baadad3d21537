//! What somebody has found and does not have open: looked at, looked into, and opened.
//!
//! A path is one way to a file; the other is from something that was found before, by name or by the
//! address that the volume gave it ([`Share::item`]). An [`Item`] is where that begins.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::{Descriptor, Rights};
use volume::{Kind, Name, Node, NodeId, OpenHow, Stat};

use super::Share;
use super::create::how_for_rights;
use super::file::File;
use super::info::info_from;
use super::look_up::{Named, Search};
use super::names::cache::KeptNode;
use super::names::directory::{Directory, Evidence};
use super::record::Record;
use super::since::Since;
use super::waits::Effects;
use crate::CacheKey;
use crate::caching::grants::{Asker, Need};
use crate::{
    Caller, ChangeFilter, ChangeKind, Info, LockOwner, LockRule, Open, OpenRequest, Opened, Options,
    RangeRequest, Refusal, Step,
};

/// Most directories between one found by its address and the root.
const MAX_DEPTH: usize = 1024;

/// Something of a share that somebody has found. It holds no right, and nobody else is hindered by it.
#[derive(Clone)]
pub struct Item {
    pub(super) node: Arc<dyn Node>,
    /// When it is a directory.
    pub(super) directory: Option<Arc<Directory>>,
    /// The name it was found by; none for the root, and for what was found by its address.
    pub(super) place: Option<(Arc<Directory>, Name)>,
    /// Where its node is remembered.
    kept: Option<Arc<KeptNode>>,
    /// The volume was asked for it when it was looked up, and has said what is known of it.
    is_asked: bool,
    /// The volume was not asked for its name when it was looked up.
    is_from_memory: bool,
    /// Before it was looked up.
    since: Since,
}

/// When an item was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Some time before: its name may lead to something else by now.
    Before,
    /// By the request that it is opened for.
    JustNow,
}

/// What [`Share::make_in`] makes.
#[derive(Debug, Clone, Copy)]
pub enum Fresh<'a> {
    /// A symbolic link with this text.
    Link(&'a [u8]),
    /// A named pipe, a socket or a device node.
    Special {
        /// Which.
        kind: Kind,
        /// Permission bits.
        mode: u32,
        /// Number of a device (major << 32 | minor).
        rdev: u64,
    },
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Item").field("node", &self.id()).finish_non_exhaustive()
    }
}

impl Item {
    fn of_directory(directory: Arc<Directory>) -> Item {
        let (node, place) = (Arc::clone(&directory.node), directory.place());
        Item {
            node,
            place,
            directory: Some(directory),
            kept: None,
            is_asked: false,
            is_from_memory: false,
            since: Since::default(),
        }
    }

    /// What is no directory, at this place if that is known.
    fn of_other(node: Arc<dyn Node>, place: Option<(Arc<Directory>, Name)>) -> Item {
        Item {
            node,
            directory: None,
            place,
            kept: None,
            is_asked: false,
            is_from_memory: false,
            since: Since::default(),
        }
    }

    /// The same, whose node is remembered there.
    pub(super) fn kept_as(self, kept: Option<Arc<KeptNode>>) -> Item {
        Item { kept, ..self }
    }

    /// The same when something was done to it since it was looked up.
    #[must_use]
    pub fn changed_since(self) -> Item {
        Item { is_asked: false, ..self }
    }

    /// Its identity.
    pub fn id(&self) -> NodeId {
        self.node.id()
    }

    /// Its path from the root of the share, by the name that it was found by; none where that is not known.
    pub fn path(&self) -> Option<Vec<Name>> {
        if let Some(directory) = &self.directory {
            return Some(directory.path());
        }
        let (parent, name) = self.place.as_ref()?;
        Some(parent.path_to(name))
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.node.kind()
    }

    /// Whether it holds a descriptor of the host that can write.
    pub fn is_open_to_write(&self) -> bool {
        self.node.how() == OpenHow::ReadWrite
    }

    /// By which [`Share::item`] finds it again.
    ///
    /// # Errors
    /// [`Refusal::NotSupported`] when it has none.
    pub fn address(&self) -> Result<Vec<u8>, Refusal> {
        match (&self.directory, &self.kept) {
            (Some(directory), _) => directory.address(),
            (None, Some(kept)) => kept.address.get(|| self.address_as_made()),
            (None, None) => self.address_as_made(),
        }
    }

    /// The address, which is known of a file that was made a moment ago.
    fn address_as_made(&self) -> Result<Vec<u8>, Refusal> {
        let ask = || -> Result<Vec<u8>, Refusal> { Ok(self.node.address()?) };
        let made = match (&self.place, self.node.first_stat()) {
            (Some((parent, name)), Some(first)) => parent.made(name).filter(|made| made.is(&first)),
            _ => None,
        };
        made.map_or_else(ask, |made| made.address.get(ask))
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] when it is none; as the volume says.
    pub fn link_text(&self) -> Result<Vec<u8>, Refusal> {
        Ok(self.node.link_text()?)
    }

    pub(super) fn node(&self) -> &dyn Node {
        self.node.as_ref()
    }

    fn directory(&self) -> Result<&Arc<Directory>, Refusal> {
        self.directory.as_ref().ok_or(Refusal::NotADirectory)
    }

    /// The name it was found by, if it still stands there.
    fn known_place(&self) -> Option<(Arc<Directory>, Name)> {
        self.place_if(Seen::Before)
    }

    fn place_if(&self, seen: Seen) -> Option<(Arc<Directory>, Name)> {
        if let Some(directory) = &self.directory {
            return directory.place();
        }
        let (parent, name) = self.place.as_ref()?;
        if seen == Seen::JustNow {
            return Some((Arc::clone(parent), name.clone()));
        }
        let is_there = parent.leads_to(name, self.id()) || parent.holds(name, self.id());
        is_there.then(|| (Arc::clone(parent), name.clone()))
    }
}

impl Share {
    /// The root.
    pub fn root_item(&self) -> Item {
        Item::of_directory(Arc::clone(self.root()))
    }

    /// The number that its directory lists for an item at the top of a file system that is mounted there: that of what it covers. None
    /// for any other.
    ///
    /// # Errors
    /// As the volume says.
    pub fn covered(&self, item: &Item) -> Result<Option<u64>, Refusal> {
        let Some(directory) = &item.directory else { return Ok(None) };
        let Some((above, name)) = directory.place() else { return Ok(None) };
        if above.id.device == directory.id.device {
            return Ok(None);
        }
        if let Some(known) = directory.covered.get() {
            return Ok(Some(*known));
        }
        let mut listed = None;
        above.node.entries(0, &mut |entry| {
            listed = (entry.name == name).then_some(entry.inode);
            if listed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(listed.map(|listed| *directory.covered.get_or_init(|| listed)))
    }

    /// What has this address.
    ///
    /// # Errors
    /// [`Refusal::Gone`] when nothing has it any more, or it stands outside of the share.
    pub fn item(&self, address: &[u8]) -> Result<Item, Refusal> {
        let node = self.with_room(|| Ok(self.volume().find(address)?))?;
        if node.kind() != Kind::Directory {
            return Ok(Item::of_other(node, None));
        }
        Ok(Item::of_directory(self.enter_found(node)?))
    }

    /// Makes sure that what was found before is still in the share, where it is a directory that others may have moved.
    ///
    /// # Errors
    /// [`Refusal::Gone`] when it has left the share; as the volume says, which proves nothing of where it stands.
    pub fn check_place(&self, item: &Item) -> Result<(), Refusal> {
        match &item.directory {
            Some(known) if !self.directories().is_placed(known) => {
                self.enter_found(Arc::clone(&item.node)).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The directory behind a node that was not reached from the root: those above it are entered first.
    fn enter_found(&self, node: Arc<dyn Node>) -> Result<Arc<Directory>, Refusal> {
        let moves = self.directories().moves();
        let is_sure = |known: &Arc<Directory>| known.is_told() && self.directories().is_placed(known);
        let mut below = Vec::new();
        let mut at = node;
        let mut known = loop {
            if at.id() == self.root().id {
                break Arc::clone(self.root());
            }
            if let Some(known) = self.directories().get(at.id()).filter(is_sure) {
                break known;
            }
            let (above, name) = self.with_room(|| Ok(at.place()?))?.ok_or(Refusal::Gone)?;
            below.push((name, at));
            if below.len() > MAX_DEPTH {
                return Err(Refusal::Gone);
            }
            at = above;
        };
        for (name, node) in below.into_iter().rev() {
            known = self.directories().enter_as((&known, &name), node, Evidence::Told(moves));
        }
        Ok(known)
    }

    /// What a name in a directory leads to; a symbolic link is not followed.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`Refusal::NotADirectory`], [`Refusal::AccessDenied`]; as the volume says.
    pub fn item_in(&self, caller: &Caller<'_>, above: &Item, name: &Name) -> Result<Item, Refusal> {
        self.item_in_for(caller, above, name, Rights::empty())
    }

    /// The same for what is to be opened for these rights next, so that the host is asked to open it once. The caller's
    /// rights are looked at when it is.
    ///
    /// # Errors
    /// As [`Share::item_in`].
    pub fn item_in_for(
        &self,
        caller: &Caller<'_>,
        above: &Item,
        name: &Name,
        access: Rights,
    ) -> Result<Item, Refusal> {
        self.begin(caller.cause());
        let parent = above.directory()?;
        self.check_search(caller, parent)?;
        let since = self.since_now();
        if let Some(child) = self.known_child(parent, name, true) {
            self.directories().touch(&child);
            return Ok(Item { is_from_memory: true, since, ..Item::of_directory(child) });
        }
        let generation = parent.generation();
        let search = Search { exact: true, how: how_for_rights(access), rather_missing: false };
        let found = self.look_up(parent, name, search)?.ok_or(Refusal::NotFound)?;
        let Named { name, node, kept, seen, is_from_memory } = found;
        if node.kind() == Kind::Directory {
            let names = (&name, &name);
            let found = self.directories().enter(parent, names, node, Some(generation));
            return Ok(Item { is_from_memory, since, ..Item::of_directory(found) });
        }
        let item = self.item_at(parent, &name, node);
        Ok(Item { kept, is_asked: seen.is_some(), is_from_memory, since, ..item })
    }

    /// What was found under a name.
    pub(super) fn item_at(&self, parent: &Arc<Directory>, name: &Name, node: Arc<dyn Node>) -> Item {
        if node.kind() == Kind::Directory {
            return Item::of_directory(self.directories().enter(parent, (name, name), node, None));
        }
        Item::of_other(node, Some((Arc::clone(parent), name.clone())))
    }

    /// The directory that a directory is in; none above the root.
    ///
    /// # Errors
    /// [`Refusal::NotADirectory`], [`Refusal::AccessDenied`].
    pub fn item_above(&self, caller: &Caller<'_>, item: &Item) -> Result<Option<Item>, Refusal> {
        let directory = item.directory()?;
        self.check_search(caller, directory)?;
        Ok(directory.place().map(|(parent, _)| Item::of_directory(parent)))
    }

    /// What an open is of.
    pub fn item_of(&self, open: &Open) -> Item {
        match open.place() {
            Some((parent, name)) => self.item_at(&parent, &name, Arc::clone(&open.node)),
            None if open.file.id == self.root().id => self.root_item(),
            None => Item::of_other(Arc::clone(&open.node), None),
        }
    }

    /// The directory that is open.
    pub(super) fn directory_here(&self, open: &Open) -> Arc<Directory> {
        self.names().directory_of(&open.node, || open.place()).unwrap_or_else(|| Arc::clone(self.root()))
    }

    /// What is known of it now.
    ///
    /// # Errors
    /// [`Refusal::Gone`] when it has no name left and nobody has it open; as the volume says.
    pub fn item_info(&self, item: &Item) -> Result<Info, Refusal> {
        self.info_of_node(item.node.as_ref(), &item.node.stat()?)
    }

    /// The same for a node that shows these figures.
    pub(super) fn info_of_node(&self, node: &dyn Node, stat: &Stat) -> Result<Info, Refusal> {
        // Told first: that a file has no record is noted only of one that was told of.
        let version = self.version_if_there(stat, self.open_files().get(stat.id).as_deref())?;
        let record = self.record_of_node(node, stat)?;
        Ok(Info { version, ..info_from(stat, &record, false) })
    }

    /// The same for a file with this attribute record, which somebody may have open.
    pub(super) fn info_with(
        &self,
        stat: &Stat,
        record: &Record,
        file: Option<&File>,
    ) -> Result<Info, Refusal> {
        Ok(Info { version: self.version_if_there(stat, file)?, ..info_from(stat, record, false) })
    }

    /// The version of a file, unless it has no name left and nobody has it open.
    fn version_if_there(&self, stat: &Stat, file: Option<&File>) -> Result<u64, Refusal> {
        if stat.links == 0 && file.is_none() {
            return Err(Refusal::Gone);
        }
        Ok(self.version_of(stat, file))
    }

    /// The version of an item alone, as [`Share::item_info`] tells it.
    ///
    /// # Errors
    /// As the volume says.
    pub fn item_version(&self, item: &Item) -> Result<u64, Refusal> {
        let directory = item.directory.as_ref().filter(|_| self.cache().is_on());
        let before = directory.map(|directory| (directory.generation(), directory.own_changes()));
        let stat = item.node.stat()?;
        let version = self.version_of(&stat, self.open_files().get(stat.id).as_deref());
        if let (Some(directory), Some((generation, own_changes))) = (directory, before) {
            directory.note_told(generation, own_changes);
        }
        Ok(version)
    }

    /// The version of an item before something is done in it that others may be doing too: of a directory the one that
    /// anybody was told last, if neither a name in it nor anything of its own has changed since.
    ///
    /// # Errors
    /// As the volume says.
    pub fn version_before(&self, item: &Item) -> Result<u64, Refusal> {
        let directory = item.directory.as_ref().filter(|known| self.cache().is_on() && known.is_as_told());
        match directory.and_then(|directory| self.open_files().versions().told(directory.id)) {
            Some(told) => Ok(told),
            None => self.item_version(item),
        }
    }

    fn version_of(&self, stat: &Stat, file: Option<&File>) -> u64 {
        let changes = file.map_or(0, |file| file.changes.load(Ordering::Relaxed));
        self.tell_version(stat.id, stat.changed, changes)
    }

    /// Everything that the caller may do with it; perhaps nothing.
    ///
    /// # Errors
    /// As the volume says.
    pub fn item_rights(&self, caller: &Caller<'_>, item: &Item) -> Result<Rights, Refusal> {
        let security = self.item_security(item)?;
        let parent = item.known_place().map(|(parent, _)| parent);
        match self.rights_on(caller, &security, parent.as_ref(), Rights::MAXIMUM_ALLOWED, Options::empty()) {
            Err(Refusal::AccessDenied) => Ok(Rights::empty()),
            other => other,
        }
    }

    /// Its descriptor, and whether that is stored (else it says what the host's permission bits say).
    ///
    /// # Errors
    /// As the volume says.
    pub fn item_descriptor(&self, item: &Item) -> Result<(Descriptor, bool), Refusal> {
        let security = self.item_security(item)?;
        Ok((security.descriptor.clone(), security.is_stored))
    }

    pub(super) fn item_security(&self, item: &Item) -> Result<Arc<super::protection::Security>, Refusal> {
        let security = self.item_security_as_found(item)?;
        if !security.is_overtaken {
            return Ok(security);
        }
        let node = item.node.as_ref();
        let file = self.open_files().enter(node.id(), node.kind());
        let is_kept = self.keep_what_the_host_set(&file, node);
        drop(file);
        if is_kept { self.item_security_as_found(item) } else { Ok(security) }
    }

    fn item_security_as_found(&self, item: &Item) -> Result<Arc<super::protection::Security>, Refusal> {
        if let Some(directory) = &item.directory {
            return self.directory_security(directory);
        }
        let node = item.node.as_ref();
        let stat = node.stat()?;
        let record = self.load_record(node, &stat)?;
        self.load_security(node, &stat, &record)
    }

    /// Opens, replaces or makes: with an empty path the item itself, else what the path leads to from it.
    pub fn create_from(&self, caller: &Caller<'_>, item: &Item, request: &OpenRequest<'_>) -> Step<Opened> {
        self.create_at(caller, Some((item, Seen::Before)), request)
    }

    /// The same for an item that this very request has looked up by its name: the name is not asked for again. It is refused
    /// as [`Refusal::Gone`] when the name was remembered and is of something else by now, which is found by looking it up
    /// once more.
    pub fn create_found(&self, caller: &Caller<'_>, item: &Item, request: &OpenRequest<'_>) -> Step<Opened> {
        self.create_at(caller, Some((item, Seen::JustNow)), request)
    }

    /// The directory that a walk from `item` begins in.
    pub(super) fn start(&self, caller: &Caller<'_>, item: &Item) -> Result<Arc<Directory>, Refusal> {
        let directory = item.directory()?;
        self.check_search(caller, directory)?;
        Ok(Arc::clone(directory))
    }

    /// What is opened when the item itself is.
    pub(super) fn target_of(
        &self,
        item: &Item,
        seen: Seen,
        how: OpenHow,
    ) -> Result<super::create::Target, Refusal> {
        let node = if item.node.how() >= how { Arc::clone(&item.node) } else { item.node.open_again(how)? };
        let first = if seen == Seen::JustNow && item.is_asked { item.node.first_stat() } else { None };
        let is_from_memory = seen == Seen::JustNow && item.is_from_memory;
        let since = if seen == Seen::JustNow { item.since } else { self.since_now() };
        let target = super::create::Target::found_before(item.place_if(seen), node);
        Ok(super::create::Target { seen: first, is_from_memory, since, ..target })
    }

    /// Whether an owner holds byte ranges of a file.
    pub fn holds_ranges(&self, node: NodeId, owner: LockOwner) -> bool {
        self.open_files().get(node).is_some_and(|file| {
            let state = file.state.lock();
            state.streams.iter().flat_map(|stream| stream.ranges.held()).any(|held| held.owner == owner)
        })
    }

    /// Makes a symbolic link or a special file.
    pub fn make_in(&self, caller: &Caller<'_>, above: &Item, name: &Name, what: &Fresh<'_>) -> Step<Item> {
        self.begin(caller.cause());
        self.make_fresh(caller, above, name, what).into()
    }

    fn make_fresh(
        &self,
        caller: &Caller<'_>,
        above: &Item,
        name: &Name,
        what: &Fresh<'_>,
    ) -> Result<Item, Refusal> {
        self.check_writable()?;
        let parent = self.start(caller, above)?;
        let security = self.directory_security(&parent)?;
        if !self.may(caller, &security, Rights::ADD_FILE) {
            return Err(Refusal::AccessDenied);
        }
        if self.open_files().is_going(parent.id) {
            return Err(Refusal::DeletePending);
        }
        let actor = caller.identity.actor.as_ref();
        let changing = parent.change(&[name]);
        let made = match *what {
            Fresh::Link(text) => {
                self.check_link(&parent, text)?;
                parent.node.create_link(name, text, actor)
            }
            Fresh::Special { kind, mode, rdev } => {
                parent.node.create_special(name, kind, mode & 0o7777, rdev, actor)
            }
        };
        let node = match made {
            Err(volume::Failure::NotFound | volume::Failure::Stale) => return Err(Refusal::Gone),
            other => other?,
        };
        parent.added(name);
        drop(changing);
        let asker = Asker { client: Some(caller.client), key: None, parent: None, whole: true };
        self.entries_changed(&parent, &asker, caller.cause());
        self.tell_at(&parent, name, None, ChangeKind::Added, ChangeFilter::FILE_NAME);
        Ok(self.item_at(&parent, name, node))
    }

    /// Has those give back their right to write later who give it back as a whole, so that what is known of a file
    /// is what it is.
    pub fn settle_item(&self, caller: &Caller<'_>, item: NodeId, key: Option<CacheKey>) -> Step<()> {
        let Some(file) = self.open_files().get(item) else { return Step::Done(()) };
        let asker =
            Asker { client: Some(caller.client), key: key.map(|key| (key, true)), parent: None, whole: true };
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        let mut waits = false;
        for stream in state.streams.iter_mut().filter(|stream| !stream.stream.is_named) {
            if stream.grants.writes_as_a_whole() {
                waits |= self.require(&file, stream, &asker, Need::Open, caller.cause(), &mut effects);
            }
        }
        let step = if waits {
            self.park(caller, &file, &mut state, Refusal::SharingConflict)
        } else {
            Step::Done(())
        };
        drop(state);
        self.settle(effects);
        if matches!(step, Step::Wait(_)) {
            self.end_lapsed_at(&[item], Some(caller.client), caller.cause());
        }
        step
    }

    /// A range that keeps `owner` from taking this one, and whose it is.
    pub fn range_in_the_way(
        &self,
        node: NodeId,
        owner: LockOwner,
        rule: LockRule,
        range: &RangeRequest,
    ) -> Option<(LockOwner, RangeRequest)> {
        let file = self.open_files().get(node)?;
        let state = file.state.lock();
        let stream = state.streams.iter().find(|stream| !stream.stream.is_named)?;
        stream.ranges.in_the_way(range, owner, rule).map(|held| (held.owner, held.range))
    }

    /// Room on the file system that an item is on.
    ///
    /// # Errors
    /// As the host says.
    pub fn space_at(&self, item: &Item) -> Result<volume::Space, Refusal> {
        Ok(self.volume().space_at(item.node())?)
    }
}
