//! The controls that smbtorture sets on a connection.

use crate::state::open::pending::ChangeInProgress;

/// The controls that a test of the server has set on one connection (`cmd/ioctl/torture.rs`).
#[derive(Default)]
pub(crate) struct Controls {
    /// Receipts are ignored.
    pub ignores_receipts: bool,
    /// The number of bytes before the data of a READ response.
    pub read_padding: u8,
    /// Delayed requests by their async id. Their Opens are not closed meanwhile.
    delayed: Vec<(u64, ChangeInProgress)>,
}

impl Controls {
    /// Delays a request.
    pub fn sleep(&mut self, async_id: u64, open: ChangeInProgress) {
        self.delayed.push((async_id, open));
    }

    /// Ends the delay of a request: its time has passed, or it was cancelled.
    pub fn wake(&mut self, async_id: u64) -> Option<ChangeInProgress> {
        let at = self.delayed.iter().position(|&(id, _)| id == async_id)?;
        Some(self.delayed.swap_remove(at).1)
    }

    /// Ends all delays with the connection.
    pub fn end(&mut self) {
        self.delayed.clear();
    }
}
