//! The open of an open-owner: what it holds, and in which ways the file was opened (RFC 8881 9.1, 18.18.3).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use parking_lot::Mutex;

/// An open of an open-owner.
pub struct OpenState {
    /// The open-owner, as the client calls it.
    pub owner: Box<[u8]>,
    /// What it holds now.
    pub(super) holding: ArcSwap<Holding>,
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

impl OpenState {
    /// One that was opened for what it holds.
    pub(super) fn new(owner: &[u8], holding: Holding) -> OpenState {
        let mut modes = Modes::default();
        modes.add(holding.access, holding.deny);
        OpenState {
            owner: owner.into(),
            holding: ArcSwap::from_pointee(holding),
            changing: Mutex::new(modes),
        }
    }

    /// Holds something else from now on.
    pub fn hold(&self, holding: Holding) {
        self.holding.store(Arc::new(holding));
    }
}

/// The pairs of access and deny that an open-owner has opened a file with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modes(u16);

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
}
