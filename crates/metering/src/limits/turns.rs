//! Whose turn it is among those that wait for the same thing: start-time fair queueing, by clients, and among the
//! requests of a client by files and connections.
//!
//! Each that waits has a start tag in virtual time: where the last one was served, or where its own last turn ended, if
//! that is later. The lowest tag is next, and a turn lasts as long as what it takes. So each gets the same amount,
//! whoever asks for more at a time, and who comes anew is not behind those who have many waiting.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

use crate::{ClientKey, FileNumber};

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// The client.
    pub client: ClientKey,
    /// The connection it came over.
    pub connection: u64,
    /// The file, when it is about the data of one.
    pub file: Option<FileNumber>,
}

/// The tags of those that wait.
#[derive(Debug)]
struct Turns<K> {
    /// Where in virtual time the last turn began.
    now: u64,
    next: u64,
    /// By start tag, then by who came first.
    order: BTreeSet<(u64, u64, K)>,
    /// Where the last turn of those ended that do not wait just now.
    ended: HashMap<K, u64>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Turns { now: 0, next: 0, order: BTreeSet::new(), ended: HashMap::new() }
    }
}

impl<K: Copy + Ord + Hash> Turns<K> {
    /// Somebody begins to wait who did not.
    fn join(&mut self, key: K) {
        let ended = self.ended.remove(&key).unwrap_or(0);
        self.insert(ended.max(self.now), key);
    }

    fn insert(&mut self, tag: u64, key: K) {
        self.next += 1;
        self.order.insert((tag, self.next, key));
    }

    /// Takes out whose turn it is.
    fn first(&mut self) -> Option<(u64, K)> {
        let (tag, _, key) = self.order.pop_first()?;
        self.now = tag;
        Some((tag, key))
    }

    /// The turn that began at `tag` took so much; `more`: it waits for another one.
    fn served(&mut self, (tag, key): (u64, K), cost: u64, more: bool) {
        let end = tag.saturating_add(cost);
        if more {
            self.insert(end, key);
        } else if self.order.is_empty() {
            // Nobody is behind anybody any more.
            self.ended.clear();
        } else {
            self.ended.retain(|_, ended| *ended > self.now);
            self.ended.insert(key, end);
        }
    }
}

/// What one client waits with.
#[derive(Debug)]
struct Client<T> {
    turns: Turns<Flow>,
    waiting: HashMap<Flow, VecDeque<T>>,
}

/// Those that wait.
#[derive(Debug)]
pub struct Queue<T> {
    turns: Turns<ClientKey>,
    clients: HashMap<ClientKey, Client<T>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { turns: Turns::default(), clients: HashMap::new() }
    }
}

impl<T> Queue<T> {
    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Waits.
    pub fn push(&mut self, flow: Flow, item: T) {
        let turns = &mut self.turns;
        let client = self.clients.entry(flow.client).or_insert_with(|| {
            turns.join(flow.client);
            Client { turns: Turns::default(), waiting: HashMap::new() }
        });
        let waiting = client.waiting.entry(flow).or_default();
        if waiting.is_empty() {
            client.turns.join(flow);
        }
        waiting.push_back(item);
    }

    /// Takes out the next one; `cost` says what it takes.
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
