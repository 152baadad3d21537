//! Opens for which a CLOSE is under way, in sessions with several channels.
//!
//! A client whose channel is lost sends its CLOSE again over another channel (MS-SMB2 3.2.5.1.13). The first
//! CLOSE may still be under way. The second CLOSE finds no Open, and its client takes that for success. So
//! the second one must not be answered before the first one is done.

use parking_lot::{Condvar, Mutex};

/// The volatile ids of the Opens with a pending CLOSE.
#[derive(Debug, Default)]
pub(crate) struct PendingCloses {
    ids: Mutex<Vec<u64>>,
    ended: Condvar,
}

/// One pending CLOSE. It ends when this value is dropped.
pub(crate) struct PendingClose<'a> {
    pending: &'a PendingCloses,
    id: u64,
}

impl PendingCloses {
    pub fn begin(&self, id: u64) -> PendingClose<'_> {
        self.ids.lock().push(id);
        PendingClose { pending: self, id }
    }

    /// Waits until the pending CLOSE of this Open, if any, is done.
    pub fn wait(&self, id: u64) {
        let mut ids = self.ids.lock();
        self.ended.wait_while(&mut ids, |ids| ids.contains(&id));
    }
}

impl Drop for PendingClose<'_> {
    fn drop(&mut self) {
        let mut ids = self.pending.ids.lock();
        if let Some(at) = ids.iter().position(|&id| id == self.id) {
            ids.swap_remove(at);
        }
        self.pending.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn who_waits_for_a_close_hears_of_its_end() {
        let pending = PendingCloses::default();
        pending.wait(1);
        let (first, other) = (pending.begin(1), pending.begin(2));
        let (done, waited) = mpsc::channel();
        std::thread::scope(|scope| {
            let pending = &pending;
            scope.spawn(move || {
                pending.wait(1);
                done.send(()).unwrap();
            });
            drop(other);
            assert!(waited.recv_timeout(Duration::from_millis(20)).is_err());
            drop(first);
            assert!(waited.recv_timeout(Duration::from_secs(10)).is_ok());
        });
        assert!(pending.ids.lock().is_empty());
    }
}
