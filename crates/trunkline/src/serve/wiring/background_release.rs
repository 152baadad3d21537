//! Releases files to a slow store in the background, after the reply to a CLOSE.
//!
//! On a local directory the release of a file takes less time than a message to a thread. Besides, the host
//! executes a program only when nobody has it open for writing any more. So [`BackgroundRelease`] measures
//! how long releases take.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use share::DeferredClose;
use volume::Node;

/// The time from which a release counts as slow. Slow ones move to the background.
const LONG: Duration = Duration::from_micros(200);
/// The number of slow releases in a row that is necessary. A single slow one can happen on any busy host.
const LONG_IN_A_ROW: u32 = 8;
/// The number of files that may wait for release. Beyond that, the thread that closes a file releases it.
const WAITING: usize = 256;

/// Releases files in the foreground or the background, according to their latency.
#[derive(Default)]
pub struct BackgroundRelease {
    /// The current number of slow releases in a row.
    long: Arc<AtomicU32>,
    /// The queue of the background thread. None before the thread is needed.
    thread: Mutex<Option<SyncSender<Arc<dyn Node>>>>,
}

impl DeferredClose for BackgroundRelease {
    fn give_back(&self, node: Arc<dyn Node>) {
        let is_slow = self.long.load(Ordering::Relaxed) >= LONG_IN_A_ROW;
        let here = if is_slow { self.hand_over(node) } else { Some(node) };
        if let Some(node) = here {
            give_back(node, &self.long);
        }
    }
}

impl BackgroundRelease {
    /// Passes a node to the thread. Returns it if the queue is full or the thread cannot be started.
    fn hand_over(&self, node: Arc<dyn Node>) -> Option<Arc<dyn Node>> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (sender, receiver) = sync_channel(WAITING);
            let long = Arc::clone(&self.long);
            let began =
                std::thread::Builder::new().name("give-back".into()).spawn(move || run(&receiver, &long));
            if began.is_err() {
                return Some(node);
            }
            *thread = Some(sender);
        }
        match thread.as_ref()?.try_send(node) {
            Ok(()) => None,
            Err(TrySendError::Full(node) | TrySendError::Disconnected(node)) => Some(node),
        }
    }
}

/// Releases nodes from the queue until all senders are gone.
fn run(nodes: &Receiver<Arc<dyn Node>>, long: &AtomicU32) {
    for node in nodes {
        give_back(node, long);
    }
}

fn give_back(node: Arc<dyn Node>, long: &AtomicU32) {
    let begun = Instant::now();
    drop(node);
    let count = if begun.elapsed() >= LONG { long.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
    long.store(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use volume::faulty::{FaultyVolume, PlannedFault, VolumeCall};
    use volume::memory::MemoryVolume;
    use volume::{Name, OpenHow, Volume};

    use super::*;

    const AT_MOST: Duration = Duration::from_secs(20);

    struct Files {
        volume: FaultyVolume,
        root: Arc<dyn Node>,
        name: Name,
        background_release: BackgroundRelease,
    }

    impl Files {
        fn new() -> Files {
            let volume = FaultyVolume::new(Arc::new(MemoryVolume::new(1)));
            let (root, name) = (volume.root().unwrap(), Name::new(b"a").unwrap());
            drop(root.create_file(&name, 0o644, None).unwrap());
            Files { volume, root, name, background_release: BackgroundRelease::default() }
        }

        fn open_and_close(&self) {
            self.background_release.give_back(self.root.lookup(&self.name, OpenHow::Read).unwrap());
        }

        fn given_back(&self) -> u64 {
            self.volume.plan().count(VolumeCall::Release)
        }
    }

    #[test]
    fn what_takes_long_is_done_behind_once_that_is_known() {
        let files = Files::new();
        let before = files.given_back();
        files.open_and_close();
        assert_eq!(files.given_back(), before + 1, "quick, and done by who closed");
        files.volume.plan().slow_down(|| std::thread::sleep(LONG * 2));
        // On a busy host the first release may have been slow too.
        let said = files.background_release.long.load(Ordering::Relaxed);
        let known = before + 1 + u64::from(LONG_IN_A_ROW - said);
        while files.given_back() < known {
            let at = files.given_back();
            files.open_and_close();
            assert_eq!(files.given_back(), at + 1);
        }
        files.volume.plan().add(VolumeCall::Release, 1, PlannedFault::Hold);
        files.open_and_close();
        assert!(files.volume.plan().wait_held(1, AT_MOST), "it is given back, and nobody waited for that");
        files.volume.plan().release();
    }

    #[test]
    fn who_closes_does_it_where_too_many_wait() {
        let files = Files::new();
        files.background_release.long.store(LONG_IN_A_ROW, Ordering::Relaxed);
        files.volume.plan().add(VolumeCall::Release, 1, PlannedFault::Hold);
        files.open_and_close();
        assert!(files.volume.plan().wait_held(1, AT_MOST));
        let before = files.given_back();
        for _ in 0..WAITING {
            files.open_and_close();
        }
        assert_eq!(files.given_back(), before);
        files.open_and_close();
        assert_eq!(files.given_back(), before + 1);
        files.volume.plan().release();
    }
}
