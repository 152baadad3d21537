//! Cuts records out of what was received, and keeps a record that came in parts.
//!
//! Whole records are handed out in place, from the buffer the bytes were received into. Only the head of
//! a record whose rest is still on its way is copied, into a buffer of the record's size; the rest is
//! received straight into that buffer. Nothing is held while no bytes wait.

use std::io::IoSliceMut;

use wire::endpoint::{Record, Service};
use wire::limits::MAX_MESSAGE;

use crate::buffers::{Buffers, WINDOW};

/// Bytes in front of each record.
const PREFIX: usize = 4;
/// Messages from this size on are received into a buffer of their own.
const LARGE: usize = 32 * 1024;
/// What is received behind or in place of a large record: only little of the next one has to be copied.
const SIP: usize = 4 * 1024;

/// A record whose rest is on its way, or that has just become whole.
#[derive(Debug)]
struct Part {
    buffer: Vec<u8>,
    filled: usize,
    len: usize,
    /// Already handed out; the buffer goes back at the next [`Inbound::settle`].
    spent: bool,
}

/// Bytes in a shared receive buffer that are not handed out yet.
#[derive(Debug)]
struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
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
    /// How much to receive behind a record: all, or a sip while the client sends large records.
    reach: usize,
    /// When the record that is incomplete now began (monotonic ns).
    since: Option<u64>,
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
            reach: WINDOW,
            since: None,
        }
    }

    /// Whether bytes wait that have not been looked at since they came.
    pub(crate) fn waiting(&self) -> bool {
        self.window.as_ref().is_some_and(|w| w.start < w.end)
            || self.part.as_ref().is_some_and(|p| p.filled == p.len && !p.spent)
    }

    /// When the record that is incomplete now began (monotonic ns).
    pub(crate) fn incomplete_since(&self) -> Option<u64> {
        self.since
    }

    /// Starts the time of an incomplete record again, after reading was held back on our side.
    pub(crate) fn restart_clock(&mut self, mono_ns: u64) {
        if self.since.is_some() {
            self.since = Some(mono_ns);
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
                let reach = if part.len >= LARGE { SIP } else { self.reach };
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

    /// Hands out the next whole message.
    pub(crate) fn next<S: Service>(&mut self, service: &S) -> Next<'_> {
        if let Some(part) = self.part.as_mut().filter(|part| !part.spent) {
            if part.filled < part.len {
                return Next::Nothing;
            }
            part.spent = true;
            self.since = None;
            return Next::Message(&mut part.buffer[..part.len]);
        }
        let Some(window) = &mut self.window else {
            return Next::Nothing;
        };
        loop {
            let passed = self.skip.min(window.end - window.start);
            window.start += passed;
            self.skip -= passed;
            if passed > 0 && self.skip == 0 {
                self.since = None;
            }
            let bytes = &window.buffer[window.start..window.end];
            let Some(prefix) = bytes.first_chunk::<PREFIX>() else {
                return Next::Nothing;
            };
            match service.record(*prefix) {
                Record::Message(len) if len <= MAX_MESSAGE => {
                    self.reach = if len >= LARGE { SIP } else { WINDOW };
                    if bytes.len() - PREFIX < len {
                        return Next::Nothing;
                    }
                    let from = window.start + PREFIX;
                    window.start = from + len;
                    self.since = None;
                    return Next::Message(&mut window.buffer[from..from + len]);
                }
                Record::Skip(len) => {
                    window.start += PREFIX;
                    self.skip = len;
                    self.since = None;
                }
                Record::Message(_) | Record::Hostile => return Next::Hostile,
            }
        }
    }

    /// Puts what is left after [`Next::Nothing`] where it can wait, and gives all other buffers back.
    /// Returns the bytes that had to be copied.
    pub(crate) fn settle<S: Service>(&mut self, service: &S, buffers: &mut Buffers, mono_ns: u64) -> usize {
        if self.part.as_ref().is_some_and(|part| part.spent)
            && let Some(part) = self.part.take()
        {
            buffers.give_part(part.buffer);
        }
        let mut copied = 0;
        if let Some(window) = self.window.take() {
            let left = &window.buffer[window.start..window.end];
            match left.split_first_chunk::<PREFIX>() {
                Some((prefix, body)) => {
                    if let Record::Message(len) = service.record(*prefix) {
                        let mut buffer = buffers.part(len);
                        copied = body.len().min(len);
                        buffer[..copied].copy_from_slice(&body[..copied]);
                        self.part = Some(Part { buffer, filled: copied, len, spent: false });
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
        if self.part.is_some() || self.head_len > 0 || self.skip > 0 {
            self.since.get_or_insert(mono_ns);
        }
        copied
    }
}
