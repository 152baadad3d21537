//! SECINFO and SECINFO_NO_NAME (RFC 8881 18.29 and 18.45).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::secinfo::{Args, NoNameArgs, ResOk, SecInfo, Style};
use nfs_wire::xdr::List;

use super::lookup::check_directory;
use super::names::name;
use crate::compound::{OpResult, Run};

/// The security flavors that every export accepts.
const TAKEN: [SecInfo<'static>; 2] = [SecInfo::Sys, SecInfo::None];

/// Handles SECINFO.
///
/// # Errors
/// NFS4ERR_NOENT, NFS4ERR_NOTDIR, NFS4ERR_ACCESS; and the errors of [`name`].
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    let found = run.current_item()?;
    let name = name(args.name)?;
    match found {
        None => {
            run.server.exports().named(name.as_bytes()).ok_or(NfsStat::NoEnt)?;
        }
        Some((export, above)) => {
            check_directory(above.kind())?;
            run.ask_now(&export, |engine, caller| engine.item_in(caller, &above, &name))?;
        }
    }
    // RFC 8881 2.6.3.1.1.8
    run.current = None;
    run.reply(OpNum::SecInfo, ResOk { flavors: List::of(&TAKEN) })
}

/// Handles SECINFO_NO_NAME.
///
/// # Errors
/// NFS4ERR_NOENT for the parent of the pseudo root, NFS4ERR_NOTDIR, NFS4ERR_INVAL.
pub fn run_no_name(run: &mut Run, args: &NoNameArgs) -> OpResult {
    let found = run.current_item()?;
    match (args.style, found) {
        (Style::CurrentFh, _) => {}
        (Style::Parent, None) => return Err(NfsStat::NoEnt.into()),
        (Style::Parent, Some((_, item))) => check_directory(item.kind())?,
        (Style::Unknown(_), _) => return Err(NfsStat::Inval.into()),
    }
    run.current = None;
    run.reply(OpNum::SecInfoNoName, ResOk { flavors: List::of(&TAKEN) })
}
