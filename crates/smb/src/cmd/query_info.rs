//! QUERY_INFO: what a client wants to know of a file, its volume, its descriptor or quotas (MS-SMB2
//! 3.3.5.20).
//!
//! [`handle`] checks the request and measures the answer. [`file`] has the table of information classes,
//! with [`names`] and [`extended`] for those of variable size; [`volume`], [`security`] and [`pipe`] answer
//! the other kinds of questions.

use std::sync::Arc;

use share::Share;
use smb_wire::query_info::{InfoType, Request as Asked};
use smb_wire::{NtStatus, output};

use crate::connection::{Connection, Negotiated};
use crate::dispatch::{Request, check_charge};
use crate::exchange::outcome::{Handled, Stop};
use crate::info::Shown;
use crate::open::{OnDisk, Open};

mod extended;
mod file;
mod names;
mod pipe;
mod security;
pub(crate) mod volume;

/// Answers a QUERY_INFO.
pub(crate) fn handle(
    connection: &mut Connection,
    settled: &Negotiated,
    request: &mut Request<'_>,
    body: &mut Vec<u8>,
) -> Handled {
    let asked = Asked::parse(request.message)?;
    let open = connection.open(request, asked.file_id)?;
    // MS-SMB2 3.3.5.20
    if asked.output_buffer_length > settled.max_io {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    check_charge(settled, request, asked.payload_len())?;
    let at = body.len();
    body.resize(at + output::RESPONSE_FIXED, 0);
    let status = match open.on_disk() {
        Some(OnDisk { open, engine, file, .. }) => {
            let query = Query { engine, file, open, asked: &asked, settled };
            match asked.info_type {
                InfoType::File => file::answer(&query, body),
                InfoType::Filesystem => volume::answer(&query, body),
                InfoType::Security => security::answer(&query, body),
                // MS-SMB2 3.3.5.20.4: no volume tells quotas by SID.
                InfoType::Quota => Err(Stop::Fail(NtStatus::NOT_SUPPORTED)),
                InfoType::Unknown(_) => Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
            }
        }
        None => pipe::answer(&asked, body),
    }?;
    let length = (body.len() - at - output::RESPONSE_FIXED) as u32;
    if let Some(fixed) = body[at..].first_chunk_mut() {
        output::Response::write_fixed(fixed, length);
    }
    Ok(status)
}

/// One question about a file of a share, or about its volume.
struct Query<'a> {
    engine: &'a Arc<Share>,
    file: &'a Arc<share::Open>,
    open: &'a Open,
    asked: &'a Asked<'a>,
    settled: &'a Negotiated,
}

impl Query<'_> {
    /// Bytes that the answer may take.
    fn limit(&self) -> usize {
        self.asked.output_buffer_length as usize
    }

    /// What the engine knows of the file.
    fn shown(&self) -> Result<Shown, Stop> {
        Ok(Shown::of_open(&self.engine.info(self.file)?, self.file))
    }
}

/// Writes a structure of fixed size, which is always whole.
fn fixed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Handled {
    write(out);
    Ok(NtStatus::SUCCESS)
}

/// The status for an answer of variable size, of which a part may have been left out.
// MS-SMB2 3.3.5.20.1
fn whole_or_cut(cut: Result<bool, smb_wire::fscc::Full>) -> Handled {
    match cut {
        Ok(false) => Ok(NtStatus::SUCCESS),
        Ok(true) => Ok(NtStatus::BUFFER_OVERFLOW),
        Err(smb_wire::fscc::Full) => Err(Stop::Fail(NtStatus::INFO_LENGTH_MISMATCH)),
    }
}
