//! WRITE (MS-SMB2 3.3.5.13).

use share::Step;
use share::limits::Work;
use smb_wire::{NtStatus, read, write};

use crate::connection::{Connection, Negotiated};
use crate::dispatch::{Request, check_charge};
use crate::exchange::outcome::{Handled, Stop};
use crate::open::Object;
use crate::tree::Target;

/// Largest file of NTFS, 16 TiB less 64 KiB, which clients hold to be everybody's (MS-FSA 6, note on 2.1.5.4).
const MAX_FILE_SIZE: u64 = 0xfff_ffff_0000;

/// Answers a WRITE. Buffered data goes to the page cache on this thread; the transport moves a connection
/// whose calls prove slow to its blocking pool.
pub(crate) fn handle(
    connection: &mut Connection,
    settled: &Negotiated,
    request: &mut Request<'_>,
    body: &mut Vec<u8>,
) -> Handled {
    let asked = write::Request::parse(request.message)?;
    let open = connection.open(request, asked.file_id)?;
    // MS-SMB2 3.3.5.13
    if asked.data.len() as u64 > u64::from(settled.max_io) || asked.channel != read::Channel::None {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    check_charge(settled, request, asked.payload_len())?;
    match open.object() {
        Some(Object::File { engine, open: file }) => {
            // MS-FSA 2.1.5.4: the offset that means the end of a file is not for the network.
            let end = asked.offset.checked_add(asked.data.len() as u64);
            let fits = match asked.data.len() {
                0 => asked.offset <= i64::MAX as u64,
                _ => end.is_some_and(|end| end <= MAX_FILE_SIZE),
            };
            if !fits {
                return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
            }
            let at = share::WriteAt::Offset(asked.offset);
            let through = asked.flags.contains(write::Flags::WRITE_THROUGH);
            let Target::Disk { identity, .. } = &open.tree.target else {
                return Err(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST));
            };
            let async_id = connection.async_id(request);
            let waiter = connection.waiter(async_id);
            let caller = request.caller(identity, open.client, Some(&waiter));
            match engine.write(&caller, file, open.lock_owner(), at, asked.data, through) {
                Step::Done(()) => {
                    request.course.written = asked.data.len();
                    write::Response { count: asked.data.len() as u32 }.write(body);
                    let work = Work::Write { file: file.file_number(), len: asked.data.len() as u64 };
                    return connection.pace_answer(request, engine, work);
                }
                Step::Wait(ticket) => return Err(Stop::wait(engine, ticket)),
                Step::Refused(refusal) => return Err(refusal.into()),
            }
        }
        Some(Object::Pipe(pipe)) => crate::pipe::write(connection, request, &mut pipe.lock(), asked.data)?,
        None => return Err(Stop::Fail(NtStatus::FILE_CLOSED)),
    }
    write::Response { count: asked.data.len() as u32 }.write(body);
    Ok(NtStatus::SUCCESS)
}
