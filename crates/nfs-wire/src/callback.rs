//! CB_COMPOUND: requests of a server to a client over the back channel (RFC 8881 20, RFC 7862 16).
//!
//! Calls are written with [`crate::compound::CallWriter`] and read with [`Call`]. Replies are
//! those of [`crate::compound`].

use crate::Malformed;
use crate::attr::{Bitmap, Fattr};
use crate::compound::Operations;
use crate::limits::MAX_TAG;
use crate::macros::{xdr_struct, xdr_union};
use crate::op::copy::WriteResponse;
use crate::op::open::Delegation;
use crate::op::{ILLEGAL, Operation, operations};
use crate::op::{Outcome, Plain};
use crate::status::NfsStat;
use crate::types::{FileHandle, FsId, LayoutIoMode, LayoutType, SessionId, StateId, StateOwner};
use crate::xdr::{Decode, Encode, List, opaque};
use wire::Cursor;

xdr_struct! {
    /// CB_GETATTR4args.
    pub struct GetAttrArgs<'a> of "CB_GETATTR4args" {
        /// The file.
        fh: FileHandle<'a>,
        /// The requested attributes.
        attr_request: Bitmap,
    }
}

xdr_struct! {
    /// CB_GETATTR4resok.
    pub struct GetAttrResOk<'a> of "CB_GETATTR4resok" {
        /// The attributes.
        obj_attributes: Fattr<'a>,
    }
}

xdr_struct! {
    /// CB_RECALL4args.
    pub struct RecallArgs<'a> of "CB_RECALL4args" {
        /// The delegation.
        stateid: StateId,
        /// Whether the file will be truncated to nothing, so that data need not be written back.
        truncate: bool,
        /// The file.
        fh: FileHandle<'a>,
    }
}

xdr_struct! {
    /// The layouts of a file that are recalled (layoutrecall_file4).
    pub struct LayoutRecallFile<'a> of "layoutrecall_file4" {
        /// The file.
        fh: FileHandle<'a>,
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The layout.
        stateid: StateId,
    }
}

xdr_union! {
    /// The layouts that are recalled (layoutrecall4).
    pub enum LayoutRecall<'a> of "layoutrecall4" {
        void {
            /// All layouts.
            All = 3,
        }
        data {
            /// The layouts of one file.
            File(LayoutRecallFile<'a>) = 1,
            /// All layouts of a file system.
            Fsid(FsId) = 2,
        }
    }
}

xdr_struct! {
    /// CB_LAYOUTRECALL4args.
    pub struct LayoutRecallArgs<'a> of "CB_LAYOUTRECALL4args" {
        /// The layout type.
        layout_type: LayoutType,
        /// The I/O mode.
        iomode: LayoutIoMode,
        /// Whether data must no longer be written to the devices.
        changed: bool,
        /// The layouts that are recalled.
        recall: LayoutRecall<'a>,
    }
}

xdr_struct! {
    /// The changes to an object, by type of change (notify4).
    pub struct Notify<'a> of "notify4" {
        /// The types of changes.
        mask: Bitmap,
        /// The changes, in the order of their types.
        vals: &'a [u8],
    }
}

xdr_struct! {
    /// CB_NOTIFY4args.
    pub struct NotifyArgs<'a> of "CB_NOTIFY4args" {
        /// The delegation of the directory.
        stateid: StateId,
        /// The directory.
        fh: FileHandle<'a>,
        /// The changes.
        changes: List<'a, Notify<'a>>,
    }
}

xdr_struct! {
    /// CB_PUSH_DELEG4args.
    pub struct PushDelegArgs<'a> of "CB_PUSH_DELEG4args" {
        /// The file.
        fh: FileHandle<'a>,
        /// The delegation.
        delegation: Delegation<'a>,
    }
}

xdr_struct! {
    /// CB_RECALL_ANY4args and CB_RECALLABLE_OBJ_AVAIL4args.
    pub struct RecallAnyArgs of "CB_RECALL_ANY4args" {
        /// Number of objects that the client may keep.
        objects_to_keep: u32,
        /// The types of objects, by the numbers RCA4_TYPE_MASK_*.
        type_mask: Bitmap,
    }
}

/// RCA4_TYPE_MASK_RDATA_DLG: READ delegations of files, in [`RecallAnyArgs::type_mask`].
pub const RCA4_TYPE_MASK_RDATA_DLG: u32 = 0;
/// RCA4_TYPE_MASK_WDATA_DLG: WRITE delegations of files, in [`RecallAnyArgs::type_mask`].
pub const RCA4_TYPE_MASK_WDATA_DLG: u32 = 1;

xdr_struct! {
    /// CB_RECALL_SLOT4args.
    pub struct RecallSlotArgs of "CB_RECALL_SLOT4args" {
        /// The highest slot that the client should use.
        target_highest_slotid: u32,
    }
}

xdr_struct! {
    /// A call of the client that a callback depends on (referring_call4).
    pub struct ReferringCall of "referring_call4" {
        /// The sequence ID of the call.
        sequenceid: u32,
        /// The slot of the call.
        slotid: u32,
    }
}

xdr_struct! {
    /// Calls of one session (referring_call_list4).
    pub struct ReferringCallList<'a> of "referring_call_list4" {
        /// The session.
        sessionid: SessionId,
        /// The calls.
        referring_calls: List<'a, ReferringCall>,
    }
}

xdr_struct! {
    /// CB_SEQUENCE4args.
    pub struct SequenceArgs<'a> of "CB_SEQUENCE4args" {
        /// The session.
        sessionid: SessionId,
        /// The sequence ID of the request in its slot.
        sequenceid: u32,
        /// The slot of the back channel.
        slotid: u32,
        /// The highest slot that the server uses now.
        highest_slotid: u32,
        /// Whether to keep the reply for a retry.
        cachethis: bool,
        /// Calls whose replies the client must receive first.
        referring_call_lists: List<'a, ReferringCallList<'a>>,
    }
}

xdr_struct! {
    /// CB_SEQUENCE4resok.
    pub struct SequenceResOk of "CB_SEQUENCE4resok" {
        /// The session.
        sessionid: SessionId,
        /// The sequence ID of the request.
        sequenceid: u32,
        /// The slot.
        slotid: u32,
        /// The highest slot that exists.
        highest_slotid: u32,
        /// The highest slot that the server should use.
        target_highest_slotid: u32,
    }
}

xdr_struct! {
    /// CB_WANTS_CANCELLED4args.
    pub struct WantsCancelledArgs of "CB_WANTS_CANCELLED4args" {
        /// Whether requests that waited for other clients are cancelled.
        contended_wants_cancelled: bool,
        /// Whether requests that waited for resources are cancelled.
        resourced_wants_cancelled: bool,
    }
}

xdr_struct! {
    /// CB_NOTIFY_LOCK4args.
    pub struct NotifyLockArgs<'a> of "CB_NOTIFY_LOCK4args" {
        /// The file.
        fh: FileHandle<'a>,
        /// The owner that may now get the lock that was denied.
        lock_owner: StateOwner<'a>,
    }
}

xdr_struct! {
    /// CB_NOTIFY_DEVICEID4args.
    pub struct NotifyDeviceIdArgs<'a> of "CB_NOTIFY_DEVICEID4args" {
        /// The changes.
        changes: List<'a, Notify<'a>>,
    }
}

/// The result of a copy (offload_info4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadInfo {
    /// The copy is complete.
    Ok(WriteResponse),
    /// It failed.
    Failed {
        /// The error.
        status: NfsStat,
        /// Bytes that were copied.
        bytes_copied: u64,
    },
}

impl Encode for OffloadInfo {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            OffloadInfo::Ok(response) => {
                NfsStat::Ok.encode(out);
                response.encode(out);
            }
            OffloadInfo::Failed { status, bytes_copied } => {
                status.encode(out);
                bytes_copied.encode(out);
            }
        }
    }
}

impl Decode<'_> for OffloadInfo {
    fn decode(r: &mut Cursor<'_>) -> Result<Self, Malformed> {
        match NfsStat::decode(r)? {
            NfsStat::Ok => WriteResponse::decode(r).map(OffloadInfo::Ok),
            status => Ok(OffloadInfo::Failed { status, bytes_copied: u64::decode(r)? }),
        }
    }
}

xdr_struct! {
    /// CB_OFFLOAD4args.
    pub struct OffloadArgs<'a> of "CB_OFFLOAD4args" {
        /// The destination.
        fh: FileHandle<'a>,
        /// The copy.
        stateid: StateId,
        /// The result of the copy.
        offload_info: OffloadInfo,
    }
}

operations! {
    /// Numbers of operations (nfs_cb_opnum4).
    OpNum;
    /// The arguments of an operation (nfs_cb_argop4).
    Args;
    /// The result of an operation (nfs_cb_resop4).
    Res;
    GetAttr = 3, "CB_GETATTR": (GetAttrArgs<'a>) -> Result<GetAttrResOk<'a>, NfsStat>;
    Recall = 4, "CB_RECALL": (RecallArgs<'a>) -> Plain;
    LayoutRecall = 5, "CB_LAYOUTRECALL": (LayoutRecallArgs<'a>) -> Plain;
    Notify = 6, "CB_NOTIFY": (NotifyArgs<'a>) -> Plain;
    PushDeleg = 7, "CB_PUSH_DELEG": (PushDelegArgs<'a>) -> Plain;
    RecallAny = 8, "CB_RECALL_ANY": (RecallAnyArgs) -> Plain;
    RecallableObjAvail = 9, "CB_RECALLABLE_OBJ_AVAIL": (RecallAnyArgs) -> Plain;
    RecallSlot = 10, "CB_RECALL_SLOT": (RecallSlotArgs) -> Plain;
    Sequence = 11, "CB_SEQUENCE": (SequenceArgs<'a>) -> Result<SequenceResOk, NfsStat>;
    WantsCancelled = 12, "CB_WANTS_CANCELLED": (WantsCancelledArgs) -> Plain;
    NotifyLock = 13, "CB_NOTIFY_LOCK": (NotifyLockArgs<'a>) -> Plain;
    NotifyDeviceId = 14, "CB_NOTIFY_DEVICEID": (NotifyDeviceIdArgs<'a>) -> Plain;
    Offload = 15, "CB_OFFLOAD": (OffloadArgs<'a>) -> Plain;
}

impl<'a> Operation<'a> for Args<'a> {
    fn illegal(number: u32) -> Self {
        Args::Illegal(number)
    }

    fn is_known(number: u32, minor_version: u32) -> bool {
        match minor_version {
            0 => (3..=4).contains(&number),
            1 => (3..=14).contains(&number),
            _ => (3..=15).contains(&number),
        }
    }
}

/// CB_COMPOUND4args. Its operations are not parsed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// The tag, which the reply repeats.
    pub tag: &'a [u8],
    /// The minor version of all operations.
    pub minorversion: u32,
    /// The callback identifier of 4.0.
    pub callback_ident: u32,
    /// The announced number of operations.
    pub count: u32,
    /// The encoded operations.
    pub argarray: &'a [u8],
}

impl<'a> Call<'a> {
    /// Reads the arguments of the procedure CB_COMPOUND, up to the first operation.
    ///
    /// # Errors
    /// [`Malformed`] for a call that is cut short or has a tag longer than [`MAX_TAG`].
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Cursor::new(body);
        let at = |field| move |e: Malformed| e.within("CB_COMPOUND4args", field);
        Ok(Call {
            tag: opaque(&mut r, MAX_TAG).map_err(at("tag"))?,
            minorversion: u32::decode(&mut r).map_err(at("minorversion"))?,
            callback_ident: u32::decode(&mut r).map_err(at("callback_ident"))?,
            count: u32::decode(&mut r).map_err(at("argarray"))?,
            argarray: r.rest(),
        })
    }

    /// The operations, from the first one.
    #[must_use]
    pub fn operations(&self) -> Operations<'a, Args<'a>> {
        Operations::new(self.argarray, self.minorversion, self.count)
    }
}
