//! The control codes of smbtorture for a server under test, if the configuration allows them
//! (`smbtorture_controls`). Without them a test could reach the same states only with the host's packet
//! filter, or not reliably.
//!
//! The codes are smbtorture's own. No specification has them. They do not change the outcome of a request.
//! They make a connection count as silent, add padding that every client must skip, or make a request take
//! longer.

use smb_wire::ioctl;
use smb_wire::{FileId, NtStatus};

use crate::connection::Connection;
use crate::exchange::{Handled, Request, Stop};

/// FSCTL_SMBTORTURE_FORCE_UNACKED_TIMEOUT: the client's host counts as silent from now on. The code is about
/// the connection, so it has no session or tree.
const FORCE_UNACKED_TIMEOUT: u32 = 0x8384_8003;
/// FSCTL_SMBTORTURE_IOCTL_RESPONSE_BODY_PADDING8: the response has as many bytes as the client takes, after
/// padding.
const IOCTL_RESPONSE_BODY_PADDING8: u32 = 0x8384_8013;
/// FSCTL_SMBTORTURE_GLOBAL_READ_RESPONSE_BODY_PADDING8: each READ response has padding from now on.
const GLOBAL_READ_RESPONSE_BODY_PADDING8: u32 = 0x8384_8023;
/// FSCTL_SMBTORTURE_FSP_ASYNC_SLEEP: this request takes as many milliseconds as its one byte says. Then its
/// Open must still exist: a later CLOSE has to wait.
const FSP_ASYNC_SLEEP: u32 = 0x8384_8043;

/// The number of padding bytes, and the value of each output byte after them.
const PADDING: u8 = 8;

/// Whether a request without a session has such a code, and the server is under test.
pub(crate) fn is_sessionless(connection: &Connection, request: &Request<'_>) -> bool {
    request.session_id == 0
        && connection.server.config().smbtorture_controls
        && ioctl::Request::parse(request.message)
            .is_ok_and(|parsed| parsed.ctl_code.get() == FORCE_UNACKED_TIMEOUT)
}

/// Answers a code about the connection.
pub fn handle(connection: &mut Connection, request: &mut Request<'_>) -> Handled {
    let parsed = ioctl::Request::parse(request.message)?;
    takes_no_input(&parsed)?;
    connection.controls.ignores_receipts = true;
    answer(&parsed, parsed.file_id, request.body)
}

/// Answers a code within a session. Returns `None` if it is not one of these codes, or the server is not
/// under test.
pub(super) fn of_session(
    connection: &mut Connection,
    request: &mut Request<'_>,
    parsed: &ioctl::Request<'_>,
) -> Option<Handled> {
    let code = parsed.ctl_code.get();
    let known = [IOCTL_RESPONSE_BODY_PADDING8, GLOBAL_READ_RESPONSE_BODY_PADDING8, FSP_ASYNC_SLEEP];
    if !known.contains(&code) || !connection.server.config().smbtorture_controls {
        return None;
    }
    Some(match code {
        FSP_ASYNC_SLEEP => sleep(connection, request, parsed),
        GLOBAL_READ_RESPONSE_BODY_PADDING8 => pad_reads(connection, parsed, request.body),
        _ => pad_this(parsed, request.body),
    })
}

// MS-SMB2 2.2.32: OutputOffset gives the start of the output.
fn pad_this(parsed: &ioctl::Request<'_>, body: &mut Vec<u8>) -> Handled {
    takes_no_input(parsed)?;
    let output = vec![PADDING; parsed.max_output_response as usize];
    let (ctl_code, file_id) = (parsed.ctl_code, parsed.file_id);
    ioctl::Response { ctl_code, file_id, input: &[], output: &output }.write_padded(PADDING.into(), body);
    Ok(NtStatus::SUCCESS)
}

// MS-SMB2 2.2.20: DataOffset gives the start of the data.
fn pad_reads(connection: &mut Connection, parsed: &ioctl::Request<'_>, body: &mut Vec<u8>) -> Handled {
    takes_no_input(parsed)?;
    connection.controls.read_padding = PADDING;
    answer(parsed, parsed.file_id, body)
}

/// Puts the request aside as a change under way, like one that is stuck in a slow volume.
fn sleep(connection: &mut Connection, request: &mut Request<'_>, parsed: &ioctl::Request<'_>) -> Handled {
    let async_id = connection.async_id(request);
    // The earlier change lasts until this function has looked up the Open.
    let _slept = connection.controls.wake(async_id);
    let &[time_ms] = parsed.input else { return Err(Stop::Fail(NtStatus::INVALID_PARAMETER)) };
    let named = connection.open(request, parsed.file_id)?;
    let open = named.share();
    let (engine, _) = open.file().ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
    let until_ns = request.transaction.arrived_ns.saturating_add(u64::from(time_ms) * 1_000_000);
    if request.now.mono_ns < until_ns {
        let ticket = engine.wait_until(&connection.waiter_for(request), until_ns);
        connection.controls.sleep(async_id, named.continue_change());
        return Err(Stop::wait(engine, ticket));
    }
    answer(parsed, open.id, request.body)
}

fn takes_no_input(parsed: &ioctl::Request<'_>) -> Result<(), Stop> {
    if parsed.input.is_empty() { Ok(()) } else { Err(Stop::Fail(NtStatus::INVALID_PARAMETER)) }
}

fn answer(parsed: &ioctl::Request<'_>, file_id: FileId, body: &mut Vec<u8>) -> Handled {
    ioctl::Response { ctl_code: parsed.ctl_code, file_id, input: &[], output: &[] }.write(body);
    Ok(NtStatus::SUCCESS)
}
