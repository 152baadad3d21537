//! Byte ranges of files that an open has for itself: [`File::lock`] and [`File::unlock`].
//!
//! A LOCK whose answer is lost with its channel is sent again over another by the number it had, and a server that counts
//! (MS-SMB2 3.3.5.14) takes it once. A refusal of the second copy is not the whole answer: a server that does not count may
//! have refused it because of what the first one has taken, and the first one may still come, out of the buffers of the lost
//! channel, when nothing is in its way any more. At a server that counts, a caller hears of a refusal only when neither copy has
//! the range or ever will: [`File::was_taken`].

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smb_wire::lock::{self, LockElement, LockFlags};
use smb_wire::{NtStatus, SmbCommand, WireList};
use tokio::sync::RwLock;

use crate::Error;
use crate::error::Result;
use crate::smb::File;
use crate::smb::link::Part;
use crate::smb::session::call::Answer;

/// Places for sequence numbers of LOCK that a server has for each open.
const LOCK_PLACES: u32 = 64;

/// No byte at all, which is in nobody's way and in whose way nothing is (MS-FSA 2.1.4.10).
const NOTHING: Range = Range { offset: 0, length: 0 };

/// The byte ranges of an open.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// How many LOCK requests were made.
    count: AtomicU32,
    /// Those that it has.
    taken: Mutex<Vec<Range>>,
    /// Held by each LOCK, and alone by who must know what all others have come to.
    changing: RwLock<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    offset: u64,
    length: u64,
}

/// Index and number by which a server knows a LOCK that is sent again.
type Sequence = (u32, u8);

impl Ranges {
    fn taken(&self) -> MutexGuard<'_, Vec<Range>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, range: Range) -> bool {
        self.taken().contains(&range)
    }

    /// Whether it was there to be forgotten.
    fn forget(&self, range: Range) -> bool {
        let mut taken = self.taken();
        let at = taken.iter().position(|it| *it == range);
        at.map(|at| taken.swap_remove(at)).is_some()
    }
}

impl File {
    /// Takes `length` bytes from `offset` on for this open alone, or fails at once.
    ///
    /// # Errors
    /// [`Error::Status`] when somebody else has some of them.
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

    /// Gives a range back just as it was taken.
    ///
    /// # Errors
    /// [`Error::Status`] when it is not held.
    pub async fn unlock(&self, offset: u64, length: u64) -> Result<()> {
        let range = Range { offset, length };
        let _changing = self.ranges.changing.read().await;
        // Forgotten before it is sent: what comes of it may never be heard of.
        let had = self.ranges.forget(range);
        let answer = self.change(range, LockFlags::UNLOCK, self.next_lock()).await?;
        let replayed = answer.replayed;
        match answer.success() {
            Ok(_) => Ok(()),
            // The first copy has given it back, at a server that does not count.
            Err(error) if replayed && is_not_locked(&error) && had => Ok(()),
            Err(error) => {
                // A refusal of the only copy says that it is still held.
                if had && !replayed && !is_not_locked(&error) {
                    self.ranges.taken().push(range);
                }
                Err(error)
            }
        }
    }

    /// Whether the first copy of a LOCK whose second copy was refused had taken the range, which it then has no more. If not,
    /// it takes nothing any more, at a server that counts.
    ///
    /// # Errors
    /// Why that cannot be known.
    async fn was_taken(&self, range: Range, sequence: Sequence) -> Result<bool> {
        let _changing = self.ranges.changing.write().await;
        // Done under the number of the first copy, which a server that counts now takes for this one when it comes.
        let settled = self
            .change(NOTHING, LockFlags::SHARED_LOCK | LockFlags::FAIL_IMMEDIATELY, sequence)
            .await?
            .success();
        // A range that this open has by another LOCK stays: that has refused both copies.
        let given_back = match self.ranges.has(range) {
            true => None,
            false => Some(self.change(range, LockFlags::UNLOCK, self.next_lock()).await?.success()),
        };
        settled?;
        // It is not held where the first copy has come in between. A lock of no byte is in nobody's way.
        self.change(NOTHING, LockFlags::UNLOCK, self.next_lock()).await?;
        match given_back {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(error)) if is_not_locked(&error) => Ok(false),
            Some(Err(error)) => Err(error),
        }
    }

    /// Index and number by which a server knows the next LOCK when it is sent again over another channel, and does it once:
    /// each of the places in turn with the number behind that of its last use. Zeros where that cannot happen.
    // MS-SMB2 3.2.4.19
    fn next_lock(&self) -> Sequence {
        if !self.tree.session.channels_matter() {
            return (0, 0);
        }
        let count = self.ranges.count.fetch_add(1, Ordering::Relaxed);
        (count % LOCK_PLACES + 1, (count / LOCK_PLACES % 16) as u8)
    }

    /// One LOCK request.
    async fn change(&self, range: Range, flags: LockFlags, sequence: Sequence) -> Result<Answer<1>> {
        let Range { offset, length } = range;
        let elements = [LockElement { offset, length, flags }];
        let (file_id, locks) = (self.id(), WireList::Values(&elements));
        let (lock_sequence_index, lock_sequence_number) = sequence;
        let request = lock::Request { lock_sequence_number, lock_sequence_index, file_id, locks };
        let body = |out: &mut Vec<u8>| request.write(out);
        let answer = self.tree.call([Part { command: SmbCommand::Lock, payload: 0, body: &body }]).await?;
        let [reply] = &answer.replies;
        if reply.status().is_success() {
            lock::Response::parse(reply.message())?;
        }
        Ok(answer)
    }
}

/// A range for this open alone, or not at all.
const TAKE: LockFlags = LockFlags::EXCLUSIVE_LOCK.union(LockFlags::FAIL_IMMEDIATELY);

fn is_not_locked(error: &Error) -> bool {
    error.status() == Some(NtStatus::RANGE_NOT_LOCKED)
}
