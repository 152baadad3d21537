//! What is known of files and directories on either side, and of what a directory holds.

use bytes::Bytes;

use crate::name;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a pipe, a junction: nothing that is copied.
    Other,
}

/// The bits of a mode that are no permissions: setuid, setgid and sticky (POSIX, sys/stat.h).
pub(crate) const SPECIAL: u32 = 0o7000;

/// All bits of a mode that are kept.
pub(crate) const MODE: u32 = 0o7777;

/// The file system that a file is in, and its number there.
pub(crate) type Node = (u128, u64);

/// What is known of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    /// When its data was changed, in nanoseconds since 1970. An `i64` of them ends in 2262, and no side does.
    pub(crate) modified: i128,
    /// What tells a file that has further names from all others, where the side knows of them.
    pub(crate) node: Option<Node>,
    /// Whether it may have holes.
    pub(crate) sparse: bool,
    /// Permission bits, those of [`SPECIAL`] included, where the side has them.
    pub(crate) mode: Option<u32>,
    /// Read-only, hidden, system and archive, where the side has them.
    pub(crate) attributes: Option<u32>,
}

impl Facts {
    /// The bits of [`SPECIAL`] that it has.
    pub(crate) fn special(&self) -> u32 {
        self.mode.unwrap_or(0) & SPECIAL
    }

    /// Whether anything is known of it but its kind.
    pub(crate) fn are_known(&self) -> bool {
        self.modified != 0 || self.mode.is_some() || self.attributes.is_some()
    }

    /// Whether a file was changed between two looks, or differs from another as far as that can be seen. The coarsest
    /// clock counts, which is that of SMB: 100 ns.
    pub(crate) fn looks_like(&self, other: &Facts) -> bool {
        let times = (self.modified.div_euclid(100), other.modified.div_euclid(100));
        self.kind == other.kind && self.size == other.size && times.0 == times.1
    }
}

/// A small file that was read.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) content: Bytes,
    /// What is known of it afterwards.
    pub(crate) facts: Facts,
    /// Whether it has named streams, where that matters.
    pub(crate) has_streams: bool,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) facts: Facts,
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
    pub(crate) fn add(&mut self, raw: &[u8], facts: Facts) {
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
    pub(crate) fn of(there: Option<Facts>) -> Spot {
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
