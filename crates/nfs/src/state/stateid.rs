//! The state behind a stateid: an open, the locks of an owner, or a delegation (RFC 8881 8.2).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use nfs_wire::NfsStat;
use nfs_wire::types::StateId;
use parking_lot::Mutex;
use share::LockOwner;
use share::memory::Charge;
use volume::NodeId;
use wire::table::Keyed;

use crate::config::Export;
use crate::state::delegation::DelegationState;
use crate::state::filehandle::Handle;
use crate::state::open::{Holding, OpenState};

/// The state that one stateid names.
pub struct LockingState {
    key: u64,
    /// The client ID of its client.
    pub client: u64,
    /// Its export.
    pub export: Arc<Export>,
    /// Its file.
    pub handle: Handle,
    /// The file within its volume.
    pub node: NodeId,
    /// Its `other` part, as the client knows it.
    other: [u8; 12],
    /// The seqid with which it was resumed after a restart. Zero: this run of the server has made it.
    resumed_seqid: u32,
    /// The client has surely received the reply to its last OPEN.
    is_settled: AtomicBool,
    seqid: AtomicU32,
    /// An administrator has revoked it (RFC 8881 8.5).
    is_admin_revoked: AtomicBool,
    kind: StateKind,
    /// Its charge on the memory for clients.
    _charge: Charge,
}

/// Bytes of a state without the name of its owner.
const STATE_BYTES: usize = 1024;
/// Copies of the owner's name: in the state, in its client's table by owner, and in the table of owners by
/// number.
const OWNER_COPIES: usize = 3;

/// Bytes of a state whose owner has this name.
#[must_use]
pub fn state_bytes(owner: &[u8]) -> usize {
    STATE_BYTES + OWNER_COPIES * owner.len()
}

enum StateKind {
    Open(Arc<OpenState>),
    Locks(LockState),
    Delegation(DelegationState),
}

/// The locks of a lock-owner on a file.
pub struct LockState {
    /// The lock-owner, as the client calls it.
    pub owner: Box<[u8]>,
    /// The lock-owner as the engine names it.
    pub number: LockOwner,
    /// The open through which the locks were taken.
    pub open: Arc<LockingState>,
    opened: Arc<OpenState>,
    /// Locked while ranges are taken and while the state is freed. No range can then be taken under a state
    /// that is being freed. True once it is freed.
    pub freed: Mutex<bool>,
}

impl Keyed for LockingState {
    fn key(&self) -> u64 {
        self.key
    }
}

/// The owner and the file that a state belongs to.
#[derive(Debug, Clone, Copy)]
pub struct OwnerOnFile<'a> {
    /// The owner, as the client calls it.
    pub owner: &'a [u8],
    /// The export.
    pub export: u32,
    /// The file.
    pub node: NodeId,
}

/// The arguments that all kinds of a new state have in common.
pub struct NewState {
    /// The instance of the server.
    pub instance: u64,
    /// Its key in the table of states.
    pub key: u64,
    /// The client ID of its client.
    pub client: u64,
    /// Its export.
    pub export: Arc<Export>,
    /// Its file.
    pub handle: Handle,
    /// The file within its volume.
    pub node: NodeId,
}

impl LockingState {
    fn new(new_state: NewState, kind: StateKind) -> LockingState {
        let NewState { instance, key, client, export, handle, node } = new_state;
        let (account, owner): (_, &[u8]) = match &kind {
            StateKind::Open(open) => (open.holding.load().open.account(), &open.owner),
            StateKind::Locks(locks) => (locks.opened.holding.load().open.account(), &locks.owner),
            StateKind::Delegation(delegation) => (delegation.holding.load().open.account(), &[]),
        };
        let charge = export.engine.client_memory().charge(account, state_bytes(owner));
        let is_admin_revoked = AtomicBool::new(false);
        LockingState {
            key,
            client,
            export,
            handle,
            node,
            other: other_of(instance, key),
            resumed_seqid: 0,
            is_settled: AtomicBool::new(false),
            seqid: AtomicU32::new(1),
            is_admin_revoked,
            kind,
            _charge: charge,
        }
    }

    /// The same state under its stateid from before a restart.
    #[must_use]
    pub fn resumed(self, id: StateId, is_settled: bool) -> LockingState {
        let (resumed_seqid, is_settled) = (id.seqid.max(1), AtomicBool::new(is_settled));
        LockingState {
            other: id.other,
            seqid: AtomicU32::new(resumed_seqid),
            resumed_seqid,
            is_settled,
            ..self
        }
    }

    /// Whether it has its stateid from before a restart.
    #[inline]
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.resumed_seqid != 0
    }

    /// Whether the client has surely received the reply to its last OPEN.
    #[inline]
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire)
    }

    /// Notes whether the client has surely received the reply to its last OPEN.
    #[inline]
    pub fn settle(&self, is_settled: bool) {
        if self.is_settled() != is_settled {
            self.is_settled.store(is_settled, Ordering::Release);
        }
    }

    /// Whether the client's next OPEN may be its last one from before the restart once more. The reply to
    /// that one was lost with the server.
    #[must_use]
    pub fn awaits_repeat(&self) -> bool {
        self.resumed_seqid == self.seqid.load(Ordering::Acquire) && !self.is_settled()
    }

    /// A new open.
    #[must_use]
    pub fn open(new_state: NewState, owner: &[u8], holding: Holding) -> LockingState {
        LockingState::new(new_state, StateKind::Open(Arc::new(OpenState::new(owner, holding))))
    }

    /// The first lock of an owner through an open. None if `open` is not an open.
    #[must_use]
    pub fn first_lock(
        new_state: NewState,
        owner: &[u8],
        number: LockOwner,
        open: Arc<LockingState>,
    ) -> Option<LockingState> {
        let StateKind::Open(opened) = &open.kind else { return None };
        let opened = Arc::clone(opened);
        Some(LockingState::new(
            new_state,
            StateKind::Locks(LockState {
                owner: owner.into(),
                number,
                open,
                opened,
                freed: Mutex::new(false),
            }),
        ))
    }

    /// A new delegation. `revoked` counts the revoked delegations of its client.
    #[must_use]
    pub fn delegated(new_state: NewState, revoked: &Arc<AtomicU64>, holding: Holding) -> LockingState {
        LockingState::new(new_state, StateKind::Delegation(DelegationState::new(revoked, holding)))
    }

    /// Marks it as revoked by an administrator.
    pub fn revoke(&self) {
        self.is_admin_revoked.store(true, Ordering::Release);
    }

    /// Whether an administrator has revoked it.
    #[inline]
    #[must_use]
    pub fn is_admin_revoked(&self) -> bool {
        self.is_admin_revoked.load(Ordering::Acquire)
    }

    /// The delegation, if it is one.
    #[must_use]
    pub fn delegation(&self) -> Option<&DelegationState> {
        match &self.kind {
            StateKind::Delegation(delegation) => Some(delegation),
            StateKind::Open(_) | StateKind::Locks(_) => None,
        }
    }

    /// The open, if it is one.
    #[must_use]
    pub fn opened(&self) -> Option<&OpenState> {
        match &self.kind {
            StateKind::Open(open) => Some(open),
            StateKind::Locks(_) | StateKind::Delegation(_) => None,
        }
    }

    /// The locks of an owner, if it is those.
    #[must_use]
    pub fn locks(&self) -> Option<&LockState> {
        match &self.kind {
            StateKind::Locks(locks) => Some(locks),
            StateKind::Open(_) | StateKind::Delegation(_) => None,
        }
    }

    /// The engine's open behind the state.
    #[inline]
    #[must_use]
    pub fn holding(&self) -> arc_swap::Guard<Arc<Holding>> {
        match &self.kind {
            StateKind::Open(open) => open.holding.load(),
            StateKind::Locks(locks) => locks.opened.holding.load(),
            StateKind::Delegation(delegation) => delegation.holding.load(),
        }
    }

    /// Its current stateid.
    #[must_use]
    pub fn id(&self) -> StateId {
        StateId { seqid: self.seqid.load(Ordering::Acquire), other: self.other }
    }

    /// Its stateid after a change.
    #[must_use]
    pub fn next_id(&self) -> StateId {
        let mut seqid = self.seqid.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        // RFC 8881 8.2.2: zero has another meaning.
        if seqid == 0 {
            seqid = 1;
            self.seqid.store(1, Ordering::Release);
        }
        StateId { seqid, other: self.other }
    }

    /// Checks that the seqid of a stateid may be used now.
    ///
    /// # Errors
    /// NFS4ERR_OLD_STATEID, NFS4ERR_BAD_STATEID.
    // RFC 8881 8.2.2
    #[inline]
    pub fn check_seqid(&self, seqid: u32) -> Result<(), NfsStat> {
        let now = self.seqid.load(Ordering::Acquire);
        match seqid {
            0 => Ok(()),
            seqid if seqid == now => Ok(()),
            seqid if (now.wrapping_sub(seqid) as i32) > 0 => Err(NfsStat::OldStateId),
            // A LOCK or LOCKU counts it without a record. The client has it from before the restart.
            seqid if self.is_resumed() && self.locks().is_some() => {
                let adopt = self.seqid.compare_exchange(now, seqid, Ordering::AcqRel, Ordering::Acquire);
                adopt.map(drop).or_else(|_| self.check_seqid(seqid))
            }
            _ => Err(NfsStat::BadStateId),
        }
    }
}

/// The `other` part of a stateid: the instance of the server, and the key in its table of states.
#[must_use]
pub fn other_of(instance: u64, key: u64) -> [u8; 12] {
    let mut other = [0; 12];
    other[..4].copy_from_slice(&run_of(instance));
    other[4..].copy_from_slice(&key.to_be_bytes());
    other
}

/// The key that a stateid names, if it is of this instance of the server.
#[inline]
#[must_use]
pub fn key_of(instance: u64, other: &[u8; 12]) -> Option<u64> {
    let (run, key) = other.split_first_chunk::<4>()?;
    (*run == run_of(instance)).then(|| key.try_into().map(u64::from_be_bytes).ok())?
}

/// Whether a stateid is of this instance of the server, or could be taken for one.
#[must_use]
pub fn is_of_run(instance: u64, other: &[u8; 12]) -> bool {
    other[..4] == run_of(instance)
}

/// Four bytes of the instance. They never equal the beginning of a special stateid.
fn run_of(instance: u64) -> [u8; 4] {
    let run = (instance as u32) & 0x7fff_ffff | 1;
    run.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_server_are_told_apart() {
        assert!(is_of_run(77, &other_of(77, 1)) && !is_of_run(77, &other_of(99, 1)));
    }

    #[test]
    fn a_stateid_names_its_key_and_its_run_of_the_server() {
        let other = other_of(77, 0x1234_5678_9abc);
        assert_eq!(key_of(77, &other), Some(0x1234_5678_9abc));
        assert_eq!(key_of(99, &other), None);
        for special in [StateId::ANONYMOUS, StateId::READ_BYPASS] {
            assert_eq!(key_of(u64::MAX, &special.other), None);
            assert_eq!(key_of(0, &special.other), None);
        }
    }
}
