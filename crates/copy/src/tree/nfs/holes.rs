//! Holes of files of an export that are read. Where the server does not tell (RFC 7862 15.11 is optional, and new in 4.2),
//! all is data.

use client::nfs::SEEKS;

use super::File;
use crate::error::{Done, Fault};

impl File {
    /// The first byte at or behind `offset` that may not be in a hole. That is asked for the pieces behind it too, in the
    /// same round trip.
    pub(in crate::tree) async fn data_from(&self, offset: u64, piece: u64) -> Done<u64> {
        if let Some(data) = self.holes.data_from(offset) {
            return Ok(data);
        }
        let offsets: Vec<u64> =
            (0..SEEKS as u64).map(|number| offset.saturating_add(number * piece)).collect();
        let found = match self.file.data_from(&offsets).await.map_err(Fault::from) {
            Err(fault) if fault.is_unsupported() => {
                self.holes.learn(offset..u64::MAX, Vec::new());
                return Ok(offset);
            }
            other => other?,
        };
        // What lies within a piece behind its beginning is of no use to who asks piece by piece.
        let data = found.iter().map(|data| data.unwrap_or(u64::MAX));
        let holes: Vec<_> = offsets.iter().zip(data).map(|(from, data)| *from..data).collect();
        let known = holes.iter().map(|hole| hole.end).max().unwrap_or(offset);
        let known = known.max(offset.saturating_add(found.len() as u64 * piece));
        self.holes.learn(offset..known, holes);
        Ok(self.holes.data_from(offset).unwrap_or(offset))
    }
}
