//! The messages of a worker's operations: originals and replays (MS-SMB2 3.2.4, 3.2.7.1).

use smb_wire::create::{CreateOptions, Disposition, OplockLevel};
use smb_wire::create_context::{Contexts, DurableFlags, RequestContext};
use smb_wire::header::Flags;
use smb_wire::lock::{LockElement, LockFlags};
use smb_wire::query_info::InfoType;
use smb_wire::{FileId, Guid, SmbCommand, WireList, close, flush, lock, read, set_info, utf16, write};
use testkit::smb::Peer;
use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;

use super::model::Op;

/// Locked byte ranges are beyond all data, so that they do not conflict with it.
const FIRST_LOCKED: u64 = 1 << 40;
const LOCKED: u64 = 100;

/// One operation with the fields that identify its replays.
#[derive(Debug, Clone)]
pub struct Task {
    pub op: Op,
    /// The CreateGuid of a CREATE.
    pub create_guid: Guid,
    /// LockSequenceIndex and LockSequenceNumber.
    pub lock_sequence: (u32, u8),
    /// It was sent before, with an unknown result.
    pub is_replay: bool,
}

/// The worker and the file of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestTarget {
    /// The number of the worker.
    pub worker: usize,
    pub file: Option<FileId>,
    pub channel_sequence: u16,
}

/// The path of a worker's name.
pub fn path(worker: usize, name: usize) -> String {
    format!("worker {worker} file {name}")
}

/// The request for a task, protected for this channel, with its message id.
pub fn build(peer: &mut Peer, task: &Task, target: RequestTarget) -> (Vec<u8>, u64) {
    let mut header = peer.header_for(command(&task.op), payload(&task.op));
    header.set_channel_sequence(target.channel_sequence);
    if task.is_replay && is_marked(&task.op) {
        header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
    }
    let id = header.message_id();
    let message = whole(&header, |out| write_body(task, target, out));
    (peer.compound(vec![message], false), id)
}

/// The request that reconnects to a durable Open.
pub fn reconnect(worker: usize, name: usize, file_id: FileId, create_guid: Guid) -> Vec<u8> {
    let flags = DurableFlags::empty();
    let contexts = [RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags }];
    let mut body = Vec::new();
    open_file(&path(worker, name), Disposition::Open, Contexts::Requests(&contexts)).write(&mut body);
    body
}

fn command(op: &Op) -> SmbCommand {
    match op {
        Op::Make { .. } | Op::Open { .. } => SmbCommand::Create,
        Op::Write { .. } => SmbCommand::Write,
        Op::Read { .. } => SmbCommand::Read,
        Op::Resize { .. } | Op::Rename { .. } | Op::Doom => SmbCommand::SetInfo,
        Op::Flush => SmbCommand::Flush,
        Op::Lock { .. } | Op::Unlock { .. } => SmbCommand::Lock,
        Op::Close => SmbCommand::Close,
    }
}

fn payload(op: &Op) -> usize {
    match op {
        Op::Write { data, .. } => data.len(),
        Op::Read { length, .. } => *length,
        _ => 0,
    }
}

/// Whether a replay is marked as one.
fn is_marked(op: &Op) -> bool {
    matches!(command(op), SmbCommand::Create | SmbCommand::Write | SmbCommand::SetInfo)
}

fn write_body(task: &Task, target: RequestTarget, out: &mut Vec<u8>) {
    let file_id = target.file.unwrap_or(FileId::RELATED);
    match &task.op {
        Op::Make { name } => create(task, &path(target.worker, *name), Disposition::Create, out),
        Op::Open { name } => create(task, &path(target.worker, *name), Disposition::Open, out),
        Op::Write { offset, data } => write::Request::new(file_id, *offset as u64, data).write(out),
        Op::Read { offset, length } => {
            read::Request::new(file_id, *offset as u64, *length as u32).write(out);
        }
        // MS-FSCC 2.4.14
        Op::Resize { size } => set(file_id, 20, &(*size as u64).to_le_bytes(), out),
        Op::Rename { to } => set(file_id, 10, &rename_to(&path(target.worker, *to)), out),
        // MS-FSCC 2.4.11
        Op::Doom => set(file_id, 13, &[1], out),
        Op::Flush => flush::Request { reserved1: 0, file_id }.write(out),
        Op::Lock { slot } => {
            range(task, file_id, *slot, LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY, out);
        }
        Op::Unlock { slot } => range(task, file_id, *slot, LockFlags::UNLOCK, out),
        Op::Close => close::Request { flags: close::CloseFlags::empty(), file_id }.write(out),
    }
}

fn open_file<'a>(name: &'a str, disposition: Disposition, contexts: Contexts<'a>) -> OpenFile<'a> {
    OpenFile {
        disposition,
        options: CreateOptions::NON_DIRECTORY_FILE,
        oplock: OplockLevel::Batch,
        contexts,
        ..OpenFile::named(name)
    }
}

fn create(task: &Task, name: &str, disposition: Disposition, out: &mut Vec<u8>) {
    let contexts = [RequestContext::DurableHandleRequestV2 {
        timeout: 0,
        flags: DurableFlags::empty(),
        create_guid: task.create_guid,
    }];
    open_file(name, disposition, Contexts::Requests(&contexts)).write(out);
}

fn set(file_id: FileId, file_info_class: u8, buffer: &[u8], out: &mut Vec<u8>) {
    let info_type = InfoType::File;
    set_info::Request { info_type, file_info_class, additional_information: 0, file_id, buffer }.write(out);
}

// MS-FSCC 2.4.42.2
fn rename_to(name: &str) -> Vec<u8> {
    let name = utf16::encode(name);
    let mut information = vec![0; 16];
    information.extend_from_slice(&(name.len() as u32).to_le_bytes());
    information.extend_from_slice(&name);
    information
}

fn range(task: &Task, file_id: FileId, slot: usize, flags: LockFlags, out: &mut Vec<u8>) {
    let offset = FIRST_LOCKED + slot as u64 * LOCKED;
    let elements = [LockElement { offset, length: LOCKED, flags }];
    let (lock_sequence_index, lock_sequence_number) = task.lock_sequence;
    let locks = WireList::Values(&elements);
    lock::Request { lock_sequence_number, lock_sequence_index, file_id, locks }.write(out);
}
