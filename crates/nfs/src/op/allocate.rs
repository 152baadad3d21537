//! ALLOCATE and DEALLOCATE (RFC 7862 15.1 and 15.4).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::allocate::Args;
use nfs_wire::op::open::ShareAccess;
use share::{CallResult, Caller, LockOwner, Open, Share};
use std::ops::Range;
use std::sync::Arc;

use super::io::{owner, through};
use crate::compound::{Done, Run};

/// Backs a range with storage; the file grows where it goes beyond the end.
///
/// # Errors
/// As [`through`]; NFS4ERR_INVAL for an empty range, NFS4ERR_FBIG, NFS4ERR_NOSPC, NFS4ERR_ROFS.
pub fn run(run: &mut Run, args: &Args) -> Done {
    let allocate = |engine: &Share, caller: &Caller<'_>, open: &Arc<Open>, _: LockOwner, range| {
        engine.allocate(caller, open, range)
    };
    change(run, args, OpNum::Allocate, allocate)
}

/// Gives the storage of a range back, which reads as zeros then; the length stays.
///
/// # Errors
/// As [`run`].
pub fn run_deallocate(run: &mut Run, args: &Args) -> Done {
    let zero = |engine: &Share, caller: &Caller<'_>, open: &Arc<Open>, owner, range| {
        engine.zero(caller, open, owner, range)
    };
    change(run, args, OpNum::Deallocate, zero)
}

fn change(
    run: &mut Run,
    args: &Args,
    number: OpNum,
    act: impl Fn(&Share, &Caller<'_>, &Arc<Open>, LockOwner, Range<u64>) -> CallResult<()>,
) -> Done {
    run.current()?;
    if args.length == 0 {
        return Err(NfsStat::Inval.into());
    }
    let end = args.offset.checked_add(args.length).filter(|end| *end <= i64::MAX as u64);
    let range = args.offset..end.ok_or(NfsStat::FBig)?;
    run.may_wait()?;
    let to = through(run, &args.stateid, ShareAccess::WRITE)?;
    let owner = owner(run);
    let done = run.check_writable(to.export()).map_err(Into::into).and_then(|()| {
        run.ask(to.export(), |engine, caller| act(engine, caller, to.open(), owner, range.clone()))
    });
    to.end(run);
    done?;
    run.plain(number)
}
