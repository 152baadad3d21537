//! The POSIX access lists that the host keeps of its own: read where no descriptor is stored, and made to say what a
//! descriptor says that is set.

use std::sync::Arc;

use volume::security::posix::{self, Numbers, PosixAcl, PosixEntry, Tag};
use volume::security::{Descriptor, Sid};
use volume::{Node, Note, Stat};

use crate::Refusal;
use crate::engine::values::config::Accounts;
use crate::engine::values::record::{Record, Shown, named_hash};

/// Users and groups of the host as the share knows them.
pub(crate) struct HostNumbers(pub Arc<dyn Accounts>);

impl Numbers for HostNumbers {
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

/// The host's lists of a file that has such.
///
/// # Errors
/// As the volume says; [`Refusal::Io`] for one that cannot be read, which is not taken for permission.
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

/// Makes the host's lists of a file that has such say what a descriptor says, whose permission bits on the host are to be
/// `mode`; says which bits that comes to.
///
/// # Errors
/// As the volume says.
pub(crate) fn write_lists(
    node: &dyn Node,
    record: &mut Record,
    descriptor: &Descriptor,
    is_directory: bool,
    mode: u32,
    numbers: &HostNumbers,
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

/// The same for the list that counts for the file itself.
///
/// # Errors
/// As the volume says.
pub(crate) fn write_access_list(
    node: &dyn Node,
    record: &mut Record,
    descriptor: &Descriptor,
    is_directory: bool,
    mode: u32,
    numbers: &HostNumbers,
) -> volume::Result<u32> {
    if !record.access_list {
        return Ok(mode);
    }
    let (acl, _) = posix::posix_of(descriptor, is_directory, mode, true, numbers);
    write_access(node, record, &acl, mode)
}

/// The same with what the descriptor comes to.
fn write_access(node: &dyn Node, record: &mut Record, acl: &PosixAcl, mode: u32) -> volume::Result<u32> {
    if !record.access_list {
        return Ok(mode);
    }
    record.access_list = write(node, Note::AccessList, &acl.access)?;
    Ok(acl.mode)
}

/// Writes a list, or removes one that says nothing; says whether there is one now.
fn write(node: &dyn Node, note: Note, list: &[PosixEntry]) -> volume::Result<bool> {
    let bytes = posix::encode(list);
    node.set_note(note, (!list.is_empty()).then_some(&bytes[..]))?;
    Ok(!list.is_empty())
}

/// What the host shows, with these figures, of a descriptor that comes to these permission bits; to be stored with it.
///
/// # Errors
/// As the volume says.
pub(crate) fn shown_now(node: &dyn Node, stat: &Stat, record: &Record, mode: u32) -> Result<Shown, Refusal> {
    let list = if record.access_list { node.note(Note::AccessList)? } else { None };
    let bits = |mode: u32| (mode & 0o777) as u16;
    Ok(Shown { host: bits(stat.mode), mode: bits(mode), list: named_hash(list.as_deref()) })
}
