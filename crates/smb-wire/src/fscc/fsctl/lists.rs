//! Control codes with lists in their buffers: trimmed ranges, allocated ranges, regions.

use super::Range;
use crate::fscc::layout::layout;
use crate::fscc::{BadBuffer, Full};
use wire::{Cursor, Writer};

layout! {
    /// MS-FSCC 2.3.13.1 FILE_LEVEL_TRIM_RANGE
    pub struct TrimRange {
        /// The offset of the range.
        offset: u64,
        /// The length of the range.
        length: u64,
    }

    /// MS-FSCC 2.3.32.1 EXTENTS
    pub struct MappedExtent {
        /// The file's cluster after this extent.
        next_vcn: i64,
        /// The first cluster on the volume, or [`MappedExtent::NOWHERE`] for a hole.
        lcn: i64,
    }

    /// MS-FSCC 2.3.56.1 FILE_REGION_INFO
    pub struct FileRegion {
        /// The offset of the region.
        file_offset: i64,
        /// The length of the region.
        length: i64,
        /// The usage of the region, or 0 for none of the requested ones.
        desired_usage: u32,
        _: 4,
    }
}

/// MS-FSCC 2.3.13 FILE_LEVEL_TRIM: ranges with data that is not needed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trim<'a> {
    /// Identifies a user of byte-range locks on a thread. It is 0 over the network.
    pub key: u32,
    ranges: &'a [u8],
}

impl<'a> Trim<'a> {
    /// Reads the buffer.
    ///
    /// # Errors
    /// [`BadBuffer::Length`] if it ends before its last range, [`BadBuffer::Value`] if it has no range (both
    /// STATUS_INVALID_PARAMETER).
    pub fn parse(data: &'a [u8]) -> Result<Self, BadBuffer> {
        let mut c = Cursor::new(data);
        let key = c.u32_le()?;
        let count = c.u32_le()? as usize;
        if count == 0 {
            return Err(BadBuffer::Value);
        }
        let ranges = c.bytes(count.checked_mul(TrimRange::SIZE).ok_or(BadBuffer::Length)?)?;
        Ok(Trim { key, ranges })
    }

    /// The ranges in order.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = TrimRange> + use<'a> {
        self.ranges.chunks_exact(TrimRange::SIZE).map(|range| {
            let (offset, length) = range.split_at(8);
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            TrimRange { offset: number(offset), length: number(length) }
        })
    }
}

impl MappedExtent {
    /// The cluster of a hole.
    pub const NOWHERE: i64 = -1;
}

/// Bytes of the reply to GET_RETRIEVAL_POINTERS before its extents.
const POINTERS_FIXED: usize = 16;

/// The most extents in a reply to GET_RETRIEVAL_POINTERS of at most `limit` bytes.
///
/// # Errors
/// [`Full`] if there is no space for one (STATUS_BUFFER_TOO_SMALL).
pub fn room_for_pointers(limit: usize) -> Result<usize, Full> {
    match limit.saturating_sub(POINTERS_FIXED) / MappedExtent::SIZE {
        0 => Err(Full),
        room => Ok(room),
    }
}

/// MS-FSCC 2.3.32: appends the reply to GET_RETRIEVAL_POINTERS. It starts at cluster `starting_vcn` of the
/// file.
pub fn write_pointers(starting_vcn: i64, extents: &[MappedExtent], out: &mut Vec<u8>) {
    let mut w = Writer::new(out);
    w.u32_le(extents.len() as u32);
    w.u32_le(0);
    w.i64_le(starting_vcn);
    extents.iter().for_each(|extent| extent.write(out));
}

/// Appends the buffer of FILE_LEVEL_TRIM, for a client.
pub fn write_trim(key: u32, ranges: &[TrimRange], out: &mut Vec<u8>) {
    let mut w = Writer::new(out);
    w.u32_le(key);
    w.u32_le(ranges.len() as u32);
    ranges.iter().for_each(|range| range.write(out));
}

/// MS-FSCC 2.3.52: appends the reply to QUERY_ALLOCATED_RANGES with as many ranges as fit in `limit` bytes.
/// Returns whether all fit (else STATUS_BUFFER_OVERFLOW).
///
/// # Errors
/// [`Full`] if there are ranges and the first one does not fit (STATUS_BUFFER_TOO_SMALL).
pub fn write_ranges(
    ranges: impl IntoIterator<Item = Range>,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<bool, Full> {
    let mut left = limit / Range::SIZE;
    let is_small = left == 0;
    for range in ranges {
        if left == 0 {
            return if is_small { Err(Full) } else { Ok(false) };
        }
        range.write(out);
        left -= 1;
    }
    Ok(true)
}

/// Reads the reply to QUERY_ALLOCATED_RANGES, for a client. Bytes after the last complete range are ignored.
pub fn read_ranges(data: &[u8]) -> impl Iterator<Item = Range> {
    data.chunks_exact(Range::SIZE).filter_map(|range| Range::parse(range).ok())
}

/// MS-FSCC 2.3.56: appends the reply to QUERY_FILE_REGIONS with as many regions as fit in `limit` bytes.
/// Returns whether all fit (else STATUS_BUFFER_OVERFLOW).
///
/// # Errors
/// [`Full`] if the head or the first region does not fit (STATUS_BUFFER_TOO_SMALL).
pub fn write_regions(regions: &[FileRegion], limit: usize, out: &mut Vec<u8>) -> Result<bool, Full> {
    let fit = limit.checked_sub(16).ok_or(Full)? / FileRegion::SIZE;
    if fit == 0 && !regions.is_empty() {
        return Err(Full);
    }
    let told = &regions[..fit.min(regions.len())];
    let mut w = Writer::new(out);
    w.u32_le(0);
    w.u32_le(regions.len() as u32);
    w.u32_le(told.len() as u32);
    w.u32_le(0);
    told.iter().for_each(|region| region.write(out));
    Ok(told.len() == regions.len())
}

/// Reads the regions in the reply to QUERY_FILE_REGIONS, for a client.
///
/// # Errors
/// [`BadBuffer::Length`] if the data ends before its last region.
pub fn read_regions(data: &[u8]) -> Result<impl Iterator<Item = FileRegion>, BadBuffer> {
    let mut c = Cursor::new(data);
    c.skip(8)?;
    let count = c.u32_le()? as usize;
    c.skip(4)?;
    let regions = c.bytes(count.checked_mul(FileRegion::SIZE).ok_or(BadBuffer::Length)?)?;
    Ok(regions.chunks_exact(FileRegion::SIZE).filter_map(|region| FileRegion::parse(region).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::testing::hex;
    use proptest::prelude::*;

    #[test]
    fn a_trim_is_read_as_it_was_written() {
        let ranges =
            [TrimRange { offset: 0x1000, length: 0x2000 }, TrimRange { offset: u64::MAX, length: 1 }];
        let mut out = Vec::new();
        write_trim(7, &ranges, &mut out);
        assert_eq!(
            out,
            hex("07000000 02000000 0010000000000000 0020000000000000 ffffffffffffffff 0100000000000000")
        );
        let trim = Trim::parse(&out).unwrap();
        assert_eq!((trim.key, trim.ranges().collect::<Vec<_>>()), (7, ranges.to_vec()));
        assert_eq!(Trim::parse(&out[..39]), Err(BadBuffer::Length));
        assert_eq!(Trim::parse(&[0; 8]), Err(BadBuffer::Value));
        assert_eq!(Trim::parse(&[0xFF; 40]), Err(BadBuffer::Length));
    }

    #[test]
    fn ranges_stop_at_the_limit() {
        let range = Range { file_offset: 1, length: 2 };
        let mut out = Vec::new();
        assert_eq!(write_ranges([range; 3], 47, &mut out), Ok(false));
        assert_eq!(read_ranges(&out).collect::<Vec<_>>(), [range; 2]);
        assert_eq!(write_ranges([range; 3], 48, &mut out), Ok(true));
        assert_eq!(write_ranges([range], 15, &mut out), Err(Full));
        assert_eq!(write_ranges([], 0, &mut out), Ok(true));
    }

    #[test]
    fn regions_tell_how_many_there_are() {
        let region = FileRegion { file_offset: 0, length: 4096, desired_usage: 1 };
        let mut out = Vec::new();
        assert_eq!(write_regions(&[region; 3], 64, &mut out), Ok(false));
        assert_eq!(out[..16], hex("00000000 03000000 02000000 00000000"));
        assert_eq!(read_regions(&out).unwrap().collect::<Vec<_>>(), [region; 2]);
        assert_eq!(write_regions(&[region], 39, &mut out), Err(Full));
        assert_eq!(write_regions(&[], 16, &mut Vec::new()), Ok(true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(trim) = Trim::parse(&data) {
                prop_assert!(trim.ranges().count() * TrimRange::SIZE <= data.len());
            }
            if let Ok(regions) = read_regions(&data) {
                prop_assert!(regions.count() * FileRegion::SIZE <= data.len());
            }
        }
    }
}
