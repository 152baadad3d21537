//! A memory of the files that clients have opened to read. A READ delegation pays off for a file that is
//! opened again. It costs a DELEGRETURN for a file that is read once and removed. RFC 8881 10.4 leaves the
//! decision to the server.
//!
//! There is one table of fixed size for all clients. Each bucket keeps a part of the hash of the last
//! `IN_A_BUCKET` pairs of client and file that were put into it. Newer pairs displace older ones. The
//! filehandle identifies the file, so another file with the same inode number counts as another file. Two
//! pairs with the same mark cost one delegation too many.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::state::filehandle::Handle;

/// Entries of a bucket, 4 bytes each.
const IN_A_BUCKET: usize = 8;
/// Number of buckets: 131,072 entries, 512 KiB.
const BUCKETS: usize = 1 << 14;

type Bucket = [AtomicU32; IN_A_BUCKET];

/// The table.
#[derive(Default)]
pub struct Reopens {
    hasher: RandomState,
    /// Allocated with the first open.
    buckets: OnceLock<Box<[Bucket]>>,
}

impl Reopens {
    /// Notes that the client with this ID opens the file to read. Returns whether it has done so before.
    pub fn note(&self, client: u64, file: &Handle) -> bool {
        let buckets = self.buckets.get_or_init(|| (0..BUCKETS).map(|_| Bucket::default()).collect());
        let hash = self.hasher.hash_one((client, file));
        // Zero is an unused entry.
        let mark = (hash >> 32) as u32 | 1;
        let Some(bucket) = buckets.get(hash as usize % BUCKETS) else { return false };
        if bucket.iter().any(|slot| slot.load(Ordering::Relaxed) == mark) {
            return true;
        }
        // The newest entry comes first. Two threads at once may lose an entry, and do no other harm.
        bucket.iter().fold(mark, |younger, slot| slot.swap(younger, Ordering::Relaxed));
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
        // Of 40,000 pairs, about 150 are in a bucket that got more than eight.
        assert!(count() > 39_600, "forgotten");
    }
}
