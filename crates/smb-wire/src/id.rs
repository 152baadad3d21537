//! Identifiers that several commands share: [`Guid`], [`LeaseKey`] and [`FileId`].

use std::fmt;
use wire::Writer;

/// A GUID in the order of its 16 bytes in a message (MS-DTYP 2.3.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// The GUID of sixteen zero bytes.
    pub const ZERO: Guid = Guid([0; 16]);
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = &self.0;
        let first = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let second = u16::from_le_bytes([b[4], b[5]]);
        let third = u16::from_le_bytes([b[6], b[7]]);
        write!(f, "{first:08x}-{second:04x}-{third:04x}-{:02x}{:02x}-", b[8], b[9])?;
        b[10..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The key of a lease, unique for one client (MS-SMB2 2.2.13.2.8).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LeaseKey(pub [u8; 16]);

impl fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The id of an Open (MS-SMB2 2.2.14.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileId {
    /// The half that stays the same at a reconnect.
    pub persistent: u64,
    /// The half that changes with every reconnect.
    pub volatile: u64,
}

impl FileId {
    /// All bits set. In a related compound request it stands for the FileId of the previous operation
    /// (MS-SMB2 3.3.5.2.7.2).
    pub const RELATED: FileId = FileId { persistent: u64::MAX, volatile: u64::MAX };

    /// Whether this is [`FileId::RELATED`].
    #[inline]
    #[must_use]
    pub fn is_related(self) -> bool {
        self == FileId::RELATED
    }

    #[inline]
    pub(crate) fn write(self, w: &mut Writer<'_>) {
        w.u64_le(self.persistent);
        w.u64_le(self.volatile);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_shown_with_its_first_three_fields_turned_round() {
        // The create context name of AppInstanceId in 2.2.13.2, and the GUID that MS-SMB2 gives for it.
        let bytes =
            [0x45, 0xbc, 0xa6, 0x6a, 0xef, 0xa7, 0xf7, 0x4a, 0x90, 0x08, 0xfa, 0x46, 0x2e, 0x14, 0x4d, 0x74];
        assert_eq!(Guid(bytes).to_string(), "6aa6bc45-a7ef-4af7-9008-fa462e144d74");
    }
}
