//! Delegation: what a client may do by itself until it is asked to give that back (RFC 8881 10.4).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use share::BreakNotice;

use crate::state::delegated_times::Before;
use crate::state::open::Holding;

/// What a client may do by itself until it is asked to give that back.
pub struct DelegationState {
    /// How many its client has that were taken away and that it has not freed yet.
    revoked: Arc<AtomicU64>,
    /// The engine's open that the right is held under.
    pub(super) holding: ArcSwap<Holding>,
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
    /// One that was granted, of a client that counts in `revoked` how many were taken away from it.
    pub(super) fn new(revoked: &Arc<AtomicU64>, holding: Holding) -> DelegationState {
        DelegationState {
            revoked: Arc::clone(revoked),
            holding: ArcSwap::from_pointee(holding),
            recalled: AtomicBool::new(false),
            asked: Mutex::default(),
            before: OnceLock::new(),
            own_recall_ns: AtomicU64::new(0),
            fate: AtomicU8::new(0),
        }
    }

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
        if self.fate.fetch_or(REVOKED, Ordering::AcqRel) == 0 {
            self.revoked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It is over: the client is told no more that it was taken away.
    pub fn end(&self) {
        if self.fate.fetch_or(OVER, Ordering::AcqRel) == REVOKED {
            self.revoked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether it was taken away.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.fate.load(Ordering::Acquire) & REVOKED != 0
    }
}
