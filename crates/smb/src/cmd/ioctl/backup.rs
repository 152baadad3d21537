//! NTFS control codes of programs that back up, search or measure a whole volume, as far as the host has the
//! data (MS-FSCC 2.3.22, 2.3.62).

use share::{Info, Refusal};
use smb_wire::NtStatus;
use smb_wire::fscc::fsctl::{
    MappedExtent, NtfsVolume, UsnRange, UsnRecord, room_for_pointers, write_pointers,
};
use smb_wire::fscc::{FileTime, names};
use volume::Extent;

use super::Context;
use crate::cmd::query_info::volume::Units;
use crate::exchange::{Handled, Stop};
use crate::info::FileMetadata;
use crate::info::names::syntax;

/// FSCTL_READ_FILE_USN_DATA (MS-FSCC 2.3.61): the numbers of the file and its directory, and its name. There
/// is no journal, so the fields of its last record are zero.
// MS-FSA 2.1.5.10.27
pub(super) fn file_usn_data(cx: &Context<'_>, output: &mut Vec<u8>) -> Handled {
    let parsed = UsnRange::parse(cx.input).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let (engine, open) = cx.file();
    let info = engine.info(open)?;
    let parent = engine.parent_info(open)?;
    let mut name = Vec::new();
    if let Some(own) = open.name() {
        names::to_wire(own.as_bytes(), syntax(open), &mut name);
    }
    // Version 2 has space for half of an id.
    let id = |info: &Info| if parsed.version() < 3 { info.number().into() } else { info.wide_number() };
    let record = UsnRecord {
        file_reference_number: id(&info),
        parent_file_reference_number: id(&parent),
        usn: 0,
        time_stamp: FileTime(0),
        reason: 0,
        source_info: 0,
        security_id: 0,
        file_attributes: FileMetadata::of_open(&info, open).attributes(),
        file_name: &name,
    };
    let written = record.write(parsed.version(), cx.limit, output);
    written.map_err(|_| NtStatus::BUFFER_TOO_SMALL)?;
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_GET_NTFS_VOLUME_DATA (MS-FSCC 2.3.21): the space of the file system. A host has no file table that
/// clients could read, so its size is zero. The size of a file's record is one cluster, since programs
/// divide by it.
// MS-FSA 2.1.5.10.11
pub(super) fn ntfs_volume_data(cx: &Context<'_>, output: &mut Vec<u8>) -> Handled {
    cx.fits(NtfsVolume::SIZE)?;
    let (engine, _) = cx.file();
    let units = Units::count(engine.space()?);
    let cluster = units.per_unit * units.sector;
    NtfsVolume {
        volume_serial_number: engine.volume().properties().serial,
        number_sectors: number(units.total.saturating_mul(units.per_unit.into())),
        total_clusters: number(units.total),
        free_clusters: number(units.free),
        bytes_per_sector: units.sector,
        bytes_per_cluster: cluster,
        bytes_per_file_record_segment: cluster,
        clusters_per_file_record_segment: 1,
        ..NtfsVolume::default()
    }
    .write(output);
    Ok(NtStatus::SUCCESS)
}

/// The most extents in one response.
const MAX_EXTENTS: usize = 4096;

/// FSCTL_GET_RETRIEVAL_POINTERS (MS-FSCC 2.3.31): the positions of a file's data in the host's storage. Data
/// that the host has not allocated yet has none.
// MS-FSA 2.1.5.10.15
pub(super) fn retrieval_pointers(cx: &Context<'_>, output: &mut Vec<u8>) -> Handled {
    let from = cx.input.first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
    let from = from.ok_or(NtStatus::INVALID_PARAMETER)?;
    let room = room_for_pointers(cx.limit).map_err(|_| NtStatus::BUFFER_TOO_SMALL)?;
    let from = u64::try_from(from).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let (engine, open) = cx.file();
    let units = Units::count(engine.space()?);
    let cluster = u64::from(units.per_unit * units.sector);
    let room = room.min(MAX_EXTENTS);
    let (extents, more) = match engine.extents(open, from.saturating_mul(cluster), room) {
        // The host does not support this control code.
        Err(Refusal::NotSupported) => return Err(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST)),
        found => found?,
    };
    let first = extents.first().ok_or(NtStatus::END_OF_FILE)?;
    let start = from.min(first.at / cluster);
    let mut pointers = mapped(&extents, start, cluster);
    let is_cut = more || pointers.len() > room;
    pointers.truncate(room);
    write_pointers(number(start), &pointers, output);
    Ok(if is_cut { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
}

/// The extents in clusters, with the holes between them.
fn mapped(extents: &[Extent], start: u64, cluster: u64) -> Vec<MappedExtent> {
    let (mut out, mut at) = (Vec::with_capacity(extents.len()), start);
    for extent in extents {
        let (begin, end) = (extent.at / cluster, extent.at.saturating_add(extent.len).div_ceil(cluster));
        if begin > at {
            out.push(MappedExtent { next_vcn: number(begin), lcn: MappedExtent::NOWHERE });
        }
        let physical = extent.physical.filter(|physical| physical.is_multiple_of(cluster));
        let lcn = physical.map_or(MappedExtent::NOWHERE, |physical| number(physical / cluster));
        out.push(MappedExtent { next_vcn: number(end), lcn });
        at = end;
    }
    out
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_in_clusters_with_the_holes_between_them() {
        let extent = |at, len, physical| Extent { at, len, physical };
        let runs = [
            extent(0, 8192, Some(40_960)),
            extent(8192, 4096, None),
            extent(20_480, 100, Some(4096)),
            extent(24_576, 4096, Some(100)),
        ];
        let told: Vec<(i64, i64)> = mapped(&runs, 0, 4096).iter().map(|it| (it.next_vcn, it.lcn)).collect();
        assert_eq!(told, [(2, 10), (3, -1), (5, -1), (6, 1), (7, -1)]);
        let told: Vec<(i64, i64)> =
            mapped(&runs[2..3], 4, 4096).iter().map(|it| (it.next_vcn, it.lcn)).collect();
        assert_eq!(told, [(5, -1), (6, 1)]);
    }
}
