//! CHANGE_NOTIFY: waits for changes in a directory (MS-SMB2 3.3.5.19).

use share::{CallResult, Change, ChangeFilter, ChangeKind, Refusal};
use smb_wire::change_notify::{self, Flags};
use smb_wire::fscc::names::{Syntax, to_wire};
use smb_wire::fscc::notify::{Action, Report};
use smb_wire::{NtStatus, output};
use volume::security::Rights;

use super::with_output;
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::info::names::STREAM_SYNTAX;
use crate::state::OnDisk;

/// Answers a CHANGE_NOTIFY.
pub fn handle(connection: &mut Connection, settled: &Negotiated, request: &mut Request<'_>) -> Handled {
    let asked = change_notify::Request::parse(request.message)?;
    let open = connection.open(request, asked.file_id)?.share();
    let limit = asked.output_buffer_length as usize;
    // MS-SMB2 3.3.5.19
    settled.check_size(request, limit, asked.payload_len())?;
    let directory = open.on_disk().filter(|disk| disk.file.is_directory());
    let OnDisk { engine, file, .. } = directory.ok_or(NtStatus::INVALID_PARAMETER)?;
    Stop::when(!file.granted().contains(Rights::READ_DATA), NtStatus::ACCESS_DENIED)?;
    // MS-SMB2 3.3.5.19: bits that mean nothing are ignored; without any other the request waits on.
    let filter = ChangeFilter::from_bits_truncate(asked.completion_filter.bits());
    if !request.resumed {
        engine.watch(file, filter, asked.flags.contains(Flags::WATCH_TREE), limit)?;
    }
    let waiter = connection.waiter_for(request);
    match engine.take_changes(file, Some(&waiter)) {
        CallResult::Done(changes) => respond(&changes, limit, request.body),
        CallResult::Wait(ticket) => Err(Stop::wait(engine, ticket)),
        CallResult::Refused(Refusal::WatchOverflow) => Ok(overflowed(request.body)),
        CallResult::Refused(refusal) => Err(refusal.into()),
    }
}

/// What is lost is told in an answer of this command and not in an error's, of whose fields the offset of the changes would be
/// none.
// MS-SMB2 3.3.4.4
// MS-SMB2 2.2.36
fn overflowed(body: &mut Vec<u8>) -> NtStatus {
    output::Response { output_buffer: &[] }.write(body);
    // StructureSize counts a byte of the buffer.
    body.push(0);
    NtStatus::NOTIFY_ENUM_DIR
}

fn respond(changes: &[Change], limit: usize, body: &mut Vec<u8>) -> Handled {
    let at = body.len();
    let written = with_output(body, |body| {
        let mut report = Report::new(body, limit);
        let mut name = Vec::new();
        for change in changes {
            name.clear();
            for (index, component) in change.path.iter().enumerate() {
                if index > 0 {
                    name.extend_from_slice(&u16::from(b'\\').to_le_bytes());
                }
                to_wire(component.as_bytes(), Syntax::Windows, &mut name);
            }
            if let Some(stream) = &change.stream {
                name.extend_from_slice(&u16::from(b':').to_le_bytes());
                to_wire(stream.as_bytes(), STREAM_SYNTAX, &mut name);
            }
            report.push(action(change.kind), &name).map_err(|_| NtStatus::NOTIFY_ENUM_DIR)?;
        }
        Ok(NtStatus::SUCCESS)
    });
    // MS-SMB2 3.3.5.19: what does not fit is lost; the client must list the directory again.
    written.or_else(|_| {
        body.truncate(at);
        Ok(overflowed(body))
    })
}

fn action(kind: ChangeKind) -> Action {
    match kind {
        ChangeKind::Added => Action::ADDED,
        ChangeKind::Removed => Action::REMOVED,
        ChangeKind::Modified => Action::MODIFIED,
        ChangeKind::RenamedFrom => Action::RENAMED_OLD_NAME,
        ChangeKind::RenamedTo => Action::RENAMED_NEW_NAME,
        ChangeKind::StreamAdded => Action::ADDED_STREAM,
        ChangeKind::StreamRemoved => Action::REMOVED_STREAM,
        ChangeKind::StreamModified => Action::MODIFIED_STREAM,
    }
}
