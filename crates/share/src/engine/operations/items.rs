//! Operations on objects that are not open ([`Item`]): properties, lookups in them, and opening.

use std::ops::ControlFlow;
use std::sync::Arc;

use volume::security::{Descriptor, Rights};
use volume::{Name, NodeId, NodeKind};

use crate::CacheKey;
use crate::caching::grants::{Need, Requester};
use crate::engine::Share;
use crate::engine::lookup::item::{Item, LookupTime};
use crate::engine::lookup::name::{ResolvedName, Search};
use crate::engine::operations::reservation::how_for_rights;
use crate::engine::parts::names::directory::Directory;
use crate::engine::services::audit::{AuditedPath, AuditedStep, path_below};
use crate::engine::values::effects::Effects;
use crate::engine::values::protection::Security;
use crate::{
    AuditClasses, AuditDetail, AuditedOperation, CallResult, Caller, ChangeFilter, ChangeKind, Info,
    LockOwner, LockRule, OpenRequest, OpenResult, Options, RangeRequest, Refusal,
};

/// The kind of object that [`Share::make_in`] creates.
#[derive(Debug, Clone, Copy)]
pub enum NewItem<'a> {
    /// A symbolic link with this text.
    Link(&'a [u8]),
    /// A named pipe, a socket or a device node.
    Special {
        /// The kind.
        kind: NodeKind,
        /// Permission bits.
        mode: u32,
        /// Number of a device (major << 32 | minor).
        rdev: u64,
    },
}

impl Share {
    /// The number that the parent directory lists for an item at the top of a mounted file system: the number
    /// of the directory that it covers. None for any other item.
    ///
    /// # Errors
    /// The volume's error.
    pub fn covered_number(&self, item: &Item) -> Result<Option<u64>, Refusal> {
        let Some(directory) = &item.directory else { return Ok(None) };
        let Some((above, name)) = directory.parent_and_name() else { return Ok(None) };
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

    /// The target of a name in a directory. A symbolic link is not followed.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`Refusal::NotADirectory`], [`Refusal::AccessDenied`]; the volume's error.
    pub fn item_in(&self, caller: &Caller<'_>, above: &Item, name: &Name) -> Result<Item, Refusal> {
        self.item_in_for(caller, above, name, Rights::empty())
    }

    /// As [`Share::item_in`], for an item that is opened with these rights next, so that the host opens it
    /// only once. The caller's rights are checked at the opening.
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
        self.check_search(caller, parent).inspect_err(|why| self.audit_search(caller, parent, name, why))?;
        let since = self.lookup_counters();
        if let Some(child) = self.known_child(parent, name, true) {
            self.directories().touch(&child);
            return Ok(Item { is_from_memory: true, since, ..Item::of_directory(child) });
        }
        let generation = parent.generation();
        let search = Search { exact: true, how: how_for_rights(access), rather_missing: false };
        let found = self.look_up(parent, name, search)?.ok_or(Refusal::NotFound)?;
        let ResolvedName { name, node, kept, seen, is_from_memory } = found;
        if node.kind() == NodeKind::Directory {
            let names = (&name, &name);
            let found = self.directories().enter(parent, names, node, Some(generation));
            return Ok(Item { is_from_memory, since, ..Item::of_directory(found) });
        }
        let item = self.item_at(parent, &name, node);
        Ok(Item { kept, is_asked: seen.is_some(), is_from_memory, since, ..item })
    }

    /// Tells that the caller may not look names up in a directory.
    #[cold]
    fn audit_search(&self, caller: &Caller<'_>, parent: &Arc<Directory>, name: &Name, why: &Refusal) {
        let path = Some(AuditedPath::In(parent, name));
        let step = AuditedStep { path, ..AuditedStep::of(AuditedOperation::LookUp) };
        self.audit_name(caller, step, None, Some(why));
    }

    /// The parent of a directory; none above the root.
    ///
    /// # Errors
    /// [`Refusal::NotADirectory`], [`Refusal::AccessDenied`].
    pub fn item_above(&self, caller: &Caller<'_>, item: &Item) -> Result<Option<Item>, Refusal> {
        let directory = item.directory()?;
        self.check_search(caller, directory)?;
        Ok(directory.parent_and_name().map(|(parent, _)| Item::of_directory(parent)))
    }

    /// The current properties of an item.
    ///
    /// # Errors
    /// [`Refusal::Gone`] if it has no name left and is not open; the volume's error.
    pub fn item_info(&self, item: &Item) -> Result<Info, Refusal> {
        self.info_of_node(item.node.as_ref(), &item.node.stat()?)
    }

    /// The version of an item alone, as [`Share::item_info`] returns it.
    ///
    /// # Errors
    /// The volume's error.
    pub fn item_version(&self, item: &Item) -> Result<u64, Refusal> {
        let directory = item.directory.as_ref().filter(|_| self.cache().is_on());
        let before = directory.map(|directory| (directory.generation(), directory.own_changes()));
        let stat = item.node.stat()?;
        let version = self.version_of(&stat, self.open_files().get(stat.id).as_deref());
        if let (Some(directory), Some((generation, own_changes))) = (directory, before) {
            directory.note_version_issued(generation, own_changes);
        }
        Ok(version)
    }

    /// The version of an item before a change in it that others may make too. For a directory it is the
    /// version that was given out last, if neither a name in it nor a property of its own has changed since.
    ///
    /// # Errors
    /// The volume's error.
    pub fn version_before(&self, item: &Item) -> Result<u64, Refusal> {
        let directory =
            item.directory.as_ref().filter(|known| self.cache().is_on() && known.is_version_current());
        match directory.and_then(|directory| self.open_files().versions().issued(directory.id)) {
            Some(issued) => Ok(issued),
            None => self.item_version(item),
        }
    }

    /// All rights of the caller on the item; perhaps none.
    ///
    /// # Errors
    /// The volume's error.
    pub fn item_rights(&self, caller: &Caller<'_>, item: &Item) -> Result<Rights, Refusal> {
        let security = self.item_security(item)?;
        let parent = item.known_place().map(|(parent, _)| parent);
        match self.rights_on(caller, &security, parent.as_ref(), Rights::MAXIMUM_ALLOWED, Options::empty()) {
            Err(Refusal::AccessDenied) => Ok(Rights::empty()),
            other => other,
        }
    }

    /// The descriptor, and whether it is stored. Otherwise it expresses the host's permission bits.
    ///
    /// # Errors
    /// The volume's error.
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
        let is_kept = self.adopt_host_access(&file, node);
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

    /// Opens, replaces or creates. With an empty path it acts on the item itself, else on the target of the
    /// path from it.
    pub fn create_from(
        &self,
        caller: &Caller<'_>,
        item: &Item,
        request: &OpenRequest<'_>,
    ) -> CallResult<OpenResult> {
        self.create_at(caller, Some((item, LookupTime::Before)), request)
    }

    /// As [`Share::create_from`], for an item that this very request has looked up by its name. The name is
    /// not looked up again. The result is [`Refusal::Gone`] if the name came from the cache and leads to
    /// another object by now. The caller then looks it up once more.
    pub fn create_found(
        &self,
        caller: &Caller<'_>,
        item: &Item,
        request: &OpenRequest<'_>,
    ) -> CallResult<OpenResult> {
        self.create_at(caller, Some((item, LookupTime::JustNow)), request)
    }

    /// Whether an owner holds byte ranges of a file.
    pub fn holds_ranges(&self, node: NodeId, owner: LockOwner) -> bool {
        self.open_files().get(node).is_some_and(|file| {
            let state = file.state.lock();
            state.streams.iter().flat_map(|stream| stream.ranges.held()).any(|held| held.owner == owner)
        })
    }

    /// Creates a symbolic link or a special file.
    pub fn make_in(
        &self,
        caller: &Caller<'_>,
        above: &Item,
        name: &Name,
        what: &NewItem<'_>,
    ) -> CallResult<Item> {
        self.begin(caller.cause());
        let made = self.make_fresh(caller, above, name, what);
        let step = match *what {
            NewItem::Link(text) => AuditedStep::with(AuditedOperation::Symlink, AuditDetail::LinkText(text)),
            NewItem::Special { mode, .. } => {
                AuditedStep::with(AuditedOperation::MakeSpecial, AuditDetail::Mode(mode & 0o7777))
            }
        };
        self.audit_made(caller, above, name, step, &made);
        made.into()
    }

    /// Tells of an object that was created without an open.
    fn audit_made(
        &self,
        caller: &Caller<'_>,
        above: &Item,
        name: &Name,
        step: AuditedStep<'_>,
        made: &Result<Item, Refusal>,
    ) {
        if self.audits(AuditClasses::CREATE | AuditClasses::REFUSED) {
            let path = path_below(caller.identity, Some(above), std::slice::from_ref(name));
            let step = AuditedStep { path: path.as_deref().map(AuditedPath::Bytes), ..step };
            self.audit_name(caller, step, made.as_ref().ok().map(Item::id), made.as_ref().err());
        }
    }

    fn make_fresh(
        &self,
        caller: &Caller<'_>,
        above: &Item,
        name: &Name,
        what: &NewItem<'_>,
    ) -> Result<Item, Refusal> {
        self.check_writable()?;
        let parent = self.start(caller, above)?;
        self.check_not_recycle_name(&parent, name)?;
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
            NewItem::Link(text) => {
                self.check_link(caller.identity, &parent, text)?;
                parent.node.create_link(name, text, actor)
            }
            NewItem::Special { kind, mode, rdev } => {
                parent.node.create_special(name, kind, mode & 0o7777, rdev, actor)
            }
        };
        let node = match made {
            Err(volume::Failure::NotFound | volume::Failure::Stale) => return Err(Refusal::Gone),
            other => other?,
        };
        parent.added(name);
        drop(changing);
        let requester = Requester { client: Some(caller.client), key: None, parent: None, whole: true };
        self.entries_changed(&parent, &requester, caller.cause());
        self.report_at(&parent, name, None, ChangeKind::Added, ChangeFilter::FILE_NAME);
        Ok(self.item_at(&parent, name, node))
    }

    /// Recalls rights to write later that are released as a whole, so that the file's properties are current.
    pub fn recall_for_attributes(
        &self,
        caller: &Caller<'_>,
        item: NodeId,
        key: Option<CacheKey>,
    ) -> CallResult<()> {
        if let Err(why) = self.restore_file(item) {
            return CallResult::Refused(why);
        }
        let Some(file) = self.open_files().get(item) else { return CallResult::Done(()) };
        let requester = Requester {
            client: Some(caller.client),
            key: key.map(|key| (key, true)),
            parent: None,
            whole: true,
        };
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        let mut waits = false;
        for stream in state.streams.iter_mut().filter(|stream| !stream.stream.is_named) {
            if stream.grants.writes_as_a_whole() {
                waits |= self.require(&file, stream, &requester, Need::Open, caller.cause(), &mut effects);
            }
        }
        let step = if waits {
            self.park(caller, &file, &mut state, Refusal::SharingConflict)
        } else {
            CallResult::Done(())
        };
        drop(state);
        self.settle(effects);
        if matches!(step, CallResult::Wait(_)) {
            self.end_expired_at(&[item], Some(caller.client), caller.cause());
        }
        step
    }

    /// A range that keeps `owner` from locking this one, and the owner of that range.
    ///
    /// # Errors
    /// As [`Share::restore_file`].
    pub fn conflicting_range(
        &self,
        node: NodeId,
        owner: LockOwner,
        rule: LockRule,
        range: &RangeRequest,
    ) -> Result<Option<(LockOwner, RangeRequest)>, Refusal> {
        self.restore_file(node)?;
        let Some(file) = self.open_files().get(node) else { return Ok(None) };
        let state = file.state.lock();
        let stream = state.streams.iter().find(|stream| !stream.stream.is_named);
        let held = stream.and_then(|stream| stream.ranges.conflict(range, owner, rule));
        Ok(held.map(|held| (held.owner, held.range)))
    }

    /// Whether the caller may execute the item: by its list, or without a stored one by the host's answer.
    ///
    /// # Errors
    /// The volume's error.
    pub fn may_execute(&self, caller: &Caller<'_>, item: &Item) -> Result<bool, Refusal> {
        let security = self.item_security(item)?;
        Ok(security.is_stored || security.runs(caller))
    }

    /// Room on the file system that an item is on.
    ///
    /// # Errors
    /// The host's error.
    pub fn space_at(&self, item: &Item) -> Result<volume::Space, Refusal> {
        Ok(self.volume().space_at(item.node())?)
    }
}
