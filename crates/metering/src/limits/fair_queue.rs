//! Fair queueing among the requests that wait at one gate. It is start-time fair queueing, first by client,
//! then by the files and connections of each client.
//!
//! Each waiter has a start tag in virtual time: the time at which the last one was served, or the end of its
//! own last turn if that is later. The lowest tag is next, and a turn lasts as long as its cost. So each
//! waiter gets the same amount, however much it asks for at once, and a new waiter is not behind those that
//! have many requests waiting.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

use crate::{ClientKey, FileNumber};

/// The flow that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// The client.
    pub client: ClientKey,
    /// The connection that it came over.
    pub connection: u64,
    /// The file, if the request transfers data of one.
    pub file: Option<FileNumber>,
}

/// The start tags of the waiters.
#[derive(Debug)]
struct FairOrder<K> {
    /// The virtual time at which the last turn began.
    now: u64,
    next: u64,
    /// By start tag, then by time of arrival.
    order: BTreeSet<(u64, u64, K)>,
    /// The end of the last turn of each key that does not wait now.
    ended: HashMap<K, u64>,
}

impl<K> Default for FairOrder<K> {
    fn default() -> Self {
        FairOrder { now: 0, next: 0, order: BTreeSet::new(), ended: HashMap::new() }
    }
}

impl<K: Copy + Ord + Hash> FairOrder<K> {
    /// A key begins to wait that did not wait before.
    fn join(&mut self, key: K) {
        let ended = self.ended.remove(&key).unwrap_or(0);
        self.insert(ended.max(self.now), key);
    }

    fn insert(&mut self, tag: u64, key: K) {
        self.next += 1;
        self.order.insert((tag, self.next, key));
    }

    /// Takes out the key whose turn it is.
    fn first(&mut self) -> Option<(u64, K)> {
        let (tag, _, key) = self.order.pop_first()?;
        self.now = tag;
        Some((tag, key))
    }

    /// Ends the turn that began at `tag` and cost `cost`. `more`: the key waits for another turn.
    fn served(&mut self, (tag, key): (u64, K), cost: u64, more: bool) {
        let end = tag.saturating_add(cost);
        if more {
            self.insert(end, key);
        } else if self.order.is_empty() {
            // No key is behind another one any more.
            self.ended.clear();
        } else {
            self.ended.retain(|_, ended| *ended > self.now);
            self.ended.insert(key, end);
        }
    }
}

/// The waiting requests of one client.
#[derive(Debug)]
struct ClientQueue<T> {
    turns: FairOrder<Flow>,
    waiting: HashMap<Flow, VecDeque<T>>,
}

/// The waiting requests of all clients.
#[derive(Debug)]
pub struct Queue<T> {
    turns: FairOrder<ClientKey>,
    clients: HashMap<ClientKey, ClientQueue<T>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { turns: FairOrder::default(), clients: HashMap::new() }
    }
}

impl<T> Queue<T> {
    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Adds a request.
    pub fn push(&mut self, flow: Flow, item: T) {
        let turns = &mut self.turns;
        let client = self.clients.entry(flow.client).or_insert_with(|| {
            turns.join(flow.client);
            ClientQueue { turns: FairOrder::default(), waiting: HashMap::new() }
        });
        let waiting = client.waiting.entry(flow).or_default();
        if waiting.is_empty() {
            client.turns.join(flow);
        }
        waiting.push_back(item);
    }

    /// Takes out the next request; `cost` gives its cost.
    pub fn pop(&mut self, cost: impl FnOnce(&T) -> u64) -> Option<T> {
        let client_turn = self.turns.first()?;
        let client = self.clients.get_mut(&client_turn.1)?;
        let turn = client.turns.first()?;
        let waiting = client.waiting.get_mut(&turn.1)?;
        let item = waiting.pop_front()?;
        let more = !waiting.is_empty();
        if !more {
            client.waiting.remove(&turn.1);
        }
        let cost = cost(&item);
        client.turns.served(turn, cost, more);
        let more = !client.waiting.is_empty();
        if !more {
            self.clients.remove(&client_turn.1);
        }
        self.turns.served(client_turn, cost, more);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(client: u128, connection: u64, inode: u64) -> Flow {
        Flow { client: ClientKey(client), connection, file: Some(FileNumber { device: 1, inode }) }
    }

    fn served(queue: &mut Queue<(Flow, u64)>, turns: usize) -> HashMap<Flow, u64> {
        let mut got = HashMap::new();
        for _ in 0..turns {
            let (flow, cost) = queue.pop(|(_, cost)| *cost).expect("somebody waits");
            *got.entry(flow).or_default() += cost;
        }
        got
    }

    #[test]
    fn each_client_gets_the_same_whatever_it_asks_for_at_a_time() {
        let mut queue = Queue::default();
        let (many, few) = (flow(1, 1, 1), flow(2, 2, 1));
        for _ in 0..1000 {
            queue.push(many, (many, 4096));
        }
        for _ in 0..5 {
            queue.push(few, (few, 1 << 20));
        }
        let got = served(&mut queue, 771);
        // Three whole turns of a MiB, and as much in small ones.
        assert_eq!((got[&many], got[&few]), (3 << 20, 3 << 20));
    }

    #[test]
    fn files_and_connections_of_a_client_share_what_it_gets() {
        let mut queue = Queue::default();
        let flows = [flow(1, 1, 1), flow(1, 1, 2), flow(1, 2, 1), flow(2, 9, 1)];
        for _ in 0..100 {
            flows.iter().for_each(|&flow| queue.push(flow, (flow, 1)));
        }
        let got = served(&mut queue, 60);
        assert_eq!(flows.map(|flow| got[&flow]), [10, 10, 10, 30]);
    }

    #[test]
    fn who_comes_anew_is_next_and_has_nothing_saved_up() {
        let mut queue = Queue::default();
        let (old, new) = (flow(1, 1, 1), flow(2, 2, 2));
        for _ in 0..100 {
            queue.push(old, (old, 1));
        }
        served(&mut queue, 50);
        for _ in 0..20 {
            queue.push(new, (new, 1));
        }
        assert!(served(&mut queue, 3)[&new] >= 1);
        let got = served(&mut queue, 20);
        assert!(got[&old].abs_diff(got[&new]) <= 1, "{got:?}");
    }

    #[test]
    fn one_that_waits_with_one_at_a_time_gets_every_second_turn() {
        let mut queue = Queue::default();
        let (deep, shallow) = (flow(1, 1, 1), flow(2, 2, 2));
        for _ in 0..100 {
            queue.push(deep, (deep, 1));
        }
        let mut got = 0;
        queue.push(shallow, (shallow, 1));
        for _ in 0..50 {
            let (who, _) = queue.pop(|(_, cost)| *cost).expect("somebody waits");
            if who == shallow {
                got += 1;
                queue.push(shallow, (shallow, 1));
            }
        }
        assert_eq!(got, 25);
    }
}
