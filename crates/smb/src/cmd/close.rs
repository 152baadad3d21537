//! CLOSE: ends an Open (MS-SMB2 3.3.5.10).

use std::sync::Arc;

use smb_wire::{NtStatus, close};

use crate::connection::Connection;
use crate::exchange::{Handled, Request};
use crate::info::FileMetadata;

/// Answers a CLOSE.
pub fn handle(connection: &mut Connection, request: &mut Request<'_>) -> Handled {
    let parsed = close::Request::parse(request.message)?;
    let open = match connection.open(request, parsed.file_id) {
        Ok(named) => named.share(),
        Err(stop) => {
            connection.server.pending_closes.wait(request.file_id(parsed.file_id)?.volatile);
            return Err(stop);
        }
    };
    connection.await_operations(request, &open)?;
    let wanted = parsed.flags.contains(close::CloseFlags::POSTQUERY_ATTRIB);
    let info = open.file().filter(|_| wanted).and_then(|(engine, file)| {
        let info = engine.info(file).ok()?;
        Some(FileMetadata::of_open(&info, file).file_info())
    });
    let session = Arc::clone(connection.session(request)?);
    if let Some(closed) = connection.server.close_open(&session, &open, request.cause()) {
        closed?;
    }
    close::Response { info }.write(request.body);
    Ok(NtStatus::SUCCESS)
}
