//! The events to come, in the order of their times. Events of one time come in the order in which they were
//! pushed.
//!
//! A thousand nodes have a million events ahead. One heap of all of them would not fit into the processor's
//! cache, so only the events of the current slice of time are in a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use crate::clock::{MILLI, TrueTime};

/// The length of a slice of time, in nanoseconds.
const SLICE_NS: u64 = 20 * MILLI;

/// A queue of events.
#[derive(Debug)]
pub struct EventQueue<E> {
    /// The events of the current slice, and of earlier ones.
    near: BinaryHeap<Reverse<QueuedEvent<E>>>,
    current: u64,
    /// The events of later slices, by slice.
    far: BTreeMap<u64, Vec<Reverse<QueuedEvent<E>>>>,
    pushed: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> EventQueue<E> {
        EventQueue { near: BinaryHeap::new(), current: 0, far: BTreeMap::new(), pushed: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event.
    pub fn push(&mut self, at: TrueTime, event: E) {
        self.pushed += 1;
        let queued = Reverse(QueuedEvent { at, number: self.pushed, event });
        match at / SLICE_NS {
            slice if slice > self.current => self.far.entry(slice).or_default().push(queued),
            _ => self.near.push(queued),
        }
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(TrueTime, E)> {
        if self.near.is_empty() {
            let (slice, events) = self.far.pop_first()?;
            self.current = slice;
            self.near = events.into();
        }
        self.near.pop().map(|Reverse(queued)| (queued.at, queued.event))
    }
}

#[derive(Debug)]
struct QueuedEvent<E> {
    at: TrueTime,
    number: u64,
    event: E,
}

impl<E> PartialEq for QueuedEvent<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for QueuedEvent<E> {}

impl<E> PartialOrd for QueuedEvent<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for QueuedEvent<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[test]
fn events_come_by_time_and_then_as_they_were_pushed() {
    let mut queue = EventQueue::default();
    for (event, at) in [5 * SLICE_NS, 3, 5 * SLICE_NS, 3 * SLICE_NS, 3].into_iter().enumerate() {
        queue.push(at, event);
    }
    assert_eq!(queue.pop(), Some((3, 1)));
    queue.push(7, 5);
    let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
    assert_eq!(rest, [4, 5, 3, 0, 2]);
}
