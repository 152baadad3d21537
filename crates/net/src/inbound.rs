//! Cuts records out of what was received, and keeps a record that came in parts.
//!
//! Whole records are handed out in place, from the buffer the bytes were received into. Only the head of
//! a record whose rest is still on its way is copied, into a buffer of the record's size; the rest is
//! received straight into that buffer. Nothing is held while no bytes wait. Only a message in fragments, which
//! hardly anybody sends, is joined.

use std::io::IoSliceMut;

use wire::endpoint::{Record, Service};
use wire::limits::{HEAD, MAX_MESSAGE};

use crate::buffers::{Buffers, WINDOW};

/// Bytes in front of each record.
const PREFIX: usize = 4;
/// Messages from this size on are received into a buffer of their own.
const LARGE: usize = 32 * 1024;
/// What is received behind or in place of a large record: only little of the next one has to be copied.
const SIP: usize = 4 * 1024;

/// The beginning of a large record that is shorter came alone: no host makes segments that are so small of more.
const PIECE: usize = 512;

/// So much of a large record is worth waking for, since nothing can be done before it is whole. The host holds no more
/// than this back for us, however long a record is.
const PORTION: usize = 1024 * 1024;

/// A record whose rest is on its way, or that has just become whole.
#[derive(Debug)]
struct Part {
    buffer: Vec<u8>,
    filled: usize,
    len: usize,
    /// Bytes of the whole record: more than `len` while only its head is taken, until somebody vouches for the rest.
    whole: usize,
    /// Whether the message ends with it.
    ends: bool,
    /// Already handed out; the buffer goes back at the next [`Inbound::settle`].
    spent: bool,
}

impl Part {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

/// What a record comes to that came in parts.
enum Ended {
    /// More of it has to come.
    Not,
    /// It is too long, and nobody vouches for it.
    Refused,
    /// It is a message.
    Alone,
    /// It is the last fragment of a message.
    Joined,
    /// There is none, or it is a fragment, and what follows in the window is looked at.
    GoesOn,
}

/// The record that is incomplete now, as far as it has come.
#[derive(Debug, Default)]
struct Incomplete {
    /// When it began (monotonic ns); none when no record is incomplete.
    since: Option<u64>,
    /// Whether its sender was told at once what came of it.
    acknowledged: bool,
}

impl Incomplete {
    /// The record is whole.
    fn end(&mut self) {
        *self = Incomplete::default();
    }

    /// The same when that is so.
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
    /// Passes over bytes that nobody wants. Whether these were the last of them.
    fn pass(&mut self, skip: &mut usize) -> bool {
        let passed = (*skip).min(self.end - self.start);
        self.start += passed;
        *skip -= passed;
        passed > 0 && *skip == 0
    }
}

/// Whether somebody vouches for a long message by its head; none when more of that may come.
fn judge(head: &[u8], grows: bool, vouches: &impl Fn(&[u8]) -> bool) -> Option<bool> {
    match head.get(..HEAD) {
        None if grows => None,
        head => Some(head.is_some_and(vouches)),
    }
}

/// What one connection has received and not yet handed over.
#[derive(Debug)]
pub(crate) struct Inbound {
    part: Option<Part>,
    window: Option<Window>,
    /// A prefix of which fewer than four bytes came.
    head: [u8; PREFIX],
    head_len: usize,
    /// Bytes still to be passed over.
    skip: usize,
    /// The fragments of a message whose last has not come, or that has just been handed out.
    joined: Vec<u8>,
    /// What is joined has been handed out.
    joined_spent: bool,
    /// The longest message that was taken without a look at its head when there was one last.
    most: usize,
    /// The message under way may be longer.
    vouched: bool,
    /// The host had no memory for what is under way.
    starved: bool,
    /// How much to receive behind a record: all, or a sip while the client sends large records.
    reach: usize,
    incomplete: Incomplete,
}

/// What [`Inbound::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// A whole message, without its prefix.
    Message(&'a mut [u8]),
    /// No whole message left.
    Nothing,
    /// Bytes that are not this protocol.
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

    /// Whether bytes wait that have not been looked at since they came.
    pub(crate) fn waiting(&self) -> bool {
        self.window.as_ref().is_some_and(|w| w.start < w.end)
            || self.part.as_ref().is_some_and(|p| p.filled == p.len && !p.spent)
    }

    /// When the record that is incomplete now began (monotonic ns).
    pub(crate) fn incomplete_since(&self) -> Option<u64> {
        self.incomplete.since
    }

    /// How many bytes must have come before it is worth a look: all that is missing of a large record, up to a portion,
    /// else one. Never more than will come.
    pub(crate) fn worth_waking(&self) -> usize {
        match &self.part {
            Some(part) if part.len >= LARGE => (part.len - part.filled).clamp(1, PORTION),
            _ => 1,
        }
    }

    /// Whether the sender of the record that is incomplete now may be waiting until its host hears that the beginning came, and
    /// was not helped yet (RFC 896: a host holds back what fills no segment while anything is unacknowledged). Once for each
    /// record. Of a large record that is so only when it begins with a small piece: whoever writes it at once fills segments.
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

    /// Whether the host had no memory for the message that is under way, so that it cannot go on.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Starts the time of an incomplete record again, after reading was held back on our side.
    pub(crate) fn restart_clock(&mut self, mono_ns: u64) {
        if self.incomplete.since.is_some() {
            self.incomplete.since = Some(mono_ns);
        }
    }

    /// Receives once with `receive`, which is given room and says how much it filled. Only to be called
    /// while nothing is [`Inbound::waiting`] and after [`Inbound::settle`].
    ///
    /// Returns the result and the room there was.
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
                    // What follows its head is received when the head was looked at.
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

    /// Hands out the next whole message, which may have `most` bytes, or more when one is vouched for by its head.
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
            Ended::Alone => return Next::Message(self.part.as_mut().map_or(&mut [], Part::bytes)),
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
                Record::Message(len) => (len, true),
                Record::Fragment(len) => (len, false),
                Record::Skip(len) => {
                    window.start += PREFIX;
                    self.skip = len;
                    self.incomplete.end_if(len == 0);
                    continue;
                }
                Record::Hostile => return Next::Hostile,
            };
            let total = self.joined.len().saturating_add(len);
            if total > self.most && !self.vouched {
                // What was joined does not grow.
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

    /// Looks at the record that came in parts.
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

    /// Puts what is left after [`Next::Nothing`] where it can wait, and gives all other buffers back.
    /// Returns the bytes that had to be copied.
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
                    if let Record::Message(len) | Record::Fragment(len) = record {
                        let ends = matches!(record, Record::Message(_));
                        let doubtful = self.joined.len().saturating_add(len) > self.most && !self.vouched;
                        let whole = len;
                        let len = if doubtful { len.min(HEAD) } else { len };
                        match buffers.part(len) {
                            Some(mut buffer) => {
                                copied = body.len().min(len);
                                buffer[..copied].copy_from_slice(&body[..copied]);
                                let (filled, spent) = (copied, false);
                                self.part = Some(Part { buffer, filled, len, whole, ends, spent });
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

    /// Makes room for the rest of a record whose head was vouched for. Returns the bytes that had to be copied.
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

    /// Four bytes of length, a fragment or a keep-alive; it never accepts.
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
        fn record(&self, prefix: [u8; 4]) -> Record {
            let len = u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]) as usize;
            match prefix[0] {
                0 => Record::Message(len),
                0x40 => Record::Fragment(len),
                0x85 => Record::Skip(len),
                _ => Record::Hostile,
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

    /// What came out of a stream, and how it ended.
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

    /// The same to a client whose messages may have `most` bytes, unless one is vouched for.
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
        // Until then no more than a head is held.
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
            // Times are positions here: its first byte is the sixth.
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
        // The next record is another one, also where it begins behind the end of the last.
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
