//! The address of a node. The volume is asked for it once: it stays the same as long as the node exists.

use std::sync::OnceLock;

use crate::Refusal;

/// An address, once it has been asked for.
#[derive(Default)]
pub(crate) struct CachedAddress(OnceLock<Vec<u8>>);

impl CachedAddress {
    /// The address. The first call gets it from `ask`.
    ///
    /// # Errors
    /// The error of `ask`; a later call asks again.
    pub fn get(&self, ask: impl FnOnce() -> Result<Vec<u8>, Refusal>) -> Result<Vec<u8>, Refusal> {
        if let Some(known) = self.0.get() {
            return Ok(known.clone());
        }
        let address = ask()?;
        Ok(self.0.get_or_init(|| address).clone())
    }
}
