//! Reparse points, symbolic links of the host, and object ids.

use std::sync::Arc;

use volume::NodeKind;
use volume::Note;
use volume::security::{Privileges, Rights};
use wire::Now;

use crate::engine::Share;
use crate::engine::lookup::removal::check_empty;
use crate::engine::operations::info::tag_of;
use crate::engine::services::audit::AuditedStep;
use crate::engine::values::record::Record;
use crate::info::number_on;
use crate::{AuditDetail, AuditedOperation, Caller, ChangeFilter, ChangeKind, Open, Refusal};

/// Longest reparse point in bytes.
// MS-FSCC 2.1.2
const MAX_REPARSE: usize = 16 * 1024;

impl Share {
    /// The bytes of a reparse point, its tag first.
    ///
    /// # Errors
    /// [`Refusal::NoSuchNote`] if the file is none. A symbolic link of the host is none either;
    /// [`Share::link_text`] gives its text. The volume's error.
    // MS-FSA 2.1.5.10.14
    pub fn reparse(&self, open: &Open) -> Result<Vec<u8>, Refusal> {
        if !self.record_of(open)?.has_reparse {
            return Err(Refusal::NoSuchNote);
        }
        open.node.note(Note::Reparse)?.ok_or(Refusal::NoSuchNote)
    }

    /// Makes the open file a reparse point, or changes the data of one with the same tag.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::Invalid`], [`Refusal::NotEmpty`]; the volume's error.
    // MS-FSA 2.1.5.10.37
    pub fn set_reparse(&self, caller: &Caller<'_>, open: &Arc<Open>, bytes: &[u8]) -> Result<(), Refusal> {
        let set = self.set_reparse_now(caller, open, bytes);
        self.audited_now(caller, open, AuditedStep::of(AuditedOperation::SetReparse), set)
    }

    fn set_reparse_now(&self, caller: &Caller<'_>, open: &Arc<Open>, bytes: &[u8]) -> Result<(), Refusal> {
        self.check_note_change(open)?;
        self.check_not_home(caller.identity, open)?;
        self.check_not_recycle_folder(open)?;
        if bytes.len() < 8 || bytes.len() > MAX_REPARSE {
            return Err(Refusal::Invalid);
        }
        if open.is_directory() {
            check_empty(open)?;
        }
        let beside = open.file.beside.lock();
        match self.reparse(open) {
            Ok(old) if tag_of(&old) != tag_of(bytes) => return Err(Refusal::Invalid),
            Ok(_) | Err(Refusal::NoSuchNote) => {}
            Err(why) => return Err(why),
        }
        open.node.set_note(Note::Reparse, Some(bytes))?;
        let record = self.record_of(open)?;
        self.store_record(open, Record { has_reparse: true, ..record })?;
        drop(beside);
        self.report_reparse(open);
        Ok(())
    }

    /// Turns a reparse point with this tag into an ordinary file or empty directory.
    ///
    /// # Errors
    /// [`Refusal::NoSuchNote`], [`Refusal::Invalid`] for another tag, [`Refusal::AccessDenied`].
    // MS-FSA 2.1.5.10.3
    pub fn delete_reparse(&self, caller: &Caller<'_>, open: &Arc<Open>, tag: u32) -> Result<(), Refusal> {
        let deleted = self.delete_reparse_now(open, tag);
        self.audited_now(caller, open, AuditedStep::of(AuditedOperation::SetReparse), deleted)
    }

    fn delete_reparse_now(&self, open: &Arc<Open>, tag: u32) -> Result<(), Refusal> {
        self.check_note_change(open)?;
        let beside = open.file.beside.lock();
        if tag_of(&self.reparse(open)?) != tag {
            return Err(Refusal::Invalid);
        }
        open.node.set_note(Note::Reparse, None)?;
        let record = self.record_of(open)?;
        self.store_record(open, Record { has_reparse: false, ..record })?;
        drop(beside);
        self.report_reparse(open);
        Ok(())
    }

    /// Puts a symbolic link of the host in the place of the open file or empty directory. The open goes on
    /// with the file, which has no name any more.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::Invalid`] for a file with data; the volume's error.
    // MS-FSA 2.1.5.10.37
    pub fn make_link(&self, caller: &Caller<'_>, open: &Arc<Open>, text: &[u8]) -> Result<(), Refusal> {
        let made = self.make_link_now(caller, open, text);
        let step = AuditedStep::with(AuditedOperation::Symlink, AuditDetail::LinkText(text));
        self.audited_now(caller, open, step, made)
    }

    fn make_link_now(&self, caller: &Caller<'_>, open: &Arc<Open>, text: &[u8]) -> Result<(), Refusal> {
        self.check_note_change(open)?;
        self.check_not_home(caller.identity, open)?;
        self.check_not_recycle_folder(open)?;
        let link = open.link.as_ref().ok_or(Refusal::AccessDenied)?;
        if text.is_empty() || open.stream.is_named {
            return Err(Refusal::Invalid);
        }
        let (parent, name) = link.parent_and_name();
        self.check_link(caller.identity, &parent, text)?;
        let stat = open.node.stat()?;
        if stat.kind == NodeKind::File && stat.size > 0 {
            return Err(Refusal::Invalid);
        }
        let actor = caller.identity.actor.as_ref();
        let changing = parent.change(&[&name]);
        parent.node.remove(&name, open.file.is_directory, actor)?;
        parent.removed(&name);
        let made = parent.node.create_link(&name, text, actor);
        if made.is_ok() {
            parent.added(&name);
        }
        drop(changing);
        if let Some(entry) = open.file.state.lock().link(link) {
            entry.removed = true;
        }
        self.directories().forget(open.file.id);
        self.entries_changed(&parent, &open.requester(), caller.cause());
        made?;
        self.report_reparse(open);
        Ok(())
    }

    /// The text of a symbolic link of the host.
    ///
    /// # Errors
    /// [`Refusal::NoSuchNote`] if the file is none; the volume's error.
    pub fn link_text(&self, open: &Open) -> Result<Vec<u8>, Refusal> {
        if open.file.kind != NodeKind::Link {
            return Err(Refusal::NoSuchNote);
        }
        Ok(open.node.link_text()?)
    }

    fn check_note_change(&self, open: &Open) -> Result<(), Refusal> {
        if !open.granted.intersects(Rights::WRITE_DATA | Rights::WRITE_ATTRIBUTES) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()
    }

    fn report_reparse(&self, open: &Open) {
        if let Some(link) = &open.link {
            self.report(link, None, ChangeKind::Modified, ChangeFilter::ATTRIBUTES);
        }
    }

    /// The sixteen bytes of the object id, by which other files link to this one. If there are none, `create`
    /// makes them. That changes the file and therefore needs a right to.
    ///
    /// # Errors
    /// [`Refusal::NoSuchNote`], [`Refusal::AccessDenied`], [`Refusal::ReadOnly`]; the volume's error.
    // MS-FSA 2.1.5.10.1 (exception: it asks for no right)
    pub fn object_id(&self, open: &Open, create: bool, now: Now) -> Result<[u8; 16], Refusal> {
        if let Some(id) = open.node.note(Note::ObjectId)?.and_then(|bytes| bytes.first_chunk().copied()) {
            return Ok(id);
        }
        if !create {
            return Err(Refusal::NoSuchNote);
        }
        self.check_note_change(open)?;
        // No two files of a volume have had one number at one time.
        let number = number_on(open.node.stat()?.file_system, open.file.id.inode);
        let file = number ^ self.volume().properties().serial.rotate_left(32);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&file.to_le_bytes());
        id[8..].copy_from_slice(&now.wall_ns.to_le_bytes());
        open.node.set_note(Note::ObjectId, Some(&id))?;
        Ok(id)
    }

    /// The birth part that was set with the sixteen bytes of [`Share::object_id`]; none for a file whose id
    /// was made here.
    ///
    /// # Errors
    /// The volume's error.
    pub fn object_birth(&self, open: &Open) -> Result<Option<[u8; 48]>, Refusal> {
        let note = open.node.note(Note::ObjectId)?;
        Ok(note.and_then(|bytes| <[u8; 48]>::try_from(bytes.get(16..)?).ok()))
    }

    /// Gives a file without one an object id and its birth part. Programs that restore files use it.
    ///
    /// # Errors
    /// [`Refusal::ReadOnly`], [`Refusal::AccessDenied`], [`Refusal::Exists`]; the volume's error.
    // MS-FSA 2.1.5.10.35 (exception: nobody looks for another file with the same bytes, since no host finds
    // files by them)
    pub fn set_object_id(&self, caller: &Caller<'_>, open: &Open, whole: &[u8; 64]) -> Result<(), Refusal> {
        self.check_writable()?;
        if !self.token(caller, open.options).privileges.contains(Privileges::RESTORE) {
            return Err(Refusal::AccessDenied);
        }
        let _beside = open.file.beside.lock();
        if open.node.note(Note::ObjectId)?.is_some() {
            return Err(Refusal::Exists);
        }
        Ok(open.node.set_note(Note::ObjectId, Some(whole))?)
    }

    /// Removes the object id, if there is one.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::ReadOnly`]; the volume's error.
    // MS-FSA 2.1.5.10.2 (exception: it asks for no right)
    pub fn delete_object_id(&self, open: &Open) -> Result<(), Refusal> {
        self.check_note_change(open)?;
        let _beside = open.file.beside.lock();
        match open.node.note(Note::ObjectId)? {
            Some(_) => Ok(open.node.set_note(Note::ObjectId, None)?),
            None => Ok(()),
        }
    }
}
