//! The buffers of file system control codes (MS-FSCC 2.3) that this server supports, or refuses only after a
//! check of the buffer.
//!
//! Offsets and lengths are signed on the wire. [`Range`] and similar structures keep them unchanged, and
//! `checked` validates them. [`lists`] has the buffers that are lists. The others have a fixed size. Reparse
//! points are in [`reparse`](super::reparse).

pub mod lists;
pub mod pipe;
pub mod usn;

pub use lists::{
    FileRegion, MappedExtent, Trim, TrimRange, read_ranges, read_regions, room_for_pointers, write_pointers,
    write_ranges, write_regions, write_trim,
};
pub use pipe::{DfsReferralRequest, PipePeek, PipeWait};
pub use usn::{UsnRange, UsnRecord};

use super::layout::layout;
use super::{BadBuffer, FileTime};
use crate::FileId;

layout! {
    /// MS-FSCC 2.1.3.1 FILE_OBJECTID_BUFFER, the reply to CREATE_OR_GET_OBJECT_ID and GET_OBJECT_ID and the
    /// body of SET_OBJECT_ID.
    pub struct ObjectIdBuffer {
        /// The id of the file on its volume.
        object_id: [u8; 16],
        /// The volume on which it was created.
        birth_volume_id: [u8; 16],
        /// Its object ID at that time.
        birth_object_id: [u8; 16],
        /// Zero.
        domain_id: [u8; 16],
    }

    /// MS-FSCC 2.3.7.2 SMB2_DUPLICATE_EXTENTS_DATA
    pub struct DuplicateExtents {
        /// The Open of the source.
        source_file_id: FileId,
        /// The offset in the source.
        source_file_offset: i64,
        /// The offset in the target.
        target_file_offset: i64,
        /// The number of bytes.
        byte_count: i64,
    }

    /// MS-FSCC 2.3.9.2 SMB2_DUPLICATE_EXTENTS_DATA_EX
    pub struct DuplicateExtentsEx {
        /// [`DuplicateExtentsEx::STRUCTURE_SIZE`].
        structure_size: u64,
        /// The fields of the shorter form.
        extents: DuplicateExtents,
        /// [`DuplicateExtentsEx::SOURCE_ATOMIC`].
        flags: u32,
        _: 4,
    }

    /// MS-FSCC 2.3.20 the reply to GET_INTEGRITY_INFORMATION
    #[derive(Default)]
    pub struct GetIntegrity {
        /// 0 for none, 1 for CRC32, 2 for CRC64.
        checksum_algorithm: u16,
        _: 2,
        /// 1 if checksums are not enforced.
        flags: u32,
        /// Bytes in a chunk.
        checksum_chunk_size_in_bytes: u32,
        /// Bytes in a cluster.
        cluster_size_in_bytes: u32,
    }

    /// MS-FSCC 2.3.73 SET_INTEGRITY_INFORMATION
    #[derive(Default)]
    pub struct SetIntegrity {
        /// 0 for none, 1 for CRC32, 2 for CRC64, 0xFFFF for no change.
        checksum_algorithm: u16,
        _: 2,
        /// 1 if checksums are not enforced.
        flags: u32,
    }

    /// MS-FSCC 2.3.75 SET_INTEGRITY_INFORMATION_EX
    #[derive(Default)]
    pub struct SetIntegrityEx {
        /// Whether integrity is enabled.
        enable_integrity: bool,
        /// Whether the integrity state stays unchanged.
        keep_integrity_state_unchanged: bool,
        _: 2,
        /// 1 if checksums are not enforced.
        flags: u32,
        /// 1.
        version: u8,
        _: 7,
    }

    /// MS-FSCC 2.3.18 and 2.3.67: the reply to GET_COMPRESSION and the body of SET_COMPRESSION
    pub struct Compression {
        /// A state such as [`Compression::NONE`].
        compression_state: u16,
    }

    /// MS-FSCC 2.3.41 OFFLOAD_READ
    pub struct OffloadRead {
        /// Bytes of this structure.
        size: u32,
        /// 0.
        flags: u32,
        /// The lifetime of the token, in ms.
        token_time_to_live: u32,
        _: 4,
        /// The offset of the read.
        file_offset: u64,
        /// The number of bytes.
        copy_length: u64,
    }

    /// MS-FSCC 2.3.43 OFFLOAD_WRITE
    pub struct OffloadWrite {
        /// Bytes of this structure.
        size: u32,
        /// 0.
        flags: u32,
        /// The offset of the write.
        file_offset: u64,
        /// The number of bytes.
        copy_length: u64,
        /// The offset in the data of the token.
        transfer_offset: u64,
        /// STORAGE_OFFLOAD_TOKEN.
        token: [u8; 512],
    }

    /// MS-FSCC 2.3.58 the reply to QUERY_ON_DISK_VOLUME_INFO, for a volume in UDF
    pub struct OnDiskVolume {
        /// Directories, or -1.
        directory_count: i64,
        /// Files, or -1.
        file_count: i64,
        /// Major version of the format, or 0xFFFF.
        fs_format_major_version: u16,
        /// Minor version of the format, or 0xFFFF.
        fs_format_minor_version: u16,
        /// `UDF` in UTF-16LE, padded with zeros.
        fs_format_name: [u8; 24],
        /// When the volume was created.
        format_time: FileTime,
        /// When it was last changed.
        last_update_time: FileTime,
        /// A copyright notice in UTF-16LE, padded with zeros.
        copyright_info: [u8; 68],
        /// A description, in the same form.
        abstract_info: [u8; 68],
        /// The program that formatted the volume, in the same form.
        formatting_implementation_info: [u8; 68],
        /// The program that last changed the volume, in the same form.
        last_modifying_implementation_info: [u8; 68],
    }

    /// MS-FSCC 2.3.22 NTFS_VOLUME_DATA_BUFFER, the reply to GET_NTFS_VOLUME_DATA
    #[derive(Default)]
    pub struct NtfsVolume {
        /// The serial number of the volume.
        volume_serial_number: u64,
        /// All sectors.
        number_sectors: i64,
        /// All clusters.
        total_clusters: i64,
        /// Free clusters.
        free_clusters: i64,
        /// Reserved clusters.
        total_reserved: i64,
        /// Size of a sector.
        bytes_per_sector: u32,
        /// Size of a cluster.
        bytes_per_cluster: u32,
        /// Size of a file record.
        bytes_per_file_record_segment: u32,
        /// Size of a file record in clusters.
        clusters_per_file_record_segment: u32,
        /// Size of the file table, or 0 without one.
        mft_valid_data_length: i64,
        /// The first cluster of the file table.
        mft_start_lcn: i64,
        /// The first cluster of its mirror.
        mft2_start_lcn: i64,
        /// The first cluster of the space for it.
        mft_zone_start: i64,
        /// The last cluster of that space.
        mft_zone_end: i64,
    }

    /// MS-FSCC 2.3.51 the range of QUERY_ALLOCATED_RANGES, and one range of its reply
    pub struct Range {
        /// The offset of the range.
        file_offset: i64,
        /// The length of the range.
        length: i64,
    }

    /// MS-FSCC 2.3.85 SET_ZERO_DATA
    pub struct ZeroData {
        /// The offset of the first zero.
        file_offset: i64,
        /// The offset of the first byte after the zeros.
        beyond_final_zero: i64,
    }

    /// MS-FSCC 2.3.55 QUERY_FILE_REGIONS. Without a buffer it is about the whole file.
    pub struct QueryRegions {
        /// The offset of the range.
        file_offset: i64,
        /// The length of the range.
        length: i64,
        /// [`QueryRegions::VALID_CACHED_DATA`] or [`QueryRegions::VALID_NONCACHED_DATA`].
        desired_usage: u32,
        _: 4,
    }
}

impl DuplicateExtents {
    /// Source offset, target offset and length.
    ///
    /// # Errors
    /// [`BadBuffer::Value`] if one is negative or a range goes beyond the largest offset
    /// (STATUS_INVALID_PARAMETER).
    pub fn checked(&self) -> Result<(u64, u64, u64), BadBuffer> {
        let (source, length) = checked_range(self.source_file_offset, self.byte_count)?;
        let (target, _) = checked_range(self.target_file_offset, self.byte_count)?;
        Ok((source, target, length))
    }
}

impl DuplicateExtentsEx {
    /// The value of StructureSize: 48, although the structure has 56 bytes.
    pub const STRUCTURE_SIZE: u64 = 0x30;
    /// Flag: the copy is a snapshot of the source.
    pub const SOURCE_ATOMIC: u32 = 0x0000_0001;
}

impl Compression {
    /// Not compressed.
    pub const NONE: u16 = 0x0000;
    /// The file system's own choice; set only.
    pub const DEFAULT: u16 = 0x0001;
    /// LZNT1.
    pub const LZNT1: u16 = 0x0002;
}

impl QueryRegions {
    /// The data that is valid in the cache.
    pub const VALID_CACHED_DATA: u32 = 0x0000_0001;
    /// The data that is valid on disk.
    pub const VALID_NONCACHED_DATA: u32 = 0x0000_0002;

    /// Offset and length.
    ///
    /// # Errors
    /// [`BadBuffer::Value`] if one is negative, the range goes beyond the largest offset, or the usage is
    /// not one of the two (STATUS_INVALID_PARAMETER).
    pub fn checked(&self) -> Result<(u64, u64), BadBuffer> {
        if !(1..=3).contains(&self.desired_usage) {
            return Err(BadBuffer::Value);
        }
        checked_range(self.file_offset, self.length)
    }
}

impl Range {
    /// Offset and length.
    ///
    /// # Errors
    /// [`BadBuffer::Value`] if one is negative or the range goes beyond the largest offset
    /// (STATUS_INVALID_PARAMETER).
    pub fn checked(&self) -> Result<(u64, u64), BadBuffer> {
        checked_range(self.file_offset, self.length)
    }
}

impl ZeroData {
    /// Offset and length.
    ///
    /// # Errors
    /// [`BadBuffer::Value`] if one is negative or the end is before the start (STATUS_INVALID_PARAMETER).
    pub fn checked(&self) -> Result<(u64, u64), BadBuffer> {
        let length = self.beyond_final_zero.checked_sub(self.file_offset).ok_or(BadBuffer::Value)?;
        checked_range(self.file_offset, length)
    }
}

/// Offset and length of a range with a valid end offset.
fn checked_range(offset: i64, length: i64) -> Result<(u64, u64), BadBuffer> {
    let is_whole = offset.checked_add(length).is_some();
    match (u64::try_from(offset), u64::try_from(length)) {
        (Ok(offset), Ok(length)) if is_whole => Ok((offset, length)),
        _ => Err(BadBuffer::Value),
    }
}

/// MS-FSCC 2.3.83 SET_SPARSE: an empty buffer means yes.
#[must_use]
pub fn parse_set_sparse(data: &[u8]) -> bool {
    data.first().is_none_or(|byte| *byte != 0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_those_of_the_text() {
        assert_eq!((ObjectIdBuffer::SIZE, DuplicateExtents::SIZE, DuplicateExtentsEx::SIZE), (64, 40, 56));
        assert_eq!((GetIntegrity::SIZE, SetIntegrity::SIZE, SetIntegrityEx::SIZE), (16, 8, 16));
        assert_eq!((OffloadRead::SIZE, OffloadWrite::SIZE, QueryRegions::SIZE), (32, 544, 24));
    }

    #[test]
    fn an_extent_copy_is_read_in_both_forms() {
        let short =
            hex("0100000000000000 0200000000000000 0010000000000000 0020000000000000 0030000000000000");
        let extents = DuplicateExtents::parse(&short).unwrap();
        assert_eq!(extents.source_file_id, FileId { persistent: 1, volatile: 2 });
        assert_eq!(extents.checked(), Ok((0x1000, 0x2000, 0x3000)));
        let long = [hex("3000000000000000"), short, hex("01000000 00000000")].concat();
        let ex = DuplicateExtentsEx::parse(&long).unwrap();
        assert_eq!(
            (ex.structure_size, ex.extents, ex.flags),
            (0x30, extents, DuplicateExtentsEx::SOURCE_ATOMIC)
        );
        let mut out = Vec::new();
        ex.write(&mut out);
        assert_eq!(out, long);
    }

    #[test]
    fn ranges_that_cannot_be_are_refused() {
        let range = |file_offset, length| Range { file_offset, length }.checked();
        assert_eq!(range(1, 2), Ok((1, 2)));
        assert_eq!(range(0, i64::MAX), Ok((0, i64::MAX as u64)));
        for (offset, length) in [(-1, 1), (1, -1), (1, i64::MAX), (i64::MIN, i64::MIN)] {
            assert_eq!(range(offset, length), Err(BadBuffer::Value));
        }
        let zero = |file_offset, beyond_final_zero| ZeroData { file_offset, beyond_final_zero }.checked();
        assert_eq!(zero(10, 30), Ok((10, 20)));
        assert_eq!(zero(10, 9), Err(BadBuffer::Value));
        assert_eq!(zero(-1, 9), Err(BadBuffer::Value));
        assert_eq!(zero(i64::MIN, i64::MAX), Err(BadBuffer::Value));
    }

    #[test]
    fn sparse_without_a_body_means_yes() {
        assert!(parse_set_sparse(&[]) && parse_set_sparse(&[1]) && parse_set_sparse(&[0xFF]));
        assert!(!parse_set_sparse(&[0]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = DuplicateExtentsEx::parse(&data).map(|x| x.extents.checked());
            let _ = Range::parse(&data).map(|x| x.checked());
            let _ = ZeroData::parse(&data).map(|x| x.checked());
            let _ = QueryRegions::parse(&data).map(|x| x.checked());
        }
    }
}
