//! Cuts records out of the received bytes, and keeps a record that arrives in parts.
//!
//! Whole records are handed out in place, from the buffer that they were received into. Only the head of an
//! incomplete record is copied, into a buffer of the record's size; the rest is received straight into that
//! buffer. Nothing is held while no bytes wait. Only a message in fragments is joined, and hardly any client
//! sends one.

use std::io::IoSliceMut;

use wire::endpoint::{RecordPrefix, Service};
use wire::limits::{HEAD, MAX_MESSAGE};

use crate::buffers::{Buffers, WINDOW};

/// Bytes in front of each record.
const PREFIX: usize = 4;
/// Messages of at least this size are received into a buffer of their own.
const LARGE: usize = 32 * 1024;
/// The most bytes to receive after a large record, so that little of the next one has to be copied.
const SIP: usize = 4 * 1024;

/// If less of a large record arrives, the client wrote its beginning separately: a host sends larger segments
/// of one write.
const PIECE: usize = 512;

/// The part of a large record that is worth a wake-up, since nothing can be done before the record is
/// complete. The host holds back no more than this, however long a record is.
const PORTION: usize = 1024 * 1024;

/// A record that is incomplete, or has just been completed.
#[derive(Debug)]
struct PartialRecord {
    buffer: Vec<u8>,
    filled: usize,
    len: usize,
    /// Bytes of the whole record. More than `len` while only its head is received, until the
    /// conversation vouches for the rest.
    whole: usize,
    /// Whether the record ends its message.
    ends: bool,
    /// Whether it was handed out. The buffer goes back at the next [`Inbound::settle`].
    spent: bool,
}

impl PartialRecord {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

/// The outcome of looking at a record that arrives in parts.
enum Ended {
    /// The record is still incomplete.
    Not,
    /// The record is too long, and the conversation does not vouch for it.
    Refused,
    /// The record is a message.
    Alone,
    /// The record is the last fragment of a message.
    Joined,
    /// There is no such record, or it is a fragment. Continue with the window.
    GoesOn,
}

/// The record that is incomplete now.
#[derive(Debug, Default)]
struct Incomplete {
    /// The time of its first byte (monotonic ns). None if no record is incomplete.
    since: Option<u64>,
    /// Whether its first part was acknowledged at once.
    acknowledged: bool,
}

impl Incomplete {
    /// Notes that the record is complete.
    fn end(&mut self) {
        *self = Incomplete::default();
    }

    /// The same, if `is_whole`.
    fn end_if(&mut self, is_whole: bool) {
        if is_whole {
            self.end();
        }
    }
}

/// Bytes in a shared receive buffer that are not handed out yet.
#[derive(Debug)]
struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    /// Skips unwanted bytes. Returns whether these were the last of them.
    fn pass(&mut self, skip: &mut usize) -> bool {
        let passed = (*skip).min(self.end - self.start);
        self.start += passed;
        *skip -= passed;
        passed > 0 && *skip == 0
    }
}

/// Whether the conversation vouches for a long message by its head. None if more of the head may arrive.
fn judge(head: &[u8], grows: bool, vouches: &impl Fn(&[u8]) -> bool) -> Option<bool> {
    match head.get(..HEAD) {
        None if grows => None,
        head => Some(head.is_some_and(vouches)),
    }
}

/// The bytes that one connection has received and not yet handed over.
#[derive(Debug)]
pub(crate) struct Inbound {
    part: Option<PartialRecord>,
    window: Option<Window>,
    /// A prefix of which fewer than four bytes have arrived.
    head: [u8; PREFIX],
    head_len: usize,
    /// Bytes still to be skipped.
    skip: usize,
    /// The fragments of a message that is incomplete, or that has just been handed out.
    joined: Vec<u8>,
    /// Whether the joined fragments were handed out.
    joined_spent: bool,
    /// The bound at the last call: longer messages need the conversation to vouch for their head.
    most: usize,
    /// Whether the current message may be longer.
    vouched: bool,
    /// The host had no memory for the current message.
    starved: bool,
    /// The bytes to receive after a record: as many as fit, or few while the client sends large records.
    reach: usize,
    incomplete: Incomplete,
}

/// The result of [`Inbound::next`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// A whole message, without its prefix.
    Message(&'a mut [u8]),
    /// No complete message is left.
    Nothing,
    /// The bytes are not of this protocol.
    Hostile,
}

impl Inbound {
    pub(crate) fn new() -> Inbound {
        Inbound {
            part: None,
            window: None,
            head: [0; PREFIX],
            head_len: 0,
            skip: 0,
            joined: Vec::new(),
            joined_spent: false,
            most: MAX_MESSAGE,
            vouched: false,
            starved: false,
            reach: WINDOW,
            incomplete: Incomplete::default(),
        }
    }

    /// Whether bytes wait that were not looked at since they arrived.
    pub(crate) fn waiting(&self) -> bool {
        self.window.as_ref().is_some_and(|w| w.start < w.end)
            || self.part.as_ref().is_some_and(|p| p.filled == p.len && !p.spent)
    }

    /// The start of the record that is incomplete now (monotonic ns).
    pub(crate) fn incomplete_since(&self) -> Option<u64> {
        self.incomplete.since
    }

    /// The bytes that must arrive before a look is worthwhile: the missing part of a large record, up to a
    /// portion, otherwise one. Never more than will arrive.
    pub(crate) fn worth_waking(&self) -> usize {
        match &self.part {
            Some(part) if part.len >= LARGE => (part.len - part.filled).clamp(1, PORTION),
            _ => 1,
        }
    }

    /// Whether the sender of the incomplete record may be waiting for an acknowledgement of its beginning,
    /// and got none yet (RFC 896: a host holds back partial segments while data is unacknowledged). True once
    /// for each record. For a large record this requires a small first piece: a client that writes it in one
    /// call fills segments.
    pub(crate) fn wants_acknowledgement(&mut self) -> bool {
        let wants = self.incomplete.since.is_some()
            && !self.incomplete.acknowledged
            && self.part.as_ref().is_none_or(|part| part.whole < LARGE || part.filled < PIECE);
        self.incomplete.acknowledged |= wants;
        wants
    }

    /// Bytes of memory that wait for the rest of a message.
    pub(crate) fn held(&self) -> usize {
        self.part.as_ref().map_or(0, |part| part.buffer.len()) + self.joined.capacity()
    }

    /// Whether the host had no memory for the current message, so that the connection cannot continue.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Restarts the time of an incomplete record, after this side has held back reading.
    pub(crate) fn restart_clock(&mut self, mono_ns: u64) {
        if self.incomplete.since.is_some() {
            self.incomplete.since = Some(mono_ns);
        }
    }

    /// Receives once with `receive`, which gets buffers and returns how many bytes it has filled. Call this
    /// only while nothing is [`Inbound::waiting`] and after [`Inbound::settle`].
    ///
    /// Returns the result of `receive`.
    pub(crate) fn fill<T>(
        &mut self,
        buffers: &mut Buffers,
        receive: impl FnOnce(&mut [IoSliceMut<'_>], usize) -> (usize, T),
    ) -> T {
        let mut buffer = match self.window.take() {
            Some(window) => window.buffer,
            None => buffers.window(),
        };
        let (filled, answer) = match &mut self.part {
            Some(part) => {
                let rest = part.len - part.filled;
                let reach = match part.len {
                    // The rest is received once the head was looked at.
                    len if len < part.whole => 0,
                    LARGE.. => SIP,
                    _ => self.reach,
                };
                let mut room = [
                    IoSliceMut::new(&mut part.buffer[part.filled..part.len]),
                    IoSliceMut::new(&mut buffer[..reach]),
                ];
                let (count, answer) = receive(&mut room, rest + reach);
                part.filled += count.min(rest);
                (count.saturating_sub(rest), answer)
            }
            None => {
                let head = self.head_len;
                buffer[..head].copy_from_slice(&self.head[..head]);
                self.head_len = 0;
                let reach = self.reach.min(WINDOW - head);
                let (count, answer) = receive(&mut [IoSliceMut::new(&mut buffer[head..head + reach])], reach);
                (head + count, answer)
            }
        };
        self.window = Some(Window { buffer, start: 0, end: filled });
        answer
    }

    /// Hands out the next complete message of at most `most` bytes. A longer one needs `vouches` for its
    /// head.
    pub(crate) fn next<S: Service>(
        &mut self,
        service: &S,
        most: usize,
        vouches: impl Fn(&[u8]) -> bool,
    ) -> Next<'_> {
        self.most = most.min(MAX_MESSAGE);
        if std::mem::take(&mut self.joined_spent) {
            self.joined = Vec::new();
        }
        match self.end_part(&vouches) {
            Ended::Not => return Next::Nothing,
            Ended::Refused => return Next::Hostile,
            Ended::Alone => return Next::Message(self.part.as_mut().map_or(&mut [], PartialRecord::bytes)),
            Ended::Joined => return Next::Message(&mut self.joined),
            Ended::GoesOn => {}
        }
        let Some(window) = &mut self.window else {
            return Next::Nothing;
        };
        loop {
            self.incomplete.end_if(window.pass(&mut self.skip));
            let bytes = &window.buffer[window.start..window.end];
            let Some(prefix) = bytes.first_chunk::<PREFIX>() else { return Next::Nothing };
            let (len, ends) = match service.record(*prefix) {
                RecordPrefix::Message(len) => (len, true),
                RecordPrefix::Fragment(len) => (len, false),
                RecordPrefix::Skip(len) => {
                    window.start += PREFIX;
                    self.skip = len;
                    self.incomplete.end_if(len == 0);
                    continue;
                }
                RecordPrefix::Hostile => return Next::Hostile,
            };
            let total = self.joined.len().saturating_add(len);
            if total > self.most && !self.vouched {
                // The joined fragments do not grow.
                let (head, grows) = match self.joined.is_empty() {
                    true => (&bytes[PREFIX..], total <= MAX_MESSAGE),
                    false => (&self.joined[..], false),
                };
                let Some(vouched) = judge(head, grows, &vouches) else { return Next::Nothing };
                self.vouched = vouched;
            }
            if total > if self.vouched { MAX_MESSAGE } else { self.most } {
                return Next::Hostile;
            }
            self.reach = if len >= LARGE { SIP } else { WINDOW };
            if bytes.len() - PREFIX < len {
                return Next::Nothing;
            }
            let from = window.start + PREFIX;
            window.start = from + len;
            self.vouched &= !ends;
            if ends && self.joined.is_empty() {
                self.incomplete.end();
                return Next::Message(&mut window.buffer[from..from + len]);
            }
            self.joined.extend_from_slice(&window.buffer[from..from + len]);
            if ends {
                self.joined_spent = true;
                self.incomplete.end();
                return Next::Message(&mut self.joined);
            }
        }
    }

    /// Looks at the record that arrives in parts.
    fn end_part(&mut self, vouches: &impl Fn(&[u8]) -> bool) -> Ended {
        let Some(part) = self.part.as_mut().filter(|part| !part.spent) else { return Ended::GoesOn };
        if part.filled < part.len {
            return Ended::Not;
        }
        if part.len < part.whole {
            self.vouched = vouches(part.bytes());
            return if self.vouched { Ended::Not } else { Ended::Refused };
        }
        part.spent = true;
        let is_alone = part.ends && self.joined.is_empty();
        if !is_alone {
            self.joined.extend_from_slice(&part.buffer[..part.len]);
        }
        if !part.ends {
            return Ended::GoesOn;
        }
        self.incomplete.end();
        (self.vouched, self.joined_spent) = (false, !is_alone);
        if is_alone { Ended::Alone } else { Ended::Joined }
    }

    /// Moves the rest after [`Next::Nothing`] to where it can wait, and returns all other buffers. Returns
    /// the number of bytes that had to be copied.
    pub(crate) fn settle<S: Service>(&mut self, service: &S, buffers: &mut Buffers, mono_ns: u64) -> usize {
        if self.part.as_ref().is_some_and(|part| part.spent)
            && let Some(part) = self.part.take()
        {
            buffers.give_part(part.buffer);
        }
        if std::mem::take(&mut self.joined_spent) {
            self.joined = Vec::new();
        }
        let mut copied = self.grow(buffers);
        if let Some(window) = self.window.take() {
            let left = &window.buffer[window.start..window.end];
            match left.split_first_chunk::<PREFIX>() {
                Some((prefix, body)) => {
                    let record = service.record(*prefix);
                    if let RecordPrefix::Message(len) | RecordPrefix::Fragment(len) = record {
                        let ends = matches!(record, RecordPrefix::Message(_));
                        let doubtful = self.joined.len().saturating_add(len) > self.most && !self.vouched;
                        let whole = len;
                        let len = if doubtful { len.min(HEAD) } else { len };
                        match buffers.part(len) {
                            Some(mut buffer) => {
                                copied = body.len().min(len);
                                buffer[..copied].copy_from_slice(&body[..copied]);
                                let (filled, spent) = (copied, false);
                                self.part = Some(PartialRecord { buffer, filled, len, whole, ends, spent });
                            }
                            None => self.starved = true,
                        }
                    }
                }
                None if !left.is_empty() => {
                    self.head[..left.len()].copy_from_slice(left);
                    self.head_len = left.len();
                    copied = left.len();
                }
                None => {}
            }
            buffers.give_window(window.buffer);
        }
        if self.part.is_some() || self.head_len > 0 || self.skip > 0 || !self.joined.is_empty() {
            self.incomplete.since.get_or_insert(mono_ns);
        }
        copied
    }

    /// Makes room for the rest of a record whose head was vouched for. Returns the number of bytes that had
    /// to be copied.
    fn grow(&mut self, buffers: &mut Buffers) -> usize {
        let Some(part) = self.part.as_mut().filter(|part| part.len < part.whole && self.vouched) else {
            return 0;
        };
        let Some(buffer) = buffers.part(part.whole) else {
            self.starved = true;
            return 0;
        };
        let head = std::mem::replace(&mut part.buffer, buffer);
        part.buffer[..part.filled].copy_from_slice(&head[..part.filled]);
        part.len = part.whole;
        buffers.give_part(head);
        part.filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use wire::Now;
    use wire::endpoint::{Conversation, Mailbox, Output, Peer};

    /// A protocol with four bytes of length, fragments and keep-alives. It never accepts.
    struct Cutter;

    struct Never;

    impl Conversation for Never {
        type Event = ();
        fn on_message(&mut self, _: &mut [u8], _: Now, _: &mut Output<()>) {}
        fn on_event(&mut self, (): (), _: Now, _: &mut Output<()>) {}
        fn deadline(&self) -> Option<u64> {
            None
        }
        fn on_deadline(&mut self, _: Now, _: &mut Output<()>) {}
        fn on_close(&mut self, _: Now) {}
    }

    impl Service for Cutter {
        type Conversation = Never;
        fn record(&self, prefix: [u8; 4]) -> RecordPrefix {
            let len = u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]) as usize;
            match prefix[0] {
                0 => RecordPrefix::Message(len),
                0x40 => RecordPrefix::Fragment(len),
                0x85 => RecordPrefix::Skip(len),
                _ => RecordPrefix::Hostile,
            }
        }
        fn accept(&self, _: Peer, _: Arc<dyn Mailbox<()>>, _: Now) -> Option<Never> {
            None
        }
    }

    /// Bytes on the wire, and the messages in them.
    fn stream() -> (Vec<u8>, Vec<Vec<u8>>) {
        let (mut bytes, mut messages) = (Vec::new(), Vec::new());
        let lens = [5, 0, 1, 4096, 70_000, 3, LARGE - 1, LARGE, LARGE + 1, 200_000, 2, 0, 131_072, 9];
        for (number, len) in lens.into_iter().enumerate() {
            if number % 3 == 1 {
                bytes.extend([0x85, 0, 0, number as u8]);
                bytes.extend(std::iter::repeat_n(0xff, number));
            }
            let body: Vec<u8> = (0..len).map(|at| (at * 13 + number) as u8).collect();
            // Every other one in fragments, one of them empty.
            let cuts = if number % 2 == 0 { vec![] } else { vec![len / 3, len / 3, len / 2] };
            let mut from = 0;
            for to in cuts {
                bytes.extend((0x4000_0000 | (to - from) as u32).to_be_bytes());
                bytes.extend(&body[from..to]);
                from = to;
            }
            bytes.extend(((len - from) as u32).to_be_bytes());
            bytes.extend(&body[from..]);
            messages.push(body);
        }
        (bytes, messages)
    }

    /// The messages of a stream, and how it ended.
    struct Fed {
        messages: Vec<Vec<u8>>,
        hostile: bool,
        copied: usize,
        inbound: Inbound,
    }

    /// Feeds `bytes` in pieces of at most `step`.
    fn feed(bytes: &[u8], step: usize) -> Fed {
        feed_vouched(bytes, step, MAX_MESSAGE, |_| false)
    }

    /// The same for a client whose messages may have `most` bytes, unless `vouches` accepts a longer one.
    fn feed_vouched(bytes: &[u8], step: usize, most: usize, vouches: fn(&[u8]) -> bool) -> Fed {
        let mut buffers = Buffers::default();
        let mut fed = Fed { messages: Vec::new(), hostile: false, copied: 0, inbound: Inbound::new() };
        let mut at = 0;
        while at < bytes.len() {
            at += fed.inbound.fill(&mut buffers, |slices, room| {
                let piece = &bytes[at..(at + step.min(room)).min(bytes.len())];
                let mut left = piece;
                for slice in slices {
                    let (now, later) = left.split_at(left.len().min(slice.len()));
                    slice[..now.len()].copy_from_slice(now);
                    left = later;
                }
                (piece.len(), piece.len())
            });
            loop {
                match fed.inbound.next(&Cutter, most, vouches) {
                    Next::Message(message) => fed.messages.push(message.to_vec()),
                    Next::Nothing => break,
                    Next::Hostile => {
                        fed.hostile = true;
                        return fed;
                    }
                }
            }
            fed.copied += fed.inbound.settle(&Cutter, &mut buffers, at as u64);
            assert!(fed.inbound.window.is_none() && !fed.inbound.waiting());
        }
        fed
    }

    #[test]
    fn any_cut_gives_the_same_messages_and_holds_nothing_after_them() {
        let (bytes, messages) = stream();
        for step in [1, 2, 3, 4, 5, 7, 100, 4095, 4100, 65_536, WINDOW - 1, WINDOW, usize::MAX / 2] {
            let fed = feed(&bytes, step);
            assert!(fed.messages == messages, "step {step}");
            assert!(fed.inbound.part.is_none() && fed.inbound.incomplete_since().is_none(), "step {step}");
            assert_eq!(fed.inbound.joined.capacity(), 0, "step {step}");
        }
    }

    #[test]
    fn a_long_record_is_taken_only_when_its_head_is_vouched_for() {
        let record = |first: u8, len: usize| {
            let mut bytes = (len as u32).to_be_bytes().to_vec();
            bytes.resize(PREFIX + len, first);
            bytes
        };
        let most = 128 * 1024;
        for step in [1000, HEAD + PREFIX - 1, HEAD + PREFIX, 70_000, usize::MAX / 2] {
            for long in [most + 1, 1 << 20] {
                let bytes = [record(1, 10), record(7, long), record(1, most), record(7, long)].concat();
                let fed = feed_vouched(&bytes, step, most, |head| head.len() == HEAD && head[0] == 7);
                let lens: Vec<usize> = fed.messages.iter().map(Vec::len).collect();
                assert_eq!(lens, [10, long, most, long], "step {step}");
                assert!(!fed.hostile && fed.inbound.held() == 0);
                // Nobody vouches for the third.
                let bytes = [record(7, long), record(1, 10), record(1, long)].concat();
                let fed = feed_vouched(&bytes, step, most, |head| head[0] == 7);
                assert!(fed.hostile && fed.messages.len() == 2, "step {step}");
                assert!(fed.inbound.held() <= 2 * HEAD, "{}", fed.inbound.held());
            }
        }
        // Until then only a head is held.
        let half = feed_vouched(&record(7, 1 << 20)[..HEAD], 100, most, |_| true);
        assert!(half.messages.is_empty() && half.inbound.held() <= 2 * HEAD, "{}", half.inbound.held());
        let parts = [&(0x4000_0000 | 100_u32).to_be_bytes()[..], &[7; 100], &record(7, most)].concat();
        assert!(feed_vouched(&parts, 4096, most, |_| true).hostile, "a fragment that shows too little");
    }

    #[test]
    fn only_the_head_of_a_large_record_is_copied() {
        let mut bytes = Vec::new();
        for _ in 0..8 {
            bytes.extend((1_u32 << 20).to_be_bytes());
            bytes.resize(bytes.len() + (1 << 20), 7);
        }
        let fed = feed(&bytes, usize::MAX / 2);
        assert_eq!(fed.messages.len(), 8);
        assert!(fed.copied <= WINDOW + 7 * SIP, "{}", fed.copied);
    }

    #[test]
    fn an_incomplete_record_keeps_the_time_of_its_beginning() {
        let whole = [0, 0, 0, 1, b'x'];
        for head in [&[0][..], &[0, 0, 0], &[0, 0, 0, 9, 1, 2, 3], &[0x85, 0, 0, 9, 1], &[0x40, 0, 0, 1, 1]] {
            let bytes = [&whole[..], head].concat();
            let fed = feed(&bytes, 1);
            // The times are positions here: its first byte is the sixth.
            assert_eq!(fed.inbound.incomplete_since(), Some(6), "{head:?}");
        }
    }

    #[test]
    fn a_record_is_acknowledged_once_and_a_large_one_only_when_it_begins_with_a_small_piece() {
        let large = LARGE as u32;
        let small = [&100_u32.to_be_bytes()[..], &[7; 50]].concat();
        let of_large = |len: usize| [&large.to_be_bytes()[..], &vec![7; len]].concat();
        for (begun, wants) in [
            (small[..2].to_vec(), true),
            (small[..4].to_vec(), true),
            (small.clone(), true),
            (of_large(0), true),
            (of_large(PIECE - 1), true),
            (of_large(PIECE), false),
            (vec![0x40, 0, 0, 2, 7], true),
            (vec![0x85, 0, 0, 9], true),
            (vec![0, 0, 0, 0], false),
        ] {
            for cut in [1, 3, usize::MAX / 2] {
                let mut fed = feed(&begun, cut);
                assert_eq!(fed.inbound.wants_acknowledgement(), wants, "{} bytes by {cut}", begun.len());
                assert!(!fed.inbound.wants_acknowledgement(), "once");
            }
        }
        // The next record is another one, even if it begins after the end of the last.
        let mut buffers = Buffers::default();
        let mut fed = feed(&small, usize::MAX / 2);
        assert!(fed.inbound.wants_acknowledgement());
        for rest in [&[7; 50][..], &[0, 0], &[0, 9, 1]] {
            fed.inbound.fill(&mut buffers, |slices, _| {
                let (now, later) = rest.split_at(rest.len().min(slices[0].len()));
                slices[0][..now.len()].copy_from_slice(now);
                slices.get_mut(1).iter_mut().for_each(|slice| slice[..later.len()].copy_from_slice(later));
                (rest.len(), ())
            });
            while let Next::Message(message) = fed.inbound.next(&Cutter, MAX_MESSAGE, |_| false) {
                assert_eq!(message, [7; 100]);
            }
            fed.inbound.settle(&Cutter, &mut buffers, 1);
            assert_eq!(fed.inbound.wants_acknowledgement(), rest == [0, 0], "{rest:?}");
        }
    }

    #[test]
    fn hostile_bytes_end_it_after_what_came_before_them() {
        let fed = feed(&[0, 0, 0, 1, b'x', b'G', b'E', b'T', b' '], 100);
        assert!(fed.hostile);
        assert_eq!(fed.messages, [b"x"]);
        assert!(feed(&[0, 0xff, 0xff, 0xff], 1).hostile, "longer than any message may be");
        let half =
            [&(0x4000_0000 | (MAX_MESSAGE / 2 + 1) as u32).to_be_bytes()[..], &vec![7; MAX_MESSAGE / 2 + 1]]
                .concat();
        let fed = feed(&[half.clone(), half].concat(), usize::MAX / 2);
        assert!(fed.hostile && fed.messages.is_empty(), "fragments of more than any message may be");
    }
}
