//! Fairness while descriptors of the host are scarce. No client that has more than an equal share of them may
//! open more files ([`Fairness`](crate::engine::values::descriptors::Fairness) counts).

use crate::engine::Share;
use crate::{Caller, Refusal};

impl Share {
    /// Lets a client open one more file, unless descriptors are scarce and it has more than an equal share of
    /// them.
    ///
    /// # Errors
    /// [`Refusal::Exhausted`]
    pub(crate) fn check_fairness(&self, caller: &Caller<'_>) -> Result<(), Refusal> {
        if !self.volume().is_short() || self.is_fair(caller) {
            return Ok(());
        }
        let fairness = self.descriptors().fairness();
        // State of clients that are gone is given up first.
        if self.relieve(caller.now) {
            fairness.count_anew();
            if !self.volume().is_short() || self.is_fair(caller) {
                return Ok(());
            }
        }
        fairness.refuse(caller.client, caller.now, || self.name(), &caller.identity.name);
        Err(Refusal::Exhausted)
    }

    /// Whether a client has no more than its share.
    fn is_fair(&self, caller: &Caller<'_>) -> bool {
        let descriptors = self.descriptors();
        descriptors.fairness().is_fair(caller.client, caller.now, |name| {
            descriptors.sharing().iter().for_each(|share| share.name_holders(name));
        })
    }
}
