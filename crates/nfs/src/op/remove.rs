//! REMOVE (RFC 8881 18.25).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::names::{Changed, RemoveArgs};
use share::{AuditedOperation, Item, OpenResult};
use volume::security::Rights;
use volume::{Name, NodeKind};

use super::lookup::check_directory;
use super::names::{changed, conflict_status, name, opening_own, retry_stale_name, step_of, version};
use crate::compound::current::handle_of;
use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;

/// Removes a name. Clients that have the file open keep it, unless one of them denies deletion.
///
/// # Errors
/// NFS4ERR_NOENT, NFS4ERR_NOTEMPTY, NFS4ERR_FILE_OPEN, NFS4ERR_ACCESS, NFS4ERR_DELAY.
pub fn run(run: &mut Run, args: &RemoveArgs<'_>) -> OpResult {
    let (export, above) = run.item(NfsStat::RoFs)?;
    check_directory(above.kind())?;
    let name = name(args.target)?;
    run.check_writable(&export)?;
    let before = version(&export, &above)?;
    let opened = retry_stale_name(run, |run| open_to_remove(run, &export, &above, &name))
        .map_err(|stop| conflict_status(stop, NodeKind::File))?;
    let kind = if opened.open.is_directory() { NodeKind::Directory } else { NodeKind::File };
    let held = |stop| conflict_status(stop, kind);
    let marked = run.ask(&export, |engine, caller| engine.set_delete_at_once(caller, &opened.open));
    let closed = export.engine.close(&opened.open, run.now);
    marked.map_err(held)?;
    closed.map_err(|why| held(why.into()))?;
    let cinfo = changed(&export, &above, before)?;
    run.reply(OpNum::Remove, Changed { cinfo })
}

fn open_to_remove(run: &Run, export: &Arc<Export>, above: &Item, name: &Name) -> Result<OpenResult, Stop> {
    let item = run.ask_now(export, |engine, caller| engine.item_in(caller, above, name))?;
    if let Ok(handle) = handle_of(&run.server, export, &item) {
        run.server.forget_item(&handle);
    }
    let removal = match item.kind() {
        NodeKind::Directory => AuditedOperation::RemoveDirectory,
        _ => AuditedOperation::Remove,
    };
    let request = step_of(removal, opening_own(run, export, item.id(), &[], Rights::DELETE)?);
    run.ask(export, |engine, caller| engine.create_found(caller, &item, &request))
}
