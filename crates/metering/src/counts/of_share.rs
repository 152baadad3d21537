//! The counts of one share, or of what is of no share: each thread adds in a block of its own.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::block::Block;
use super::habits::Habit;
use super::record::Recorder;
use super::totals::Totals;
use super::transaction::{Family, Noted};

/// A share whose transactions are counted.
pub trait Counted: Send + Sync {
    /// Tells it from all others of the process; never zero.
    fn number(&self) -> u64;
    /// Its name, as it is now.
    fn name(&self) -> String;
    /// Its transactions in one family.
    fn counts(&self, family: &'static Family) -> Arc<Counts>;
}

/// The transactions of one share, or of no share, in one family of operations.
pub struct Counts {
    /// Tells it from all others of the process.
    number: usize,
    family: &'static Family,
    recorder: OnceLock<Arc<Recorder>>,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    all: Vec<Arc<Block>>,
    /// What threads have counted that have ended. Their blocks go: each is some kilobytes among what the thread had besides.
    ended: Totals,
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counts").field("family", &self.family.name).finish_non_exhaustive()
    }
}

/// Numbers that were given away. Nothing else is common to shares.
static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The blocks in which this thread counts, by the number of their counts.
    static OWN: RefCell<Vec<Option<Loan>>> = const { RefCell::new(Vec::new()) };
}

/// A block in which only this thread counts, as long as it has it.
struct Loan {
    block: Arc<Block>,
    home: Weak<Counts>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            let mut blocks = home.blocks.lock();
            self.block.add_to(&mut blocks.ended);
            blocks.all.retain(|block| !Arc::ptr_eq(block, &self.block));
        }
    }
}

impl Counts {
    /// With nothing counted yet.
    #[must_use]
    pub fn new(family: &'static Family) -> Arc<Counts> {
        let number = usize::try_from(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX);
        Arc::new(Counts { number, family, recorder: OnceLock::new(), blocks: Mutex::default() })
    }

    /// Whose operations it counts.
    #[must_use]
    pub fn family(&self) -> &'static Family {
        self.family
    }

    /// Has connections that come from now on record their requests. The first one counts.
    pub fn set_recorder(&self, recorder: Arc<Recorder>) {
        let _there_is_one = self.recorder.set(recorder);
    }

    /// What has connections record their requests; none: nothing does.
    pub(super) fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recorder.get()
    }

    /// Counts a transaction.
    #[inline]
    pub fn note(self: &Arc<Counts>, noted: &Noted) {
        self.here(|block| block.note(noted));
    }

    /// Notes how long a transaction took on the server, in nanoseconds.
    #[inline]
    pub(super) fn took(self: &Arc<Counts>, operation: u8, authentication: u8, ns: u64) {
        self.here(|block| block.took(operation, authentication, ns));
    }

    /// The same until its answer was sent.
    #[inline]
    pub(super) fn took_with_sending(self: &Arc<Counts>, operation: u8, authentication: u8, ns: u64) {
        self.here(|block| block.took_with_sending(operation, authentication, ns));
    }

    /// What has been counted until now. What is counted meanwhile may be in it or not.
    #[must_use]
    pub fn read(&self) -> Totals {
        // Under the lock, so that what a thread leaves is counted once.
        let blocks = self.blocks.lock();
        let mut totals = blocks.ended.clone();
        blocks.all.iter().for_each(|block| block.add_to(&mut totals));
        totals
    }

    /// What they work on alone, which takes less than [`Counts::read`].
    #[must_use]
    pub fn habits(&self) -> Habit {
        let blocks = self.blocks.lock();
        let mut sum = blocks.ended.habits.clone();
        blocks.all.iter().for_each(|block| block.add_habits_to(&mut sum));
        sum
    }

    /// Hands over the block of this thread. While a thread ends there may be none any more: then nothing is counted.
    #[inline]
    fn here(self: &Arc<Counts>, act: impl FnOnce(&Block)) {
        // Nothing that is called under it counts anything itself.
        let _ended = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            if let Some(Some(loan)) = own.get(self.number) {
                return act(&loan.block);
            }
            act(&self.loan(&mut own).block);
        });
    }

    #[cold]
    fn loan<'o>(self: &Arc<Counts>, own: &'o mut Vec<Option<Loan>>) -> &'o Loan {
        // Shares come and go; what is left of those that are gone goes here.
        for place in own.iter_mut() {
            place.take_if(|loan| loan.home.strong_count() == 0);
        }
        if own.len() <= self.number {
            own.resize_with(self.number + 1, || None);
        }
        let block = Arc::new(Block::new(self.family));
        self.blocks.lock().all.push(Arc::clone(&block));
        own[self.number].insert(Loan { block, home: Arc::downgrade(self) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::transaction::Kind;
    use super::*;
    use crate::limits::ResponseType;

    static FAMILY: Family =
        Family { name: "F", operations: &["One", "Two"], authentications: &["Key", "None"] };

    fn noted(operation: u8, response: ResponseType) -> Noted {
        let kind = if operation == 0 { Kind::Read } else { Kind::Metadata };
        Noted { operation, authentication: 0, kind, response, ingress: 100, egress: 4200, data: 4096 }
    }

    #[test]
    fn threads_that_count_at_once_lose_nothing_and_take_their_blocks_along() {
        let counts = Counts::new(&FAMILY);
        for _ in 0..3 {
            let count = |_| {
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || {
                    (0..1000).for_each(|_| counts.note(&noted(0, ResponseType::Success)));
                })
            };
            let threads: Vec<_> = (0..4).map(count).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
        let totals = counts.read();
        let [one] = &totals.transactions[..] else { panic!("{totals:?}") };
        assert_eq!((one.operation, one.authentication, one.all(), one.succeeded()), (0, 0, 12_000, 12_000));
        assert_eq!((one.ingress, one.egress), (1_200_000, 50_400_000));
        assert_eq!(totals.habits.operations(Kind::Read), 12_000);
        assert_eq!(counts.habits(), totals.habits);
        assert!(counts.blocks.lock().all.is_empty());
    }

    #[test]
    fn counts_that_are_gone_leave_nothing_in_their_threads() {
        let first = Counts::new(&FAMILY);
        first.note(&noted(1, ResponseType::ClientOtherError));
        let block = Arc::downgrade(&first.blocks.lock().all[0]);
        drop(first);
        let second = Counts::new(&FAMILY);
        assert!(block.upgrade().is_some());
        second.note(&noted(1, ResponseType::Success));
        assert!(block.upgrade().is_none());
        assert_eq!(second.read().transactions[0].succeeded(), 1);
    }

    #[test]
    fn an_operation_that_is_not_in_the_table_is_not_counted_and_harms_nobody() {
        let counts = Counts::new(&FAMILY);
        counts.note(&noted(2, ResponseType::Success));
        counts.note(&Noted { authentication: 9, ..noted(0, ResponseType::Success) });
        assert!(counts.read().transactions.is_empty());
    }
}
