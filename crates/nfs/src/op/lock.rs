//! LOCK (RFC 8881 18.10). LOCKT and LOCKU use some of its functions.

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::lock::{Args, Denied, Locker, Res, ResOk};
use nfs_wire::op::open::ShareAccess;
use nfs_wire::types::{Identity, LockType, StateOwner};
use share::{LockOwner, LockRule, RangeKind, RangeRequest, Refusal};
use volume::NodeId;

use super::io::resolve_stateid;
use super::{claim, states};
use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;
use crate::state::client::Client;
use crate::state::filehandle::Handle;
use crate::state::open::Modes;
use crate::state::record::note_of;
use crate::state::stateid::{LockState, LockingState, NewState, OwnerOnFile};

/// The lock state of an owner on the file.
struct OwnerLocks {
    state: Arc<LockingState>,
    /// This request has created it.
    is_new: bool,
}

/// Locks a byte range.
///
/// # Errors
/// NFS4ERR_DENIED with the lock in conflict; NFS4ERR_OPENMODE, NFS4ERR_INVAL, NFS4ERR_GRACE,
/// NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_CONFLICT, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_DELAY. The
/// range may be locked after NFS4ERR_DELAY, and the same request gets it again.
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    let handle = run.handle()?;
    let range = range_of(args.locktype, args.offset, args.length)?;
    let client = Arc::clone(&run.session()?.client);
    // RFC 8881 8.4.2.1, 18.51.3
    if args.reclaim {
        claim::check(run)?;
    } else if !client.has_reclaimed() {
        return Err(NfsStat::Grace.into());
    }
    let (OwnerLocks { state, is_new }, taken) = match &args.locker {
        Locker::Existing(known) => {
            let id = resolve_stateid(run, &known.lock_stateid)?;
            let state = run.server.state(client.id, &id)?.share();
            let own = OwnerLocks { state, is_new: false };
            let taken = take_or_expire(run, &client, &own, handle, &range)?.ok_or(NfsStat::BadStateId)?;
            (own, taken)
        }
        // The lock on the client's states covers both steps. A client frees the stateid of an owner without
        // locks, and may lock under that owner again before the reply. An administrator may revoke the open.
        // Neither may end the new state before the range is taken: the client does not know its stateid yet.
        Locker::New(new) => {
            let server = Arc::clone(&run.server);
            let id = resolve_stateid(run, &new.open_stateid)?;
            let (open, _lock) = server.locked_state(client.id, &id)?;
            let own = state_for_open(run, &client, open, new.lock_owner.owner.0, handle)?;
            let taken = take_or_expire(run, &client, &own, handle, &range)?.ok_or(NfsStat::BadStateId)?;
            (own, taken)
        }
    };
    let locks = state.locks().ok_or(NfsStat::ServerFault)?;
    if state.export.engine.are_records_failing() || run.server.client_records.has_false_ids() {
        run.server.forget_client_ids()?;
    }
    match taken {
        Ok(()) if args.reclaim => {
            run.server.grace.changed_range(client.key, &locks.open, (locks.number, range, true));
        }
        Ok(()) => {}
        Err(stop) if args.reclaim => return Err(claim::conflict(stop)),
        Err(Stop::Fail(NfsStat::Denied | NfsStat::Delay))
            if may_be_reclaimed(run, &state, locks, &range)? =>
        {
            return Err(NfsStat::Grace.into());
        }
        Err(Stop::Fail(NfsStat::Denied)) => {
            return denied(run, OpNum::Lock, &state.export, state.node, locks.number, &range);
        }
        Err(stop) => return Err(stop),
    }
    let lock_stateid = if is_new { state.id() } else { state.next_id() };
    run.stateid = Some(lock_stateid);
    run.writer.put(OpNum::Lock, &Res::Ok(ResOk { lock_stateid }));
    Ok(())
}

/// The pairs of access and deny of an open.
fn modes_of(open: &LockingState) -> Modes {
    open.opened().map(|open| *open.changing.lock()).unwrap_or_default()
}

/// Locks the range, and tries again if the holder of a conflicting lock has expired. None if the state was
/// freed meanwhile. A new state that fails to get the lock is removed.
///
/// # Errors
/// NFS4ERR_BAD_STATEID for a stateid of another kind or another file.
fn take_or_expire(
    run: &Run,
    client: &Client,
    own: &OwnerLocks,
    handle: Handle,
    range: &RangeRequest,
) -> Result<Option<Result<(), Stop>>, Stop> {
    let state = &own.state;
    let locks = state.locks().ok_or(NfsStat::BadStateId)?;
    if state.handle != handle {
        return Err(NfsStat::BadStateId.into());
    }
    // A restart keeps the stateid of a lock-owner.
    let note = own.is_new.then(|| note_of(client, &locks.open, modes_of(&locks.open)));
    let mut freed = locks.freed.lock();
    if *freed {
        return Ok(None);
    }
    let taken = take(run, state, locks, range, note.as_ref());
    if taken.is_err() && own.is_new {
        *freed = true;
        client.remove_locks(
            OwnerOnFile { owner: &locks.owner, export: state.export.id, node: state.node },
            state,
        );
        run.server.end_state(state, run.now);
    }
    Ok(Some(taken))
}

/// Whether a client that has not returned yet may reclaim the range in conflict.
// RFC 8881 8.4.2.1
fn may_be_reclaimed(
    run: &Run,
    state: &LockingState,
    locks: &LockState,
    range: &RangeRequest,
) -> Result<bool, Stop> {
    let engine = &state.export.engine;
    if !run.server.covers(engine, state.node)? {
        return Ok(false);
    }
    let held = engine.conflicting_range(state.node, locks.number, LockRule::Merging, range)?;
    Ok(held.is_none_or(|(owner, _)| run.server.grace.may_claim(owner.client)))
}

/// The lock state of an owner for an open. It may exist already. The caller holds the lock on the client's
/// states of the file.
///
/// # Errors
/// NFS4ERR_BAD_STATEID for a state that is not an open, or of another file; NFS4ERR_DELAY.
fn state_for_open(
    run: &Run,
    client: &Arc<Client>,
    open: Arc<LockingState>,
    owner: &[u8],
    handle: Handle,
) -> Result<OwnerLocks, Stop> {
    open.opened().filter(|_| open.handle == handle).ok_or(NfsStat::BadStateId)?;
    let of = OwnerOnFile { owner, export: open.export.id, node: open.node };
    if let Some(known) = client.locks_of(of) {
        return Ok(OwnerLocks { state: known, is_new: false });
    }
    let key = states::reserve_charged(run, client, &open.export, owner).ok_or(NfsStat::Delay)?;
    let new_state = NewState {
        instance: run.server.config().instance,
        key,
        client: client.id,
        export: Arc::clone(&open.export),
        handle: open.handle,
        node: open.node,
    };
    let number = client.lock_owner(owner);
    let Some(state) = LockingState::first_lock(new_state, owner, number, open) else {
        run.server.forget_key(key);
        return Err(NfsStat::BadStateId.into());
    };
    let state = run.server.add_state(state);
    states::finish_adding(run, &state, client.add_locks(of, &state))?;
    Ok(OwnerLocks { state, is_new: true })
}

/// Locks the range. `note` is the note of the open from then on.
fn take(
    run: &Run,
    state: &LockingState,
    locks: &LockState,
    range: &RangeRequest,
    note: Option<&Vec<u8>>,
) -> Result<(), Stop> {
    let holding = state.holding();
    let needs = if range.kind == RangeKind::Exclusive { ShareAccess::WRITE } else { ShareAccess::READ };
    if !holding.access.contains(needs) {
        return Err(NfsStat::OpenMode.into());
    }
    // The request does not wait for the range, but must know if a caching right is being broken.
    run.ask_now(&state.export, |engine, caller| {
        let ranges = std::slice::from_ref(range);
        let (owner, rule, note) = (locks.number, LockRule::Merging, || note.cloned());
        match engine.lock_recorded(caller, &holding.open, owner, rule, ranges, &note) {
            share::CallResult::Done(()) => Ok(()),
            share::CallResult::Wait(_) | share::CallResult::Refused(Refusal::SharingConflict) => {
                Err(Refusal::Busy)
            }
            // The open was closed meanwhile.
            share::CallResult::Refused(Refusal::Gone) => Err(Refusal::NoSuchGrant),
            share::CallResult::Refused(why) => Err(why),
        }
    })
}

/// The range of a request.
///
/// # Errors
/// NFS4ERR_INVAL for an empty range, or one that exceeds the largest offset.
// RFC 8881 18.10.3
pub fn range_of(kind: LockType, offset: u64, length: u64) -> Result<RangeRequest, NfsStat> {
    let kind = match kind {
        LockType::Read | LockType::ReadW => RangeKind::Shared,
        LockType::Write | LockType::WriteW => RangeKind::Exclusive,
        LockType::Unknown(_) => return Err(NfsStat::Inval),
    };
    let len = match length {
        0 => return Err(NfsStat::Inval),
        u64::MAX => (u64::MAX - offset).saturating_add(1),
        _ if offset.checked_add(length).is_none() => return Err(NfsStat::Inval),
        _ => length,
    };
    Ok(RangeRequest { start: offset, len, kind })
}

/// Replies with the lock in conflict.
///
/// # Errors
/// NFS4ERR_DENIED, with its result written; the error of the host.
pub fn denied(
    run: &mut Run,
    number: OpNum,
    export: &Export,
    node: NodeId,
    owner: LockOwner,
    range: &RangeRequest,
) -> OpResult {
    // If the lock in conflict is gone by now, the reply names the requested range.
    let found = export.engine.conflicting_range(node, owner, LockRule::Merging, range)?;
    let (holder, held) = found.unwrap_or((owner, *range));
    let client = run.server.clients.all().into_iter().find(|client| client.key == holder.client);
    let name = client.as_ref().and_then(|client| client.owner_name(holder)).unwrap_or_default();
    let is_to_the_end = held.start.checked_add(held.len).is_none_or(|end| end == u64::MAX);
    let denied = Denied {
        offset: held.start,
        length: if is_to_the_end { u64::MAX } else { held.len },
        locktype: if held.kind == RangeKind::Shared { LockType::Read } else { LockType::Write },
        owner: StateOwner { clientid: client.map_or(0, |client| client.id), owner: Identity(&name) },
    };
    if number == OpNum::Lock {
        run.writer.put(number, &Res::<ResOk>::Denied(denied));
    } else {
        run.writer.put(number, &Res::<()>::Denied(denied));
    }
    Err(Stop::Written(NfsStat::Denied))
}

/// Whether an owner has any range of its file locked.
#[must_use]
pub fn holds_any(state: &LockingState, locks: &LockState) -> bool {
    state.export.engine.holds_ranges(state.node, locks.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_bytes_and_an_end() {
        let range = |offset, length| range_of(LockType::Write, offset, length);
        assert_eq!(range(5, 0), Err(NfsStat::Inval));
        assert_eq!(range(5, u64::MAX - 4), Err(NfsStat::Inval));
        let to_the_end = range(5, u64::MAX).unwrap();
        assert!(to_the_end.is_valid() && to_the_end.len == u64::MAX - 4);
        assert!(range(0, u64::MAX).unwrap().is_valid());
        assert_eq!(range(5, 7).unwrap(), RangeRequest { start: 5, len: 7, kind: RangeKind::Exclusive });
        assert_eq!(range_of(LockType::Unknown(9), 0, 1), Err(NfsStat::Inval));
    }
}
