//! What a request has taken from the limits of its share, as a value that goes where the request goes.

use super::path::Work;
use super::tree::ShareLimits;

/// The bytes that were taken for a READ or a WRITE, or nothing where nothing is limited.
///
/// Dropped, it gives all of them back, so that a request costs no bytes whatever ends it before it says what it has
/// [used](Charge::used). An operation is counted once it was let pass, and stays so.
#[derive(Debug, Default)]
#[must_use = "what is dropped is given back"]
pub struct Charge(Option<Taken>);

#[derive(Debug)]
struct Taken {
    limits: ShareLimits,
    work: Work,
}

impl Charge {
    /// For work that has passed.
    pub(super) fn of(limits: ShareLimits, work: Work) -> Charge {
        Charge((work.bytes() > 0).then_some(Taken { limits, work }))
    }

    /// So many bytes have gone in or out; the rest is given back.
    #[inline]
    pub fn used(mut self, bytes: usize) {
        if let Some(taken) = self.0.take() {
            taken.settle(bytes as u64);
        }
    }

    /// All of them have.
    #[inline]
    pub fn used_up(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Charge {
    #[inline]
    fn drop(&mut self) {
        if let Some(taken) = self.0.take() {
            taken.settle(0);
        }
    }
}

impl Taken {
    fn settle(self, used: u64) {
        let unused = self.work.bytes().saturating_sub(used);
        if unused > 0 {
            self.limits.give_back(self.work, unused);
        }
    }
}
