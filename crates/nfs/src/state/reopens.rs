//! Which files clients have opened to read before: a READ delegation pays for a file that is opened again, and costs a DELEGRETURN
//! for one that is read once and removed (RFC 8881 10.4 leaves it to the server).
//!
//! One table of fixed size for all clients. Each bucket keeps a part of the hash of the last [`IN_A_BUCKET`] pairs of client and file
//! that came to it; an open is forgotten when others have taken its place. A file is known by its filehandle, so that another one with
//! the same inode number is another file. Two pairs with the same mark cost one delegation more.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::state::filehandle::Handle;

/// Places of a bucket, each of 4 bytes.
const IN_A_BUCKET: usize = 8;
/// Buckets: 131,072 places, 512 KiB.
const BUCKETS: usize = 1 << 14;

type Bucket = [AtomicU32; IN_A_BUCKET];

/// The table.
#[derive(Default)]
pub struct Reopens {
    hasher: RandomState,
    /// Made with the first open.
    buckets: OnceLock<Box<[Bucket]>>,
}

impl Reopens {
    /// Notes that the client with this ID opens the file to read; whether it has done so before.
    pub fn note(&self, client: u64, file: &Handle) -> bool {
        let buckets = self.buckets.get_or_init(|| (0..BUCKETS).map(|_| Bucket::default()).collect());
        let hash = self.hasher.hash_one((client, file));
        // Zero is a place that nobody has come to.
        let mark = (hash >> 32) as u32 | 1;
        let Some(bucket) = buckets.get(hash as usize % BUCKETS) else { return false };
        if bucket.iter().any(|place| place.load(Ordering::Relaxed) == mark) {
            return true;
        }
        // The youngest comes first; what two threads do at once may lose an open, and does no more.
        bucket.iter().fold(mark, |younger, place| place.swap(younger, Ordering::Relaxed));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::filehandle::HandleKey;

    fn file(number: u64) -> Handle {
        HandleKey::new([1; 32]).make(1, &number.to_le_bytes()).unwrap()
    }

    #[test]
    fn the_second_open_of_a_client_is_known() {
        let reopens = Reopens::default();
        assert!(!reopens.note(1, &file(7)) && !reopens.note(2, &file(7)) && !reopens.note(1, &file(8)));
        assert!(reopens.note(1, &file(7)) && reopens.note(2, &file(7)) && reopens.note(1, &file(8)));
    }

    #[test]
    fn a_tree_that_is_read_again_and_again_in_one_order_is_known() {
        let reopens = Reopens::default();
        let count = || (0..40_000).filter(|number| reopens.note(1, &file(*number))).count();
        assert!(count() < 10, "mistaken");
        // Of 40,000 about 150 are in a bucket to which more than eight came.
        assert!(count() > 39_600, "forgotten");
    }
}
