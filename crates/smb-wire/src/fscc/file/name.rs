//! Information classes with one name: FileNameInformation and related classes, rename and link.

use crate::Utf16;
use crate::fscc::{BadBuffer, Full, text};
use wire::{Cursor, Writer};

/// MS-FSCC 2.1.7 FILE_NAME_INFORMATION, the reply to FileNameInformation, FileNormalizedNameInformation and
/// FileAlternateNameInformation. Appends it with `name` (UTF-16LE) in at most `limit` bytes. A name that
/// does not fit is cut after a character. The length field still has the length of the whole name, and the
/// result is `true`: STATUS_BUFFER_OVERFLOW.
///
/// # Errors
/// [`Full`] if the length field does not fit (STATUS_INFO_LENGTH_MISMATCH).
pub fn write_name(name: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<bool, Full> {
    let room = limit.checked_sub(4).ok_or(Full)?;
    let mut w = Writer::new(out);
    w.u32_le(u32::try_from(name.len()).map_err(|_| Full)?);
    let kept = name.len().min(room & !1);
    w.bytes(&name[..kept]);
    Ok(kept < name.len())
}

/// Reads FILE_NAME_INFORMATION. FileShortNameInformation (MS-FSCC 2.4.46) and FileFsLabelInformation (2.5.5)
/// have the same layout.
///
/// # Errors
/// [`BadBuffer::Length`] if the length field is incomplete (STATUS_INFO_LENGTH_MISMATCH),
/// [`BadBuffer::Value`] if the length is odd or goes beyond the end (STATUS_INVALID_PARAMETER).
pub fn read_name(data: &[u8]) -> Result<Utf16<'_>, BadBuffer> {
    counted_name(&mut Cursor::new(data))
}

/// Reads FileNameLength and FileName. A length beyond the end is a wrong value in a buffer of the right
/// size.
// MS-FSA 2.1.5.15.12
fn counted_name<'a>(c: &mut Cursor<'a>) -> Result<Utf16<'a>, BadBuffer> {
    let length = c.u32_le()? as usize;
    text::parse(c.bytes(length).map_err(|_| BadBuffer::Value)?)
}

/// The layouts of a rename or link request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RenameLayout {
    /// MS-FSCC 2.4.42.1 and 2.4.28.1: a 32-bit RootDirectory, as in SMB1 and 32-bit programs.
    Type1,
    /// MS-FSCC 2.4.42.2 and 2.4.28.2: a 64-bit RootDirectory. SMB2 uses only this layout.
    Type2,
    /// MS-FSCC 2.4.43: type 2 with flags in the place of ReplaceIfExists. Also FileLinkInformationEx.
    Ex,
}

bitflags::bitflags! {
    /// MS-FSCC 2.4.43: the flags of FileRenameInformationEx.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct RenameFlags: u32 {
        /// An existing file with the new name is replaced.
        const REPLACE_IF_EXISTS = 0x0000_0001;
        /// It may be replaced while it is open.
        const POSIX_SEMANTICS = 0x0000_0002;
        /// The new file does not inherit the pin state of the old one.
        const SUPPRESS_PIN_STATE_INHERITANCE = 0x0000_0004;
        /// The new file does not inherit storage reserves.
        const SUPPRESS_STORAGE_RESERVE_INHERITANCE = 0x0000_0008;
        /// The free space of the volume need not increase.
        const NO_INCREASE_AVAILABLE_SPACE = 0x0000_0010;
        /// The free space of the volume need not decrease.
        const NO_DECREASE_AVAILABLE_SPACE = 0x0000_0020;
        /// A read-only file may be replaced too.
        const IGNORE_READONLY_ATTRIBUTE = 0x0000_0040;
        /// Files of a directory may change their storage reserve area.
        const FORCE_RESIZE_TARGET_SR = 0x0000_0080;
        /// The same for the source.
        const FORCE_RESIZE_SOURCE_SR = 0x0000_0100;
    }
}

/// The flags of FileLinkInformationEx. They have the same numbers as those of FileRenameInformationEx.
pub type LinkFlags = RenameFlags;

/// A request to rename a file or to add a name to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RenameRequest<'a> {
    /// The flags. The first two layouts have only [`RenameFlags::REPLACE_IF_EXISTS`]. Unknown flags are
    /// kept.
    pub flags: RenameFlags,
    /// A handle for a relative name. It must be 0 over the network (else STATUS_INVALID_PARAMETER).
    pub root_directory: u64,
    /// The new name: a path from the share's root, or `:name` with an optional type for a stream.
    pub name: Utf16<'a>,
}

impl<'a> RenameRequest<'a> {
    /// Reads FileRenameInformation, FileLinkInformation or their Ex forms. MS-SMB2 3.3.5.21.1 refuses a type
    /// 2 buffer below 24 bytes. libsmb2, pysmb and smbj send 22 for a name of one letter, and Samba accepts
    /// that, as this does.
    ///
    /// # Errors
    /// [`BadBuffer::Length`] if the buffer ends before the name (STATUS_INFO_LENGTH_MISMATCH),
    /// [`BadBuffer::Value`] if the name is empty, has an odd length or goes beyond the end
    /// (STATUS_INVALID_PARAMETER).
    pub fn parse(data: &'a [u8], layout: RenameLayout) -> Result<Self, BadBuffer> {
        let mut c = Cursor::new(data);
        let (flags, root_directory) = match layout {
            RenameLayout::Type1 => (u32::from(c.array::<4>()?[0] != 0), u64::from(c.u32_le()?)),
            RenameLayout::Type2 => (u32::from(c.array::<8>()?[0] != 0), c.u64_le()?),
            RenameLayout::Ex => {
                let flags = c.u32_le()?;
                c.skip(4)?;
                (flags, c.u64_le()?)
            }
        };
        let name = counted_name(&mut c)?;
        if name.is_empty() {
            return Err(BadBuffer::Value);
        }
        Ok(RenameRequest { flags: RenameFlags::from_bits_retain(flags), root_directory, name })
    }

    /// Appends the request, for a client. It is padded to 24 bytes if the layout needs that.
    pub fn write(&self, layout: RenameLayout, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        let replace = u32::from(self.flags.contains(RenameFlags::REPLACE_IF_EXISTS));
        match layout {
            RenameLayout::Type1 => {
                w.u32_le(replace);
                w.u32_le(self.root_directory as u32);
            }
            RenameLayout::Type2 => {
                w.u64_le(u64::from(replace));
                w.u64_le(self.root_directory);
            }
            RenameLayout::Ex => {
                w.u64_le(u64::from(self.flags.bits()));
                w.u64_le(self.root_directory);
            }
        }
        w.u32_le(self.name.as_bytes().len() as u32);
        w.bytes(self.name.as_bytes());
        if layout != RenameLayout::Type1 && w.position() < 24 {
            w.zeros(24 - w.position());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::testing::hex;
    use crate::utf16;
    use proptest::prelude::*;

    /// The bytes that the Python package smbprotocol 1.17 packs for a rename and for a link to the same
    /// name.
    #[test]
    fn a_rename_is_that_of_another_implementation() {
        let bytes = hex("01 00000000000000 0000000000000000 08000000 610062002e00e900");
        let request = RenameRequest::parse(&bytes, RenameLayout::Type2).unwrap();
        assert_eq!(request.flags, RenameFlags::REPLACE_IF_EXISTS);
        assert_eq!(request.name, "ab.é");
        let mut out = Vec::new();
        request.write(RenameLayout::Type2, &mut out);
        assert_eq!(out, bytes);
        assert_eq!(RenameRequest::parse(&bytes, RenameLayout::Type2), Ok(request));
    }

    #[test]
    fn a_name_of_one_letter_is_written_with_padding_and_read_without() {
        let bytes = hex("00 00000000000000 0000000000000000 02000000 6100");
        let request = RenameRequest::parse(&bytes, RenameLayout::Type2).unwrap();
        let mut out = Vec::new();
        request.write(RenameLayout::Type2, &mut out);
        assert_eq!(out.len(), 24);
        assert_eq!(RenameRequest::parse(&out, RenameLayout::Type2), Ok(request));
    }

    #[test]
    fn a_name_that_does_not_fit_is_cut_at_a_character() {
        let name = utf16::encode("abc");
        let mut out = Vec::new();
        assert_eq!(write_name(&name, 9, &mut out), Ok(true));
        assert_eq!(out, hex("06000000 61006200"));
        out.clear();
        assert_eq!(write_name(&name, 10, &mut out), Ok(false));
        assert_eq!(read_name(&out).unwrap(), "abc");
        assert_eq!(write_name(&name, 3, &mut out), Err(Full));
    }

    #[test]
    fn empty_and_odd_names_are_refused() {
        let empty = hex("0000000000000000 0000000000000000 00000000 00000000");
        assert_eq!(RenameRequest::parse(&empty, RenameLayout::Ex), Err(BadBuffer::Value));
        let odd = hex("0000000000000000 0000000000000000 01000000 61000000");
        assert_eq!(RenameRequest::parse(&odd, RenameLayout::Ex), Err(BadBuffer::Value));
        let long = hex("0000000000000000 0000000000000000 ffffffff 61000000");
        assert_eq!(RenameRequest::parse(&long, RenameLayout::Ex), Err(BadBuffer::Value));
        assert_eq!(RenameRequest::parse(&long[..20], RenameLayout::Ex), Err(BadBuffer::Value));
        assert_eq!(RenameRequest::parse(&long[..19], RenameLayout::Ex), Err(BadBuffer::Length));
        assert_eq!(read_name(&long[16..]), Err(BadBuffer::Value));
        assert_eq!(read_name(&long[17..20]), Err(BadBuffer::Length));
    }

    fn layouts() -> impl Strategy<Value = RenameLayout> {
        prop_oneof![Just(RenameLayout::Type1), Just(RenameLayout::Type2), Just(RenameLayout::Ex)]
    }

    proptest! {
        #[test]
        fn requests_come_back(
            layout in layouts(), name in "[a-zé€]{1,30}", replace in any::<bool>(), root in any::<u32>(),
        ) {
            let name = utf16::encode(&name);
            let flags = if replace { RenameFlags::REPLACE_IF_EXISTS } else { RenameFlags::empty() };
            let request =
                RenameRequest { flags, root_directory: u64::from(root), name: Utf16::new(&name).unwrap() };
            let mut out = Vec::new();
            request.write(layout, &mut out);
            prop_assert_eq!(RenameRequest::parse(&out, layout), Ok(request));
        }

        #[test]
        fn any_bytes_are_read_without_harm(
            data in proptest::collection::vec(any::<u8>(), 0..64), layout in layouts(),
        ) {
            let _ = (RenameRequest::parse(&data, layout), read_name(&data));
        }
    }
}
