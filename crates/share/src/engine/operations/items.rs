//! What somebody has found and does not have open ([`Item`]): looked at, looked into, and opened.

use std::ops::ControlFlow;
use std::sync::Arc;

use volume::security::{Descriptor, Rights};
use volume::{Name, NodeId, NodeKind};

use crate::CacheKey;
use crate::caching::grants::{Asker, Need};
use crate::engine::Share;
use crate::engine::finding::item::{Item, Seen};
use crate::engine::finding::look_up::{Named, Search};
use crate::engine::operations::reserved::how_for_rights;
use crate::engine::values::effects::Effects;
use crate::engine::values::protection::Security;
use crate::{
    Caller, ChangeFilter, ChangeKind, Info, LockOwner, LockRule, OpenRequest, Opened, Options, RangeRequest,
    Refusal, Step,
};

/// What [`Share::make_in`] makes.
#[derive(Debug, Clone, Copy)]
pub enum Fresh<'a> {
    /// A symbolic link with this text.
    Link(&'a [u8]),
    /// A named pipe, a socket or a device node.
    Special {
        /// Which.
        kind: NodeKind,
        /// Permission bits.
        mode: u32,
        /// Number of a device (major << 32 | minor).
        rdev: u64,
    },
}

impl Share {
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
        if node.kind() == NodeKind::Directory {
            let names = (&name, &name);
            let found = self.directories().enter(parent, names, node, Some(generation));
            return Ok(Item { is_from_memory, since, ..Item::of_directory(found) });
        }
        let item = self.item_at(parent, &name, node);
        Ok(Item { kept, is_asked: seen.is_some(), is_from_memory, since, ..item })
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

    /// What is known of it now.
    ///
    /// # Errors
    /// [`Refusal::Gone`] when it has no name left and nobody has it open; as the volume says.
    pub fn item_info(&self, item: &Item) -> Result<Info, Refusal> {
        self.info_of_node(item.node.as_ref(), &item.node.stat()?)
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

    pub(crate) fn item_security(&self, item: &Item) -> Result<Arc<Security>, Refusal> {
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

    fn item_security_as_found(&self, item: &Item) -> Result<Arc<Security>, Refusal> {
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

    /// Whether the caller may run what this is: by its list, or where none is stored by what the host says.
    ///
    /// # Errors
    /// As the volume says.
    pub fn item_runs(&self, caller: &Caller<'_>, item: &Item) -> Result<bool, Refusal> {
        let security = self.item_security(item)?;
        Ok(security.is_stored || security.runs(caller))
    }

    /// Room on the file system that an item is on.
    ///
    /// # Errors
    /// As the host says.
    pub fn space_at(&self, item: &Item) -> Result<volume::Space, Refusal> {
        Ok(self.volume().space_at(item.node())?)
    }
}
