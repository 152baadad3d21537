//! The operations, one file for each. [`run`] calls the one for some arguments.
//!
//! Some files hold common parts: `io` (the open to read or write through), `names` (names in directories),
//! `account_names` (names of a domain's accounts in attributes), `states` (room for a new state), [`claim`]
//! (reclaim after a restart), `delegate` (the delegation that OPEN grants).

mod access;
mod account_names;
mod allocate;
mod backchannel_ctl;
mod bind_conn_to_session;
pub mod claim;
mod clone;
mod close;
mod commit;
mod copy;
mod create;
mod create_session;
mod delegate;
mod delegreturn;
mod destroy_clientid;
mod destroy_session;
mod exchange_id;
mod free_stateid;
mod getattr;
mod getfh;
mod io;
mod io_advise;
mod link;
mod lock;
mod lockt;
mod locku;
mod lookup;
mod lookupp;
mod names;
mod offload_status;
mod open;
mod open_downgrade;
mod putfh;
mod putrootfh;
mod read;
mod read_plus;
mod readdir;
mod readlink;
mod reclaim_complete;
mod remove;
mod rename;
mod restorefh;
mod savefh;
mod secinfo;
mod seek;
mod sequence;
mod setattr;
mod states;
mod test_stateid;
mod verify;
mod write;
mod xattr;

use nfs_wire::NfsStat;
use nfs_wire::op::Args;

use crate::compound::{OpResult, Run, Stop};

/// Runs one operation.
///
/// # Errors
/// The reason why it did not succeed.
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    match args {
        Args::Sequence(args) => sequence::run(run, args),
        Args::PutFh(args) => putfh::run(run, args),
        Args::Read(args) => read::run(run, args),
        Args::Write(args) => write::run(run, args),
        Args::GetAttr(args) => getattr::run(run, args),
        Args::Access(args) => access::run(run, args),
        Args::Lookup(args) => lookup::run(run, args),
        Args::GetFh => getfh::run(run),
        Args::Open(args) => open::run(run, args),
        Args::Close(args) => close::run(run, args),
        Args::DelegReturn(args) => delegreturn::run(run, args),
        Args::BackchannelCtl(args) => backchannel_ctl::run(run, args),
        Args::Commit(args) => commit::run(run, args),
        Args::Create(args) => create::run(run, args),
        Args::Link(args) => link::run(run, args),
        Args::Lock(args) => lock::run(run, args),
        Args::LockT(args) => lockt::run(run, args),
        Args::LockU(args) => locku::run(run, args),
        Args::LookupP => lookupp::run(run),
        Args::NVerify(args) => verify::run_nverify(run, args),
        Args::OpenDowngrade(args) => open_downgrade::run(run, args),
        Args::PutPubFh => putrootfh::run(run, nfs_wire::op::OpNum::PutPubFh),
        Args::PutRootFh => putrootfh::run(run, nfs_wire::op::OpNum::PutRootFh),
        Args::ReadDir(args) => readdir::run(run, args),
        Args::ReadLink => readlink::run(run),
        Args::Remove(args) => remove::run(run, args),
        Args::Rename(args) => rename::run(run, args),
        Args::RestoreFh => restorefh::run(run),
        Args::SaveFh => savefh::run(run),
        Args::SecInfo(args) => secinfo::run(run, args),
        Args::SecInfoNoName(args) => secinfo::run_no_name(run, args),
        Args::SetAttr(args) => setattr::run(run, args),
        Args::Verify(args) => verify::run(run, args),
        Args::ExchangeId(args) => exchange_id::run(run, args),
        Args::CreateSession(args) => create_session::run(run, args),
        Args::BindConnToSession(args) => bind_conn_to_session::run(run, args),
        Args::DestroySession(args) => destroy_session::run(run, args),
        Args::DestroyClientId(args) => destroy_clientid::run(run, args),
        Args::ReclaimComplete(args) => reclaim_complete::run(run, args),
        Args::TestStateId(args) => test_stateid::run(run, args),
        Args::FreeStateId(args) => free_stateid::run(run, args),
        Args::Allocate(args) => allocate::run(run, args),
        Args::Deallocate(args) => allocate::run_deallocate(run, args),
        Args::Copy(args) => copy::run(run, args),
        Args::Clone(args) => clone::run(run, args),
        Args::OffloadCancel(args) => offload_status::run(run, args),
        Args::OffloadStatus(args) => offload_status::run(run, args),
        Args::IoAdvise(args) => io_advise::run(run, args),
        Args::ReadPlus(args) => read_plus::run(run, args),
        Args::Seek(args) => seek::run(run, args),
        Args::GetXattr(args) => xattr::run_get(run, args),
        Args::SetXattr(args) => xattr::run_set(run, args),
        Args::ListXattrs(args) => xattr::run_list(run, args),
        Args::RemoveXattr(args) => xattr::run_remove(run, args),
        // The loop over the operations handles it before.
        Args::Illegal(_) => Err(Stop::Fail(NfsStat::OpIllegal)),
        // Operations of 4.0 only, pNFS, named attributes, SSV, copies between servers, and optional ones that
        // are not offered.
        _ => Err(Stop::Fail(NfsStat::NotSupp)),
    }
}
