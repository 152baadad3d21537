//! LOOKUP (RFC 8881 18.13).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::names::LookupArgs;
use share::AuditedOperation;
use volume::NodeKind;

use super::names::name;
use crate::compound::current::Current;
use crate::compound::{OpResult, Run};

/// Makes the object with this name the current filehandle.
///
/// # Errors
/// NFS4ERR_NOENT, NFS4ERR_NOTDIR, NFS4ERR_SYMLINK, NFS4ERR_ACCESS; and the errors of [`name`].
pub fn run(run: &mut Run, args: &LookupArgs<'_>) -> OpResult {
    let found = run.current_item()?;
    let name = name(args.objname)?;
    let next = match found {
        None => {
            let exports = run.server.exports();
            let export = exports.named(name.as_bytes()).ok_or(NfsStat::NoEnt)?;
            let may_use = run.credentials.may_use(export);
            if may_use {
                run.look_up_groups(export)?;
            }
            let refused = (!may_use).then_some("the export is not for this address or port");
            let details = Some(&*run.session()?.details);
            let identity = run.identity(export);
            export.engine.note_connection(AuditedOperation::Connect, &identity, details, refused);
            if !may_use {
                return Err(NfsStat::Access.into());
            }
            run.session()?.client.note_export(export.id);
            Current::of_item(export, export.engine.root_item())
        }
        Some((export, above)) => {
            check_directory(above.kind())?;
            let item = run.ask_now(&export, |engine, caller| engine.item_in(caller, &above, &name))?;
            Current::of_item(&export, item)
        }
    };
    run.current = Some(next);
    run.stateid = None;
    run.reply_status(OpNum::Lookup)
}

/// Checks that names can be looked up in an object of this kind.
///
/// # Errors
/// NFS4ERR_SYMLINK, NFS4ERR_NOTDIR.
pub fn check_directory(kind: NodeKind) -> Result<(), NfsStat> {
    match kind {
        NodeKind::Directory => Ok(()),
        NodeKind::Link => Err(NfsStat::Symlink),
        _ => Err(NfsStat::NotDir),
    }
}
