//! What smbtorture asks of a server that it tests, where the configuration lets it (`smbtorture_controls`):
//! what it could bring about otherwise only by changing the host's packet filter, or never for certain.
//!
//! The control codes are smbtorture's own; no specification has them. None of them changes what a request comes to:
//! a connection counts as silent, an answer has padding that every client must skip, and a request takes longer.

use smb_wire::ioctl;
use smb_wire::{FileId, NtStatus};

use crate::connection::Connection;
use crate::exchange::{Handled, Request, Stop};

/// FSCTL_SMBTORTURE_FORCE_UNACKED_TIMEOUT: from now on the client's host counts as silent. It names neither
/// a session nor a tree, as it is about the connection.
const FORCE_UNACKED_TIMEOUT: u32 = 0x8384_8003;
/// FSCTL_SMBTORTURE_IOCTL_RESPONSE_BODY_PADDING8: the answer to this has as many bytes as are taken, behind padding.
const IOCTL_RESPONSE_BODY_PADDING8: u32 = 0x8384_8013;
/// FSCTL_SMBTORTURE_GLOBAL_READ_RESPONSE_BODY_PADDING8: from now on each answer to a READ has padding.
const GLOBAL_READ_RESPONSE_BODY_PADDING8: u32 = 0x8384_8023;
/// FSCTL_SMBTORTURE_FSP_ASYNC_SLEEP: this request takes as many milliseconds as its one byte says, and then must find its
/// Open as it was: a CLOSE behind it has waited.
const FSP_ASYNC_SLEEP: u32 = 0x8384_8043;

/// How many bytes of padding there are; it is also the value of each byte of output behind it.
const PADDING: u8 = 8;

/// Whether a request that names no session is one of these, and the server is one to be tested.
pub(crate) fn is_asked(connection: &Connection, request: &Request<'_>) -> bool {
    request.session_id == 0
        && connection.server.config().smbtorture_controls
        && ioctl::Request::parse(request.message)
            .is_ok_and(|asked| asked.ctl_code.get() == FORCE_UNACKED_TIMEOUT)
}

/// Answers it.
pub fn handle(connection: &mut Connection, request: &mut Request<'_>) -> Handled {
    let asked = ioctl::Request::parse(request.message)?;
    takes_no_input(&asked)?;
    connection.controls.deaf = true;
    answer(&asked, asked.file_id, request.body)
}

/// Answers one that a session sends; nothing where it is none of these, or the server is not one to be tested.
pub(super) fn of_session(
    connection: &mut Connection,
    request: &mut Request<'_>,
    asked: &ioctl::Request<'_>,
) -> Option<Handled> {
    let code = asked.ctl_code.get();
    let known = [IOCTL_RESPONSE_BODY_PADDING8, GLOBAL_READ_RESPONSE_BODY_PADDING8, FSP_ASYNC_SLEEP];
    if !known.contains(&code) || !connection.server.config().smbtorture_controls {
        return None;
    }
    Some(match code {
        FSP_ASYNC_SLEEP => sleep(connection, request, asked),
        GLOBAL_READ_RESPONSE_BODY_PADDING8 => pad_reads(connection, asked, request.body),
        _ => pad_this(asked, request.body),
    })
}

// MS-SMB2 2.2.32: OutputOffset says where the output begins.
fn pad_this(asked: &ioctl::Request<'_>, body: &mut Vec<u8>) -> Handled {
    takes_no_input(asked)?;
    let output = vec![PADDING; asked.max_output_response as usize];
    let (ctl_code, file_id) = (asked.ctl_code, asked.file_id);
    ioctl::Response { ctl_code, file_id, input: &[], output: &output }.write_padded(PADDING.into(), body);
    Ok(NtStatus::SUCCESS)
}

// MS-SMB2 2.2.20: DataOffset says where the data begins.
fn pad_reads(connection: &mut Connection, asked: &ioctl::Request<'_>, body: &mut Vec<u8>) -> Handled {
    takes_no_input(asked)?;
    connection.controls.read_padding = PADDING;
    answer(asked, asked.file_id, body)
}

/// The request is parked as a change that is being carried out, like one that stands in a slow volume.
fn sleep(connection: &mut Connection, request: &mut Request<'_>, asked: &ioctl::Request<'_>) -> Handled {
    let async_id = connection.async_id(request);
    // Until this has looked at its Open.
    let _slept = connection.controls.wake(async_id);
    let &[time_ms] = asked.input else { return Err(Stop::Fail(NtStatus::INVALID_PARAMETER)) };
    let named = connection.open(request, asked.file_id)?;
    let open = named.share();
    let (engine, _) = open.file().ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
    let until_ns = request.course.arrived_ns.saturating_add(u64::from(time_ms) * 1_000_000);
    if request.now.mono_ns < until_ns {
        let ticket = engine.wait_until(&connection.waiter_for(request), until_ns);
        connection.controls.sleep(async_id, named.go_on());
        return Err(Stop::wait(engine, ticket));
    }
    answer(asked, open.id, request.body)
}

fn takes_no_input(asked: &ioctl::Request<'_>) -> Result<(), Stop> {
    if asked.input.is_empty() { Ok(()) } else { Err(Stop::Fail(NtStatus::INVALID_PARAMETER)) }
}

fn answer(asked: &ioctl::Request<'_>, file_id: FileId, body: &mut Vec<u8>) -> Handled {
    ioctl::Response { ctl_code: asked.ctl_code, file_id, input: &[], output: &[] }.write(body);
    Ok(NtStatus::SUCCESS)
}
