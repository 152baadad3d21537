//! Actions that need a descriptor of the host, or memory, when there may be none left.
//!
//! Files that are kept open only for speed are closed first, those of other shares too. For a caller that
//! holds no lock, more is given up (`resource_relief`).

use crate::engine::Share;
use crate::memory::MemoryAccount;
use crate::{Caller, Refusal};

impl Share {
    /// Runs an action that takes a descriptor of the host. If there is none, cached descriptors are closed,
    /// by other shares too, and the action runs again.
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

    /// Counts that a client wanted more memory than is left.
    pub(crate) fn refuse_for_memory(&self, caller: &Caller<'_>, account: MemoryAccount) -> Refusal {
        self.client_memory().refuse(account, &caller.identity.name, caller.now.mono_ns);
        Refusal::Exhausted
    }
}
