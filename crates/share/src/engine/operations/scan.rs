//! Listing directories.
//!
//! The volume tells the figures of a name in one call. Everything else is remembered for as long as the figures stay the same, so a
//! file is opened only when they are new. A table is asked once for each entry, and the entry keeps what it said.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use volume::security::Rights;
use volume::{DirEntry, Failure, Name, Node, NodeId, NodeKind, OpenHow, Stat, Time};

use crate::engine::Share;
use crate::engine::finding::look_up::{Named, Search};
use crate::engine::operations::info::{info_from, tag_of};
use crate::engine::parts::file::File;
use crate::engine::parts::names::cache::{KeptNode, Known};
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::record::Record;
use crate::{Caller, Info, Item, Open, Options, Refusal};

/// One entry of a listing.
pub struct Entry<'a> {
    share: &'a Share,
    caller: &'a Caller<'a>,
    open: &'a Open,
    /// The directory that is listed, where names are remembered.
    here: Option<&'a Arc<Directory>>,
    entry: &'a DirEntry,
    /// The remembered figures of the file with the number that the directory tells.
    figures: OnceCell<Option<Arc<Known>>>,
    /// The file that its name leads to, while somebody has it open.
    file: OnceCell<Option<Arc<File>>>,
    /// The figures of what the name leads to, as the volume told them of the name.
    seen: OnceCell<Stat>,
    /// What the name leads to, once somebody has wanted it.
    found: OnceCell<Found>,
    /// Its address, where the volume was asked for it, and the epoch of the cache before.
    asked: OnceCell<(u64, Vec<u8>)>,
    /// What a link is followed to, once somebody has wanted it; none when it is not.
    led_to: OnceCell<Option<Found>>,
}

/// What the name of an entry leads to.
struct Found {
    node: Arc<dyn Node>,
    /// Where it is remembered.
    kept: Option<Arc<KeptNode>>,
    /// What the volume said of it when it was found.
    stat: Stat,
}

impl<'a> Entry<'a> {
    fn of(
        share: &'a Share,
        caller: &'a Caller<'a>,
        open: &'a Open,
        here: Option<&'a Arc<Directory>>,
        entry: &'a DirEntry,
    ) -> Entry<'a> {
        Entry {
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
            led_to: OnceCell::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.entry.name
    }

    /// Resumes behind this entry.
    pub fn cookie(&self) -> u64 {
        self.entry.cookie
    }

    /// What it is, where the directory says so.
    pub fn kind(&self) -> Option<NodeKind> {
        self.entry.kind
    }

    /// The identity of what its name leads to.
    ///
    /// # Errors
    /// As [`Entry::info`].
    pub fn id(&self) -> Result<NodeId, Refusal> {
        Ok(self.stat()?.id)
    }

    /// Whether somebody has open what its name leads to.
    ///
    /// # Errors
    /// As [`Entry::info`].
    pub fn is_open(&self) -> Result<bool, Refusal> {
        Ok(self.file(self.stat()?.id).is_some())
    }

    /// The address of what its name leads to, as [`Item::address`] tells it. Ask it first: the rest is then told of the same file.
    ///
    /// # Errors
    /// As [`Entry::info`]; [`Refusal::NotSupported`] when it has none.
    pub fn address(&self) -> Result<Vec<u8>, Refusal> {
        self.with_address(<[u8]>::to_vec)
    }

    /// The same for who makes something of it, without a copy.
    ///
    /// # Errors
    /// As [`Entry::address`].
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

    /// What its name leads to.
    ///
    /// # Errors
    /// As [`Entry::info`].
    pub fn item(&self) -> Result<Item, Refusal> {
        Ok(self.item_behind(self.opened()?))
    }

    fn item_behind(&self, Found { node, kept, .. }: &Found) -> Item {
        let here = self.here.map_or_else(|| self.share.directory_here(self.open), Arc::clone);
        self.share.item_at(&here, &self.entry.name, Arc::clone(node)).kept_as(kept.clone())
    }

    /// What is known of that item, as [`Share::item_info`] tells it.
    ///
    /// # Errors
    /// As [`Entry::info`].
    pub fn item_info(&self) -> Result<Info, Refusal> {
        let mut stat = self.stat()?;
        let info = match self.known_record(&stat) {
            Some(record) => {
                // Whoever had it open may have closed it since, and what is counted of it then counts no more.
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

    /// The identity that the directory tells; another one where a file system is mounted.
    fn likely_id(&self) -> NodeId {
        NodeId { inode: self.entry.inode, ..self.open.node.id() }
    }

    fn figures(&self) -> Option<&Known> {
        self.figures.get_or_init(|| self.share.cache().figures_of(self.likely_id())).as_deref()
    }

    /// The same of a file that shows these figures.
    fn known(&self, stat: &Stat) -> Option<&Known> {
        let is_it = |known: &&Known| stat.id == self.likely_id() && self.share.cache().counts(known, stat);
        self.figures().filter(is_it)
    }

    /// The file that its name leads to, while somebody has it open.
    fn file(&self, id: NodeId) -> Option<&File> {
        self.file.get_or_init(|| self.share.open_files().get(id)).as_deref().filter(|file| file.id == id)
    }

    /// The attribute record of what its name leads to and shows these figures, where nothing has to be read for it.
    fn known_record(&self, stat: &Stat) -> Option<Record> {
        let told = self.file(stat.id).and_then(|file| self.share.record_if_told(file, stat));
        let known = || self.known(stat).map(|known| known.record);
        told.or_else(known).or_else(|| self.share.remembered_record(stat))
    }

    /// The figures of what its name leads to, which is opened for them only where it has to be opened anyway.
    fn stat(&self) -> Result<Stat, Refusal> {
        if let Some(stat) = self.found.get().map(|found| &found.stat).or(self.seen.get()) {
            return Ok(*stat);
        }
        if self.figures().is_none() && !self.share.may_know_record(self.likely_id()) {
            return Ok(self.found()?.stat);
        }
        if let Some(found) = self.remembered()? {
            return Ok(self.found.get_or_init(|| found).stat);
        }
        let seen = self.open.node.stat_name(&self.entry.name)?;
        Ok(*self.seen.get_or_init(|| seen))
    }

    /// The file behind the name, if it is still the one that was told of.
    fn opened(&self) -> Result<&Found, Refusal> {
        let found = self.found()?;
        let is_same = |seen: &Stat| (seen.id, seen.born) == (found.stat.id, found.stat.born);
        if self.seen.get().is_none_or(is_same) { Ok(found) } else { Err(Refusal::Gone) }
    }

    /// What its name leads to: as it is remembered, or else as the volume says. Nothing is remembered for being listed.
    fn found(&self) -> Result<&Found, Refusal> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let found = match self.remembered()? {
            Some(found) => found,
            None => self.looked_up()?,
        };
        Ok(self.found.get_or_init(|| found))
    }

    fn remembered(&self) -> Result<Option<Found>, Refusal> {
        let Some(kept) = self.here.and_then(|here| self.share.remembered(here, &self.entry.name)) else {
            return Ok(None);
        };
        let (node, stat) = (Arc::clone(&kept.node), kept.node.stat()?);
        // The name was given to something else after the host was asked for news.
        Ok((stat.links > 0).then_some(Found { node, kept: Some(kept), stat }))
    }

    fn looked_up(&self) -> Result<Found, Refusal> {
        let (directory, name) = (self.open.node.as_ref(), &self.entry.name);
        let node = self.share.with_room(|| Ok(directory.lookup(name, OpenHow::Attributes)?))?;
        let stat = node.first_stat().map_or_else(|| node.stat(), Ok)?;
        Ok(Found { node, kept: None, stat })
    }

    /// The same, behind a link that whoever opens the name is led past.
    fn shown(&self) -> Result<&Found, Refusal> {
        let found = self.found()?;
        if found.stat.kind != NodeKind::Link || self.open.options.contains(Options::STOP_AT_LINKS) {
            return Ok(found);
        }
        let led_to = self.led_to.get_or_init(|| {
            let here = self.here.map_or_else(|| self.share.directory_here(self.open), Arc::clone);
            let behind = self.open.followed.get().map(|followed| &followed.trail);
            let node = self
                .share
                .led_to(self.caller, &here, &self.entry.name, &found.node, behind, self.open.options)?
                .node;
            let stat = node.stat().ok()?;
            Some(Found { node, kept: None, stat })
        });
        Ok(led_to.as_ref().unwrap_or(found))
    }

    /// Inode number.
    pub fn inode(&self) -> u64 {
        self.entry.inode
    }

    /// What is known of it, or of what it leads to if it is a link that is followed.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] when it has vanished since; as the volume says.
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

    /// The little that its directory knows of a directory that the host lists and does not show: a file system is mounted there whose
    /// process is gone (`ENOTCONN`) or lets nobody in (`EACCES`). None of anything else.
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

    /// Whether the caller may look into it.
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
    /// Shows the entries of a directory behind `cookie` (0 from the start): those that `wants` likes,
    /// until `visit` breaks off. `.` and `..` are not among them; cookies 1 and 2 are theirs.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::NotADirectory`]; as the volume says.
    // MS-FSA 2.1.5.6.3
    pub fn scan(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        cookie: u64,
        wants: &mut dyn FnMut(&Name) -> bool,
        visit: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        if !open.is_directory() {
            return Err(Refusal::NotADirectory);
        }
        if !open.granted.contains(Rights::LIST_DIRECTORY) {
            return Err(Refusal::AccessDenied);
        }
        self.begin(caller.cause());
        let here = self.cache().is_on().then(|| self.directory_here(open));
        let hides = self.settings().hide_unreadable;
        let from = if cookie <= 2 { 0 } else { cookie };
        let show = &mut |entry: &DirEntry| {
            if !wants(&entry.name) {
                return ControlFlow::Continue(());
            }
            let entry = Entry::of(self, caller, open, here.as_ref(), entry);
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

    /// Shows the entry that a name leads to, case minded as the open minds it, without a scan. Its
    /// cookie has no meaning. False when there is none.
    ///
    /// # Errors
    /// As [`Share::scan`].
    pub fn find(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        name: &Name,
        visit: &mut dyn FnMut(&Entry<'_>),
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
        let Named { name, node, .. } = match self.look_up(&here, name, search) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(false),
            Err(why @ (Refusal::Gone | Refusal::AccessDenied)) => {
                return self.find_listed(caller, open, name, visit)?.then_some(true).ok_or(why);
            }
            Err(why) => return Err(why),
        };
        let entry = DirEntry { name, inode: node.id().inode, kind: Some(node.kind()), cookie: 0 };
        let here = self.cache().is_on().then_some(&here);
        let entry = Entry::of(self, caller, open, here, &entry);
        if self.settings().hide_unreadable && !entry.is_readable() {
            return Ok(false);
        }
        visit(&entry);
        Ok(true)
    }

    /// The same for a name that the host only lists ([`Entry::listed_info`]).
    fn find_listed(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        name: &Name,
        visit: &mut dyn FnMut(&Entry<'_>),
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
