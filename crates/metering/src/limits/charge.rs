//! The tokens that a request has taken from the limits of its share. The value travels with the request.

use super::path::MeteredWork;
use super::tree::ShareLimits;

/// The bytes that were taken for a READ or a WRITE, or nothing if nothing is limited.
///
/// If it is dropped, it returns all of them. So a request that ends early costs no bytes unless it has
/// reported the bytes that it [used](Charge::used). An operation is counted once it has passed, and is never
/// returned.
#[derive(Debug, Default)]
#[must_use = "what is dropped is given back"]
pub struct Charge(Option<ChargedWork>);

#[derive(Debug)]
struct ChargedWork {
    limits: ShareLimits,
    work: MeteredWork,
}

impl Charge {
    /// The charge of work that has passed.
    pub(super) fn of(limits: ShareLimits, work: MeteredWork) -> Charge {
        Charge((work.bytes() > 0).then_some(ChargedWork { limits, work }))
    }

    /// `bytes` bytes were transferred. The rest is returned.
    #[inline]
    pub fn used(mut self, bytes: usize) {
        if let Some(taken) = self.0.take() {
            taken.settle(bytes as u64);
        }
    }

    /// All bytes were transferred.
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

impl ChargedWork {
    fn settle(self, used: u64) {
        let unused = self.work.bytes().saturating_sub(used);
        if unused > 0 {
            self.limits.give_back(self.work, unused);
        }
    }
}
