//! What the server has of the clients' leases, from moment to moment: epochs only grow, and a right that its
//! holder must give back is taken from it only when it cannot be told, or has had its time to answer.

use smb_wire::create_context::LeaseState;

use super::FILES;
use super::cache::{HANDLE, READ, WRITE};

/// How long the holder of a right has to give it back (MS-SMB2 3.3.2.5: 35 s), seen from the first look
/// after its beginning, which may come a second late.
const TIME_TO_ANSWER_NS: u64 = 34_000_000_000;

/// What the server has of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    pub state: LeaseState,
    pub is_breaking: bool,
    pub epoch: u16,
    /// The persistent id of the oldest open under it.
    pub oldest: u64,
    /// The same of the newest.
    pub newest: u64,
}

impl View {
    /// Whether what the holder has read is still what is there: nobody waits for the holder of a right that
    /// is less than to write, who may be told one step of a break only when it has answered the step before.
    // MS-FSA 2.1.4.12
    pub fn lets_read(self) -> bool {
        self.state.contains(READ) && (self.state.contains(WRITE) || !self.is_breaking)
    }
}

/// When a break began.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at_ns: u64,
    /// The newest line of the client at that time.
    newest: u64,
}

/// One lease.
#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    view: Option<View>,
    begun: Option<Begun>,
    /// The client's answer to a break has come to the server since it was looked at last.
    is_answered: bool,
}

/// All leases, by client and file.
#[derive(Debug, Default)]
pub struct Watch([[Watched; FILES]; 2]);

/// A client as the server may reach it now.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    pub now_ns: u64,
    /// The oldest line that the client hears, and the newest line of all.
    pub oldest_heard: Option<u64>,
    pub newest: u64,
}

impl Watch {
    /// An answer to a break has come to the server.
    pub fn answered(&mut self, (client, file): (usize, usize)) {
        self.0[client][file].is_answered = true;
    }

    /// The server is another one, whose clock has begun anew.
    pub fn forget(&mut self) {
        for watched in self.0.as_flattened_mut() {
            watched.begun = None;
            watched.is_answered = true;
        }
    }

    /// What the server has now.
    ///
    /// # Panics
    /// When it may not have come to that from what it had before.
    pub fn see(&mut self, (client, file): (usize, usize), view: Option<View>, reach: Reach) {
        let watched = &mut self.0[client][file];
        let is_answered = std::mem::take(&mut watched.is_answered);
        let before = std::mem::replace(&mut watched.view, view);
        let begun = watched.begun;
        watched.begun = view.filter(|view| view.is_breaking).map(|_| {
            let now = Begun { at_ns: reach.now_ns, newest: reach.newest };
            // Each step of a break has its time.
            begun
                .filter(|_| before.is_some_and(|before| before.epoch == view.map_or(0, |v| v.epoch)))
                .unwrap_or(now)
        });
        let (Some(before), Some(view)) = (before, view) else { return };
        // All that was open under it has been closed, and something was opened since.
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
