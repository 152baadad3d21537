//! RENAME (RFC 8881 18.26).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::names::{RenameArgs, RenameResOk};
use share::{AuditedOperation, Item};
use volume::security::Rights;
use volume::{Name, NodeKind};

use super::lookup::check_directory;
use super::names::{changed, conflict_status, name, opening_own, step_of, version};
use crate::compound::current::handle_of;
use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;

/// A name in a directory.
#[derive(Clone, Copy)]
struct NamedEntry<'a> {
    directory: &'a Item,
    name: &'a Name,
}

/// Renames an object.
///
/// # Errors
/// NFS4ERR_XDEV, NFS4ERR_NOENT, NFS4ERR_EXIST, NFS4ERR_INVAL, NFS4ERR_FILE_OPEN, NFS4ERR_ACCESS,
/// NFS4ERR_DELAY.
pub fn run(run: &mut Run, args: &RenameArgs<'_>) -> OpResult {
    let saved = run.saved.as_mut().ok_or(NfsStat::NoFileHandle)?;
    let from = saved.item(&run.server, run.now)?;
    let to = run.current_item()?;
    let (Some((export, from)), Some((to_export, to))) = (from, to) else {
        return Err(NfsStat::RoFs.into());
    };
    if !Arc::ptr_eq(&export, &to_export) {
        return Err(NfsStat::XDev.into());
    }
    check_directory(from.kind())?;
    check_directory(to.kind())?;
    let (old, new) = (name(args.oldname)?, name(args.newname)?);
    run.check_writable(&export)?;
    let (before_from, before_to) = (version(&export, &from)?, version(&export, &to)?);
    let source = NamedEntry { directory: &from, name: &old };
    let target = NamedEntry { directory: &to, name: &new };
    if !is_one_file(run, &export, source, target)? {
        move_it(run, &export, source, target)?;
    }
    let source_cinfo = changed(&export, &from, before_from)?;
    let target_cinfo = changed(&export, &to, before_to)?;
    run.reply(OpNum::Rename, RenameResOk { source_cinfo, target_cinfo })
}

/// Whether both names lead to the same file, so that nothing is to be done. Refuses a replacement between a
/// directory and another object.
// RFC 8881 18.26.3
fn is_one_file(
    run: &Run,
    export: &Arc<Export>,
    from: NamedEntry<'_>,
    to: NamedEntry<'_>,
) -> Result<bool, Stop> {
    let moved = run.ask_now(export, |engine, caller| engine.item_in(caller, from.directory, from.name))?;
    if let Ok(handle) = handle_of(&run.server, export, &moved) {
        run.server.forget_item(&handle);
    }
    let there = match run.ask_now(export, |engine, caller| engine.item_in(caller, to.directory, to.name)) {
        Ok(there) => there,
        Err(Stop::Fail(NfsStat::NoEnt)) => return Ok(false),
        Err(stop) => return Err(stop),
    };
    if there.id() == moved.id() {
        return Ok(true);
    }
    if (there.kind() == NodeKind::Directory) != (moved.kind() == NodeKind::Directory) {
        return Err(NfsStat::Exist.into());
    }
    if let Ok(handle) = handle_of(&run.server, export, &there) {
        run.server.forget_item(&handle);
    }
    Ok(false)
}

fn move_it(run: &Run, export: &Arc<Export>, from: NamedEntry<'_>, to: NamedEntry<'_>) -> Result<(), Stop> {
    let path = std::slice::from_ref(from.name);
    let moved = run.ask_now(export, |engine, caller| engine.item_in(caller, from.directory, from.name))?;
    let request =
        step_of(AuditedOperation::Rename, opening_own(run, export, moved.id(), path, Rights::DELETE)?);
    let kind = moved.kind();
    drop(moved);
    // RFC 8881 18.26.3 has EXIST for a directory that is not empty (exception: NOTEMPTY, as the Linux server
    // replies; its clients pass the status on to programs)
    let held = |stop| conflict_status(stop, kind);
    let opened = run
        .ask(export, |engine, caller| engine.create_from(caller, from.directory, &request))
        .map_err(|stop| conflict_status(stop, NodeKind::File))?;
    let moved =
        run.ask(export, |engine, caller| engine.rename_into(caller, &opened.open, to.directory, to.name));
    let closed = export.engine.close(&opened.open, run.now);
    moved.map_err(held)?;
    Ok(closed?)
}
