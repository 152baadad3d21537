//! What tells a request that was sent again from one that comes late: the ChannelSequence of an Open
//! (MS-SMB2 3.3.5.2.10), and the sequence numbers of its locks (MS-SMB2 3.3.5.14).
//!
//! A client counts its ChannelSequence up when it loses a channel, and then sends again what was not
//! answered. Anything of the old sequence that still comes must change nothing any more, and nothing may be
//! changed again while something of the old sequence is under way.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

use parking_lot::Mutex;
use smb_wire::lock;

/// Places for the sequence numbers of locks.
pub const LOCKS: usize = 64;

/// Open.ChannelSequence, and how many requests of it and of those before it are under way.
///
/// One word, since every request on an Open changes it, from any channel's thread.
#[derive(Debug, Default)]
pub struct ChannelSequence(AtomicU64);

/// The same, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    sequence: u16,
    /// OutstandingRequestCount. Credits keep it far from its 24 bits.
    current: u32,
    /// OutstandingPreRequestCount.
    earlier: u32,
}

const COUNT: u64 = 0xff_ffff;

/// Whether a ChannelSequence is an earlier one than another.
// MS-SMB2 3.3.5.2.10
pub fn is_before(sequence: u16, other: u16) -> bool {
    sequence.wrapping_sub(other) > 0x7fff
}

impl State {
    fn unpack(word: u64) -> State {
        let count = |shift: u32| ((word >> shift) & COUNT) as u32;
        State { sequence: word as u16, current: count(16), earlier: count(40) }
    }

    fn pack(self) -> u64 {
        let count = |value: u32| u64::from(value).min(COUNT);
        u64::from(self.sequence) | count(self.current) << 16 | count(self.earlier) << 40
    }

    // MS-SMB2 3.3.5.2.10
    fn begin(mut self, sequence: u16, is_replay: bool) -> (State, bool) {
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
    fn end(mut self, sequence: u16) -> State {
        let count = if sequence == self.sequence { &mut self.current } else { &mut self.earlier };
        *count = count.saturating_sub(1);
        self
    }
}

impl ChannelSequence {
    /// The sequence of the CREATE that made the Open.
    pub fn start(&self, sequence: u16) {
        self.0.store(State { sequence, current: 0, earlier: 0 }.pack(), Ordering::Relaxed);
    }

    /// A request begins. True when it counts until its [`end`](Self::end). False when it is late, or is sent
    /// again while one of an earlier sequence is under way: then it may change nothing.
    pub fn begin(&self, sequence: u16, is_replay: bool) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (state, is_counted) = State::unpack(word).begin(sequence, is_replay);
            // Release and acquire: who counts up sees what those that were counted down have done.
            match self.0.compare_exchange_weak(word, state.pack(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return is_counted,
                Err(other) => word = other,
            }
        }
    }

    /// The latest that a request came under.
    fn latest(&self) -> u16 {
        State::unpack(self.0.load(Ordering::Relaxed)).sequence
    }

    /// A request that was counted under `sequence` is answered, or never will be.
    pub fn end(&self, sequence: u16) {
        let end = |word| Some(State::unpack(word).end(sequence).pack());
        // It cannot fail, since `end` always gives a value.
        let _always = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, end);
    }
}

/// By what a LOCK is known that may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockNumber {
    /// LockSequenceIndex.
    pub index: u32,
    /// LockSequenceNumber.
    pub number: u8,
}

impl LockNumber {
    /// That of a request.
    pub fn of(request: &lock::Request<'_>) -> LockNumber {
        LockNumber { index: request.lock_sequence_index, number: request.lock_sequence_number }
    }

    /// Whether there is a place for LOCKs of its index.
    pub fn has_place(self) -> bool {
        usize::try_from(self.index).is_ok_and(|index| (1..=LOCKS).contains(&index))
    }

    /// What stands in its place when it is done.
    fn mark(self) -> u8 {
        self.number + 1
    }
}

/// Open.LockSequenceArray: which LOCK was the last to succeed in each place. Zero is none, else the number
/// and one, with [`UNTOLD`] while that may still be taken back.
pub struct LockSequences([AtomicU8; LOCKS]);

/// The client has not been told of it.
const UNTOLD: u8 = 0x80;

impl Default for LockSequences {
    fn default() -> Self {
        LockSequences([const { AtomicU8::new(0) }; LOCKS])
    }
}

impl LockSequences {
    /// The place of an index; the first index is 1, and one beyond the last is of no place.
    fn place(&self, lock: LockNumber) -> Option<&AtomicU8> {
        self.0.get(usize::try_from(lock.index).ok()?.checked_sub(1)?)
    }

    /// Whether this LOCK was done before.
    pub fn was_done(&self, lock: LockNumber) -> bool {
        self.place(lock).is_some_and(|place| place.load(Ordering::Acquire) & !UNTOLD == lock.mark())
    }

    /// The same. Another number empties the place.
    // MS-SMB2 3.3.5.14
    pub fn is_done(&self, lock: LockNumber) -> bool {
        let Some(place) = self.place(lock) else { return false };
        let was = place.load(Ordering::Acquire);
        if was & !UNTOLD == lock.mark() {
            return true;
        }
        // Unless it is done on another channel just now.
        let emptied = place.compare_exchange(was, 0, Ordering::AcqRel, Ordering::Acquire);
        emptied.is_err_and(|now| now & !UNTOLD == lock.mark())
    }

    /// What is in all places.
    pub fn all(&self) -> [u8; LOCKS] {
        std::array::from_fn(|at| self.0[at].load(Ordering::Acquire) & !UNTOLD)
    }

    /// Puts back what [`LockSequences::all`] has said.
    pub fn set_all(&self, all: [u8; LOCKS]) {
        for (place, was) in self.0.iter().zip(all) {
            place.store(was, Ordering::Release);
        }
    }

    /// This LOCK is done; `is_told`: its client may be told so at once.
    // MS-SMB2 3.3.5.14.1
    // MS-SMB2 3.3.5.14.2
    pub fn done(&self, lock: LockNumber, is_told: bool) {
        if let Some(place) = self.place(lock) {
            place.store(lock.mark() | if is_told { 0 } else { UNTOLD }, Ordering::Release);
        }
    }

    /// The client is told that this LOCK is done; false when that was taken back before.
    pub fn tell(&self, lock: LockNumber) -> bool {
        let Some(place) = self.place(lock) else { return true };
        let told = |was| (was & !UNTOLD == lock.mark()).then_some(lock.mark());
        place.fetch_update(Ordering::AcqRel, Ordering::Acquire, told).is_ok()
    }

    /// This LOCK is as if it had not been done; false when its client has been told of it, as the answer to a replay.
    pub fn take_back(&self, lock: LockNumber) -> bool {
        let Some(place) = self.place(lock) else { return true };
        place.compare_exchange(lock.mark() | UNTOLD, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// This LOCK is as if it had not been done, whoever was told of it.
    pub fn withdraw(&self, lock: LockNumber) {
        if let Some(place) = self.place(lock) {
            let emptied = |was| (was & !UNTOLD == lock.mark()).then_some(0);
            // It fails where another number is there.
            let _other = place.fetch_update(Ordering::AcqRel, Ordering::Acquire, emptied);
        }
    }
}

/// LOCKs that were refused since their channels' loss. A client that loses a channel sends again what was not answered, under
/// the next ChannelSequence. When that is refused, its first copy may still come, and must not take then what the client
/// was told that it has not.
#[derive(Debug, Default)]
pub struct RefusedLocks(Mutex<Vec<RefusedLock>>);

#[derive(Debug)]
struct RefusedLock {
    lock: LockNumber,
    sequence: u16,
}

impl RefusedLocks {
    /// This LOCK is refused under this ChannelSequence. Of each index the last one counts. False,
    /// and nothing is noted, when `is_done` says that its first copy was done meanwhile.
    pub fn note(&self, lock: LockNumber, sequence: u16, is_done: impl FnOnce() -> bool) -> bool {
        // Nothing is sent again before a channel is lost.
        if sequence == 0 || !lock.has_place() {
            return true;
        }
        let mut refused = self.0.lock();
        // The fence in `is_late` is its other half.
        fence(Ordering::SeqCst);
        if is_done() {
            return false;
        }
        refused.retain(|it| it.lock.index != lock.index);
        refused.push(RefusedLock { lock, sequence });
        true
    }

    /// Whether this LOCK, which came under `sequence`, was refused under a later one. To be asked also
    /// when it is done: its second copy may have been refused meanwhile. `open` is the sequence of the Open.
    pub fn is_late(&self, lock: LockNumber, sequence: u16, open: &ChannelSequence) -> bool {
        if !lock.has_place() {
            return false;
        }
        // The second copy counts the Open's sequence up before it looks whether the first is done, and the first is done before
        // it looks at that: one of them sees the other.
        fence(Ordering::SeqCst);
        if open.latest() == sequence {
            return false;
        }
        let refused = self.0.lock();
        refused.iter().any(|it| it.lock == lock && is_before(sequence, it.sequence))
    }

    /// The ChannelSequence begins anew.
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
                        // A sequence that goes on now and then, on one thread sooner than on another.
                        let number = request / (100 + thread);
                        if sequence.begin(number, request % 3 == 0) {
                            sequence.end(number);
                        }
                    }
                });
            }
        });
        let left = State::unpack(sequence.0.load(Ordering::Relaxed));
        let last = (REQUESTS - 1) / 100;
        assert_eq!(left, State { sequence: last, current: 0, earlier: 0 });
    }
}
