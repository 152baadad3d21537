//! FileFullEaInformation: extended attributes, either all, some, or from an index on (MS-SMB2 3.3.5.20.1).

use smb_wire::NtStatus;
use smb_wire::fscc::ea::{self, FullEa};
use smb_wire::query_info::QueryInfoFlags;

use super::Query;
use crate::exchange::{Handled, Stop};
use crate::info::ea_status;

/// Writes the requested attributes.
pub(super) fn write(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let all = query.engine.extended(query.file)?;
    let flags = query.parsed.flags;
    if !query.parsed.input_buffer.is_empty() {
        return by_name(query, &all, out);
    }
    let kept = &query.open.per_request.position_mode;
    let from = if flags.contains(QueryInfoFlags::INDEX_SPECIFIED) {
        // The index counts from 1.
        let index = query.parsed.additional_information as usize;
        index.checked_sub(1).filter(|at| *at < all.len()).ok_or(NtStatus::NONEXISTENT_EA_ENTRY)?
    } else if flags.contains(QueryInfoFlags::RESTART_SCAN) {
        0
    } else {
        kept.next_extended()
    };
    let left = all.get(from..).unwrap_or_default();
    if left.is_empty() {
        // MS-FSA 2.1.5.12.12
        let status = if all.is_empty() { NtStatus::NO_EAS_ON_FILE } else { NtStatus::NO_MORE_ENTRIES };
        return Err(Stop::Fail(status));
    }
    let wanted = if flags.contains(QueryInfoFlags::RETURN_SINGLE_ENTRY) { &left[..1] } else { left };
    let start = out.len();
    let is_whole = put(wanted.iter().map(as_entry), query, out)?;
    if !flags.contains(QueryInfoFlags::INDEX_SPECIFIED) {
        kept.set_next_extended(from + ea::read_list(&out[start..]).count());
    }
    Ok(if is_whole { NtStatus::SUCCESS } else { NtStatus::BUFFER_OVERFLOW })
}

/// Writes the attributes from a list of names. A missing one has an empty value, as in NTFS.
fn by_name(query: &Query<'_>, all: &[(Vec<u8>, Vec<u8>)], out: &mut Vec<u8>) -> Handled {
    let names: Vec<&[u8]> = ea::read_names(query.parsed.input_buffer)
        .collect::<Result<_, _>>()
        .map_err(|bad| Stop::Fail(ea_status(bad)))?;
    let single = query.parsed.flags.contains(QueryInfoFlags::RETURN_SINGLE_ENTRY);
    let count = if single { names.len().min(1) } else { names.len() };
    let found = names[..count].iter().map(|name| {
        let known = all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map_or(FullEa { flags: 0, name, value: &[] }, as_entry)
    });
    let is_whole = put(found, query, out)?;
    Ok(if is_whole { NtStatus::SUCCESS } else { NtStatus::BUFFER_OVERFLOW })
}

fn as_entry((name, value): &(Vec<u8>, Vec<u8>)) -> FullEa<'_> {
    FullEa { flags: 0, name, value }
}

fn put<'a>(
    list: impl Iterator<Item = FullEa<'a>>,
    query: &Query<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, Stop> {
    // MS-FSA 2.1.5.12.12
    ea::write_list(list, query.limit(), out).map_err(|_| Stop::Fail(NtStatus::BUFFER_TOO_SMALL))
}
