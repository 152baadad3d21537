//! Reparse points and object ids (MS-FSCC 2.1.2, 2.1.3).

use smb_wire::fscc::fsctl::ObjectIdBuffer;
use smb_wire::fscc::names::{Syntax, target::target_to_host};
use smb_wire::fscc::reparse::{NfsFile, RawReparse, Reparse};
use smb_wire::{NtStatus, Utf16};
use volume::security::Rights;
use wire::Now;

use super::Context;
use crate::exchange::{Handled, Request, Stop};
use crate::path;

/// Largest reparse buffer (MS-FSCC 2.1.2.2).
const MAX_REPARSE: usize = 16 * 1024;

/// A user that may write a file may turn it into a link.
const WRITE: Rights = Rights::WRITE_DATA.union(Rights::WRITE_ATTRIBUTES);

/// FSCTL_GET_REPARSE_POINT (MS-FSCC 2.3.25).
pub(super) fn get(cx: &Context<'_>, output: &mut Vec<u8>) -> Handled {
    let (engine, open) = cx.file();
    let data = match engine.link_text(open) {
        Ok(text) => symlink_of(&text, cx.negotiated.posix),
        Err(_) => engine.reparse(open)?,
    };
    Stop::when(cx.limit < 8, NtStatus::BUFFER_TOO_SMALL)?;
    // MS-FSCC 2.3.26
    let kept = data.len().min(cx.limit);
    output.extend_from_slice(&data[..kept]);
    Ok(if kept < data.len() { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS })
}

/// A symbolic link of the host as its reparse point (MS-FSCC 2.1.2.4).
fn symlink_of(text: &[u8], posix: bool) -> Vec<u8> {
    let relative = !text.starts_with(b"/");
    let name = path::link_text(text, posix);
    let name = Utf16::new(&name).unwrap_or_default();
    let mut out = Vec::new();
    Reparse::Symlink { substitute_name: name, print_name: name, relative }.write(&mut out);
    out
}

/// The text for a symbolic link of the host from a reparse point. `None` if it is not a link, or its target
/// is known to the client only. Linux with the POSIX extensions sends the text unchanged, with slashes.
/// Older versions send backslashes.
fn link_text_of(reparse: &Reparse<'_>, posix: bool) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    match reparse {
        Reparse::Symlink { substitute_name, relative: true, .. } => {
            let has_slash = substitute_name.units().any(|unit| unit == u16::from(b'/'));
            let syntax = if posix && has_slash { Syntax::Posix } else { Syntax::Windows };
            target_to_host(*substitute_name, syntax, &mut text).ok()?;
        }
        Reparse::Nfs(NfsFile::Link(target)) => text.extend_from_slice(target.to_string_exact()?.as_bytes()),
        Reparse::LxSymlink(target) => text.extend_from_slice(target),
        _ => return None,
    }
    Some(text)
}

/// FSCTL_SET_REPARSE_POINT (MS-FSCC 2.3.81).
pub(super) fn set(cx: &Context<'_>, request: &mut Request<'_>) -> Handled {
    cx.require(WRITE)?;
    if cx.input.len() > MAX_REPARSE || RawReparse::parse(cx.input).is_err() {
        return Err(Stop::Fail(NtStatus::IO_REPARSE_DATA_INVALID));
    }
    let (engine, open) = cx.file();
    // A link becomes a symbolic link of the host, so that all clients follow it.
    let posix = cx.negotiated.posix;
    match Reparse::parse(cx.input).ok().and_then(|reparse| link_text_of(&reparse, posix)) {
        Some(text) => cx.call(request, |caller| engine.make_link(caller, open, &text).into())?,
        None => cx.call(request, |caller| engine.set_reparse(caller, open, cx.input).into())?,
    }
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_DELETE_REPARSE_POINT (MS-FSCC 2.3.5).
pub(super) fn delete(cx: &Context<'_>, request: &mut Request<'_>) -> Handled {
    cx.require(WRITE)?;
    let parsed = RawReparse::parse(cx.input).map_err(|_| NtStatus::IO_REPARSE_DATA_INVALID)?;
    let (engine, open) = cx.file();
    let tag = parsed.tag.0;
    cx.call(request, |caller| engine.delete_reparse(caller, open, tag).into())?;
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_CREATE_OR_GET_OBJECT_ID and FSCTL_GET_OBJECT_ID (MS-FSCC 2.3.1, 2.3.21).
pub(super) fn object_id(cx: &Context<'_>, create: bool, now: Now, output: &mut Vec<u8>) -> Handled {
    // MS-FSA 2.1.5.10.1, 2.1.5.10.13
    cx.has_room(ObjectIdBuffer::SIZE)?;
    let (engine, open) = cx.file();
    let object_id = match engine.object_id(open, create, now) {
        Err(share::Refusal::NoSuchNote) => return Err(Stop::Fail(NtStatus::OBJECTID_NOT_FOUND)),
        found => found?,
    };
    if let Some(birth) = engine.object_birth(open)? {
        output.extend_from_slice(&object_id);
        output.extend_from_slice(&birth);
        return Ok(NtStatus::SUCCESS);
    }
    let mut birth_volume_id = [0; 16];
    birth_volume_id[..8].copy_from_slice(&engine.volume().properties().serial.to_le_bytes());
    ObjectIdBuffer { object_id, birth_volume_id, birth_object_id: object_id, domain_id: [0; 16] }
        .write(output);
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_SET_OBJECT_ID (MS-FSCC 2.3.77).
pub(super) fn set_object_id(cx: &Context<'_>, request: &mut Request<'_>) -> Handled {
    let whole = <[u8; ObjectIdBuffer::SIZE]>::try_from(cx.input);
    let whole = whole.map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let (engine, open) = cx.file();
    cx.call(request, |caller| engine.set_object_id(caller, open, &whole).into())?;
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_DELETE_OBJECT_ID (MS-FSCC 2.3.3).
pub(super) fn delete_object_id(cx: &Context<'_>) -> Handled {
    let (engine, open) = cx.file();
    engine.delete_object_id(open)?;
    Ok(NtStatus::SUCCESS)
}
