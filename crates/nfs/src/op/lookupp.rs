//! LOOKUPP (RFC 8881 18.14).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;

use super::lookup::check_directory;
use crate::compound::current::Current;
use crate::compound::{OpResult, Run};

/// Makes the parent directory the current filehandle.
///
/// # Errors
/// NFS4ERR_NOENT above the pseudo root; NFS4ERR_NOTDIR, NFS4ERR_SYMLINK, NFS4ERR_ACCESS.
pub fn run(run: &mut Run) -> OpResult {
    let Some((export, item)) = run.current_item()? else {
        return Err(NfsStat::NoEnt.into());
    };
    check_directory(item.kind())?;
    let above = run.ask_now(&export, |engine, caller| engine.item_above(caller, &item))?;
    run.current = Some(match above {
        Some(above) => Current::of_item(&export, above),
        // The parent of an export's root is the pseudo root.
        None => Current::root(&run.server)?,
    });
    run.stateid = None;
    run.reply_status(OpNum::LookupP)
}
