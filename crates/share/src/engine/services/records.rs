//! The attribute record of a file: read, as far as it is not known, and stored.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::{Name, Node, NodeId, Note, Stat};

use crate::engine::Share;
use crate::engine::parts::file::File;
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::record::Record;
use crate::{Open, Refusal};

/// How many whole seconds ago a file must have been changed before that it has no record is remembered.
const SETTLED_AFTER_S: i64 = 2;

/// A directory, and a name in it.
pub(crate) type Place = (Arc<Directory>, Name);

impl Share {
    /// Whether the volume tells of every change of what is kept of an open file: not of those through another name, which
    /// may stand where nobody looks.
    pub(crate) fn is_told_of(&self, file: &File, stat: &Stat) -> bool {
        self.volume().properties().tells_changes && (file.is_directory || stat.links <= 1)
    }

    /// The attribute record of an open file, if it was read and the volume tells of its changes.
    pub(crate) fn record_if_told(&self, file: &File, stat: &Stat) -> Option<Record> {
        if self.is_told_of(file, stat) { file.record() } else { None }
    }

    /// Whether a record of a file may be known that is not remembered with its figures; they tell whether it still counts.
    pub(crate) fn may_know_record(&self, id: NodeId) -> bool {
        self.open_files().versions().has_plain(id) || self.open_files().get(id).is_some()
    }

    /// The attribute record of a file with these figures, whether somebody has it open or not.
    ///
    /// # Errors
    /// As the volume says.
    pub(crate) fn record_of_node(&self, node: &dyn Node, stat: &Stat) -> Result<Record, Refusal> {
        self.told_record(stat).map_or_else(|| self.load_record(node, stat), Ok)
    }

    fn told_record(&self, stat: &Stat) -> Option<Record> {
        self.open_files().get(stat.id).and_then(|file| self.record_if_told(&file, stat))
    }

    /// The attribute record of a file with these figures, where nothing has to be read for it.
    pub(crate) fn remembered_record(&self, stat: &Stat) -> Option<Record> {
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
    pub(crate) fn load_record(&self, node: &dyn Node, stat: &Stat) -> Result<Record, Refusal> {
        self.load_record_at(node, None, stat)
    }

    /// The same for a file that was found in a place, which is not asked when it was made there a moment ago.
    pub(crate) fn load_record_at(
        &self,
        node: &dyn Node,
        place: Option<&Place>,
        stat: &Stat,
    ) -> Result<Record, Refusal> {
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
    /// As the volume says.
    pub(crate) fn put_record(&self, node: &dyn Node, record: &Record) -> Result<(), Refusal> {
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
    pub(crate) fn put_descriptor(&self, node: &dyn Node, bytes: Option<&[u8]>) -> Result<(), Refusal> {
        self.cache().wrote(node.id());
        let stored = node.set_note(Note::Descriptor, bytes);
        self.cache().wrote(node.id());
        Ok(stored?)
    }

    /// The attribute record of an open file.
    ///
    /// # Errors
    /// As the volume says.
    pub(crate) fn record_of(&self, open: &Open) -> Result<Record, Refusal> {
        self.record_at(&open.file, open.node.as_ref())
    }

    /// The same for a file that is about to be handed out.
    ///
    /// # Errors
    /// As the volume says.
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

    /// Stores a file's record and remembers it. What it was made of was read under `File::beside`, which the caller holds.
    ///
    /// # Errors
    /// As the volume says.
    pub(crate) fn store_record(&self, open: &Open, record: Record) -> Result<(), Refusal> {
        self.store_record_at(&open.file, open.node.as_ref(), record)
    }

    /// The same for a file that is about to be handed out.
    ///
    /// # Errors
    /// As the volume says.
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

    /// Something of a file was changed that it does not count itself.
    pub(crate) fn own_changed(&self, file: &File) {
        file.own_changes.fetch_add(1, Ordering::SeqCst);
        self.open_files().versions().touch(file.id);
        if file.is_directory
            && let Some(directory) = self.directories().get(file.id)
        {
            directory.own_changed();
        }
    }

    /// Whether a node is a reparse point by what is stored with it.
    pub(crate) fn has_reparse(&self, node: &dyn Node) -> Result<bool, Refusal> {
        Ok(self.load_record(node, &node.stat()?)?.has_reparse)
    }

    /// Refuses for a reparse point, which its owner has to be asked for; `left` components follow behind it.
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
