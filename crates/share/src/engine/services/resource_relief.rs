//! The state that is given up when the host has no descriptor or memory left, or a table is full.
//!
//! Files that are kept open only for speed are closed first, those of other shares too. Then the state of
//! clients that are gone follows: clients whose time is over, and opens that yield to others anyway. State
//! that was promised to outlast its client's absence stays. Code that finds a shortage where nothing may be
//! closed reports it, and the share's upkeep then gives the state up.

use std::sync::Arc;

use wire::Now;

use crate::engine::Share;
use crate::engine::values::descriptors::DescriptorSharer;
use crate::{Caller, ClientExpiry, ClientKey, Refusal};

impl DescriptorSharer for Share {
    fn give_back(&self) -> bool {
        let names = self.cache().give_back();
        let directories = self.directories().stop_keeping(|_| true);
        names || directories
    }

    fn end_yielding(&self, now: Now) -> bool {
        self.end_absent(now.into())
    }

    fn name_holders(&self, name: &mut dyn FnMut(ClientKey)) {
        self.open_files().all().iter().for_each(|file| file.name_holders(name));
    }

    fn keepers(&self) -> Vec<Arc<dyn ClientExpiry>> {
        self.time_keepers()
    }
}

impl Share {
    /// As [`Share::with_room`], for a caller that holds no lock. State of clients that are gone is given up
    /// too.
    ///
    /// # Errors
    /// As `act`.
    pub(crate) fn past_shortage<T>(
        &self,
        now: Now,
        act: impl Fn() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        match self.with_room(&act) {
            Err(Refusal::Exhausted) if self.relieve(now) => act(),
            other => other,
        }
    }

    /// Ends the state of clients that are gone, in all shares that have their descriptors together, because
    /// a resource is short. Returns false if there was none. The caller holds no lock.
    // RFC 8881 8.4.2.3
    pub fn relieve(&self, now: Now) -> bool {
        self.descriptors().set_short(false);
        let shares = self.descriptors().sharing();
        let mut keepers: Vec<Arc<dyn ClientExpiry>> = Vec::new();
        for keeper in shares.iter().flat_map(|share| share.keepers()) {
            if !keepers.iter().any(|known| Arc::ptr_eq(known, &keeper)) {
                keepers.push(keeper);
            }
        }
        let mut any = false;
        for keeper in keepers {
            any |= keeper.end_all_expired(now);
        }
        for share in shares {
            any |= share.end_yielding(now);
        }
        if any {
            tracing::info!(
                share = %self.name(),
                "a resource is short: state of absent clients is released"
            );
        }
        any
    }

    /// Lets a client have `bytes` more of the memory for clients.
    ///
    /// # Errors
    /// [`Refusal::Exhausted`]
    pub(crate) fn check_memory(&self, caller: &Caller<'_>, bytes: usize) -> Result<(), Refusal> {
        let account = self.client_memory().account(caller.client, caller.identity);
        let has_room = || self.client_memory().has_room(account, bytes);
        // A client that has used its own part is no reason to end the state of others.
        let may_relieve = || self.client_memory().is_short(caller.now.mono_ns);
        if has_room() || (may_relieve() && self.relieve(caller.now) && has_room()) {
            return Ok(());
        }
        Err(self.refuse_for_memory(caller, account))
    }

    /// Gives state up if a shortage was reported by code that could not do so itself.
    pub(crate) fn relieve_if_short(&self, now: Now) {
        if self.descriptors().is_short() {
            self.relieve(now);
        }
    }
}
