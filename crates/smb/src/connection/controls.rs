//! What smbtorture asks of a connection.

use crate::state::open::changing::Changing;

/// What a test of the server has asked of one connection (`cmd/ioctl/torture.rs`).
#[derive(Default)]
pub(crate) struct Controls {
    /// No receipt counts.
    pub deaf: bool,
    /// How many bytes stand in front of the data of a READ.
    pub read_padding: u8,
    /// Requests that take their time, each by its number. Their Opens are not closed meanwhile.
    asleep: Vec<(u64, Changing)>,
}

impl Controls {
    /// The request takes its time.
    pub fn sleep(&mut self, async_id: u64, open: Changing) {
        self.asleep.push((async_id, open));
    }

    /// The request no longer takes its time, or is taken back.
    pub fn wake(&mut self, async_id: u64) -> Option<Changing> {
        let at = self.asleep.iter().position(|&(id, _)| id == async_id)?;
        Some(self.asleep.swap_remove(at).1)
    }

    /// The connection is gone.
    pub fn end(&mut self) {
        self.asleep.clear();
    }
}
