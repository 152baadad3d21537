//! Times, mode, owner, extended attributes and notes.

use std::ffi::{CStr, CString};

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;
use volume::{Failure, NodeKind, Note, Overview, Result, Time, Times};

use crate::errno::{call, failure};
use crate::node::PosixNode;
use crate::sys::ProcPath;

/// The namespace of attributes that belong to users of the host.
const USERS: &[u8] = b"user.";
/// The prefix of notes in either namespace. No client can use it.
const OURS: &[u8] = b"trunkline.";
/// Whether a note is a list of the host's own. It is stored only with the file.
fn is_hosts(note: Note) -> bool {
    matches!(note, Note::AccessList | Note::DefaultList)
}

/// Bytes that are sufficient for most values, so that one call reads them.
const USUAL: usize = 1024;
/// The host's limit for a value and for a list of names.
const LARGEST: usize = 64 * 1024;

/// The name of the attribute that holds a note. Only a privileged process can write attributes that a
/// file's owner cannot change.
fn note_name(note: Note, is_trusted: bool) -> &'static CStr {
    match (note, is_trusted) {
        (Note::Attributes, true) => c"trusted.trunkline.attributes",
        (Note::Descriptor, true) => c"trusted.trunkline.descriptor",
        (Note::ObjectId, true) => c"trusted.trunkline.object-id",
        (Note::Reparse, true) => c"trusted.trunkline.reparse",
        (Note::Attributes, false) => c"user.trunkline.attributes",
        (Note::Descriptor, false) => c"user.trunkline.descriptor",
        (Note::ObjectId, false) => c"user.trunkline.object-id",
        (Note::Reparse, false) => c"user.trunkline.reparse",
        (Note::AccessList, _) => c"system.posix_acl_access",
        (Note::DefaultList, _) => c"system.posix_acl_default",
    }
}

impl PosixNode {
    pub(crate) fn change_times(&self, times: Times) -> Result<()> {
        let stamp = |time: Option<Time>| match time {
            Some(time) => Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() },
            None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        };
        let both =
            Timestamps { last_access: stamp(times.accessed), last_modification: stamp(times.modified) };
        if times == Times::default() {
            return Ok(());
        }
        let fd = self.fd()?;
        call(|| rustix::fs::utimensat(&fd, c"", &both, AtFlags::EMPTY_PATH))
    }

    pub(crate) fn change_mode(&self, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        if self.kind == NodeKind::Link {
            return Err(Failure::NotSupported);
        }
        let fd = self.fd()?;
        if self.is_path {
            call(|| rustix::fs::chmod(ProcPath::of(&fd).as_c_str(), mode))
        } else {
            call(|| rustix::fs::fchmod(&fd, mode))
        }
    }

    pub(crate) fn change_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        // The host reads the largest number as "unchanged".
        if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
            return Err(Failure::Invalid);
        }
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        let fd = self.fd()?;
        call(|| rustix::fs::chownat(&fd, c"", uid, gid, AtFlags::EMPTY_PATH))
    }

    pub(crate) fn read_note(&self, note: Note) -> Result<Option<Vec<u8>>> {
        if self.shared.properties.extended_attributes {
            let name = note_name(note, self.shared.is_trusted);
            if let Some(value) = self.attribute(name).map_err(failure)? {
                return Ok(Some(value));
            }
        }
        if is_hosts(note) { Ok(None) } else { self.shared.sidecar.note(self, note) }
    }

    /// For most files the list of attribute names shows that there is no note.
    pub(crate) fn look_over(&self) -> Result<Overview> {
        let names =
            if self.shared.properties.extended_attributes { self.attribute_names()? } else { Vec::new() };
        let has = |note| {
            let name = note_name(note, self.shared.is_trusted).to_bytes();
            names.split(|&byte| byte == 0).any(|one| one == name)
        };
        let attributes = match has(Note::Attributes) {
            true => self.read_note(Note::Attributes)?,
            false => self.shared.sidecar.note(self, Note::Attributes)?,
        };
        Ok(Overview { attributes, access_list: has(Note::AccessList), default_list: has(Note::DefaultList) })
    }

    /// Sets or removes an access list of the host. The host adjusts the permission bits.
    fn write_list(&self, name: &CStr, value: Option<&[u8]>) -> Result<()> {
        let done = match value {
            Some(value) => self.write_raw(name, value),
            None => self.remove_attribute(name),
        };
        done.map_err(|errno| if errno == Errno::OPNOTSUPP { Failure::NotSupported } else { failure(errno) })
    }

    /// Whether new children of this directory get a default list of the host, so that no process's mask
    /// counts.
    // acl(5), "Object creation and default ACLs"
    pub(crate) fn hands_list_down(&self) -> bool {
        let name = note_name(Note::DefaultList, self.shared.is_trusted);
        self.shared.properties.extended_attributes && self.attribute(name).is_ok_and(|list| list.is_some())
    }

    /// A value that does not fit goes to the sidecar. If both places have one, that of the file counts.
    /// So the file is written last when the note moves to it, and first when the note moves away.
    pub(crate) fn write_note(&self, note: Note, value: Option<&[u8]>) -> Result<()> {
        let sidecar = &self.shared.sidecar;
        let name = note_name(note, self.shared.is_trusted);
        let can_hold = self.shared.properties.extended_attributes;
        if is_hosts(note) {
            return self.write_list(name, value);
        }
        let Some(value) = value else {
            sidecar.set_note(self, note, None)?;
            return if can_hold { self.remove_own(name) } else { Ok(()) };
        };
        if can_hold && value.len() <= LARGEST {
            match self.write_raw(name, value) {
                Ok(()) => return sidecar.set_note(self, note, None),
                Err(Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::OPNOTSUPP) => {}
                Err(Errno::PERM) if !self.has_users_attributes() => {}
                Err(errno) => return Err(failure(errno)),
            }
        }
        sidecar.set_note(self, note, Some(value))?;
        if !can_hold {
            return Ok(());
        }
        sidecar.sync_names(self)?;
        self.remove_own(name)
    }

    /// Moves a note from the file's own attributes to the sidecar. Returns whether there was one.
    fn move_to_sidecar(&self, note: Note) -> Result<bool> {
        let name = note_name(note, self.shared.is_trusted);
        let Some(value) = self.attribute(name).map_err(failure)? else { return Ok(false) };
        self.shared.sidecar.set_note(self, note, Some(&value))?;
        self.shared.sidecar.sync_names(self)?;
        self.remove_own(name)?;
        Ok(true)
    }

    /// Removes a note from the file's own attributes, if the file can have it.
    fn remove_own(&self, name: &CStr) -> Result<()> {
        match self.remove_attribute(name) {
            Err(Errno::PERM) if !self.has_users_attributes() => Ok(()),
            other => other.map_err(failure),
        }
    }

    /// Only files and directories can have attributes of users.
    fn has_users_attributes(&self) -> bool {
        matches!(self.kind, NodeKind::File | NodeKind::Directory)
    }

    pub(crate) fn list_attributes(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = Vec::new();
        for name in self.attribute_names()?.split(|&b| b == 0) {
            let Some(plain) = name.strip_prefix(USERS).filter(|n| !n.starts_with(OURS)) else { continue };
            let full = CString::new(name).map_err(|_| Failure::Io)?;
            // An attribute that was removed in between is left out.
            if let Some(value) = self.attribute(&full).map_err(failure)? {
                found.push((plain.to_vec(), value));
            }
        }
        Ok(found)
    }

    pub(crate) fn write_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        if name.starts_with(OURS) {
            return Err(Failure::Denied);
        }
        if name.is_empty() || USERS.len() + name.len() > 255 {
            return Err(if name.is_empty() { Failure::Invalid } else { Failure::NameTooLong });
        }
        let full = CString::new([USERS, name].concat()).map_err(|_| Failure::Invalid)?;
        let mut done = match value {
            Some(value) => self.write_raw(&full, value),
            None => self.remove_attribute(&full),
        };
        if let (Err(Errno::NOSPC), Some(value)) = (done, value) {
            // Some file systems have little space for attributes. Notes move to the sidecar then.
            for note in [Note::Reparse, Note::Descriptor, Note::Attributes, Note::ObjectId] {
                match self.move_to_sidecar(note) {
                    Ok(true) => done = self.write_raw(&full, value),
                    Ok(false) => {}
                    // The sidecar takes nothing of a file without a name, so its notes stay where they are.
                    Err(Failure::Stale) => break,
                    Err(failure) => return Err(failure),
                }
                if done.is_ok() {
                    break;
                }
            }
        }
        done.map_err(|errno| match errno {
            Errno::TOOBIG | Errno::RANGE => Failure::TooLarge,
            Errno::PERM if !self.has_users_attributes() => Failure::NotSupported,
            other => failure(other),
        })
    }

    /// The names of all attributes. Each is followed by a zero byte.
    fn attribute_names(&self) -> Result<Vec<u8>> {
        let fd = self.fd()?;
        for size in [USUAL, LARGEST] {
            let mut names = vec![0; size];
            let got = if self.is_path {
                rustix::fs::listxattr(ProcPath::of(&fd).as_c_str(), &mut names[..])
            } else {
                rustix::fs::flistxattr(&fd, &mut names[..])
            };
            match got {
                Ok(len) => {
                    names.truncate(len);
                    return Ok(names);
                }
                Err(Errno::RANGE) => {}
                Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
                Err(errno) => return Err(failure(errno)),
            }
        }
        Err(Failure::TooLarge)
    }

    /// The value of an attribute. `None` if it does not exist.
    fn attribute(&self, name: &CStr) -> rustix::io::Result<Option<Vec<u8>>> {
        let mut usual = [0; USUAL];
        match self.attribute_into(name, &mut usual) {
            Ok(len) => Ok(Some(usual[..len].to_vec())),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(Errno::RANGE) => {
                let mut large = vec![0; LARGEST];
                match self.attribute_into(name, &mut large) {
                    Ok(len) => {
                        large.truncate(len);
                        Ok(Some(large))
                    }
                    Err(Errno::NODATA) => Ok(None),
                    Err(errno) => Err(errno),
                }
            }
            Err(errno) => Err(errno),
        }
    }

    fn attribute_into(&self, name: &CStr, into: &mut [u8]) -> rustix::io::Result<usize> {
        let fd = self.raw_fd()?;
        if self.is_path {
            rustix::fs::getxattr(ProcPath::of(&fd).as_c_str(), name, into)
        } else {
            rustix::fs::fgetxattr(&fd, name, into)
        }
    }

    fn write_raw(&self, name: &CStr, value: &[u8]) -> rustix::io::Result<()> {
        let fd = self.raw_fd()?;
        if self.is_path {
            rustix::fs::setxattr(ProcPath::of(&fd).as_c_str(), name, value, XattrFlags::empty())
        } else {
            rustix::fs::fsetxattr(&fd, name, value, XattrFlags::empty())
        }
    }

    /// Removes an attribute. It is no error if it does not exist.
    fn remove_attribute(&self, name: &CStr) -> rustix::io::Result<()> {
        let fd = self.raw_fd()?;
        let done = if self.is_path {
            rustix::fs::removexattr(ProcPath::of(&fd).as_c_str(), name)
        } else {
            rustix::fs::fremovexattr(&fd, name)
        };
        match done {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            other => other,
        }
    }
}
