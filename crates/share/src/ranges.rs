//! Byte-range locks of one node.
//!
//! The values that callers pass are here. [`table`] holds the ranges of one stream and decides. Two rules
//! share one table, so that a range taken under one conflicts with the other: [`LockRule::Exact`] in `table`,
//! [`LockRule::Merging`] in `merging`.

mod index;
mod merging;
pub(crate) mod table;

/// The owner of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner {
    /// The client, so that all of its ranges can be found.
    pub client: crate::ClientKey,
    /// The owner within it.
    pub owner: u128,
}

/// The rule for the ranges of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockRule {
    /// Each range stands by itself, stacks if allowed, and is released exactly as it was taken.
    Exact,
    /// Ranges of one owner merge and split, as in POSIX.
    Merging,
}

/// Shared or exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RangeKind {
    /// Others may share, nobody writes.
    Shared,
    /// No one else has access.
    Exclusive,
}

/// One requested range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RangeRequest {
    /// First byte.
    pub start: u64,
    /// Length in bytes. A length of 0 is a range of its own between two bytes.
    pub len: u64,
    /// Shared or exclusive.
    pub kind: RangeKind,
}

impl RangeRequest {
    /// Whether the last byte can be numbered.
    // MS-FSA 2.1.5.8
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.len == 0 || self.start.checked_add(self.len - 1).is_some()
    }

    /// The byte behind the last one. It is wide, because a range may end with the number space.
    pub(crate) fn end(&self) -> u128 {
        u128::from(self.start) + u128::from(self.len)
    }

    /// Whether two ranges share a byte, or one of length 0 lies strictly inside the other.
    // MS-FSA 2.1.4.10
    pub(crate) fn overlaps(&self, other: &RangeRequest) -> bool {
        let at_nothing = |r: &RangeRequest| r.start == 0 && r.len == 0;
        !at_nothing(self)
            && !at_nothing(other)
            && u128::from(self.start) < other.end()
            && u128::from(other.start) < self.end()
    }
}
