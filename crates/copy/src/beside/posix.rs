//! POSIX access lists as Linux keeps them, in the attributes `system.posix_acl_access` and `system.posix_acl_default`.

/// A list with the permission bits that belong to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PosixAcl {
    pub(crate) mode: u32,
    /// What counts here; nothing when the permission bits say it all.
    pub(crate) access: Vec<PosixEntry>,
    /// Of a directory: what is made in it gets.
    pub(crate) default: Vec<PosixEntry>,
}

/// One entry. They stand in the order of [`Tag`], and those of one tag in that of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PosixEntry {
    pub(crate) tag: Tag,
    /// Read 4, write 2, execute 1.
    pub(crate) bits: u16,
    /// Number of the user or group that is named; [`NOBODY`] where none is.
    pub(crate) id: u32,
}

/// Whom an entry speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub(crate) enum Tag {
    Owner = 0x01,
    User = 0x02,
    OwnersGroup = 0x04,
    Group = 0x08,
    /// The most that named users and all groups get.
    Mask = 0x10,
    Others = 0x20,
}

const TAGS: [Tag; 6] = [Tag::Owner, Tag::User, Tag::OwnersGroup, Tag::Group, Tag::Mask, Tag::Others];
pub(crate) const NOBODY: u32 = u32::MAX;
/// In front of every list.
const VERSION: u32 = 2;

impl PosixEntry {
    /// One that names nobody.
    pub(crate) fn of(tag: Tag, bits: u16) -> PosixEntry {
        PosixEntry { tag, bits, id: NOBODY }
    }
}

/// Reads an attribute; none for what is no list.
pub(crate) fn parse(attribute: &[u8]) -> Option<Vec<PosixEntry>> {
    let (version, entries) = attribute.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
        return None;
    }
    let entry = |raw: &[u8]| {
        let tag = u16::from_le_bytes([raw[0], raw[1]]);
        let tag = TAGS.into_iter().find(|known| *known as u16 == tag)?;
        let bits = u16::from_le_bytes([raw[2], raw[3]]) & 7;
        Some(PosixEntry { tag, bits, id: u32::from_le_bytes(*raw[4..].first_chunk()?) })
    };
    entries.chunks_exact(8).map(entry).collect()
}

/// A list as an attribute.
pub(crate) fn encode(entries: &[PosixEntry]) -> Vec<u8> {
    let mut out = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        out.extend((entry.tag as u16).to_le_bytes());
        out.extend(entry.bits.to_le_bytes());
        out.extend(entry.id.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_setfacl_is_read_and_written_the_same() {
        // What `setfacl -m u:1000:r` has made of a file of mode 640.
        let seen = [
            2, 0, 0, 0, //
            1, 0, 6, 0, 255, 255, 255, 255, //
            2, 0, 4, 0, 0xe8, 3, 0, 0, //
            4, 0, 4, 0, 255, 255, 255, 255, //
            16, 0, 4, 0, 255, 255, 255, 255, //
            32, 0, 0, 0, 255, 255, 255, 255,
        ];
        let list = parse(&seen).unwrap();
        assert_eq!(list[1], PosixEntry { tag: Tag::User, bits: 4, id: 1000 });
        assert_eq!(list.last(), Some(&PosixEntry::of(Tag::Others, 0)));
        assert_eq!(encode(&list), seen);
        assert!((0..seen.len()).filter(|cut| cut % 8 != 4).all(|cut| parse(&seen[..cut]).is_none()));
        assert!(parse(&[3, 0, 0, 0]).is_none() && parse(&[2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]).is_none());
    }
}
