//! The address of a node, asked of the volume once: it stays the same as long as the node is.

use std::sync::OnceLock;

use crate::Refusal;

/// An address, when it has been asked for.
#[derive(Default)]
pub(crate) struct Address(OnceLock<Vec<u8>>);

impl Address {
    /// It, from `ask` when nobody has wanted it yet.
    ///
    /// # Errors
    /// As `ask` says, which is asked again then.
    pub fn get(&self, ask: impl FnOnce() -> Result<Vec<u8>, Refusal>) -> Result<Vec<u8>, Refusal> {
        if let Some(known) = self.0.get() {
            return Ok(known.clone());
        }
        let address = ask()?;
        Ok(self.0.get_or_init(|| address).clone())
    }
}
