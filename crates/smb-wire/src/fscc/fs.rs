//! File system information classes of QUERY_INFO (MS-FSCC 2.5).

use super::file::{read_name, write_name};
use super::layout::layout;
use super::{BadBuffer, FileTime, Full, text};
use crate::Utf16;
use wire::{Cursor, Writer};

layout! {
    /// MS-FSCC 2.5.2 FileFsControlInformation, query and set: the volume's defaults for quotas.
    #[derive(Default)]
    pub struct Control {
        /// Free bytes below which content indexing pauses.
        free_space_start_filtering: i64,
        /// Free bytes above which content indexing continues.
        free_space_threshold: i64,
        /// Free bytes below which content indexing stops.
        free_space_stop_filtering: i64,
        /// Bytes at which a user is warned, or [`Control::NO_LIMIT`] for never.
        default_quota_threshold: u64,
        /// Bytes that a user may own, or [`Control::NO_LIMIT`] for no limit.
        default_quota_limit: u64,
        /// [`ControlFlags`].
        file_system_control_flags: u32,
        _: 4,
    }

    /// MS-FSCC 2.5.4 FileFsFullSizeInformation
    #[derive(Default)]
    pub struct FullSize {
        /// All allocation units that the caller may use.
        total_allocation_units: u64,
        /// The units that are free for the caller.
        caller_available_allocation_units: u64,
        /// The free units.
        actual_available_allocation_units: u64,
        /// Sectors in an allocation unit.
        sectors_per_allocation_unit: u32,
        /// Bytes in a sector.
        bytes_per_sector: u32,
    }

    /// MS-FSCC 2.5.6 FileFsObjectIdInformation
    pub struct ObjectId {
        /// The id of the volume.
        object_id: [u8; 16],
        /// More data from the server, or zeros.
        extended_info: [u8; 48],
    }

    /// MS-FSCC 2.5.7 FileFsSectorSizeInformation
    #[derive(Default)]
    pub struct SectorSize {
        /// The logical sector size of the device in bytes.
        logical_bytes_per_sector: u32,
        /// Bytes that the device writes atomically.
        physical_bytes_per_sector_for_atomicity: u32,
        /// Bytes that the device writes without a read before.
        physical_bytes_per_sector_for_performance: u32,
        /// The unit of atomic writes in the file system, in bytes.
        file_system_effective_physical_bytes_per_sector_for_atomicity: u32,
        /// [`SectorFlags`].
        flags: u32,
        /// The offset of the first logical sector in the first physical one.
        byte_offset_for_sector_alignment: u32,
        /// The offset of the partition in its first physical sector.
        byte_offset_for_partition_alignment: u32,
    }

    /// MS-FSCC 2.5.8 FileFsSizeInformation
    #[derive(Default)]
    pub struct Size {
        /// All allocation units that the caller may use.
        total_allocation_units: u64,
        /// The units that are free for the caller.
        available_allocation_units: u64,
        /// Sectors in an allocation unit.
        sectors_per_allocation_unit: u32,
        /// Bytes in a sector.
        bytes_per_sector: u32,
    }

    /// MS-FSCC 2.5.10 FileFsDeviceInformation
    pub struct Device {
        /// [`Device::DISK`] or [`Device::CD_ROM`]; for IPC$ [`Device::NAMED_PIPE`].
        device_type: u32,
        /// [`DeviceCharacteristics`].
        characteristics: u32,
    }
}

impl Control {
    /// No warning, no limit.
    pub const NO_LIMIT: u64 = u64::MAX;
}

impl SectorSize {
    /// An unknown alignment.
    pub const OFFSET_UNKNOWN: u32 = 0xFFFF_FFFF;
}

impl Device {
    /// A CD-ROM.
    pub const CD_ROM: u32 = 0x0000_0002;
    /// A disk.
    pub const DISK: u32 = 0x0000_0007;
    /// Named pipes: the type that Windows reports for IPC$.
    pub const NAMED_PIPE: u32 = 0x0000_0011;
}

bitflags::bitflags! {
    /// MS-FSCC 2.5.1: the capabilities of a file system.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct FsAttributes: u32 {
        /// Names that differ only in case are different names.
        const CASE_SENSITIVE_SEARCH = 0x0000_0001;
        /// The case of names is kept.
        const CASE_PRESERVED_NAMES = 0x0000_0002;
        /// Names are Unicode.
        const UNICODE_ON_DISK = 0x0000_0004;
        /// Security descriptors are kept and enforced.
        const PERSISTENT_ACLS = 0x0000_0008;
        /// Single files can be compressed.
        const FILE_COMPRESSION = 0x0000_0010;
        /// Users have quotas.
        const VOLUME_QUOTAS = 0x0000_0020;
        /// Files may have holes.
        const SUPPORTS_SPARSE_FILES = 0x0000_0040;
        /// Files may have reparse points.
        const SUPPORTS_REPARSE_POINTS = 0x0000_0080;
        /// Data may be in remote storage.
        const SUPPORTS_REMOTE_STORAGE = 0x0000_0100;
        /// A close returns information about the cleanup.
        const RETURNS_CLEANUP_RESULT_INFO = 0x0000_0200;
        /// A file's name can be removed before its last handle closes.
        const SUPPORTS_POSIX_UNLINK_RENAME = 0x0000_0400;
        /// The whole volume is compressed.
        const VOLUME_IS_COMPRESSED = 0x0000_8000;
        /// Files can have object IDs.
        const SUPPORTS_OBJECT_IDS = 0x0001_0000;
        /// Files can be encrypted.
        const SUPPORTS_ENCRYPTION = 0x0002_0000;
        /// Files can have named streams.
        const NAMED_STREAMS = 0x0004_0000;
        /// The volume is read-only.
        const READ_ONLY_VOLUME = 0x0008_0000;
        /// The volume can be written once, in order.
        const SEQUENTIAL_WRITE_ONCE = 0x0010_0000;
        /// The volume has transactions.
        const SUPPORTS_TRANSACTIONS = 0x0020_0000;
        /// Files can have several names.
        const SUPPORTS_HARD_LINKS = 0x0040_0000;
        /// Files can have extended attributes.
        const SUPPORTS_EXTENDED_ATTRIBUTES = 0x0080_0000;
        /// Files can be opened by their ID.
        const SUPPORTS_OPEN_BY_FILE_ID = 0x0100_0000;
        /// The volume has a journal of changes.
        const SUPPORTS_USN_JOURNAL = 0x0200_0000;
        /// Data can have checksums.
        const SUPPORT_INTEGRITY_STREAMS = 0x0400_0000;
        /// Files can share blocks (FSCTL_DUPLICATE_EXTENTS_TO_FILE).
        const SUPPORTS_BLOCK_REFCOUNTING = 0x0800_0000;
        /// The valid data length is known for each cluster.
        const SUPPORTS_SPARSE_VDL = 0x1000_0000;
    }

    /// MS-FSCC 2.5.2: the state of quotas.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct ControlFlags: u32 {
        /// Quotas are counted.
        const QUOTA_TRACK = 0x0000_0001;
        /// Quotas are counted and enforced.
        const QUOTA_ENFORCE = 0x0000_0002;
        /// Content is not indexed.
        const CONTENT_INDEX_DISABLED = 0x0000_0008;
        /// A passed warning threshold is logged.
        const LOG_QUOTA_THRESHOLD = 0x0000_0010;
        /// A passed limit is logged.
        const LOG_QUOTA_LIMIT = 0x0000_0020;
        /// A passed threshold of the volume is logged.
        const LOG_VOLUME_THRESHOLD = 0x0000_0040;
        /// A passed limit of the volume is logged.
        const LOG_VOLUME_LIMIT = 0x0000_0080;
        /// The counts are incomplete.
        const QUOTAS_INCOMPLETE = 0x0000_0100;
        /// The counts are being rebuilt.
        const QUOTAS_REBUILDING = 0x0000_0200;
    }

    /// MS-FSCC 2.5.7: properties of the device's sectors.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct SectorFlags: u32 {
        /// The first physical sector begins with the first logical one.
        const ALIGNED_DEVICE = 0x0000_0001;
        /// The partition begins with a physical sector.
        const PARTITION_ALIGNED_ON_DEVICE = 0x0000_0002;
        /// Seeks cost nothing.
        const NO_SEEK_PENALTY = 0x0000_0004;
        /// The device supports TRIM.
        const TRIM_ENABLED = 0x0000_0008;
    }

    /// MS-FSCC 2.5.10: properties of the device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct DeviceCharacteristics: u32 {
        /// Its medium is removable.
        const REMOVABLE_MEDIA = 0x0000_0001;
        /// It is read-only.
        const READ_ONLY_DEVICE = 0x0000_0002;
        /// A floppy disk.
        const FLOPPY_DISKETTE = 0x0000_0004;
        /// It can be written once.
        const WRITE_ONCE_MEDIA = 0x0000_0008;
        /// It is on another machine.
        const REMOTE_DEVICE = 0x0000_0010;
        /// A file system is mounted on it.
        const DEVICE_IS_MOUNTED = 0x0000_0020;
        /// It has no medium of its own.
        const VIRTUAL_VOLUME = 0x0000_0040;
        /// The volume's own access list is checked too.
        const DEVICE_SECURE_OPEN = 0x0000_0100;
    }
}

/// MS-FSCC 2.5.9 FileFsVolumeInformation
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Volume<'a> {
    /// When the volume was created.
    pub volume_creation_time: FileTime,
    /// Its serial number.
    pub volume_serial_number: u32,
    /// Whether it is object-oriented. NTFS is.
    pub supports_objects: bool,
    /// Its label in UTF-16LE.
    pub volume_label: &'a [u8],
}

impl<'a> Volume<'a> {
    /// Bytes before the label.
    pub const FIXED: usize = 18;
    /// The most characters of a label in the response.
    pub const MAX_LABEL: usize = 32;

    /// Appends the structure in at most `limit` bytes, with at most 32 characters of the label. Returns
    /// whether the label was cut because of the limit (STATUS_BUFFER_OVERFLOW).
    ///
    /// # Errors
    /// [`Full`] if the fixed part does not fit (STATUS_INFO_LENGTH_MISMATCH).
    pub fn write(&self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Full> {
        let room = limit.checked_sub(Self::FIXED).ok_or(Full)?;
        // MS-FSCC 2.5.9 (a longer label is cut silently)
        let label = &self.volume_label[..self.volume_label.len().min(2 * Self::MAX_LABEL)];
        let kept = label.len().min(room & !1);
        let mut w = Writer::new(out);
        w.i64_le(self.volume_creation_time.0);
        w.u32_le(self.volume_serial_number);
        w.u32_le(label.len() as u32);
        w.u8(u8::from(self.supports_objects));
        w.u8(0);
        w.bytes(&label[..kept]);
        Ok(kept < label.len())
    }

    /// Reads the structure.
    ///
    /// # Errors
    /// [`BadBuffer`] if the data ends early or the label has an odd length.
    pub fn parse(data: &'a [u8]) -> Result<Self, BadBuffer> {
        let mut c = Cursor::new(data);
        let volume_creation_time = FileTime(c.i64_le()?);
        let volume_serial_number = c.u32_le()?;
        let length = c.u32_le()? as usize;
        let supports_objects = c.u8()? != 0;
        c.skip(1)?;
        let volume_label = text::parse(c.bytes(length)?)?.as_bytes();
        Ok(Volume { volume_creation_time, volume_serial_number, supports_objects, volume_label })
    }
}

/// MS-FSCC 2.5.1 FileFsAttributeInformation
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attribute<'a> {
    /// The capabilities of the file system.
    pub file_system_attributes: FsAttributes,
    /// The most characters in one component of a path.
    pub maximum_component_name_length: u32,
    /// The file system's name in UTF-16LE.
    pub file_system_name: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// Bytes before the name.
    pub const FIXED: usize = 12;

    /// Appends the structure in at most `limit` bytes. Returns whether the name was cut
    /// (STATUS_BUFFER_OVERFLOW).
    ///
    /// # Errors
    /// [`Full`] if the fixed part does not fit (STATUS_INFO_LENGTH_MISMATCH).
    pub fn write(&self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Full> {
        let limit = limit.checked_sub(Self::FIXED).ok_or(Full)? + 4;
        let mut w = Writer::new(out);
        w.u32_le(self.file_system_attributes.bits());
        w.u32_le(self.maximum_component_name_length);
        write_name(self.file_system_name, limit, out)
    }

    /// Reads the structure.
    ///
    /// # Errors
    /// [`BadBuffer`] if the data ends early or the name has an odd length.
    pub fn parse(data: &'a [u8]) -> Result<Self, BadBuffer> {
        let mut c = Cursor::new(data);
        Ok(Attribute {
            file_system_attributes: FsAttributes::from_bits_retain(c.u32_le()?),
            maximum_component_name_length: c.u32_le()?,
            file_system_name: read_name(c.rest())?.as_bytes(),
        })
    }
}

/// MS-FSCC 2.5.5 FileFsLabelInformation, set only: the new label without a final zero.
///
/// # Errors
/// [`BadBuffer::Length`] if the data ends early, [`BadBuffer::Value`] for an odd length or more than 32
/// characters (STATUS_INVALID_VOLUME_LABEL).
pub fn parse_label(data: &[u8]) -> Result<Utf16<'_>, BadBuffer> {
    let label = read_name(data)?.until_nul();
    if label.len() > Volume::MAX_LABEL { Err(BadBuffer::Value) } else { Ok(label) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;
    use crate::utf16;
    use proptest::prelude::*;

    #[test]
    fn a_volume_comes_back_and_its_label_is_cut() {
        let label = utf16::encode("data");
        let volume = Volume {
            volume_creation_time: FileTime(0x0102_0304_0506_0708),
            volume_serial_number: 0xAABB_CCDD,
            supports_objects: true,
            volume_label: &label,
        };
        let mut out = Vec::new();
        assert_eq!(volume.write(100, &mut out), Ok(false));
        assert_eq!(out, hex("0807060504030201 ddccbbaa 08000000 01 00 6400610074006100"));
        assert_eq!(Volume::parse(&out), Ok(volume));
        out.clear();
        assert_eq!(volume.write(23, &mut out), Ok(true));
        assert_eq!(out, hex("0807060504030201 ddccbbaa 08000000 01 00 64006100"));
        assert_eq!(volume.write(17, &mut out), Err(Full));
        let long = utf16::encode(&"x".repeat(40));
        out.clear();
        assert_eq!(Volume { volume_label: &long, ..volume }.write(200, &mut out), Ok(false));
        assert_eq!(out.len(), Volume::FIXED + 64);
    }

    #[test]
    fn attributes_of_a_windows_server_are_understood() {
        // 0x03E700FF is the value of Windows 7 for an NTFS volume.
        let bytes = hex("ff00e703 ff000000 08000000 4e00540046005300");
        let found = Attribute::parse(&bytes).unwrap();
        assert_eq!(found.file_system_name, utf16::encode("NTFS"));
        assert_eq!(found.maximum_component_name_length, 255);
        assert!(found.file_system_attributes.contains(
            FsAttributes::NAMED_STREAMS | FsAttributes::SUPPORTS_HARD_LINKS | FsAttributes::PERSISTENT_ACLS
        ));
        assert!(!found.file_system_attributes.contains(FsAttributes::READ_ONLY_VOLUME));
        let mut out = Vec::new();
        assert_eq!(found.write(20, &mut out), Ok(false));
        assert_eq!(out, bytes);
        assert_eq!(found.write(11, &mut out), Err(Full));
    }

    #[test]
    fn sizes_are_those_of_the_text() {
        assert_eq!((Control::SIZE, FullSize::SIZE, ObjectId::SIZE), (48, 32, 64));
        assert_eq!((SectorSize::SIZE, Size::SIZE, Device::SIZE), (28, 24, 8));
    }

    #[test]
    fn labels_end_at_a_zero_and_have_a_limit() {
        let mut data = hex("0a000000");
        utf16::push("new\0x", &mut data);
        assert_eq!(parse_label(&data).unwrap(), "new");
        let mut long = hex("42000000");
        utf16::push(&"x".repeat(33), &mut long);
        assert_eq!(parse_label(&long), Err(BadBuffer::Value));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (Volume::parse(&data), Attribute::parse(&data));
            let _ = (parse_label(&data), Control::parse(&data));
            let _ = (SectorSize::parse(&data), FullSize::parse(&data), ObjectId::parse(&data));
        }
    }
}
