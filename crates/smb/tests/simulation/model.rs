//! What one worker's files must be: a map of names to contents, and one open file with its locks. It knows
//! nothing of connections: an operation that succeeded was done once.

use std::collections::{BTreeMap, BTreeSet};

use super::dice::Dice;

/// How many names a worker uses, and how many byte ranges it locks.
pub const NAMES: usize = 4;
const SLOTS: usize = 3;
/// No file grows beyond this.
const LARGEST: usize = 600;

/// What a worker does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Makes a file that must not exist.
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
    /// The name goes when the file is closed.
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

/// The file that is open.
#[derive(Debug, Clone)]
pub struct Held {
    pub name: usize,
    pub locked: BTreeSet<usize>,
    pub doomed: bool,
}

/// One worker's files.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub files: BTreeMap<usize, Vec<u8>>,
    pub held: Option<Held>,
}

impl Model {
    /// Something that can be done now.
    pub fn propose(&self, dice: &mut Dice) -> Op {
        let Some(held) = &self.held else { return self.propose_open(dice) };
        loop {
            let size = self.files[&held.name].len();
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
        if self.files.contains_key(&name) { Op::Open { name } } else { Op::Make { name } }
    }

    fn free_name(&self, dice: &mut Dice) -> Option<usize> {
        let name = dice.below(NAMES);
        (!self.files.contains_key(&name)).then_some(name)
    }

    /// What a READ must answer.
    pub fn expected(&self, offset: usize, length: usize) -> &[u8] {
        let content = &self.files[&self.held.as_ref().expect("only an open file is read").name];
        let end = (offset + length).min(content.len());
        content.get(offset..end).unwrap_or(&[])
    }

    /// The operation has been done.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Make { name } => {
                self.files.insert(*name, Vec::new());
                self.hold(*name);
            }
            Op::Open { name } => self.hold(*name),
            Op::Write { offset, data } => {
                let content = self.content();
                content.resize(content.len().max(offset + data.len()), 0);
                content[*offset..offset + data.len()].copy_from_slice(data);
            }
            Op::Resize { size } => self.content().resize(*size, 0),
            Op::Rename { to } => {
                let held = self.held.as_mut().expect("only an open file is renamed");
                let content = self.files.remove(&held.name).expect("an open file has a name");
                held.name = *to;
                self.files.insert(*to, content);
            }
            Op::Doom => self.held_mut().doomed = true,
            Op::Lock { slot } => drop(self.held_mut().locked.insert(*slot)),
            Op::Unlock { slot } => drop(self.held_mut().locked.remove(slot)),
            Op::Close => self.let_go(),
            Op::Read { .. } | Op::Flush => {}
        }
    }

    /// The file is open no more.
    pub fn let_go(&mut self) {
        if let Some(held) = self.held.take().filter(|held| held.doomed) {
            self.files.remove(&held.name);
        }
    }

    fn hold(&mut self, name: usize) {
        self.held = Some(Held { name, locked: BTreeSet::new(), doomed: false });
    }

    fn held_mut(&mut self) -> &mut Held {
        self.held.as_mut().expect("a file is open")
    }

    fn content(&mut self) -> &mut Vec<u8> {
        let name = self.held_mut().name;
        self.files.get_mut(&name).expect("an open file has a name")
    }
}
