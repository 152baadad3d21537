//! The holes of a file, as far as a server has told lately. One answer serves for many pieces.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The content of the last answer.
#[derive(Debug, Default)]
pub(super) struct Holes(Mutex<KnownHoles>);

#[derive(Debug)]
struct KnownHoles {
    /// The range of the answer.
    range: Range<u64>,
    /// The holes that begin in it, in order.
    holes: Vec<Range<u64>>,
}

impl Default for KnownHoles {
    fn default() -> KnownHoles {
        KnownHoles { range: 0..0, holes: Vec::new() }
    }
}

impl Holes {
    /// The first byte at or after `offset` that may not be in a hole, or none if that is not known.
    pub(super) fn data_from(&self, offset: u64) -> Option<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.range.contains(&offset) {
            return None;
        }
        let before = known.holes.partition_point(|hole| hole.end <= offset);
        let hole = known.holes.get(before).filter(|hole| hole.start <= offset);
        Some(hole.map_or(offset, |hole| hole.end))
    }

    /// Stores the holes of `range`.
    pub(super) fn learn(&self, range: Range<u64>, holes: Vec<Range<u64>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = KnownHoles { range, holes };
    }
}

/// The rest of `range` between `data`, which is in order. A hole that reaches `end` has no end.
pub(super) fn between(range: &Range<u64>, data: &[Range<u64>], end: u64) -> Vec<Range<u64>> {
    let (mut holes, mut at) = (Vec::new(), range.start);
    for data in data {
        if data.start > at {
            holes.push(at..data.start);
        }
        at = at.max(data.end);
    }
    if at < range.end {
        holes.push(at..if range.end >= end { u64::MAX } else { range.end });
    }
    holes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_known_and_nothing_else() {
        let holes = Holes::default();
        assert_eq!(holes.data_from(0), None);
        holes.learn(10..100, between(&(10..100), &[20..30, 30..40, 60..70], 200));
        let at = [9, 10, 19, 20, 39, 40, 59, 60, 70, 99, 100].map(|at| holes.data_from(at));
        let wanted = [
            None,
            Some(20),
            Some(20),
            Some(20),
            Some(39),
            Some(60),
            Some(60),
            Some(60),
            Some(100),
            Some(100),
            None,
        ];
        assert_eq!(at, wanted);
        holes.learn(100..200, between(&(100..200), &[], 200));
        assert_eq!((holes.data_from(50), holes.data_from(150)), (None, Some(u64::MAX)));
        holes.learn(0..200, between(&(0..200), std::slice::from_ref(&(0..200)), 200));
        assert_eq!((holes.data_from(0), holes.data_from(199)), (Some(0), Some(199)));
    }
}
