//! CLOSE (RFC 8881 18.2).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::close::{Args, ResOk};
use nfs_wire::op::open::ShareAccess;
use nfs_wire::types::StateId;

use super::io::resolve_stateid;
use crate::compound::{OpResult, Run};
use crate::state::stateid::OwnerOnFile;

/// The longest wait of a CLOSE for a recall of the client's own delegation, in nanoseconds.
const AWAITED_NS: u64 = 2_000_000_000;

/// Closes an open, together with the locks that were taken through it.
///
/// # Errors
/// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    let handle = run.handle()?;
    let id = resolve_stateid(run, &args.open_stateid)?;
    let client = Arc::clone(&run.session()?.client);
    let server = Arc::clone(&run.server);
    let (state, lock) = server.locked_state(client.id, &id)?;
    let open = state.opened().ok_or(NfsStat::BadStateId)?;
    if state.handle != handle {
        return Err(NfsStat::BadStateId.into());
    }
    // Other mounts of the client must see the written data when they next open the file.
    let is_awaited = state.holding().access.contains(ShareAccess::WRITE)
        && client.delegation_of(state.export.id, state.node).is_some_and(|held| {
            held.delegation().is_some_and(|d| d.was_recalled_by_own_within(AWAITED_NS, run.now.mono_ns))
        });
    if is_awaited {
        return Err(NfsStat::Delay.into());
    }
    let of = OwnerOnFile { owner: &open.owner, export: state.export.id, node: state.node };
    for locks in client.remove_open(of, &state) {
        server.end_state(&locks, run.now);
    }
    server.end_state(&state, run.now);
    drop(lock);
    // The client must not find it again after a restart.
    run.opens_to_record.add(&server, &state.export);
    run.stateid = None;
    run.reply(OpNum::Close, ResOk { open_stateid: StateId::INVALID })
}
