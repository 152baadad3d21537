//! One direction of a path: decides whether and when each packet arrives. The time is an argument.
//!
//! A packet passes the queue of its flow, then the queue of the line, then the delay. Each queue sends at
//! its rate and drops packets when it is full, like the queue of a router.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::flow::Flow;
use crate::random::Random;

/// The most bytes under way. A path without rates must not exhaust the host's memory.
const MAX_UNDER_WAY: u64 = 1 << 30;

/// The number of flows from which ended ones are removed.
const MANY_FLOWS: usize = 4096;

/// The properties of one direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The delay from the line to the other end.
    pub(super) delay_ns: u64,
    /// Bits a second of the line.
    pub(super) rate: Option<u64>,
    /// Bits a second of each flow.
    pub(super) flow_rate: Option<u64>,
    /// Part of the packets that are lost, from 0 to 1.
    pub(super) loss: f64,
    /// Bytes above which a packet is lost.
    pub(super) largest: Option<u16>,
    /// The most bytes that wait for the line.
    pub(super) queue: u64,
    /// The most bytes that wait for the rate of one flow.
    pub(super) flow_queue: u64,
}

/// The counts of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) carried: u64,
    pub(super) bytes: u64,
    /// Lost on request.
    pub(super) lost: u64,
    /// Dropped because a queue was full.
    pub(super) dropped: u64,
}

/// A queue that sends at a rate. It stores only the time at which everything in it will have been sent.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    busy_until_ns: u64,
}

impl Queue {
    /// The time at which a packet will have been sent. `None` when the queue is full.
    fn pass(&mut self, now_ns: u64, bytes: usize, rate: u64, limit: u64) -> Option<u64> {
        let begin = self.busy_until_ns.max(now_ns);
        let waiting = u128::from(begin - now_ns) * u128::from(rate) / 8 / 1_000_000_000;
        if waiting > u128::from(limit) {
            return None;
        }
        let sending = bytes as u128 * 8 * 1_000_000_000 / u128::from(rate.max(1));
        self.busy_until_ns = begin.saturating_add(u64::try_from(sending).unwrap_or(u64::MAX));
        Some(self.busy_until_ns)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// The packet leaves the queue of its flow.
    Line,
    /// The packet arrives.
    End,
}

/// A packet, ordered by the time of its next step.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    due_ns: u64,
    /// Keeps packets with the same time in order.
    number: u64,
    next: Next,
    packet: Vec<u8>,
}

/// One direction.
#[derive(Debug)]
pub(super) struct PathDirection {
    shape: Shape,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    bytes_under_way: u64,
    number: u64,
    line: Queue,
    flows: HashMap<Flow, Queue>,
    random: Random,
    counts: Counts,
    /// Buffers of packets that have arrived, for reuse.
    spare: Vec<Vec<u8>>,
}

impl PathDirection {
    pub(super) fn new(shape: Shape, seed: u64) -> PathDirection {
        PathDirection {
            shape,
            under_way: BinaryHeap::new(),
            bytes_under_way: 0,
            number: 0,
            line: Queue::default(),
            flows: HashMap::new(),
            random: Random::new(seed),
            counts: Counts::default(),
            spare: Vec::new(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Sends a packet.
    pub(super) fn offer(&mut self, now_ns: u64, packet: &[u8]) {
        let is_too_large = self.shape.largest.is_some_and(|largest| packet.len() > usize::from(largest));
        if is_too_large || (self.random.below(1 << 53) as f64) < self.shape.loss * (1u64 << 53) as f64 {
            self.counts.lost += 1;
            return;
        }
        if self.bytes_under_way + packet.len() as u64 > MAX_UNDER_WAY {
            self.counts.dropped += 1;
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(packet);
        match self.shape.flow_rate.zip(Flow::of(packet)) {
            Some((rate, flow)) => self.enter_flow(now_ns, flow, rate, copy),
            None => self.enter_line(now_ns, copy),
        }
    }

    fn enter_flow(&mut self, now_ns: u64, flow: Flow, rate: u64, packet: Vec<u8>) {
        if self.flows.len() >= MANY_FLOWS && !self.flows.contains_key(&flow) {
            self.flows.retain(|_, queue| queue.busy_until_ns > now_ns);
        }
        match self.flows.entry(flow).or_default().pass(now_ns, packet.len(), rate, self.shape.flow_queue) {
            Some(sent_ns) => self.push(sent_ns, Next::Line, packet),
            None => self.drop_full(packet),
        }
    }

    fn enter_line(&mut self, now_ns: u64, packet: Vec<u8>) {
        let sent_ns = match self.shape.rate {
            Some(rate) => self.line.pass(now_ns, packet.len(), rate, self.shape.queue),
            None => Some(now_ns),
        };
        match sent_ns {
            Some(sent_ns) => self.push(sent_ns.saturating_add(self.shape.delay_ns), Next::End, packet),
            None => self.drop_full(packet),
        }
    }

    fn push(&mut self, due_ns: u64, next: Next, packet: Vec<u8>) {
        self.bytes_under_way += packet.len() as u64;
        self.number += 1;
        self.under_way.push(Reverse(UnderWay { due_ns, number: self.number, next, packet }));
    }

    fn drop_full(&mut self, packet: Vec<u8>) {
        self.counts.dropped += 1;
        self.reuse(packet);
    }

    /// The time of the next step of a packet. `None` if there is no packet.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.under_way.peek().map(|Reverse(first)| first.due_ns)
    }

    /// A packet that has arrived by now, and its due time. Return its buffer with
    /// [`PathDirection::reuse`].
    pub(super) fn arrive(&mut self, now_ns: u64) -> Option<(u64, Vec<u8>)> {
        while self.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            let Reverse(UnderWay { due_ns, next, packet, .. }) = self.under_way.pop()?;
            self.bytes_under_way -= packet.len() as u64;
            match next {
                Next::Line => self.enter_line(due_ns, packet),
                Next::End => {
                    self.counts.carried += 1;
                    self.counts.bytes += packet.len() as u64;
                    return Some((due_ns, packet));
                }
            }
        }
        None
    }

    /// Takes back the buffer of a packet.
    pub(super) fn reuse(&mut self, packet: Vec<u8>) {
        self.spare.push(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::tests::tcp;
    use super::*;

    const FREE: Shape = Shape {
        delay_ns: 0,
        rate: None,
        flow_rate: None,
        loss: 0.0,
        largest: None,
        queue: 1 << 20,
        flow_queue: 1 << 20,
    };
    const MS: u64 = 1_000_000;

    /// All arrivals, each with its time and its source port.
    fn arrivals(path: &mut PathDirection) -> Vec<(u64, u16)> {
        let mut arrived = Vec::new();
        while let Some(now) = path.due_ns() {
            while let Some((due, packet)) = path.arrive(now) {
                arrived.push((due, u16::from_be_bytes([packet[20], packet[21]])));
                path.reuse(packet);
            }
        }
        arrived
    }

    #[test]
    fn a_delay_holds_each_packet_for_as_long() {
        let mut path = PathDirection::new(Shape { delay_ns: 10 * MS, ..FREE }, 1);
        path.offer(0, &tcp(1, 100));
        path.offer(3 * MS, &tcp(2, 100));
        assert!(path.arrive(10 * MS - 1).is_none());
        assert_eq!(arrivals(&mut path), [(10 * MS, 1), (13 * MS, 2)]);
        assert_eq!(path.counts(), Counts { carried: 2, bytes: 200, lost: 0, dropped: 0 });
    }

    #[test]
    fn what_is_too_large_for_a_black_hole_is_lost() {
        let mut path = PathDirection::new(Shape { largest: Some(1400), ..FREE }, 1);
        path.offer(0, &tcp(1, 1400));
        path.offer(0, &tcp(2, 1401));
        assert_eq!(arrivals(&mut path), [(0, 1)]);
        assert_eq!(path.counts(), Counts { carried: 1, bytes: 1400, lost: 1, dropped: 0 });
    }

    #[test]
    fn a_line_sends_one_packet_after_the_other() {
        // 1,000 bytes take 1 ms.
        let mut path = PathDirection::new(Shape { rate: Some(8_000_000), delay_ns: 5 * MS, ..FREE }, 1);
        (1..=3).for_each(|port| path.offer(0, &tcp(port, 1000)));
        path.offer(20 * MS, &tcp(4, 1000));
        assert_eq!(arrivals(&mut path), [(6 * MS, 1), (7 * MS, 2), (8 * MS, 3), (26 * MS, 4)]);
    }

    #[test]
    fn a_slow_flow_does_not_hold_up_the_others() {
        let mut path =
            PathDirection::new(Shape { flow_rate: Some(8_000_000), rate: Some(80_000_000), ..FREE }, 1);
        for _ in 0..3 {
            path.offer(0, &tcp(1, 1000));
        }
        path.offer(0, &tcp(2, 1000));
        let tenth = MS / 10;
        assert_eq!(
            arrivals(&mut path),
            [(MS + tenth, 1), (MS + 2 * tenth, 2), (2 * MS + tenth, 1), (3 * MS + tenth, 1)]
        );
    }

    #[test]
    fn flows_share_the_line() {
        let room = Shape { queue: 1 << 30, flow_queue: 1 << 30, ..FREE };
        let mut path =
            PathDirection::new(Shape { flow_rate: Some(8_000_000), rate: Some(16_000_000), ..room }, 1);
        for _ in 0..1000 {
            (1..=4).for_each(|port| path.offer(0, &tcp(port, 1000)));
        }
        let arrived = arrivals(&mut path);
        // 4,000 packets of half a millisecond each.
        let last = arrived.last().unwrap().0;
        assert!((2000 * MS..2003 * MS).contains(&last), "{last}");
        let half = |port| arrived[..2000].iter().filter(|(_, from)| *from == port).count();
        assert!(
            (1..=4).all(|port| (495..=505).contains(&half(port))),
            "{:?}",
            [half(1), half(2), half(3), half(4)]
        );
    }

    #[test]
    fn a_full_queue_drops_what_comes() {
        let mut path = PathDirection::new(Shape { rate: Some(8_000_000), queue: 5_000, ..FREE }, 1);
        (0..100).for_each(|port| path.offer(0, &tcp(port, 1000)));
        let arrived: Vec<u16> = arrivals(&mut path).iter().map(|(_, port)| *port).collect();
        // One packet is being sent and five wait.
        assert_eq!(arrived, [0, 1, 2, 3, 4, 5]);
        assert_eq!(path.counts().dropped, 94);
        path.offer(7 * MS, &tcp(9, 1000));
        assert_eq!(arrivals(&mut path), [(8 * MS, 9)]);
    }

    #[test]
    fn as_many_are_lost_as_asked_for_and_the_same_ones_each_time() {
        let lost = |seed| {
            let mut path = PathDirection::new(Shape { loss: 0.01, ..FREE }, seed);
            (0..50_000u16).for_each(|port| path.offer(u64::from(port), &tcp(port, 40)));
            let arrived = arrivals(&mut path);
            assert_eq!(path.counts().lost + arrived.len() as u64, 50_000);
            (path.counts().lost, arrived)
        };
        assert!((400..600).contains(&lost(1).0), "{}", lost(1).0);
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1).1, lost(2).1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut path = PathDirection::new(Shape { delay_ns: u64::MAX / 2, ..FREE }, 1);
        path.bytes_under_way = MAX_UNDER_WAY - 1000;
        path.offer(0, &tcp(1, 1000));
        path.offer(0, &tcp(1, 1000));
        assert_eq!(path.counts().dropped, 1);
    }
}
