//! A compact set of files. Files that were created together have adjacent numbers, and a run of them
//! shares one entry.

use std::collections::HashMap;

use crate::NodeId;

/// Words in a run of numbers.
const WORDS: usize = 8;
/// Numbers in a run.
const RUN: u64 = WORDS as u64 * 64;

/// A set of files.
#[derive(Debug, Default)]
pub(super) struct NodeIdSet {
    runs: HashMap<(u64, u64), [u64; WORDS]>,
}

impl NodeIdSet {
    /// Adds a file; false if the set had it.
    pub(super) fn insert(&mut self, id: NodeId) -> bool {
        let (run, word, bit) = word_and_bit(id);
        let words = self.runs.entry(run).or_default();
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        is_new
    }

    /// Removes a file; false if the set did not have it.
    pub(super) fn remove(&mut self, id: NodeId) -> bool {
        let (run, word, bit) = word_and_bit(id);
        let Some(words) = self.runs.get_mut(&run) else { return false };
        let was_there = words[word] & bit != 0;
        words[word] &= !bit;
        was_there
    }

    /// Whether the set has the file.
    pub(super) fn contains(&self, id: NodeId) -> bool {
        let (run, word, bit) = word_and_bit(id);
        self.runs.get(&run).is_some_and(|words| words[word] & bit != 0)
    }
}

/// The run of a file, the word in the run, and the bit in the word.
fn word_and_bit(id: NodeId) -> ((u64, u64), usize, u64) {
    let within = id.inode % RUN;
    ((id.device, id.inode / RUN), (within / 64) as usize, 1 << (within % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_there_until_it_is_taken_out() {
        let mut seen = NodeIdSet::default();
        let ids: Vec<NodeId> = [0, 1, 63, 64, 511, 512, u64::MAX]
            .into_iter()
            .flat_map(|inode| [1, 2].map(|device| NodeId { device, inode }))
            .collect();
        for (at, id) in ids.iter().enumerate() {
            assert!(!seen.contains(*id) && !seen.remove(*id), "{at}");
            assert!(seen.insert(*id) && !seen.insert(*id) && seen.contains(*id), "{at}");
        }
        for id in &ids {
            assert!(seen.remove(*id) && !seen.contains(*id));
        }
    }
}
