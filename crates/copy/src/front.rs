//! Which piece of a large file is begun next, and which are not to be begun yet.
//!
//! None is begun further than a window behind what is known to be there whatever becomes of the copy. So of what a broken
//! copy has left, all but the last window is known to be there.

use std::collections::BTreeSet;

/// The pieces of one file.
#[derive(Debug)]
pub(crate) struct Front {
    size: u64,
    piece: u64,
    window: u64,
    /// Where the next piece begins.
    next: u64,
    /// Where those begin that are under way.
    under_way: BTreeSet<u64>,
    /// Up to where the target has promised to keep what it has, where an answer to a write is no such promise.
    kept: Option<u64>,
    /// Whether the target is being asked for that promise.
    asking: bool,
}

impl Front {
    /// Those of a file of `size` bytes that is there up to `start`. With `must_ask` the target may lose what it was given
    /// until it has promised to keep it.
    pub(crate) fn new(start: u64, size: u64, piece: u64, window: u64, must_ask: bool) -> Front {
        let (under_way, kept) = (BTreeSet::new(), must_ask.then_some(start));
        Front { size, piece, window, next: start, under_way, kept, asking: false }
    }

    /// Where the next piece begins.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Up to where all is done.
    fn done(&self) -> u64 {
        self.under_way.first().copied().unwrap_or(self.next)
    }

    fn is_in_window(&self) -> bool {
        let known = self.done().min(self.kept.unwrap_or(u64::MAX));
        self.next + self.piece <= known.saturating_add(self.window)
    }

    /// Whether a further piece may be begun, with `depth` under way at most.
    pub(crate) fn is_open(&self, depth: usize) -> bool {
        self.next < self.size && self.under_way.len() < depth && self.is_in_window()
    }

    /// Leaves out what is a hole, where the next data is at `data`. Answers how much that is.
    pub(crate) fn skip(&mut self, data: u64) -> u64 {
        let whole = data.saturating_sub(self.next) / self.piece * self.piece;
        let skipped = if data >= self.size { self.size - self.next } else { whole };
        self.next += skipped;
        skipped
    }

    /// Begins the next piece; answers where it begins and its length. None where a hole has led to the end or out of the
    /// window.
    pub(crate) fn begin(&mut self) -> Option<(u64, u64)> {
        if self.next >= self.size || !self.is_in_window() {
            return None;
        }
        let (at, length) = (self.next, self.piece.min(self.size - self.next));
        self.under_way.insert(at);
        self.next += length;
        Some((at, length))
    }

    /// The piece that begins at `at` is done.
    pub(crate) fn end(&mut self, at: u64) {
        self.under_way.remove(&at);
    }

    /// Whether the target is to be asked now to keep what it has. Answers up to where that will be.
    pub(crate) fn ask(&mut self) -> Option<u64> {
        let done = self.done();
        let is_due = |kept: u64| done < self.size && done >= kept + self.window / 2;
        let due = !self.asking && self.kept.is_some_and(is_due);
        self.asking |= due;
        due.then_some(done)
    }

    /// It has promised.
    pub(crate) fn keep(&mut self, up_to: u64) {
        (self.kept, self.asking) = (Some(up_to), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_does_not_lead_out_of_the_window() {
        let mut front = Front::new(0, 1001, 1, 8, false);
        assert_eq!(front.begin(), Some((0, 1)));
        assert!(front.is_open(2));
        // Behind the first piece nothing but a hole, up to one at 1000.
        assert_eq!(front.skip(1000), 999);
        assert_eq!(front.begin(), None, "the first piece is not done");
        assert!(!front.is_open(2));
        front.end(0);
        assert!(front.is_open(2));
        assert_eq!((front.skip(1000), front.begin()), (0, Some((1000, 1))));
        assert!(!front.is_open(2));
    }

    #[test]
    fn what_the_target_may_lose_is_never_further_back_than_the_window() {
        let mut front = Front::new(100, 1000, 1, 8, true);
        for at in 100..108 {
            assert_eq!(front.begin(), Some((at, 1)));
        }
        assert!(front.ask().is_none(), "nothing is done");
        (100..108).for_each(|at| front.end(at));
        assert!(!front.is_open(9), "it is not promised to be kept");
        assert_eq!((front.ask(), front.ask()), (Some(108), None));
        front.keep(108);
        assert!(front.is_open(9) && front.begin() == Some((108, 1)));
        let mut trusted = Front::new(0, 1000, 1, 8, false);
        for at in 0..1000 {
            assert_eq!((trusted.begin(), trusted.ask()), (Some((at, 1)), None));
            trusted.end(at);
        }
        assert!(!trusted.is_open(9));
    }
}
