//! Who opens a file: an open-owner for each open under way at once.
//!
//! Two opens of one file by one owner are one to the server, and the first CLOSE would end both (RFC 8881 9.9). So an
//! open takes an owner that has no other, and gives it back when it is closed; the server sees no more of them than
//! there are files open at once.

use std::sync::{Mutex, PoisonError};

/// The owners of a client.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    free: Vec<u32>,
    made: u32,
}

impl Owners {
    /// An owner with no open.
    pub(crate) fn take(&self) -> u32 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.free.pop().unwrap_or_else(|| {
            state.made += 1;
            state.made
        })
    }

    /// The open of `owner` is closed.
    pub(crate) fn give_back(&self, owner: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).free.push(owner);
    }
}

/// What the server calls an owner.
pub(crate) fn name(owner: u32) -> [u8; 4] {
    owner.to_be_bytes()
}
