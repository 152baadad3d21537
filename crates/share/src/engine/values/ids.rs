//! Tables by [`NodeId`], with a hash of one multiplication for each number: every entry of a listing is
//! looked up in them.
//!
//! The hash of the standard library withstands keys that clients choose. Here the host numbers the files, and
//! collisions in a table depend on a number that no one outside the process knows.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use volume::NodeId;

/// A table by identities of files.
pub(crate) type ById<V> = HashMap<NodeId, V, IdHash>;

/// An odd number with as many ones as zeros, spread evenly.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes identities, each table in another way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdHash(u64);

impl Default for IdHash {
    fn default() -> IdHash {
        IdHash(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for IdHash {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher(self.0)
    }
}

/// The numbers of an identity, mixed.
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        // Both halves of the product: every bit of the number reaches the low bits and the high ones.
        let product = u128::from(self.0 ^ number) * u128::from(FACTOR);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut number = [0; 8];
            number[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(number));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_in_a_row_or_far_apart_are_spread() {
        let hash = IdHash::default();
        for step in [1, 2, 64, 1 << 12, 1 << 32, 1 << 56] {
            let of = |n: u64| hash.hash_one(NodeId { device: 7, inode: n.wrapping_mul(step) });
            let count = if step == 1 << 56 { 256 } else { 4096 };
            let distinct =
                |part: fn(u64) -> u64| (0..count).map(|n| part(of(n))).collect::<HashSet<_>>().len();
            // A table takes the slot from the low bits and distinguishes entries by the high ones. With as
            // many balls as urns, about 63 % of the urns are hit.
            let (low, high) = (distinct(|hash| hash & 4095), distinct(|hash| hash >> 57));
            assert!(low >= count as usize / 2 && high >= 64, "step {step}: {low} and {high} of {count}");
        }
        let apart = [1, 2].map(|device| hash.hash_one(NodeId { device, inode: 5 }));
        assert_ne!(apart[0], apart[1]);
        assert_ne!(
            hash.hash_one(NodeId { device: 1, inode: 2 }),
            IdHash::default().hash_one(NodeId { device: 1, inode: 2 })
        );
    }
}
