//! The counters of one share, or of the requests of no share. Each thread adds in a block of its own.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::access_pattern::AccessPattern;
use super::block::Block;
use super::record::Recorder;
use super::totals::Totals;
use super::transaction::{CompletedTransaction, Family};

/// A share whose transactions are counted.
pub trait CountedShare: Send + Sync {
    /// A number that no other share of the process has. It is never zero.
    fn number(&self) -> u64;
    /// The current name of the share.
    fn name(&self) -> String;
    /// The counters of the share's transactions in one family.
    fn counts(&self, family: &'static Family) -> Arc<Counts>;
}

/// The transactions of one share, or of no share, in one family of operations.
pub struct Counts {
    /// A number that no other counters of the process have.
    number: usize,
    family: &'static Family,
    recorder: OnceLock<Arc<Recorder>>,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    all: Vec<Arc<Block>>,
    /// The sum of the counts of threads that have ended. Their blocks are dropped: each has some kilobytes
    /// beside the thread's other memory.
    ended: Totals,
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counts").field("family", &self.family.name).finish_non_exhaustive()
    }
}

/// The next number to give out. Shares have nothing else in common.
static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The blocks in which this thread counts, by the number of their counters.
    static OWN: RefCell<Vec<Option<BlockGuard>>> = const { RefCell::new(Vec::new()) };
}

/// A block in which only this thread counts, until the thread drops this value.
struct BlockGuard {
    block: Arc<Block>,
    home: Weak<Counts>,
}

impl Drop for BlockGuard {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            let mut blocks = home.blocks.lock();
            self.block.add_to(&mut blocks.ended);
            blocks.all.retain(|block| !Arc::ptr_eq(block, &self.block));
        }
    }
}

impl Counts {
    /// Counters that are all zero.
    #[must_use]
    pub fn new(family: &'static Family) -> Arc<Counts> {
        let number = usize::try_from(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX);
        Arc::new(Counts { number, family, recorder: OnceLock::new(), blocks: Mutex::default() })
    }

    /// The family whose operations are counted.
    #[must_use]
    pub fn family(&self) -> &'static Family {
        self.family
    }

    /// Makes connections that are opened from now on record their requests. The first call wins.
    pub fn set_recorder(&self, recorder: Arc<Recorder>) {
        let _there_is_one = self.recorder.set(recorder);
    }

    /// The recorder for new connections. None: requests are not recorded.
    pub(super) fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recorder.get()
    }

    /// Counts a transaction.
    #[inline]
    pub fn note(self: &Arc<Counts>, noted: &CompletedTransaction) {
        self.here(|block| block.note(noted));
    }

    /// Counts the duration of a transaction on the server, in nanoseconds.
    #[inline]
    pub(super) fn took(self: &Arc<Counts>, operation: u8, authentication: u8, ns: u64) {
        self.here(|block| block.took(operation, authentication, ns));
    }

    /// Counts the duration until the reply was sent.
    #[inline]
    pub(super) fn took_with_sending(self: &Arc<Counts>, operation: u8, authentication: u8, ns: u64) {
        self.here(|block| block.took_with_sending(operation, authentication, ns));
    }

    /// The values counted until now. A concurrent count may be included or not.
    #[must_use]
    pub fn read(&self) -> Totals {
        // Under the lock, so that the counts of a thread that ends are counted once.
        let blocks = self.blocks.lock();
        let mut totals = blocks.ended.clone();
        blocks.all.iter().for_each(|block| block.add_to(&mut totals));
        totals
    }

    /// The access pattern alone, which is cheaper than [`Counts::read`].
    #[must_use]
    pub fn pattern(&self) -> AccessPattern {
        let blocks = self.blocks.lock();
        let mut sum = blocks.ended.pattern.clone();
        blocks.all.iter().for_each(|block| block.add_pattern_to(&mut sum));
        sum
    }

    /// Calls `act` with the block of this thread. While a thread ends, its blocks may be gone; then nothing
    /// is counted.
    #[inline]
    fn here(self: &Arc<Counts>, act: impl FnOnce(&Block)) {
        // No function that is called here counts anything itself.
        let _ended = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            if let Some(Some(loan)) = own.get(self.number) {
                return act(&loan.block);
            }
            act(&self.loan(&mut own).block);
        });
    }

    #[cold]
    fn loan<'o>(self: &Arc<Counts>, own: &'o mut Vec<Option<BlockGuard>>) -> &'o BlockGuard {
        // Shares come and go. This frees the blocks of shares that are gone.
        for slot in own.iter_mut() {
            slot.take_if(|loan| loan.home.strong_count() == 0);
        }
        if own.len() <= self.number {
            own.resize_with(self.number + 1, || None);
        }
        let block = Arc::new(Block::new(self.family));
        self.blocks.lock().all.push(Arc::clone(&block));
        own[self.number].insert(BlockGuard { block, home: Arc::downgrade(self) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::transaction::TransactionKind;
    use super::*;
    use crate::limits::ResponseType;

    static FAMILY: Family =
        Family { name: "F", operations: &["One", "Two"], authentications: &["Key", "None"] };

    fn noted(operation: u8, response: ResponseType) -> CompletedTransaction {
        let kind = if operation == 0 { TransactionKind::Read } else { TransactionKind::Metadata };
        CompletedTransaction {
            operation,
            authentication: 0,
            kind,
            response,
            ingress: 100,
            egress: 4200,
            data: 4096,
        }
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
        assert_eq!(totals.pattern.operations(TransactionKind::Read), 12_000);
        assert_eq!(counts.pattern(), totals.pattern);
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
        counts.note(&CompletedTransaction { authentication: 9, ..noted(0, ResponseType::Success) });
        assert!(counts.read().transactions.is_empty());
    }
}
