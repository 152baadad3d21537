//! The sidecar data of files of this host.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;

use crate::PreservedParts;
use crate::error::owner_refused;
use crate::sidecar::{List, Lost, Owner, OwnerId, Sidecar, SidecarOutcome, Xattr};
use volume::security::posix::{PosixAcl, encode, parse};

/// The namespace of user attributes.
const USER: &[u8] = b"user.";
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// The longest value and the longest list of names on Linux.
const LONGEST: usize = 64 * 1024;

/// Reads the sidecar data of a file or directory.
pub(in crate::tree) fn read(file: &fs::File, keep: &PreservedParts) -> io::Result<Sidecar> {
    let mut found = Sidecar::default();
    let known = file.metadata()?;
    if keep.owners || keep.lists {
        found.owner = Some(Owner { user: OwnerId::Number(known.uid()), group: OwnerId::Number(known.gid()) });
    }
    if keep.lists {
        let list =
            |name| Ok::<_, io::Error>(get(file, name)?.and_then(|value| parse(&value)).unwrap_or_default());
        let default = if known.is_dir() { list(DEFAULT)? } else { Vec::new() };
        let access = list(ACCESS)?;
        found.list = Some(List::Posix(PosixAcl { mode: known.mode() & super::PERMISSIONS, access, default }));
    }
    if keep.xattrs {
        for name in names(file)? {
            let Some(short) = name.strip_prefix(USER) else { continue };
            // It may have been removed after it was listed.
            if let Some(value) = get(file, OsStr::from_bytes(&name))? {
                found.xattrs.push(Xattr { name: short.to_vec(), value });
            }
        }
    }
    Ok(found)
}

/// Sets the sidecar data of another file. Returns what this host cannot hold.
pub(in crate::tree) fn write(
    file: &fs::File,
    found: &Sidecar,
    keep: &PreservedParts,
) -> io::Result<SidecarOutcome> {
    let SidecarOutcome { mut list, owner: mut has_owner, mut lost } = SidecarOutcome::default();
    let known = file.metadata()?;
    if keep.owners
        && let Some(owner) = &found.owner
    {
        match (owner.user.number(false), owner.group.number(true)) {
            (Some(uid), Some(gid)) => {
                fchown(file, Some(uid), Some(gid)).map_err(owner_refused)?;
                has_owner = true;
            }
            _ => lost.push(Lost::Owner),
        }
    }
    if keep.lists
        && let Some(given) = &found.list
    {
        // Until it is complete it has only bits that nobody else can use.
        let bits = found.mode.unwrap_or(known.mode()) & super::PERMISSIONS;
        let (made, all) = given.to_posix(found.owner.as_ref(), known.is_dir(), bits);
        if !all {
            lost.push(Lost::PartOfList);
        }
        file.set_permissions(Permissions::from_mode(made.mode))?;
        list = true;
        let lists = [(ACCESS, &made.access), (DEFAULT, &made.default)];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            if !set(file, OsStr::new(name), &encode(list))? {
                lost.push(Lost::List);
            }
        }
    }
    for Xattr { name, value } in &found.xattrs {
        let name = [USER, name].concat();
        if !set(file, OsStr::from_bytes(&name), value)? {
            lost.push(Lost::Xattr);
        }
    }
    Ok(SidecarOutcome { list, owner: has_owner, lost })
}

/// The value of an attribute, if it exists and the file system supports attributes.
fn get(file: &fs::File, name: impl rustix::path::Arg) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; LONGEST];
    match fgetxattr(file, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            value.shrink_to_fit();
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sets an attribute. Returns false if the file system has no attributes, or none of this name or size.
fn set(file: &fs::File, name: &OsStr, value: &[u8]) -> io::Result<bool> {
    match fsetxattr(file, name, value, XattrFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::INVAL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn names(file: &fs::File) -> io::Result<Vec<Vec<u8>>> {
    let mut list = vec![0u8; LONGEST];
    let length = match flistxattr(file, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}
