//! COMMIT (RFC 8881 18.3).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::commit::{Args, ResOk};

use super::io::check_data;
use crate::compound::{OpResult, Run};

/// Brings all data of the file to stable storage, whoever wrote it.
///
/// # Errors
/// NFS4ERR_ISDIR, NFS4ERR_WRONG_TYPE, NFS4ERR_INVAL, or the host's error.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    let (export, item) = run.item(NfsStat::IsDir)?;
    check_data(item.kind())?;
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(NfsStat::Inval.into());
    }
    run.may_wait()?;
    export.engine.item_sync(&item)?;
    let writeverf = run.write_verifier(&export);
    run.reply(OpNum::Commit, ResOk { writeverf })
}
