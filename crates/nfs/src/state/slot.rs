//! A slot of a session, which executes each request exactly once (RFC 8881 2.10.6).
//!
//! The sequence ID of a request says whether it is new, a retry of the last one, or neither. A retry gets the
//! stored reply, whatever connection it comes on, and is never executed again.

use parking_lot::Mutex;

use nfs_wire::NfsStat;

/// Bytes at the beginning of a request that go into its fingerprint.
const MARKED: usize = 512;
/// The position of the field sa_highest_slotid in SEQUENCE, which comes before everything else. Linux fills
/// in the present value when it sends a request again, not the earlier one.
const HIGHEST_SLOT: std::ops::Range<usize> = 28..32;
/// The slot frees its reply buffer if a reply needed this many bytes or more.
const KEPT_CAPACITY: usize = 4096;

/// The reply to the last request of a slot.
#[derive(Debug, Default)]
enum StoredReply {
    /// There was no request yet.
    #[default]
    Nothing,
    /// The reply is kept: everything after the RPC header.
    Kept,
    /// The reply is not kept: the client did not ask for it, or the request was SEQUENCE alone.
    NotKept,
}

#[derive(Debug, Default)]
struct SlotContents {
    sequence: u32,
    busy: bool,
    answer: StoredReply,
    reply: Vec<u8>,
    mark: u64,
}

/// One slot. It has a cache line of its own, since its neighbours serve requests of other connections on
/// other threads.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Slot(Mutex<SlotContents>);

/// The outcome of [`Slot::admit`].
#[derive(Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The request is new: execute it, then call [`Slot::finish`].
    New,
    /// The request was executed: send this reply again.
    Retry(Vec<u8>),
    /// The request was executed, and its reply was not kept.
    Uncached,
}

impl Slot {
    /// Checks the sequence ID of a request.
    ///
    /// # Errors
    /// NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY; NFS4ERR_DELAY for a retry of a request that still
    /// runs.
    // RFC 8881 2.10.6.1
    pub fn admit(&self, sequence: u32, mark: u64) -> Result<Admitted, NfsStat> {
        let mut state = self.0.lock();
        if sequence == state.sequence.wrapping_add(1) && !state.busy {
            (state.sequence, state.busy, state.mark) = (sequence, true, mark);
            return Ok(Admitted::New);
        }
        if sequence != state.sequence || (matches!(state.answer, StoredReply::Nothing) && !state.busy) {
            return Err(NfsStat::SeqMisordered);
        }
        // RFC 8881 2.10.6.1.3.1
        if state.mark != mark {
            return Err(NfsStat::SeqFalseRetry);
        }
        match state.answer {
            _ if state.busy => Err(NfsStat::Delay),
            StoredReply::Kept => Ok(Admitted::Retry(state.reply.clone())),
            StoredReply::NotKept | StoredReply::Nothing => Ok(Admitted::Uncached),
        }
    }

    /// Ends a new request. The slot keeps `reply` if there is one.
    pub fn finish(&self, reply: Option<&[u8]>) {
        let mut state = self.0.lock();
        state.busy = false;
        state.reply.clear();
        if state.reply.capacity() > KEPT_CAPACITY {
            state.reply = Vec::new();
        }
        state.answer = match reply {
            Some(reply) => {
                state.reply.extend_from_slice(reply);
                StoredReply::Kept
            }
            None => StoredReply::NotKept,
        };
    }

    /// Whether a request runs in the slot.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.0.lock().busy
    }

    /// Whether the slot was ever used.
    #[must_use]
    pub fn was_used(&self) -> bool {
        let state = self.0.lock();
        state.busy || !matches!(state.answer, StoredReply::Nothing)
    }
}

/// A fingerprint. It very likely differs between two different requests.
// RFC 8881 2.10.6.1.3.1
#[must_use]
pub fn mark(request: &[u8], who: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mark = who ^ (request.len() as u64).wrapping_mul(FACTOR);
    for (at, chunk) in request[..request.len().min(MARKED)].chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        if at == HIGHEST_SLOT.start / 8 {
            word[HIGHEST_SLOT.start % 8..].fill(0);
        }
        mark = (mark ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR).rotate_left(29);
    }
    mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_done_once_and_its_retry_gets_the_same_answer() {
        let slot = Slot::default();
        assert_eq!(slot.admit(0, 1), Err(NfsStat::SeqMisordered));
        assert_eq!(slot.admit(2, 1), Err(NfsStat::SeqMisordered));
        assert_eq!(slot.admit(1, 1), Ok(Admitted::New));
        assert_eq!(slot.admit(1, 1), Err(NfsStat::Delay));
        assert_eq!(slot.admit(2, 1), Err(NfsStat::SeqMisordered));
        slot.finish(Some(b"answer"));
        assert_eq!(slot.admit(1, 1), Ok(Admitted::Retry(b"answer".to_vec())));
        assert_eq!(slot.admit(1, 2), Err(NfsStat::SeqFalseRetry));
        assert_eq!(slot.admit(0, 1), Err(NfsStat::SeqMisordered));
        assert_eq!(slot.admit(2, 5), Ok(Admitted::New));
        slot.finish(None);
        assert_eq!(slot.admit(2, 5), Ok(Admitted::Uncached));
    }

    #[test]
    fn numbers_go_round() {
        let slot = Slot(Mutex::new(SlotContents {
            sequence: u32::MAX,
            answer: StoredReply::NotKept,
            ..SlotContents::default()
        }));
        assert_eq!(slot.admit(0, 1), Ok(Admitted::New));
    }

    #[test]
    fn requests_that_differ_anywhere_at_their_beginning_or_in_length_have_other_marks() {
        let request = [5; 600];
        let first = mark(&request, 1);
        assert_ne!(mark(&request, 2), first);
        assert_ne!(mark(&request[..599], 1), first);
        for at in 0..MARKED {
            let mut other = request;
            other[at] = 6;
            assert_eq!(mark(&other, 1) == first, HIGHEST_SLOT.contains(&at), "{at}");
        }
    }
}
