//! The attribute record: what a host cannot keep of a file's attributes, in a few bytes.
//!
//! Version 1, integers in little-endian order: version (1 byte), flags (1), attribute bits (4),
//! creation time in seconds (8) and nanoseconds (4), size of the extended attributes in list form (4),
//! change time that was set (12), and until when the host's own change time leaves that in force (12).
//! A file without a record is as the host shows it, so what is made in the ordinary way gets none.

use volume::{Kind, Node, Note, Stat, Time};

use crate::{Attributes, Refusal};

/// Bits that are kept: those which somebody sets, and sparse.
pub(super) const STORED: Attributes = Attributes::READ_ONLY
    .union(Attributes::HIDDEN)
    .union(Attributes::SYSTEM)
    .union(Attributes::ARCHIVE)
    .union(Attributes::TEMPORARY)
    .union(Attributes::SPARSE)
    .union(Attributes::OFFLINE)
    .union(Attributes::NOT_INDEXED);

const VERSION: u8 = 1;
const LEN: usize = 46;

const HAS_ATTRIBUTES: u8 = 1;
const HAS_CREATED: u8 = 2;
const HAS_DESCRIPTOR: u8 = 4;
const HAS_REPARSE: u8 = 8;
const HAS_CHANGED: u8 = 16;

/// How long after it was set a change time holds against the host's, which moves when it is stored: a
/// change within this time is not told apart from that.
pub(super) const CHANGE_TIME_HOLDS_NS: i64 = 250_000_000;

/// A change time that somebody set, though the host keeps its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChangeTime {
    /// What it was set to.
    pub set: Time,
    /// It is in force while the host's own is not later than this.
    pub until: Time,
}

/// What is kept of a file beside what the host keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// Attribute bits, when they were set.
    pub attributes: Option<Attributes>,
    /// Creation time, when it was set.
    pub created: Option<Time>,
    /// Whether a descriptor is stored.
    pub has_descriptor: bool,
    /// Whether a reparse point is stored.
    pub has_reparse: bool,
    /// Size of the extended attributes in list form, as we last set them.
    pub extended_size: u32,
    /// Change time, when it was set.
    pub changed: Option<ChangeTime>,
}

impl Record {
    /// Reads a file's record; one of an unknown version or length counts as none.
    ///
    /// # Errors
    /// As the volume says.
    pub fn load(node: &dyn Node) -> Result<Record, Refusal> {
        Ok(node.note(Note::Attributes)?.and_then(|bytes| Record::parse(&bytes)).unwrap_or_default())
    }

    /// Stores the record, or removes it when it says nothing.
    ///
    /// # Errors
    /// As the volume says.
    pub fn store(&self, node: &dyn Node) -> Result<(), Refusal> {
        let bytes = self.encode();
        let is_default = *self == Record::default();
        Ok(node.set_note(Note::Attributes, (!is_default).then_some(&bytes[..]))?)
    }

    fn parse(bytes: &[u8]) -> Option<Record> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let [version, flags, rest @ ..] = bytes;
        if *version != VERSION {
            return None;
        }
        let (bits, rest) = rest.split_first_chunk::<4>()?;
        let (secs, rest) = rest.split_first_chunk::<8>()?;
        let (nanos, rest) = rest.split_first_chunk::<4>()?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let (set, until) = rest.split_first_chunk::<12>()?;
        let created = time_from(secs, nanos);
        let changed = ChangeTime { set: parse_time(set)?, until: parse_time(until)? };
        let attributes = Attributes::from_bits_truncate(u32::from_le_bytes(*bits)) & STORED;
        Some(Record {
            attributes: (flags & HAS_ATTRIBUTES != 0).then_some(attributes),
            created: (flags & HAS_CREATED != 0).then_some(created),
            has_descriptor: flags & HAS_DESCRIPTOR != 0,
            has_reparse: flags & HAS_REPARSE != 0,
            extended_size: u32::from_le_bytes(*size),
            changed: (flags & HAS_CHANGED != 0).then_some(changed),
        })
    }

    fn encode(&self) -> [u8; LEN] {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let created = self.created.unwrap_or_default();
        let mut out = [0; LEN];
        out[0] = VERSION;
        out[1] = flag(self.attributes.is_some(), HAS_ATTRIBUTES)
            | flag(self.created.is_some(), HAS_CREATED)
            | flag(self.has_descriptor, HAS_DESCRIPTOR)
            | flag(self.has_reparse, HAS_REPARSE)
            | flag(self.changed.is_some(), HAS_CHANGED);
        out[2..6].copy_from_slice(&self.attributes.unwrap_or_default().bits().to_le_bytes());
        out[6..14].copy_from_slice(&created.secs.to_le_bytes());
        out[14..18].copy_from_slice(&created.nanos.to_le_bytes());
        out[18..22].copy_from_slice(&self.extended_size.to_le_bytes());
        if let Some(changed) = self.changed {
            for (at, time) in [(22, changed.set), (34, changed.until)] {
                out[at..at + 8].copy_from_slice(&time.secs.to_le_bytes());
                out[at + 8..at + 12].copy_from_slice(&time.nanos.to_le_bytes());
            }
        }
        out
    }

    /// The bits that are kept, or those of a file without a record: as if it had never been backed up,
    /// and not to be written when the host lets not even its owner write.
    pub fn bits(&self, stat: &Stat) -> Attributes {
        self.attributes.unwrap_or_else(|| match stat.kind {
            Kind::Directory => Attributes::empty(),
            Kind::File if stat.mode & 0o200 == 0 => Attributes::ARCHIVE | Attributes::READ_ONLY,
            _ => Attributes::ARCHIVE,
        })
    }

    /// When anything about the file changed last.
    pub fn changed(&self, stat: &Stat) -> Time {
        self.changed
            .filter(|changed| stat.changed <= changed.until)
            .map_or(stat.changed, |changed| changed.set)
    }

    /// When the file was made, as well as that is known.
    pub fn created(&self, stat: &Stat) -> Time {
        self.created.or(stat.born).unwrap_or(stat.modified.min(stat.changed))
    }
}

fn time_from(secs: &[u8; 8], nanos: &[u8; 4]) -> Time {
    Time { secs: i64::from_le_bytes(*secs), nanos: u32::from_le_bytes(*nanos).min(999_999_999) }
}

fn parse_time(bytes: &[u8]) -> Option<Time> {
    let (secs, nanos) = bytes.split_first_chunk::<8>()?;
    Some(time_from(secs, nanos.first_chunk::<4>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_being_stored() {
        let record = Record {
            attributes: Some(Attributes::HIDDEN | Attributes::SPARSE),
            created: Some(Time { secs: -5, nanos: 999_999_900 }),
            has_descriptor: true,
            has_reparse: false,
            extended_size: 77,
            changed: Some(ChangeTime {
                set: Time { secs: 7, nanos: 100 },
                until: Time { secs: 9, nanos: 1 },
            }),
        };
        assert_eq!(Record::parse(&record.encode()), Some(record));
        assert_eq!(Record::parse(&Record::default().encode()), Some(Record::default()));
    }

    #[test]
    fn what_is_not_understood_is_no_record() {
        let mut bytes = Record::default().encode();
        assert_eq!(Record::parse(&bytes[..LEN - 1]), None);
        bytes[0] = 9;
        assert_eq!(Record::parse(&bytes), None);
    }
}
