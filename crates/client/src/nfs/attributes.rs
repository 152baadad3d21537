//! The attributes of files that the client queries and sets.

use nfs_wire::attr::{Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::op::{Args, getattr};
use nfs_wire::types::{FileType, NfsTime, SetTime};

use super::compound_reply::{Results, result_of};

use crate::Error;
use crate::error::Result;

/// The attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The type.
    pub kind: FileType,
    /// The change attribute, which changes with data and metadata.
    pub change: u64,
    /// The size of its data in bytes.
    pub size: u64,
    /// The file system of the file.
    pub file_system: (u64, u64),
    /// The number of the file in its file system.
    pub file_id: u64,
    /// Permission bits.
    pub mode: u32,
    /// The number of its names.
    pub links: u32,
    /// The bytes it takes on the server's storage, or none where the server does not tell.
    pub space_used: Option<u64>,
    /// The time of the last change of its data.
    pub modified: NfsTime,
}

/// The attributes to query for [`Attributes`].
pub(crate) const WANTED: Bitmap = Bitmap::of(&[
    AttrNum::Type.get(),
    AttrNum::Change.get(),
    AttrNum::Size.get(),
    AttrNum::Fsid.get(),
    AttrNum::Fileid.get(),
    AttrNum::Mode.get(),
    AttrNum::Numlinks.get(),
    AttrNum::SpaceUsed.get(),
    AttrNum::TimeModify.get(),
]);

impl Attributes {
    /// The attributes of an unknown file.
    pub(crate) const UNKNOWN: Attributes = Attributes {
        kind: FileType::Reg,
        change: 0,
        size: 0,
        file_system: (0, 0),
        file_id: 0,
        mode: 0,
        links: 0,
        space_used: None,
        modified: NfsTime { seconds: 0, nseconds: 0 },
    };

    /// Parses the attributes of [`WANTED`]. Those that the server does not have are zero or none. It must
    /// have type, change and size.
    pub(crate) fn read(attributes: &Fattr<'_>) -> Result<Attributes> {
        let mut read = Attributes::UNKNOWN;
        for attribute in attributes.iter() {
            match attribute.map_err(|_| Error::Protocol("attributes that cannot be read"))? {
                Attr::Type(kind) => read.kind = kind,
                Attr::Change(change) => read.change = change,
                Attr::Size(size) => read.size = size,
                Attr::Fsid(id) => read.file_system = (id.major, id.minor),
                Attr::Fileid(number) => read.file_id = number,
                Attr::Mode(mode) => read.mode = mode,
                Attr::Numlinks(count) => read.links = count,
                Attr::SpaceUsed(bytes) => read.space_used = Some(bytes),
                Attr::TimeModify(time) => read.modified = time,
                _ => {}
            }
        }
        let must = [AttrNum::Type, AttrNum::Change, AttrNum::Size];
        match must.iter().all(|number| attributes.mask.has(number.get())) {
            true => Ok(read),
            false => Err(Error::Protocol("attributes without those that every file has")),
        }
    }
}

pub(crate) fn attributes() -> Args<'static> {
    Args::GetAttr(getattr::Args { attr_request: WANTED })
}

/// Parses the result of GETATTR.
pub(crate) fn read_attributes(results: &mut Results<'_>) -> Result<Attributes> {
    let got: getattr::ResOk<'_> = result_of!(results, GetAttr)?;
    Attributes::read(&got.obj_attributes)
}

/// The attributes to set with a file.
pub(crate) fn settings(modified: Option<NfsTime>, mode: Option<u32>) -> Vec<Attr<'static>> {
    // An attribute list must be in the order of the attribute numbers.
    let modified = modified.map(|time| Attr::TimeModifySet(SetTime::Client(time)));
    mode.map(Attr::Mode).into_iter().chain(modified).collect()
}
