//! Record marking (RFC 5531 11). A message is one or several fragments. The word before each fragment holds
//! its length, and in the highest bit whether it is the last.

/// The word before a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMark {
    /// Whether the message ends with this fragment.
    pub last: bool,
    /// Bytes of the fragment.
    pub len: usize,
}

/// The size of a [`RecordMark`], in bytes.
pub const MARK: usize = 4;

const LAST: u32 = 0x8000_0000;

impl RecordMark {
    /// Reads the word.
    #[inline]
    #[must_use]
    pub const fn parse(prefix: [u8; MARK]) -> Self {
        let word = u32::from_be_bytes(prefix);
        RecordMark { last: word & LAST != 0, len: (word & !LAST) as usize }
    }

    /// The word for a message of `len` bytes in one fragment.
    #[inline]
    #[must_use]
    pub const fn whole(len: usize) -> [u8; MARK] {
        (len as u32 | LAST).to_be_bytes()
    }
}

/// Assembles messages from fragments, for callers that read a stream themselves.
#[derive(Debug)]
pub struct Assembler {
    message: Vec<u8>,
    max: usize,
}

/// A message is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message of more than {max} bytes")]
pub struct TooLong {
    /// The longest message that is allowed.
    pub max: usize,
}

impl Assembler {
    /// An assembler for messages of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Assembler { message: Vec::new(), max }
    }

    /// Removes one message from the front of `stream`. None if it has not completely arrived; complete
    /// fragments of it are removed already.
    ///
    /// # Errors
    /// [`TooLong`] as soon as a mark announces more than allowed. The stream is unusable then.
    pub fn take(&mut self, stream: &mut Vec<u8>) -> Result<Option<Vec<u8>>, TooLong> {
        let mut at = 0;
        let mut whole = None;
        while let Some(prefix) = stream[at..].first_chunk::<MARK>() {
            let mark = RecordMark::parse(*prefix);
            if mark.len > self.max - self.message.len() {
                return Err(TooLong { max: self.max });
            }
            let Some(fragment) = stream.get(at + MARK..at + MARK + mark.len) else { break };
            self.message.extend_from_slice(fragment);
            at += MARK + mark.len;
            if mark.last {
                whole = Some(std::mem::take(&mut self.message));
                break;
            }
        }
        stream.drain(..at);
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_fragments_is_put_together_however_it_arrives() {
        let sent =
            [&[0, 0, 0, 2][..], b"ab", &[0, 0, 0, 0], &[0x80, 0, 0, 1], b"c", &[0x80, 0, 0, 0]].concat();
        for cut in 0..=sent.len() {
            let mut assembler = Assembler::new(3);
            let mut stream = sent[..cut].to_vec();
            let mut messages = Vec::new();
            for rest in [&[][..], &sent[cut..]] {
                stream.extend_from_slice(rest);
                while let Some(message) = assembler.take(&mut stream).expect("short messages") {
                    messages.push(message);
                }
            }
            assert_eq!(messages, [b"abc".to_vec(), Vec::new()], "{cut}");
        }
    }

    #[test]
    fn a_mark_that_promises_too_much_is_refused_before_anything_is_kept() {
        let mut assembler = Assembler::new(3);
        let mut stream = [&[0, 0, 0, 2][..], b"ab", &[0x80, 0, 0, 2]].concat();
        assert_eq!(assembler.take(&mut stream), Err(TooLong { max: 3 }));
    }
}
