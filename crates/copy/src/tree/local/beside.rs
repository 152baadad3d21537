//! What files of this host have beside their data.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;

use crate::Keep;
use crate::beside::{Beside, Given, List, Lost, Owner, Who, Xattr};
use volume::security::posix::{PosixAcl, encode, parse};

/// What every extended attribute of a user begins with.
const USER: &[u8] = b"user.";
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// The longest value and list of names that Linux has.
const LONGEST: usize = 64 * 1024;

/// What a file or directory has.
pub(super) fn read(file: &fs::File, keep: &Keep) -> io::Result<Beside> {
    let mut found = Beside::default();
    let known = file.metadata()?;
    if keep.owners || keep.lists {
        found.owner = Some(Owner { user: Who::Number(known.uid()), group: Who::Number(known.gid()) });
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
            // One that was taken away since it was listed is none.
            if let Some(value) = get(file, OsStr::from_bytes(&name))? {
                found.xattrs.push(Xattr { name: short.to_vec(), value });
            }
        }
    }
    Ok(found)
}

/// Gives a file or directory what another one has. Answers what this host cannot hold.
pub(super) fn write(file: &fs::File, found: &Beside, keep: &Keep) -> io::Result<Given> {
    let Given { mut list, owner: mut has_owner, mut lost } = Given::default();
    let known = file.metadata()?;
    if keep.owners
        && let Some(owner) = &found.owner
    {
        match (owner.user.number(false), owner.group.number(true)) {
            (Some(uid), Some(gid)) => {
                fchown(file, Some(uid), Some(gid))?;
                has_owner = true;
            }
            _ => lost.push(Lost::Owner),
        }
    }
    if keep.lists
        && let Some(given) = &found.list
    {
        // Until it is whole it has only those bits that nobody else can make use of.
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
    Ok(Given { list, owner: has_owner, lost })
}

/// The value of an attribute, if it is there and the file system has such.
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

/// Sets an attribute. False when the file system has no such, or none of this name or size.
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
