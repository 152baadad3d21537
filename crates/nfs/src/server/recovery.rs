//! Recovery after a restart: the clients that may reclaim, the opens that are kept for them, and the end of
//! the grace period (RFC 8881 8.4.2).
//!
//! `crate::op::claim` hands out the opens that a client reclaims.

use std::sync::Arc;

use share::{Caller, ClientKey, Detached, LossListener, Open, Refusal, Restored, Share};
use volume::NodeId;
use volume::journal::Journal;
use wire::Now;

use super::Server;
use crate::state::client::Client;
use crate::state::client_records::Unreadable;
use crate::state::grace::{AbsentClient, UnclaimedOpen, close};
use crate::state::open::Holding;
use crate::state::record::{Note, RecordedIdentity, enlist};
use crate::state::share_reservation::{denial, narrowed};
use crate::state::stateid::LockingState;

/// A client that has not reclaimed an open need not hear that it has ended.
struct Unheard;

impl LossListener for Unheard {
    fn on_lost(&self, _token: u64) {}
}

impl Server {
    /// Records clients in `journal` from now on. The journal holds `records`, and the clients in those may
    /// reclaim. `boot` identifies the present boot of the host. Call this once, before the first request.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn keep_clients(
        &self,
        journal: Arc<dyn Journal>,
        records: &[Vec<u8>],
        boot: &[u8],
        now: Now,
    ) -> Result<(), Unreadable> {
        let before = self.client_records.begin(journal, records, boot)?;
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
    /// open files is not known, so nothing new is opened until they are done. Call this after
    /// [`Server::keep_clients`].
    pub fn mark_records_incomplete(&self) {
        self.grace.mark_incomplete();
    }

    /// Keeps a restored open of a share for its client, if that may reclaim it, and closes it otherwise.
    /// Returns whether it is kept. Call this after [`Server::set_exports`].
    pub fn restore_open(&self, engine: &Arc<Share>, restored: Restored, now: Now) -> bool {
        let Restored { open, note, address, .. } = restored;
        let Err(why) = self.keep(engine, &open, &note, &address, now) else { return true };
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
    ) -> Result<(), &'static str> {
        let note = Note::decode(note).map_err(|_| "what was noted of it cannot be read")?;
        let exports = self.exports();
        let export = exports.get(note.export).filter(|export| Arc::ptr_eq(&export.engine, engine));
        let export = Arc::clone(export.ok_or("its export is not served any more")?);
        if self.handles.make(export.id, address).is_none() {
            return Err("its file has no handle");
        }
        let how = Detached { until_ns: u64::MAX, yields: false, keeper: Arc::new(Unheard), token: 0 };
        engine.detach_restored(open, how, now).map_err(|_| "there are too many")?;
        let kept = UnclaimedOpen { export, open: Arc::clone(open), note };
        self.grace.keep(kept).map_err(|_| "its client cannot come back")
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
        if !self.client_records.is_recording() {
            return;
        }
        let (owner, principal) = (client.owner.clone(), client.principal.clone());
        let known = RecordedIdentity { key: client.key, owner, verifier: client.verifier, principal };
        client.record(|| self.client_records.add(known));
    }

    /// Notes that clients have ended or restarted: nobody can reclaim their opens. May block.
    pub fn forget_clients(&self, keys: impl IntoIterator<Item = ClientKey>, now: Now) {
        let keys: Vec<_> = keys.into_iter().collect();
        for key in &keys {
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
            self.finish(absent, now);
        }
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

    /// Narrows an open to the access that was reclaimed.
    fn narrow(&self, state: &LockingState, now: Now) {
        let Some(opened) = state.opened() else { return };
        let _modes = opened.changing.lock();
        let holding = state.holding();
        let Ok(deny) = denial(holding.deny) else { return };
        let open = &holding.open;
        let wanted = narrowed(open.granted(), holding.access);
        if open.is_closed() || (wanted == open.granted() && deny.contains(open.deny())) {
            return;
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
            enlist(state);
            state.export.engine.write_changes();
        }
    }
}
