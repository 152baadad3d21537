//! QUERY_INFO: returns metadata of a file or its volume, a descriptor or quotas (MS-SMB2 3.3.5.20).
//!
//! [`handle`] checks the request and the size of the response. [`mod@file`] has the table of information
//! classes, with [`names`] and [`extended`] for those of variable size. [`volume`], [`security`] and
//! [`pipe`] have the other kinds.

use std::sync::Arc;

use share::Share;
use smb_wire::NtStatus;
use smb_wire::query_info::{InfoType, Request as QueryRequest};

use super::with_output;
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::info::FileMetadata;
use crate::state::{OnDisk, Open};

mod extended;
mod file;
mod names;
mod pipe;
mod security;
pub(crate) mod volume;

/// Answers a QUERY_INFO.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let parsed = QueryRequest::parse(request.message)?;
    let named = connection.open(request, parsed.file_id)?;
    // MS-SMB2 3.3.5.20
    negotiated.check_size(request, parsed.output_buffer_length as usize, parsed.payload_len())?;
    with_output(request.body, |body| {
        let Some(OnDisk { engine, file, open, .. }) = named.on_disk() else {
            return pipe::answer(&parsed, body);
        };
        let query = Query { engine, file, open, parsed: &parsed, negotiated };
        match parsed.info_type {
            InfoType::File => file::answer(&query, body),
            InfoType::Filesystem => volume::answer(&query, body),
            InfoType::Security => security::answer(&query, body),
            // MS-SMB2 3.3.5.20.4: no volume reports quotas by SID.
            InfoType::Quota => Err(Stop::Fail(NtStatus::NOT_SUPPORTED)),
            InfoType::Unknown(_) => Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
        }
    })
}

/// One query about a file of a share, or about its volume.
struct Query<'a> {
    engine: &'a Arc<Share>,
    file: &'a Arc<share::Open>,
    open: &'a Open,
    parsed: &'a QueryRequest<'a>,
    negotiated: &'a Negotiated,
}

impl Query<'_> {
    /// The most bytes of the response.
    fn limit(&self) -> usize {
        self.parsed.output_buffer_length as usize
    }

    /// The metadata of the file.
    fn shown(&self) -> Result<FileMetadata, Stop> {
        Ok(FileMetadata::of_open(&self.engine.info(self.file)?, self.file))
    }

    /// Writes a structure of fixed size from the metadata.
    fn tell(&self, out: &mut Vec<u8>, write: impl FnOnce(&FileMetadata, &mut Vec<u8>)) -> Handled {
        let shown = self.shown()?;
        fixed(out, |out| write(&shown, out))
    }
}

/// Writes a structure of fixed size, which is never cut.
fn fixed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Handled {
    write(out);
    Ok(NtStatus::SUCCESS)
}

/// The status for a response of variable size that may have been cut.
// MS-SMB2 3.3.5.20.1
fn whole_or_cut(cut: Result<bool, smb_wire::fscc::Full>) -> Handled {
    match cut {
        Ok(false) => Ok(NtStatus::SUCCESS),
        Ok(true) => Ok(NtStatus::BUFFER_OVERFLOW),
        Err(smb_wire::fscc::Full) => Err(Stop::Fail(NtStatus::INFO_LENGTH_MISMATCH)),
    }
}
