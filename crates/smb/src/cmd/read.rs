//! READ (MS-SMB2 3.3.5.12).
//!
//! Data in memory goes from the page cache into the reply frame on this thread. Other data is read on the
//! blocking pool. A large read of data in memory, without a signature or seal, need not be copied: its reply
//! ends with a piece of the file.

use share::limits::{Charge, MeteredWork as Paced};
use share::{LockOwner, Share};
use smb_wire::{NtStatus, read};
use volume::Patience;
use wire::transfer::UNCOPIED;
use wire::{FileRange, Transfer};

use super::pipe;
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, PoolWork, Request, Stop};
use crate::state::open::pending::ReadInProgress;
use crate::state::{Completion, Object};

/// The parameters of one READ.
#[derive(Clone, Copy)]
struct ReadParameters {
    offset: u64,
    length: usize,
    minimum: usize,
    /// Bytes between the fields of the response and the data.
    padding: u8,
}

/// Answers a READ.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let parsed = read::Request::parse(request.message)?;
    let open = connection.open(request, parsed.file_id)?;
    // MS-SMB2 3.3.5.12
    Stop::when(parsed.channel != read::Channel::None, NtStatus::INVALID_PARAMETER)?;
    negotiated.check_size(request, parsed.length as usize, parsed.payload_len())?;
    let parameters = ReadParameters {
        offset: parsed.offset,
        length: parsed.length as usize,
        minimum: parsed.minimum_count as usize,
        padding: connection.controls.read_padding,
    };
    match open.object() {
        // MS-FSA 2.1.5.3
        Some(Object::File { open: file, .. }) if file.is_directory() => {
            Err(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST))
        }
        Some(Object::File { engine, open: file }) => {
            let end_at = parameters.offset.checked_add(parameters.length as u64);
            Stop::when(end_at.is_none_or(|end| end > i64::MAX as u64), NtStatus::INVALID_PARAMETER)?;
            let paced = Paced::Read { file: file.file_number(), len: parameters.length as u64 };
            let charge = connection
                .pace(request, engine, paced)
                .inspect_err(|_| request.keeps = Some(open.continue_read()))?;
            let transfer = request.bare.then_some(&connection.handle.transfer);
            let body = &mut *request.body;
            if let Some(range) = read_uncopied(engine, file, open.lock_owner(), parameters, transfer)? {
                open.per_request.position_mode.set_position(parameters.offset + range.len as u64);
                let at = begin(body, parameters);
                let completion = end(body, at, range.len, parameters, charge).map_err(Stop::Fail);
                request.attached = Some(range);
                return completion;
            }
            let at = begin(body, parameters);
            match engine.read(
                file,
                open.lock_owner().into(),
                parameters.offset,
                parameters.length,
                body,
                Patience::Cached,
            ) {
                Ok(count) => {
                    open.per_request.position_mode.set_position(parameters.offset + count as u64);
                    end(body, at, count, parameters, charge).map_err(Stop::Fail)
                }
                Err(share::Refusal::WouldBlock) => {
                    body.truncate(at);
                    Err(Stop::work(read_on_pool(open.continue_read(), parameters, charge)))
                }
                Err(refusal) => Err(refusal.into()),
            }
        }
        Some(Object::Pipe(_)) => pipe::read(&mut *pipe::held(&open)?, parameters.length, request.body),
        None => Err(Stop::Fail(NtStatus::FILE_CLOSED)),
    }
}

/// Returns the data as a piece of the file, if that is possible and saves work. `transfer` is set if the
/// response may end with one. The transport sends the bytes that the file has then, so no signature may
/// cover them.
fn read_uncopied(
    engine: &Share,
    file: &share::Open,
    owner: LockOwner,
    parameters: ReadParameters,
    transfer: Option<&Transfer>,
) -> Result<Option<FileRange>, Stop> {
    let Some(transfer) = transfer.filter(|_| parameters.length >= UNCOPIED) else { return Ok(None) };
    let range = engine.read_range(file, owner.into(), parameters.offset, parameters.length, transfer)?;
    Ok(range.filter(|range| range.len >= UNCOPIED.max(parameters.minimum)))
}

/// Makes space for the fields before the data.
fn begin(body: &mut Vec<u8>, parameters: ReadParameters) -> usize {
    let at = body.len();
    body.resize(at + read::RESPONSE_FIXED + usize::from(parameters.padding), 0);
    at
}

/// Fills in the fields before the data, which is in the body or follows it. Data that is not sent is not
/// charged.
fn end(body: &mut [u8], at: usize, count: usize, parameters: ReadParameters, charge: Charge) -> Completion {
    // MS-SMB2 3.3.5.12
    if (count == 0 && parameters.length > 0) || count < parameters.minimum {
        return Err(NtStatus::END_OF_FILE);
    }
    if let Some(fixed) = body[at..].first_chunk_mut() {
        read::Response::write_fixed_padded(fixed, count as u32, parameters.padding);
    }
    charge.used(count);
    Ok(NtStatus::SUCCESS)
}

fn read_on_pool(open: ReadInProgress, parameters: ReadParameters, charge: Charge) -> PoolWork {
    Box::new(move |body| {
        let (engine, file) = open.file().ok_or(NtStatus::FILE_CLOSED)?;
        let at = begin(body, parameters);
        let (reader, ReadParameters { offset, length, .. }) = (open.lock_owner().into(), parameters);
        let read = engine.read(file, reader, offset, length, body, Patience::Block);
        end(body, at, read.map_err(|refusal| crate::status::of(&refusal))?, parameters, charge)
    })
}
