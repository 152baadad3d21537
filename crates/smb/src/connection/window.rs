//! Credits: the message ids that a client may still use (MS-SMB2 3.3.1.1, 3.3.5.2.3).

use crate::limits::MAX_CREDITS;

const BITS: usize = 64;
const WORDS: usize = MAX_CREDITS as usize / BITS;

/// The granted and unused message ids. It is a window that moves up when its lowest id is used.
#[derive(Debug)]
pub struct Window {
    /// Its maximum width, up to [`MAX_CREDITS`].
    most: u16,
    /// The lowest unused id.
    low: u64,
    /// The first id that is not granted.
    end: u64,
    /// One bit for each id from `low` on, at index `id % MAX_CREDITS`. It is set for a used id.
    used: Box<[u64; WORDS]>,
    /// The number of granted and unused ids.
    free: u32,
}

impl Window {
    /// The window of a new connection. It may use message id 0 (MS-SMB2 3.3.1.1).
    #[must_use]
    pub fn new(most: u16) -> Window {
        Window { most: most.clamp(1, MAX_CREDITS), low: 0, end: 1, used: Box::new([0; WORDS]), free: 1 }
    }

    /// Uses `count` ids from `first` on. Returns false if one of them is not granted or was used before.
    pub fn take(&mut self, first: u64, count: u16) -> bool {
        let count = u64::from(count.max(1));
        let Some(end) = first.checked_add(count) else { return false };
        if first < self.low || end > self.end || (first..end).any(|id| self.is_used(id)) {
            return false;
        }
        for id in first..end {
            let (word, bit) = Self::word_and_bit(id);
            self.used[word] |= bit;
        }
        self.free -= count as u32;
        while self.low < self.end && self.is_used(self.low) {
            let (word, bit) = Self::word_and_bit(self.low);
            self.used[word] &= !bit;
            self.low += 1;
        }
        true
    }

    /// Grants up to `wanted` more ids. Returns the number. A client always keeps at least one.
    pub fn grant(&mut self, wanted: u16) -> u16 {
        let room = u64::from(self.most) - (self.end - self.low);
        let least = u16::from(self.free == 0);
        let granted = u64::from(wanted.max(least)).min(room);
        self.end += granted;
        self.free += granted as u32;
        granted as u16
    }

    fn is_used(&self, id: u64) -> bool {
        let (word, bit) = Self::word_and_bit(id);
        self.used[word] & bit != 0
    }

    fn word_and_bit(id: u64) -> (usize, u64) {
        let at = (id % u64::from(MAX_CREDITS)) as usize;
        (at / BITS, 1 << (at % BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_good_once_and_only_when_granted() {
        let mut window = Window::new(MAX_CREDITS);
        assert!(!window.take(1, 1));
        assert!(window.take(0, 1));
        assert!(!window.take(0, 1));
        assert_eq!(window.grant(4), 4);
        assert!(window.take(2, 3));
        assert!(!window.take(2, 1));
        assert!(window.take(1, 1));
        assert!(!window.take(5, 1));
    }

    #[test]
    fn a_client_without_credits_gets_one() {
        let mut window = Window::new(MAX_CREDITS);
        assert!(window.take(0, 1));
        assert_eq!(window.grant(0), 1);
        assert_eq!(window.grant(0), 0);
    }

    #[test]
    fn a_skipped_id_stops_the_window_from_growing() {
        let mut window = Window::new(MAX_CREDITS);
        assert_eq!(window.grant(u16::MAX), MAX_CREDITS - 1);
        for id in 1..u64::from(MAX_CREDITS) {
            assert!(window.take(id, 1));
            assert_eq!(window.grant(1), 0);
        }
        assert!(window.take(0, 1));
        assert_eq!(window.grant(10), 10);
    }

    #[test]
    fn a_window_grants_no_more_than_it_may_and_never_leaves_a_client_without_any() {
        for most in [1, 2, 3, 8] {
            let mut window = Window::new(most);
            assert!(window.take(0, 1));
            assert_eq!(window.grant(512), most);
            assert!(window.take(1, most));
            assert!(!window.take(1 + u64::from(most), 1));
            assert_eq!((window.grant(0), window.grant(512)), (1, most - 1));
        }
    }
}
