//! Listings of directories.
//!
//! The volume returns the stat of a name in one call. The other properties are cached for as long as the stat
//! stays the same, so a file is opened only if its stat is new. Each table is asked once for each entry, and
//! the entry keeps the answer.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use volume::security::Rights;
use volume::{DirEntry, Failure, Name, Node, NodeId, NodeKind, OpenHow, Stat, Time};

use crate::engine::Share;
use crate::engine::lookup::name::{ResolvedName, Search};
use crate::engine::operations::info::{info_from, tag_of};
use crate::engine::parts::file::File;
use crate::engine::parts::names::cache::{CachedProperties, KeptNode};
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::record::Record;
use crate::open::FirstUse;
use crate::{AuditedOperation, Caller, Info, Item, Open, Options, Refusal};

/// One entry of a listing.
pub struct ListedEntry<'a> {
    share: &'a Share,
    caller: &'a Caller<'a>,
    open: &'a Open,
    /// The listed directory, if names are cached.
    here: Option<&'a Arc<Directory>>,
    entry: &'a DirEntry,
    /// The cached properties of the file whose number the directory lists.
    figures: OnceCell<Option<Arc<CachedProperties>>>,
    /// The file that its name leads to, while it is open.
    file: OnceCell<Option<Arc<File>>>,
    /// The stat of the target, as the volume returned it for the name.
    seen: OnceCell<Stat>,
    /// The target of the name, once it was needed.
    found: OnceCell<EntryTarget>,
    /// The address, if the volume was asked for it, with the epoch of the cache before.
    asked: OnceCell<(u64, Vec<u8>)>,
    /// The target of a followed link, once it was needed; none if it is not followed.
    link_target: OnceCell<Option<EntryTarget>>,
}

/// The target of an entry's name.
struct EntryTarget {
    node: Arc<dyn Node>,
    /// The cache entry of the node.
    kept: Option<Arc<KeptNode>>,
    /// The stat that the volume returned at the lookup.
    stat: Stat,
}

impl<'a> ListedEntry<'a> {
    fn of(
        share: &'a Share,
        caller: &'a Caller<'a>,
        open: &'a Open,
        here: Option<&'a Arc<Directory>>,
        entry: &'a DirEntry,
    ) -> ListedEntry<'a> {
        ListedEntry {
            share,
            caller,
            open,
            here,
            entry,
            figures: OnceCell::new(),
            file: OnceCell::new(),
            seen: OnceCell::new(),
            found: OnceCell::new(),
            asked: OnceCell::new(),
            link_target: OnceCell::new(),
        }
    }

    /// The name of the entry.
    pub fn name(&self) -> &Name {
        &self.entry.name
    }

    /// The cookie with which a listing resumes behind this entry.
    pub fn cookie(&self) -> u64 {
        self.entry.cookie
    }

    /// The kind, if the directory has it.
    pub fn kind(&self) -> Option<NodeKind> {
        self.entry.kind
    }

    /// The identity of the target.
    ///
    /// # Errors
    /// As [`ListedEntry::info`].
    pub fn id(&self) -> Result<NodeId, Refusal> {
        Ok(self.stat()?.id)
    }

    /// Whether the target is open, or has opens from before a restart that are not restored yet.
    ///
    /// # Errors
    /// As [`ListedEntry::info`].
    pub fn is_open(&self) -> Result<bool, Refusal> {
        let id = self.stat()?.id;
        Ok(self.file(id).is_some() || self.share.persistence().unrestored().has_file(id.inode))
    }

    /// The address of the target, as [`Item::address`] returns it. Ask for it first: the other properties are
    /// then those of the same file.
    ///
    /// # Errors
    /// As [`ListedEntry::info`]; [`Refusal::NotSupported`] if it has none.
    pub fn address(&self) -> Result<Vec<u8>, Refusal> {
        self.with_address(<[u8]>::to_vec)
    }

    /// Calls `make` with the address, without a copy.
    ///
    /// # Errors
    /// As [`ListedEntry::address`].
    pub fn with_address<T>(&self, make: impl FnOnce(&[u8]) -> T) -> Result<T, Refusal> {
        if self.found.get().is_none() && self.figures().is_some() {
            let seen = self.open.node.stat_name(&self.entry.name)?;
            if let Some(address) = self.known(&seen).and_then(|known| known.address.as_deref()) {
                self.seen.get_or_init(|| seen);
                return Ok(make(address));
            }
        }
        let epoch = self.share.cache().epoch();
        let address = self.item_behind(self.found()?).address()?;
        Ok(make(&self.asked.get_or_init(|| (epoch, address)).1))
    }

    /// The target of the name.
    ///
    /// # Errors
    /// As [`ListedEntry::info`].
    pub fn item(&self) -> Result<Item, Refusal> {
        Ok(self.item_behind(self.opened()?))
    }

    fn item_behind(&self, EntryTarget { node, kept, .. }: &EntryTarget) -> Item {
        let here = self.here.map_or_else(|| self.share.directory_here(self.open), Arc::clone);
        self.share.item_at(&here, &self.entry.name, Arc::clone(node)).kept_as(kept.clone())
    }

    /// The properties of that item, as [`Share::item_info`] returns them.
    ///
    /// # Errors
    /// As [`ListedEntry::info`].
    pub fn item_info(&self) -> Result<Info, Refusal> {
        let mut stat = self.stat()?;
        let info = match self.known_record(&stat) {
            Some(record) => {
                // The file may have been closed since, and its counters then count no more.
                let file = self.file(stat.id).and_then(|_| self.share.open_files().get(stat.id));
                self.share.info_with(&stat, &record, file.as_deref())?
            }
            None => {
                let found = self.opened()?;
                stat = found.stat;
                self.share.info_of_node(found.node.as_ref(), &stat)?
            }
        };
        if let Some((epoch, address)) = self.asked.get() {
            let address = Some(address.as_slice().into());
            self.share.cache().add(&stat, *epoch, |known| known.address = address);
        }
        Ok(info)
    }

    /// The identity that the directory lists. It is another one if a file system is mounted there.
    fn likely_id(&self) -> NodeId {
        NodeId { inode: self.entry.inode, ..self.open.node.id() }
    }

    fn figures(&self) -> Option<&CachedProperties> {
        self.figures.get_or_init(|| self.share.cache().figures_of(self.likely_id())).as_deref()
    }

    /// The cached properties of a file with this stat.
    fn known(&self, stat: &Stat) -> Option<&CachedProperties> {
        let is_it =
            |known: &&CachedProperties| stat.id == self.likely_id() && self.share.cache().counts(known, stat);
        self.figures().filter(is_it)
    }

    /// The file that the name leads to, while it is open.
    fn file(&self, id: NodeId) -> Option<&File> {
        self.file.get_or_init(|| self.share.open_files().get(id)).as_deref().filter(|file| file.id == id)
    }

    /// The attribute record of the target with this stat, if nothing has to be read for it.
    fn known_record(&self, stat: &Stat) -> Option<Record> {
        let told = self.file(stat.id).and_then(|file| self.share.record_if_reported(file, stat));
        let known = || self.known(stat).map(|known| known.record);
        told.or_else(known).or_else(|| self.share.cached_record(stat))
    }

    /// The stat of the target. The target is opened for it only if it has to be opened anyway.
    fn stat(&self) -> Result<Stat, Refusal> {
        if let Some(stat) = self.found.get().map(|found| &found.stat).or(self.seen.get()) {
            return Ok(*stat);
        }
        if self.figures().is_none() && !self.share.may_know_record(self.likely_id()) {
            return Ok(self.found()?.stat);
        }
        if let Some(found) = self.cached_node()? {
            return Ok(self.found.get_or_init(|| found).stat);
        }
        let seen = self.open.node.stat_name(&self.entry.name)?;
        Ok(*self.seen.get_or_init(|| seen))
    }

    /// The target of the name, if it is still the file whose stat was returned.
    fn opened(&self) -> Result<&EntryTarget, Refusal> {
        let found = self.found()?;
        let is_same = |seen: &Stat| (seen.id, seen.born) == (found.stat.id, found.stat.born);
        if self.seen.get().is_none_or(is_same) { Ok(found) } else { Err(Refusal::Gone) }
    }

    /// The target of the name, from the cache or from the volume. A listing adds nothing to the cache.
    fn found(&self) -> Result<&EntryTarget, Refusal> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let found = match self.cached_node()? {
            Some(found) => found,
            None => self.looked_up()?,
        };
        Ok(self.found.get_or_init(|| found))
    }

    fn cached_node(&self) -> Result<Option<EntryTarget>, Refusal> {
        let Some(kept) = self.here.and_then(|here| self.share.cached_node(here, &self.entry.name)) else {
            return Ok(None);
        };
        let (node, stat) = (Arc::clone(&kept.node), kept.node.stat()?);
        // The name was given to another file after the host's events were read.
        Ok((stat.links > 0).then_some(EntryTarget { node, kept: Some(kept), stat }))
    }

    fn looked_up(&self) -> Result<EntryTarget, Refusal> {
        let (directory, name) = (self.open.node.as_ref(), &self.entry.name);
        let node = self.share.with_room(|| Ok(directory.lookup(name, OpenHow::Attributes)?))?;
        let stat = node.first_stat().map_or_else(|| node.stat(), Ok)?;
        Ok(EntryTarget { node, kept: None, stat })
    }

    /// The target behind a link that opens of the name follow.
    fn shown(&self) -> Result<&EntryTarget, Refusal> {
        let found = self.found()?;
        if found.stat.kind != NodeKind::Link || self.open.options.contains(Options::STOP_AT_LINKS) {
            return Ok(found);
        }
        let link_target = self.link_target.get_or_init(|| {
            let here = self.here.map_or_else(|| self.share.directory_here(self.open), Arc::clone);
            let behind = self.open.followed.get().map(|followed| &followed.trail);
            let node = self
                .share
                .link_target(self.caller, &here, &self.entry.name, &found.node, behind, self.open.options)?
                .node;
            let stat = node.stat().ok()?;
            Some(EntryTarget { node, kept: None, stat })
        });
        Ok(link_target.as_ref().unwrap_or(found))
    }

    /// Inode number.
    pub fn inode(&self) -> u64 {
        self.entry.inode
    }

    /// The properties of the entry, or of its target if it is a link that is followed.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if it has vanished since; the volume's error.
    pub fn info(&self) -> Result<Info, Refusal> {
        let hides = self.share.settings().hides(self.entry.name.as_bytes());
        let stops = self.open.options.contains(Options::STOP_AT_LINKS);
        let may_be_followed =
            |kind: Option<NodeKind>| kind.is_none_or(|kind| kind == NodeKind::Link) && !stops;
        if !may_be_followed(self.entry.kind) {
            let stat = self.stat()?;
            if let Some(record) = self.known_record(&stat)
                && !may_be_followed(Some(stat.kind))
                && !record.has_reparse
            {
                return Ok(info_from(&stat, &record, hides));
            }
        }
        let found = self.shown()?;
        let (node, stat) = (found.node.as_ref(), found.stat);
        let record = self.share.record_of_node(node, &stat)?;
        let mut info = info_from(&stat, &record, hides);
        if record.has_reparse
            && let Some(bytes) = node.note(volume::Note::Reparse)?
        {
            info.reparse_tag = tag_of(&bytes);
        }
        Ok(info)
    }

    /// The few properties of a directory that the host lists and does not open. A file system is mounted
    /// there whose process is gone (`ENOTCONN`) or denies access (`EACCES`). None for any other entry.
    pub fn listed_info(&self) -> Option<Info> {
        let is_hidden =
            || matches!(self.open.node.stat_name(&self.entry.name), Err(Failure::Stale | Failure::Denied));
        if self.entry.kind != Some(NodeKind::Directory) || !is_hidden() {
            return None;
        }
        let unknown = Time::default();
        let stat = Stat {
            id: self.likely_id(),
            file_system: 0,
            kind: NodeKind::Directory,
            size: 0,
            allocated: 0,
            links: 1,
            mode: 0,
            uid: 0,
            gid: 0,
            rdev: 0,
            accessed: unknown,
            modified: unknown,
            changed: unknown,
            born: None,
            fixed: false,
        };
        let hides = self.share.settings().hides(self.entry.name.as_bytes());
        Some(info_from(&stat, &Record::default(), hides))
    }

    /// Whether the caller may read it.
    fn is_readable(&self) -> bool {
        let caller = self.caller;
        let check = || {
            let is_itself = self.open.options.contains(Options::OPEN_LINK);
            let found = if is_itself { self.found()? } else { self.shown()? };
            let (node, stat) = (found.node.as_ref(), found.stat);
            let record = self.share.load_record(node, &stat)?;
            let security = self.share.load_security(node, &stat, &record)?;
            let wanted = Rights::READ_DATA | Rights::READ_ATTRIBUTES | Rights::READ_EA | Rights::READ_CONTROL;
            self.share.rights_on(caller, &security, None, wanted, Options::empty())
        };
        check().is_ok()
    }
}

impl Share {
    /// Passes the entries of a directory behind `cookie` (0 from the start) to `visit`, if `wants` selects
    /// them, until `visit` breaks off. `.` and `..` are not among them; cookies 1 and 2 are reserved for
    /// these.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::NotADirectory`]; the volume's error.
    // MS-FSA 2.1.5.6.3
    pub fn scan(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        cookie: u64,
        wants: &mut dyn FnMut(&Name) -> bool,
        visit: &mut dyn FnMut(&ListedEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        if !open.is_directory() {
            return Err(Refusal::NotADirectory);
        }
        if !open.granted.contains(Rights::LIST_DIRECTORY) {
            return Err(Refusal::AccessDenied);
        }
        self.begin(caller.cause());
        if cookie <= 2 {
            self.audit_first_use(caller.audited_as(), open, FirstUse::LIST, AuditedOperation::List);
        }
        let here = self.cache().is_on().then(|| self.directory_here(open));
        let hides = self.hides_unreadable_in(open);
        let from = if cookie <= 2 { 0 } else { cookie };
        let show = &mut |entry: &DirEntry| {
            if !wants(&entry.name) {
                return ControlFlow::Continue(());
            }
            let entry = ListedEntry::of(self, caller, open, here.as_ref(), entry);
            if hides && !entry.is_readable() {
                return ControlFlow::Continue(());
            }
            visit(&entry)
        };
        match &here {
            Some(here) => self.names().entries(here, open.node.as_ref(), from, show),
            None => Ok(open.node.entries(from, &mut |entry| show(&entry))?),
        }
    }

    /// Whether a listing leaves out what the caller may not read. In the recycle folder each user sees only
    /// the own folder.
    fn hides_unreadable_in(&self, open: &Open) -> bool {
        let settings = self.settings();
        settings.hide_unreadable
            || settings.recycle.is_some() && self.is_recycle_folder(&self.directory_here(open))
    }

    /// Passes the entry that a name leads to, without a scan. Case counts as it does for the open. The cookie
    /// has no meaning. Returns false if there is no such entry.
    ///
    /// # Errors
    /// As [`Share::scan`].
    pub fn find(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        name: &Name,
        visit: &mut dyn FnMut(&ListedEntry<'_>),
    ) -> Result<bool, Refusal> {
        if !open.is_directory() {
            return Err(Refusal::NotADirectory);
        }
        if !open.granted.contains(Rights::LIST_DIRECTORY) {
            return Err(Refusal::AccessDenied);
        }
        self.begin(caller.cause());
        let here = self.directory_here(open);
        let search =
            Search { exact: self.is_exact(open.options), how: OpenHow::Attributes, rather_missing: false };
        let ResolvedName { name, node, .. } = match self.look_up(&here, name, search) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(false),
            Err(why @ (Refusal::Gone | Refusal::AccessDenied)) => {
                return self.find_listed(caller, open, name, visit)?.then_some(true).ok_or(why);
            }
            Err(why) => return Err(why),
        };
        let entry = DirEntry { name, inode: node.id().inode, kind: Some(node.kind()), cookie: 0 };
        let here = self.cache().is_on().then_some(&here);
        let entry = ListedEntry::of(self, caller, open, here, &entry);
        if self.hides_unreadable_in(open) && !entry.is_readable() {
            return Ok(false);
        }
        visit(&entry);
        Ok(true)
    }

    /// As [`Share::find`], for a name that the host only lists ([`ListedEntry::listed_info`]).
    fn find_listed(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        name: &Name,
        visit: &mut dyn FnMut(&ListedEntry<'_>),
    ) -> Result<bool, Refusal> {
        let mut is_listed = false;
        self.scan(caller, open, 0, &mut |one| one == name, &mut |entry| {
            is_listed = entry.listed_info().is_some();
            if is_listed {
                visit(entry);
            }
            ControlFlow::Break(())
        })?;
        Ok(is_listed)
    }
}
