//! READ (MS-SMB2 3.3.5.12).
//!
//! Data that is in memory goes from the page cache into the reply frame on this thread; what is not is
//! read on the blocking pool. Much of it that is in memory, and goes out as it is, need not be copied: then the
//! reply ends with a piece of the file.

use share::limits::{Charge, MeteredWork as Paced};
use share::{LockOwner, Share};
use smb_wire::{NtStatus, read};
use volume::Patience;
use wire::transfer::UNCOPIED;
use wire::{FileRange, Transfer};

use super::pipe;
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop, Work};
use crate::state::open::changing::Looking;
use crate::state::{Completion, Object};

/// One READ, taken apart.
#[derive(Clone, Copy)]
struct Wanted {
    offset: u64,
    length: usize,
    minimum: usize,
    /// Bytes between the fields of the answer and the data.
    padding: u8,
}

/// Answers a READ.
pub fn handle(connection: &mut Connection, settled: &Negotiated, request: &mut Request<'_>) -> Handled {
    let asked = read::Request::parse(request.message)?;
    let open = connection.open(request, asked.file_id)?;
    // MS-SMB2 3.3.5.12
    Stop::when(asked.channel != read::Channel::None, NtStatus::INVALID_PARAMETER)?;
    settled.check_size(request, asked.length as usize, asked.payload_len())?;
    let wanted = Wanted {
        offset: asked.offset,
        length: asked.length as usize,
        minimum: asked.minimum_count as usize,
        padding: connection.controls.read_padding,
    };
    match open.object() {
        // MS-FSA 2.1.5.3
        Some(Object::File { open: file, .. }) if file.is_directory() => {
            Err(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST))
        }
        Some(Object::File { engine, open: file }) => {
            let end_at = wanted.offset.checked_add(wanted.length as u64);
            Stop::when(end_at.is_none_or(|end| end > i64::MAX as u64), NtStatus::INVALID_PARAMETER)?;
            let paced = Paced::Read { file: file.file_number(), len: wanted.length as u64 };
            let charge = connection
                .pace(request, engine, paced)
                .inspect_err(|_| request.keeps = Some(open.look_on()))?;
            let transfer = request.bare.then_some(&connection.handle.transfer);
            let body = &mut *request.body;
            if let Some(range) = uncopied(engine, file, open.lock_owner(), wanted, transfer)? {
                open.moving.kept.set_position(wanted.offset + range.len as u64);
                let at = begin(body, wanted);
                let completion = end(body, at, range.len, wanted, charge).map_err(Stop::Fail);
                request.attached = Some(range);
                return completion;
            }
            let at = begin(body, wanted);
            match engine.read(file, open.lock_owner(), wanted.offset, wanted.length, body, Patience::Cached) {
                Ok(count) => {
                    open.moving.kept.set_position(wanted.offset + count as u64);
                    end(body, at, count, wanted, charge).map_err(Stop::Fail)
                }
                Err(share::Refusal::WouldBlock) => {
                    body.truncate(at);
                    Err(Stop::work(later(open.look_on(), wanted, charge)))
                }
                Err(refusal) => Err(refusal.into()),
            }
        }
        Some(Object::Pipe(pipe)) => pipe::read(&mut pipe.lock(), wanted.length, request.body),
        None => Err(Stop::Fail(NtStatus::FILE_CLOSED)),
    }
}

/// The data as a piece of the file, where that is possible and pays. `transfer`: where the answer may end with one. The transport sends what stands there
/// then, so nothing may have been made over the bytes before.
fn uncopied(
    engine: &Share,
    file: &share::Open,
    owner: LockOwner,
    wanted: Wanted,
    transfer: Option<&Transfer>,
) -> Result<Option<FileRange>, Stop> {
    let Some(transfer) = transfer.filter(|_| wanted.length >= UNCOPIED) else { return Ok(None) };
    let range = engine.read_range(file, owner, wanted.offset, wanted.length, transfer)?;
    Ok(range.filter(|range| range.len >= UNCOPIED.max(wanted.minimum)))
}

/// Makes room for what stands in front of the data.
fn begin(body: &mut Vec<u8>, wanted: Wanted) -> usize {
    let at = body.len();
    body.resize(at + read::RESPONSE_FIXED + usize::from(wanted.padding), 0);
    at
}

/// The data lies in the body, or follows it: fills in what stands before it. What is not sent is not charged.
fn end(body: &mut [u8], at: usize, count: usize, wanted: Wanted, charge: Charge) -> Completion {
    // MS-SMB2 3.3.5.12
    if (count == 0 && wanted.length > 0) || count < wanted.minimum {
        return Err(NtStatus::END_OF_FILE);
    }
    if let Some(fixed) = body[at..].first_chunk_mut() {
        read::Response::write_fixed_padded(fixed, count as u32, wanted.padding);
    }
    charge.used(count);
    Ok(NtStatus::SUCCESS)
}

fn later(open: Looking, wanted: Wanted, charge: Charge) -> Work {
    Box::new(move |body| {
        let (engine, file) = open.file().ok_or(NtStatus::FILE_CLOSED)?;
        let at = begin(body, wanted);
        let read = engine.read(file, open.lock_owner(), wanted.offset, wanted.length, body, Patience::Block);
        end(body, at, read.map_err(|refusal| crate::status::of(&refusal))?, wanted, charge)
    })
}
