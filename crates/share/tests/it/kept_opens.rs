//! A share that records its opens and restores all from before a restart at once.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use share::{Identity, OpenRestorer, Restored, Share, Unreadable, UserFailure};
use volume::journal::Journal;
use volume::security::Sid;
use wire::Now;

/// The threads that restore opens at once.
const THREADS: usize = 16;

/// The lookup of the identity of a recorded user; none if there is no such user any more.
pub type UserLookup = fn(&Sid) -> Option<Arc<Identity>>;

/// Collects restored opens.
struct Collector {
    who: UserLookup,
    opens: Sender<Restored>,
}

impl OpenRestorer for Collector {
    fn user(&self, sid: &Sid) -> Result<Arc<Identity>, UserFailure> {
        (self.who)(sid).ok_or(UserFailure::Gone)
    }

    fn take(&self, restored: Restored) {
        self.opens.send(restored).expect("all are awaited");
    }

    fn lose(&self, _client: share::ClientKey, _note: &[u8]) {}
}

/// Makes a new share record its opens in `journal`, and restores those of its `records`.
pub fn keep_opens(
    share: &Share,
    journal: Arc<dyn Journal>,
    records: &[Vec<u8>],
    who: UserLookup,
    now: Now,
) -> Result<Vec<Restored>, Unreadable> {
    share.begin_restoring(journal, records, now)?;
    let (opens, restored) = channel();
    share.restore_for(Arc::new(Collector { who, opens }));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| while share.restore_next() {});
        }
    });
    share.restore_all().expect("the host opens every file");
    let mut restored: Vec<_> = restored.try_iter().collect();
    restored.sort_by_key(|restored| restored.open.id());
    Ok(restored)
}
