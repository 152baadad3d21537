//! Which files clients have opened before: a READ delegation pays for a file that is opened again, and costs a DELEGRETURN for
//! one that is read once and removed (RFC 8881 10.4 leaves it to the server).
//!
//! One table of fixed size for all clients. Each place keeps a part of the hash of the last pair of client and file that came to
//! it, so an open is forgotten when others take its place. A place that two pairs share by chance costs one delegation at most.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use volume::NodeId;

/// Places of the table, each of 4 bytes.
const PLACES: usize = 1 << 16;

/// The table.
#[derive(Default)]
pub struct Reopens {
    hasher: RandomState,
    /// Made with the first open.
    places: OnceLock<Box<[AtomicU32]>>,
}

impl Reopens {
    /// Notes that the client with this ID opens the file; whether it has opened it before.
    pub fn note(&self, client: u64, export: u32, node: NodeId) -> bool {
        let places = self.places.get_or_init(|| (0..PLACES).map(|_| AtomicU32::new(0)).collect());
        let hash = self.hasher.hash_one((client, export, node));
        // Zero is a place that nobody has come to.
        let mark = (hash >> 32) as u32 | 1;
        let Some(place) = places.get(hash as usize % PLACES) else { return false };
        place.swap(mark, Ordering::Relaxed) == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(inode: u64) -> NodeId {
        NodeId { device: 1, inode }
    }

    #[test]
    fn the_second_open_of_a_client_is_known() {
        let reopens = Reopens::default();
        let node = node(7);
        assert!(!reopens.note(1, 1, node) && !reopens.note(2, 1, node) && !reopens.note(1, 2, node));
        assert!(reopens.note(1, 1, node) && reopens.note(2, 1, node) && reopens.note(1, 2, node));
    }

    #[test]
    fn few_opens_are_forgotten_and_few_are_mistaken() {
        let reopens = Reopens::default();
        let count = |from: u64| (from..from + 1000).filter(|n| reopens.note(1, 1, node(*n))).count();
        assert!(count(0) <= 1);
        assert!(count(0) >= 950);
    }
}
