//! Delivery receipts: whether the client's host has acknowledged certain bytes by a certain time.

use std::collections::{BTreeMap, VecDeque};

use tokio::net::TcpStream;
use wire::Frame;
use wire::endpoint::Receipt;

/// A receipt that was asked for, and the end of its bytes in the connection's stream of replies.
#[derive(Debug)]
struct PendingReceipt {
    token: u64,
    end: u64,
}

/// The result of a receipt, for the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiptResult {
    pub(crate) token: u64,
    pub(crate) arrived: bool,
}

/// The open receipts of one connection.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    /// By the time of the result (monotonic ns), then in the order of the requests.
    open: BTreeMap<(u64, u64), PendingReceipt>,
    asked: u64,
}

impl Receipts {
    /// Adds the receipts that a batch asks for. They are about its `frames`, the first of which begins at
    /// `start` in the stream.
    pub(crate) fn ask(&mut self, asked: &mut Vec<Receipt>, frames: &[Frame], start: u64) {
        let (mut counted, mut end) = (0, start);
        for Receipt { token, frames: until, at_ns } in asked.drain(..) {
            let more = frames.get(counted..until).unwrap_or(&[]);
            end += more.iter().map(|frame| frame.len() as u64).sum::<u64>();
            counted = until.max(counted);
            self.open.insert((at_ns, self.asked), PendingReceipt { token, end });
            self.asked += 1;
        }
    }

    /// The time of the next result (monotonic ns).
    pub(crate) fn next(&self) -> Option<u64> {
        self.open.first_key_value().map(|(&(at_ns, _), _)| at_ns)
    }

    /// Completes the receipts that are due. `arrived` is the number of bytes of the stream that have arrived.
    pub(crate) fn answer(&mut self, now_ns: u64, arrived: u64, into: &mut VecDeque<ReceiptResult>) {
        while let Some(first) = self.open.first_entry().filter(|first| first.key().0 <= now_ns) {
            let PendingReceipt { token, end } = first.remove();
            into.push_back(ReceiptResult { token, arrived: end <= arrived });
        }
    }
}

/// Bytes that this host has taken and the client's host has not acknowledged. None if the host does not
/// report it.
pub(crate) fn unacknowledged(stream: &TcpStream) -> Option<u64> {
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) writes one int, and the getter hands it exactly that.
    #[allow(unsafe_code)]
    let bytes = unsafe {
        rustix::ioctl::ioctl(stream, rustix::ioctl::Getter::<{ libc::TIOCOUTQ as _ }, std::ffi::c_int>::new())
    };
    bytes.ok().and_then(|bytes| u64::try_from(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(len: usize) -> Frame {
        let mut frame = Frame::with_capacity(len);
        frame.tail().extend(std::iter::repeat_n(0, len));
        frame
    }

    #[test]
    fn a_question_is_about_the_frames_before_it_and_answered_at_its_time() {
        let mut receipts = Receipts::default();
        let frames = [frame(10), frame(20), frame(30)];
        let mut asked = vec![
            Receipt { token: 3, frames: 0, at_ns: 200 },
            Receipt { token: 1, frames: 1, at_ns: 100 },
            Receipt { token: 2, frames: 1, at_ns: 100 },
            Receipt { token: 4, frames: 3, at_ns: 200 },
        ];
        receipts.ask(&mut asked, &frames, 1000);
        let mut answers = VecDeque::new();
        assert_eq!(receipts.next(), Some(100));
        receipts.answer(99, 5000, &mut answers);
        assert!(answers.is_empty());
        receipts.answer(100, 1010, &mut answers);
        let expected = [1, 2].map(|token| ReceiptResult { token, arrived: true });
        assert_eq!(answers, expected);
        assert_eq!(receipts.next(), Some(200));
        answers.clear();
        receipts.answer(300, 1059, &mut answers);
        let expected = [(3, true), (4, false)].map(|(token, arrived)| ReceiptResult { token, arrived });
        assert_eq!(answers, expected);
        assert_eq!(receipts.next(), None);
    }
}
