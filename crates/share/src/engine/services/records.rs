//! The attribute record of a file: read if it is not known, and stored.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::{Name, Node, NodeId, Note, Stat};

use crate::engine::Share;
use crate::engine::parts::file::File;
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::record::Record;
use crate::{Open, Refusal};

/// The age of a file's last change in whole seconds from which the absence of a record is cached.
const SETTLED_AFTER_S: i64 = 2;

/// A directory, and a name in it.
pub(crate) type ParentAndName = (Arc<Directory>, Name);

impl Share {
    /// Whether the volume reports every change of an open file's cached properties. It does not for changes
    /// through another name, which may be in a directory that is not watched.
    pub(crate) fn reports_changes_of(&self, file: &File, stat: &Stat) -> bool {
        self.volume().properties().tells_changes && (file.is_directory || stat.links <= 1)
    }

    /// The attribute record of an open file, if it was read and the volume reports its changes.
    pub(crate) fn record_if_reported(&self, file: &File, stat: &Stat) -> Option<Record> {
        if self.reports_changes_of(file, stat) { file.record() } else { None }
    }

    /// Whether a record of a file may be known beside the cache. The stat then tells whether it is still
    /// valid.
    pub(crate) fn may_know_record(&self, id: NodeId) -> bool {
        self.open_files().versions().has_plain(id) || self.open_files().get(id).is_some()
    }

    /// The attribute record of a file with this stat, whether it is open or not.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn record_of_node(&self, node: &dyn Node, stat: &Stat) -> Result<Record, Refusal> {
        self.reported_record(stat).map_or_else(|| self.load_record(node, stat), Ok)
    }

    fn reported_record(&self, stat: &Stat) -> Option<Record> {
        self.open_files().get(stat.id).and_then(|file| self.record_if_reported(&file, stat))
    }

    /// The attribute record of a file with this stat, if nothing has to be read for it.
    pub(crate) fn cached_record(&self, stat: &Stat) -> Option<Record> {
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

    /// Reads the attribute record of a file with this stat. The absence of a record is cached while the host
    /// shows the same time of change: setting the attribute that holds a record moves it.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn load_record(&self, node: &dyn Node, stat: &Stat) -> Result<Record, Refusal> {
        self.load_record_at(node, None, stat)
    }

    /// As [`Share::load_record`], for a file that was found at a location. It is not read if the file was
    /// created there a moment ago.
    pub(crate) fn load_record_at(
        &self,
        node: &dyn Node,
        parent_and_name: Option<&ParentAndName>,
        stat: &Stat,
    ) -> Result<Record, Refusal> {
        if let Some(record) = self.cached_record(stat) {
            return Ok(record);
        }
        let (written, stored) =
            (self.open_files().versions().written(stat.id), self.cache().written(stat.id));
        let made = parent_and_name.and_then(|(parent, name)| parent.made(name));
        if made.is_some_and(|made| made.has_no_record(stat, stored)) {
            return Ok(Record::default());
        }
        let record = Record::load(node)?;
        // A second change within one tick of the host's clock would not be seen.
        let is_settled = stat.changed.secs < self.directories().wall_secs().saturating_sub(SETTLED_AFTER_S);
        if record == Record::default() && is_settled && self.volume().properties().extended_attributes {
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
    /// The volume's error.
    pub(crate) fn put_record(&self, node: &dyn Node, record: &Record) -> Result<(), Refusal> {
        // A record that does not fit into the file's own attributes is a sidecar and moves none of its times.
        self.open_files().versions().forget_plain(node.id());
        self.cache().wrote(node.id());
        let stored = record.store(node);
        self.open_files().versions().forget_plain(node.id());
        self.cache().wrote(node.id());
        stored
    }

    /// Writes the stored descriptor of a file, or removes it (with `None`).
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn put_descriptor(&self, node: &dyn Node, bytes: Option<&[u8]>) -> Result<(), Refusal> {
        self.cache().wrote(node.id());
        let stored = node.set_note(Note::Descriptor, bytes);
        self.cache().wrote(node.id());
        Ok(stored?)
    }

    /// The attribute record of an open file.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn record_of(&self, open: &Open) -> Result<Record, Refusal> {
        self.record_at(&open.file, open.node.as_ref())
    }

    /// The attribute record of a file that is about to be opened.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn record_at(&self, file: &File, node: &dyn Node) -> Result<Record, Refusal> {
        if self.volume().properties().tells_changes
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

    /// Stores a file's record, and caches it. The caller holds `File::beside` since it read the values that
    /// the record was made of.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn store_record(&self, open: &Open, record: Record) -> Result<(), Refusal> {
        self.store_record_at(&open.file, open.node.as_ref(), record)
    }

    /// As [`Share::store_record`], for a file that is about to be opened.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn store_record_at(
        &self,
        file: &File,
        node: &dyn Node,
        record: Record,
    ) -> Result<(), Refusal> {
        self.put_record(node, &record)?;
        self.own_changed(file);
        file.note_record(record);
        Ok(())
    }

    /// A property of a file was changed that it does not count itself.
    pub(crate) fn own_changed(&self, file: &File) {
        file.own_changes.fetch_add(1, Ordering::SeqCst);
        self.open_files().versions().touch(file.id);
        if file.is_directory
            && let Some(directory) = self.directories().get(file.id)
        {
            directory.own_changed();
        }
    }

    /// Whether a node is a reparse point by its stored data.
    pub(crate) fn has_reparse(&self, node: &dyn Node) -> Result<bool, Refusal> {
        Ok(self.load_record(node, &node.stat()?)?.has_reparse)
    }

    /// Refuses a reparse point, whose owner has to be asked for it; `left` components follow behind it.
    // MS-FSA 2.1.5.1
    pub(crate) fn stop_at_reparse(&self, node: &dyn Node, left: usize) -> Result<(), Refusal> {
        if !self.has_reparse(node)? {
            return Ok(());
        }
        match node.note(Note::Reparse)? {
            Some(data) => Err(Refusal::StoppedAtReparse { data, left }),
            None => Ok(()),
        }
    }
}
