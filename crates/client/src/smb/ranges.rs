//! Exclusive byte-range locks of an open: [`File::lock`] and [`File::unlock`].
//!
//! A LOCK whose reply is lost with its channel is sent again over another channel with the same sequence
//! number, and a server that checks the numbers (MS-SMB2 3.3.5.14) carries it out once. A refusal of the
//! second copy is not the whole answer. A server that does not check the numbers may have refused it because
//! the first copy has the lock. And the first copy may still arrive, out of the buffers of the lost channel,
//! when nothing stands against it any more. With a server that checks the numbers, a caller gets a refusal
//! only if neither copy has the range or ever will ([`File::was_taken`]).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smb_wire::lock::{self, LockElement, LockFlags};
use smb_wire::{NtStatus, SmbCommand, WireList};
use tokio::sync::RwLock;

use crate::Error;
use crate::error::Result;
use crate::smb::File;
use crate::smb::link::FrameRequest;
use crate::smb::session::call::FrameReplies;

/// The number of lock sequence entries that a server keeps for each open.
const LOCK_PLACES: u32 = 64;

/// An empty range, which conflicts with no lock (MS-FSA 2.1.4.10).
const NOTHING: Range = Range { offset: 0, length: 0 };

/// The byte-range locks of an open.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// The number of LOCK requests made so far.
    count: AtomicU32,
    /// The ranges that it holds.
    taken: Mutex<Vec<Range>>,
    /// Each LOCK holds it shared. A check that must know the outcome of all others holds it alone.
    changing: RwLock<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    offset: u64,
    length: u64,
}

/// The index and number by which a server recognises a repeated LOCK.
type Sequence = (u32, u8);

impl Ranges {
    fn taken(&self) -> MutexGuard<'_, Vec<Range>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, range: Range) -> bool {
        self.taken().contains(&range)
    }

    /// Removes the range. Returns whether it was there.
    fn forget(&self, range: Range) -> bool {
        let mut taken = self.taken();
        let at = taken.iter().position(|it| *it == range);
        at.map(|at| taken.swap_remove(at)).is_some()
    }
}

impl File {
    /// Locks `length` bytes from `offset` on for this open alone, or fails at once.
    ///
    /// # Errors
    /// [`Error::Status`] when somebody else holds some of them.
    pub async fn lock(&self, offset: u64, length: u64) -> Result<()> {
        let range = Range { offset, length };
        loop {
            let sequence = self.next_lock();
            let refused = {
                let _changing = self.ranges.changing.read().await;
                let answer = self.change(range, TAKE, sequence).await?;
                let replayed = answer.replayed;
                match answer.success() {
                    Ok(_) => {
                        self.ranges.taken().push(range);
                        return Ok(());
                    }
                    Err(refused) if !replayed => return Err(refused),
                    Err(refused) => refused,
                }
            };
            if !self.was_taken(range, sequence).await? {
                return Err(refused);
            }
        }
    }

    /// Unlocks a range exactly as it was locked.
    ///
    /// # Errors
    /// [`Error::Status`] when it is not locked.
    pub async fn unlock(&self, offset: u64, length: u64) -> Result<()> {
        let range = Range { offset, length };
        let _changing = self.ranges.changing.read().await;
        // The range is removed before the request, because the outcome may never be known.
        let had = self.ranges.forget(range);
        let answer = self.change(range, LockFlags::UNLOCK, self.next_lock()).await?;
        let replayed = answer.replayed;
        match answer.success() {
            Ok(_) => Ok(()),
            // The first copy has unlocked it, at a server that does not check the numbers.
            Err(error) if replayed && is_not_locked(&error) && had => Ok(()),
            Err(error) => {
                // A refusal of the only copy means that it is still locked.
                if had && !replayed && !is_not_locked(&error) {
                    self.ranges.taken().push(range);
                }
                Err(error)
            }
        }
    }

    /// Whether the first copy of a LOCK had taken the range, when the second copy was refused. The range is
    /// unlocked then. Otherwise, at a server that checks the numbers, the first copy takes nothing later
    /// either.
    ///
    /// # Errors
    /// The reason why that cannot be known.
    async fn was_taken(&self, range: Range, sequence: Sequence) -> Result<bool> {
        let _changing = self.ranges.changing.write().await;
        // This request has the number of the first copy. A server that checks the numbers takes the first
        // copy for this one when it arrives.
        let settled = self
            .change(NOTHING, LockFlags::SHARED_LOCK | LockFlags::FAIL_IMMEDIATELY, sequence)
            .await?
            .success();
        // A range that this open holds by another LOCK stays. That lock has refused both copies.
        let given_back = match self.ranges.has(range) {
            true => None,
            false => Some(self.change(range, LockFlags::UNLOCK, self.next_lock()).await?.success()),
        };
        settled?;
        // The empty range is not locked if the first copy has arrived in between. A lock of no byte conflicts
        // with nothing.
        self.change(NOTHING, LockFlags::UNLOCK, self.next_lock()).await?;
        match given_back {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(error)) if is_not_locked(&error) => Ok(false),
            Some(Err(error)) => Err(error),
        }
    }

    /// The index and number of the next LOCK, by which a server recognises its repetition over another
    /// channel and carries it out once. The entries are used in turn, each with the number after that of its
    /// last use. They are zeros if a repetition cannot happen.
    // MS-SMB2 3.2.4.19
    fn next_lock(&self) -> Sequence {
        if !self.tree.session.channels_matter() {
            return (0, 0);
        }
        let count = self.ranges.count.fetch_add(1, Ordering::Relaxed);
        (count % LOCK_PLACES + 1, (count / LOCK_PLACES % 16) as u8)
    }

    /// Sends one LOCK request.
    async fn change(&self, range: Range, flags: LockFlags, sequence: Sequence) -> Result<FrameReplies<1>> {
        let Range { offset, length } = range;
        let elements = [LockElement { offset, length, flags }];
        let (file_id, locks) = (self.id(), WireList::Values(&elements));
        let (lock_sequence_index, lock_sequence_number) = sequence;
        let request = lock::Request { lock_sequence_number, lock_sequence_index, file_id, locks };
        let body = |out: &mut Vec<u8>| request.write(out);
        let answer =
            self.tree.call([FrameRequest { command: SmbCommand::Lock, payload: 0, body: &body }]).await?;
        let [reply] = &answer.replies;
        if reply.status().is_success() {
            lock::Response::parse(reply.message())?;
        }
        Ok(answer)
    }
}

/// An exclusive lock, or a failure at once.
const TAKE: LockFlags = LockFlags::EXCLUSIVE_LOCK.union(LockFlags::FAIL_IMMEDIATELY);

fn is_not_locked(error: &Error) -> bool {
    error.status() == Some(NtStatus::RANGE_NOT_LOCKED)
}
