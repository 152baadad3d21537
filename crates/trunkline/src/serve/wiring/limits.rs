//! The limits of shares. Each account has one set of limits for all its shares, one alarm releases all
//! throttled requests, and burst credits survive a restart.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use admin::limits::LimitedShare;
use share::limits::{Alarm, Limits, Provision, ResponseType, ShareState, Throughput};

use super::locks::held;
use crate::config::{Config, Share};
use crate::state::StateDir;
use crate::state::store::BurstCredits;

/// The interval at which burst credits are saved. A server that is killed loses at most the changes of this
/// time.
pub const SAVED_EVERY: Duration = Duration::from_secs(10);

/// The limits of one share, ready to be applied.
pub struct LimitsToApply {
    /// The account.
    pub account: String,
    /// The directory's number.
    pub number: u32,
    /// The number of the share's previous directory, if that was another one. The credits move along.
    pub before: Option<u32>,
    /// The limits of the share.
    pub provision: Provision,
    /// The limits of all shares of the account together.
    pub together: share::limits::AccountProvision,
}

impl LimitsToApply {
    /// The limits of a share in a directory, with its previous directory if that was another one. None if the
    /// share is not limited.
    ///
    /// # Errors
    /// One line for the user.
    pub fn of(
        share: &Share,
        config: &Config,
        path: &Path,
        before: Option<&Path>,
        state: &StateDir,
    ) -> Result<Option<LimitsToApply>, String> {
        let Some((account, formula, provision)) = share.limits(config).map_err(|e| e.to_string())? else {
            return Ok(None);
        };
        let number = |path| state.number(path).map_err(|e| e.to_string());
        let (number, before) = (number(path)?, before.map(number).transpose()?);
        Ok(Some(LimitsToApply { account, number, before, provision, together: formula.account() }))
    }
}

/// All limits of the server.
#[derive(Default)]
pub struct Pacing {
    /// By the account's name in lower case.
    accounts: Mutex<BTreeMap<String, Arc<Limits>>>,
    alarm: Arc<AlarmThread>,
    /// The values that were saved last, by the share's number.
    saved: Mutex<BTreeMap<u32, u64>>,
}

/// The thread that releases throttled requests. It exists once anything is limited.
#[derive(Default)]
struct AlarmThread {
    thread: OnceLock<net::TimerThread>,
}

impl Alarm for AlarmThread {
    fn set(&self, at_ns: u64) {
        if let Some(thread) = self.thread.get() {
            thread.set(at_ns);
        }
    }
}

impl Pacing {
    /// Starts the alarm if anything is limited.
    ///
    /// # Errors
    /// The host cannot start another thread.
    pub fn start_for(self: &Arc<Pacing>, limited: &[Option<LimitsToApply>]) -> Result<(), String> {
        if self.alarm.thread.get().is_some() || limited.iter().all(Option::is_none) {
            return Ok(());
        }
        let pacing: Weak<Pacing> = Arc::downgrade(self);
        let ring = move |now| pacing.upgrade().and_then(|pacing| pacing.release(now));
        let thread = net::TimerThread::start(ring).map_err(|e| format!("no thread for limits: {e}"))?;
        // If another caller was faster, its thread is used and this one ends.
        let _ = self.alarm.thread.set(thread);
        Ok(())
    }

    fn release(&self, now: wire::Now) -> Option<u64> {
        let all: Vec<_> = held(&self.accounts).values().cloned().collect();
        all.iter().filter_map(|limits| limits.release(now)).min()
    }

    /// Applies the limits of these engines, and removes those of others. Shares with a number in
    /// `numbers_in_use` keep theirs: they were removed, but still have connected clients.
    pub fn apply<'e>(
        &self,
        state: &StateDir,
        wanted: impl Iterator<Item = (&'e Arc<share::Share>, Option<&'e LimitsToApply>)>,
        numbers_in_use: &[u32],
    ) {
        // A share that moves to another account keeps its credits.
        self.save(state);
        let now = net::now();
        let mut accounts = held(&self.accounts);
        let mut left: BTreeMap<String, Vec<u32>> =
            accounts.iter().map(|(name, limits)| (name.clone(), limits.shares())).collect();
        for (engine, wanted) in wanted {
            let Some(LimitsToApply { account, number, before, provision, together }) = wanted else {
                engine.set_limits(None);
                engine.set_largest_file(None);
                continue;
            };
            let known = accounts.entry(account.clone());
            let limits =
                known.or_insert_with(|| Limits::new(Some(*together), Arc::clone(&self.alarm) as _, now));
            limits.set_account(Some(*together), now);
            let others = left.entry(account.clone()).or_default();
            let is_new = !others.contains(number);
            others.retain(|other| other != number);
            let kept = is_new.then(|| self.kept(state, before.unwrap_or(*number), provision, now)).flatten();
            engine.set_limits(Some(limits.set_share(*number, *provision, kept, now)));
            engine.set_largest_file(Some(provision.file_size));
        }
        for (name, numbers) in left {
            let Some(limits) = accounts.get(&name) else { continue };
            let gone = numbers.into_iter().filter(|number| !numbers_in_use.contains(number));
            gone.for_each(|number| limits.remove_share(number));
            if limits.shares().is_empty() {
                accounts.remove(&name);
            }
        }
    }

    /// The saved credits of a share plus those that it gained since then, while it was idle.
    fn kept(&self, state: &StateDir, number: u32, provision: &Provision, now: wire::Now) -> Option<u64> {
        let kept = match state.store().burst_credits(number) {
            Ok(kept) => kept?,
            Err(error) => {
                tracing::warn!(%error, "the saved burst credits cannot be read, so the share starts with all \
                                        of them");
                return None;
            }
        };
        let idle_ns = u128::try_from(now.wall_ns.saturating_sub(kept.at_ns)).unwrap_or(0);
        let accrued = u128::from(provision.operations) * idle_ns / 1_000_000_000;
        Some(kept.count.saturating_add(u64::try_from(accrued).unwrap_or(u64::MAX)))
    }

    /// Saves the burst credits of all shares that have changed.
    pub fn save(&self, state: &StateDir) {
        let now = net::now();
        let mut changed = Vec::new();
        let mut saved = held(&self.saved);
        for limits in held(&self.accounts).values() {
            for number in limits.shares() {
                let Some(share) = limits.share(number).and_then(|share| share.state(now)) else { continue };
                let is_full = share.burst_credits == share.provision.burst_credits;
                // Full credits stay full. Others also grow while the share is idle.
                if !(is_full && saved.get(&number) == Some(&share.burst_credits)) {
                    changed.push((number, BurstCredits { count: share.burst_credits, at_ns: now.wall_ns }));
                    saved.insert(number, share.burst_credits);
                }
            }
        }
        if let Err(error) = state.store().keep_burst_credits(&changed) {
            tracing::warn!(%error, "burst credits cannot be saved, so they will be full after a restart");
        }
    }
}

/// The state of limited shares, by name.
pub fn report<'e>(engines: impl Iterator<Item = &'e Arc<share::Share>>) -> BTreeMap<String, LimitedShare> {
    let now = net::now();
    let one = |engine: &Arc<share::Share>| {
        let ShareState { provision, burst_credits, held, counts } = engine.limits()?.state(now)?;
        let (ingress_bytes, egress_bytes, is_together) = match provision.throughput {
            Throughput::Together(rate) => (rate, rate, true),
            Throughput::Apart { ingress, egress } => (ingress, egress, false),
        };
        let responses = ResponseType::ALL.iter().zip(counts).filter(|(_, count)| *count > 0);
        let share = LimitedShare {
            iops: provision.operations,
            burst_iops: provision.burst,
            burst_credits,
            max_burst_credits: provision.burst_credits,
            ingress_bytes,
            egress_bytes,
            is_together,
            metadata_iops: provision.metadata,
            held: held as u64,
            responses: responses.map(|(kind, count)| (kind.name().to_owned(), count)).collect(),
        };
        Some((engine.name(), share))
    };
    engines.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use share::limits::{Formula, ProvisionRequest as Bought};
    use volume::memory::MemoryVolume;

    fn engine() -> Arc<share::Share> {
        let volume = volume::MeteredVolume::asleep(Arc::new(MemoryVolume::new(1)));
        share::Share::open(Arc::new(volume), share::Config::default()).unwrap()
    }

    fn wanted(account: &str, number: u32, gib: u64) -> LimitsToApply {
        let bought = Bought { gib: Some(gib), ..Bought::default() };
        let provision = Formula::V1.provision(bought).unwrap();
        let account = account.to_owned();
        LimitsToApply { account, number, before: None, provision, together: Formula::V1.account() }
    }

    fn left(engine: &share::Share) -> u64 {
        engine.limits().unwrap().state(net::now()).unwrap().burst_credits
    }

    #[test]
    fn burst_credits_outlive_the_server_and_accrue_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        let engine = engine();
        let begin = |engine, wanted: &LimitsToApply| {
            let pacing = Pacing::default();
            pacing.apply(&state, std::iter::once((engine, Some(wanted))), &[]);
            pacing
        };
        let wanted = wanted("lab", 7, 100);
        let most = wanted.provision.burst_credits;
        let pacing = begin(&engine, &wanted);
        assert_eq!(left(&engine), most, "a new share has all of them");
        pacing.save(&state);
        let kept = state.store().burst_credits(7).unwrap().unwrap();
        assert_eq!(kept.count, most);
        // The state of a share that spent most of its credits and was idle for a minute.
        let at_ns = net::now().wall_ns - 60_000_000_000;
        state.store().keep_burst_credits(&[(7, BurstCredits { count: 1000, at_ns })]).unwrap();
        let _again = begin(&engine, &wanted);
        let minute = 1000 + 60 * wanted.provision.operations;
        assert!((minute..minute + 60 * wanted.provision.operations).contains(&left(&engine)));
        // A clock that was set back adds no credits.
        let at_ns = net::now().wall_ns + 3600 * 1_000_000_000;
        state.store().keep_burst_credits(&[(7, BurstCredits { count: 1000, at_ns })]).unwrap();
        let _again = begin(&engine, &wanted);
        assert!(left(&engine) < 1000 + 60 * wanted.provision.operations);
    }

    #[test]
    fn a_reload_changes_moves_and_lifts_limits() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        let (one, other) = (engine(), engine());
        let pacing = Pacing::default();
        let of =
            |engine: &share::Share| engine.limits().map(|limits| limits.state(net::now()).unwrap().provision);
        let (small, large) = (wanted("lab", 1, 100), wanted("lab", 1, 500));
        let second = wanted("lab", 2, 100);
        pacing.apply(&state, [(&one, Some(&small)), (&other, Some(&second))].into_iter(), &[]);
        assert_eq!((of(&one), of(&other)), (Some(small.provision), Some(second.provision)));
        let account = Arc::clone(one.limits().unwrap().account());
        assert!(
            Arc::ptr_eq(&account, other.limits().unwrap().account()),
            "shares of an account share its limits"
        );
        pacing.apply(&state, [(&one, Some(&large)), (&other, None)].into_iter(), &[]);
        assert_eq!((of(&one), of(&other)), (Some(large.provision), None));
        assert_eq!((one.largest_file(), other.largest_file()), (Some(4 << 40), None));
        assert_eq!(account.shares(), [1]);
        let shown = report([&one, &other].into_iter());
        assert_eq!((shown.len(), shown[""].iops, shown[""].is_together), (1, 3500, true));
        let moved = wanted("home", 1, 100);
        pacing.apply(&state, [(&one, Some(&moved)), (&other, None)].into_iter(), &[]);
        assert!(!Arc::ptr_eq(&account, one.limits().unwrap().account()) && account.shares().is_empty());
        assert_eq!(held(&pacing.accounts).len(), 1);
    }

    #[test]
    fn credits_go_along_with_a_share_to_another_directory() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        let (old, new) = (engine(), engine());
        let pacing = Pacing::default();
        pacing.apply(&state, std::iter::once((&old, Some(&wanted("lab", 1, 100)))), &[]);
        // The state of a share that spent nearly all of its credits.
        let at_ns = net::now().wall_ns;
        state.store().keep_burst_credits(&[(1, BurstCredits { count: 1000, at_ns })]).unwrap();
        let pacing = Pacing::default();
        pacing.apply(&state, std::iter::once((&old, Some(&wanted("lab", 1, 100)))), &[]);
        let moved = LimitsToApply { before: Some(1), ..wanted("lab", 2, 100) };
        pacing.apply(&state, std::iter::once((&new, Some(&moved))), &[]);
        let minute = 1000 + 60 * moved.provision.operations;
        assert!((1000..minute).contains(&left(&new)), "{}", left(&new));
        assert!(minute < moved.provision.burst_credits, "a share that is new has more");
    }

    #[test]
    fn who_is_connected_to_a_share_that_is_gone_is_limited_still() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        let (gone, stays) = (engine(), engine());
        let (first, second) = (wanted("lab", 1, 100), wanted("lab", 2, 100));
        let pacing = Pacing::default();
        pacing.apply(&state, [(&gone, Some(&first)), (&stays, Some(&second))].into_iter(), &[]);
        pacing.apply(&state, [(&stays, Some(&second))].into_iter(), &[1]);
        assert!(gone.limits().unwrap().state(net::now()).is_some(), "somebody is connected");
        pacing.apply(&state, [].into_iter(), &[1]);
        assert!(gone.limits().unwrap().state(net::now()).is_some(), "also as the last of its account");
        pacing.apply(&state, [].into_iter(), &[]);
        assert!(gone.limits().unwrap().state(net::now()).is_none());
        assert!(held(&pacing.accounts).is_empty());
    }
}
