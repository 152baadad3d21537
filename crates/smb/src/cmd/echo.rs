//! ECHO: shows that the server is alive (MS-SMB2 3.3.5.17).

use smb_wire::{NtStatus, echo};

use crate::exchange::{Handled, Request};

/// Answers an ECHO.
pub fn handle(request: &mut Request<'_>) -> Handled {
    echo::Request::parse(request.message)?;
    echo::Response.write(request.body);
    Ok(NtStatus::SUCCESS)
}
