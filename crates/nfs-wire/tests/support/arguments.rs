//! Arguments of every operation.

use super::*;
use nfs_wire::op::*;
use nfs_wire::xdr::List;

const NETADDR: NetAddr<'static> = NetAddr { netid: NetName(b"tcp"), addr: NetName(b"10.0.0.1.8.1") };
const OPS: exchange_id::ProtectOps =
    exchange_id::ProtectOps { must_enforce: BITS, must_allow: Bitmap::EMPTY };
const CHANNEL: create_session::ChannelAttrs = create_session::ChannelAttrs {
    headerpadsize: 0,
    maxrequestsize: 1_049_620,
    maxresponsesize: 1_049_480,
    maxresponsesize_cached: 7584,
    maxoperations: 8,
    maxrequests: 64,
    rdma_ird: Some(3),
};
const SEC_PARMS: &[backchannel_ctl::SecParms<'static>] = &[
    backchannel_ctl::SecParms::None,
    backchannel_ctl::SecParms::Gss(backchannel_ctl::GssHandles {
        service: backchannel_ctl::GssService::Integrity,
        handle_from_server: b"s",
        handle_from_client: b"client",
    }),
];
const UPDATE: layout::LayoutUpdate<'static> =
    layout::LayoutUpdate { update_type: LayoutType::BlockVolume, body: b"update" };

/// Every operation, and every arm of its unions.
pub fn arguments() -> Vec<Args<'static>> {
    [names_and_attributes(), opens(), data(), locks_and_state(), sessions(), layouts(), v40()].concat()
}

fn names_and_attributes() -> Vec<Args<'static>> {
    use create::CreateType;
    let create = |objtype| Args::Create(create::Args { objtype, objname: b"name", createattrs: ATTRIBUTES });
    let device = SpecData { specdata1: 8, specdata2: 1 };
    vec![
        Args::Access(access::Args { access: access::AccessBits::all() }),
        create(CreateType::Dir),
        create(CreateType::Lnk(b"to")),
        create(CreateType::Blk(device)),
        create(CreateType::Chr(device)),
        create(CreateType::Sock),
        create(CreateType::Fifo),
        create(CreateType::Other(1)),
        Args::GetAttr(getattr::Args { attr_request: BITS }),
        Args::GetFh,
        Args::Link(names::LinkArgs { newname: b"new" }),
        Args::Lookup(names::LookupArgs { objname: b"" }),
        Args::LookupP,
        Args::Verify(getattr::VerifyArgs { obj_attributes: ATTRIBUTES }),
        Args::NVerify(getattr::VerifyArgs { obj_attributes: Fattr::default() }),
        Args::OpenAttr(names::OpenattrArgs { createdir: true }),
        Args::PutFh(filehandle::PutArgs { object: FileHandle(&[7; 128]) }),
        Args::PutPubFh,
        Args::PutRootFh,
        Args::ReadDir(readdir::Args {
            cookie: 3,
            cookieverf: VERIFIER,
            dircount: 512,
            maxcount: 4096,
            attr_request: BITS,
        }),
        Args::ReadLink,
        Args::Remove(names::RemoveArgs { target: b"gone" }),
        Args::Rename(names::RenameArgs { oldname: b"from", newname: b"longer" }),
        Args::RestoreFh,
        Args::SaveFh,
        Args::SecInfo(secinfo::Args { name: b"share" }),
        Args::SecInfoNoName(secinfo::NoNameArgs { style: secinfo::Style::Parent }),
        Args::SetAttr(setattr::Args { stateid: STATE, obj_attributes: ATTRIBUTES }),
        Args::GetXattr(xattr::NameArgs { name: b"user" }),
        Args::SetXattr(xattr::SetArgs { option: xattr::SetOption::Replace, key: b"k", value: &[0; 9] }),
        Args::ListXattrs(xattr::ListArgs { cookie: 0, maxcount: 1000 }),
        Args::RemoveXattr(xattr::NameArgs { name: b"k" }),
    ]
}

fn opens() -> Vec<Args<'static>> {
    use open::{
        Claim, CreateHow, CreateVerfAttr, DelegateCur, DelegationType, OpenHow, ShareAccess, ShareDeny,
    };
    let claims = [
        Claim::Null(b"file"),
        Claim::Previous(DelegationType::Write),
        Claim::DelegateCur(DelegateCur { delegate_stateid: STATE, file: b"file" }),
        Claim::DelegatePrev(b"file"),
        Claim::Fh,
        Claim::DelegCurFh(STATE),
        Claim::DelegPrevFh,
    ];
    let ways = [
        OpenHow::NoCreate,
        OpenHow::Create(CreateHow::Unchecked(ATTRIBUTES)),
        OpenHow::Create(CreateHow::Guarded(ATTRIBUTES)),
        OpenHow::Create(CreateHow::Exclusive(VERIFIER)),
        OpenHow::Create(CreateHow::Exclusive41(CreateVerfAttr { verf: VERIFIER, attrs: ATTRIBUTES })),
    ];
    let open = |openhow, claim| {
        let share_access = ShareAccess::BOTH | ShareAccess::WANT_NO_DELEG;
        Args::Open(open::Args {
            seqid: 0,
            share_access,
            share_deny: ShareDeny::WRITE,
            owner: OWNER,
            openhow,
            claim,
        })
    };
    let downgrade = Args::OpenDowngrade(open::DowngradeArgs {
        open_stateid: STATE,
        seqid: 0,
        share_access: ShareAccess::READ,
        share_deny: ShareDeny::empty(),
    });
    let opens = claims.into_iter().flat_map(|claim| ways.map(|way| open(way, claim)));
    opens.chain([downgrade, Args::Close(close::Args { seqid: 0, open_stateid: STATE })]).collect()
}

fn data() -> Vec<Args<'static>> {
    let range = allocate::Args { stateid: STATE, offset: 4096, length: u64::MAX };
    let (offset, count) = (1 << 40, 65_536);
    let copy = copy::Args {
        src_stateid: STATE,
        dst_stateid: StateId::CURRENT,
        src_offset: 1,
        dst_offset: 2,
        count: 3,
        consecutive: true,
        synchronous: false,
        source_server: List::of(&[NetLoc::Name(b"host"), NetLoc::Url(b"nfs://host"), NetLoc::Addr(NETADDR)]),
    };
    let adb = write::AppDataBlock {
        offset: 0,
        block_size: 512,
        block_count: 9,
        reloff_blocknum: 0,
        block_num: 1,
        reloff_pattern: 8,
        pattern: b"pattern",
    };
    vec![
        Args::Read(read::Args { stateid: STATE, offset, count }),
        Args::Write(write::Args { stateid: STATE, offset, stable: StableHow::DataSync, data: b"written" }),
        Args::Commit(commit::Args { offset, count }),
        Args::Allocate(range),
        Args::Deallocate(range),
        Args::Copy(copy),
        Args::Copy(copy::Args { source_server: List::EMPTY, ..copy }),
        Args::CopyNotify(copy::NotifyArgs { src_stateid: STATE, destination_server: NetLoc::Addr(NETADDR) }),
        Args::OffloadCancel(copy::OffloadArgs { stateid: STATE }),
        Args::OffloadStatus(copy::OffloadArgs { stateid: STATE }),
        Args::IoAdvise(io_advise::Args { stateid: STATE, offset, count: 0, hints: Bitmap::of(&[4, 8]) }),
        Args::ReadPlus(read_plus::Args { stateid: STATE, offset, count }),
        Args::Seek(seek::Args { stateid: STATE, offset, what: seek::ContentType::Hole }),
        Args::WriteSame(write::SameArgs { stateid: STATE, stable: StableHow::FileSync, adb }),
        Args::Clone(clone::Args {
            src_stateid: STATE,
            dst_stateid: STATE,
            src_offset: 0,
            dst_offset: 4096,
            count: 0,
        }),
    ]
}

fn locks_and_state() -> Vec<Args<'static>> {
    use lock::Locker;
    let lock = |locker| {
        let (offset, length) = (7, u64::MAX);
        Args::Lock(lock::Args { locktype: LockType::WriteW, reclaim: false, offset, length, locker })
    };
    vec![
        lock(Locker::Existing(lock::ExistLockOwner { lock_stateid: STATE, lock_seqid: 0 })),
        lock(Locker::New(lock::OpenToLockOwner {
            open_seqid: 0,
            open_stateid: STATE,
            lock_seqid: 0,
            lock_owner: OWNER,
        })),
        Args::LockT(lock::TestArgs { locktype: LockType::Read, offset: 0, length: 1, owner: OWNER }),
        Args::LockU(lock::UnlockArgs {
            locktype: LockType::Unknown(9),
            seqid: 0,
            lock_stateid: STATE,
            offset: 0,
            length: 1,
        }),
        Args::DelegPurge(delegation::PurgeArgs { clientid: 0 }),
        Args::DelegReturn(delegation::ReturnArgs { deleg_stateid: STATE }),
        Args::WantDelegation(delegation::WantArgs { want: 0x200, claim: delegation::DelegClaim::Fh }),
        Args::WantDelegation(delegation::WantArgs {
            want: 0x100,
            claim: delegation::DelegClaim::Previous(open::DelegationType::Read),
        }),
        Args::GetDirDelegation(delegation::DirArgs {
            signal_deleg_avail: false,
            notification_types: BITS,
            child_attr_delay: TIME,
            dir_attr_delay: TIME,
            child_attributes: BITS,
            dir_attributes: Bitmap::EMPTY,
        }),
        Args::FreeStateId(stateid::FreeArgs { stateid: STATE }),
        Args::TestStateId(stateid::TestArgs { stateids: List::of(&[STATE, StateId::ANONYMOUS]) }),
    ]
}

fn sessions() -> Vec<Args<'static>> {
    use exchange_id::{ExchangeFlags, SsvParms, StateProtectArgs};
    let ssv = SsvParms {
        ops: OPS,
        hash_algs: List::of(&[b"sha1", b"sha256"]),
        encr_algs: List::EMPTY,
        window: 1,
        num_gss_handles: 2,
    };
    let exchange = |state_protect, client_impl_id| {
        Args::ExchangeId(exchange_id::Args {
            clientowner: exchange_id::ClientOwner { verifier: VERIFIER, ownerid: Identity(b"client") },
            flags: ExchangeFlags::SUPP_MOVED_REFER | ExchangeFlags::UPD_CONFIRMED_REC_A,
            state_protect,
            client_impl_id,
        })
    };
    let made_by = ImplId { domain: b"kernel.org", name: b"Linux 6.1", date: TIME };
    vec![
        exchange(StateProtectArgs::None, Some(made_by)),
        exchange(StateProtectArgs::MachCred(OPS), None),
        exchange(StateProtectArgs::Ssv(ssv), None),
        Args::CreateSession(create_session::Args {
            clientid: 77,
            sequence: 1,
            flags: create_session::SessionFlags::CONN_BACK_CHAN,
            fore_chan_attrs: CHANNEL,
            back_chan_attrs: create_session::ChannelAttrs { rdma_ird: None, ..CHANNEL },
            cb_program: 0x4000_0000,
            sec_parms: List::of(SEC_PARMS),
        }),
        Args::BackchannelCtl(backchannel_ctl::Args { cb_program: 1, sec_parms: List::of(SEC_PARMS) }),
        Args::BindConnToSession(bind_conn_to_session::Args {
            sessid: SESSION,
            dir: bind_conn_to_session::FromClient::BackOrBoth,
            use_conn_in_rdma_mode: false,
        }),
        Args::DestroySession(destroy::SessionArgs { sessionid: SESSION }),
        Args::DestroyClientId(destroy::ClientIdArgs { clientid: 77 }),
        Args::ReclaimComplete(destroy::ReclaimCompleteArgs { one_fs: false }),
        Args::Sequence(sequence::Args {
            sessionid: SESSION,
            sequenceid: u32::MAX,
            slotid: 63,
            highest_slotid: 63,
            cachethis: true,
        }),
        Args::SetSsv(set_ssv::Args { ssv: b"secret", digest: &[3; 20] }),
    ]
}

fn layouts() -> Vec<Args<'static>> {
    use layout::Return;
    let device = *b"device with name";
    let give_back = |layoutreturn| {
        Args::LayoutReturn(layout::ReturnArgs {
            reclaim: false,
            layout_type: LayoutType::NfsV41Files,
            iomode: LayoutIoMode::Any,
            layoutreturn,
        })
    };
    let file = layout::ReturnFile { offset: 0, length: 1, stateid: STATE, body: b"" };
    let error = layout::DeviceError { deviceid: device, status: nfs_wire::NfsStat::Io, opnum: 25 };
    let io = layout::IoInfo { count: 2, bytes: 4096 };
    vec![
        Args::GetDeviceInfo(layout::DeviceInfoArgs {
            device_id: device,
            layout_type: LayoutType::Unknown(9),
            maxcount: 4096,
            notify_types: BITS,
        }),
        Args::GetDeviceList(layout::DeviceListArgs {
            layout_type: LayoutType::NfsV41Files,
            maxdevices: 3,
            cookie: 0,
            cookieverf: VERIFIER,
        }),
        Args::LayoutCommit(layout::CommitArgs {
            offset: 0,
            length: 1,
            reclaim: false,
            stateid: STATE,
            last_write_offset: Some(5),
            time_modify: None,
            layoutupdate: UPDATE,
        }),
        Args::LayoutGet(layout::GetArgs {
            signal_layout_avail: false,
            layout_type: LayoutType::NfsV41Files,
            iomode: LayoutIoMode::Rw,
            offset: 0,
            length: u64::MAX,
            minlength: 4096,
            stateid: STATE,
            maxcount: 4096,
        }),
        give_back(Return::File(file)),
        give_back(Return::Fsid),
        give_back(Return::All),
        Args::LayoutError(layout::ErrorArgs {
            offset: 0,
            length: 1,
            stateid: STATE,
            errors: List::of(Box::leak(Box::new([error]))),
        }),
        Args::LayoutStats(layout::StatsArgs {
            offset: 0,
            length: 1,
            stateid: STATE,
            read: io,
            write: io,
            deviceid: device,
            layoutupdate: UPDATE,
        }),
    ]
}

fn v40() -> Vec<Args<'static>> {
    let confirm = v40::SetClientIdConfirm { clientid: 1, setclientid_confirm: VERIFIER };
    vec![
        Args::SetClientId(v40::SetClientIdArgs {
            verifier: VERIFIER,
            id: Identity(b"client"),
            cb_program: 0x4000_0000,
            cb_location: NETADDR,
            callback_ident: 1,
        }),
        Args::SetClientIdConfirm(confirm),
        Args::Renew(v40::RenewArgs { clientid: 1 }),
        Args::OpenConfirm(v40::OpenConfirmArgs { open_stateid: STATE, seqid: 1 }),
        Args::ReleaseLockOwner(v40::ReleaseLockOwnerArgs { lock_owner: OWNER }),
    ]
}
