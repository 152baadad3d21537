//! Limits the number of files in flight: as many as a long path needs, and no more than that wait in a server
//! for nothing.
//!
//! Waiting in a server is not only useless. Each file that is being created is one more name in its
//! directory, and Samba goes through all names there for each new one. So the limit begins with [`FEW`]. A
//! small file that takes hardly longer than the fastest one shows that the server would take more, and the
//! limit grows as fast as TCP lets a new connection carry more. A file that takes much longer has waited
//! behind others, and the limit shrinks again.

use std::time::Duration;

/// The least limit, unless the user set a lower one.
const FEW: usize = 128;
/// The growth of the limit for a fast file: fourfold within two round trips.
const STEP: usize = 3;
/// In halves of the time of the fastest file: the time up to which a file counts as fast, and from which it
/// counts as slow.
const QUICK: u32 = 3;
const SLOW: u32 = 5;

/// The limit of files in flight.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    size: usize,
    most: usize,
    /// The time of the fastest file.
    least: Option<Duration>,
}

impl ConcurrencyLimit {
    /// A limit of `most` at most.
    pub(crate) fn new(most: usize) -> ConcurrencyLimit {
        ConcurrencyLimit { size: FEW.min(most), most, least: None }
    }

    /// The present limit.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Takes the time of a small file into account.
    pub(crate) fn took(&mut self, time: Duration) {
        let least = self.least.map_or(time, |least| least.min(time));
        self.least = Some(least);
        if time * 2 <= least * QUICK {
            self.size = (self.size + STEP).min(self.most);
        } else if time * 2 > least * SLOW {
            self.size = (self.size - 1).max(FEW.min(self.most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit after each of `count` rounds, in which all files in flight finish at once. A server needs
    /// `each` for a file, one after the other, beside a path of 50 ms.
    fn rounds(crowd: &mut ConcurrencyLimit, each: Duration, count: usize) -> Vec<usize> {
        let round = |_| {
            for number in 1..=crowd.size() as u32 {
                crowd.took(Duration::from_millis(50) + each * number);
            }
            crowd.size()
        };
        (0..count).map(round).collect()
    }

    #[test]
    fn a_quick_server_on_a_long_path_soon_has_all_that_may_be() {
        let mut crowd = ConcurrencyLimit::new(512);
        assert_eq!(rounds(&mut crowd, Duration::from_micros(20), 2), [512, 512]);
    }

    #[test]
    fn a_slow_server_is_not_given_what_would_only_wait_there() {
        let mut crowd = ConcurrencyLimit::new(512);
        let sizes = rounds(&mut crowd, Duration::from_millis(1), 20);
        assert!(sizes.iter().all(|size| (FEW..2 * FEW).contains(size)), "{sizes:?}");
        // A busier server gets less, down to the least limit.
        let sizes = rounds(&mut crowd, Duration::from_millis(10), 20);
        assert_eq!(sizes.last(), Some(&FEW), "{sizes:?}");
        assert_eq!(rounds(&mut crowd, Duration::ZERO, 3).last(), Some(&512));
    }

    #[test]
    fn it_is_never_more_than_was_asked_for() {
        for most in [1, 100, FEW] {
            let mut crowd = ConcurrencyLimit::new(most);
            assert_eq!(rounds(&mut crowd, Duration::ZERO, 2), [most; 2]);
            assert_eq!(rounds(&mut crowd, Duration::from_secs(1), 2), [most; 2]);
        }
    }
}
