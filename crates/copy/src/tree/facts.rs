//! What a directory holds, and what was read of a small file.

use bytes::Bytes;
use client::remote::{Attributes, Kind};

use crate::name;

/// A small file that was read.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) content: Bytes,
    /// What is known of it afterwards.
    pub(crate) facts: Attributes,
    /// Whether it has named streams, where that matters.
    pub(crate) has_streams: bool,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) facts: Attributes,
}

/// What a directory holds.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Entry>,
    /// Names that cannot be used, and why.
    pub(crate) unusable: Vec<(String, String)>,
}

impl Listing {
    /// Adds a name as the side has it.
    pub(crate) fn add(&mut self, raw: &[u8], facts: Attributes) {
        let usable = match std::str::from_utf8(raw) {
            Ok(name) => name::check(name).map(|()| name.to_owned()),
            Err(_) => Err("its name is not UTF-8, which a copy needs; rename it".to_owned()),
        };
        match usable {
            Ok(name) => self.entries.push(Entry { name, facts }),
            Err(why) => self.unusable.push((String::from_utf8_lossy(raw).into_owned(), why)),
        }
    }
}

/// Where a file is put: the less there is to be spared, the less it takes to make a small one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// The place of another file, perhaps.
    Taken,
    /// A place where there is none.
    Free,
    /// The same in a directory that has no name yet.
    Unseen,
}

impl Spot {
    /// A place in which `there` was found.
    pub(crate) fn of(there: Option<Attributes>) -> Spot {
        if there.is_none() { Spot::Free } else { Spot::Taken }
    }
}

/// Bits of a mode (POSIX, sys/stat.h).
const SETUID: u32 = 0o4000;

const SETGID: u32 = 0o2000;

/// The bits of a mode that lend the rights of whoever owns the copy, so that they are kept only where that is the source's
/// owner. The setgid of a directory lends nothing: files in it get its group.
pub(crate) fn lent(kind: Kind) -> u32 {
    if kind == Kind::Directory { SETUID } else { SETUID | SETGID }
}
