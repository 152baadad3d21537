//! The POSIX access lists of the host. They are read if no descriptor is stored. When a descriptor is set,
//! they are changed to say the same.

use std::sync::Arc;

use volume::security::posix::{self, IdMap, PosixAcl, PosixEntry, Tag};
use volume::security::{Descriptor, Sid};
use volume::{Node, Note, Stat};

use crate::Refusal;
use crate::engine::values::accounts::AccountMapping;
use crate::engine::values::record::{Record, ShownDescriptor, named_hash};

/// Users and groups of the host as the share knows them.
pub(crate) struct HostIdMap(pub Arc<dyn AccountMapping>);

impl IdMap for HostIdMap {
    fn user(&self, uid: u32) -> Sid {
        self.0.user_sid(uid)
    }

    fn group(&self, gid: u32) -> Sid {
        self.0.group_sid(gid)
    }

    fn named(&self, sid: &Sid) -> Option<(Tag, u32)> {
        let user = self.0.uid(sid).map(|uid| (Tag::User, uid));
        user.or_else(|| self.0.gid(sid).map(|gid| (Tag::Group, gid)))
    }
}

/// The host's lists of a file that has some.
///
/// # Errors
/// The volume's error; [`Refusal::Io`] for a list that cannot be read, which gives no permission.
pub(crate) fn lists_of(node: &dyn Node, stat: &Stat, record: &Record) -> Result<PosixAcl, Refusal> {
    let read = |is_there, note| -> Result<_, Refusal> {
        let bytes = if is_there { node.note(note)? } else { None };
        bytes.map_or(Ok(Vec::new()), |bytes| posix::parse(&bytes).ok_or(Refusal::Io))
    };
    Ok(PosixAcl {
        mode: stat.mode,
        access: read(record.access_list, Note::AccessList)?,
        default: read(record.default_list, Note::DefaultList)?,
    })
}

/// Changes the host's lists of a file that has some to say the same as a descriptor. `mode` are the
/// permission bits that the host is to have. Returns the resulting bits.
///
/// # Errors
/// The volume's error.
pub(crate) fn write_lists(
    node: &dyn Node,
    record: &mut Record,
    descriptor: &Descriptor,
    is_directory: bool,
    mode: u32,
    numbers: &HostIdMap,
) -> volume::Result<u32> {
    if !record.access_list && !record.default_list {
        return Ok(mode);
    }
    let (acl, _) = posix::posix_of(descriptor, is_directory, mode, true, numbers);
    let host = write_access(node, record, &acl, mode)?;
    if record.default_list {
        record.default_list = write(node, Note::DefaultList, &acl.default)?;
    }
    Ok(host)
}

/// As [`write_lists`], for the list of the file itself.
///
/// # Errors
/// The volume's error.
pub(crate) fn write_access_list(
    node: &dyn Node,
    record: &mut Record,
    descriptor: &Descriptor,
    is_directory: bool,
    mode: u32,
    numbers: &HostIdMap,
) -> volume::Result<u32> {
    if !record.access_list {
        return Ok(mode);
    }
    let (acl, _) = posix::posix_of(descriptor, is_directory, mode, true, numbers);
    write_access(node, record, &acl, mode)
}

/// As [`write_access_list`], with the lists that the descriptor results in.
fn write_access(node: &dyn Node, record: &mut Record, acl: &PosixAcl, mode: u32) -> volume::Result<u32> {
    if !record.access_list {
        return Ok(mode);
    }
    record.access_list = write(node, Note::AccessList, &acl.access)?;
    Ok(acl.mode)
}

/// Writes a list, or removes one without entries. Returns whether there is one now.
fn write(node: &dyn Node, note: Note, list: &[PosixEntry]) -> volume::Result<bool> {
    let bytes = posix::encode(list);
    node.set_note(note, (!list.is_empty()).then_some(&bytes[..]))?;
    Ok(!list.is_empty())
}

/// The values that the host shows, with this stat, for a descriptor that results in these permission bits.
/// They are stored with it.
///
/// # Errors
/// The volume's error.
pub(crate) fn shown_now(
    node: &dyn Node,
    stat: &Stat,
    record: &Record,
    mode: u32,
) -> Result<ShownDescriptor, Refusal> {
    let list = if record.access_list { node.note(Note::AccessList)? } else { None };
    let bits = |mode: u32| (mode & 0o777) as u16;
    Ok(ShownDescriptor { host: bits(stat.mode), mode: bits(mode), list: named_hash(list.as_deref()) })
}
