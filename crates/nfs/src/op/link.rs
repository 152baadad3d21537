//! LINK (RFC 8881 18.9).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::names::{Changed, LinkArgs};
use share::AuditedOperation;
use volume::NodeKind;
use volume::security::Rights;

use super::lookup::check_directory;
use super::names::{changed, name, version, with_open};
use crate::compound::{OpResult, Run};

/// Creates a hard link to the saved filehandle.
///
/// # Errors
/// NFS4ERR_XDEV, NFS4ERR_ISDIR, NFS4ERR_NOTDIR, NFS4ERR_EXIST, NFS4ERR_MLINK, NFS4ERR_ACCESS.
pub fn run(run: &mut Run, args: &LinkArgs<'_>) -> OpResult {
    let (export, above) = run.item(NfsStat::RoFs)?;
    let saved = run.saved.as_mut().ok_or(NfsStat::NoFileHandle)?;
    let (from, item) = saved.item(&run.server, run.now)?.ok_or(NfsStat::IsDir)?;
    if !Arc::ptr_eq(&from, &export) {
        return Err(NfsStat::XDev.into());
    }
    check_directory(above.kind())?;
    if item.kind() == NodeKind::Directory {
        return Err(NfsStat::IsDir.into());
    }
    let name = name(args.newname)?;
    run.check_writable(&export)?;
    let before = version(&export, &above)?;
    with_open(run, &export, &item, AuditedOperation::Link, Rights::READ_ATTRIBUTES, |open| {
        run.ask(&export, |engine, caller| engine.link_into(caller, open, &above, &name))
    })?;
    let cinfo = changed(&export, &above, before)?;
    run.reply(OpNum::Link, Changed { cinfo })
}
