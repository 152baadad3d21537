//! The open of an open-owner: the engine's open behind it, and the share modes of its OPENs (RFC 8881 9.1,
//! 18.18.3).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use parking_lot::Mutex;

/// An open of an open-owner.
pub struct OpenState {
    /// The client's name of the open-owner.
    pub owner: Box<[u8]>,
    /// The engine's open behind it.
    pub(super) holding: ArcSwap<Holding>,
    /// The pairs of access and deny of its OPENs. Locked while the open is changed.
    pub changing: Mutex<Modes>,
}

/// An engine's open as one state holds it.
pub struct Holding {
    /// The engine's open.
    pub open: Arc<share::Open>,
    /// The access that it allows.
    pub access: ShareAccess,
    /// The access that it denies to others.
    pub deny: ShareDeny,
    /// The last size of the file that was seen through it.
    pub seen: AtomicU64,
}

impl Holding {
    /// For an open that nothing was read through yet.
    #[must_use]
    pub fn new(open: Arc<share::Open>, access: ShareAccess, deny: ShareDeny) -> Holding {
        Holding { open, access, deny, seen: AtomicU64::new(0) }
    }
}

impl OpenState {
    /// An open with the share modes of `holding`.
    pub(super) fn new(owner: &[u8], holding: Holding) -> OpenState {
        let mut modes = Modes::default();
        modes.add(holding.access, holding.deny);
        OpenState {
            owner: owner.into(),
            holding: ArcSwap::from_pointee(holding),
            changing: Mutex::new(modes),
        }
    }

    /// Replaces the engine's open.
    pub fn hold(&self, holding: Holding) {
        self.holding.store(Arc::new(holding));
    }
}

/// The pairs of access and deny with which an open-owner has opened a file, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modes(u16);

impl Modes {
    /// The pairs with these bits.
    #[must_use]
    pub fn of_bits(bits: u16) -> Modes {
        Modes(bits)
    }

    /// The pairs as bits.
    #[must_use]
    pub fn bits(self) -> u16 {
        self.0
    }

    fn bit(access: ShareAccess, deny: ShareDeny) -> u16 {
        1 << ((access.bits() & 3) << 2 | (deny.bits() & 3))
    }

    /// Adds a pair.
    pub fn add(&mut self, access: ShareAccess, deny: ShareDeny) {
        self.0 |= Modes::bit(access, deny);
    }

    /// Whether the union of some of the pairs equals this pair.
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

    /// Keeps only the pairs that lie within this one, and adds it.
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
