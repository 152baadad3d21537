//! Copies inside the server (MS-SMB2 3.3.5.15.5, 3.3.5.15.6; MS-FSCC 2.3.7).

use share::{CallResult, Caller, CopySide, Share, WriteAt};
use smb_wire::fscc::fsctl::DuplicateExtents;
use smb_wire::ioctl::body::{
    ResumeKey, SrvCopychunk, SrvCopychunkCopy, SrvCopychunkResponse, SrvRequestResumeKey,
};
use smb_wire::{FileId, NtStatus};
use volume::Patience;
use volume::security::Rights;

use super::Context;
use crate::exchange::{Handled, Request, Stop};
use crate::state::Open;
use crate::table::EntryGuard;

/// The most chunks in one request, as in Windows Server (MS-SMB2 3.3.3).
const MAX_CHUNKS: usize = 256;
/// The most bytes of one chunk.
const MAX_CHUNK: u32 = 1 << 20;
/// The most bytes of one request.
const MAX_TOTAL: u64 = 16 << 20;

/// The access that the target Open must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyAccess {
    /// FSCTL_SRV_COPYCHUNK: read and write.
    NeedsRead,
    /// FSCTL_SRV_COPYCHUNK_WRITE: write.
    WriteIsEnough,
}

/// FSCTL_SRV_REQUEST_RESUME_KEY: a key for this Open in a later copy (MS-SMB2 3.3.5.15.5).
pub(super) fn resume_key(cx: &Context<'_>, output: &mut Vec<u8>) -> Handled {
    let mut key: ResumeKey = [0; 24];
    key[..8].copy_from_slice(&cx.disk.open.id.persistent.to_le_bytes());
    key[8..16].copy_from_slice(&cx.disk.open.id.volatile.to_le_bytes());
    SrvRequestResumeKey { resume_key: key }.write(output);
    Stop::when(output.len() > cx.limit, NtStatus::INVALID_PARAMETER)?;
    Ok(NtStatus::SUCCESS)
}

/// The FileId in a key.
fn key_id(key: &ResumeKey) -> FileId {
    let half = |at: usize| key[at..].first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
    FileId { persistent: half(0), volatile: half(8) }
}

/// The source Open, in the same session.
fn source(cx: &Context<'_>, id: FileId) -> Option<EntryGuard<Open>> {
    let found = cx.connection.server.opens.get(id.volatile)?;
    (found.id == id && found.session_id == cx.disk.open.session_id && found.file().is_some()).then_some(found)
}

/// FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE (MS-SMB2 3.3.5.15.6).
pub(super) fn copychunk(
    cx: &Context<'_>,
    request: &mut Request<'_>,
    target: CopyAccess,
    output: &mut Vec<u8>,
) -> Handled {
    Stop::when(cx.limit < 12, NtStatus::INVALID_PARAMETER)?;
    let parsed = SrvCopychunkCopy::parse(cx.input)?;
    let from = source(cx, key_id(&parsed.source_key)).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let (_, to) = cx.file();
    let (from_engine, source) = from.file().ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    // MS-SMB2 3.3.5.15.6
    let readable = Rights::READ_DATA | Rights::EXECUTE;
    let writable = Rights::WRITE_DATA | Rights::APPEND_DATA;
    if !source.granted().intersects(readable)
        || !to.granted().intersects(writable)
        || (target == CopyAccess::NeedsRead && !to.granted().contains(Rights::READ_DATA))
    {
        return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    let total: u64 = parsed.chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
    let beyond = |chunk: &SrvCopychunk| chunk.length == 0 || chunk.length > MAX_CHUNK;
    if parsed.chunks.len() > MAX_CHUNKS
        || total > MAX_TOTAL
        || parsed.chunks.iter().any(|chunk| beyond(&chunk))
    {
        SrvCopychunkResponse {
            chunks_written: MAX_CHUNKS as u32,
            chunk_bytes_written: MAX_CHUNK,
            total_bytes_written: MAX_TOTAL as u32,
        }
        .write(output);
        return Ok(NtStatus::INVALID_PARAMETER);
    }
    let size = from_engine.info(source)?.size;
    let mut done = SrvCopychunkResponse::default();
    for chunk in parsed.chunks.iter() {
        let copied = if chunk.source_offset.saturating_add(u64::from(chunk.length)) > size {
            Err(NtStatus::INVALID_VIEW_SIZE)
        } else {
            one_chunk(cx, request, &from, &chunk)?
        };
        if let Err(status) = copied {
            done.write(output);
            return Ok(status);
        }
        done.chunks_written += 1;
        done.total_bytes_written += chunk.length;
    }
    done.write(output);
    Ok(NtStatus::SUCCESS)
}

/// Copies one chunk. A refusal is reported with the count of the chunks before it.
fn one_chunk(
    cx: &Context<'_>,
    request: &mut Request<'_>,
    from: &Open,
    chunk: &SrvCopychunk,
) -> Result<Result<(), NtStatus>, Stop> {
    let (engine, to) = cx.file();
    let (from_engine, source) = from.file().ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let copied = cx.call(request, |caller| {
        let from = CopySide { open: source, owner: from.lock_owner(), at: chunk.source_offset };
        let to = CopySide { open: to, owner: cx.disk.open.lock_owner(), at: chunk.target_offset };
        // The engines of two shares do not know each other, so each does its own part.
        if std::sync::Arc::ptr_eq(engine, from_engine) {
            engine.copy(caller, from, to, u64::from(chunk.length))
        } else {
            copy_between(caller, from_engine, from, engine, to, chunk.length)
        }
    });
    match copied {
        Ok(count) if count == u64::from(chunk.length) => Ok(Ok(())),
        Ok(_) => Ok(Err(NtStatus::INVALID_VIEW_SIZE)),
        Err(Stop::Fail(status)) => Ok(Err(status)),
        Err(stop) => Err(stop),
    }
}

/// Copies a chunk between files of two shares.
fn copy_between(
    caller: &Caller<'_>,
    from_engine: &Share,
    from: CopySide<'_>,
    engine: &Share,
    to: CopySide<'_>,
    len: u32,
) -> CallResult<u64> {
    let mut data = Vec::new();
    let len = len as usize;
    // The host may return less than requested before the end.
    while data.len() < len {
        let at = from.at + data.len() as u64;
        let (reader, left) = (from.owner.into(), len - data.len());
        match from_engine.read(from.open, reader, at, left, &mut data, Patience::Block) {
            Ok(0) => break,
            Ok(_) => {}
            Err(why) => return CallResult::Refused(why),
        }
    }
    let written = engine.write(caller, to.open, to.owner, WriteAt::Offset(to.at), &data, false);
    written.map(|()| data.len() as u64)
}

/// FSCTL_DUPLICATE_EXTENTS_TO_FILE: makes both files share storage (MS-FSCC 2.3.7).
pub(super) fn duplicate_extents(cx: &Context<'_>, request: &mut Request<'_>) -> Handled {
    let parsed = DuplicateExtents::parse(cx.input).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let (from_at, to_at, len) = parsed.checked().map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let from = source(cx, parsed.source_file_id).ok_or(NtStatus::INVALID_HANDLE)?;
    let (engine, to) = cx.file();
    // MS-FSA 2.1.5.10.4
    Stop::when(!engine.volume().properties().clones, NtStatus::INVALID_DEVICE_REQUEST)?;
    let (from_engine, source) = from.file().ok_or(NtStatus::INVALID_HANDLE)?;
    Stop::when(!std::sync::Arc::ptr_eq(engine, from_engine), NtStatus::INVALID_PARAMETER)?;
    if !source.granted().contains(Rights::READ_DATA) || !to.granted().contains(Rights::WRITE_DATA) {
        return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    cx.call(request, |caller| {
        let from = CopySide { open: source, owner: from.lock_owner(), at: from_at };
        let to = CopySide { open: to, owner: cx.disk.open.lock_owner(), at: to_at };
        engine.clone_range(caller, from, to, len, false)
    })?;
    Ok(NtStatus::SUCCESS)
}
