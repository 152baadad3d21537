//! LOGOFF: ends a session (MS-SMB2 3.3.5.6).

use std::sync::Arc;

use smb_wire::{NtStatus, logoff};

use crate::connection::Connection;
use crate::exchange::{Handled, Request};

/// Answers a LOGOFF. The session's key still signs the response. So the channel is removed later, by the
/// event that the end of the session posts.
pub fn handle(connection: &mut Connection, request: &mut Request<'_>) -> Handled {
    logoff::Request::parse(request.message)?;
    let session = Arc::clone(connection.session(request)?);
    connection.server.end_session(&session, request.cause());
    logoff::Response.write(request.body);
    Ok(NtStatus::SUCCESS)
}
