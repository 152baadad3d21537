//! FLUSH: returns when all written data is on stable storage (MS-SMB2 3.3.5.11).

use smb_wire::{NtStatus, flush};

use crate::connection::Connection;
use crate::exchange::{Handled, Request, Stop};
use crate::state::Object;

/// Answers a FLUSH from the blocking pool, since it waits for the device.
pub fn handle(connection: &mut Connection, request: &mut Request<'_>) -> Handled {
    let parsed = flush::Request::parse(request.message)?;
    let named = connection.open(request, parsed.file_id)?;
    if let Some(Object::Pipe(_)) = named.object() {
        flush::Response.write(request.body);
        return Ok(NtStatus::SUCCESS);
    }
    let (cause, open) = (request.cause().elsewhere(), named.continue_read());
    Err(Stop::work(move |body| {
        let (engine, file) = open.file().ok_or(NtStatus::FILE_CLOSED)?;
        engine.flush(file, false, cause).map_err(|refusal| crate::status::of(&refusal))?;
        flush::Response.write(body);
        Ok(NtStatus::SUCCESS)
    }))
}
