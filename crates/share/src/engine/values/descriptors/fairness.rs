//! The number of descriptors of each client, while it is needed.
//!
//! The volume reports when descriptors are scarce. By then files that are not used have been closed already.
//! Until then nothing is counted. From then on the holders of open files are counted once a second, in all
//! shares with a common limit. In between, each opening and closing is counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::Now;

use crate::ClientKey;
use crate::ranked::{Mutex, Rank};

/// How long a count is valid.
const COUNTED_FOR_NS: u64 = 1_000_000_000;
/// After this time the log may report again that a client is refused.
const SILENCE_NS: u64 = 10_000_000_000;

/// The number of descriptors of each client, as far as it was counted.
pub(crate) struct Fairness {
    holders: Mutex<Holders>,
    /// Whether they are counted at present.
    counts: AtomicBool,
    refused: AtomicU64,
}

impl Default for Fairness {
    fn default() -> Fairness {
        let holders = Mutex::of_default(Rank::DescriptorHolders);
        Fairness { holders, counts: AtomicBool::new(false), refused: AtomicU64::new(0) }
    }
}

#[derive(Default)]
struct Holders {
    by_client: HashMap<ClientKey, usize>,
    total: usize,
    counted_ns: Option<u64>,
    logged_ns: Option<u64>,
    /// Refusals since the last line in the log.
    unlogged: u64,
}

impl Holders {
    fn is_good(&self, now_ns: u64) -> bool {
        self.counted_ns.is_some_and(|at| now_ns.saturating_sub(at) < COUNTED_FOR_NS)
    }

    /// The number of a client, if it is more than an equal share.
    fn excess(&self, client: ClientKey) -> Option<usize> {
        let own = self.by_client.get(&client).copied().unwrap_or_default();
        (own * self.by_client.len() > self.total).then_some(own)
    }

    fn add(&mut self, client: ClientKey) {
        *self.by_client.entry(client).or_default() += 1;
        self.total += 1;
    }

    fn remove(&mut self, client: ClientKey) {
        let Some(own) = self.by_client.get_mut(&client) else { return };
        *own -= 1;
        self.total -= 1;
        if *own == 0 {
            self.by_client.remove(&client);
        }
    }
}

impl Fairness {
    /// The number of opens that were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts that a client has opened a file.
    pub fn opened(&self, client: ClientKey, now: Now) {
        self.change(now, |holders| holders.add(client));
    }

    /// Counts that a client has closed a file.
    pub fn closed(&self, client: ClientKey, now: Now) {
        self.change(now, |holders| holders.remove(client));
    }

    /// Whether descriptors are counted.
    pub fn counts(&self) -> bool {
        self.counts.load(Ordering::Relaxed)
    }

    /// Changes the count while it is valid. When it is needed again, all are counted anew.
    fn change(&self, now: Now, change: impl FnOnce(&mut Holders)) {
        if !self.counts() {
            return;
        }
        let mut holders = self.holders.lock();
        match holders.is_good(now.mono_ns) {
            true => change(&mut holders),
            false => self.counts.store(false, Ordering::Relaxed),
        }
    }

    /// Invalidates the count.
    pub fn count_anew(&self) {
        self.holders.lock().counted_ns = None;
    }

    /// Whether a client has no more than its share. If there is no valid count, `all` passes the client of
    /// each open.
    pub fn is_fair(&self, client: ClientKey, now: Now, all: impl FnOnce(&mut dyn FnMut(ClientKey))) -> bool {
        let is_good = self.holders.lock().is_good(now.mono_ns);
        if !self.counts.swap(true, Ordering::Relaxed) || !is_good {
            let mut seen = Holders::default();
            all(&mut |client| seen.add(client));
            let mut holders = self.holders.lock();
            (holders.by_client, holders.total) = (seen.by_client, seen.total);
            holders.counted_ns = Some(now.mono_ns);
        }
        self.holders.lock().excess(client).is_none()
    }

    /// Counts the refusal of a client that has more than its share, and logs it at a limited rate.
    pub fn refuse(&self, client: ClientKey, now: Now, share: impl FnOnce() -> String, user: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut holders = self.holders.lock();
        holders.unlogged += 1;
        if holders.logged_ns.is_some_and(|at| now.mono_ns.saturating_sub(at) < SILENCE_NS) {
            return;
        }
        holders.logged_ns = Some(now.mono_ns);
        let refused = std::mem::take(&mut holders.unlogged);
        let own = holders.by_client.get(&client).copied().unwrap_or_default();
        let (all, clients) = (holders.total, holders.by_client.len());
        drop(holders);
        let share = share();
        tracing::warn!(
            %share,
            %user,
            own,
            all,
            clients,
            refused,
            "descriptors run short: a client that has more than an equal share of the open files gets no new \
             one"
        );
    }
}
