//! Holes, ranges and compression (MS-FSCC 2.3).

use smb_wire::NtStatus;
use smb_wire::fscc::fsctl::{
    Compression, FileRegion, GetIntegrity, QueryRegions, Range, Trim, ZeroData, parse_set_sparse,
    write_ranges, write_regions,
};
use volume::security::Rights;

use super::Context;
use crate::exchange::{Handled, Request, Stop};

/// The most ranges in one response.
const MAX_RANGES: usize = 4096;

fn invalid<E>(_: E) -> Stop {
    Stop::Fail(NtStatus::INVALID_PARAMETER)
}

/// Refuses a directory. It has no data, for any range and any user.
// MS-FSA 2.1.5.10.22
// MS-FSA 2.1.5.10.38
// MS-FSA 2.1.5.10.39
fn require_stream(cx: &Context<'_>) -> Result<(), Stop> {
    Stop::when(cx.disk.file.is_directory(), NtStatus::INVALID_PARAMETER)
}

/// FSCTL_SET_SPARSE (MS-FSCC 2.3.83).
pub(super) fn set_sparse(cx: &Context<'_>) -> Handled {
    let (engine, open) = cx.file();
    require_stream(cx)?;
    cx.require(Rights::WRITE_DATA | Rights::WRITE_ATTRIBUTES | Rights::APPEND_DATA)?;
    engine.set_sparse(open, parse_set_sparse(cx.input))?;
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_SET_ZERO_DATA (MS-FSCC 2.3.85).
pub(super) fn set_zero(cx: &Context<'_>, request: &mut Request<'_>) -> Handled {
    let parsed = ZeroData::parse(cx.input).map_err(invalid)?;
    let (start, len) = parsed.checked().map_err(invalid)?;
    require_stream(cx)?;
    cx.require(Rights::WRITE_DATA)?;
    if len > 0 {
        let (engine, open) = cx.file();
        cx.call(request, |caller| engine.zero(caller, open, cx.disk.open.lock_owner(), start..start + len))?;
    }
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_QUERY_ALLOCATED_RANGES (MS-FSCC 2.3.51).
pub(super) fn allocated_ranges(cx: &Context<'_>, output: &mut Vec<u8>) -> Handled {
    let parsed = Range::parse(cx.input).map_err(invalid)?;
    let (start, len) = parsed.checked().map_err(invalid)?;
    require_stream(cx)?;
    cx.require(Rights::READ_DATA)?;
    if len == 0 {
        return Ok(NtStatus::SUCCESS);
    }
    let (engine, open) = cx.file();
    let most = (cx.limit / Range::SIZE + 1).min(MAX_RANGES);
    let (ranges, more) = engine.allocated_ranges(open, start..start + len, most)?;
    let wire = ranges
        .iter()
        .map(|range| Range { file_offset: range.start as i64, length: (range.end - range.start) as i64 });
    let is_whole = write_ranges(wire, cx.limit, output).map_err(|_| NtStatus::BUFFER_TOO_SMALL)?;
    Ok(if is_whole && !more { NtStatus::SUCCESS } else { NtStatus::BUFFER_OVERFLOW })
}

/// FSCTL_QUERY_FILE_REGIONS (MS-FSCC 2.3.55): the whole file is valid data.
pub(super) fn regions(cx: &Context<'_>, output: &mut Vec<u8>) -> Handled {
    let (engine, open) = cx.file();
    require_stream(cx)?;
    let size = engine.info(open)?.size;
    let (start, len) = match cx.input.is_empty() {
        true => (0, size),
        false => QueryRegions::parse(cx.input).map_err(invalid)?.checked().map_err(invalid)?,
    };
    let end = start.saturating_add(len).min(size);
    let usage = QueryRegions::VALID_CACHED_DATA;
    let region = FileRegion {
        file_offset: start as i64,
        length: end.saturating_sub(start) as i64,
        desired_usage: usage,
    };
    let regions: &[FileRegion] = if end > start { &[region] } else { &[] };
    let written = write_regions(regions, cx.limit, output);
    let is_whole = written.map_err(|_| NtStatus::BUFFER_TOO_SMALL)?;
    Ok(if is_whole { NtStatus::SUCCESS } else { NtStatus::BUFFER_OVERFLOW })
}

/// FSCTL_FILE_LEVEL_TRIM (MS-FSCC 2.3.13): frees the storage of data that is not needed any more.
pub(super) fn trim(cx: &Context<'_>, request: &mut Request<'_>, output: &mut Vec<u8>) -> Handled {
    let parsed = Trim::parse(cx.input).map_err(invalid)?;
    require_stream(cx)?;
    cx.require(Rights::WRITE_DATA)?;
    // MS-FSA 2.1.5.10.6: an empty buffer is not too small.
    Stop::when(parsed.key != 0 || (1..4).contains(&cx.limit), NtStatus::INVALID_PARAMETER)?;
    let (engine, open) = cx.file();
    let size = engine.info(open)?.size;
    let mut done = 0u32;
    for range in parsed.ranges() {
        let end = range.offset.saturating_add(range.length).min(size);
        if end > range.offset {
            cx.call(request, |caller| {
                engine.zero(caller, open, cx.disk.open.lock_owner(), range.offset..end)
            })?;
        }
        done += 1;
    }
    // MS-FSCC 2.3.14: the number of processed ranges.
    if cx.limit >= 4 {
        output.extend_from_slice(&done.to_le_bytes());
    }
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_GET_COMPRESSION (MS-FSCC 2.3.17): no file is compressed.
pub(super) fn get_compression(cx: &Context<'_>, output: &mut Vec<u8>) -> Handled {
    cx.has_room(2)?;
    Compression { compression_state: Compression::NONE }.write(output);
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_GET_INTEGRITY_INFORMATION (MS-FSCC 2.3.20): there are no checksums, so none are enforced.
pub(super) fn get_integrity(cx: &Context<'_>, output: &mut Vec<u8>) -> Handled {
    let (engine, _) = cx.file();
    let cluster_size_in_bytes = engine.volume().space().map_err(share::Refusal::from)?.block;
    GetIntegrity { cluster_size_in_bytes, ..GetIntegrity::default() }.write(output);
    cx.has_room(output.len())?;
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_SET_COMPRESSION (MS-FSCC 2.3.67): only the current state can be set.
pub(super) fn set_compression(cx: &Context<'_>) -> Handled {
    let parsed = Compression::parse(cx.input).map_err(invalid)?;
    cx.require(Rights::WRITE_DATA)?;
    match parsed.compression_state {
        Compression::NONE => Ok(NtStatus::SUCCESS),
        Compression::DEFAULT | Compression::LZNT1 => Err(Stop::Fail(NtStatus::NOT_SUPPORTED)),
        _ => Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
    }
}
