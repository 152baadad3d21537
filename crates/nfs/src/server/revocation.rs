//! Revocation of a client's state by an administrator (RFC 8881 8.5).
//!
//! The engine closes the open or releases the locks, so that others get the file at once. The state leaves
//! the table, and the server remembers only its key with its client. A request that names its stateid gets
//! NFS4ERR_ADMIN_REVOKED, and every SEQUENCE of the client says SEQ4_STATUS_ADMIN_STATE_REVOKED until
//! FREE_STATEID has acknowledged the last such state (RFC 8881 18.46.3).
//!
//! Another client may lock and change the file meanwhile. So a client that has not acknowledged a revocation
//! must not reclaim after a restart of the server (RFC 8881 8.4.3). Its client record is struck off until
//! then. That is on stable storage before anything is released.

use std::sync::Arc;

use nfs_wire::types::StateId;
use share::{LockRule, RangeKind, RangeRequest};
use wire::Now;

use super::Server;
use crate::state::client::Client;
use crate::state::record::note_again;
use crate::state::stateid::{LockState, LockingState, OwnerOnFile};

/// Every byte that a lock can name. One length does not reach the last byte.
const ALL_BYTES: [RangeRequest; 2] = [
    RangeRequest { start: 0, len: u64::MAX, kind: RangeKind::Exclusive },
    RangeRequest { start: u64::MAX, len: 1, kind: RangeKind::Exclusive },
];

/// The state that a revocation has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Revocation {
    /// Opens.
    pub opens: usize,
    /// Lock-owners that had locks.
    pub lock_owners: usize,
    /// Delegations.
    pub delegations: usize,
}

impl Server {
    /// Revokes the state of a client that a stateid names. That is an open with its locks and the client's
    /// delegation of the file, the locks of one owner, or a delegation. None when there is no such state. May
    /// block.
    pub fn revoke(&self, client: u64, other: &[u8; 12], now: Now) -> Option<Revocation> {
        let client = self.clients.get(client)?;
        let state = self.live_state(client.id, other)?;
        // The lock on the states is taken after the commit: other clients may wait for the same lock.
        client.begin_revocation(|| self.client_records.remove(&[client.key]));
        let revoked = self.revoke_live(&client, &state, other, now);
        // The client must not find it again after a restart.
        state.export.engine.write_changes();
        client.finish_revocation();
        // It stays recorded if nothing was revoked.
        self.record_acknowledged(std::slice::from_ref(&client));
        revoked
    }

    /// Revokes the state that a stateid names. `known` is on the same file. None when the state has ended.
    fn revoke_live(
        &self,
        client: &Client,
        known: &LockingState,
        other: &[u8; 12],
        now: Now,
    ) -> Option<Revocation> {
        let _lock = self.lock_states(client, &known.export, known.node);
        // Another request may have ended it before this one had the lock.
        let state = self.live_state(client.id, other)?;
        let mut revoked = Revocation::default();
        if let Some(open) = state.opened() {
            let of = OwnerOnFile { owner: &open.owner, export: state.export.id, node: state.node };
            for locks in client.remove_open(of, &state) {
                self.revoke_state(client, &locks, now);
                revoked.lock_owners += 1;
            }
            self.revoke_state(client, &state, now);
            revoked.opens += 1;
            // The client could go on reading and writing with its delegation's stateid.
            if let Some(delegation) = client.delegation_of(state.export.id, state.node) {
                self.revoke_delegation(client, &delegation, now);
                revoked.delegations += 1;
            }
        } else if let Some(locks) = state.locks() {
            self.revoke_locks(client, &state, locks, now)?;
            // What a client has reclaimed so far is not all that it had.
            if let Some(opened) = locks.open.opened().filter(|_| client.has_reclaimed()) {
                note_again(client, &locks.open, *opened.changing.lock());
            }
            revoked.lock_owners += 1;
        } else {
            self.revoke_delegation(client, &state, now);
            revoked.delegations += 1;
        }
        Some(revoked)
    }

    /// The state of a client that a stateid names, unless it was revoked before.
    #[must_use]
    pub fn live_state(&self, client: u64, other: &[u8; 12]) -> Option<Arc<LockingState>> {
        let key = self.key_of(other)?;
        let state = self.states.get(key).filter(|state| state.client == client)?.share();
        let is_taken = state.delegation().is_some_and(|delegation| delegation.is_revoked());
        (!is_taken && !state.is_admin_revoked()).then_some(state)
    }

    /// Revokes a state that its client does not hold any more.
    fn revoke_state(&self, client: &Client, state: &LockingState, now: Now) {
        // In this order, a request finds the state in the table or among the revoked ones.
        client.add_revoked(state);
        state.revoke();
        self.end_state(state, now);
    }

    /// Releases all ranges of a lock-owner. None when the state was freed meanwhile.
    fn revoke_locks(
        &self,
        client: &Client,
        state: &Arc<LockingState>,
        locks: &LockState,
        now: Now,
    ) -> Option<()> {
        let mut freed = locks.freed.lock();
        if *freed {
            return None;
        }
        *freed = true;
        let holding = state.holding();
        let released = state.export.engine.unlock(&holding.open, locks.number, LockRule::Merging, &ALL_BYTES);
        if let Err(why) = released {
            tracing::debug!(%why, export = %state.export.name, "no range was left to release");
        }
        for range in ALL_BYTES {
            self.grace.changed_range(client.key, &locks.open, (locks.number, range, false));
        }
        let of = OwnerOnFile { owner: &locks.owner, export: state.export.id, node: state.node };
        client.remove_locks(of, state);
        self.revoke_state(client, state, now);
        Some(())
    }

    fn revoke_delegation(&self, client: &Client, state: &Arc<LockingState>, now: Now) {
        client.add_revoked(state);
        state.revoke();
        self.end_delegation(client, state, now);
    }

    /// Whether a stateid names a state of a client that an administrator has revoked.
    #[must_use]
    pub fn is_admin_revoked(&self, client: u64, id: &StateId) -> bool {
        let key = self.key_of(&id.other);
        key.zip(self.clients.get(client)).is_some_and(|(key, client)| client.is_revoked(key))
    }

    /// Forgets a revoked state that its client has acknowledged. Returns false if the stateid names none.
    pub fn acknowledge_revoked(&self, client: &Client, id: &StateId) -> bool {
        let is_acknowledged = self.key_of(&id.other).is_some_and(|key| client.remove_revoked(key));
        if is_acknowledged {
            self.recorded.remove(&id.other);
        }
        is_acknowledged
    }

    /// Enters clients into the client record again that have acknowledged all revocations. May block.
    pub(super) fn record_acknowledged(&self, clients: &[Arc<Client>]) {
        for client in clients.iter().filter(|client| client.has_acknowledged()) {
            self.record_client(client);
        }
    }
}
