//! ECHO: shows that the server lives (MS-SMB2 3.3.5.17).

use smb_wire::{NtStatus, echo};

use crate::dispatch::Request;
use crate::exchange::outcome::Handled;

/// Answers an ECHO.
pub(crate) fn handle(request: &Request<'_>, body: &mut Vec<u8>) -> Handled {
    echo::Request::parse(request.message)?;
    echo::Response.write(body);
    Ok(NtStatus::SUCCESS)
}
