//! Resumption after a restart: a client goes on with its client ID and its stateids (RFC 8881 8.4.2).
//!
//! The records hold all that a client had: its client ID, and for each open, delegation and lock-owner the
//! stateid. So a client that finds its session gone may create another one with its old client ID, as if only
//! the session had been lost (RFC 8881 2.10.13.1.4). It has nothing to reclaim then.
//!
//! The opens may not be restored at that time. A request that names the stateid of such an open has it
//! restored first. The others follow when the background comes to them.
//!
//! A client that sends EXCHANGE_ID instead reclaims (`crate::op::claim`). So does one that may have lost
//! anything: its records are of an earlier version, or some of them may be missing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_wire::NfsStat;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::types::StateId;
use share::{Caller, ClientDetails, ClientKey, Identity, Share, UnrestoredOpen};
use wire::Now;

use super::Server;
use crate::op::claim::is_held;
use crate::state::client::{Client, ExchangeIdRequest};
use crate::state::delegated_times::DelegatedBaseline;
use crate::state::grace::{UnclaimedOpen, close};
use crate::state::open::{Holding, Modes};
use crate::state::record::{Note, RecordedIdentity, RecordedKind, ResumableState, note_lazily};
use crate::state::recorded_states::UnrestoredState;
use crate::state::stateid::{self, LockingState, NewState, OwnerOnFile};

/// Most clients whose client IDs one tick records.
const RECORDED_AT_ONCE: usize = 16;

impl Server {
    /// Expects the recorded opens of a share: their clients may resume with them. Call this after
    /// [`Server::keep_clients`], before the opens are restored and before the first request.
    pub fn expect_opens(&self, engine: &Arc<Share>, unrestored: &[UnrestoredOpen]) {
        for open in unrestored.iter().filter(|open| self.grace.may_claim(open.client)) {
            let note = Note::decode(&open.note).ok();
            let Some(recorded) = note.and_then(|note| note.resumable) else {
                self.grace.end_client_id(open.client);
                continue;
            };
            let state = UnrestoredState::new(open.client, engine, open.id);
            let locks = recorded.lock_owners.iter().map(|locks| locks.other);
            for other in std::iter::once(recorded.id.other).chain(locks) {
                // It could not be told from a stateid of this run.
                if stateid::is_of_run(self.config.instance, &other) {
                    self.grace.end_client_id(open.client);
                }
                self.recorded.expect(other, &state);
            }
        }
    }

    /// Resumes a client from before the restart, if `request` is its own. Its next CREATE_SESSION is the one
    /// with this sequence ID.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID if there is no such client; NFS4ERR_DELAY if there are too many.
    pub fn resume(
        &self,
        known: &RecordedIdentity,
        request: &ExchangeIdRequest<'_>,
        sequence: u32,
        details: &Arc<ClientDetails>,
    ) -> Result<Arc<Client>, NfsStat> {
        let client = Arc::new(Client::new(known.id, known.key, request));
        // Nobody else creates a session of it before it has its states.
        let mut creating = client.creating.lock();
        creating.sequence = sequence.wrapping_sub(1);
        // Set before the first state may come back.
        client.resume(self.recorded.has_unrestored(known.key));
        if let Some(displaced) = self.clients.resume(&client, request.now)? {
            self.end_client(&displaced, request.now);
        }
        let Some(mut absent) = self.grace.resume(known.key, &client) else {
            self.clients.remove(&client);
            // Another CREATE_SESSION may have found it and wait.
            client.end();
            return Err(NfsStat::StaleClientId);
        };
        let opens = absent.take_unclaimed();
        tracing::info!(
            client = format!("{:x}", client.id),
            opens = opens.len(),
            "an NFS client from before the restart goes on with its client ID"
        );
        for kept in opens {
            self.give_back(&client, kept, Some(details), request.now);
        }
        drop(creating);
        Ok(client)
    }

    /// The key of a state from before the restart. Its open is restored first.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID if the client has no such state, and also if its file is gone. NFS4ERR_DELAY if
    /// its open could not be restored yet.
    #[cold]
    pub(super) fn resumed_key(&self, client: u64, id: &StateId) -> Result<u64, NfsStat> {
        if let Some(key) = self.recorded.key_of(&id.other) {
            return Ok(key);
        }
        let Some(unrestored) = self.recorded.unrestored(&id.other) else {
            self.acknowledge_lost(client, id);
            return Err(NfsStat::BadStateId);
        };
        if self.clients.get(client).is_none_or(|client| client.key != unrestored.client) {
            return Err(NfsStat::BadStateId);
        }
        let is_restored = unrestored.restore();
        let key = self.recorded.key_of(&id.other);
        key.ok_or(if is_restored { NfsStat::BadStateId } else { NfsStat::Delay })
    }

    /// Makes a kept open a state of its client again, together with the states of its lock-owners.
    pub(super) fn give_back(
        &self,
        client: &Arc<Client>,
        kept: UnclaimedOpen,
        details: Option<&Arc<ClientDetails>>,
        now: Now,
    ) {
        let engine = Arc::clone(&kept.export.engine);
        let open = Arc::clone(&kept.open);
        let state = kept.note.resumable.clone().and_then(|recorded| {
            let state = self.add_resumed(client, &kept, &recorded, now)?;
            Some((state, recorded))
        });
        let Some((state, recorded)) = state else {
            tracing::warn!(share = %engine.name(), "an open from before the restart could not be given back");
            self.lose(client.key, &kept.note);
            return;
        };
        let (uid, gid) = recorded.user;
        let identity =
            Arc::new(Identity { name: format!("uid {uid}"), uid, gid, ..(*open.identity()).clone() });
        let sessions = client.sessions();
        let details = details.or_else(|| sessions.first().map(|session| &session.details));
        let caller =
            Caller { identity: &identity, client: client.key, waiter: None, now, origin: None, details };
        if let Err(why) = engine.reclaim(&open, &caller) {
            let share = engine.name();
            tracing::warn!(%share, %why, "an open from before the restart could not be given back");
            self.remove_resumed(client, &state, now);
            self.lose(client.key, &kept.note);
            return;
        }
        self.add_lock_owners(client, &state, &recorded);
        let is_write = kept.note.access.contains(ShareAccess::WRITE);
        if let Some(delegation) = state.delegation() {
            if !is_held(&open, is_write) {
                // Others may have changed the file meanwhile.
                delegation.revoke();
            } else if recorded.keeps_times
                && let Ok(info) = engine.item_info(&engine.item_of(&open))
            {
                delegation.keep_times(DelegatedBaseline::of(&info));
                self.proxies.add(&state);
            }
        }
        // Only now requests find it.
        self.recorded.enter(recorded.id.other, wire::table::Keyed::key(&*state));
    }

    /// Handles the end of a recorded open that could not be restored.
    pub fn lose_open(&self, client: ClientKey, note: &[u8]) {
        if let Ok(note) = Note::decode(note) {
            self.lose(client, &note);
        }
    }

    /// Handles the loss of a state. The client learns of a lost open with its next request for it, but not of
    /// a lost delegation.
    fn lose(&self, key: ClientKey, note: &Note) {
        if note.kind != RecordedKind::Delegation || self.grace.end_client_id(key) {
            return;
        }
        let client = self.clients.all().into_iter().find(|client| client.key == key);
        if let Some((client, recorded)) = client.zip(note.resumable.as_ref())
            && self.recorded.lose(recorded.id.other, key)
        {
            // SEQUENCE tells the client that a delegation is revoked.
            client.revoked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that a client has asked for a delegation that may be lost.
    fn acknowledge_lost(&self, client: u64, id: &StateId) {
        if let Some(client) = self.clients.get(client)
            && self.recorded.acknowledge_lost(&id.other, client.key)
        {
            client.revoked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Adds the state of a kept open to its client. None if the client has ended, or has too many: the open
    /// is closed then.
    fn add_resumed(
        &self,
        client: &Arc<Client>,
        kept: &UnclaimedOpen,
        recorded: &ResumableState,
        now: Now,
    ) -> Option<Arc<LockingState>> {
        let UnclaimedOpen { export, open, handle, note } = kept;
        let (node, of) =
            (open.node_id(), OwnerOnFile { owner: &note.owner, export: export.id, node: open.node_id() });
        let is_taken = match note.kind {
            RecordedKind::Open => client.open_of(of).is_some(),
            RecordedKind::Delegation => client.delegation_of(export.id, node).is_some(),
        };
        if is_taken {
            close(&export.engine, open, now);
            return None;
        }
        client.attach(export);
        if let Some(key) = open.cache_key() {
            client.remember_key(export.id, node, key);
        }
        let Some(new_state) = self.new_resumed(client, export, *handle, node) else {
            close(&export.engine, open, now);
            return None;
        };
        let holding = Holding::new(Arc::clone(open), note.access, note.deny);
        let state = match note.kind {
            RecordedKind::Open => LockingState::open(new_state, &note.owner, holding),
            RecordedKind::Delegation => LockingState::delegated(new_state, &client.revoked, holding),
        };
        if let Some(opened) = state.opened() {
            *opened.changing.lock() = recorded.modes;
        }
        let state = self.add_state(state.resumed(recorded.id, recorded.is_settled));
        let is_entered = match note.kind {
            RecordedKind::Open => client.add_open(of, &state),
            RecordedKind::Delegation => client.add_delegation(&state),
        };
        if !is_entered {
            self.end_state(&state, now);
            return None;
        }
        Some(state)
    }

    fn new_resumed(
        &self,
        client: &Client,
        export: &Arc<crate::config::Export>,
        handle: crate::state::filehandle::Handle,
        node: volume::NodeId,
    ) -> Option<NewState> {
        let (key, instance) = (self.reserve_state()?, self.config.instance);
        Some(NewState { instance, key, client: client.id, export: Arc::clone(export), handle, node })
    }

    /// Adds the states of the lock-owners that have a stateid through an open. The engine has their ranges.
    fn add_lock_owners(&self, client: &Arc<Client>, open: &Arc<LockingState>, recorded: &ResumableState) {
        for locks in &recorded.lock_owners {
            let of = OwnerOnFile { owner: &locks.owner, export: open.export.id, node: open.node };
            if client.locks_of(of).is_some() {
                continue;
            }
            let Some(new_state) = self.new_resumed(client, &open.export, open.handle, open.node) else {
                continue;
            };
            let (key, number) = (new_state.key, client.lock_owner(&locks.owner));
            let Some(state) = LockingState::first_lock(new_state, &locks.owner, number, Arc::clone(open))
            else {
                self.forget_key(key);
                continue;
            };
            // The seqid is not recorded. The client says it.
            let state = self.add_state(state.resumed(StateId { seqid: 1, other: locks.other }, true));
            if client.add_locks(of, &state) {
                self.recorded.enter(locks.other, key);
            } else {
                self.forget_state(&state);
            }
        }
    }

    fn remove_resumed(&self, client: &Client, state: &Arc<LockingState>, now: Now) {
        match state.opened() {
            Some(opened) => {
                let of = OwnerOnFile { owner: &opened.owner, export: state.export.id, node: state.node };
                client.remove_open(of, state);
            }
            None => client.remove_delegation(state),
        }
        self.end_state(state, now);
    }

    /// A client cannot resume after the next restart: a state of it ends with the server. That is recorded
    /// before the reply ([`Server::record_forgotten_ids`]).
    pub fn forget_client_id(&self, client: &Client) {
        if client.forbid_resuming() {
            self.client_records.count_forgotten();
        }
    }

    /// Records that clients cannot resume. The caller holds no lock. May block.
    pub fn record_forgotten_ids(&self) {
        self.client_records.record_forgotten(|| {
            let clients = self.clients.all().into_iter();
            let without = clients.filter(|client| client.is_confirmed() && client.recorded_id() == 0);
            without.for_each(|client| self.record_client(&client));
        });
    }

    /// No client can resume after the next restart: changes could not be recorded. May block.
    ///
    /// # Errors
    /// NFS4ERR_DELAY if the host refuses that too. A client would lose its last change silently then.
    #[cold]
    pub fn forget_client_ids(&self) -> Result<(), NfsStat> {
        for client in self.clients.all() {
            client.forbid_resuming();
        }
        self.client_records.forget_ids().map_err(|_| NfsStat::Delay)
    }

    /// Records which opens their clients have surely heard of. A client repeats an OPEN whose reply was lost
    /// with the server, and expects the stateid of that reply. Linux waits for 5 s otherwise.
    pub(super) fn settle_opens(&self, clients: &[Arc<Client>]) {
        // What a client has reclaimed so far is not all that it had.
        for client in clients.iter().filter(|client| client.has_reclaimed()) {
            for key in client.take_settled() {
                let Some(state) = self.states.get(key).map(|state| state.share()) else { continue };
                let _lock = self.lock_states(client, &state.export, state.node);
                if let Some(opened) = state.opened() {
                    let modes = opened.changing.lock();
                    state.settle(true);
                    note_lazily(client, &state, *modes);
                } else if state.delegation().is_some() && !state.is_resumed() {
                    state.settle(true);
                    note_lazily(client, &state, Modes::default());
                }
            }
        }
    }

    /// Whether an export has opens from before the restart that are not restored yet.
    fn is_restoring(&self) -> bool {
        self.exports().list().iter().any(|export| export.engine.is_restoring())
    }

    /// Ends the resumption of clients whose opens are all restored.
    pub fn end_resumptions(&self, clients: &[Arc<Client>]) {
        for client in clients.iter().filter(|client| client.is_resuming()) {
            if !self.recorded.has_unrestored(client.key) || !self.is_restoring() {
                self.forget_unrestored(client.key);
                client.end_resuming();
            }
        }
    }

    /// Records the client IDs of clients that had to reclaim and have done so, and forgets what is over. May
    /// block.
    pub(super) fn end_resuming(&self, clients: &[Arc<Client>]) {
        self.record_forgotten_ids();
        self.client_records.write_again();
        self.end_resumptions(clients);
        if self.is_restoring() || !self.client_records.is_recording() {
            return;
        }
        // Records of what was not reclaimed must not be left.
        let due =
            clients.iter().filter(|client| client.wants_id_recorded() && !self.grace.may_claim(client.key));
        let due: Vec<_> = due.take(RECORDED_AT_ONCE).collect();
        if due.is_empty() {
            return;
        }
        let exports = self.exports();
        exports.list().iter().for_each(|export| export.engine.write_changes());
        if exports.list().iter().any(|export| export.engine.are_records_failing()) {
            return;
        }
        for client in due {
            client.allow_resuming();
            self.record_client(client);
        }
    }

    /// Forgets the states of a client whose opens are not restored. The opens are closed once they are.
    pub(super) fn forget_unrestored(&self, key: ClientKey) {
        self.grace.forget_resumed(key);
        self.recorded.forget(key);
    }
}
