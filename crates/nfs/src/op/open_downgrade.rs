//! OPEN_DOWNGRADE (RFC 8881 18.18).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::open::{DowngradeArgs, DowngradeResOk, ShareAccess};

use super::io::resolve_stateid;
use crate::compound::{OpResult, Run};
use crate::state::open::Holding;
use crate::state::record::enlist;
use crate::state::share_reservation::{denial, narrowed};

/// Narrows the access and the denials of an open.
///
/// # Errors
/// NFS4ERR_INVAL if the file was never opened that way; NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
pub fn run(run: &mut Run, args: &DowngradeArgs) -> OpResult {
    let handle = run.handle()?;
    let id = resolve_stateid(run, &args.open_stateid)?;
    let client = std::sync::Arc::clone(&run.session()?.client);
    let server = std::sync::Arc::clone(&run.server);
    let (state, _lock) = server.locked_state(client.id, &id)?;
    let open = state.opened().ok_or(NfsStat::BadStateId)?;
    if state.handle != handle {
        return Err(NfsStat::BadStateId.into());
    }
    let access = args.share_access & ShareAccess::BOTH;
    let deny = denial(args.share_deny)?;
    let mut modes = open.changing.lock();
    let holding = state.holding();
    let is_within = holding.access.contains(access) && holding.deny.contains(args.share_deny);
    if access.is_empty() || !is_within || !modes.allows(access, args.share_deny) {
        return Err(NfsStat::Inval.into());
    }
    let rights = narrowed(holding.open.granted(), access);
    let amended =
        run.ask(&state.export, |engine, caller| engine.change_access(caller, &holding.open, rights, deny))?;
    open.hold(Holding::new(amended, access, args.share_deny));
    modes.keep(access, args.share_deny);
    let id = state.next_id();
    if !enlist(&client, &state, *modes) {
        server.forget_client_id(&client);
    }
    drop(modes);
    run.opens_to_record.add(&server, &state.export);
    run.stateid = Some(id);
    run.reply(OpNum::OpenDowngrade, DowngradeResOk { open_stateid: id })
}
