//! Taking up again, after a restart, what a client had (RFC 8881 8.4.2): opens, delegations, byte ranges.
//!
//! A claim is first looked for among what was kept. One that is not there may still be right: a client opens files under its
//! delegation without telling, and the end of the record is lost with the power of the host. So it is done like any other
//! open or lock, by somebody of whom it is certain that they were there and that nothing was taken away from them, and is
//! refused when it meets somebody else's.

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use share::{Caching, Caller, ClientKey, Detached, Keeper, Open, Restored, Share};
use volume::journal::Journal;
use wire::Now;

use crate::client::{Client, Of};
use crate::compound::{Run, Stop};
use crate::config::Export;
use crate::grace::{Absent, Kept};
use crate::handle::Handle;
use crate::op::open::{denial, narrowed};
use crate::record::{Known, Note, What};
use crate::roll::Unreadable;
use crate::server::Server;
use crate::state::{Holding, Place, State, state_bytes};

/// Nobody needs to hear that an open is over that no client has claimed.
struct Unheard;

impl Keeper for Unheard {
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
        if let share::Step::Done(amended) = state.export.engine.amend(&caller, open, wanted, deny) {
            opened.hold(Holding::new(amended, holding.access, holding.deny));
            enlist(state);
            state.export.engine.write_changes();
        }
    }
}

/// Closes an open that nobody has claimed.
fn close(engine: &Share, open: &Arc<Open>, now: Now) {
    if let Err(why) = engine.close(open, now) {
        tracing::warn!(share = %engine.name(), %why, "an open from before the restart was closed with an error");
    }
}

/// Has the engine record what a client holds, so that it can come back for it after a restart.
pub fn enlist(state: &State) {
    let engine = &state.export.engine;
    if !engine.keeps_opens() {
        return;
    }
    let holding = state.holding();
    let (what, owner) = match state.opened() {
        Some(open) => (What::Open, open.owner.clone()),
        None => (What::Delegation, Box::default()),
    };
    let note = Note { what, owner, export: state.export.id, access: holding.access, deny: holding.deny };
    if let Err(why) = engine.enlist(&holding.open, state.handle.address(), note.encode()) {
        tracing::warn!(export = %state.export.name, %why, "an open could not be recorded; it ends with the server");
    }
}

/// Whether the client that asks may claim anything now.
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

/// What a claim meets that others hold.
// RFC 8881 15.1.9.4
pub fn conflict(stop: Stop) -> Stop {
    match stop {
        Stop::Fail(NfsStat::ShareDenied | NfsStat::Denied | NfsStat::Grace) => {
            Stop::Fail(NfsStat::ReclaimConflict)
        }
        other => other,
    }
}

/// Takes up the open of an open-owner; none when there is none that was kept.
///
/// # Errors
/// NFS4ERR_DELAY, NFS4ERR_ROFS.
pub fn take_open(
    run: &Run,
    (client, of): (&Arc<Client>, Of<'_>),
    export: &Arc<Export>,
    handle: Handle,
    (access, deny): (ShareAccess, ShareDeny),
) -> Result<Option<Arc<State>>, Stop> {
    if access.contains(ShareAccess::WRITE) {
        run.check_writable(export)?;
    }
    let taken = run.server.grace.take(client.key, (What::Open, of.owner), of.export, of.node);
    let Some(kept) = taken else { return Ok(None) };
    let is_within = kept.note.access.contains(access) && kept.note.deny.contains(deny);
    if !is_within {
        // It was opened for less, as far as is known: to be opened anew, which may meet others.
        close(&export.engine, &kept.open, run.now);
        return Ok(None);
    }
    let state = take_up(run, client, export, handle, &kept, |place, holding| {
        State::open(place, of.owner, Holding::new(holding, access, deny))
    })?;
    enter(run, &state, client.add_open(of, &state))?;
    run.server.grace.claimed(client.key, &state, run.now);
    Ok(Some(state))
}

/// The key of a new state of a client on an export, for an owner of this name; none when there are too many, or the client has
/// more than there is memory left for.
pub fn room(run: &Run, client: &Client, export: &Arc<Export>, owner: &[u8]) -> Option<u64> {
    let memory = export.engine.client_memory();
    let user = run.identity(export);
    let payer = memory.payer(client.key, &user);
    if memory.has_room(payer, state_bytes(owner)) {
        return reserve(run, client);
    }
    memory.refuse(payer, &user.name, run.now.mono_ns);
    None
}

/// The same for a state that is claimed back: its client was charged for what it stands for when that was restored.
fn reserve(run: &Run, client: &Client) -> Option<u64> {
    if !client.may_add_state() {
        return None;
    }
    let reserve = || run.server.reserve_state();
    // What clients have that are long gone is given to those that are there.
    reserve().or_else(|| if run.server.end_expired(run.now) { reserve() } else { None })
}

/// Ends a state again whose client has ended before it was entered.
///
/// # Errors
/// NFS4ERR_DELAY: who asks again learns that its session is gone.
pub fn enter(run: &Run, state: &State, is_entered: bool) -> Result<(), Stop> {
    if is_entered {
        return Ok(());
    }
    run.server.end_state(state, run.now);
    Err(NfsStat::Delay.into())
}

/// What has become of a delegation that a client claims.
pub enum Again {
    /// It has it.
    Held(Arc<State>),
    /// It was taken away before the restart, so that others may have changed the file since.
    Lost,
    /// It was not recorded.
    Unknown,
}

/// Whether the right of a delegation is there.
pub fn is_held(open: &Open, write: bool) -> bool {
    open.caching()
        .is_some_and(|grant| grant.state.contains(if write { Caching::WRITE } else { Caching::READ }))
}

/// Takes up a delegation, for writing or for reading.
///
/// # Errors
/// NFS4ERR_DELAY.
pub fn take_delegation(
    run: &Run,
    client: &Arc<Client>,
    (export, node): (&Arc<Export>, volume::NodeId),
    handle: Handle,
    write: bool,
) -> Result<Again, Stop> {
    let taken = run.server.grace.take(client.key, (What::Delegation, &[]), export.id, node);
    let Some(kept) = taken else { return Ok(Again::Unknown) };
    if kept.note.access.contains(ShareAccess::WRITE) != write {
        close(&export.engine, &kept.open, run.now);
        return Ok(Again::Unknown);
    }
    // It stays recorded until its client has freed it.
    if !is_held(&kept.open, write) {
        close(&export.engine, &kept.open, run.now);
        return Ok(Again::Lost);
    }
    let access = kept.note.access;
    let state = take_up(run, client, export, handle, &kept, |place, holding| {
        State::delegated(place, client, Holding::new(holding, access, ShareDeny::empty()))
    })?;
    Ok(Again::Held(state))
}

/// Makes a state of an open that was kept.
fn take_up(
    run: &Run,
    client: &Arc<Client>,
    export: &Arc<Export>,
    handle: Handle,
    kept: &Kept,
    make: impl FnOnce(Place, Arc<Open>) -> State,
) -> Result<Arc<State>, Stop> {
    let node = kept.open.node_id();
    client.attach(export);
    if let Some(key) = kept.open.cache_key() {
        client.remember_key(export.id, node, key);
    }
    let Some(key) = reserve(run, client) else {
        close(&export.engine, &kept.open, run.now);
        return Err(NfsStat::Delay.into());
    };
    let place = Place { key, client: client.id, export: Arc::clone(export), handle, node };
    let state = run.server.enter_state(make(place, Arc::clone(&kept.open)));
    if state.delegation().is_some() {
        // Before it is the client's again, since others may be waiting for it.
        enter(run, &state, client.add_delegation(&state))?;
    }
    let identity = run.identity(export);
    let caller = Caller { identity: &identity, client: client.key, waiter: None, now: run.now, origin: None };
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
