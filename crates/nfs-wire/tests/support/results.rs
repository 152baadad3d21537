//! Results of every operation.

use super::*;
use nfs_wire::NfsStat;
use nfs_wire::attr::{Ace, AceFlags, AceMask, AceType};
use nfs_wire::op::*;
use nfs_wire::xdr::List;

const ACE: Ace<'static> = Ace {
    ace_type: AceType::Allowed,
    flag: AceFlags::empty(),
    access_mask: AceMask::READ_DATA,
    who: b"EVERYONE@",
};
const WRITTEN: copy::WriteResponse = copy::WriteResponse {
    callback_id: Some(STATE),
    count: 9,
    committed: StableHow::Unstable,
    writeverf: VERIFIER,
};

/// Every result of every operation.
pub fn results() -> Vec<Res<'static>> {
    [with_values(), delegations(), sessions(), of_4_2(), layouts(), failures()].concat()
}

fn with_values() -> Vec<Res<'static>> {
    use nfs_wire::op::access::AccessBits;
    let entries = &[
        readdir::ReaddirEntry { cookie: 3, name: b"a", attrs: ATTRIBUTES },
        readdir::ReaddirEntry { cookie: 4, name: b"", attrs: Fattr { mask: Bitmap::EMPTY, values: &[] } },
    ];
    let denied = lock::Denied { offset: 1, length: 2, locktype: LockType::Write, owner: OWNER };
    vec![
        Res::Access(Ok(access::ResOk { supported: AccessBits::all(), access: AccessBits::READ })),
        Res::Close(Ok(close::ResOk { open_stateid: StateId::INVALID })),
        Res::Commit(Ok(commit::ResOk { writeverf: VERIFIER })),
        Res::Create(Ok(create::ResOk { cinfo: CHANGE, attrset: BITS })),
        Res::GetAttr(Ok(getattr::ResOk { obj_attributes: ATTRIBUTES })),
        Res::GetFh(Ok(filehandle::GetResOk { object: FileHandle(b"handle") })),
        Res::Link(Ok(names::Changed { cinfo: CHANGE })),
        Res::Remove(Ok(names::Changed { cinfo: CHANGE })),
        Res::Rename(Ok(names::RenameResOk { source_cinfo: CHANGE, target_cinfo: CHANGE })),
        Res::ReadLink(Ok(names::ReadlinkResOk { link: b"to" })),
        Res::Lock(lock::Res::Ok(lock::ResOk { lock_stateid: STATE })),
        Res::Lock(lock::Res::Denied(denied)),
        Res::LockT(lock::Res::Ok(())),
        Res::LockT(lock::Res::Denied(denied)),
        Res::LockU(Ok(lock::ResOk { lock_stateid: STATE })),
        Res::OpenDowngrade(Ok(open::DowngradeResOk { open_stateid: STATE })),
        Res::OpenConfirm(Ok(v40::OpenConfirmResOk { open_stateid: STATE })),
        Res::Read(Ok(read::ResOk { eof: true, data: b"bytes" })),
        Res::ReadDir(Ok(readdir::ResOk {
            cookieverf: VERIFIER,
            entries: readdir::Entries::of(entries),
            eof: true,
        })),
        Res::SecInfo(Ok(secinfo::ResOk { flavors: List::of(FLAVORS) })),
        Res::SecInfoNoName(Ok(secinfo::ResOk { flavors: List::EMPTY })),
        Res::SetAttr(setattr::Res { status: NfsStat::Ok, attrsset: BITS }),
        Res::SetAttr(setattr::Res { status: NfsStat::NoSpc, attrsset: Bitmap::EMPTY }),
        Res::SetClientId(v40::SetClientIdRes::Ok(v40::SetClientIdConfirm {
            clientid: 1,
            setclientid_confirm: VERIFIER,
        })),
        Res::SetClientId(v40::SetClientIdRes::InUse(NetAddr {
            netid: NetName(b"tcp"),
            addr: NetName(b"10.0.0.1.8.1"),
        })),
        Res::Write(Ok(write::ResOk { count: 7, committed: StableHow::FileSync, writeverf: VERIFIER })),
    ]
}

const FLAVORS: &[secinfo::SecInfo<'static>] = &[
    secinfo::SecInfo::Sys,
    secinfo::SecInfo::None,
    secinfo::SecInfo::Gss(secinfo::GssInfo {
        oid: b"oid",
        qop: 0,
        service: backchannel_ctl::GssService::Privacy,
    }),
    secinfo::SecInfo::Other(390_004),
];

fn delegations() -> Vec<Res<'static>> {
    use open::{Delegation, ReadDelegation, SpaceLimit, WhyNone, WriteDelegation};
    let write = |space_limit| {
        Delegation::Write(WriteDelegation { stateid: STATE, recall: false, space_limit, permissions: ACE })
    };
    let all = [
        Delegation::None,
        Delegation::Read(ReadDelegation { stateid: STATE, recall: true, permissions: ACE }),
        write(SpaceLimit::Size(u64::MAX)),
        write(SpaceLimit::Blocks(open::ModifiedLimit { num_blocks: 3, bytes_per_block: 4096 })),
        Delegation::NoneExt(WhyNone::NotWanted),
        Delegation::NoneExt(WhyNone::Contention(true)),
        Delegation::NoneExt(WhyNone::Resource(false)),
        Delegation::NoneExt(WhyNone::IsDir),
        Delegation::NoneExt(WhyNone::Other(99)),
        Delegation::ReadAttrs(ReadDelegation { stateid: STATE, recall: false, permissions: ACE }),
        Delegation::WriteAttrs(WriteDelegation {
            stateid: STATE,
            recall: false,
            space_limit: SpaceLimit::Size(1),
            permissions: ACE,
        }),
    ];
    let open = all.map(|delegation| {
        let rflags = open::ResultFlags::LOCKTYPE_POSIX;
        Res::Open(Ok(open::ResOk { stateid: STATE, cinfo: CHANGE, rflags, attrset: BITS, delegation }))
    });
    let granted = delegation::DirDelegation {
        cookieverf: VERIFIER,
        stateid: STATE,
        notification: BITS,
        child_attributes: BITS,
        dir_attributes: BITS,
    };
    let others = [
        Res::WantDelegation(Ok(all[1])),
        Res::GetDirDelegation(Ok(delegation::DirResOk::Granted(granted))),
        Res::GetDirDelegation(Ok(delegation::DirResOk::Unavail(false))),
        Res::DelegReturn(Ok(())),
    ];
    open.into_iter().chain(others).collect()
}

fn sessions() -> Vec<Res<'static>> {
    use exchange_id::{ProtectOps, ServerOwner, SsvInfo, StateProtectRes};
    let ops = ProtectOps { must_enforce: BITS, must_allow: BITS };
    let ssv = SsvInfo { ops, hash_alg: 0, encr_alg: 1, ssv_len: 32, window: 2, handles: List::of(&[b"h"]) };
    let exchange = |state_protect, server_impl_id| {
        Res::ExchangeId(Ok(exchange_id::ResOk {
            clientid: 1,
            sequenceid: 2,
            flags: exchange_id::ExchangeFlags::CONFIRMED_R,
            state_protect,
            server_owner: ServerOwner { minor_id: 0, major_id: Identity(b"server") },
            server_scope: Identity(b"scope"),
            server_impl_id,
        }))
    };
    let channel = create_session::ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: 1,
        maxresponsesize: 2,
        maxresponsesize_cached: 3,
        maxoperations: 4,
        maxrequests: 5,
        rdma_ird: None,
    };
    vec![
        exchange(StateProtectRes::None, None),
        exchange(StateProtectRes::MachCred(ops), Some(ImplId { domain: b"d", name: b"n", date: TIME })),
        exchange(StateProtectRes::Ssv(ssv), None),
        Res::CreateSession(Ok(create_session::ResOk {
            sessionid: SESSION,
            sequence: 1,
            flags: create_session::SessionFlags::PERSIST,
            fore_chan_attrs: channel,
            back_chan_attrs: channel,
        })),
        Res::BindConnToSession(Ok(bind_conn_to_session::ResOk {
            sessid: SESSION,
            dir: bind_conn_to_session::FromServer::Both,
            use_conn_in_rdma_mode: false,
        })),
        Res::Sequence(Ok(sequence::ResOk {
            sessionid: SESSION,
            sequenceid: 1,
            slotid: 2,
            highest_slotid: 63,
            target_highest_slotid: 63,
            status_flags: sequence::StatusFlags::CB_PATH_DOWN,
        })),
        Res::SetSsv(Ok(set_ssv::ResOk { digest: b"proof" })),
        Res::TestStateId(Ok(stateid::TestResOk {
            status_codes: List::of(&[NfsStat::Ok, NfsStat::BadStateId]),
        })),
    ]
}

fn of_4_2() -> Vec<Res<'static>> {
    use read_plus::{Content, Data, Hole};
    let requirements = copy::Requirements { consecutive: true, synchronous: true };
    let pieces = &[
        Content::Data(Data { offset: 0, data: b"abc" }),
        Content::Hole(Hole { offset: 4096, length: 8192 }),
    ];
    vec![
        Res::Copy(copy::Res::Ok(copy::ResOk { response: WRITTEN, requirements })),
        Res::Copy(copy::Res::NoReqs(requirements)),
        Res::CopyNotify(Ok(copy::NotifyResOk {
            lease_time: TIME,
            stateid: STATE,
            source_server: List::of(&[NetLoc::Name(b"host")]),
        })),
        Res::OffloadStatus(Ok(copy::OffloadStatusResOk { count: 1, complete: Some(NfsStat::Io) })),
        Res::IoAdvise(Ok(io_advise::ResOk { hints: BITS })),
        Res::ReadPlus(Ok(read_plus::ResOk { eof: false, contents: List::of(pieces) })),
        Res::Seek(Ok(seek::ResOk { eof: false, offset: 4096 })),
        Res::WriteSame(Ok(WRITTEN)),
        Res::GetXattr(Ok(xattr::GetResOk { value: b"value" })),
        Res::SetXattr(Ok(xattr::Changed { info: CHANGE })),
        Res::ListXattrs(Ok(xattr::ListResOk { cookie: 9, names: List::of(&[b"a", b"bcd"]), eof: true })),
        Res::RemoveXattr(Ok(xattr::Changed { info: CHANGE })),
    ]
}

fn layouts() -> Vec<Res<'static>> {
    let device_addr = layout::DeviceAddr { layout_type: LayoutType::NfsV41Files, addr_body: b"addr" };
    let one = layout::Layout {
        offset: 0,
        length: 1,
        iomode: LayoutIoMode::Read,
        content_type: LayoutType::Osd2Objects,
        content_body: b"layout",
    };
    let layout = List::of(Box::leak(Box::new([one])));
    vec![
        Res::GetDeviceInfo(layout::DeviceInfoRes::Ok(layout::DeviceInfoResOk {
            device_addr,
            notification: BITS,
        })),
        Res::GetDeviceInfo(layout::DeviceInfoRes::TooSmall(4096)),
        Res::GetDeviceList(Ok(layout::DeviceListResOk {
            cookie: 1,
            cookieverf: VERIFIER,
            deviceid_list: List::of(&[[7; 16]]),
            eof: true,
        })),
        Res::LayoutCommit(Ok(layout::CommitResOk { newsize: Some(4) })),
        Res::LayoutGet(layout::GetRes::Ok(layout::GetResOk {
            return_on_close: true,
            stateid: STATE,
            layout,
        })),
        Res::LayoutGet(layout::GetRes::TryLater(true)),
        Res::LayoutReturn(Ok(layout::ReturnResOk { stateid: None })),
    ]
}

fn failures() -> Vec<Res<'static>> {
    vec![
        Res::Access(Err(NfsStat::Access)),
        Res::Lock(lock::Res::Failed(NfsStat::Delay)),
        Res::LockT(lock::Res::Failed(NfsStat::Inval)),
        Res::Copy(copy::Res::Failed(NfsStat::NotSupp)),
        Res::LayoutGet(layout::GetRes::Failed(NfsStat::LayoutUnavailable)),
        Res::GetDeviceInfo(layout::DeviceInfoRes::Failed(NfsStat::NotSupp)),
        Res::SetClientId(v40::SetClientIdRes::Failed(NfsStat::NotSupp)),
        Res::Read(Err(NfsStat::Unknown(77_777))),
        Res::Illegal(NfsStat::OpIllegal),
    ]
}
