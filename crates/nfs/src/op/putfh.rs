//! PUTFH (RFC 8881 18.19).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::filehandle::PutArgs;

use crate::compound::current::Current;
use crate::compound::{OpResult, Run};
use crate::state::filehandle::CheckedHandle;

/// Sets the current filehandle. Its item is looked up when an operation needs it.
///
/// # Errors
/// NFS4ERR_BADHANDLE for a filehandle of another origin. NFS4ERR_STALE if the export is gone, does not admit
/// this client, or is now served from another directory and the file is not open.
pub fn run(run: &mut Run, args: &PutArgs<'_>) -> OpResult {
    let known = match run.connection.checked_handle(args.object.0) {
        Some(known) => known,
        None => check(run, args.object.0)?,
    };
    if let Some(export) = &known.export
        && !run.credentials.may_use(export)
    {
        return Err(NfsStat::Stale.into());
    }
    run.current = Some(Current::of(&known));
    run.stateid = None;
    run.reply_status(OpNum::PutFh)
}

fn check(run: &Run, sent: &[u8]) -> Result<Arc<CheckedHandle>, NfsStat> {
    let handle = run.server.handles.check(sent)?;
    let export = match handle.export() {
        0 => None,
        id => match run.server.exports().get(id) {
            Some(export) => Some(Arc::clone(export)),
            None => {
                let export = Some(run.server.relocated_export(&handle).ok_or(NfsStat::Stale)?);
                // Not remembered: it is valid only as long as the file is open.
                return Ok(Arc::new(CheckedHandle { handle, export }));
            }
        },
    };
    // Clients expect this status here for an object that is gone.
    if let Some(export) = &export {
        run.server.item(export, &handle, run.now)?;
        if let Ok(session) = run.session() {
            session.client.note_export(export.id);
        }
    }
    let known = Arc::new(CheckedHandle { handle, export });
    run.connection.remember_handle(&known);
    Ok(known)
}
