//! WRITE: writes to a file or a pipe (MS-SMB2 3.3.5.13).

use share::WriteAt;
use share::limits::MeteredWork;
use smb_wire::{NtStatus, read, write};

use super::pipe;
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::state::{Object, OnDisk};

/// The largest file of NTFS, 16 TiB less 64 KiB. Clients expect that limit everywhere (MS-FSA 6, note on
/// 2.1.5.4).
const MAX_FILE_SIZE: u64 = 0xfff_ffff_0000;

/// Answers a WRITE. Buffered data goes to the page cache on this thread. The transport moves a connection
/// with slow calls to its blocking pool.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let parsed = write::Request::parse(request.message)?;
    let open = connection.open(request, parsed.file_id)?;
    let len = parsed.data.len();
    // MS-SMB2 3.3.5.13
    Stop::when(parsed.channel != read::Channel::None, NtStatus::INVALID_PARAMETER)?;
    negotiated.check_size(request, len, parsed.payload_len())?;
    let disk = match open.object() {
        Some(Object::File { .. }) => open.on_disk().ok_or(NtStatus::INVALID_DEVICE_REQUEST)?,
        Some(Object::Pipe(_)) => return pipe::write(connection, request, open, parsed.data),
        None => return Err(Stop::Fail(NtStatus::FILE_CLOSED)),
    };
    let OnDisk { engine, file, identity, .. } = disk;
    // MS-FSA 2.1.5.4: the offset that stands for the end of the file is not valid over the network.
    let fits = match len {
        0 => parsed.offset <= i64::MAX as u64,
        _ => parsed.offset.checked_add(len as u64).is_some_and(|end| end <= MAX_FILE_SIZE),
    };
    Stop::when(!fits, NtStatus::INVALID_PARAMETER)?;
    let at = WriteAt::Offset(parsed.offset);
    let through = parsed.flags.contains(write::WriteFlags::WRITE_THROUGH);
    let waiter = connection.waiter_for(request);
    let caller = request.caller(identity, open.client, Some(&waiter));
    let step = engine.write(&caller, file, open.lock_owner(), at, parsed.data, through);
    Stop::done_or_wait(engine, step)?;
    request.transaction.written = len;
    write::Response { count: len as u32 }.write(request.body);
    connection.pace_answer(request, engine, MeteredWork::Write { file: file.file_number(), len: len as u64 })
}
