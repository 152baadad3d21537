//! Arguments and results of every callback.

use super::{ATTRIBUTES, BITS, OWNER, SESSION, STATE, VERIFIER};
use nfs_wire::NfsStat;
use nfs_wire::attr::Bitmap;
use nfs_wire::callback::*;
use nfs_wire::op::copy::WriteResponse;
use nfs_wire::op::open::{Delegation, WhyNone};
use nfs_wire::types::*;
use nfs_wire::xdr::List;

const HANDLE: FileHandle<'static> = FileHandle(b"handle");

/// Every callback, and every arm of its unions.
pub fn callback_arguments() -> Vec<Args<'static>> {
    let recall = |recall| {
        let (layout_type, iomode) = (LayoutType::NfsV41Files, LayoutIoMode::Any);
        Args::LayoutRecall(LayoutRecallArgs { layout_type, iomode, changed: false, recall })
    };
    let file = LayoutRecallFile { fh: HANDLE, offset: 0, length: 1, stateid: STATE };
    let changes = List::of(CHANGES);
    let response =
        WriteResponse { callback_id: None, count: 1, committed: StableHow::FileSync, writeverf: VERIFIER };
    let failed = OffloadInfo::Failed { status: NfsStat::NoSpc, bytes_copied: 3 };
    let offload = |offload_info| Args::Offload(OffloadArgs { fh: HANDLE, stateid: STATE, offload_info });
    vec![
        Args::GetAttr(GetAttrArgs { fh: HANDLE, attr_request: BITS }),
        Args::Recall(RecallArgs { stateid: STATE, truncate: true, fh: HANDLE }),
        recall(LayoutRecall::All),
        recall(LayoutRecall::File(file)),
        recall(LayoutRecall::Fsid(FsId { major: 1, minor: 2 })),
        Args::Notify(NotifyArgs { stateid: STATE, fh: HANDLE, changes }),
        Args::PushDeleg(PushDelegArgs { fh: HANDLE, delegation: Delegation::NoneExt(WhyNone::Cancelled) }),
        Args::RecallAny(RecallAnyArgs {
            objects_to_keep: 5,
            type_mask: Bitmap::of(&[RCA4_TYPE_MASK_RDATA_DLG, RCA4_TYPE_MASK_WDATA_DLG]),
        }),
        Args::RecallableObjAvail(RecallAnyArgs { objects_to_keep: 5, type_mask: Bitmap::EMPTY }),
        Args::RecallSlot(RecallSlotArgs { target_highest_slotid: 3 }),
        Args::Sequence(SequenceArgs {
            sessionid: SESSION,
            sequenceid: 1,
            slotid: 0,
            highest_slotid: 0,
            cachethis: false,
            referring_call_lists: List::of(LISTS),
        }),
        Args::WantsCancelled(WantsCancelledArgs {
            contended_wants_cancelled: true,
            resourced_wants_cancelled: false,
        }),
        Args::NotifyLock(NotifyLockArgs { fh: HANDLE, lock_owner: OWNER }),
        Args::NotifyDeviceId(NotifyDeviceIdArgs { changes }),
        offload(OffloadInfo::Ok(response)),
        offload(failed),
    ]
}

const CHANGES: &[Notify<'static>] = &[Notify { mask: Bitmap::of(&[2]), vals: b"vals" }];

const LISTS: &[ReferringCallList<'static>] = &[ReferringCallList {
    sessionid: SESSION,
    referring_calls: List::of(&[
        ReferringCall { sequenceid: 7, slotid: 1 },
        ReferringCall { sequenceid: 8, slotid: 2 },
    ]),
}];

/// Every result of every callback.
pub fn callback_results() -> Vec<Res<'static>> {
    vec![
        Res::GetAttr(Ok(GetAttrResOk { obj_attributes: ATTRIBUTES })),
        Res::Recall(Ok(())),
        Res::Recall(Err(NfsStat::BadHandle)),
        Res::LayoutRecall(Err(NfsStat::NoMatchingLayout)),
        Res::Notify(Ok(())),
        Res::PushDeleg(Err(NfsStat::RejectDeleg)),
        Res::RecallAny(Ok(())),
        Res::RecallableObjAvail(Ok(())),
        Res::RecallSlot(Ok(())),
        Res::Sequence(Ok(SequenceResOk {
            sessionid: SESSION,
            sequenceid: 1,
            slotid: 0,
            highest_slotid: 15,
            target_highest_slotid: 15,
        })),
        Res::WantsCancelled(Ok(())),
        Res::NotifyLock(Ok(())),
        Res::NotifyDeviceId(Ok(())),
        Res::Offload(Err(NfsStat::BadStateId)),
        Res::Illegal(NfsStat::OpIllegal),
    ]
}
