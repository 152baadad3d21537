//! What smbtorture asks of a server that it tests, where the configuration lets it (`smbtorture_controls`):
//! failures that it could bring about otherwise only by changing the host's packet filter.
//!
//! The control codes are smbtorture's own; no specification has them.

use smb_wire::ioctl;
use smb_wire::{NtStatus, ioctl::CtlCode};

use crate::connection::Connection;
use crate::dispatch::Request;
use crate::suspend::{Handled, Stop};

/// FSCTL_SMBTORTURE_FORCE_UNACKED_TIMEOUT: from now on the client's host counts as silent. It names neither
/// a session nor a tree, as it is about the connection.
const FORCE_UNACKED_TIMEOUT: u32 = 0x8384_8003;

/// Whether a request that names no session is one of these, and the server is one to be tested.
pub(crate) fn is_asked(connection: &Connection, request: &Request<'_>) -> bool {
    request.session_id == 0
        && connection.server.config().smbtorture_controls
        && ioctl::Request::parse(request.message)
            .is_ok_and(|asked| asked.ctl_code.get() == FORCE_UNACKED_TIMEOUT)
}

/// Answers it.
pub(crate) fn handle(connection: &mut Connection, request: &Request<'_>, body: &mut Vec<u8>) -> Handled {
    let asked = ioctl::Request::parse(request.message)?;
    if !asked.input.is_empty() {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    connection.deaf = true;
    let (ctl_code, file_id) = (CtlCode::new(FORCE_UNACKED_TIMEOUT), asked.file_id);
    ioctl::Response { ctl_code, file_id, input: &[], output: &[] }.write(body);
    Ok(NtStatus::SUCCESS)
}
