//! A delegation: the right of a client to cache a file until the server recalls it (RFC 8881 10.4).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use share::BreakNotice;

use crate::state::delegated_times::DelegatedBaseline;
use crate::state::open::Holding;

/// A delegation and the state of its recall.
pub struct DelegationState {
    /// Counts the revoked delegations that its client has not freed yet.
    revoked: Arc<AtomicU64>,
    /// The engine's open that holds the caching right.
    pub(super) holding: ArcSwap<Holding>,
    recalled: AtomicBool,
    pending: Mutex<Option<PendingRecall>>,
    /// The state of the file when its times were delegated. Empty if they were not.
    before: OnceLock<DelegatedBaseline>,
    /// The time at which an open of the same client caused the recall (monotonic ns). Zero if none did.
    own_recall_ns: AtomicU64,
    /// The client has refused a recall.
    was_refused: AtomicBool,
    /// [`REVOKED`], [`OVER`].
    fate: AtomicU8,
}

/// The delegation was revoked.
const REVOKED: u8 = 1;
/// The client knows that it no longer has the delegation.
const OVER: u8 = 2;

/// A recall by the engine.
struct PendingRecall {
    notice: BreakNotice,
    /// The time at which to send the recall again (monotonic ns). None while a callback is under way, or once
    /// it has succeeded.
    again_ns: Option<u64>,
}

impl DelegationState {
    /// A delegation that was granted. `revoked` counts the revoked delegations of its client.
    pub(super) fn new(revoked: &Arc<AtomicU64>, holding: Holding) -> DelegationState {
        DelegationState {
            revoked: Arc::clone(revoked),
            holding: ArcSwap::from_pointee(holding),
            recalled: AtomicBool::new(false),
            pending: Mutex::default(),
            before: OnceLock::new(),
            own_recall_ns: AtomicU64::new(0),
            was_refused: AtomicBool::new(false),
            fate: AtomicU8::new(0),
        }
    }

    /// Notes that the file's times are delegated from now on.
    pub fn keep_times(&self, before: DelegatedBaseline) {
        self.before.get_or_init(|| before);
    }

    /// The state of the file when its times were delegated. None if they were not.
    #[must_use]
    pub fn before(&self) -> Option<&DelegatedBaseline> {
        self.before.get()
    }

    /// Notes that the client has refused its recall.
    pub fn refused(&self) {
        self.was_refused.store(true, Ordering::Release);
    }

    /// Whether the client has refused its recall.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        self.was_refused.load(Ordering::Acquire)
    }

    /// Notes that the engine recalls it.
    pub fn recalled(&self, notice: BreakNotice) {
        *self.pending.lock() = Some(PendingRecall { notice, again_ns: None });
        self.recalled.store(true, Ordering::Release);
    }

    /// Asks for another recall, not before this time (monotonic ns).
    pub fn recall_again_at(&self, at_ns: u64) {
        if let Some(pending) = &mut *self.pending.lock() {
            pending.again_ns = Some(at_ns);
        }
    }

    /// Takes the notice of a recall that is to be sent now.
    #[must_use]
    pub fn take_due(&self, now_ns: u64) -> Option<BreakNotice> {
        let mut pending = self.pending.lock();
        let pending = pending.as_mut().filter(|pending| pending.again_ns.is_some_and(|at| at <= now_ns))?;
        pending.again_ns = None;
        Some(pending.notice)
    }

    /// Notes that an open of the same client caused the recall. Returns false if one has before.
    pub fn recalled_by_own(&self, now_ns: u64) -> bool {
        self.own_recall_ns.compare_exchange(0, now_ns.max(1), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether that was less than `ns` ago.
    #[must_use]
    pub fn was_recalled_by_own_within(&self, ns: u64, now_ns: u64) -> bool {
        let at = self.own_recall_ns.load(Ordering::Acquire);
        at != 0 && now_ns.saturating_sub(at) < ns
    }

    /// Whether it was recalled.
    #[must_use]
    pub fn is_recalled(&self) -> bool {
        self.recalled.load(Ordering::Acquire)
    }

    /// Marks the delegation as revoked.
    pub fn revoke(&self) {
        if self.fate.fetch_or(REVOKED, Ordering::AcqRel) == 0 {
            self.revoked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends it. The client is no longer told that it was revoked.
    pub fn end(&self) {
        if self.fate.fetch_or(OVER, Ordering::AcqRel) == REVOKED {
            self.revoked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether it was revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.fate.load(Ordering::Acquire) & REVOKED != 0
    }
}
