//! The expected files of one worker: a map of names to contents, and one open file with its locks. The model
//! does not know connections: an operation that succeeded was done once. A WRITE that a failing disk refused
//! may be half done, and such a CREATE may have left an empty file. No other operation has changed anything.

use std::collections::{BTreeMap, BTreeSet};

use testkit::dice::Dice;

/// The number of names of a worker, and the number of its byte ranges.
pub const NAMES: usize = 4;
const SLOTS: usize = 3;
/// The largest size of a file.
const LARGEST: usize = 600;

/// The next operation of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Creates a file that must not exist.
    Make {
        name: usize,
    },
    /// Opens a file that must exist.
    Open {
        name: usize,
    },
    Write {
        offset: usize,
        data: Vec<u8>,
    },
    Read {
        offset: usize,
        length: usize,
    },
    Resize {
        size: usize,
    },
    Rename {
        to: usize,
    },
    /// Deletes the name when the file is closed.
    Doom,
    Flush,
    Lock {
        slot: usize,
    },
    Unlock {
        slot: usize,
    },
    Close,
}

impl Op {
    /// The operation in a log line, without all the data.
    pub fn describe(&self) -> String {
        match self {
            Op::Write { offset, data } => format!("Write {{ {} times {} at {offset} }}", data.len(), data[0]),
            other => format!("{other:?}"),
        }
    }
}

/// A file with all its possible contents, and whether it may be missing. Without a failing disk there is one
/// possibility.
#[derive(Debug, Clone)]
pub struct PossibleContents {
    pub ways: Vec<Vec<u8>>,
    pub may_be_absent: bool,
}

impl PossibleContents {
    fn empty() -> PossibleContents {
        PossibleContents { ways: vec![Vec::new()], may_be_absent: false }
    }

    /// Applies `change` to all possible contents.
    fn change(&mut self, change: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
        let ways: BTreeSet<Vec<u8>> = self.ways.iter().flat_map(|way| change(way)).collect();
        self.ways = ways.into_iter().collect();
    }

    /// Keeps the possible contents that match an observation. Returns false if none is left.
    pub fn narrow(&mut self, fits: impl Fn(&[u8]) -> bool) -> bool {
        self.ways.retain(|way| fits(way));
        !self.ways.is_empty()
    }
}

/// The open file.
#[derive(Debug, Clone)]
pub struct OpenInModel {
    pub name: usize,
    pub locked: BTreeSet<usize>,
    pub doomed: bool,
    /// The operation may have been done. It is repeated before any other.
    pub doubtful: Option<Op>,
}

/// One worker's files.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub files: BTreeMap<usize, PossibleContents>,
    pub held: Option<OpenInModel>,
}

impl Model {
    /// An operation that is possible now.
    pub fn propose(&self, dice: &mut Dice) -> Op {
        let Some(held) = &self.held else { return self.propose_open(dice) };
        if let Some(op) = &held.doubtful {
            return op.clone();
        }
        let content = &self.files[&held.name];
        if content.ways.len() > 1 {
            return Op::Read { offset: 0, length: LARGEST };
        }
        loop {
            let size = content.ways[0].len();
            return match dice.weighted(&[6, 5, 1, 2, 1, 1, 3, 2, 2]) {
                0 => {
                    let offset = dice.below(LARGEST - 100);
                    let data = vec![dice.roll() as u8; 1 + dice.below(100)];
                    Op::Write { offset, data }
                }
                1 => Op::Read { offset: dice.below(size + 1), length: 1 + dice.below(LARGEST) },
                2 => Op::Resize { size: dice.below(LARGEST) },
                3 => match self.free_name(dice) {
                    Some(to) if !held.doomed => Op::Rename { to },
                    _ => continue,
                },
                4 if !held.doomed => Op::Doom,
                5 => Op::Flush,
                6 => {
                    let slot = dice.below(SLOTS);
                    if held.locked.contains(&slot) { Op::Unlock { slot } } else { Op::Lock { slot } }
                }
                7 => Op::Close,
                _ => continue,
            };
        }
    }

    fn propose_open(&self, dice: &mut Dice) -> Op {
        let name = dice.below(NAMES);
        let is_there = self.files.get(&name).is_some_and(|content| !content.may_be_absent);
        if is_there { Op::Open { name } } else { Op::Make { name } }
    }

    fn free_name(&self, dice: &mut Dice) -> Option<usize> {
        let name = dice.below(NAMES);
        (!self.files.contains_key(&name)).then_some(name)
    }

    /// Handles the data of a READ, which is empty at the end of the file. Returns false if it is impossible.
    pub fn saw(&mut self, offset: usize, length: usize, data: &[u8]) -> bool {
        self.content().narrow(|way| {
            let end = (offset + length).min(way.len());
            way.get(offset..end).unwrap_or(&[]) == data
        })
    }

    /// Handles a CREATE that has found a file which must not exist. An earlier copy may have made it.
    pub fn found(&mut self, name: usize, may_be_new: bool) {
        if may_be_new {
            self.may_be_made(name);
        }
        self.files.get_mut(&name).expect("it may be there").may_be_absent = false;
    }

    fn may_be_made(&mut self, name: usize) {
        let absent = PossibleContents { ways: Vec::new(), may_be_absent: true };
        let content = self.files.entry(name).or_insert(absent);
        if content.may_be_absent && !content.ways.contains(&Vec::new()) {
            content.ways.push(Vec::new());
        }
    }

    /// Handles an operation that a failing disk has refused. An earlier copy may have been done.
    pub fn failed(&mut self, op: &Op, is_replay: bool) {
        match op {
            Op::Make { name } => self.may_be_made(*name),
            Op::Write { offset, data } => self.content().change(|way| {
                let prefixes = (1..=data.len()).map(|end| written(way, *offset, &data[..end]));
                std::iter::once(way.to_vec()).chain(prefixes).collect()
            }),
            Op::Resize { size } => self.content().change(|way| vec![way.to_vec(), resized(way, *size)]),
            Op::Close => self.let_go(true),
            Op::Rename { .. } | Op::Doom if is_replay => self.held_mut().doubtful = Some(op.clone()),
            _ => {}
        }
    }

    /// Handles an operation that was done.
    pub fn apply(&mut self, op: &Op) {
        if let Some(held) = &mut self.held {
            held.doubtful = None;
        }
        match op {
            Op::Make { name } => {
                self.files.insert(*name, PossibleContents::empty());
                self.hold(*name);
            }
            Op::Open { name } => self.hold(*name),
            Op::Write { offset, data } => self.content().change(|way| vec![written(way, *offset, data)]),
            Op::Resize { size } => self.content().change(|way| vec![resized(way, *size)]),
            Op::Rename { to } => {
                let held = self.held.as_mut().expect("only an open file is renamed");
                let content = self.files.remove(&held.name).expect("an open file has a name");
                held.name = *to;
                self.files.insert(*to, content);
            }
            Op::Doom => self.held_mut().doomed = true,
            Op::Lock { slot } => drop(self.held_mut().locked.insert(*slot)),
            Op::Unlock { slot } => drop(self.held_mut().locked.remove(slot)),
            Op::Close => self.let_go(false),
            Op::Read { .. } | Op::Flush => {}
        }
    }

    /// Closes the file. Its delete on close may have failed with the disk, and then the name may still
    /// exist.
    pub fn let_go(&mut self, disk_failed: bool) {
        let Some(held) = self.held.take().filter(|held| held.doomed) else { return };
        if disk_failed {
            self.files.get_mut(&held.name).expect("an open file has a name").may_be_absent = true;
        } else {
            self.files.remove(&held.name);
        }
    }

    fn hold(&mut self, name: usize) {
        self.held = Some(OpenInModel { name, locked: BTreeSet::new(), doomed: false, doubtful: None });
    }

    fn held_mut(&mut self) -> &mut OpenInModel {
        self.held.as_mut().expect("a file is open")
    }

    /// The content of the open file.
    pub fn content(&mut self) -> &mut PossibleContents {
        let name = self.held_mut().name;
        self.files.get_mut(&name).expect("an open file has a name")
    }
}

fn written(way: &[u8], offset: usize, data: &[u8]) -> Vec<u8> {
    let mut way = resized(way, way.len().max(offset + data.len()));
    way[offset..offset + data.len()].copy_from_slice(data);
    way
}

fn resized(way: &[u8], size: usize) -> Vec<u8> {
    let mut way = way.to_vec();
    way.resize(size, 0);
    way
}
