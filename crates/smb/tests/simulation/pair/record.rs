//! The observations of both clients, and the check that they are possible with one server that does each
//! operation once, at one moment each.
//!
//! The record does not know connections, leases or restarts. Data is written in cells, each write with a
//! unique value. A client with data in memory reads and writes there like anywhere else, since nobody may
//! see a difference. A hold against others (a share mode, a byte range) is certain between two moments, and
//! possible for longer at both ends. Two conflicting holds are never both certain, and a refusal needs a
//! possible hold.

use std::collections::BTreeMap;

/// A moment of the history.
pub type Time = u64;
/// It has no end yet, or will never have one.
pub const NEVER: Time = Time::MAX;

/// A cell of a file.
pub type Cell = (usize, usize);

/// One write of a value, with all reads of it.
#[derive(Debug, Clone)]
struct Value {
    /// The start of its write, and the time by which it was done or never would be.
    written: (Time, Time),
    /// The writer knows that it is done.
    is_sure: bool,
    /// It was sent more than once, and may have been done as often. No server can know that it was done and
    /// that another client has written since (MS-SMB2 3.3.5.2.10).
    is_resent: bool,
    reads: Vec<(Time, Time)>,
}

impl Value {
    /// The first end and the last start of all operations that saw the value, including the write. `None` if
    /// there are none. For a value that may have been written more than once, this is the last time.
    fn seen(&self) -> Option<(Time, Time)> {
        let (start, end) = self.written;
        let reads = || self.reads.iter().filter(|(from, _)| !self.is_resent || *from >= end);
        if !self.is_sure && reads().next().is_none() {
            return None;
        }
        let by = if self.is_sure || self.is_resent { end } else { NEVER };
        Some((
            reads().fold(by, |first, read| first.min(read.1)),
            reads().fold(start, |last, read| last.max(read.0)),
        ))
    }
}

/// A hold against others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldKind {
    /// An open: whether it writes, and whether it lets others read and write.
    Open { writes: bool, shares: (bool, bool) },
    /// A byte range.
    Range { slot: usize, exclusive: bool },
}

impl HoldKind {
    fn excludes(self, other: HoldKind) -> bool {
        match (self, other) {
            (HoldKind::Open { writes, shares }, HoldKind::Open { writes: others, shares: theirs }) => {
                // Both read.
                !shares.0 || !theirs.0 || (others && !shares.1) || (writes && !theirs.1)
            }
            (HoldKind::Range { slot, exclusive }, HoldKind::Range { slot: theirs, exclusive: others }) => {
                slot == theirs && (exclusive || others)
            }
            _ => false,
        }
    }
}

/// A hold, with its open and its time.
#[derive(Debug, Clone)]
pub struct Hold {
    pub file: usize,
    pub by: usize,
    pub what: HoldKind,
    /// The earliest possible start, and the start of certainty.
    pub from: (Time, Time),
    /// The end of certainty, and the latest possible end.
    pub until: (Time, Time),
}

/// A refusal, with its hold and the time of the request.
#[derive(Debug)]
struct HoldRefusal {
    hold: usize,
    asked: (Time, Time),
}

/// A read or write of a cell that a byte range may forbid.
#[derive(Debug)]
struct CellAccess {
    cell: Cell,
    by: usize,
    writes: bool,
    asked: (Time, Time),
    refused: bool,
}

/// All observations.
#[derive(Debug, Default)]
pub struct Observations {
    cells: BTreeMap<Cell, BTreeMap<u64, Value>>,
    pub holds: Vec<Hold>,
    refused: Vec<HoldRefusal>,
    accesses: Vec<CellAccess>,
}

impl Observations {
    /// Begins a write. It is not certain until [`Observations::wrote`] says that it is done.
    pub fn writes(&mut self, cell: Cell, value: u64, start: Time) {
        let fresh = Value { written: (start, NEVER), is_sure: false, is_resent: false, reads: Vec::new() };
        assert!(self.cells.entry(cell).or_default().insert(value, fresh).is_none(), "each value is new");
    }

    /// Records that the write was sent once more.
    pub fn sends_again(&mut self, cell: Cell, value: u64) {
        self.value(cell, value).is_resent = true;
    }

    /// Records that the writer knows the write to be done.
    pub fn wrote(&mut self, cell: Cell, value: u64, end: Time) {
        self.gives_up(cell, value, end);
        self.value(cell, value).is_sure = true;
    }

    /// Records that the writer knows the write not to be done, or has lost the handle. If it is not done by
    /// now, it never will be.
    pub fn gives_up(&mut self, cell: Cell, value: u64, end: Time) {
        let known = self.value(cell, value);
        known.written.1 = known.written.1.min(end);
    }

    /// Records that the write may not be done, now or later.
    pub fn unsure(&mut self, cell: Cell, value: u64) {
        let known = self.value(cell, value);
        (known.is_sure, known.written.1) = (false, NEVER);
    }

    /// Records a read between two moments.
    pub fn read(&mut self, cell: Cell, value: u64, (start, end): (Time, Time)) {
        let values = self.cells.entry(cell).or_default();
        let read = values.get_mut(&value).unwrap_or_else(|| panic!("{cell:?}: nobody wrote {value}"));
        assert!(read.written.0 <= end, "{cell:?}: {value} is read before it is written");
        read.reads.push((start, end));
    }

    /// Records a read or write of a cell through an open, or its refusal because of a byte range.
    pub fn accessed(&mut self, cell: Cell, by: usize, writes: bool, asked: (Time, Time), refused: bool) {
        self.accesses.push(CellAccess { cell, by, writes, asked, refused });
    }

    /// Records a request for a hold that excludes others.
    pub fn asks(&mut self, file: usize, by: usize, what: HoldKind, start: Time) -> usize {
        let (from, until) = ((start, NEVER), (NEVER, NEVER));
        self.holds.push(Hold { file, by, what, from, until });
        self.holds.len() - 1
    }

    /// Records the refusal of a request. If it was sent more than once, it may have been granted before.
    pub fn refused(&mut self, hold: usize, end: Time, is_resent: bool) {
        let asked = (self.holds[hold].from.0, end);
        self.refused.push(HoldRefusal { hold, asked });
        let hold = &mut self.holds[hold];
        if !is_resent {
            hold.from.0 = NEVER;
        }
        hold.until = (end, end);
    }

    fn value(&mut self, cell: Cell, value: u64) -> &mut Value {
        self.cells.get_mut(&cell).and_then(|values| values.get_mut(&value)).expect("it was begun")
    }

    /// Checks all observations.
    ///
    /// # Panics
    /// If they are impossible with one server that does each operation once.
    pub fn check(&self, slots_cover_cells: usize) {
        self.cells.iter().for_each(|(&cell, values)| check_cell(cell, values));
        for (at, one) in self.holds.iter().enumerate() {
            for other in self.holds[at + 1..].iter().filter(|other| other.file == one.file) {
                let both = one.from.1.max(other.from.1) < one.until.0.min(other.until.0);
                let apart = one.by != other.by && one.what.excludes(other.what);
                assert!(!(both && apart), "both are held: {one:?} and {other:?}");
            }
        }
        for refused in &self.refused {
            let asked = &self.holds[refused.hold];
            let in_the_way = |&(at, hold): &(usize, &Hold)| {
                // An open conflicts with its own locks, but not with itself.
                let apart = hold.by != asked.by
                    || (at != refused.hold && matches!(hold.what, HoldKind::Range { .. }));
                hold.file == asked.file
                    && apart
                    && hold.what.excludes(asked.what)
                    && is_perhaps(hold, refused.asked)
            };
            let found = self.holds.iter().enumerate().find(in_the_way);
            assert!(found.is_some(), "nothing was in the way of {asked:?}, {:?}", refused.asked);
        }
        self.accesses.iter().for_each(|access| self.check_access(access, slots_cover_cells));
    }

    fn check_access(&self, access: &CellAccess, slots_cover_cells: usize) {
        let forbids = |hold: &&Hold| match hold.what {
            HoldKind::Range { slot, exclusive } => {
                let covers = slots_cover_cells > 0 && access.cell.1 / slots_cover_cells == slot;
                let others = hold.by != access.by;
                covers && hold.file == access.cell.0 && if exclusive { others } else { access.writes }
            }
            HoldKind::Open { .. } => false,
        };
        let mut ranges = self.holds.iter().filter(forbids);
        if access.refused {
            assert!(ranges.any(|hold| is_perhaps(hold, access.asked)), "no range forbids {access:?}");
        } else {
            let (start, end) = access.asked;
            let breached = ranges.find(|hold| hold.from.1 < start && end < hold.until.0);
            assert!(breached.is_none(), "{access:?} in spite of {breached:?}");
        }
    }
}

/// Whether the hold was possible at some time between two moments.
fn is_perhaps(hold: &Hold, (start, end): (Time, Time)) -> bool {
    hold.from.0 <= end && start <= hold.until.1
}

/// Whether the reads and writes of a cell have an order that respects their times.
///
/// After P. B. Gibbons and E. Korach, Testing Shared Memories (1997): each value is written once. So a value
/// is in the cell at least from the first end of its write and reads to the last start of them. No two such
/// times overlap, and no value comes and goes within the time of another.
fn check_cell(cell: Cell, values: &BTreeMap<u64, Value>) {
    let mut lasting = Vec::new();
    let mut passing = Vec::new();
    for (&value, known) in values {
        match known.seen() {
            Some((first, last)) if first < last => lasting.push((first, last, value)),
            Some((first, last)) => passing.push((last, first, value)),
            None => {}
        }
    }
    lasting.sort_unstable();
    for pair in lasting.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{cell:?}: both are there (from, to, value): {pair:?}; {values:?}");
    }
    for &(start, end, value) in &passing {
        let within = lasting.iter().find(|(from, to, _)| *from < start && end < *to);
        assert!(within.is_none(), "{cell:?}: {value} came {start}..{end} and went in {within:?}; {values:?}");
    }
}
