//! The used space of shares that have a size. It is known from the previous run, or counted from the time
//! when a share gets its size. It is updated with each change, and counted anew in the background to include
//! changes by other programs of the host.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use admin::usage::UsedShare;
use volume::metered::Scan;
use volume::{Meter, MeteredVolume, QuotaRefusal, Usage, Volume};

use super::engines::EngineList;
use super::locks::held;
use crate::config::Share;
use crate::state::StateDir;

/// The interval between two complete counts.
const AGAIN_AFTER: Duration = Duration::from_secs(15 * 60);
/// The interval after a count that failed.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(60);
/// The interval at which the thread checks for shares to count.
const LOOKED_EVERY: Duration = Duration::from_millis(500);
/// The time that a command waits for the count of a share.
const BRIEFLY: Duration = Duration::from_secs(1);
/// The number of names that are counted between two rests. Each rest is as long as the work before it, so
/// that the count uses at most half of a processor.
const STEP: usize = 256;
/// The longest rest.
const REST: Duration = Duration::from_millis(200);

/// The size of a share in bytes. None if it is bounded only by the file system.
pub fn quota(share: &Share) -> Option<u64> {
    share.provisioned_gib.as_ref().map(|gib| gib.value << 30)
}

/// The maximum of bytes of a share's sidecar data. For a share with a size they count towards that size.
pub fn beside(share: &Share) -> u64 {
    quota(share).map_or(share.streams_max_gib.value << 30, |_| u64::MAX)
}

/// The volume of a share, with its known usage if it has a size. Without a size, nothing is counted until it
/// gets one ([`lower`]).
pub fn metered(
    volume: Arc<dyn Volume>,
    share: &Share,
    path: &Path,
    state: &StateDir,
) -> Result<Arc<dyn Volume>, String> {
    let Some(quota) = quota(share) else { return Ok(Arc::new(MeteredVolume::asleep(volume))) };
    let number = state.number(path).map_err(|e| e.to_string())?;
    let kept = match state.store().usage(number) {
        Ok(kept) => kept.map(|(bytes, files)| Usage { bytes, files }),
        Err(error) => {
            tracing::warn!(%error, share = %share.name.value, "the share's used space is not known until it \
                is counted");
            None
        }
    };
    Ok(Arc::new(MeteredVolume::new(volume, Some(quota), kept)))
}

/// A size that has been applied to a share while the rest of the same change can still fail. Dropping it
/// restores the old size unless it is [kept](UncommittedSize::keep).
#[must_use]
pub struct UncommittedSize {
    engine: Arc<share::Share>,
    /// The old size.
    before: Option<Option<u64>>,
}

impl UncommittedSize {
    /// Makes the new size permanent, when nothing can fail any more.
    pub fn keep(mut self) {
        self.before = None;
    }
}

impl Drop for UncommittedSize {
    fn drop(&mut self) {
        if let Some(before) = self.before.take()
            && let Err(error) = self.engine.set_quota(before)
        {
            tracing::warn!(share = %self.engine.name(), "`provisioned_gib` could not be restored: {error}");
        }
    }
}

/// Applies a lower size to a share that is already served, and refuses one below the used space. It applies
/// at once, so that the share cannot grow past it before the rest of the change is applied. If the share has
/// not been counted, the count starts now. A count that takes longer than a command may wait is finished
/// later.
///
/// # Errors
/// One line for the user.
pub fn lower(share: &Share, engine: &Arc<share::Share>) -> Result<UncommittedSize, String> {
    let asked = quota(share);
    let is_first = asked.is_some() && engine.meter().is_none();
    if is_first && let Some(meter) = engine.begin_counting() {
        count_briefly(meter);
    }
    let before = engine.meter().and_then(|meter| meter.quota());
    let is_lower = asked.is_some_and(|asked| before.is_none_or(|before| asked < before));
    if !is_lower {
        return Ok(UncommittedSize { engine: Arc::clone(engine), before: None });
    }
    match engine.set_quota(asked) {
        Err(refusal @ QuotaRefusal::BelowUsage { .. }) => {
            Err(format!("share `{}`: `provisioned_gib` is too small: {refusal}", share.name.value))
        }
        // If the share cannot be counted, that is reported when the rest of the change is applied.
        Err(QuotaRefusal::NotCounted) => Ok(UncommittedSize { engine: Arc::clone(engine), before: None }),
        Ok(()) => Ok(UncommittedSize { engine: Arc::clone(engine), before: Some(before) }),
    }
}

/// Counts for as long as a command may wait.
fn count_briefly(meter: &Arc<Meter>) {
    let begun = Instant::now();
    let mut step = meter.recount().map(|scan| (scan, false));
    while let Ok((scan, false)) = step {
        if begun.elapsed() >= BRIEFLY {
            return;
        }
        step = advance(scan);
    }
    // A failure is repeated, and reported, by the count in the background.
}

/// The shares to count, with the time of their next count.
type Due = Vec<(Weak<Meter>, Instant)>;

/// Saves and counts the usage of shares.
#[derive(Default)]
pub struct Usages {
    /// The values that were saved last, by the directory's number.
    saved: Mutex<BTreeMap<u32, Usage>>,
    /// The shares to count, with the time of their next count.
    due: Arc<Mutex<Due>>,
    /// Dropping the sender ends the thread. It exists once anything is counted.
    counting: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl Usages {
    /// Applies the sizes of these shares, and starts the count of new ones.
    ///
    /// # Errors
    /// The host cannot start another thread.
    pub fn apply<'e>(
        &self,
        shares: impl Iterator<Item = (&'e Arc<share::Share>, Option<u64>)>,
    ) -> Result<(), String> {
        let mut due = held(&self.due);
        due.retain(|(meter, _)| meter.strong_count() > 0);
        for (engine, quota) in shares {
            let is_changed = engine.meter().and_then(|meter| meter.quota()) != quota;
            if is_changed && let Err(error) = engine.set_quota(quota) {
                tracing::warn!(share = %engine.name(), "`provisioned_gib` does not apply yet: {error}");
            }
            let Some(meter) = engine.meter() else { continue };
            if !due.iter().any(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(meter))) {
                due.push((Arc::downgrade(meter), Instant::now()));
            }
        }
        let mut counting = held(&self.counting);
        if due.is_empty() || counting.is_some() {
            return Ok(());
        }
        let (stop, stopped) = channel();
        let due = Arc::clone(&self.due);
        let thread = std::thread::Builder::new().name("trunkline-count".to_owned());
        let thread = thread
            .spawn(move || count(&due, &stopped))
            .map_err(|e| format!("no thread to count files: {e}"))?;
        *counting = Some((stop, thread));
        Ok(())
    }

    /// Stops counting.
    pub fn stop(&self) {
        if let Some((stop, thread)) = held(&self.counting).take() {
            drop(stop);
            // The thread only counts. An interrupted count is repeated at the next start.
            let _ = thread.join();
        }
    }

    /// Saves the usage of shares that have changed.
    pub fn save(&self, state: &StateDir, engines: &EngineList) {
        let mut saved = held(&self.saved);
        let mut changed = Vec::new();
        for (path, engine) in engines {
            let Some(usage) = engine.meter().and_then(|meter| meter.to_keep()) else { continue };
            let Ok(number) = state.number(path) else { continue };
            if saved.insert(number, usage) != Some(usage) {
                changed.push((number, (usage.bytes, usage.files)));
            }
        }
        if let Err(error) = state.store().keep_usage(&changed) {
            tracing::warn!(%error, "the used space of shares cannot be saved, so the next start must count \
                                    it again");
        }
    }
}

/// Counts the shares that are due, until the sender is gone.
fn count(due: &Mutex<Due>, stopped: &Receiver<()>) {
    while stopped.recv_timeout(LOOKED_EVERY) == Err(RecvTimeoutError::Timeout) {
        let all: Vec<_> = held(due)
            .iter()
            .filter(|(meter, at)| {
                *at <= Instant::now() || meter.upgrade().is_some_and(|meter| meter.is_stale())
            })
            .map(|(meter, _)| meter.clone())
            .collect();
        for meter in all {
            let Some(counted) = meter.upgrade() else { continue };
            let Some(again) = count_one(&counted, stopped) else { return };
            for (_, at) in held(due).iter_mut().filter(|(known, _)| known.ptr_eq(&meter)) {
                *at = Instant::now() + again;
            }
        }
    }
}

/// Counts one share. Returns the time until its next count, or none when the server stops.
fn count_one(meter: &Arc<Meter>, stopped: &Receiver<()>) -> Option<Duration> {
    let begun = Instant::now();
    let mut step = meter.recount().map(|scan| (scan, false));
    loop {
        match step {
            Ok((_, true)) => {
                let Usage { bytes, files } = meter.usage();
                tracing::debug!(
                    bytes,
                    files,
                    ms = begun.elapsed().as_millis() as u64,
                    "a share's files were counted"
                );
                return Some(AGAIN_AFTER.max(begun.elapsed() * 20));
            }
            Ok((scan, false)) => {
                let at = Instant::now();
                step = advance(scan);
                let rest = at.elapsed().min(REST);
                if stopped.recv_timeout(rest) != Err(RecvTimeoutError::Timeout) {
                    return None;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a share's files could not be counted; the previous values stay");
                return Some(AGAIN_AFTER_FAILURE);
            }
        }
    }
}

fn advance(mut scan: Scan) -> volume::Result<(Scan, bool)> {
    let is_done = scan.step(STEP)?;
    Ok((scan, is_done))
}

/// The usage of shares that have a size, by name.
pub fn report<'e>(engines: impl Iterator<Item = &'e Arc<share::Share>>) -> BTreeMap<String, UsedShare> {
    let one = |engine: &Arc<share::Share>| {
        let meter = engine.meter()?;
        let (Usage { bytes, files }, counting) = (meter.usage(), meter.counting());
        let share = UsedShare {
            quota_bytes: meter.quota(),
            bytes,
            files,
            counting: counting.under_way,
            counted: counting.finished,
            unreadable: counting.unreadable,
        };
        Some((engine.name(), share))
    };
    engines.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use volume::memory::MemoryVolume;
    use volume::{Name, Node};

    /// An engine for this directory in memory, with the saved usage.
    fn engine(memory: &MemoryVolume, state: &StateDir, path: &Path) -> Arc<share::Share> {
        let kept = state.store().usage(state.number(path).unwrap()).unwrap();
        let kept = kept.map(|(bytes, files)| Usage { bytes, files });
        let volume = MeteredVolume::new(Arc::new(memory.clone()), Some(1000), kept);
        share::Share::open(Arc::new(volume), share::Config::default()).unwrap()
    }

    fn write(root: &Arc<dyn Node>, name: &str, len: usize) {
        let file = root.create_file(&Name::new(name.as_bytes()).unwrap(), 0o600, None).unwrap();
        file.write(0, &vec![1; len]).unwrap();
    }

    #[test]
    fn what_lies_there_outlives_the_server_and_is_counted_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        let path = dir.path().join("share");
        let memory = MemoryVolume::new(1);
        write(&memory.root().unwrap(), "host", 30);
        let first = engine(&memory, &state, &path);
        let served = [(path.clone(), Arc::clone(&first))];
        let usages = Usages::default();
        usages.save(&state, &served);
        assert_eq!(state.store().usage(1).unwrap(), None, "nothing is known yet");
        usages.apply(std::iter::once((&first, Some(900)))).unwrap();
        assert!(wait(&first, 1));
        write(&first.volume().root().unwrap(), "client", 50);
        usages.save(&state, &served);
        usages.stop();
        let shown = &report(std::iter::once(&first))[""];
        assert_eq!((shown.quota_bytes, shown.bytes, shown.files, shown.counted), (Some(900), 80, 2, 1));
        drop((first, served));
        write(&memory.root().unwrap(), "away", 5);
        let second = engine(&memory, &state, &path);
        assert_eq!(second.usage(), Some(Usage { bytes: 80, files: 2 }), "as it was");
        let usages = Usages::default();
        usages.apply(std::iter::once((&second, Some(1000)))).unwrap();
        assert!(wait(&second, 1));
        assert_eq!(second.usage(), Some(Usage { bytes: 85, files: 3 }), "with what was done meanwhile");
        usages.apply(std::iter::once((&second, Some(84)))).unwrap();
        assert_eq!(second.meter().unwrap().quota(), Some(1000), "what lies there does not fit");
        usages.stop();
    }

    fn sized(gib: u64) -> Share {
        let text = format!(
            "[account.t]\nkind = \"premium\"\n\
             [share.d]\npath = \"/d\"\naccount = \"t\"\nprovisioned_gib = {gib}\n"
        );
        crate::config::read::parse("t", &text, Path::new("/")).unwrap().shares["d"].clone()
    }

    #[test]
    fn a_share_fuller_than_its_size_can_keep_it_or_have_more_and_a_change_that_fails_undoes_what_it_lowered()
    {
        const GIB: u64 = 1 << 30;
        let volume = MeteredVolume::new(
            Arc::new(MemoryVolume::new(1)),
            Some(100 * GIB),
            // A program of the host has filled the share.
            Some(Usage { bytes: 150 * GIB, files: 1 }),
        );
        let engine = share::Share::open(Arc::new(volume), share::Config::default()).unwrap();
        let has = || engine.meter().unwrap().quota();
        lower(&sized(100), &engine).unwrap().keep();
        lower(&sized(120), &engine).unwrap().keep();
        assert_eq!(has(), Some(100 * GIB), "more is given when all else is");
        let usages = Usages::default();
        usages.apply(std::iter::once((&engine, Some(120 * GIB)))).unwrap();
        assert_eq!(has(), Some(120 * GIB));
        let refusal = lower(&sized(110), &engine).err().unwrap();
        assert!(refusal.starts_with("share `d`: `provisioned_gib` is too small: "), "{refusal}");
        usages.apply(std::iter::once((&engine, Some(200 * GIB)))).unwrap();
        let lowered = lower(&sized(160), &engine).unwrap();
        assert_eq!(has(), Some(160 * GIB), "nothing grows past it from here on");
        drop(lowered);
        assert_eq!(has(), Some(200 * GIB), "something else could not be");
        lower(&sized(160), &engine).unwrap().keep();
        assert_eq!(has(), Some(160 * GIB));
        usages.stop();
    }

    /// Waits for up to ten seconds until the share was counted this often.
    fn wait(engine: &Arc<share::Share>, counts: u64) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while engine.meter().unwrap().counting().finished < counts && Instant::now() < until {
            std::thread::yield_now();
        }
        engine.meter().unwrap().counting().finished >= counts
    }
}
