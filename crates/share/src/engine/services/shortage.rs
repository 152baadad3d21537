//! What needs a descriptor of the host, or memory, when there may be none left.
//!
//! First go files that are kept for speed alone, those of other shares too. A caller that holds no lock has more given
//! up (`relief`).

use crate::engine::Share;
use crate::memory::Payer;
use crate::{Caller, Refusal};

impl Share {
    /// Does what takes a descriptor of the host. When there is none, those that are kept, by other shares too, are wanted for
    /// something better: they are given back, and it is tried again.
    ///
    /// # Errors
    /// As `act`.
    pub(crate) fn with_room<T>(&self, act: impl Fn() -> Result<T, Refusal>) -> Result<T, Refusal> {
        let is_short = |done: &Result<T, Refusal>| matches!(done, Err(Refusal::Exhausted));
        let mut done = act();
        if is_short(&done) && self.descriptors().give_back() {
            done = act();
        }
        if is_short(&done) {
            self.descriptors().set_short(true);
        }
        done
    }

    /// Counts that a client had more than there is left.
    pub(crate) fn refuse_for_memory(&self, caller: &Caller<'_>, payer: Payer) -> Refusal {
        self.client_memory().refuse(payer, &caller.identity.name, caller.now.mono_ns);
        Refusal::Exhausted
    }
}
