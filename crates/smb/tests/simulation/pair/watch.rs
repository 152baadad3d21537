//! The server's view of the clients' leases over time. Epochs only grow. The server revokes a right only if
//! its holder cannot be notified, or has had its time to acknowledge.

use smb_wire::create_context::LeaseState;

use super::FILES;
use super::cache::{HANDLE, READ, WRITE};

/// How long the holder of a right has to acknowledge a break (MS-SMB2 3.3.2.5: 35 s), from the first check
/// after its start, which may be a second late.
const TIME_TO_ANSWER_NS: u64 = 34_000_000_000;

/// The server's view of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseView {
    pub state: LeaseState,
    pub is_breaking: bool,
    pub epoch: u16,
    /// The persistent id of the oldest open under it.
    pub oldest: u64,
    /// The persistent id of the newest open under it.
    pub newest: u64,
}

impl LeaseView {
    /// Whether the holder's cached data is still current. Other clients do not wait for the holder of a
    /// right without write caching, and the holder may get the next step of a break only after its
    /// acknowledgment of the previous one.
    // MS-FSA 2.1.4.12
    pub fn lets_read(self) -> bool {
        self.state.contains(READ) && (self.state.contains(WRITE) || !self.is_breaking)
    }
}

/// The start of a break.
#[derive(Debug, Clone, Copy)]
struct BreakStart {
    at_ns: u64,
    /// The newest line of the client at that time.
    newest: u64,
}

/// One lease.
#[derive(Debug, Clone, Copy, Default)]
struct WatchedLease {
    view: Option<LeaseView>,
    begun: Option<BreakStart>,
    /// The client's acknowledgment has reached the server since the last check.
    is_answered: bool,
}

/// All leases, by client and file.
#[derive(Debug, Default)]
pub struct LeaseWatch([[WatchedLease; FILES]; 2]);

/// The paths from the server to a client at present.
#[derive(Debug, Clone, Copy)]
pub struct ReachablePaths {
    pub now_ns: u64,
    /// The oldest line that the client hears, and the newest line of all.
    pub oldest_heard: Option<u64>,
    pub newest: u64,
}

impl LeaseWatch {
    /// Records that an acknowledgment has reached the server.
    pub fn answered(&mut self, (client, file): (usize, usize)) {
        self.0[client][file].is_answered = true;
    }

    /// Records a new server, whose clock has started again.
    pub fn forget(&mut self) {
        for watched in self.0.as_flattened_mut() {
            watched.begun = None;
            watched.is_answered = true;
        }
    }

    /// Checks the server's current view.
    ///
    /// # Panics
    /// If the change from its previous view is not allowed.
    pub fn see(&mut self, (client, file): (usize, usize), view: Option<LeaseView>, reach: ReachablePaths) {
        let watched = &mut self.0[client][file];
        let is_answered = std::mem::take(&mut watched.is_answered);
        let before = std::mem::replace(&mut watched.view, view);
        let begun = watched.begun;
        watched.begun = view.filter(|view| view.is_breaking).map(|_| {
            let now = BreakStart { at_ns: reach.now_ns, newest: reach.newest };
            // Each step of a break has its time.
            begun
                .filter(|_| before.is_some_and(|before| before.epoch == view.map_or(0, |v| v.epoch)))
                .unwrap_or(now)
        });
        let (Some(before), Some(view)) = (before, view) else { return };
        // All opens under it have been closed, and a new one was opened since.
        if view.oldest > before.newest {
            return;
        }
        let step = view.epoch.wrapping_sub(before.epoch) as i16;
        assert!(step >= 0, "the epoch of {client} for {file} goes back: {before:?}, {view:?}");
        let owed = before.state.intersects(WRITE | HANDLE) && !(before.state - view.state).is_empty();
        if owed && !is_answered {
            let newest = begun.map_or(reach.newest, |begun| begun.newest);
            let is_reached = reach.oldest_heard.is_some_and(|line| line <= newest);
            let had_time = begun.is_some_and(|begun| reach.now_ns - begun.at_ns >= TIME_TO_ANSWER_NS);
            assert!(
                !is_reached || had_time,
                "{client} was not waited for: {before:?}, {view:?}, {begun:?}, {reach:?}"
            );
        }
    }
}
