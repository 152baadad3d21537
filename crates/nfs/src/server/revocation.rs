//! Revocation of a client's state by an administrator (RFC 8881 8.5).
//!
//! The engine closes the open or releases the locks, so that others get the file at once. The state itself
//! stays in the table without them. A request that names its stateid gets NFS4ERR_ADMIN_REVOKED, and every
//! SEQUENCE of the client says SEQ4_STATUS_ADMIN_STATE_REVOKED until FREE_STATEID has acknowledged the last
//! such state (RFC 8881 18.46.3).
//!
//! Another client may lock and change the file meanwhile. So a client that has not acknowledged a revocation
//! must not reclaim after a restart of the server (RFC 8881 8.4.3). Its client record is struck off until
//! then.

use std::sync::Arc;

use nfs_wire::types::StateId;
use share::{LockRule, RangeKind, RangeRequest};
use wire::Now;

use super::Server;
use crate::state::client::Client;
use crate::state::stateid::{self, LockState, LockingState, OwnerOnFile};

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
        let state = self.live_state(&client, other)?;
        let _lock = self.lock_states(&client, &state.export, state.node);
        // Another request may have ended it before this one had the lock.
        let state = self.live_state(&client, other)?;
        let mut revoked = Revocation::default();
        if let Some(open) = state.opened() {
            let of = OwnerOnFile { owner: &open.owner, export: state.export.id, node: state.node };
            for locks in client.remove_open(of, &state) {
                self.revoke_state(&client, &locks, now);
                revoked.lock_owners += 1;
            }
            self.revoke_state(&client, &state, now);
            revoked.opens += 1;
            // The client could go on reading and writing with its delegation's stateid.
            if let Some(delegation) = client.delegation_of(state.export.id, state.node) {
                self.revoke_delegation(&client, &delegation, now);
                revoked.delegations += 1;
            }
        } else if let Some(locks) = state.locks() {
            self.revoke_locks(&client, &state, locks, now)?;
            revoked.lock_owners += 1;
        } else {
            self.revoke_delegation(&client, &state, now);
            revoked.delegations += 1;
        }
        client.strike();
        self.client_records.remove(&[client.key]);
        Some(revoked)
    }

    /// The state that a stateid names, unless it was revoked before.
    fn live_state(&self, client: &Client, other: &[u8; 12]) -> Option<Arc<LockingState>> {
        let key = stateid::key_of(self.config.instance, other)?;
        let state = self.states.get(key).filter(|state| state.client == client.id)?.share();
        let is_taken = state.delegation().is_some_and(|delegation| delegation.is_revoked());
        (!is_taken && !state.is_admin_revoked()).then_some(state)
    }

    /// Revokes a state that its client does not hold any more.
    fn revoke_state(&self, client: &Client, state: &Arc<LockingState>, now: Now) {
        state.revoke();
        if state.locks().is_none() {
            self.close_open(state, now);
        }
        if !client.add_revoked(state) {
            // The client has ended meanwhile.
            self.forget_state(state);
        }
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
        if let Some(delegation) = state.delegation() {
            delegation.end();
        }
        // Opens of the client that are under the same key keep the right otherwise.
        let key = client.cache_key(state.export.id, state.node);
        state.export.engine.release_key(client.key, key, true, now);
        client.remove_delegation(state);
        self.proxies.remove(state);
        self.revoke_state(client, state, now);
    }

    /// The state of a client that a stateid names, if an administrator has revoked it.
    #[must_use]
    pub fn admin_revoked(&self, client: u64, id: &StateId) -> Option<Arc<LockingState>> {
        let key = stateid::key_of(self.config.instance, &id.other)?;
        let state = self.states.get(key).filter(|state| state.client == client)?;
        state.is_admin_revoked().then(|| state.share())
    }

    /// Forgets a revoked state that its client has acknowledged. False when another request has done so.
    pub fn forget_revoked(&self, client: &Client, state: &LockingState) -> bool {
        client.remove_revoked(state);
        self.forget_state(state)
    }

    /// Enters clients into the client record again that have acknowledged all revocations. May block.
    pub(super) fn record_acknowledged(&self, clients: &[Arc<Client>]) {
        for client in clients.iter().filter(|client| !client.has_ended() && client.take_acknowledged()) {
            self.record_client(client);
        }
    }
}
