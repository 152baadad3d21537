//! How many files are under way at once: as many as a long path needs, and no more than wait in a server for nothing.
//!
//! What waits in a server is not only of no use. A file that is being made is one more name in its directory, and Samba goes
//! through all names there for each that is new to it. So it begins with [`FEW`]. Each small file that takes hardly longer than
//! the quickest one says that more would be taken as readily, and the number grows as fast as TCP lets a new connection carry
//! more; each that takes much longer has waited behind others, and it shrinks again.

use std::time::Duration;

/// Files that are always let under way, if so many may be.
const FEW: usize = 128;
/// By how many files it grows for one that was quick: fourfold in the two round trips that one takes.
const STEP: usize = 3;
/// How many halves of what the quickest file took one may take and count as quick, and from where on it counts as slow.
const QUICK: u32 = 3;
const SLOW: u32 = 5;

/// How many files may be under way.
#[derive(Debug)]
pub(crate) struct Crowd {
    size: usize,
    most: usize,
    /// What the quickest file took.
    least: Option<Duration>,
}

impl Crowd {
    /// Never more than `most`.
    pub(crate) fn new(most: usize) -> Crowd {
        Crowd { size: FEW.min(most), most, least: None }
    }

    /// How many it may be now.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Takes notice of how long a small file took.
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

    /// After each of `count` rounds, in which all that is under way is done at once, how many it is; a server needs `each` for
    /// a file, one after the other, beside a path of 50 ms.
    fn rounds(crowd: &mut Crowd, each: Duration, count: usize) -> Vec<usize> {
        let round = |_| {
            for place in 1..=crowd.size() as u32 {
                crowd.took(Duration::from_millis(50) + each * place);
            }
            crowd.size()
        };
        (0..count).map(round).collect()
    }

    #[test]
    fn a_quick_server_on_a_long_path_soon_has_all_that_may_be() {
        let mut crowd = Crowd::new(512);
        assert_eq!(rounds(&mut crowd, Duration::from_micros(20), 2), [512, 512]);
    }

    #[test]
    fn a_slow_server_is_not_given_what_would_only_wait_there() {
        let mut crowd = Crowd::new(512);
        let sizes = rounds(&mut crowd, Duration::from_millis(1), 20);
        assert!(sizes.iter().all(|size| (FEW..2 * FEW).contains(size)), "{sizes:?}");
        // When it gets busier it is given less, down to what is always there.
        let sizes = rounds(&mut crowd, Duration::from_millis(10), 20);
        assert_eq!(sizes.last(), Some(&FEW), "{sizes:?}");
        assert_eq!(rounds(&mut crowd, Duration::ZERO, 3).last(), Some(&512));
    }

    #[test]
    fn it_is_never_more_than_was_asked_for() {
        for most in [1, 100, FEW] {
            let mut crowd = Crowd::new(most);
            assert_eq!(rounds(&mut crowd, Duration::ZERO, 2), [most; 2]);
            assert_eq!(rounds(&mut crowd, Duration::from_secs(1), 2), [most; 2]);
        }
    }
}
