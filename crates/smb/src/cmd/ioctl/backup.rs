//! What programs that save, search or measure a whole volume ask of NTFS, as far as the host has it (MS-FSCC 2.3.22, 2.3.62).

use smb_wire::NtStatus;
use smb_wire::fscc::fsctl::{NtfsVolume, UsnRange, UsnRecord};
use smb_wire::fscc::{FileTime, names};

use super::{Answered, Context};
use crate::cmd::query_info::volume::Units;
use crate::info::Shown;
use crate::info::names::syntax;
use crate::suspend::Stop;

/// FSCTL_READ_FILE_USN_DATA (MS-FSCC 2.3.61): the file's number, its directory's and its name. There is no journal, so nothing
/// is said of its last record.
// MS-FSA 2.1.5.10.27
pub(super) fn file_usn_data(cx: &Context<'_>, output: &mut Vec<u8>) -> Answered {
    let asked = UsnRange::parse(cx.input).map_err(|_| Stop::Fail(NtStatus::INVALID_PARAMETER))?;
    let (engine, open) = cx.file()?;
    let info = engine.info(open)?;
    let parent = engine.parent_info(open)?;
    let mut name = Vec::new();
    if let Some(own) = open.name() {
        names::to_wire(own.as_bytes(), syntax(open), &mut name);
    }
    let record = UsnRecord {
        file_reference_number: info.id.inode.into(),
        parent_file_reference_number: parent.id.inode.into(),
        usn: 0,
        time_stamp: FileTime(0),
        reason: 0,
        source_info: 0,
        security_id: 0,
        file_attributes: Shown::of_open(&info, open).attributes(),
        file_name: &name,
    };
    let written = record.write(asked.version(), cx.limit, output);
    written.map_err(|_| Stop::Fail(NtStatus::BUFFER_TOO_SMALL))?;
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_GET_NTFS_VOLUME_DATA (MS-FSCC 2.3.21): the room of the file system. A host has no table of files that clients could
/// read, so its size is zero; a cluster stands for what is kept of one file, since programs divide by that.
// MS-FSA 2.1.5.10.11
pub(super) fn ntfs_volume_data(cx: &Context<'_>, output: &mut Vec<u8>) -> Answered {
    cx.fits(NtfsVolume::SIZE)?;
    let (engine, _) = cx.file()?;
    let units = Units::count(engine.space()?);
    let cluster = units.per_unit * units.sector;
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    NtfsVolume {
        volume_serial_number: engine.volume().facts().serial,
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
