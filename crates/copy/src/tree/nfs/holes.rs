//! Holes of files of an export that are read. All is data if the server does not tell (RFC 7862 15.11 is
//! optional, and new in 4.2).

use client::nfs::{ExportFile, SEEKS};

use crate::error::{Fault, FileResult};
use crate::tree::holes::Holes;

/// The first byte at or after `offset` that may not be in a hole. The query covers the following pieces too,
/// in the same round trip.
pub(in crate::tree) async fn data_from(
    file: &ExportFile,
    holes: &Holes,
    offset: u64,
    piece: u64,
) -> FileResult<u64> {
    if let Some(data) = holes.data_from(offset) {
        return Ok(data);
    }
    let offsets: Vec<u64> = (0..SEEKS as u64).map(|number| offset.saturating_add(number * piece)).collect();
    let found = match file.data_from(&offsets).await.map_err(Fault::from) {
        Err(fault) if fault.is_unsupported() => {
            holes.learn(offset..u64::MAX, Vec::new());
            return Ok(offset);
        }
        other => other?,
    };
    // Data that begins within a piece is of no use to a reader of whole pieces.
    let data = found.iter().map(|data| data.unwrap_or(u64::MAX));
    let ranges: Vec<_> = offsets.iter().zip(data).map(|(from, data)| *from..data).collect();
    let known = ranges.iter().map(|hole| hole.end).max().unwrap_or(offset);
    let known = known.max(offset.saturating_add(found.len() as u64 * piece));
    holes.learn(offset..known, ranges);
    Ok(holes.data_from(offset).unwrap_or(offset))
}
