//! What both clients saw, and whether one server that does everything once, at one moment each, can have
//! answered so.
//!
//! It knows nothing of connections, leases or restarts. Data is written in cells, each write with a value of
//! its own; who keeps data in memory reads and writes there as everywhere, since nobody may tell the
//! difference. What is held against others (a share mode, a byte range) is held for sure between two moments
//! and perhaps for longer at both ends: two that exclude each other are never both held for sure, and a
//! refusal needs one that was perhaps held.

use std::collections::BTreeMap;

/// A moment of the history.
pub type Time = u64;
/// It has no end yet, or never.
pub const NEVER: Time = Time::MAX;

/// A cell of a file.
pub type Cell = (usize, usize);

/// One write of a value, and all reads of it.
#[derive(Debug, Clone)]
struct Value {
    /// When its write began, and by when it was done, or never would be.
    written: (Time, Time),
    /// Whoever wrote it was told that it is done.
    is_sure: bool,
    /// It was sent more than once, and may have been done as often: no server can know that it was done, and
    /// that another client has written since (MS-SMB2 3.3.5.2.10).
    is_resent: bool,
    reads: Vec<(Time, Time)>,
}

impl Value {
    /// The first end and the last beginning of all that saw it, the write included; none when nobody did.
    /// Where it may have come more than once, this is of the last time.
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

/// What is held against others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// An open: whether it writes, and whether it lets others read and write.
    Open { writes: bool, shares: (bool, bool) },
    /// A byte range.
    Range { slot: usize, exclusive: bool },
}

impl What {
    fn excludes(self, other: What) -> bool {
        match (self, other) {
            (What::Open { writes, shares }, What::Open { writes: others, shares: theirs }) => {
                // Both read.
                !shares.0 || !theirs.0 || (others && !shares.1) || (writes && !theirs.1)
            }
            (What::Range { slot, exclusive }, What::Range { slot: theirs, exclusive: others }) => {
                slot == theirs && (exclusive || others)
            }
            _ => false,
        }
    }
}

/// Something held, by which open, and when.
#[derive(Debug, Clone)]
pub struct Hold {
    pub file: usize,
    pub by: usize,
    pub what: What,
    /// From when on perhaps, and for sure.
    pub from: (Time, Time),
    /// Until when for sure, and perhaps.
    pub until: (Time, Time),
}

/// A refusal, of what, and from when to when it was asked.
#[derive(Debug)]
struct Refused {
    hold: usize,
    asked: (Time, Time),
}

/// A read or write of a cell that a byte range might have forbidden.
#[derive(Debug)]
struct Access {
    cell: Cell,
    by: usize,
    writes: bool,
    asked: (Time, Time),
    refused: bool,
}

/// All that was seen.
#[derive(Debug, Default)]
pub struct Record {
    cells: BTreeMap<Cell, BTreeMap<u64, Value>>,
    pub holds: Vec<Hold>,
    refused: Vec<Refused>,
    accesses: Vec<Access>,
}

impl Record {
    /// A write begins; nobody is sure of it until [`Record::wrote`] says that it is done.
    pub fn writes(&mut self, cell: Cell, value: u64, start: Time) {
        let fresh = Value { written: (start, NEVER), is_sure: false, is_resent: false, reads: Vec::new() };
        assert!(self.cells.entry(cell).or_default().insert(value, fresh).is_none(), "each value is new");
    }

    /// It is sent once more.
    pub fn sends_again(&mut self, cell: Cell, value: u64) {
        self.value(cell, value).is_resent = true;
    }

    /// Whoever wrote this was told so.
    pub fn wrote(&mut self, cell: Cell, value: u64, end: Time) {
        self.gives_up(cell, value, end);
        self.value(cell, value).is_sure = true;
    }

    /// Whoever wrote this was told that it is not done, or lost the handle: if it is not done by now, it
    /// never will be.
    pub fn gives_up(&mut self, cell: Cell, value: u64, end: Time) {
        let known = self.value(cell, value);
        known.written.1 = known.written.1.min(end);
    }

    /// It is not sure any more that it has been written, or ever will be.
    pub fn unsure(&mut self, cell: Cell, value: u64) {
        let known = self.value(cell, value);
        (known.is_sure, known.written.1) = (false, NEVER);
    }

    /// A read between two moments.
    pub fn read(&mut self, cell: Cell, value: u64, (start, end): (Time, Time)) {
        let values = self.cells.entry(cell).or_default();
        let read = values.get_mut(&value).unwrap_or_else(|| panic!("{cell:?}: nobody wrote {value}"));
        assert!(read.written.0 <= end, "{cell:?}: {value} is read before it is written");
        read.reads.push((start, end));
    }

    /// A cell was read or written through an open, or that was refused for a byte range.
    pub fn accessed(&mut self, cell: Cell, by: usize, writes: bool, asked: (Time, Time), refused: bool) {
        self.accesses.push(Access { cell, by, writes, asked, refused });
    }

    /// Something is asked for that others may not have meanwhile.
    pub fn asks(&mut self, file: usize, by: usize, what: What, start: Time) -> usize {
        let (from, until) = ((start, NEVER), (NEVER, NEVER));
        self.holds.push(Hold { file, by, what, from, until });
        self.holds.len() - 1
    }

    /// It was refused; sent more than once, it may have been held before that.
    pub fn refused(&mut self, hold: usize, end: Time, is_resent: bool) {
        let asked = (self.holds[hold].from.0, end);
        self.refused.push(Refused { hold, asked });
        let hold = &mut self.holds[hold];
        if !is_resent {
            hold.from.0 = NEVER;
        }
        hold.until = (end, end);
    }

    fn value(&mut self, cell: Cell, value: u64) -> &mut Value {
        self.cells.get_mut(&cell).and_then(|values| values.get_mut(&value)).expect("it was begun")
    }

    /// Looks at all of it.
    ///
    /// # Panics
    /// When no server that does everything once can have answered so.
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
                // An open is in its own way with what it has locked, and not with itself.
                let apart =
                    hold.by != asked.by || (at != refused.hold && matches!(hold.what, What::Range { .. }));
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

    fn check_access(&self, access: &Access, slots_cover_cells: usize) {
        let forbids = |hold: &&Hold| match hold.what {
            What::Range { slot, exclusive } => {
                let covers = slots_cover_cells > 0 && access.cell.1 / slots_cover_cells == slot;
                let others = hold.by != access.by;
                covers && hold.file == access.cell.0 && if exclusive { others } else { access.writes }
            }
            What::Open { .. } => false,
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

/// Whether it was perhaps held at some time between two moments.
fn is_perhaps(hold: &Hold, (start, end): (Time, Time)) -> bool {
    hold.from.0 <= end && start <= hold.until.1
}

/// Whether the reads and writes of a cell can be put in an order that keeps what came after what.
///
/// After P. B. Gibbons and E. Korach, Testing Shared Memories (1997): where each value is written once, a
/// value lies in the cell at least from the first end of all its reads and its write to the last beginning.
/// No two such times overlap, and no value comes and goes within that of another.
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
