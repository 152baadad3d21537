//! One client's cached data of one file, and its view of its lease (MS-SMB2 3.2.5.7.5, 3.2.5.19.2).

use std::collections::BTreeMap;

use smb_wire::LeaseKey;
use smb_wire::create_context::{Lease, LeaseFlags, LeaseState};

use super::CELLS;
use super::record::{Observations, Time};
use super::watch::LeaseView;

pub const READ: LeaseState = LeaseState::READ_CACHING;
pub const HANDLE: LeaseState = LeaseState::HANDLE_CACHING;
pub const WRITE: LeaseState = LeaseState::WRITE_CACHING;

/// One file in one client's memory.
#[derive(Debug)]
pub struct FileCache {
    pub file: usize,
    pub key: LeaseKey,
    /// The lease state in the client's view.
    pub state: LeaseState,
    pub epoch: u16,
    clean: [Option<u64>; CELLS],
    /// Values that were written but not sent, or not answered.
    pub dirty: BTreeMap<usize, u64>,
    /// All values of a cell that were written since the last one on the server.
    unsent: BTreeMap<usize, Vec<u64>>,
    /// Counts the events after which a reply under way may be too old to keep.
    pub generation: u64,
    /// The client owes an acknowledgment of a break.
    pub owes: bool,
    /// Since when the server does not count on this client to get breaks. The client does not know yet.
    lost_since: Option<Time>,
}

impl FileCache {
    pub fn new(file: usize, key: LeaseKey) -> FileCache {
        FileCache {
            file,
            key,
            state: LeaseState::empty(),
            epoch: 0,
            clean: [None; CELLS],
            dirty: BTreeMap::new(),
            unsent: BTreeMap::new(),
            generation: 0,
            owes: false,
            lost_since: None,
        }
    }

    fn purge(&mut self) {
        self.clean = [None; CELLS];
        self.lost_since = None;
    }

    /// Handles the lease in a CREATE response.
    // MS-SMB2 3.2.5.7.5
    pub fn granted(&mut self, lease: Lease) {
        let epoch = lease.v2.expect("what was asked for has a second version").epoch;
        let ahead = epoch.wrapping_sub(self.epoch) as i16;
        // During a break the notice has the remaining state.
        if lease.flags.contains(LeaseFlags::BREAK_IN_PROGRESS) || ahead < 0 {
            return;
        }
        // A server that got no acknowledgment in time has revoked everything, without a new epoch for that
        // (MS-SMB2 3.3.6.5).
        if ahead == 0 {
            return self.lower(self.state & lease.state);
        }
        if ahead > 1 || lease.state == self.state || !lease.state.contains(READ) {
            self.purge();
        }
        (self.state, self.epoch) = (lease.state, epoch);
        self.generation += 1;
    }

    /// Handles a break notice. It is acknowledged when no data is left to write back.
    // MS-SMB2 3.2.5.19.2
    pub fn broken(&mut self, epoch: u16, to: LeaseState, answer: bool) {
        let ahead = epoch.wrapping_sub(self.epoch) as i16;
        if ahead < 0 {
            return;
        }
        if ahead > 0 {
            self.epoch = epoch;
            self.lower(self.state & to);
        }
        self.owes |= answer;
    }

    /// Lowers the client's view of its state.
    pub fn lower(&mut self, to: LeaseState) {
        self.state = to;
        self.generation += 1;
        if !to.contains(READ) {
            self.purge();
        }
    }

    /// The cached value of a cell, and whether it has not been sent yet.
    pub fn get(&self, cell: usize) -> Option<(u64, bool)> {
        let dirty = self.dirty.get(&cell).map(|&value| (value, true));
        dirty.or_else(|| Some((self.clean[cell].filter(|_| self.state.contains(READ))?, false)))
    }

    /// Keeps a read value if nothing has happened since `generation`.
    pub fn keep(&mut self, cell: usize, value: u64, generation: u64) {
        if self.state.contains(READ) && self.generation == generation {
            self.clean[cell] = Some(value);
        }
    }

    /// Forgets a value that an own write replaces or has replaced.
    pub fn forget(&mut self, cell: usize) {
        self.clean[cell] = None;
        self.generation += 1;
    }

    /// Since when the cached data may have been outdated.
    pub fn true_since(&self, now: Time) -> Time {
        self.lost_since.unwrap_or(now)
    }

    /// Writes to the cache.
    pub fn write(&mut self, cell: usize, value: u64) {
        self.forget(cell);
        self.dirty.insert(cell, value);
        self.unsent.entry(cell).or_default().push(value);
    }

    /// The server has the written value of a cell.
    pub fn is_sent(&mut self, cell: usize, value: u64, generation: u64) {
        assert_eq!(self.dirty.remove(&cell), Some(value), "nothing is written over what is being sent");
        self.unsent.remove(&cell);
        self.keep(cell, value, generation);
    }

    /// The unsent values are lost.
    pub fn lose_writes(&mut self, record: &mut Observations, now: Time) {
        self.unsure(record);
        self.unsent().for_each(|(cell, value)| record.gives_up((self.file, cell), value, now));
        self.dirty.clear();
        self.unsent.clear();
        self.generation += 1;
    }

    fn unsure(&self, record: &mut Observations) {
        self.unsent().for_each(|(cell, value)| record.unsure((self.file, cell), value));
    }

    fn unsent(&self) -> impl Iterator<Item = (usize, u64)> {
        self.unsent.iter().flat_map(|(&cell, values)| values.iter().map(move |&value| (cell, value)))
    }

    /// Compares with the server's current view. From the time when the server has revoked a right, reads and
    /// writes with that right count only as what they are.
    pub fn look(&mut self, view: Option<LeaseView>, now: Time, record: &mut Observations) {
        if self.state.contains(READ) && !view.is_some_and(LeaseView::lets_read) {
            self.lost_since.get_or_insert(now);
        }
        if !self.unsent.is_empty() && !view.is_some_and(|view| view.state.contains(WRITE)) {
            self.unsure(record);
        }
    }
}
