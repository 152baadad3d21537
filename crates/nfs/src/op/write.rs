//! WRITE (RFC 8881 18.32).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::op::write::{Args, ResOk};
use nfs_wire::types::StableHow;
use share::WriteAt;
use share::limits::MeteredWork;

use super::io::{io_open, owner};
use crate::compound::{OpResult, Run};

/// Writes data.
///
/// # Errors
/// As for [`io_open`]; NFS4ERR_LOCKED, NFS4ERR_DELAY, NFS4ERR_FBIG, NFS4ERR_NOSPC, NFS4ERR_ROFS.
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    run.current()?;
    if args.offset.checked_add(args.data.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
        return Err(NfsStat::FBig.into());
    }
    let through_disk = match args.stable {
        StableHow::Unstable => false,
        StableHow::DataSync | StableHow::FileSync => {
            run.may_wait()?;
            true
        }
        StableHow::Unknown(_) => return Err(NfsStat::Inval.into()),
    };
    let to = io_open(run, &args.stateid, ShareAccess::WRITE)?;
    let owner = owner(run);
    let writeverf = run.write_verifier(to.export());
    let written = run.check_writable(to.export()).map_err(Into::into).and_then(|()| {
        run.ask(to.export(), |engine, caller| {
            engine.write(caller, to.open(), owner, WriteAt::Offset(args.offset), args.data, through_disk)
        })
    });
    if written.is_ok() {
        let work = MeteredWork::Write { file: to.open().file_number(), len: args.data.len() as u64 };
        run.throttle_rest(&to.export().engine, work);
        run.transactions.data = args.data.len();
    }
    to.end(run);
    written?;
    let count = u32::try_from(args.data.len()).unwrap_or(u32::MAX);
    let committed = if through_disk { StableHow::FileSync } else { StableHow::Unstable };
    run.reply(OpNum::Write, ResOk { count, committed, writeverf })
}
