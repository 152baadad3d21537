//! The information classes of volumes, with the actual values of the file system (MS-SMB2 3.3.5.20.2 and
//! MS-FSA 2.1.5.13).

use smb_wire::fscc::fs::{
    Attribute, Control, Device, DeviceCharacteristics, FsAttributes, FullSize, ObjectId, SectorFlags,
    SectorSize, Size, Volume,
};
use smb_wire::fscc::{FileTime, FsInfoClass};
use smb_wire::posix::{FilesystemInfo, UNKNOWN};
use smb_wire::{NtStatus, utf16};
use volume::Space;

use super::{Query, fixed, whole_or_cut};
use crate::exchange::{Handled, Stop};

/// One class.
struct Class {
    number: FsInfoClass,
    /// The smallest buffer that Windows accepts.
    least: usize,
    write: fn(&Query<'_>, &mut Vec<u8>) -> Handled,
}

const fn class(number: FsInfoClass, least: usize, write: fn(&Query<'_>, &mut Vec<u8>) -> Handled) -> Class {
    Class { number, least, write }
}

/// All supported classes.
const CLASSES: [Class; 9] = [
    class(FsInfoClass::VOLUME, 24, label),
    class(FsInfoClass::SIZE, Size::SIZE, size),
    class(FsInfoClass::DEVICE, Device::SIZE, |query, out| fixed(out, |out| device(query).write(out))),
    class(FsInfoClass::ATTRIBUTE, 16, attributes),
    class(FsInfoClass::CONTROL, Control::SIZE, |_, out| fixed(out, |out| NO_QUOTAS.write(out))),
    class(FsInfoClass::FULL_SIZE, FullSize::SIZE, full_size),
    class(FsInfoClass::OBJECT_ID, ObjectId::SIZE, |query, out| fixed(out, |out| object_id(query).write(out))),
    class(FsInfoClass::SECTOR_SIZE, SectorSize::SIZE, sector_size),
    class(FsInfoClass::POSIX, 56, posix),
];

/// There are no quotas and no content index.
const NO_QUOTAS: Control = Control {
    free_space_start_filtering: 0,
    free_space_threshold: 0,
    free_space_stop_filtering: 0,
    default_quota_threshold: Control::NO_LIMIT,
    default_quota_limit: Control::NO_LIMIT,
    file_system_control_flags: 0,
};

/// The file system name. Windows programs expect it for file systems with descriptors, streams and links.
const FILE_SYSTEM_NAME: &str = "NTFS";

/// The most characters of a component (MS-FSCC 2.1.5.2).
const NAME_MAX: u32 = 255;

/// Bytes in a sector, as every disk reports it.
const SECTOR: u32 = 512;

/// Writes the requested class.
pub(super) fn answer(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let number = FsInfoClass(query.parsed.file_info_class);
    let is_spoken = number != FsInfoClass::POSIX || query.negotiated.posix;
    let class = CLASSES.iter().find(|class| is_spoken && class.number == number);
    let class = class.ok_or_else(|| refusal(number))?;
    // MS-SMB2 3.3.5.20.2
    if query.limit() < class.least {
        return Err(Stop::Fail(NtStatus::INFO_LENGTH_MISMATCH));
    }
    (class.write)(query, out)
}

/// The status for an unsupported class.
// MS-SMB2 3.3.5.20.2
fn refusal(number: FsInfoClass) -> NtStatus {
    match number {
        FsInfoClass::LABEL | FsInfoClass::DRIVER_PATH | FsInfoClass::VOLUME_FLAGS => NtStatus::NOT_SUPPORTED,
        _ => NtStatus::INVALID_INFO_CLASS,
    }
}

// MS-FSA 2.1.5.13.3
fn size(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let units = Units::of(query)?;
    fixed(out, |out| units.size().write(out))
}

// MS-FSA 2.1.5.13.7
fn full_size(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let units = Units::of(query)?;
    fixed(out, |out| units.full_size().write(out))
}

// MS-FSA 2.1.5.13.10
fn sector_size(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let units = Units::of(query)?;
    let sectors = units.sectors(query.engine.volume().properties().discards);
    fixed(out, |out| sectors.write(out))
}

/// FileFsVolumeInformation: the share's name is the label.
// MS-FSA 2.1.5.13.1
fn label(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let facts = query.engine.volume().properties();
    let label = utf16::encode(&query.engine.name());
    let created = i64::try_from(crate::time::to_file_time(facts.born)).unwrap_or(i64::MAX);
    let volume = Volume {
        volume_creation_time: FileTime(created),
        volume_serial_number: (facts.serial ^ facts.serial >> 32) as u32,
        supports_objects: true,
        volume_label: &label,
    };
    whole_or_cut(volume.write(query.limit(), out))
}

// MS-FSA 2.1.5.13.4
fn device(query: &Query<'_>) -> Device {
    let mut characteristics = DeviceCharacteristics::DEVICE_IS_MOUNTED;
    characteristics
        .set(DeviceCharacteristics::READ_ONLY_DEVICE, query.engine.volume().properties().read_only);
    Device { device_type: Device::DISK, characteristics: characteristics.bits() }
}

// MS-FSA 2.1.5.13.5
fn attributes(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let facts = query.engine.volume().properties();
    let config = query.engine.config();
    // Names keep their case and can differ by case alone, as on NTFS, even if the share ignores case.
    let mut bits = FsAttributes::CASE_SENSITIVE_SEARCH
        | FsAttributes::CASE_PRESERVED_NAMES
        | FsAttributes::UNICODE_ON_DISK
        | FsAttributes::PERSISTENT_ACLS
        | FsAttributes::SUPPORTS_SPARSE_FILES
        | FsAttributes::SUPPORTS_REPARSE_POINTS
        | FsAttributes::SUPPORTS_OBJECT_IDS
        | FsAttributes::SUPPORTS_HARD_LINKS
        | FsAttributes::SUPPORTS_POSIX_UNLINK_RENAME;
    bits.set(FsAttributes::NAMED_STREAMS, config.streams);
    bits.set(FsAttributes::SUPPORTS_EXTENDED_ATTRIBUTES, facts.extended_attributes);
    bits.set(FsAttributes::SUPPORTS_BLOCK_REFCOUNTING, facts.clones);
    bits.set(FsAttributes::READ_ONLY_VOLUME, facts.read_only || config.read_only);
    let name = utf16::encode(FILE_SYSTEM_NAME);
    let attribute = Attribute {
        file_system_attributes: bits,
        maximum_component_name_length: facts.name_max.min(NAME_MAX),
        file_system_name: &name,
    };
    whole_or_cut(attribute.write(query.limit(), out))
}

/// FileFsObjectIdInformation: a lasting identity of the volume.
// MS-FSA 2.1.5.13.8
fn object_id(query: &Query<'_>) -> ObjectId {
    let facts = query.engine.volume().properties();
    let mut object_id = [0; 16];
    object_id[..8].copy_from_slice(&facts.serial.to_le_bytes());
    object_id[8..].copy_from_slice(&facts.born.secs.to_le_bytes());
    ObjectId { object_id, extended_info: [0; 48] }
}

/// FileFsPosixInformation of the POSIX extensions, which no section describes.
fn posix(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let units = Units::of(query)?;
    let block = units.per_unit * units.sector;
    let info = FilesystemInfo {
        optimal_transfer_size: block,
        block_size: block,
        total_blocks: units.total,
        blocks_available: units.free,
        user_blocks_available: units.available,
        total_file_nodes: UNKNOWN,
        free_file_nodes: UNKNOWN,
        file_system_identifier: query.engine.volume().properties().serial,
    };
    fixed(out, |out| info.write(out))
}

/// The space of a file system in allocation units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Units {
    /// Total units.
    pub total: u64,
    /// Free units.
    pub free: u64,
    available: u64,
    /// Sectors in a unit.
    pub per_unit: u32,
    /// Bytes in a sector.
    pub sector: u32,
}

impl Units {
    fn of(query: &Query<'_>) -> Result<Units, Stop> {
        // The space of the file system that has the file, which may be mounted below the share.
        Ok(Units::count(query.engine.space_of(query.file)?))
    }

    /// From the file system's values.
    pub fn count(space: Space) -> Units {
        // If the block size is not a multiple of a sector, a sector is one block.
        let block = space.block.max(1);
        let (per_unit, sector) =
            if block.is_multiple_of(SECTOR) { (block / SECTOR, SECTOR) } else { (1, block) };
        let units = |bytes: u64| bytes / u64::from(block);
        Units {
            total: units(space.total),
            free: units(space.free),
            available: units(space.available),
            per_unit,
            sector,
        }
    }

    fn size(self) -> Size {
        Size {
            total_allocation_units: self.total,
            available_allocation_units: self.available,
            sectors_per_allocation_unit: self.per_unit,
            bytes_per_sector: self.sector,
        }
    }

    fn full_size(self) -> FullSize {
        FullSize {
            total_allocation_units: self.total,
            caller_available_allocation_units: self.available,
            actual_available_allocation_units: self.free,
            sectors_per_allocation_unit: self.per_unit,
            bytes_per_sector: self.sector,
        }
    }

    fn sectors(self, can_trim: bool) -> SectorSize {
        let mut flags = SectorFlags::ALIGNED_DEVICE | SectorFlags::PARTITION_ALIGNED_ON_DEVICE;
        flags.set(SectorFlags::TRIM_ENABLED, can_trim);
        SectorSize {
            logical_bytes_per_sector: self.sector,
            physical_bytes_per_sector_for_atomicity: self.sector,
            // MS-FSA 2.1.5.13.10: the same value as above.
            physical_bytes_per_sector_for_performance: self.sector,
            file_system_effective_physical_bytes_per_sector_for_atomicity: self.sector,
            flags: flags.bits(),
            byte_offset_for_sector_alignment: 0,
            byte_offset_for_partition_alignment: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_counted_in_the_blocks_of_the_file_system() {
        let space =
            Space { total: 1 << 40, free: 3 << 20, available: 2 << 20, block: 4096, files: 0, files_free: 0 };
        let size = Units::count(space).full_size();
        let unit = u64::from(size.sectors_per_allocation_unit * size.bytes_per_sector);
        assert_eq!(size.total_allocation_units * unit, 1 << 40);
        assert_eq!(size.actual_available_allocation_units * unit, 3 << 20);
        assert_eq!(size.caller_available_allocation_units * unit, 2 << 20);
    }

    #[test]
    fn only_a_device_that_takes_discards_is_said_to_trim() {
        let units = Units::count(Space {
            total: 1 << 30,
            free: 0,
            available: 0,
            block: 4096,
            files: 0,
            files_free: 0,
        });
        let flags = |can_trim| SectorFlags::from_bits_retain(units.sectors(can_trim).flags);
        assert!(flags(true).contains(SectorFlags::TRIM_ENABLED));
        assert!(!flags(false).contains(SectorFlags::TRIM_ENABLED));
    }

    #[test]
    fn odd_blocks_lose_nothing() {
        let units = Units::count(Space {
            total: 10_000,
            free: 0,
            available: 0,
            block: 1000,
            files: 0,
            files_free: 0,
        });
        assert_eq!((units.total, units.per_unit, units.sector), (10, 1, 1000));
        assert_eq!(Units::count(Space::default()).total, 0);
    }

    #[test]
    fn classes_that_are_set_or_local_are_told_from_unknown_ones() {
        assert_eq!(refusal(FsInfoClass::LABEL), NtStatus::NOT_SUPPORTED);
        assert_eq!(refusal(FsInfoClass(77)), NtStatus::INVALID_INFO_CLASS);
        assert!(CLASSES.windows(2).all(|pair| pair[0].number.0 < pair[1].number.0));
    }
}
