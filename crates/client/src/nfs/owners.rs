//! Open-owners: one for each open that exists at once.
//!
//! Two opens of one file by one owner are one open to the server, and the first CLOSE would end both (RFC
//! 8881 9.9). So an open takes an owner without another open, and returns it when it is closed. The server
//! sees no more owners than there are files open at once.

use std::sync::{Mutex, PoisonError};

/// The open-owners of a client.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<OwnerPool>);

#[derive(Debug, Default)]
struct OwnerPool {
    free: Vec<u32>,
    made: u32,
}

impl Owners {
    /// Takes an owner without an open.
    pub(crate) fn take(&self) -> u32 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.free.pop().unwrap_or_else(|| {
            state.made += 1;
            state.made
        })
    }

    /// Returns an owner whose open is closed.
    pub(crate) fn give_back(&self, owner: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).free.push(owner);
    }
}

/// The name of an owner in the protocol.
pub(crate) fn name(owner: u32) -> [u8; 4] {
    owner.to_be_bytes()
}
