//! Who may open files while descriptors of the host are scarce: nobody who has more than an equal share of them.
//!
//! The volume says when they are scarce, which is when files that nobody uses are closed already. Until then nobody counts. From
//! then on those who have files open are counted once a second, in all shares that have their descriptors together, and in
//! between each file that is opened or closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::Now;

use super::Share;
use super::file::File;
use crate::ranked::{Mutex, Rank};
use crate::{Caller, ClientKey, Refusal};

/// For so long a count is good.
const COUNTED_FOR_NS: u64 = 1_000_000_000;
/// After so long the log says again that somebody is refused.
const SILENCE_NS: u64 = 10_000_000_000;

/// What clients have of the descriptors, as far as it was counted.
pub(super) struct Fairness {
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
    told_ns: Option<u64>,
    /// Refused since the log said so.
    untold: u64,
}

impl Holders {
    fn is_good(&self, now_ns: u64) -> bool {
        self.counted_ns.is_some_and(|at| now_ns.saturating_sub(at) < COUNTED_FOR_NS)
    }

    /// What a client has, if it is more than an equal share.
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
    /// How many opens were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A client has opened a file.
    pub fn opened(&self, client: ClientKey, now: Now) {
        if self.counts.load(Ordering::Relaxed) {
            self.change(now, |holders| holders.add(client));
        }
    }

    /// An open ends. One without a descriptor is not counted.
    pub fn closed(&self, open: &crate::Open, now: Now) {
        if self.counts.load(Ordering::Relaxed) && !open.data.is_closed() {
            self.change(now, |holders| holders.remove(open.client()));
        }
    }

    /// Changes the count, as long as it is good. When somebody needs one again, all is counted anew.
    fn change(&self, now: Now, change: impl FnOnce(&mut Holders)) {
        let mut holders = self.holders.lock();
        match holders.is_good(now.mono_ns) {
            true => change(&mut holders),
            false => self.counts.store(false, Ordering::Relaxed),
        }
    }
}

impl File {
    /// Names the client of each open that holds a descriptor.
    pub(super) fn name_holders(&self, name: &mut dyn FnMut(ClientKey)) {
        let state = self.state.lock();
        // An open that is about to be handed out holds one too.
        let holds = |open: Option<Arc<crate::Open>>| open.is_none_or(|open| !open.data.is_closed());
        let holders = state.members.iter().filter(|member| holds(member.open.upgrade()));
        holders.filter_map(|member| member.asker.client).for_each(name);
    }
}

impl Share {
    /// Lets a client open one file more, unless descriptors are scarce and it has more than an equal share of them.
    ///
    /// # Errors
    /// [`Refusal::Exhausted`]
    pub(super) fn check_fairness(&self, caller: &Caller<'_>) -> Result<(), Refusal> {
        if !self.volume().is_short() || self.is_fair(caller) {
            return Ok(());
        }
        // First goes what is kept for clients that are gone.
        if self.relieve(caller.now) {
            self.count_anew();
            if !self.volume().is_short() || self.is_fair(caller) {
                return Ok(());
            }
        }
        self.refuse_greedy(caller);
        Err(Refusal::Exhausted)
    }

    fn count_anew(&self) {
        self.descriptors().fairness().holders.lock().counted_ns = None;
    }

    /// Whether a client has no more than its share.
    fn is_fair(&self, caller: &Caller<'_>) -> bool {
        let now_ns = caller.now.mono_ns;
        let fairness = self.descriptors().fairness();
        let is_good = fairness.holders.lock().is_good(now_ns);
        if !fairness.counts.swap(true, Ordering::Relaxed) || !is_good {
            let mut seen = Holders::default();
            for share in self.descriptors().sharing() {
                share.name_holders(&mut |client| seen.add(client));
            }
            let mut holders = fairness.holders.lock();
            (holders.by_client, holders.total) = (seen.by_client, seen.total);
            holders.counted_ns = Some(now_ns);
        }
        fairness.holders.lock().excess(caller.client).is_none()
    }

    fn refuse_greedy(&self, caller: &Caller<'_>) {
        let fairness = self.descriptors().fairness();
        fairness.refused.fetch_add(1, Ordering::Relaxed);
        let mut holders = fairness.holders.lock();
        holders.untold += 1;
        let now_ns = caller.now.mono_ns;
        if holders.told_ns.is_some_and(|at| now_ns.saturating_sub(at) < SILENCE_NS) {
            return;
        }
        holders.told_ns = Some(now_ns);
        let refused = std::mem::take(&mut holders.untold);
        let own = holders.by_client.get(&caller.client).copied().unwrap_or_default();
        let (all, clients) = (holders.total, holders.by_client.len());
        drop(holders);
        tracing::warn!(
            share = %self.name(), user = %caller.identity.name, own, all, clients, refused,
            "descriptors run short: a client that has more than an equal share of the open files gets no new one"
        );
    }
}
