//! Tables that free the room of many entries once few are left.
//!
//! A `HashMap` keeps the room for the most entries that it ever had. A server of changing clients would keep
//! the room of every peak.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// The room for this many entries is always kept.
const ROOMY: usize = 64;

/// A table that can free room. Call it after each removal.
pub trait Shrink {
    /// Frees unused room if the table has room for more than four times its entries. The average cost for
    /// each removal is constant, as is that of growth for each insertion.
    fn shrink(&mut self);
}

impl<K: Eq + Hash, V, S: BuildHasher> Shrink for HashMap<K, V, S> {
    fn shrink(&mut self) {
        if self.capacity() > 4 * self.len() + ROOMY {
            self.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_back_the_room_of_a_crowd_and_keeps_a_little() {
        let mut table: HashMap<u32, u32> = (0..10_000).map(|n| (n, n)).collect();
        let (mut most_kept, crowded) = (0, table.capacity());
        for n in 0..10_000 {
            table.remove(&n);
            table.shrink();
            most_kept = most_kept.max(table.capacity().saturating_sub(4 * table.len()));
        }
        assert!(crowded >= 10_000 && most_kept <= 2 * ROOMY, "{most_kept} of {crowded}");
        table.extend((0..16).map(|n| (n, n)));
        let room = table.capacity();
        table.remove(&0);
        table.shrink();
        // A tombstone may take the room of one.
        assert!(table.capacity() + 1 >= room, "{} of {room}", table.capacity());
    }
}
