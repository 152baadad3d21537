//! The properties of an open file, and a list of all opens.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Name, Node, NodeId, NodeKind, Note, Stat, Time};

use crate::engine::Share;
use crate::engine::parts::file::{File, HardLinkedName};
use crate::engine::parts::open_files::number;
use crate::engine::values::record::Record;
use crate::info::extended_size;
use crate::{Attributes, Caching, ClientKey, Deny, Info, LockOwner, Open, RangeRequest, Refusal};

/// Tag of a symbolic link.
// MS-FSCC 2.1.2.1
pub(crate) const TAG_SYMLINK: u32 = 0xa000_000c;

/// One open, for status.
#[derive(Debug, Clone)]
pub struct OpenSummary {
    /// The open.
    pub id: u64,
    /// The client that holds it.
    pub client: ClientKey,
    /// The name of its user.
    pub user: String,
    /// Path from the root of the share.
    pub path: Vec<Name>,
    /// The named stream.
    pub stream: Option<Name>,
    /// The rights of the open.
    pub granted: Rights,
    /// The access that it denies to others.
    pub deny: Deny,
    /// The caching right.
    pub caching: Caching,
    /// The time of opening.
    pub opened_at: Time,
    /// The number of its byte ranges.
    pub ranges: usize,
}

/// One byte range, for status.
#[derive(Debug, Clone)]
pub struct HeldRange {
    /// The file.
    pub node: NodeId,
    /// Path from the root of the share.
    pub path: Vec<Name>,
    /// The owner.
    pub owner: LockOwner,
    /// The range and its kind.
    pub range: RangeRequest,
}

impl Share {
    /// Assembles the properties. `stream` has the stat of a named stream that is open.
    pub(crate) fn info_of(
        &self,
        file: &File,
        link: Option<&Arc<HardLinkedName>>,
        stat: &Stat,
        record: &Record,
        stream: Option<Stat>,
    ) -> Info {
        let delete_pending = file.is_deleted(link);
        let hides = link.is_some_and(|link| self.settings().hides(link.parent_and_name().1.as_bytes()));
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

    /// The current properties of an open file.
    ///
    /// # Errors
    /// [`Refusal::Gone`]; the volume's error.
    pub fn info(&self, open: &Open) -> Result<Info, Refusal> {
        let stat = open.node.stat()?;
        let record = match self.record_if_reported(&open.file, &stat) {
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

    /// The properties of the directory that an open is in; of the root for the root.
    ///
    /// # Errors
    /// As [`Share::info`].
    pub fn parent_info(&self, open: &Open) -> Result<Info, Refusal> {
        let parent =
            open.link.as_ref().map_or_else(|| Arc::clone(self.root()), |link| link.parent_and_name().0);
        let stat = parent.node.stat()?;
        Ok(info_from(&stat, &Record::load(parent.node.as_ref())?, false))
    }

    fn extended_size_of(&self, open: &Open, stat: &Stat) -> Result<u32, Refusal> {
        if !self.volume().properties().extended_attributes {
            return Ok(0);
        }
        let tells = self.reports_changes_of(&open.file, stat);
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

    /// Whether the object of an open is deleted when all have closed it: it is marked for deletion, or this
    /// open marks it when it is closed.
    pub fn deletes_on_close(&self, open: &Open) -> bool {
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

    /// All opens.
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

    /// All byte ranges.
    pub fn held_ranges(&self) -> Vec<HeldRange> {
        let mut out = Vec::new();
        for file in self.open_files().all() {
            let state = file.state.lock();
            let path = state.links.first().map_or_else(Vec::new, |entry| entry.link.path());
            for held in state.streams.iter().flat_map(|stream| stream.ranges.held()) {
                let (owner, range) = (held.owner, held.range);
                out.push(HeldRange { node: file.id, path: path.clone(), owner, range });
            }
        }
        out
    }

    /// Whether the link by which an object was opened is removed when that open is closed.
    fn goes_by_link(&self, open: &Open) -> bool {
        let link = open.followed.get().and_then(|followed| followed.link());
        link.is_some_and(|link| self.deletes_on_close(&link))
    }

    /// The properties of a node with this stat, whether it is open or not.
    pub(crate) fn info_of_node(&self, node: &dyn Node, stat: &Stat) -> Result<Info, Refusal> {
        // The version first: the absence of a record is cached only for a file whose version was given out.
        let version = self.version_if_there(stat, self.open_files().get(stat.id).as_deref())?;
        let record = self.record_of_node(node, stat)?;
        Ok(Info { version, ..info_from(stat, &record, false) })
    }

    /// The properties of a file with this attribute record, which may be open.
    pub(crate) fn info_with(
        &self,
        stat: &Stat,
        record: &Record,
        file: Option<&File>,
    ) -> Result<Info, Refusal> {
        Ok(Info { version: self.version_if_there(stat, file)?, ..info_from(stat, record, false) })
    }

    /// The version of a file, unless it has no name left and is not open.
    fn version_if_there(&self, stat: &Stat, file: Option<&File>) -> Result<u64, Refusal> {
        if stat.links == 0 && file.is_none() {
            return Err(Refusal::Gone);
        }
        Ok(self.version_of(stat, file))
    }

    pub(crate) fn version_of(&self, stat: &Stat, file: Option<&File>) -> u64 {
        let changes = file.map_or(0, |file| file.changes.load(Ordering::Relaxed));
        self.issue_version(stat.id, stat.changed, changes)
    }
}

/// The combination of a file's stat and its record.
pub(crate) fn info_from(stat: &Stat, record: &Record, hides: bool) -> Info {
    let mut attributes = record.bits(stat);
    attributes.set(Attributes::DIRECTORY, stat.kind == NodeKind::Directory);
    if hides {
        attributes |= Attributes::HIDDEN;
    }
    let is_link = stat.kind == NodeKind::Link;
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
        version: number(stat.changed),
    }
}

/// The largest block that file systems use for the sidecar data of a file.
const ATTRIBUTE_BLOCK: u64 = 4096;

/// Bytes backed by storage. File systems count the block of a file's extended attributes, which hold the
/// descriptor too, and do not report that. For an empty file, up to one such block therefore counts as
/// nothing.
fn allocated(stat: &Stat, record: &Record) -> u64 {
    let has_more = record.has_descriptor || record.extended_size > 0;
    if stat.size == 0 && has_more && stat.allocated <= ATTRIBUTE_BLOCK { 0 } else { stat.allocated }
}

/// The tag at the beginning of a reparse point's bytes.
pub(crate) fn tag_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |tag| u32::from_le_bytes(*tag))
}
