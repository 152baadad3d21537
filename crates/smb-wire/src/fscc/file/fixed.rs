//! File information classes of fixed size, and FileAllInformation, which combines eight of them.

use super::name::{read_name, write_name};
use crate::Utf16;
use crate::fscc::layout::layout;
use crate::fscc::{BadBuffer, FileAttributes, FileTime, Full, ReparseTag};

layout! {
    /// MS-FSCC 2.4.1 FileAccessInformation
    pub struct AccessInfo {
        /// The granted access of the Open.
        access_flags: u32,
    }

    /// MS-FSCC 2.4.3 FileAlignmentInformation
    pub struct Alignment {
        /// A mask: the required alignment of buffers less one, or 0 for none.
        alignment_requirement: u32,
    }

    /// MS-FSCC 2.4.4 FileAllocationInformation, set only
    pub struct Allocation {
        /// The requested allocation in bytes, as a signed number.
        allocation_size: i64,
    }

    /// MS-FSCC 2.4.6 FileAttributeTagInformation
    pub struct AttributeTag {
        /// The attributes.
        file_attributes: FileAttributes,
        /// The reparse tag; 0 without a reparse point.
        reparse_tag: ReparseTag,
    }

    /// MS-FSCC 2.4.7 FileBasicInformation
    #[derive(Default)]
    pub struct Basic {
        /// When the file was created.
        creation_time: FileTime,
        /// When it was last read.
        last_access_time: FileTime,
        /// When its data last changed.
        last_write_time: FileTime,
        /// When the file was last changed in any way.
        change_time: FileTime,
        /// The attributes. In SET_INFO an empty value changes nothing.
        file_attributes: FileAttributes,
        _: 4,
    }

    /// MS-FSCC 2.4.9 FileCompressionInformation
    #[derive(Default)]
    pub struct Compression {
        /// Bytes of the compressed file.
        compressed_file_size: u64,
        /// 0 for none, 2 for LZNT1.
        compression_format: u16,
        /// log2 of the bytes in a compression unit.
        compression_unit_shift: u8,
        /// log2 of the bytes in a chunk.
        chunk_shift: u8,
        /// log2 of the bytes in a cluster.
        cluster_shift: u8,
        _: 3,
    }

    /// MS-FSCC 2.4.11 FileDispositionInformation, set only
    pub struct Disposition {
        /// Whether the file is deleted when its last handle closes.
        delete_pending: bool,
    }

    /// MS-FSCC 2.4.13 FileEaInformation
    #[derive(Default)]
    pub struct Ea {
        /// Bytes of all extended attributes together.
        ea_size: u32,
    }

    /// MS-FSCC 2.4.14 FileEndOfFileInformation, set only
    pub struct EndOfFile {
        /// The new size in bytes, as a signed number.
        end_of_file: i64,
    }

    /// MS-FSCC 2.4.26 FileIdInformation
    pub struct Id {
        /// The volume.
        volume_serial_number: u64,
        /// The file on it.
        file_id: u128,
    }

    /// MS-FSCC 2.4.27 FileInternalInformation
    #[derive(Default)]
    pub struct Internal {
        /// The 64-bit file ID.
        index_number: u64,
    }

    /// MS-FSCC 2.4.31 FileModeInformation
    #[derive(Default)]
    pub struct Mode {
        /// The create options about reads and writes.
        mode: u32,
    }

    /// MS-FSCC 2.4.34 FileNetworkOpenInformation
    #[derive(Default)]
    pub struct NetworkOpen {
        /// When the file was created.
        creation_time: FileTime,
        /// When it was last read.
        last_access_time: FileTime,
        /// When its data last changed.
        last_write_time: FileTime,
        /// When the file was last changed in any way.
        change_time: FileTime,
        /// Bytes of its allocation.
        allocation_size: u64,
        /// Size in bytes.
        end_of_file: u64,
        /// The attributes.
        file_attributes: FileAttributes,
        _: 4,
    }

    /// MS-FSCC 2.4.40 FilePositionInformation
    #[derive(Default)]
    pub struct Position {
        /// The position of the next read or write without an offset, as a signed number.
        current_byte_offset: i64,
    }

    /// MS-FSCC 2.4.47 FileStandardInformation
    #[derive(Default)]
    pub struct Standard {
        /// Bytes of its allocation.
        allocation_size: u64,
        /// Size in bytes.
        end_of_file: u64,
        /// Hard links that are not marked for deletion.
        number_of_links: u32,
        /// Whether the file is deleted when its last handle closes.
        delete_pending: bool,
        /// Whether it is a directory.
        directory: bool,
        _: 2,
    }

    /// MS-FSCC 2.4.48 FileStandardLinkInformation
    #[derive(Default)]
    pub struct StandardLink {
        /// Links that can still be opened.
        number_of_accessible_links: u32,
        /// All links.
        total_number_of_links: u32,
        /// Whether the file is deleted when its last handle closes.
        delete_pending: bool,
        /// Whether it is a directory.
        directory: bool,
        _: 2,
    }

    /// MS-FSCC 2.4.50 FileValidDataLengthInformation, set only
    pub struct ValidDataLength {
        /// The new valid data length in bytes, as a signed number.
        valid_data_length: i64,
    }

    /// MS-FSCC 2.4.12 FileDispositionInformationEx, set only
    pub struct DispositionEx {
        /// [`DispositionFlags`] as the client sent them.
        flags: u32,
    }
}

bitflags::bitflags! {
    /// MS-FSCC 2.4.12: the flags of FileDispositionInformationEx.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct DispositionFlags: u32 {
        /// Marks the file for deletion. Without it the mark is removed.
        const DELETE = 0x0000_0001;
        /// The name is removed when this handle closes, even if others have the file open.
        const POSIX_SEMANTICS = 0x0000_0002;
        /// Check for mapped views first.
        const FORCE_IMAGE_SECTION_CHECK = 0x0000_0004;
        /// Sets or removes the mark of CREATE's delete-on-close.
        const ON_CLOSE = 0x0000_0008;
        /// A read-only file may be deleted too.
        const IGNORE_READONLY_ATTRIBUTE = 0x0000_0010;
    }
}

impl DispositionEx {
    /// The flags after a check.
    ///
    /// # Errors
    /// [`BadBuffer::Value`] for an unknown flag (STATUS_INVALID_PARAMETER).
    pub fn checked(&self) -> Result<DispositionFlags, BadBuffer> {
        DispositionFlags::from_bits(self.flags).ok_or(BadBuffer::Value)
    }
}

/// MS-FSCC 2.4.2 FileAllInformation without the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct All {
    /// Times and attributes.
    pub basic: Basic,
    /// Sizes and links.
    pub standard: Standard,
    /// The file ID.
    pub internal: Internal,
    /// The size of the extended attributes.
    pub ea: Ea,
    /// The granted access.
    pub access: AccessInfo,
    /// The current position.
    pub position: Position,
    /// The mode of the Open.
    pub mode: Mode,
    /// The required alignment of buffers.
    pub alignment: Alignment,
}

impl All {
    /// Bytes before the characters of the name.
    pub const FIXED: usize = 100;

    /// Appends the structure in at most `limit` bytes. `name` is the path from the share's root with a
    /// leading backslash in UTF-16LE. Returns whether the name was cut (STATUS_BUFFER_OVERFLOW).
    ///
    /// # Errors
    /// [`Full`] if the fixed part does not fit (STATUS_INFO_LENGTH_MISMATCH).
    pub fn write(&self, name: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<bool, Full> {
        let limit = limit.checked_sub(Self::FIXED).ok_or(Full)? + 4;
        self.basic.write(out);
        self.standard.write(out);
        self.internal.write(out);
        self.ea.write(out);
        self.access.write(out);
        self.position.write(out);
        self.mode.write(out);
        self.alignment.write(out);
        write_name(name, limit, out)
    }

    /// Reads the structure and its name.
    ///
    /// # Errors
    /// [`BadBuffer`] if the data ends early or the name has an odd length.
    pub fn parse(data: &[u8]) -> Result<(All, Utf16<'_>), BadBuffer> {
        let (fixed, name) = data.split_at_checked(Self::FIXED - 4).ok_or(BadBuffer::Length)?;
        let all = All {
            basic: Basic::parse(fixed)?,
            standard: Standard::parse(&fixed[40..])?,
            internal: Internal::parse(&fixed[64..])?,
            ea: Ea::parse(&fixed[72..])?,
            access: AccessInfo::parse(&fixed[76..])?,
            position: Position::parse(&fixed[80..])?,
            mode: Mode::parse(&fixed[88..])?,
            alignment: Alignment::parse(&fixed[92..])?,
        };
        Ok((all, read_name(name)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::testing::hex;
    use crate::utf16;
    use proptest::prelude::*;

    /// The bytes that the Python package smbprotocol 1.17 packs for the same values.
    #[test]
    fn structures_are_those_of_another_implementation() {
        let basic = Basic {
            creation_time: FileTime(0x01d5_c119_4ad6_d700),
            last_access_time: FileTime(0x01d6_e0b3_edf4_8080),
            last_write_time: FileTime(0x01d7_ff85_66bb_4080),
            change_time: FileTime(0x01d9_1e56_df82_0080),
            file_attributes: FileAttributes::ARCHIVE,
        };
        let bytes =
            hex("00d7d64a19c1d501 8080f4edb3e0d601 8040bb6685ffd701 800082df561ed901 20000000 00000000");
        let mut out = Vec::new();
        basic.write(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Basic::parse(&bytes), Ok(basic));

        let standard = Standard {
            allocation_size: 0x2000,
            end_of_file: 0x1234,
            number_of_links: 3,
            delete_pending: true,
            directory: false,
        };
        let bytes = hex("0020000000000000 3412000000000000 03000000 01 00 0000");
        out.clear();
        standard.write(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Standard::parse(&bytes), Ok(standard));
    }

    /// The bytes that impacket 0.13 packs for the same values.
    #[test]
    fn all_information_is_that_of_another_implementation() {
        let bytes =
            hex("0100000000000000 0200000000000000 0300000000000000 0400000000000000 20000000 00000000
             0010000000000000 0500000000000000 02000000 01 00 0000  8877665544332211  19000000  ff011f00
             7700000000000000  20000000  03000000  04000000 5c006100");
        let all = All {
            basic: Basic {
                creation_time: FileTime(1),
                last_access_time: FileTime(2),
                last_write_time: FileTime(3),
                change_time: FileTime(4),
                file_attributes: FileAttributes::ARCHIVE,
            },
            standard: Standard {
                allocation_size: 0x1000,
                end_of_file: 5,
                number_of_links: 2,
                delete_pending: true,
                directory: false,
            },
            internal: Internal { index_number: 0x1122_3344_5566_7788 },
            ea: Ea { ea_size: 0x19 },
            access: AccessInfo { access_flags: 0x001F_01FF },
            position: Position { current_byte_offset: 0x77 },
            mode: Mode { mode: 0x20 },
            alignment: Alignment { alignment_requirement: 3 },
        };
        let name = utf16::encode("\\a");
        let mut out = Vec::new();
        assert_eq!(all.write(&name, 104, &mut out), Ok(false));
        assert_eq!(out, bytes);
        let (read, read_name) = All::parse(&bytes).unwrap();
        assert_eq!((read, read_name.as_bytes()), (all, &name[..]));
        out.clear();
        assert_eq!(all.write(&name, 103, &mut out), Ok(true));
        assert_eq!((out.len(), &out[..]), (102, &bytes[..102]));
        assert_eq!(all.write(&name, 99, &mut Vec::new()), Err(Full));
    }

    #[test]
    fn sizes_are_those_of_the_text() {
        assert_eq!(
            (Basic::SIZE, Standard::SIZE, NetworkOpen::SIZE, Compression::SIZE, Id::SIZE, AttributeTag::SIZE),
            (40, 24, 56, 16, 24, 8)
        );
    }

    #[test]
    fn unknown_disposition_flags_are_refused() {
        assert_eq!(DispositionEx { flags: 0x3 }.checked().unwrap().bits(), 3);
        assert_eq!(DispositionEx { flags: 0x20 }.checked(), Err(BadBuffer::Value));
        assert_eq!(Disposition::parse(&[2]), Ok(Disposition { delete_pending: true }));
        assert_eq!(Disposition::parse(&[]), Err(BadBuffer::Length));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = (All::parse(&data), Basic::parse(&data), Id::parse(&data), NetworkOpen::parse(&data));
        }
    }
}
