//! The properties that a decision about a file needs, read in one step.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::{self, Descriptor};
use volume::{Node, Note, Stat};

use crate::Refusal;
use crate::engine::Share;
use crate::engine::parts::file::File;
use crate::engine::services::records::ParentAndName;
use crate::engine::values::host_lists::shown_now;
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;

/// The properties of a file that were read before a decision about it.
pub(crate) struct FileProperties {
    pub stat: Stat,
    pub record: Record,
    pub security: Arc<Security>,
}

impl Share {
    /// Reads the properties that a decision about a file needs. Those known from another open are not read
    /// again. `parent_and_name` is its location, if that is known to be current, and `seen` the stat
    /// that the volume returned just now.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn properties(
        &self,
        file: &Arc<File>,
        node: &dyn Node,
        parent_and_name: Option<&ParentAndName>,
        seen: Option<Stat>,
    ) -> Result<FileProperties, Refusal> {
        let properties = self.properties_as_found(file, node, parent_and_name, seen)?;
        if properties.security.is_overtaken && self.adopt_host_access(file, node) {
            return self.properties_as_found(file, node, parent_and_name, None);
        }
        Ok(properties)
    }

    fn properties_as_found(
        &self,
        file: &Arc<File>,
        node: &dyn Node,
        parent_and_name: Option<&ParentAndName>,
        seen: Option<Stat>,
    ) -> Result<FileProperties, Refusal> {
        let stat = match seen {
            Some(seen) => seen,
            None => node.stat()?,
        };
        file.note_mode(stat.mode);
        let known = self.reports_changes_of(file, &stat).then(|| {
            let state = file.state.lock();
            state.record.zip(state.security.clone().filter(|security| security.fits(&stat)))
        });
        if let Some((record, security)) = known.flatten() {
            return Ok(FileProperties { stat, record, security });
        }
        let counted = || (self.cache().written(stat.id), file.own_changes.load(Ordering::SeqCst));
        let before = counted();
        let record = self.load_record_at(node, parent_and_name, &stat)?;
        let security = self.load_security(node, &stat, &record)?;
        let mut state = file.state.lock();
        // Another request, or a program of the host, may have stored another one meanwhile.
        if counted() == before {
            state.record = Some(record);
            state.security = Some(Arc::clone(&security));
        }
        drop(state);
        Ok(FileProperties { stat, record, security })
    }

    /// Stores the descriptor after a program of the host has overridden one that a client once set. A mode
    /// that was set since is applied to the descriptor. If the host's access list is another one, the
    /// descriptor is dropped. No later change by the host brings the old one back. Returns true if that is
    /// stored. If it cannot be stored, or if another request changes it just now, the next check tries again.
    ///
    /// The host's time of change would not be enough to tell: it moves with each write, too.
    // RFC 8881 6.4.1.1
    pub(crate) fn adopt_host_access(&self, file: &File, node: &dyn Node) -> bool {
        // The request that changes it may be the one that checks here.
        let Some(_beside) = file.beside.try_lock() else { return false };
        self.check_writable().and_then(|()| self.store_host_access(file, node)).is_ok()
    }

    fn store_host_access(&self, file: &File, node: &dyn Node) -> Result<(), Refusal> {
        let stat = node.stat()?;
        let mut record = Record::load(node)?;
        if record.has_lost_descriptor {
            record.has_lost_descriptor = false;
            self.store_record_at(file, node, record)?;
            self.put_descriptor(node, None)?;
        } else if record.is_overtaken(&stat)
            && let Some(bytes) = node.note(Note::Descriptor)?
        {
            let mut descriptor = Descriptor::parse(&bytes).map_err(|_| Refusal::Io)?;
            security::apply_mode(&mut descriptor, stat.mode);
            let bytes = descriptor.encode().map_err(|_| Refusal::Invalid)?;
            self.put_descriptor(node, Some(&bytes))?;
            record.shown = Some(shown_now(node, &stat, &record, stat.mode)?);
            self.store_record_at(file, node, record)?;
        }
        file.forget_security();
        Ok(())
    }
}
