//! Recovery after a restart: the clients that may reclaim, the opens that are kept for them, and the end of
//! the grace period (RFC 8881 8.4.2).
//!
//! `crate::op::claim` hands out the opens that a client reclaims.

use std::sync::Arc;

use share::{Caller, ClientKey, Detached, LossListener, Open, Refusal, Restored, Share};
use volume::NodeId;
use wire::Now;

use super::Server;
use crate::state::client::Client;
use crate::state::client_records::{RecordStorage, Unreadable};
use crate::state::grace::{AbsentClient, KeepResult, UnclaimedOpen, close};
use crate::state::open::Holding;
use crate::state::record::{Note, RecordedIdentity, enlist, note_again};
use crate::state::share_reservation::{denial, narrowed};
use crate::state::stateid::LockingState;

/// A client that has not reclaimed an open need not hear that it has ended.
struct Unheard;

impl LossListener for Unheard {
    fn on_lost(&self, _token: u64) {}
}

impl Server {
    /// Records clients in `storage` from now on. Its journal holds `records`, and the clients in those may
    /// reclaim. `boot` identifies the present boot of the host. Call this once, before the first request.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn keep_clients(
        &self,
        storage: RecordStorage,
        records: &[Vec<u8>],
        boot: &[u8],
        now: Now,
    ) -> Result<(), Unreadable> {
        let before = self.client_records.begin(storage, records, boot)?;
        let (clients, is_host_new) = (before.clients.len(), before.is_host_new);
        if clients > 0 {
            tracing::info!(
                clients,
                is_host_new,
                "NFS clients from before the restart may reclaim their state"
            );
        }
        self.grace.begin(before, self.lease_ns(), now);
        Ok(())
    }

    /// Notes that records of clients or of their opens are lost. As long as clients may reclaim, the set of
    /// open files is not known, so nothing new is opened until they are done. No client may resume, after the
    /// next restart either. Call this after [`Server::keep_clients`]. May block.
    pub fn mark_records_incomplete(&self) {
        self.grace.mark_incomplete();
        // If the host refuses it, locks are refused until it does not.
        let _ = self.client_records.forget_ids();
    }

    /// Keeps a restored open of a share for its client, if that may reclaim it, and closes it otherwise.
    /// Returns whether it is kept. Call this after [`Server::set_exports`].
    pub fn restore_open(&self, engine: &Arc<Share>, restored: Restored, now: Now) -> bool {
        let Restored { open, note, address, .. } = restored;
        let client = open.client();
        let why = match self.keep(engine, &open, &note, &address, now) {
            Ok(KeepResult::Kept) => return true,
            Ok(KeepResult::Resumed(client, kept)) => {
                self.give_back(&client, kept, None, now);
                return true;
            }
            Ok(KeepResult::Nobody) => "its client cannot come back",
            Err(why) => {
                // It may reclaim the open.
                self.grace.end_client_id(client);
                self.lose_open(client, &note);
                why
            }
        };
        tracing::info!(share = %engine.name(), why, "an open from before the restart is closed");
        close(engine, &open, now);
        false
    }

    fn keep(
        &self,
        engine: &Arc<Share>,
        open: &Arc<Open>,
        note: &[u8],
        address: &[u8],
        now: Now,
    ) -> Result<KeepResult, &'static str> {
        let note = Note::decode(note).map_err(|_| "what was noted of it cannot be read")?;
        let exports = self.exports();
        let export = exports.get(note.export).filter(|export| Arc::ptr_eq(&export.engine, engine));
        let export = Arc::clone(export.ok_or("its export is not served any more")?);
        let handle = self.handles.make(export.id, address).ok_or("its file has no handle")?;
        let how = Detached { until_ns: u64::MAX, yields: false, keeper: Arc::new(Unheard), token: 0 };
        engine.detach_restored(open, how, now).map_err(|_| "there are too many")?;
        Ok(self.grace.keep(UnclaimedOpen { export, open: Arc::clone(open), handle, note }))
    }

    /// Whether a new open or lock on a file has to wait, because a client may reclaim the file.
    ///
    /// # Errors
    /// The host's error, if nobody knows whether the file has such opens.
    pub fn covers(&self, engine: &Share, file: NodeId) -> Result<bool, Refusal> {
        if !self.grace.is_on() {
            return Ok(false);
        }
        engine.restore_file(file)?;
        Ok(self.grace.covers(file))
    }

    /// Adds a client that has created its first session to the client records. A client that has ended is not
    /// added. May block.
    pub fn record_client(&self, client: &Client) {
        self.grace.is_back(client.key);
        if client.key == self.clients.key_of_new(client.id) {
            // Nothing is recorded under its key.
            client.allow_resuming();
        }
        if !self.client_records.is_recording() {
            return;
        }
        client.record(|| {
            self.client_records.add(|| RecordedIdentity {
                key: client.key,
                id: client.recorded_id(),
                owner: client.owner.clone(),
                verifier: client.verifier,
                principal: client.principal.clone(),
            });
        });
    }

    /// Notes that clients have ended or restarted: nobody can reclaim their opens. May block.
    pub fn forget_clients(&self, keys: impl IntoIterator<Item = ClientKey>, now: Now) {
        let keys: Vec<_> = keys.into_iter().collect();
        for key in &keys {
            self.forget_unrestored(*key);
            self.recorded.forget_lost(*key);
            if let Some(absent) = self.grace.complete(*key) {
                self.finish(absent, now);
            }
        }
        self.client_records.remove(&keys);
    }

    /// Handles RECLAIM_COMPLETE: closes the opens that the client has not reclaimed.
    // RFC 8881 18.51.3
    pub fn complete_reclaim(&self, client: &Client, now: Now) {
        if let Some(absent) = self.grace.complete(client.key) {
            self.recorded.forget(client.key);
            self.finish(absent, now);
        }
        client.end_reclaim();
    }

    /// Ends the grace period if its time is up.
    pub fn end_grace(&self, now: Now) {
        let mut late = Vec::new();
        for absent in self.grace.expire(now) {
            let (key, is_back) = (absent.known.key, absent.is_back);
            if !is_back {
                let owner = String::from_utf8_lossy(&absent.known.owner).into_owned();
                tracing::info!(
                    client = owner,
                    "an NFS client has not returned in time; its opens and locks are released"
                );
            }
            self.recorded.forget(key);
            self.finish(absent, now);
            if !is_back {
                late.push(key);
            }
        }
        self.client_records.remove(&late);
    }

    fn finish(&self, mut absent: AbsentClient, now: Now) {
        for claimed in std::mem::take(&mut absent.claimed) {
            self.narrow(&claimed.state, now);
            let open = Arc::clone(&claimed.state.holding().open);
            claimed.state.export.engine.keep_ranges(&open, &claimed.ranges);
        }
        for kept in absent.unclaimed() {
            close(&kept.export.engine, &kept.open, now);
        }
    }

    /// Narrows an open to the access that was reclaimed, and records its stateid.
    fn narrow(&self, state: &LockingState, now: Now) {
        let Some((opened, client)) = state.opened().zip(self.clients.get(state.client)) else { return };
        let _lock = self.lock_states(&client, &state.export, state.node);
        let modes = opened.changing.lock();
        let holding = state.holding();
        let Ok(deny) = denial(holding.deny) else { return };
        let open = &holding.open;
        if open.is_closed() {
            return;
        }
        let wanted = narrowed(open.granted(), holding.access);
        if wanted == open.granted() && deny.contains(open.deny()) {
            return note_again(&client, state, *modes);
        }
        let identity = open.identity();
        let caller = Caller {
            identity: &identity,
            client: open.client(),
            waiter: None,
            now,
            origin: None,
            details: None,
        };
        if let share::CallResult::Done(amended) =
            state.export.engine.change_access(&caller, open, wanted, deny)
        {
            opened.hold(Holding::new(amended, holding.access, holding.deny));
            if !enlist(&client, state, *modes) {
                self.forget_client_id(&client);
            }
            state.export.engine.write_changes();
        } else {
            note_again(&client, state, *modes);
        }
    }
}
