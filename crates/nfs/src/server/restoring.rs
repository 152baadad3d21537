//! What a restart leaves: the clients that may come back, what is kept for them, and the end of that (RFC 8881 8.4.2).
//!
//! What a client then claims is given to it by `crate::op::claim`.

use std::sync::Arc;

use share::{Caller, ClientKey, Detached, LossListener, Open, Restored, Share};
use volume::journal::Journal;
use wire::Now;

use super::Server;
use crate::state::client::Client;
use crate::state::grace::{Absent, Kept, close};
use crate::state::open::Holding;
use crate::state::record::{Known, Note, enlist};
use crate::state::roll::Unreadable;
use crate::state::share_reservation::{denial, narrowed};
use crate::state::stateid::State;

/// Nobody needs to hear that an open is over that no client has claimed.
struct Unheard;

impl LossListener for Unheard {
    fn on_lost(&self, _token: u64) {}
}

impl Server {
    /// Keeps clients in `journal` from now on, which has `records`, and lets those come back of which they tell. `boot`
    /// tells this time that the host runs from any other. To be called once, before anybody is served.
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
        let before = self.roll.begin(journal, records, boot)?;
        let (clients, is_host_new) = (before.clients.len(), before.is_host_new);
        if clients > 0 {
            tracing::info!(
                clients,
                is_host_new,
                "NFS clients from before the restart may take up what they had"
            );
        }
        self.grace.begin(before, self.lease_ns(), now);
        Ok(())
    }

    /// Records of clients or of what they had are lost: as long as clients may come back, what is open is not known, and they claim it before
    /// anybody opens anew. To be called after [`Server::keep_clients`].
    pub fn doubt_records(&self) {
        self.grace.doubt();
    }

    /// Keeps what a share has restored for the clients that may come back for it; the rest is closed. To be called after
    /// [`Server::set_exports`] and before anybody is served.
    pub fn restore(&self, engine: &Arc<Share>, restored: Vec<Restored>, now: Now) {
        let mut opens = 0;
        for Restored { open, note, address, .. } in restored {
            match self.keep(engine, &open, &note, &address, now) {
                Ok(()) => opens += 1,
                Err(why) => {
                    tracing::info!(share = %engine.name(), why, "an open from before the restart is closed");
                    close(engine, &open, now);
                }
            }
        }
        if opens > 0 {
            tracing::info!(share = %engine.name(), opens, "opens from before the restart wait for their NFS clients");
        }
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
        engine.leave(open, how, now).map_err(|_| "there are too many")?;
        let kept = Kept { export, open: Arc::clone(open), note };
        self.grace.keep(kept).map_err(|_| "its client cannot come back")
    }

    /// Enters a client that has made its first session into the roll. May block.
    pub fn record_client(&self, client: &Client) {
        self.grace.is_back(client.key);
        if !self.roll.is_kept() {
            return;
        }
        let (owner, principal) = (client.owner.clone(), client.principal.clone());
        self.roll.enter(Known { key: client.key, owner, verifier: client.verifier, principal });
    }

    /// Clients are gone, or began anew: nobody can come back for what they had. May block.
    pub fn forget_clients(&self, keys: impl IntoIterator<Item = ClientKey>, now: Now) {
        let keys: Vec<_> = keys.into_iter().collect();
        for key in &keys {
            if let Some(absent) = self.grace.complete(*key) {
                self.finish(absent, now);
            }
        }
        self.roll.strike(&keys);
    }

    /// A client says that it has claimed everything: what it has not is given back.
    // RFC 8881 18.51.3
    pub fn complete_reclaim(&self, client: &Client, now: Now) {
        if let Some(absent) = self.grace.complete(client.key) {
            self.finish(absent, now);
        }
    }

    /// Ends the grace when its time is over.
    pub fn end_grace(&self, now: Now) {
        let mut late = Vec::new();
        for absent in self.grace.expire(now) {
            let (key, is_back) = (absent.known.key, absent.is_back);
            if !is_back {
                let owner = String::from_utf8_lossy(&absent.known.owner).into_owned();
                tracing::info!(
                    client = owner,
                    "an NFS client has not come back in time: what it had is given up"
                );
            }
            self.finish(absent, now);
            if !is_back {
                late.push(key);
            }
        }
        self.roll.strike(&late);
    }

    fn finish(&self, mut absent: Absent, now: Now) {
        for claimed in std::mem::take(&mut absent.claimed) {
            self.narrow(&claimed.state, now);
            let open = Arc::clone(&claimed.state.holding().open);
            claimed.state.export.engine.keep_ranges(&open, &claimed.ranges);
        }
        for kept in absent.unclaimed() {
            close(&kept.export.engine, &kept.open, now);
        }
    }

    /// Gives back what of an open was not claimed.
    fn narrow(&self, state: &State, now: Now) {
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
        let caller = Caller { identity: &identity, client: open.client(), waiter: None, now, origin: None };
        if let share::CallResult::Done(amended) = state.export.engine.amend(&caller, open, wanted, deny) {
            opened.hold(Holding::new(amended, holding.access, holding.deny));
            enlist(state);
            state.export.engine.write_changes();
        }
    }
}
