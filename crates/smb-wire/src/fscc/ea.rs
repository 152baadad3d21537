//! Extended attributes: the lists in requests and responses.

use super::BadBuffer;
use super::chain::{Chain, Full, entries};
use wire::Cursor;

/// MS-FSCC 2.4.16: programs that do not know the attribute must not use the file.
pub const FILE_NEED_EA: u8 = 0x80;

/// The maximum length of a name in bytes.
pub const MAX_NAME: usize = 254;

/// One extended attribute, FILE_FULL_EA_INFORMATION.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FullEa<'a> {
    /// 0 or [`FILE_NEED_EA`].
    pub flags: u8,
    /// Its name in ASCII without the final zero. Names are compared without regard to case.
    pub name: &'a [u8],
    /// Its value. An empty one removes the attribute.
    pub value: &'a [u8],
}

/// The reason why a list of extended attributes was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadEa {
    /// The list is malformed: STATUS_EA_LIST_INCONSISTENT.
    #[error("the list of extended attributes is inconsistent")]
    List,
    /// A name or flag is invalid: STATUS_INVALID_EA_NAME.
    #[error("an extended attribute has no proper name")]
    Name,
}

impl From<BadBuffer> for BadEa {
    fn from(_: BadBuffer) -> Self {
        BadEa::List
    }
}

impl From<wire::Truncated> for BadEa {
    fn from(_: wire::Truncated) -> Self {
        BadEa::List
    }
}

/// Whether `name` may be the name of an extended attribute.
#[must_use]
pub fn is_ea_name(name: &[u8]) -> bool {
    // MS-FSCC 2.4.16
    let is_allowed = |byte: &u8| (0x20..0x7F).contains(byte) && !b"\\/:*?\"<>|,+=[];".contains(byte);
    !name.is_empty() && name.len() <= MAX_NAME && name.iter().all(is_allowed)
}

/// Reads a list from CREATE's "ExtA" or from FileFullEaInformation.
///
/// Items after an error have no meaning.
pub fn read_list(data: &[u8]) -> impl Iterator<Item = Result<FullEa<'_>, BadEa>> {
    entries(data, 4).map(|entry| {
        let mut c = Cursor::new(entry?);
        c.skip(4)?;
        let flags = c.u8()?;
        let name_len = usize::from(c.u8()?);
        let value_len = usize::from(c.array::<2>().map(u16::from_le_bytes)?);
        let name = c.bytes(name_len)?;
        if c.u8()? != 0 {
            return Err(BadEa::List);
        }
        let value = c.bytes(value_len)?;
        if flags & !FILE_NEED_EA != 0 || !is_ea_name(name) {
            return Err(BadEa::Name);
        }
        Ok(FullEa { flags, name, value })
    })
}

/// Appends as many attributes as fit in `limit` bytes. Returns whether all fit. If not, the status is
/// STATUS_BUFFER_OVERFLOW. Values of more than 65,535 bytes and names of more than 254 never fit.
///
/// # Errors
/// [`Full`] if the first one does not fit (STATUS_BUFFER_TOO_SMALL).
pub fn write_list<'a>(
    list: impl IntoIterator<Item = FullEa<'a>>,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<bool, Full> {
    let mut chain = Chain::new(out, limit, 4);
    for ea in list {
        let is_first = chain.is_empty();
        let lengths = (u8::try_from(ea.name.len()), u16::try_from(ea.value.len()));
        let (Ok(name_len), Ok(value_len)) = lengths else { return Err(Full) };
        let Ok(out) = chain.begin(ea_len(&ea)) else {
            return if is_first { Err(Full) } else { Ok(false) };
        };
        out.extend_from_slice(&[0, 0, 0, 0, ea.flags, name_len]);
        out.extend_from_slice(&value_len.to_le_bytes());
        out.extend_from_slice(ea.name);
        out.push(0);
        out.extend_from_slice(ea.value);
    }
    Ok(true)
}

fn ea_len(ea: &FullEa<'_>) -> usize {
    8 + ea.name.len() + 1 + ea.value.len()
}

/// MS-FSCC 2.4.13: the size of these attributes in FileEaInformation. It is 4 bytes plus the size of each
/// attribute in OS/2 (its name, its value and 5), or 0 without attributes.
#[must_use]
pub fn ea_size<'a>(list: impl IntoIterator<Item = FullEa<'a>>) -> u32 {
    let sum = list.into_iter().fold(0usize, |sum, ea| sum.saturating_add(5 + ea.name.len() + ea.value.len()));
    if sum == 0 { 0 } else { u32::try_from(sum.saturating_add(4)).unwrap_or(u32::MAX) }
}

/// MS-FSCC 2.4.16.1: reads the names in a query.
pub fn read_names(data: &[u8]) -> impl Iterator<Item = Result<&[u8], BadEa>> {
    entries(data, 4).map(|entry| {
        let mut c = Cursor::new(entry?);
        c.skip(4)?;
        let length = usize::from(c.u8()?);
        let name = c.bytes(length)?;
        if c.u8()? != 0 {
            return Err(BadEa::List);
        }
        if is_ea_name(name) { Ok(name) } else { Err(BadEa::Name) }
    })
}

/// Appends a list of names for a query of a client.
///
/// # Errors
/// [`Full`] if a name has more than 255 bytes.
pub fn write_names<'a>(names: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> Result<(), Full> {
    let mut chain = Chain::new(out, usize::MAX, 4);
    for name in names {
        let length = u8::try_from(name.len()).map_err(|_| Full)?;
        let out = chain.begin(6 + name.len())?;
        out.extend_from_slice(&[0, 0, 0, 0, length]);
        out.extend_from_slice(name);
        out.push(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;
    use proptest::prelude::*;

    /// The bytes that the Python package smbprotocol 1.17 packs for the same attribute.
    #[test]
    fn an_attribute_is_that_of_another_implementation() {
        let bytes = hex("00000000 80 06 0300 757365722e7800 76616c");
        let ea = FullEa { flags: FILE_NEED_EA, name: b"user.x", value: b"val" };
        assert_eq!(read_list(&bytes).collect::<Vec<_>>(), [Ok(ea)]);
        let mut out = Vec::new();
        assert_eq!(write_list([ea], 18, &mut out), Ok(true));
        assert_eq!(out, bytes);
        let asked = hex("00000000 06 757365722e7800");
        assert_eq!(read_names(&asked).collect::<Vec<_>>(), [Ok(&b"user.x"[..])]);
        out.clear();
        write_names([&b"user.x"[..]], &mut out).unwrap();
        assert_eq!(out, asked);
    }

    #[test]
    fn only_whole_attributes_are_told() {
        let ea = FullEa { flags: 0, name: b"NAME", value: b"v" };
        let mut out = Vec::new();
        assert_eq!(write_list([ea; 3], 40, &mut out), Ok(false));
        assert_eq!(read_list(&out).count(), 2);
        assert_eq!(write_list([ea], 13, &mut out), Err(Full));
        assert_eq!(write_list([], 0, &mut out), Ok(true));
    }

    #[test]
    fn names_have_rules() {
        for bad in [&b""[..], b"a/b", b"a*", b"\x01", b"a\x7f", b"a=b", &[b'x'; 255], b"\xe9"] {
            assert!(!is_ea_name(bad), "{bad:?}");
        }
        assert!(is_ea_name(b"user.DOSATTRIB") && is_ea_name(&[b'x'; 254]));
        let list = |text: &str| read_list(&hex(text)).map(|ea| ea.map(|_| ())).collect::<Vec<_>>();
        assert_eq!(list("00000000 01 01 0000 6100"), [Err(BadEa::Name)]);
        assert_eq!(list("00000000 00 01 0000 2a00"), [Err(BadEa::Name)]);
        assert_eq!(list("00000000 00 01 0000 6161"), [Err(BadEa::List)]);
        assert_eq!(list("00000000 00 01 0500 6100"), [Err(BadEa::List)]);
        assert_eq!(list("0b000000 00 01 0000 6100"), [Err(BadEa::List)]);
    }

    #[test]
    fn the_size_of_none_is_zero() {
        assert_eq!(ea_size([]), 0);
        assert_eq!(ea_size([FullEa { flags: 0, name: b"ab", value: b"cde" }; 2]), 24);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(read_list(&data).count() + read_names(&data).count() <= 2 * data.len());
        }

        #[test]
        fn lists_come_back(names in proptest::collection::vec("[A-Z.]{1,20}", 1..6),
            value in proptest::collection::vec(any::<u8>(), 0..20))
        {
            let list: Vec<FullEa<'_>> =
                names.iter().map(|n| FullEa { flags: 0, name: n.as_bytes(), value: &value }).collect();
            let mut out = Vec::new();
            prop_assert_eq!(write_list(list.iter().copied(), 65536, &mut out), Ok(true));
            prop_assert_eq!(read_list(&out).collect::<Result<Vec<_>, _>>(), Ok(list));
        }
    }
}
