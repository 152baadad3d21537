//! LOOKUP (RFC 8881 18.13).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::names::LookupArgs;
use volume::NodeKind;

use super::names::name;
use crate::compound::current::Current;
use crate::compound::{Done, Run};

/// Does it.
///
/// # Errors
/// NFS4ERR_NOENT, NFS4ERR_NOTDIR, NFS4ERR_SYMLINK, NFS4ERR_ACCESS; as the name says.
pub fn run(run: &mut Run, args: &LookupArgs<'_>) -> Done {
    let found = run.found()?;
    let name = name(args.objname)?;
    let next = match found {
        None => {
            let exports = run.server.exports();
            let export = exports.named(name.as_bytes()).ok_or(NfsStat::NoEnt)?;
            if !run.who.may_use(export) {
                return Err(NfsStat::Access.into());
            }
            run.session()?.client.came_to(export.id);
            Current::found(export, export.engine.root_item())
        }
        Some((export, above)) => {
            check_directory(above.kind())?;
            let item = run.tell(&export, |engine, caller| engine.item_in(caller, &above, &name))?;
            Current::found(&export, item)
        }
    };
    run.current = Some(next);
    run.stateid = None;
    run.plain(OpNum::Lookup)
}

/// Whether names can be looked up in something of this kind.
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
