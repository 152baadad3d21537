//! Tells repeated requests from late ones, by the ChannelSequence of an Open (MS-SMB2 3.3.5.2.10) and the
//! sequence numbers of its locks (MS-SMB2 3.3.5.14).
//!
//! A client that loses a channel increments its ChannelSequence and sends the unanswered requests again. A
//! request with the old sequence that comes later must not change anything. A repeated request must not
//! change anything while a request with the old sequence is under way.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

use parking_lot::Mutex;
use smb_wire::lock;

/// The size of an Open's lock sequence array.
pub const LOCKS: usize = 64;

/// Open.ChannelSequence with the number of outstanding requests under it and under earlier ones.
///
/// It is one word, since every request on an Open changes it, from any channel's thread.
#[derive(Debug, Default)]
pub struct ChannelSequence(AtomicU64);

/// The fields of a [`ChannelSequence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SequenceCounts {
    sequence: u16,
    /// OutstandingRequestCount. Credits keep it far from its 24 bits.
    current: u32,
    /// OutstandingPreRequestCount.
    earlier: u32,
}

const COUNT: u64 = 0xff_ffff;

/// Whether a ChannelSequence is earlier than another one.
// MS-SMB2 3.3.5.2.10
pub fn is_before(sequence: u16, other: u16) -> bool {
    sequence.wrapping_sub(other) > 0x7fff
}

impl SequenceCounts {
    fn unpack(word: u64) -> SequenceCounts {
        let count = |shift: u32| ((word >> shift) & COUNT) as u32;
        SequenceCounts { sequence: word as u16, current: count(16), earlier: count(40) }
    }

    fn pack(self) -> u64 {
        let count = |value: u32| u64::from(value).min(COUNT);
        u64::from(self.sequence) | count(self.current) << 16 | count(self.earlier) << 40
    }

    // MS-SMB2 3.3.5.2.10
    fn begin(mut self, sequence: u16, is_replay: bool) -> (SequenceCounts, bool) {
        if is_before(sequence, self.sequence) {
            return (self, false);
        }
        if sequence != self.sequence {
            self.earlier += self.current;
            (self.sequence, self.current) = (sequence, 0);
        }
        let is_counted = !is_replay || self.earlier == 0;
        self.current += u32::from(is_counted);
        (self, is_counted)
    }

    // MS-SMB2 3.3.4.1
    fn end(mut self, sequence: u16) -> SequenceCounts {
        let count = if sequence == self.sequence { &mut self.current } else { &mut self.earlier };
        *count = count.saturating_sub(1);
        self
    }
}

impl ChannelSequence {
    /// Sets the sequence of the CREATE that made the Open.
    pub fn start(&self, sequence: u16) {
        self.0.store(SequenceCounts { sequence, current: 0, earlier: 0 }.pack(), Ordering::Relaxed);
    }

    /// Begins a request. Returns true if the request counts until its [`end`](Self::end). Returns false for
    /// a late request, and for a repeated one while a request of an earlier sequence is under way. Such a
    /// request must not change anything.
    pub fn begin(&self, sequence: u16, is_replay: bool) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (state, is_counted) = SequenceCounts::unpack(word).begin(sequence, is_replay);
            // Release and acquire: a thread that increments the count sees the effects of the requests that
            // have ended.
            match self.0.compare_exchange_weak(word, state.pack(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return is_counted,
                Err(other) => word = other,
            }
        }
    }

    /// The sequence of the latest request.
    fn latest(&self) -> u16 {
        SequenceCounts::unpack(self.0.load(Ordering::Relaxed)).sequence
    }

    /// Ends a request that was counted under `sequence`. It was answered or never will be.
    pub fn end(&self, sequence: u16) {
        let end = |word| Some(SequenceCounts::unpack(word).end(sequence).pack());
        // This cannot fail, since `end` always gives a value.
        let _always = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, end);
    }
}

/// The lock sequence of a LOCK that may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockNumber {
    /// LockSequenceIndex.
    pub index: u32,
    /// LockSequenceNumber.
    pub number: u8,
}

impl LockNumber {
    /// The lock sequence of a request.
    pub fn of(request: &lock::Request<'_>) -> LockNumber {
        LockNumber { index: request.lock_sequence_index, number: request.lock_sequence_number }
    }

    /// Whether the array has a place for this index.
    pub fn has_place(self) -> bool {
        usize::try_from(self.index).is_ok_and(|index| (1..=LOCKS).contains(&index))
    }

    /// The value in the array when the LOCK is done.
    fn mark(self) -> u8 {
        self.number + 1
    }
}

/// Open.LockSequenceArray: the last successful LOCK of each index. Zero stands for none. Other values are
/// the number plus one, with [`UNTOLD`] while the LOCK may still be revoked.
pub struct LockSequences([AtomicU8; LOCKS]);

/// The client has not been told of the LOCK.
const UNTOLD: u8 = 0x80;

impl Default for LockSequences {
    fn default() -> Self {
        LockSequences([const { AtomicU8::new(0) }; LOCKS])
    }
}

impl LockSequences {
    /// The place of an index. The first index is 1. An index beyond the last has no place.
    fn slot(&self, lock: LockNumber) -> Option<&AtomicU8> {
        self.0.get(usize::try_from(lock.index).ok()?.checked_sub(1)?)
    }

    /// Whether this LOCK was done before.
    pub fn was_done(&self, lock: LockNumber) -> bool {
        self.slot(lock).is_some_and(|slot| slot.load(Ordering::Acquire) & !UNTOLD == lock.mark())
    }

    /// Whether this LOCK was done before. Another number in its place is cleared.
    // MS-SMB2 3.3.5.14
    pub fn is_done(&self, lock: LockNumber) -> bool {
        let Some(slot) = self.slot(lock) else { return false };
        let was = slot.load(Ordering::Acquire);
        if was & !UNTOLD == lock.mark() {
            return true;
        }
        // Another channel may have just done it.
        let emptied = slot.compare_exchange(was, 0, Ordering::AcqRel, Ordering::Acquire);
        emptied.is_err_and(|now| now & !UNTOLD == lock.mark())
    }

    /// The values of all places.
    pub fn all(&self) -> [u8; LOCKS] {
        std::array::from_fn(|at| self.0[at].load(Ordering::Acquire) & !UNTOLD)
    }

    /// Restores the values from [`LockSequences::all`].
    pub fn set_all(&self, all: [u8; LOCKS]) {
        for (slot, was) in self.0.iter().zip(all) {
            slot.store(was, Ordering::Release);
        }
    }

    /// Marks this LOCK as done. `is_told` says that its client may be told at once.
    // MS-SMB2 3.3.5.14.1
    // MS-SMB2 3.3.5.14.2
    pub fn done(&self, lock: LockNumber, is_told: bool) {
        if let Some(slot) = self.slot(lock) {
            slot.store(lock.mark() | if is_told { 0 } else { UNTOLD }, Ordering::Release);
        }
    }

    /// Marks this LOCK as told to the client. Returns false if it was revoked before.
    pub fn tell(&self, lock: LockNumber) -> bool {
        let Some(slot) = self.slot(lock) else { return true };
        let told = |was| (was & !UNTOLD == lock.mark()).then_some(lock.mark());
        slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, told).is_ok()
    }

    /// Revokes this LOCK, as if it had not been done. Returns false if its client was told of it by the
    /// response to a replay.
    pub fn take_back(&self, lock: LockNumber) -> bool {
        let Some(slot) = self.slot(lock) else { return true };
        slot.compare_exchange(lock.mark() | UNTOLD, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Revokes this LOCK even if its client was told of it.
    pub fn withdraw(&self, lock: LockNumber) {
        if let Some(slot) = self.slot(lock) {
            let emptied = |was| (was & !UNTOLD == lock.mark()).then_some(0);
            // This fails if another number is there.
            let _other = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, emptied);
        }
    }
}

/// LOCKs that were refused since their channels were lost. A client that loses a channel repeats its
/// unanswered requests under the next ChannelSequence. If a repeated LOCK is refused, its first copy may
/// still come. That copy must not take a lock that the client believes it does not have.
#[derive(Debug, Default)]
pub struct RefusedLocks(Mutex<Vec<RefusedLock>>);

#[derive(Debug)]
struct RefusedLock {
    lock: LockNumber,
    sequence: u16,
}

impl RefusedLocks {
    /// Records that this LOCK was refused under this ChannelSequence. Only the last refusal of each index
    /// counts. Returns false and records nothing if `is_done` says that the first copy was done meanwhile.
    pub fn note(&self, lock: LockNumber, sequence: u16, is_done: impl FnOnce() -> bool) -> bool {
        // A client repeats nothing before it loses a channel.
        if sequence == 0 || !lock.has_place() {
            return true;
        }
        let mut refused = self.0.lock();
        // This fence pairs with the one in `is_late`.
        fence(Ordering::SeqCst);
        if is_done() {
            return false;
        }
        refused.retain(|it| it.lock.index != lock.index);
        refused.push(RefusedLock { lock, sequence });
        true
    }

    /// Whether this LOCK, which came under `sequence`, was refused under a later one. Call it also when the
    /// LOCK is done: its second copy may have been refused meanwhile. `open` is the sequence of the Open.
    pub fn is_late(&self, lock: LockNumber, sequence: u16, open: &ChannelSequence) -> bool {
        if !lock.has_place() {
            return false;
        }
        // The second copy first increments the Open's sequence and then checks whether the first is done.
        // The first copy is first done and then checks the sequence. So one of them sees the other.
        fence(Ordering::SeqCst);
        if open.latest() == sequence {
            return false;
        }
        let refused = self.0.lock();
        refused.iter().any(|it| it.lock == lock && is_before(sequence, it.sequence))
    }

    /// Forgets all refusals: the ChannelSequence starts again.
    pub fn forget(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_lock_and_its_refused_replay_one_gives_way() {
        const NUMBERED: LockNumber = LockNumber { index: 7, number: 9 };
        let start = std::sync::Barrier::new(2);
        for _ in 0..5_000 {
            let (open, locks) = (ChannelSequence::default(), LockSequences::default());
            let refused = RefusedLocks::default();
            let (is_kept, is_refused) = std::thread::scope(|scope| {
                let first = scope.spawn(|| {
                    start.wait();
                    locks.done(NUMBERED, true);
                    !refused.is_late(NUMBERED, 0, &open)
                });
                start.wait();
                open.begin(1, true);
                let is_refused = refused.note(NUMBERED, 1, || locks.was_done(NUMBERED));
                (first.join().unwrap(), is_refused)
            });
            assert_ne!(is_kept, is_refused, "the range is held just when the client is told so");
        }
    }

    #[test]
    fn many_threads_count_up_and_down_to_nothing() {
        const THREADS: u16 = 4;
        const REQUESTS: u16 = 20_000;
        let sequence = ChannelSequence::default();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let sequence = &sequence;
                scope.spawn(move || {
                    for request in 0..REQUESTS {
                        // The sequence goes up now and then, on one thread sooner than on another.
                        let number = request / (100 + thread);
                        if sequence.begin(number, request % 3 == 0) {
                            sequence.end(number);
                        }
                    }
                });
            }
        });
        let left = SequenceCounts::unpack(sequence.0.load(Ordering::Relaxed));
        let last = (REQUESTS - 1) / 100;
        assert_eq!(left, SequenceCounts { sequence: last, current: 0, earlier: 0 });
    }
}
