//! Reclaim of opens, delegations and byte ranges after a restart (RFC 8881 8.4.2).
//!
//! A reclaim first looks among the opens that were kept. A reclaim that is not found there may still be
//! valid: a client opens files under its delegation without telling the server, and a power failure of the
//! host loses the last records. Such a reclaim runs like any other open or lock. Its client is known to have
//! been there, and nothing was revoked from it. The reclaim fails if it conflicts with another client.

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use share::{Caching, Caller, Open};

use super::states::{StateTarget, finish_adding, reserve};
use crate::compound::{Run, Stop};
use crate::state::grace::{UnclaimedOpen, close};
use crate::state::open::{Holding, Modes};
use crate::state::record::{RecordedKind, note_again};
use crate::state::share_reservation::Reservation;
use crate::state::stateid::{LockingState, NewState};

/// Checks that the client may reclaim now.
///
/// # Errors
/// NFS4ERR_NO_GRACE.
// RFC 8881 8.4.2.1, 18.51.3
pub fn check(run: &Run) -> Result<(), NfsStat> {
    let client = &run.session()?.client;
    if !client.has_reclaimed() && run.server.grace.may_claim(client.key) {
        Ok(())
    } else {
        Err(NfsStat::NoGrace)
    }
}

/// Maps a conflict with other clients to the status for a reclaim.
// RFC 8881 15.1.9.4
pub fn conflict(stop: Stop) -> Stop {
    match stop {
        Stop::Fail(NfsStat::ShareDenied | NfsStat::Denied | NfsStat::Grace) => {
            Stop::Fail(NfsStat::ReclaimConflict)
        }
        other => other,
    }
}

/// Has the opens of the file restored. If the host fails to open the file, the server has not given it up and
/// tries again itself, so the client is to ask again. After NFS4ERR_IO it would take the open for lost.
///
/// # Errors
/// NFS4ERR_DELAY.
// RFC 8881 15.1.1.3, 15.1.4.6
fn restore(run: &Run, target: StateTarget<'_>) -> Result<(), NfsStat> {
    target.export.engine.restore_file(target.item.id()).map_err(|_| {
        run.server.grace.lengthen();
        NfsStat::Delay
    })
}

/// Reclaims the open of an open-owner. None if no such open was kept.
///
/// # Errors
/// NFS4ERR_DELAY, NFS4ERR_ROFS.
pub fn take_open(
    run: &Run,
    target: StateTarget<'_>,
    owner: &[u8],
    wanted: Reservation,
) -> Result<Option<Arc<LockingState>>, Stop> {
    let (client, of) = (target.client, target.of(owner));
    let Reservation { access, deny } = wanted;
    if access.contains(ShareAccess::WRITE) {
        run.check_writable(target.export)?;
    }
    restore(run, target)?;
    let taken = run.server.grace.take(client.key, RecordedKind::Open, of);
    let Some(kept) = taken else { return Ok(None) };
    let is_within = kept.note.access.contains(access) && kept.note.deny.contains(deny);
    if !is_within {
        // The recorded open allows less. Open the file again, which may conflict with others.
        close(&target.export.engine, &kept.open, run.now);
        return Ok(None);
    }
    let state = restore_state(run, target, &kept, |new_state, holding| {
        LockingState::open(new_state, owner, Holding::new(holding, access, deny))
    })?;
    finish_adding(run, &state, client.add_open(of, &state))?;
    run.server.grace.claimed(client.key, &state, run.now);
    Ok(Some(state))
}

/// The outcome of reclaiming a delegation.
pub enum DelegationReclaim {
    /// The client has the delegation again.
    Held(Arc<LockingState>),
    /// The delegation was revoked before the restart, so others may have changed the file since.
    Lost,
    /// The delegation was not recorded.
    Unknown,
}

/// Whether an open holds the right of a delegation.
pub fn is_held(open: &Open, write: bool) -> bool {
    open.caching()
        .is_some_and(|grant| grant.state.contains(if write { Caching::WRITE } else { Caching::READ }))
}

/// Reclaims a delegation, for writing or for reading.
///
/// # Errors
/// NFS4ERR_DELAY.
pub fn take_delegation(run: &Run, target: StateTarget<'_>, write: bool) -> Result<DelegationReclaim, Stop> {
    restore(run, target)?;
    let taken = run.server.grace.take(target.client.key, RecordedKind::Delegation, target.of(&[]));
    let Some(kept) = taken else { return Ok(DelegationReclaim::Unknown) };
    if kept.note.access.contains(ShareAccess::WRITE) != write {
        close(&target.export.engine, &kept.open, run.now);
        return Ok(DelegationReclaim::Unknown);
    }
    // It stays recorded until its client has freed it.
    if !is_held(&kept.open, write) {
        close(&target.export.engine, &kept.open, run.now);
        return Ok(DelegationReclaim::Lost);
    }
    let access = kept.note.access;
    let state = restore_state(run, target, &kept, |new_state, holding| {
        LockingState::delegated(
            new_state,
            &target.client.revoked,
            Holding::new(holding, access, ShareDeny::empty()),
        )
    })?;
    note_again(target.client, &state, Modes::default());
    Ok(DelegationReclaim::Held(state))
}

/// Turns an open that was kept into a state of its client.
fn restore_state(
    run: &Run,
    target: StateTarget<'_>,
    kept: &UnclaimedOpen,
    make: impl FnOnce(NewState, Arc<Open>) -> LockingState,
) -> Result<Arc<LockingState>, Stop> {
    let StateTarget { client, export, handle, .. } = target;
    let node = kept.open.node_id();
    client.attach(export);
    if let Some(key) = kept.open.cache_key() {
        client.remember_key(export.id, node, key);
    }
    let Some(key) = reserve(run, client) else {
        close(&target.export.engine, &kept.open, run.now);
        return Err(NfsStat::Delay.into());
    };
    let instance = run.server.config().instance;
    let new_state = NewState { instance, key, client: client.id, export: Arc::clone(export), handle, node };
    let state = run.server.add_state(make(new_state, Arc::clone(&kept.open)));
    if state.delegation().is_some() {
        // Add it before it belongs to the client again, since other requests may wait for it.
        finish_adding(run, &state, client.add_delegation(&state))?;
    }
    let identity = run.identity(export);
    let details = Some(&run.session()?.details);
    let caller =
        Caller { identity: &identity, client: client.key, waiter: None, now: run.now, origin: None, details };
    if let Err(why) = export.engine.reclaim(&kept.open, &caller) {
        tracing::warn!(export = %export.name, %why, "an open from before the restart could not be taken up");
        if state.delegation().is_some() {
            client.remove_delegation(&state);
        }
        run.server.end_state(&state, run.now);
        return Err(NfsStat::ReclaimBad.into());
    }
    Ok(state)
}
