//! The messages of two clients with the same files: originals and replays (MS-SMB2 3.2.4, 3.2.7.1).

use smb_wire::create::{Access, CreateOptions, Disposition, OplockLevel, ShareAccess};
use smb_wire::create_context::{
    Contexts, DurableFlags, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext,
};
use smb_wire::header::Flags;
use smb_wire::lock::{LockElement, LockFlags};
use smb_wire::{
    FileId, Guid, Header, LeaseKey, SmbCommand, WireList, close, lock, oplock_break, read, write,
};

use testkit::smb::Peer;
use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;

/// The bytes of a cell.
pub const CELL: u64 = 8;
/// Byte ranges are beyond all data if clients keep data in memory, so that they do not conflict there.
const FAR: u64 = 1 << 40;

/// The parameters of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenParameters {
    pub file: usize,
    pub writes: bool,
    /// Whether others may read and write.
    pub shares: (bool, bool),
    /// The lease key and the requested state.
    pub lease: Option<(LeaseKey, LeaseState)>,
    /// The handle is requested to outlive the server.
    pub persistent: bool,
}

/// An operation on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Open(OpenParameters),
    Read {
        file: usize,
        cell: usize,
    },
    Write {
        file: usize,
        cell: usize,
        value: u64,
    },
    /// Writes a cached value back.
    WriteBack {
        file: usize,
        cell: usize,
        value: u64,
    },
    Lock {
        slot: usize,
        exclusive: bool,
    },
    Unlock {
        slot: usize,
    },
    Close,
    Acknowledge {
        key: LeaseKey,
        state: LeaseState,
    },
}

/// One operation with the fields that identify its replays.
#[derive(Debug, Clone)]
pub struct Task {
    pub op: Op,
    /// The CreateGuid of a CREATE.
    pub create_guid: Guid,
    /// The epoch that the client knows.
    pub epoch: u16,
    /// LockSequenceIndex and LockSequenceNumber.
    pub lock_sequence: (u32, u8),
    /// It was sent before, with an unknown result.
    pub is_replay: bool,
}

/// The cells of a byte range: a number for each slot, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellLayout {
    pub file: Option<FileId>,
    pub channel_sequence: u16,
    pub slot_cells: usize,
}

pub fn path(file: usize) -> String {
    format!("file {file}")
}

/// The request for a task, protected for this channel, with its message id.
pub fn build(peer: &mut Peer, task: &Task, layout: CellLayout) -> (Vec<u8>, u64) {
    let mut header = peer.header_for(command(&task.op), CELL as usize);
    header.set_channel_sequence(layout.channel_sequence);
    // MS-SMB2 3.2.4.1.5
    if task.is_replay && matches!(header.command(), SmbCommand::Create | SmbCommand::Write) {
        header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
    }
    let id = header.message_id();
    let message = whole(&header, |out| write_body(task, layout, out));
    (peer.compound(vec![message], false), id)
}

/// Whether a message acknowledges a break of this lease.
pub fn acknowledges(message: &[u8], key: LeaseKey) -> bool {
    let is_answer = Header::parse(message).is_ok_and(|header| header.command() == SmbCommand::OplockBreak);
    is_answer
        && matches!(
            oplock_break::Request::parse(message),
            Ok(oplock_break::Request::Lease(lease)) if lease.key == key
        )
}

fn command(op: &Op) -> SmbCommand {
    match op {
        Op::Open(_) => SmbCommand::Create,
        Op::Read { .. } => SmbCommand::Read,
        Op::Write { .. } | Op::WriteBack { .. } => SmbCommand::Write,
        Op::Lock { .. } | Op::Unlock { .. } => SmbCommand::Lock,
        Op::Close => SmbCommand::Close,
        Op::Acknowledge { .. } => SmbCommand::OplockBreak,
    }
}

fn write_body(task: &Task, layout: CellLayout, out: &mut Vec<u8>) {
    let file_id = layout.file.unwrap_or(FileId::RELATED);
    match task.op {
        Op::Open(wish) => {
            let mut flags = DurableFlags::empty();
            flags.set(DurableFlags::PERSISTENT, wish.persistent);
            let create_guid = task.create_guid;
            let durable = RequestContext::DurableHandleRequestV2 { timeout: 0, flags, create_guid };
            create(wish, task.epoch, durable, out);
        }
        Op::Read { cell, .. } => read::Request::new(file_id, cell as u64 * CELL, CELL as u32).write(out),
        Op::Write { cell, value, .. } | Op::WriteBack { cell, value, .. } => {
            write::Request::new(file_id, cell as u64 * CELL, &value.to_le_bytes()).write(out);
        }
        Op::Lock { slot, exclusive } => {
            let kind = if exclusive { LockFlags::EXCLUSIVE_LOCK } else { LockFlags::SHARED_LOCK };
            range(task, file_id, (slot, layout.slot_cells), kind | LockFlags::FAIL_IMMEDIATELY, out);
        }
        Op::Unlock { slot } => range(task, file_id, (slot, layout.slot_cells), LockFlags::UNLOCK, out),
        Op::Close => close::Request { flags: close::CloseFlags::empty(), file_id }.write(out),
        Op::Acknowledge { key, state } => {
            oplock_break::Request::Lease(oplock_break::AcknowledgedLease { key, state }).write(out);
        }
    }
}

/// The body of the request that reconnects to a handle (MS-SMB2 3.2.4.4).
pub fn reconnect(
    wish: OpenParameters,
    epoch: u16,
    (file_id, create_guid): (FileId, Guid),
    out: &mut Vec<u8>,
) {
    let mut flags = DurableFlags::empty();
    flags.set(DurableFlags::PERSISTENT, wish.persistent);
    create(wish, epoch, RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags }, out);
}

fn create(wish: OpenParameters, epoch: u16, durable: RequestContext<'_>, out: &mut Vec<u8>) {
    let (mut contexts, mut oplock) = (vec![durable], OplockLevel::None);
    if let Some((key, state)) = wish.lease {
        let v2 = Some(LeaseV2 { parent_key: LeaseKey([0; 16]), epoch });
        contexts.push(RequestContext::Lease(Lease { key, state, flags: LeaseFlags::empty(), v2 }));
        oplock = OplockLevel::Lease;
    }
    let mut access = Access::FILE_GENERIC_READ;
    access.set(Access::FILE_GENERIC_WRITE, wish.writes);
    let access = access | Access::FILE_GENERIC_READ;
    let mut share = ShareAccess::empty();
    share.set(ShareAccess::READ, wish.shares.0);
    share.set(ShareAccess::WRITE, wish.shares.1);
    OpenFile {
        access,
        share,
        disposition: Disposition::Open,
        options: CreateOptions::NON_DIRECTORY_FILE,
        oplock,
        contexts: Contexts::Requests(&contexts),
        ..OpenFile::named(&path(wish.file))
    }
    .write(out);
}

fn range(task: &Task, file_id: FileId, (slot, cells): (usize, usize), flags: LockFlags, out: &mut Vec<u8>) {
    let length = cells.max(1) as u64 * CELL;
    let offset = slot as u64 * length + if cells == 0 { FAR } else { 0 };
    let elements = [LockElement { offset, length, flags }];
    let (lock_sequence_index, lock_sequence_number) = task.lock_sequence;
    let locks = WireList::Values(&elements);
    lock::Request { lock_sequence_number, lock_sequence_index, file_id, locks }.write(out);
}
