//! What is known of an open file, and of all that is open.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Kind, Name, Node, NodeId, Note, Stat, Time};

use super::Share;
use super::access::Facts;
use super::file::{File, Link};
use super::names::directory::Directory;
use super::record::Record;
use crate::info::extended_size;
use crate::{Attributes, Caching, ClientKey, Deny, Info, LockOwner, Open, RangeRequest, Refusal};

/// How many whole seconds ago a file must have been changed before that it has no record is remembered.
const SETTLED_AFTER_S: i64 = 2;
/// Tag of a symbolic link.
// MS-FSCC 2.1.2.1
pub(super) const TAG_SYMLINK: u32 = 0xa000_000c;

/// A directory, and a name in it.
pub(super) type Place = (Arc<Directory>, Name);

/// One open, for status.
#[derive(Debug, Clone)]
pub struct OpenSummary {
    /// The open.
    pub id: u64,
    /// Through which client.
    pub client: ClientKey,
    /// Who.
    pub user: String,
    /// Path from the root of the share.
    pub path: Vec<Name>,
    /// The named stream.
    pub stream: Option<Name>,
    /// What it may do.
    pub granted: Rights,
    /// What others may not do meanwhile.
    pub deny: Deny,
    /// The caching right.
    pub caching: Caching,
    /// Since when.
    pub opened_at: Time,
    /// Byte ranges it holds.
    pub ranges: usize,
}

/// One byte range, for status.
#[derive(Debug, Clone)]
pub struct HeldRange {
    /// Path from the root of the share.
    pub path: Vec<Name>,
    /// The owner.
    pub owner: LockOwner,
    /// What.
    pub range: RangeRequest,
}

impl Share {
    /// Reads what a decision about a file needs; what is known from another open is not read again. `place` is where it was
    /// found, if that is known to be so still, and `seen` what the volume has said of it just now.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn facts(
        &self,
        file: &Arc<File>,
        node: &dyn Node,
        place: Option<&Place>,
        seen: Option<Stat>,
    ) -> Result<Facts, Refusal> {
        let facts = self.facts_as_found(file, node, place, seen)?;
        if facts.security.is_overtaken && self.keep_what_the_host_set(file, node) {
            return self.facts_as_found(file, node, place, None);
        }
        Ok(facts)
    }

    fn facts_as_found(
        &self,
        file: &Arc<File>,
        node: &dyn Node,
        place: Option<&Place>,
        seen: Option<Stat>,
    ) -> Result<Facts, Refusal> {
        let stat = match seen {
            Some(seen) => seen,
            None => node.stat()?,
        };
        file.note_mode(stat.mode);
        let known = self.is_told_of(file, &stat).then(|| {
            let state = file.state.lock();
            state.record.zip(state.security.clone().filter(|security| security.fits(&stat)))
        });
        if let Some((record, security)) = known.flatten() {
            return Ok(Facts { stat, record, security });
        }
        let counted = || (self.cache().written(stat.id), file.own_changes.load(Ordering::SeqCst));
        let before = counted();
        let record = self.load_record_at(node, place, &stat)?;
        let security = self.load_security(node, &stat, &record)?;
        let mut state = file.state.lock();
        // Somebody may have stored another one meanwhile, or a program of the host.
        if counted() == before {
            state.record = Some(record);
            state.security = Some(Arc::clone(&security));
        }
        drop(state);
        Ok(Facts { stat, record, security })
    }

    /// Whether the volume tells of every change of what is kept of an open file: not of those through another name, which
    /// may stand where nobody looks.
    fn is_told_of(&self, file: &File, stat: &Stat) -> bool {
        self.volume().facts().tells_changes && (file.is_directory || stat.links <= 1)
    }

    /// The attribute record of an open file, if it was read and the volume tells of its changes.
    pub(super) fn record_if_told(&self, file: &File, stat: &Stat) -> Option<Record> {
        if self.is_told_of(file, stat) { file.record() } else { None }
    }

    /// Whether a record of a file may be known that is not remembered with its figures; they tell whether it still counts.
    pub(super) fn may_know_record(&self, id: NodeId) -> bool {
        self.open_files().versions().has_plain(id) || self.open_files().get(id).is_some()
    }

    /// The attribute record of a file with these figures, whether somebody has it open or not.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn record_of_node(&self, node: &dyn Node, stat: &Stat) -> Result<Record, Refusal> {
        self.told_record(stat).map_or_else(|| self.load_record(node, stat), Ok)
    }

    fn told_record(&self, stat: &Stat) -> Option<Record> {
        self.open_files().get(stat.id).and_then(|file| self.record_if_told(&file, stat))
    }

    /// The attribute record of a file with these figures, where nothing has to be read for it.
    pub(super) fn remembered_record(&self, stat: &Stat) -> Option<Record> {
        if let Some(known) = self.cache().known(stat) {
            return Some(known.record);
        }
        let stored = self.cache().written(stat.id);
        let is_plain = self.open_files().versions().is_plain(stat.id, stat.changed);
        if is_plain && self.cache().is_on() {
            self.cache().remember(stat, stored, Record::default());
        }
        is_plain.then(Record::default)
    }

    /// Reads the attribute record of a file with these figures. That it has none is remembered for as long as the host
    /// shows the same time of change: setting the attribute that holds a record moves it.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn load_record(&self, node: &dyn Node, stat: &Stat) -> Result<Record, Refusal> {
        self.load_record_at(node, None, stat)
    }

    /// The same for a file that was found in a place, which is not asked when it was made there a moment ago.
    fn load_record_at(&self, node: &dyn Node, place: Option<&Place>, stat: &Stat) -> Result<Record, Refusal> {
        if let Some(record) = self.remembered_record(stat) {
            return Ok(record);
        }
        let (written, stored) =
            (self.open_files().versions().written(stat.id), self.cache().written(stat.id));
        let made = place.and_then(|(parent, name)| parent.made(name));
        if made.is_some_and(|made| made.has_no_record(stat, stored)) {
            return Ok(Record::default());
        }
        let record = Record::load(node)?;
        // A second change within one tick of the host's clock would not be seen.
        let is_settled = stat.changed.secs < self.directories().wall_secs().saturating_sub(SETTLED_AFTER_S);
        if record == Record::default() && is_settled && self.volume().facts().extended_attributes {
            self.open_files().versions().note_plain(stat.id, stat.changed, written);
        }
        if is_settled && self.cache().is_on() {
            self.cache().remember(stat, stored, record);
        }
        Ok(record)
    }

    /// Writes the attribute record of a file.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn put_record(&self, node: &dyn Node, record: &Record) -> Result<(), Refusal> {
        // One that does not fit into the file's own attributes lies beside it and moves none of its times.
        self.open_files().versions().forget_plain(node.id());
        self.cache().wrote(node.id());
        let stored = record.store(node);
        self.open_files().versions().forget_plain(node.id());
        self.cache().wrote(node.id());
        stored
    }

    /// Writes or (with `None`) removes the descriptor that is stored with a file.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn put_descriptor(&self, node: &dyn Node, bytes: Option<&[u8]>) -> Result<(), Refusal> {
        self.cache().wrote(node.id());
        let stored = node.set_note(Note::Descriptor, bytes);
        self.cache().wrote(node.id());
        Ok(stored?)
    }

    /// The attribute record of an open file.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn record_of(&self, open: &Open) -> Result<Record, Refusal> {
        self.record_at(&open.file, open.node.as_ref())
    }

    /// The same for a file that is about to be handed out.
    ///
    /// # Errors
    /// As the volume says.
    pub(super) fn record_at(&self, file: &File, node: &dyn Node) -> Result<Record, Refusal> {
        if self.volume().facts().tells_changes
            && let Some(record) = file.record()
        {
            return Ok(record);
        }
        let stored = self.cache().written(file.id);
        let record = Record::load(node)?;
        let mut state = file.state.lock();
        if self.cache().written(file.id) == stored {
            state.record = Some(record);
        }
        Ok(record)
    }

    /// Puts together what is known; `stream` are the figures of a named stream that is open.
    pub(super) fn info_of(
        &self,
        file: &File,
        link: Option<&Arc<Link>>,
        stat: &Stat,
        record: &Record,
        stream: Option<Stat>,
    ) -> Info {
        let delete_pending = file.is_deleted(link);
        let hides = link.is_some_and(|link| self.settings().hides(link.place().1.as_bytes()));
        let mut info = info_from(stat, record, hides);
        info.delete_pending = delete_pending;
        if delete_pending {
            info.links = info.links.saturating_sub(1);
        }
        if let Some(stream) = stream {
            (info.size, info.allocated) = (stream.size, stream.allocated);
        }
        info
    }

    /// What is known of an open file now.
    ///
    /// # Errors
    /// [`Refusal::Gone`]; as the volume says.
    pub fn info(&self, open: &Open) -> Result<Info, Refusal> {
        let stat = open.node.stat()?;
        let record = match self.record_if_told(&open.file, &stat) {
            Some(record) => record,
            None => self.load_record(open.node.as_ref(), &stat)?,
        };
        let stream = open.stream.figures(open.data.as_ref())?;
        let mut info = self.info_of(&open.file, open.link.as_ref(), &stat, &record, stream);
        if open.stream.is_named {
            info.delete_pending |= open.file.state.lock().stream(&open.stream).delete;
        }
        info.delete_pending |= self.goes_by_link(open);
        info.extended_size = self.extended_size_of(open, &stat)?;
        if record.has_reparse
            && let Some(bytes) = open.node.note(Note::Reparse)?
        {
            info.reparse_tag = tag_of(&bytes);
        }
        Ok(info)
    }

    /// What is known of the directory that an open is in; of the root for the root.
    ///
    /// # Errors
    /// As [`Share::info`].
    pub fn parent_info(&self, open: &Open) -> Result<Info, Refusal> {
        let parent = open.link.as_ref().map_or_else(|| Arc::clone(self.root()), |link| link.place().0);
        let stat = parent.node.stat()?;
        Ok(info_from(&stat, &Record::load(parent.node.as_ref())?, false))
    }

    fn extended_size_of(&self, open: &Open, stat: &Stat) -> Result<u32, Refusal> {
        if !self.volume().facts().extended_attributes {
            return Ok(0);
        }
        let tells = self.is_told_of(&open.file, stat);
        if let Some(known) = open.file.extended_size().filter(|_| tells) {
            return Ok(known);
        }
        if let Some(known) = self.cache().known(stat).and_then(|known| known.extended) {
            return Ok(known);
        }
        let epoch = self.cache().epoch();
        let size = extended_size(&open.node.attributes()?);
        self.cache().add(stat, epoch, |known| known.extended = Some(size));
        open.file.note_extended_size(size);
        Ok(size)
    }

    /// The path that an open has now, from the root of the share.
    pub fn path_of(&self, open: &Open) -> Vec<Name> {
        open.path()
    }

    /// Whether what an open leads to goes when all have closed it: it is marked for that, or this open marks it when it is
    /// closed.
    pub fn goes_when_closed(&self, open: &Open) -> bool {
        let mut state = open.file.state.lock();
        let marks =
            state.members.iter().any(|member| member.id == open.id && member.delete_on_close.is_some());
        marks
            || match open.stream.is_named {
                true => state.stream(&open.stream).delete,
                false => state.is_deleted(open.link.as_ref()),
            }
            || {
                drop(state);
                self.goes_by_link(open)
            }
    }

    /// Everything that is open.
    pub fn opens(&self) -> Vec<OpenSummary> {
        let mut out = Vec::new();
        for file in self.open_files().all() {
            for open in file.opens() {
                let ranges = {
                    let mut state = file.state.lock();
                    let stream = state.stream(&open.stream);
                    stream.ranges.held().filter(|range| range.open == open.id).count()
                };
                out.push(OpenSummary {
                    id: open.id,
                    client: open.client(),
                    user: open.identity().name.clone(),
                    path: open.path(),
                    stream: open.stream(),
                    granted: open.granted,
                    deny: open.deny,
                    caching: open.caching().map_or(Caching::empty(), |grant| grant.state),
                    opened_at: open.opened_at,
                    ranges,
                });
            }
        }
        out.sort_by_key(|summary| summary.id);
        out
    }

    /// Every byte range that is held.
    pub fn held_ranges(&self) -> Vec<HeldRange> {
        let mut out = Vec::new();
        for file in self.open_files().all() {
            let state = file.state.lock();
            let path = state.links.first().map_or_else(Vec::new, |entry| entry.link.path());
            for held in state.streams.iter().flat_map(|stream| stream.ranges.held()) {
                out.push(HeldRange { path: path.clone(), owner: held.owner, range: held.range });
            }
        }
        out
    }

    /// Whether the link by which something was opened goes when that is closed.
    fn goes_by_link(&self, open: &Open) -> bool {
        let link = open.followed.get().and_then(|followed| followed.link());
        link.is_some_and(|link| self.goes_when_closed(&link))
    }
}

/// What a file's figures and its record say together.
pub(super) fn info_from(stat: &Stat, record: &Record, hides: bool) -> Info {
    let mut attributes = record.bits(stat);
    attributes.set(Attributes::DIRECTORY, stat.kind == Kind::Directory);
    if hides {
        attributes |= Attributes::HIDDEN;
    }
    let is_link = stat.kind == Kind::Link;
    if is_link || record.has_reparse {
        attributes |= Attributes::REPARSE;
    }
    if attributes.is_empty() {
        attributes = Attributes::NORMAL;
    }
    Info {
        id: stat.id,
        file_system: stat.file_system,
        kind: stat.kind,
        attributes,
        created: record.created(stat),
        accessed: record.accessed(stat),
        modified: record.modified(stat),
        changed: record.changed(stat),
        size: stat.size,
        allocated: allocated(stat, record),
        links: stat.links,
        delete_pending: false,
        mode: record.mode(stat),
        uid: stat.uid,
        gid: stat.gid,
        extended_size: record.extended_size,
        reparse_tag: if is_link { TAG_SYMLINK } else { 0 },
        rdev: stat.rdev,
        version: super::open_files::number(stat.changed),
    }
}

/// The largest block that file systems put what lies beside a file into.
const ATTRIBUTE_BLOCK: u64 = 4096;

/// Bytes backed by storage. File systems count the block of a file's extended attributes, the descriptor among them, and
/// do not say so: of an empty file no more than that is nothing.
fn allocated(stat: &Stat, record: &Record) -> u64 {
    let has_more = record.has_descriptor || record.extended_size > 0;
    if stat.size == 0 && has_more && stat.allocated <= ATTRIBUTE_BLOCK { 0 } else { stat.allocated }
}

/// The tag at the beginning of a reparse point's bytes.
pub(super) fn tag_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |tag| u32::from_le_bytes(*tag))
}
