//! The attribute record: the attributes of a file that the host cannot store, in a few bytes.
//!
//! Version 1, integers in little-endian order: version (1 byte), flags (1, in version 2 two). Each flag with
//! a field is followed by that field, in the order of the flags: attribute bits (4), creation time (12),
//! change time that was set (24), size of the extended attributes in list form (4), access time (24) and
//! modification time (24) that the host could not store; in version 2 the values that the host shows for a
//! descriptor (12). A time is seconds (8) and nanoseconds (4). In the long ones the host's own time follows,
//! which tells whether they are still valid.
//!
//! A file without a record is as the host shows it, so a file that is created in the ordinary way gets none.
//! The record is short, because hosts store a few bytes beside a file without using a block for them.

use volume::security::posix::{self, PosixEntry, Tag};
use volume::{Node, NodeKind, Note, Overview, Stat, Time};

use crate::{Attributes, Refusal};

/// Bits that are stored: those that clients set, and sparse.
pub(crate) const STORED: Attributes = Attributes::READ_ONLY
    .union(Attributes::HIDDEN)
    .union(Attributes::SYSTEM)
    .union(Attributes::ARCHIVE)
    .union(Attributes::TEMPORARY)
    .union(Attributes::SPARSE)
    .union(Attributes::OFFLINE)
    .union(Attributes::NOT_INDEXED);

const VERSION: u8 = 1;
/// The version with flags for which one byte has no room.
const VERSION_2: u8 = 2;

const HAS_ATTRIBUTES: u8 = 1;
const HAS_CREATED: u8 = 2;
const HAS_DESCRIPTOR: u8 = 4;
const HAS_REPARSE: u8 = 8;
const HAS_CHANGED: u8 = 16;
const HAS_EXTENDED_SIZE: u8 = 32;
const HAS_ACCESSED: u8 = 64;
const HAS_MODIFIED: u8 = 128;
/// In the second byte of flags.
const HAS_SHOWN: u8 = 1;

/// How long a change time holds after it was set, against the host's own, which moves when it is stored. A
/// change within this time is not distinguished from that.
pub(crate) const CHANGE_TIME_HOLDS_NS: i64 = 250_000_000;

/// A time that a client set and the host does not store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredTime {
    /// The value that was set.
    pub set: Time,
    /// The host's own time, which tells whether the value is still valid.
    pub host: Time,
}

/// The values that the host shows for a stored descriptor. They tell whether the host has changed that since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShownDescriptor {
    /// The nine permission bits that the host got.
    pub host: u16,
    /// The nine permission bits that the descriptor results in.
    pub mode: u16,
    /// A hash of the names and rights in the host's own access list ([`named_hash`]); zero: there was none.
    pub list: u64,
}

/// A hash of the named entries of a list and their rights. Entries that change with the permission bits do
/// not count.
pub(crate) fn named_hash(list: Option<&[u8]>) -> u64 {
    let Some(entries) = list.and_then(posix::parse) else { return 0 };
    let counts = |entry: &&PosixEntry| matches!(entry.tag, Tag::User | Tag::Group | Tag::OwnersGroup);
    // FNV-1a: it has to stay the same from one version of the program to the next.
    entries.iter().filter(counts).fold(0xcbf2_9ce4_8422_2325, |sum, entry| {
        let words = [entry.tag as u32, u32::from(entry.bits), entry.id];
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .fold(sum, |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    })
}

/// The attributes of a file that are stored beside those of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// Attribute bits, if they were set.
    pub attributes: Option<Attributes>,
    /// Creation time, if it was set.
    pub created: Option<Time>,
    /// Whether a descriptor is stored.
    pub has_descriptor: bool,
    /// Whether a reparse point is stored.
    pub has_reparse: bool,
    /// Size of the extended attributes in list form, as this server last set them.
    pub extended_size: u32,
    /// Change time, if it was set. It is valid while the host's own is not later than `host`.
    pub changed: Option<StoredTime>,
    /// Access time, if the host could not store it. It is valid until the host's own is another.
    pub accessed: Option<StoredTime>,
    /// Modification time, likewise.
    pub modified: Option<StoredTime>,
    /// With a descriptor: the values that the host shows for it.
    pub shown: Option<ShownDescriptor>,
    /// Whether the host has an access list of its own. This and the next field are seen, and not stored.
    pub access_list: bool,
    /// Whether new objects in this directory inherit a list of the host's own.
    pub default_list: bool,
    /// Whether a stored descriptor is no longer valid, because the host's access list has changed since. It
    /// is seen, and not stored.
    pub has_lost_descriptor: bool,
}

impl Record {
    /// Reads a file's record. One of an unknown version or length counts as none.
    ///
    /// # Errors
    /// The volume's error.
    pub fn load(node: &dyn Node) -> Result<Record, Refusal> {
        let Overview { attributes, access_list, default_list } = node.overview()?;
        let record = attributes.and_then(|bytes| Record::parse(&bytes)).unwrap_or_default();
        let mut record = Record { access_list, default_list, ..record };
        if let Some(shown) = record.shown.filter(|shown| access_list || shown.list != 0) {
            let list = if access_list { node.note(Note::AccessList)? } else { None };
            if named_hash(list.as_deref()) != shown.list {
                // A program of the host has set new access rules, which count from then on.
                record.has_lost_descriptor = record.has_descriptor;
                (record.has_descriptor, record.shown) = (false, None);
            }
        }
        Ok(record)
    }

    /// Stores the record, or removes it if it says nothing.
    ///
    /// # Errors
    /// The volume's error.
    pub fn store(&self, node: &dyn Node) -> Result<(), Refusal> {
        let bytes = self.encode();
        Ok(node.set_note(Note::Attributes, (!self.is_nothing()).then_some(&bytes[..]))?)
    }

    /// Whether there is nothing to store.
    pub fn is_nothing(&self) -> bool {
        Record { access_list: false, default_list: false, has_lost_descriptor: false, ..*self }
            == Record::default()
    }

    /// Whether a program of the host has set permission bits since the descriptor was stored.
    pub fn has_other_mode(&self, stat: &Stat) -> bool {
        self.has_descriptor && self.shown.is_some_and(|shown| u32::from(shown.host) != stat.mode & 0o777)
    }

    /// Whether the host has set new access rules since the descriptor was stored, and for good. With an
    /// access list of the host, the permission bits are its mask, which may widen again.
    // acl(5)
    pub fn is_overtaken(&self, stat: &Stat) -> bool {
        self.has_lost_descriptor || !self.access_list && self.has_other_mode(stat)
    }

    /// The permission bits: those of the host, or those that the stored descriptor results in. If the host
    /// has got others since, the descriptor results in those.
    // RFC 8881 6.3.2, 6.4.1.1
    pub fn mode(&self, stat: &Stat) -> u32 {
        let of_list =
            self.shown.filter(|shown| self.has_descriptor && u32::from(shown.host) == stat.mode & 0o777);
        of_list.map_or(stat.mode, |shown| stat.mode & 0o7000 | u32::from(shown.mode))
    }

    fn parse(bytes: &[u8]) -> Option<Record> {
        let (&[version, flags], rest) = bytes.split_first_chunk()?;
        let (more, rest) = match (version, rest) {
            (VERSION, rest) => (0, rest),
            (VERSION_2, [more, rest @ ..]) => (*more, rest),
            _ => return None,
        };
        let mut fields = Fields { flags, rest };
        let bits = |word| Attributes::from_bits_truncate(u32::from_le_bytes(word)) & STORED;
        let record = Record {
            attributes: fields.when(HAS_ATTRIBUTES, |f| f.take().map(bits))?,
            created: fields.when(HAS_CREATED, Fields::time)?,
            has_descriptor: flags & HAS_DESCRIPTOR != 0,
            has_reparse: flags & HAS_REPARSE != 0,
            changed: fields.when(HAS_CHANGED, Fields::kept)?,
            extended_size: fields
                .when(HAS_EXTENDED_SIZE, |f| f.take().map(u32::from_le_bytes))?
                .unwrap_or_default(),
            accessed: fields.when(HAS_ACCESSED, Fields::kept)?,
            modified: fields.when(HAS_MODIFIED, Fields::kept)?,
            shown: if more & HAS_SHOWN != 0 { Some(fields.shown()?) } else { None },
            access_list: false,
            default_list: false,
            has_lost_descriptor: false,
        };
        fields.rest.is_empty().then_some(record)
    }

    fn encode(&self) -> Vec<u8> {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags = flag(self.attributes.is_some(), HAS_ATTRIBUTES)
            | flag(self.created.is_some(), HAS_CREATED)
            | flag(self.has_descriptor, HAS_DESCRIPTOR)
            | flag(self.has_reparse, HAS_REPARSE)
            | flag(self.changed.is_some(), HAS_CHANGED)
            | flag(self.extended_size != 0, HAS_EXTENDED_SIZE)
            | flag(self.accessed.is_some(), HAS_ACCESSED)
            | flag(self.modified.is_some(), HAS_MODIFIED);
        let mut out = match self.shown {
            None => vec![VERSION, flags],
            Some(_) => vec![VERSION_2, flags, HAS_SHOWN],
        };
        out.extend(self.attributes.iter().flat_map(|bits| bits.bits().to_le_bytes()));
        out.extend(self.created.into_iter().flat_map(time_bytes));
        out.extend(self.changed.into_iter().flat_map(kept_bytes));
        if self.extended_size != 0 {
            out.extend(self.extended_size.to_le_bytes());
        }
        out.extend(self.accessed.into_iter().flat_map(kept_bytes));
        out.extend(self.modified.into_iter().flat_map(kept_bytes));
        if let Some(ShownDescriptor { host, mode, list }) = self.shown {
            out.extend(host.to_le_bytes().into_iter().chain(mode.to_le_bytes()).chain(list.to_le_bytes()));
        }
        out
    }

    /// The stored bits, or those of a file without a record. Such a file counts as never backed up. It is
    /// read-only if the host's mode (with a list: its mask) lets nobody write.
    pub fn bits(&self, stat: &Stat) -> Attributes {
        self.attributes.unwrap_or_else(|| match stat.kind {
            NodeKind::Directory => Attributes::empty(),
            NodeKind::File if stat.mode & 0o222 == 0 => Attributes::ARCHIVE | Attributes::READ_ONLY,
            _ => Attributes::ARCHIVE,
        })
    }

    /// The last change of anything about the file.
    pub fn changed(&self, stat: &Stat) -> Time {
        self.changed.filter(|kept| stat.changed <= kept.host).map_or(stat.changed, |kept| kept.set)
    }

    /// The last read of the file.
    pub fn accessed(&self, stat: &Stat) -> Time {
        self.accessed.filter(|kept| stat.accessed == kept.host).map_or(stat.accessed, |kept| kept.set)
    }

    /// The last change of its data.
    pub fn modified(&self, stat: &Stat) -> Time {
        self.modified.filter(|kept| stat.modified == kept.host).map_or(stat.modified, |kept| kept.set)
    }

    /// The creation of the file, as well as it is known.
    pub fn created(&self, stat: &Stat) -> Time {
        self.created.or(stat.born).unwrap_or(stat.modified.min(stat.changed))
    }
}

/// The fields of a record that are still to be read.
struct Fields<'a> {
    flags: u8,
    rest: &'a [u8],
}

impl Fields<'_> {
    /// Reads a field that exists if its flag is set. Returns nothing at all if the bytes end inside it.
    fn when<T>(&mut self, flag: u8, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flags & flag == 0 { Some(None) } else { read(self).map(Some) }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    fn time(&mut self) -> Option<Time> {
        let secs = i64::from_le_bytes(self.take()?);
        Some(Time { secs, nanos: u32::from_le_bytes(self.take()?).min(999_999_999) })
    }

    fn shown(&mut self) -> Option<ShownDescriptor> {
        let host = u16::from_le_bytes(self.take()?);
        let mode = u16::from_le_bytes(self.take()?);
        Some(ShownDescriptor { host, mode, list: u64::from_le_bytes(self.take()?) })
    }

    fn kept(&mut self) -> Option<StoredTime> {
        Some(StoredTime { set: self.time()?, host: self.time()? })
    }
}

fn time_bytes(time: Time) -> impl Iterator<Item = u8> {
    time.secs.to_le_bytes().into_iter().chain(time.nanos.to_le_bytes())
}

fn kept_bytes(kept: StoredTime) -> impl Iterator<Item = u8> {
    time_bytes(kept.set).chain(time_bytes(kept.host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Time {
        Time { secs, nanos: 999_999_900 }
    }

    fn stat(accessed: Time, modified: Time, changed: Time) -> Stat {
        Stat {
            id: volume::NodeId { device: 1, inode: 1 },
            file_system: 0,
            kind: NodeKind::File,
            size: 0,
            allocated: 0,
            links: 1,
            mode: 0o644,
            uid: 0,
            gid: 0,
            rdev: 0,
            accessed,
            modified,
            changed,
            born: None,
            fixed: false,
        }
    }

    #[test]
    fn a_record_survives_being_stored() {
        let record = Record {
            attributes: Some(Attributes::HIDDEN | Attributes::SPARSE),
            created: Some(at(-5)),
            has_descriptor: true,
            has_reparse: false,
            extended_size: 77,
            changed: Some(StoredTime { set: at(7), host: at(9) }),
            accessed: Some(StoredTime { set: at(-11_644_473_600), host: at(-1) }),
            modified: None,
            ..Record::default()
        };
        assert_eq!(Record::parse(&record.encode()), Some(record));
        let shown = Some(ShownDescriptor { host: 0o600, mode: 0o640, list: 7 });
        let with_shown = Record { shown, ..record };
        assert_eq!(Record::parse(&with_shown.encode()), Some(with_shown));
        let other = Record { modified: record.accessed, ..Record::default() };
        assert_eq!(Record::parse(&other.encode()), Some(other));
        assert_eq!(Record::parse(&Record::default().encode()), Some(Record::default()));
    }

    #[test]
    fn what_is_not_understood_is_no_record() {
        let record = Record { created: Some(at(1)), extended_size: 3, ..Record::default() };
        let mut bytes = record.encode();
        for len in 0..bytes.len() {
            assert_eq!(Record::parse(&bytes[..len]), None);
        }
        bytes.push(0);
        assert_eq!(Record::parse(&bytes), None);
        bytes.pop();
        bytes[0] = 9;
        assert_eq!(Record::parse(&bytes), None);
    }

    #[test]
    fn a_time_the_host_could_not_keep_holds_until_the_host_has_another() {
        let kept = |host| Some(StoredTime { set: at(-11_000_000_000), host });
        let record = Record {
            changed: kept(at(20)),
            accessed: kept(at(8)),
            modified: kept(at(9)),
            ..Record::default()
        };
        let mut stat = stat(at(8), at(9), at(19));
        let set = at(-11_000_000_000);
        assert_eq!((record.accessed(&stat), record.modified(&stat), record.changed(&stat)), (set, set, set));
        (stat.accessed, stat.modified, stat.changed) = (at(10), at(1), at(21));
        let host = (stat.accessed, stat.modified, stat.changed);
        assert_eq!((record.accessed(&stat), record.modified(&stat), record.changed(&stat)), host);
    }
}
