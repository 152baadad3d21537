//! What is asked about files, and what came of it.

use nfs_wire::attr::{Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::op::{Args, getattr};
use nfs_wire::types::{FileType, NfsTime, SetTime};

use super::answer::{Results, result_of};

use crate::Error;
use crate::error::Result;

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: FileType,
    /// Changes with every change of data or metadata.
    pub change: u64,
    /// Bytes of its data.
    pub size: u64,
    /// The file system that it is in.
    pub file_system: (u64, u64),
    /// Number of the file in its file system.
    pub file_id: u64,
    /// Permission bits.
    pub mode: u32,
    /// Names that it has.
    pub links: u32,
    /// Bytes that it takes of the server's store; none where the server does not say.
    pub space_used: Option<u64>,
    /// When its data was changed.
    pub modified: NfsTime,
}

/// What [`Attributes`] are made of.
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
    /// Those of a file that nothing is known of.
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

    /// Reads what [`WANTED`] asks for. What the server does not have is zero or none; kind, change and size it must have.
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

/// The result of GETATTR.
pub(crate) fn read_attributes(results: &mut Results<'_>) -> Result<Attributes> {
    let got: getattr::ResOk<'_> = result_of!(results, GetAttr)?;
    Attributes::read(&got.obj_attributes)
}

/// Values that are set with a file.
pub(crate) fn settings(modified: Option<NfsTime>, mode: Option<u32>) -> Vec<Attr<'static>> {
    // In the order of their numbers, as an attribute list must be.
    let modified = modified.map(|time| Attr::TimeModifySet(SetTime::Client(time)));
    mode.map(Attr::Mode).into_iter().chain(modified).collect()
}
