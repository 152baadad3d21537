//! What a decision about a file needs, read in one step.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::{self, Descriptor};
use volume::{Node, Note, Stat};

use crate::Refusal;
use crate::engine::Share;
use crate::engine::parts::file::File;
use crate::engine::services::records::Place;
use crate::engine::values::host_lists::shown_now;
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;

/// What was read of a file before a decision about it.
pub(crate) struct Facts {
    pub stat: Stat,
    pub record: Record,
    pub security: Arc<Security>,
}

impl Share {
    /// Reads what a decision about a file needs; what is known from another open is not read again. `place` is where it was
    /// found, if that is known to be so still, and `seen` what the volume has said of it just now.
    ///
    /// # Errors
    /// As the volume says.
    pub(crate) fn facts(
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

    /// Stores what the host has made of a descriptor that a client once set: the mode that a program of the host has set since is
    /// applied to it, or it goes where the host's access list is another. Nothing that the host sets later brings the old one back.
    /// True when that is stored; where it cannot be, or somebody changes it just now, who looks next tries again.
    ///
    /// The host's time of change could not tell as much: it moves with each write, too.
    // RFC 8881 6.4.1.1
    pub(crate) fn keep_what_the_host_set(&self, file: &File, node: &dyn Node) -> bool {
        // Who changes it may be the one who asks here.
        let Some(_beside) = file.beside.try_lock() else { return false };
        self.check_writable().and_then(|()| self.store_what_the_host_set(file, node)).is_ok()
    }

    fn store_what_the_host_set(&self, file: &File, node: &dyn Node) -> Result<(), Refusal> {
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
