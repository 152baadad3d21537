//! Listings, and the content of small files.

use bytes::Bytes;
use client::remote::{Attributes, Kind};

use crate::name;

/// The content of a small file.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) content: Bytes,
    /// Its attributes after it was read.
    pub(crate) attributes: Attributes,
    /// Whether it has named streams, if that matters.
    pub(crate) has_streams: bool,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) attributes: Attributes,
}

/// The listing of a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Entry>,
    /// Names that cannot be used, each with the reason.
    pub(crate) unusable: Vec<(String, String)>,
}

impl Listing {
    /// Adds a name in the form of the side.
    pub(crate) fn add(&mut self, raw: &[u8], attributes: Attributes) {
        let usable = match std::str::from_utf8(raw) {
            Ok(name) => name::check(name).map(|()| name.to_owned()),
            Err(_) => Err("its name is not UTF-8, which a copy needs; rename it".to_owned()),
        };
        match usable {
            Ok(name) => self.entries.push(Entry { name, attributes }),
            Err(why) => self.unusable.push((String::from_utf8_lossy(raw).into_owned(), why)),
        }
    }
}

/// The place of a new file. The less there is to spare, the less work a small file takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetName {
    /// There may be another file.
    Taken,
    /// There is no other file.
    Free,
    /// There is no other file, in a staged directory.
    Unseen,
}

impl TargetName {
    /// The place in which `there` was found.
    pub(crate) fn of(there: Option<Attributes>) -> TargetName {
        if there.is_none() { TargetName::Free } else { TargetName::Taken }
    }
}

/// Bits of a mode (POSIX, sys/stat.h).
const SETUID: u32 = 0o4000;

const SETGID: u32 = 0o2000;

/// The bits of a mode that lend the rights of the copy's owner. They are kept only if that is the source's
/// owner. The setgid bit of a directory lends nothing, because it only sets the group of files in it.
pub(crate) fn lent(kind: Kind) -> u32 {
    if kind == Kind::Directory { SETUID } else { SETUID | SETGID }
}
