//! Decides which piece of a large file begins next.
//!
//! No piece begins further than a window after the data that is known to be stored, whatever becomes of the
//! copy. So all but the last window of a file from a broken copy is known to be stored.

use std::collections::BTreeSet;

/// The pieces of one file.
#[derive(Debug)]
pub(crate) struct PieceWindow {
    size: u64,
    piece: u64,
    window: u64,
    /// The offset of the next piece.
    next: u64,
    /// The offsets of the pieces in flight.
    under_way: BTreeSet<u64>,
    /// The end of the committed data, if a reply to a write is no commitment.
    kept: Option<u64>,
    /// Whether a commit is pending.
    asking: bool,
}

impl PieceWindow {
    /// The pieces of a file of `size` bytes that is stored up to `start`. With `must_ask` the target may lose
    /// data until it has committed it.
    pub(crate) fn new(start: u64, size: u64, piece: u64, window: u64, must_ask: bool) -> PieceWindow {
        let (under_way, kept) = (BTreeSet::new(), must_ask.then_some(start));
        PieceWindow { size, piece, window, next: start, under_way, kept, asking: false }
    }

    /// The offset of the next piece.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The end of the contiguous finished data.
    fn done(&self) -> u64 {
        self.under_way.first().copied().unwrap_or(self.next)
    }

    fn is_in_window(&self) -> bool {
        let known = self.done().min(self.kept.unwrap_or(u64::MAX));
        self.next + self.piece <= known.saturating_add(self.window)
    }

    /// Whether a further piece may begin, with `depth` in flight at most.
    pub(crate) fn is_open(&self, depth: usize) -> bool {
        self.next < self.size && self.under_way.len() < depth && self.is_in_window()
    }

    /// Skips a hole up to the next data at `data`. Returns the number of skipped bytes.
    pub(crate) fn skip(&mut self, data: u64) -> u64 {
        let whole = data.saturating_sub(self.next) / self.piece * self.piece;
        let skipped = if data >= self.size { self.size - self.next } else { whole };
        self.next += skipped;
        skipped
    }

    /// Begins the next piece. Returns its offset and length, or none if a hole has led to the end or out of
    /// the window.
    pub(crate) fn begin(&mut self) -> Option<(u64, u64)> {
        if self.next >= self.size || !self.is_in_window() {
            return None;
        }
        let (at, length) = (self.next, self.piece.min(self.size - self.next));
        self.under_way.insert(at);
        self.next += length;
        Some((at, length))
    }

    /// Notes that the piece at `at` is done.
    pub(crate) fn end(&mut self, at: u64) {
        self.under_way.remove(&at);
    }

    /// Whether the target should commit its data now. Returns the end of that data.
    pub(crate) fn ask(&mut self) -> Option<u64> {
        let done = self.done();
        let is_due = |kept: u64| done < self.size && done >= kept + self.window / 2;
        let due = !self.asking && self.kept.is_some_and(is_due);
        self.asking |= due;
        due.then_some(done)
    }

    /// Notes a commit of the data up to `up_to`.
    pub(crate) fn keep(&mut self, up_to: u64) {
        (self.kept, self.asking) = (Some(up_to), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_does_not_lead_out_of_the_window() {
        let mut front = PieceWindow::new(0, 1001, 1, 8, false);
        assert_eq!(front.begin(), Some((0, 1)));
        assert!(front.is_open(2));
        // Only a hole follows the first piece, up to a piece at 1000.
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
        let mut front = PieceWindow::new(100, 1000, 1, 8, true);
        for at in 100..108 {
            assert_eq!(front.begin(), Some((at, 1)));
        }
        assert!(front.ask().is_none(), "nothing is done");
        (100..108).for_each(|at| front.end(at));
        assert!(!front.is_open(9), "it is not promised to be kept");
        assert_eq!((front.ask(), front.ask()), (Some(108), None));
        front.keep(108);
        assert!(front.is_open(9) && front.begin() == Some((108, 1)));
        let mut trusted = PieceWindow::new(0, 1000, 1, 8, false);
        for at in 0..1000 {
            assert_eq!((trusted.begin(), trusted.ask()), (Some((at, 1)), None));
            trusted.end(at);
        }
        assert!(!trusted.is_open(9));
    }
}
