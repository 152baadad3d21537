//! The entries of directories as the volume gave them in one scan. They serve the next page of a listing,
//! another pattern and other clients without another scan.
//!
//! Names, kinds, numbers of nodes and cookies are stored, but no stat: each listing asks for it if it needs
//! it. The entries are valid as long as no name of the directory has changed ([`Pages::names_changed`]), if
//! the volume reports changes by others. A listing that reaches its end is stored as it passes. A listing
//! that breaks off with a full page is not. Only if the next page is asked for, and nothing has changed, the
//! directory is scanned to its end. So a client that wants one page of a large directory waits for no more
//! than that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use volume::DirEntry;

use crate::ranked::{Mutex, Rank};

/// All entries of a directory, in the volume's order.
pub(crate) struct StoredListing {
    /// The generation of the names.
    generation: u64,
    entries: Vec<DirEntry>,
    /// Whether cookies only grow.
    is_sorted: bool,
    /// The number of names in this and all other listings and indexes.
    all: Arc<AtomicUsize>,
}

impl StoredListing {
    pub fn new(generation: u64, entries: Vec<DirEntry>, all: &Arc<AtomicUsize>) -> StoredListing {
        all.fetch_add(entries.len(), Ordering::Relaxed);
        let is_sorted = entries.is_sorted_by_key(|entry| entry.cookie);
        StoredListing { generation, entries, is_sorted, all: Arc::clone(all) }
    }

    /// The entries behind a cookie (0 from the start); none if it is not one of these. If several entries
    /// have it, as on hosts that make cookies of hashes, it returns those behind the first. As on the host,
    /// an entry may then be shown twice, and none is left out.
    pub fn behind(&self, cookie: u64) -> Option<&[DirEntry]> {
        if cookie == 0 {
            return Some(&self.entries);
        }
        let at = match self.is_sorted {
            true => self.entries.partition_point(|entry| entry.cookie < cookie),
            false => self.entries.iter().position(|entry| entry.cookie == cookie)?,
        };
        self.entries.get(at).filter(|entry| entry.cookie == cookie)?;
        self.entries.get(at + 1..)
    }
}

impl Drop for StoredListing {
    fn drop(&mut self) {
        self.all.fetch_sub(self.entries.len(), Ordering::Relaxed);
    }
}

/// The stored listing of one directory.
pub(crate) struct Pages {
    /// A counter of changes of names. A change of a file behind a name does not move it.
    generation: AtomicU64,
    state: Mutex<ListingState>,
}

impl Default for Pages {
    fn default() -> Pages {
        Pages { generation: AtomicU64::new(0), state: Mutex::of_default(Rank::Listings) }
    }
}

#[derive(Default)]
struct ListingState {
    listed: Option<Arc<StoredListing>>,
    /// The generation at which a listing has broken off.
    broke_off_at: Option<u64>,
    /// There were more entries than are stored, and no name was removed since.
    too_many: bool,
}

impl Pages {
    /// The generation. Take it before the volume is asked for entries.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A name was created, which makes no directory smaller.
    pub fn name_added(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.forget();
    }

    /// A name was removed, moved or given to another object, or may have been.
    pub fn names_changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.state.lock().too_many = false;
        self.forget();
    }

    /// All entries, if they are those of this generation.
    pub fn get(&self, generation: u64) -> Option<Arc<StoredListing>> {
        self.state.lock().listed.as_ref().filter(|listed| listed.generation == generation).map(Arc::clone)
    }

    pub fn keep(&self, listed: Arc<StoredListing>) {
        let before = self.state.lock().listed.replace(listed);
        drop(before);
    }

    pub fn break_off(&self, generation: u64) {
        self.state.lock().broke_off_at = Some(generation);
    }

    /// Whether a listing that has broken off can be stored as a whole.
    pub fn broke_off(&self, generation: u64) -> bool {
        let state = self.state.lock();
        state.broke_off_at == Some(generation) && !state.too_many
    }

    pub fn has_too_many(&self) -> bool {
        self.state.lock().too_many
    }

    pub fn note_too_many(&self) {
        self.state.lock().too_many = true;
    }

    /// Drops the listing.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        state.broke_off_at = None;
        let before = state.listed.take();
        drop(state);
        drop(before);
    }
}

#[cfg(test)]
mod tests {
    use volume::Name;

    use super::*;

    #[test]
    fn a_listing_goes_on_behind_any_of_its_cookies_in_whatever_order_they_are() {
        let all = Arc::default();
        for cookies in [[10, 20, 20, 30], [30, 10, 10, 20]] {
            let entry = |&cookie: &u64| DirEntry {
                name: Name::new(cookie.to_string().as_bytes()).unwrap(),
                inode: cookie,
                kind: None,
                cookie,
            };
            let listed = StoredListing::new(1, cookies.iter().map(entry).collect(), &all);
            let behind = |cookie| {
                let behind = listed.behind(cookie)?;
                Some(behind.iter().map(|entry| entry.cookie).collect::<Vec<_>>())
            };
            assert_eq!(behind(0).unwrap(), cookies);
            assert_eq!(behind(cookies[0]).unwrap(), cookies[1..]);
            assert_eq!(behind(cookies[1]).unwrap(), cookies[2..]);
            assert_eq!(behind(cookies[3]).unwrap(), [0; 0]);
            assert_eq!((behind(25), behind(99)), (None, None));
            assert_eq!(all.load(Ordering::Relaxed), 4);
        }
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
