//! State: what a stateid stands for, an open or the locks of an owner in it (RFC 8881 8.2).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use nfs_wire::NfsStat;
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use nfs_wire::types::StateId;
use parking_lot::Mutex;
use share::memory::Charge;
use share::{BreakNotice, LockOwner};
use volume::NodeId;
use wire::table::Keyed;

use crate::config::Export;
use crate::state::client::Client;
use crate::state::filehandle::Handle;
use crate::state::question::Before;

/// One state.
pub struct State {
    key: u64,
    /// The client ID of its client.
    pub client: u64,
    /// Of which export.
    pub export: Arc<Export>,
    /// Of which file.
    pub handle: Handle,
    /// The file within its volume.
    pub node: NodeId,
    seqid: AtomicU32,
    kind: Kind,
    /// Its part of the memory for clients.
    _charge: Charge,
}

/// Bytes of a state without the names of its owner.
const STATE_BYTES: usize = 1024;
/// The state, the table of its client by owner, and that of owners by number each have the name.
const OWNER_COPIES: usize = 3;

/// Bytes of a state whose owner has this name.
#[must_use]
pub fn state_bytes(owner: &[u8]) -> usize {
    STATE_BYTES + OWNER_COPIES * owner.len()
}

enum Kind {
    Open(Arc<OpenState>),
    Locks(LockState),
    Delegation(DelegationState),
}

/// An open of an open-owner.
pub struct OpenState {
    /// The open-owner, as the client calls it.
    pub owner: Box<[u8]>,
    /// What it holds now.
    holding: ArcSwap<Holding>,
    /// Held while it is amended; the ways in which it was opened, as bits.
    pub changing: Mutex<Modes>,
}

/// What an open holds.
pub struct Holding {
    /// The engine's open.
    pub open: Arc<share::Open>,
    /// What for.
    pub access: ShareAccess,
    /// What others may not do.
    pub deny: ShareDeny,
    /// The size that the file was seen to have.
    pub seen: AtomicU64,
}

impl Holding {
    /// What an open holds that nothing was read through yet.
    #[must_use]
    pub fn new(open: Arc<share::Open>, access: ShareAccess, deny: ShareDeny) -> Holding {
        Holding { open, access, deny, seen: AtomicU64::new(0) }
    }
}

/// What a client may do by itself until it is asked to give that back.
pub struct DelegationState {
    /// Whose it is.
    pub client: Weak<Client>,
    /// The engine's open that the right is held under.
    holding: ArcSwap<Holding>,
    recalled: AtomicBool,
    asked: Mutex<Option<Asked>>,
    /// How the file was when the client began to keep its times; empty where it does not.
    before: OnceLock<Before>,
    /// When the client's own open has made it be recalled (monotonic ns); 0: never.
    own_recall_ns: AtomicU64,
    /// [`REVOKED`], [`OVER`].
    fate: AtomicU8,
}

/// It was taken away.
const REVOKED: u8 = 1;
/// The client has it no more, and knows that.
const OVER: u8 = 2;

/// What the engine has asked of a delegation.
struct Asked {
    notice: BreakNotice,
    /// When the client is to be called for it again (monotonic ns); none while it is being called, or has heard it.
    again_ns: Option<u64>,
}

impl DelegationState {
    /// Notes that the client keeps the file's times from now on.
    pub fn keep_times(&self, before: Before) {
        self.before.get_or_init(|| before);
    }

    /// How the file was when the client began to keep its times; none where it does not.
    #[must_use]
    pub fn before(&self) -> Option<&Before> {
        self.before.get()
    }

    /// Notes that it was asked for.
    pub fn recalled(&self, notice: BreakNotice) {
        *self.asked.lock() = Some(Asked { notice, again_ns: None });
        self.recalled.store(true, Ordering::Release);
    }

    /// Notes that its client is to be called for it again, not before this time (monotonic ns).
    pub fn recall_again_at(&self, at_ns: u64) {
        if let Some(asked) = &mut *self.asked.lock() {
            asked.again_ns = Some(at_ns);
        }
    }

    /// What its client is to be called for now.
    #[must_use]
    pub fn take_due(&self, now_ns: u64) -> Option<BreakNotice> {
        let mut asked = self.asked.lock();
        let asked = asked.as_mut().filter(|asked| asked.again_ns.is_some_and(|at| at <= now_ns))?;
        asked.again_ns = None;
        Some(asked.notice)
    }

    /// Notes that the client's own open has made it be asked for. False when one has before.
    pub fn recalled_by_own(&self, now_ns: u64) -> bool {
        self.own_recall_ns.compare_exchange(0, now_ns.max(1), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether that was less than `ns` ago.
    #[must_use]
    pub fn was_recalled_by_own_within(&self, ns: u64, now_ns: u64) -> bool {
        let at = self.own_recall_ns.load(Ordering::Acquire);
        at != 0 && now_ns.saturating_sub(at) < ns
    }

    /// Whether it was asked for.
    #[must_use]
    pub fn is_recalled(&self) -> bool {
        self.recalled.load(Ordering::Acquire)
    }

    /// It was taken away.
    pub fn revoke(&self) {
        if self.fate.fetch_or(REVOKED, Ordering::AcqRel) == 0
            && let Some(client) = self.client.upgrade()
        {
            client.revoked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It is over: the client is told no more that it was taken away.
    pub fn end(&self) {
        if self.fate.fetch_or(OVER, Ordering::AcqRel) == REVOKED
            && let Some(client) = self.client.upgrade()
        {
            client.revoked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether it was taken away.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.fate.load(Ordering::Acquire) & REVOKED != 0
    }
}

/// The pairs of access and deny that an open-owner has opened a file with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modes(u16);

/// The locks of a lock-owner on a file.
pub struct LockState {
    /// The lock-owner, as the client calls it.
    pub owner: Box<[u8]>,
    /// The same for the engine.
    pub number: LockOwner,
    /// The open they were taken through.
    pub open: Arc<State>,
    opened: Arc<OpenState>,
    /// Held while ranges are taken and while it is freed, so that none is taken under what is freed at that moment; true
    /// once it is freed.
    pub freed: Mutex<bool>,
}

impl Keyed for State {
    fn key(&self) -> u64 {
        self.key
    }
}

impl Modes {
    fn bit(access: ShareAccess, deny: ShareDeny) -> u16 {
        1 << ((access.bits() & 3) << 2 | (deny.bits() & 3))
    }

    /// Notes a pair.
    pub fn add(&mut self, access: ShareAccess, deny: ShareDeny) {
        self.0 |= Modes::bit(access, deny);
    }

    /// Whether this pair is what some of the pairs come to together.
    // RFC 8881 18.18.3
    #[must_use]
    pub fn allows(&self, access: ShareAccess, deny: ShareDeny) -> bool {
        let (mut has_access, mut has_deny) = (0, 0);
        for (a, d) in (1..4).flat_map(|a| (0..4).map(move |d| (a, d))) {
            let is_within = a & !access.bits() == 0 && d & !deny.bits() == 0;
            if self.0 >> (a << 2 | d) & 1 == 1 && is_within {
                has_access |= a;
                has_deny |= d;
            }
        }
        (has_access, has_deny) == (access.bits(), deny.bits())
    }

    /// Keeps only what lies within this pair.
    pub fn keep(&mut self, access: ShareAccess, deny: ShareDeny) {
        for (a, d) in (0..4).flat_map(|a| (0..4).map(move |d| (a, d))) {
            if a & !access.bits() != 0 || d & !deny.bits() != 0 {
                self.0 &= !(1 << (a << 2 | d));
            }
        }
        self.add(access, deny);
    }
}

/// Where a new state belongs.
pub struct Place {
    /// Its key in the table.
    pub key: u64,
    /// Whose it is.
    pub client: u64,
    /// Of which export.
    pub export: Arc<Export>,
    /// Of which file.
    pub handle: Handle,
    /// The file within its volume.
    pub node: NodeId,
}

impl State {
    fn new(place: Place, kind: Kind) -> State {
        let Place { key, client, export, handle, node } = place;
        let (payer, owner): (_, &[u8]) = match &kind {
            Kind::Open(open) => (open.holding.load().open.payer(), &open.owner),
            Kind::Locks(locks) => (locks.opened.holding.load().open.payer(), &locks.owner),
            Kind::Delegation(delegation) => (delegation.holding.load().open.payer(), &[]),
        };
        let charge = export.engine.client_memory().charge(payer, state_bytes(owner));
        State { key, client, export, handle, node, seqid: AtomicU32::new(1), kind, _charge: charge }
    }

    /// A new open.
    #[must_use]
    pub fn open(place: Place, owner: &[u8], holding: Holding) -> State {
        let mut modes = Modes::default();
        modes.add(holding.access, holding.deny);
        let holding = ArcSwap::from_pointee(holding);
        let open = OpenState { owner: owner.into(), holding, changing: Mutex::new(modes) };
        State::new(place, Kind::Open(Arc::new(open)))
    }

    /// The first lock of an owner through an open; none when `open` is something else.
    #[must_use]
    pub fn first_lock(place: Place, owner: &[u8], number: LockOwner, open: Arc<State>) -> Option<State> {
        let Kind::Open(opened) = &open.kind else { return None };
        let opened = Arc::clone(opened);
        Some(State::new(
            place,
            Kind::Locks(LockState { owner: owner.into(), number, open, opened, freed: Mutex::new(false) }),
        ))
    }

    /// A new delegation.
    #[must_use]
    pub fn delegated(place: Place, client: &Arc<Client>, holding: Holding) -> State {
        let holding = ArcSwap::from_pointee(holding);
        let (recalled, fate) = (AtomicBool::new(false), AtomicU8::new(0));
        let (client, own_recall_ns) = (Arc::downgrade(client), AtomicU64::new(0));
        let (asked, before) = (Mutex::default(), OnceLock::new());
        let delegation = DelegationState { client, holding, recalled, asked, before, own_recall_ns, fate };
        State::new(place, Kind::Delegation(delegation))
    }

    /// When it is a delegation.
    #[must_use]
    pub fn delegation(&self) -> Option<&DelegationState> {
        match &self.kind {
            Kind::Delegation(delegation) => Some(delegation),
            Kind::Open(_) | Kind::Locks(_) => None,
        }
    }

    /// When it is an open.
    #[must_use]
    pub fn opened(&self) -> Option<&OpenState> {
        match &self.kind {
            Kind::Open(open) => Some(open),
            Kind::Locks(_) | Kind::Delegation(_) => None,
        }
    }

    /// When it is the locks of an owner.
    #[must_use]
    pub fn locks(&self) -> Option<&LockState> {
        match &self.kind {
            Kind::Locks(locks) => Some(locks),
            Kind::Open(_) | Kind::Delegation(_) => None,
        }
    }

    /// What the open behind it holds.
    #[inline]
    #[must_use]
    pub fn holding(&self) -> arc_swap::Guard<Arc<Holding>> {
        match &self.kind {
            Kind::Open(open) => open.holding.load(),
            Kind::Locks(locks) => locks.opened.holding.load(),
            Kind::Delegation(delegation) => delegation.holding.load(),
        }
    }

    /// Its stateid now.
    #[must_use]
    pub fn id(&self, instance: u64) -> StateId {
        StateId { seqid: self.seqid.load(Ordering::Acquire), other: other_of(instance, self.key) }
    }

    /// Its stateid after a change.
    #[must_use]
    pub fn next_id(&self, instance: u64) -> StateId {
        let mut seqid = self.seqid.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        // RFC 8881 8.2.2: zero has another meaning.
        if seqid == 0 {
            seqid = 1;
            self.seqid.store(1, Ordering::Release);
        }
        StateId { seqid, other: other_of(instance, self.key) }
    }

    /// Whether a stateid's seqid may be used now.
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
            _ => Err(NfsStat::BadStateId),
        }
    }
}

impl OpenState {
    /// Holds something else from now on.
    pub fn hold(&self, holding: Holding) {
        self.holding.store(Arc::new(holding));
    }
}

/// The part of a stateid that names the state: which run of the server, and the key in its table.
#[must_use]
pub fn other_of(instance: u64, key: u64) -> [u8; 12] {
    let mut other = [0; 12];
    other[..4].copy_from_slice(&run_of(instance));
    other[4..].copy_from_slice(&key.to_be_bytes());
    other
}

/// The key that a stateid names, if it is of this run of the server.
#[inline]
#[must_use]
pub fn key_of(instance: u64, other: &[u8; 12]) -> Option<u64> {
    let (run, key) = other.split_first_chunk::<4>()?;
    (*run == run_of(instance)).then(|| key.try_into().map(u64::from_be_bytes).ok())?
}

/// Four bytes of the instance, never those that special stateids begin with.
fn run_of(instance: u64) -> [u8; 4] {
    let run = (instance as u32) & 0x7fff_ffff | 1;
    run.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_downgrade_goes_to_what_was_opened_before() {
        let (read, write, both) = (ShareAccess::READ, ShareAccess::WRITE, ShareAccess::BOTH);
        let (none, deny) = (ShareDeny::empty(), ShareDeny::WRITE);
        let mut modes = Modes::default();
        modes.add(read, none);
        assert!(modes.allows(read, none) && !modes.allows(write, none) && !modes.allows(read, deny));
        modes.add(both, deny);
        assert!(modes.allows(both, deny) && !modes.allows(write, none) && !modes.allows(both, none));
        modes.add(write, none);
        assert!(modes.allows(both, none));
        modes.keep(read, none);
        assert!(modes.allows(read, none) && !modes.allows(both, deny) && !modes.allows(write, none));
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
