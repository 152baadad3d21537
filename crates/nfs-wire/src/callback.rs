//! CB_COMPOUND: what a server asks of a client over the back channel (RFC 8881 20, RFC 7862 16).
//!
//! Calls are written with [`crate::compound::CallWriter`] and read with [`Call`]; replies are those of
//! [`crate::compound`].

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
use crate::types::{FileHandle, FsId, LayoutIoMode, LayoutType, Owner, SessionId, StateId};
use crate::xdr::{Decode, Encode, List, opaque};
use wire::Cursor;

xdr_struct! {
    /// CB_GETATTR4args.
    pub struct GetAttrArgs<'a> of "CB_GETATTR4args" {
        /// The file.
        fh: FileHandle<'a>,
        /// Which attributes.
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
        /// Whether the file will be cut to nothing, so that data need not be written back.
        truncate: bool,
        /// The file.
        fh: FileHandle<'a>,
    }
}

xdr_struct! {
    /// A layout of a file that is recalled (layoutrecall_file4).
    pub struct LayoutRecallFile<'a> of "layoutrecall_file4" {
        /// The file.
        fh: FileHandle<'a>,
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// The layout.
        stateid: StateId,
    }
}

xdr_union! {
    /// Which layouts are recalled (layoutrecall4).
    pub enum LayoutRecall<'a> of "layoutrecall4" {
        void {
            /// All.
            All = 3,
        }
        data {
            /// One file's.
            File(LayoutRecallFile<'a>) = 1,
            /// All of a file system.
            Fsid(FsId) = 2,
        }
    }
}

xdr_struct! {
    /// CB_LAYOUTRECALL4args.
    pub struct LayoutRecallArgs<'a> of "CB_LAYOUTRECALL4args" {
        /// Kind of layout.
        layout_type: LayoutType,
        /// What for.
        iomode: LayoutIoMode,
        /// Whether data must not be written to the devices any more.
        changed: bool,
        /// Which.
        recall: LayoutRecall<'a>,
    }
}

xdr_struct! {
    /// What changed, by kinds of change (notify4).
    pub struct Notify<'a> of "notify4" {
        /// Which kinds.
        mask: Bitmap,
        /// The changes, in the order of the kinds.
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
        /// What changed.
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
        /// How many the client may keep.
        objects_to_keep: u32,
        /// Kinds of objects, by the numbers RCA4_TYPE_MASK_*.
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
        /// The highest slot that the client shall use.
        target_highest_slotid: u32,
    }
}

xdr_struct! {
    /// A call of the client that a callback follows from (referring_call4).
    pub struct ReferringCall of "referring_call4" {
        /// Its number.
        sequenceid: u32,
        /// Its slot.
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
        /// Counts the requests of the slot.
        sequenceid: u32,
        /// The slot of the back channel.
        slotid: u32,
        /// The highest slot that the server uses now.
        highest_slotid: u32,
        /// Whether the reply shall be kept for a retry.
        cachethis: bool,
        /// Calls whose replies the client must see first.
        referring_call_lists: List<'a, ReferringCallList<'a>>,
    }
}

xdr_struct! {
    /// CB_SEQUENCE4resok.
    pub struct SequenceResOk of "CB_SEQUENCE4resok" {
        /// The session.
        sessionid: SessionId,
        /// The number of the request.
        sequenceid: u32,
        /// The slot.
        slotid: u32,
        /// The highest slot there is.
        highest_slotid: u32,
        /// The highest slot that the server should use.
        target_highest_slotid: u32,
    }
}

xdr_struct! {
    /// CB_WANTS_CANCELLED4args.
    pub struct WantsCancelledArgs of "CB_WANTS_CANCELLED4args" {
        /// Wants that waited for others.
        contended_wants_cancelled: bool,
        /// Wants that waited for room.
        resourced_wants_cancelled: bool,
    }
}

xdr_struct! {
    /// CB_NOTIFY_LOCK4args.
    pub struct NotifyLockArgs<'a> of "CB_NOTIFY_LOCK4args" {
        /// The file.
        fh: FileHandle<'a>,
        /// Who may now get the lock that was denied.
        lock_owner: Owner<'a>,
    }
}

xdr_struct! {
    /// CB_NOTIFY_DEVICEID4args.
    pub struct NotifyDeviceIdArgs<'a> of "CB_NOTIFY_DEVICEID4args" {
        /// What changed.
        changes: List<'a, Notify<'a>>,
    }
}

/// What became of a copy (offload_info4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadInfo {
    /// It is done.
    Ok(WriteResponse),
    /// It failed.
    Failed {
        /// Why.
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
        /// What became of it.
        offload_info: OffloadInfo,
    }
}

operations! {
    /// Numbers of operations (nfs_cb_opnum4).
    OpNum;
    /// An operation that is asked for (nfs_cb_argop4).
    Args;
    /// What became of an operation (nfs_cb_resop4).
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

/// CB_COMPOUND4args, with its operations still to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// Comes back in the reply.
    pub tag: &'a [u8],
    /// Minor version of all operations.
    pub minorversion: u32,
    /// The identifier that 4.0 has.
    pub callback_ident: u32,
    /// How many operations there are said to be.
    pub count: u32,
    /// The operations one after the other.
    pub argarray: &'a [u8],
}

impl<'a> Call<'a> {
    /// Reads the arguments of the procedure CB_COMPOUND, up to the first operation.
    ///
    /// # Errors
    /// [`Malformed`] for a call cut short or a tag longer than [`MAX_TAG`].
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

    /// The operations from the first on.
    #[must_use]
    pub fn operations(&self) -> Operations<'a, Args<'a>> {
        Operations::new(self.argarray, self.minorversion, self.count)
    }
}
