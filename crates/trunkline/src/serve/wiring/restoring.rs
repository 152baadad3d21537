//! The opens from before a restart: who takes them over, and the threads that restore those that no request
//! has asked for yet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use share::{ClientKey, Identity, OpenRestorer, Restored, UnrestoredOpen, UserFailure};
use volume::security::Sid;
use wire::Now;

use super::exports::Servers;
use super::identity::IdentityMap;
use super::locks::held;
use crate::config::Share;

/// The threads that restore opens at once. Each waits for the store most of the time.
const THREADS: usize = 16;

/// The pauses before files are tried again that the host failed to open.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The longest wait for the threads when the server stops. A store that stands still may keep them for ever.
const MOST_STOP: Duration = Duration::from_secs(10);

/// Takes the restored opens of a share over, for the servers.
pub struct ShareRestorer {
    share: Share,
    principals: Arc<IdentityMap>,
    smb: Arc<smb::Server>,
    config: Arc<smb::ShareConfig>,
    nfs: Arc<Servers>,
    /// The time of the restart, from which opens are kept.
    restarted: Now,
    begun: Instant,
    smb_opens: AtomicUsize,
    nfs_opens: AtomicUsize,
}

/// Whether an open is that of an NFS client.
fn is_claimed(note: &[u8]) -> bool {
    nfs::state::record::Note::is_one(note)
}

impl ShareRestorer {
    /// Lets requests ask for the opens of a share from now on, and has them restored for the servers.
    pub fn begin(
        share: &Share,
        principals: &Arc<IdentityMap>,
        smb: &Arc<smb::Server>,
        config: &smb::ShareConfig,
        nfs: &Arc<Servers>,
        mut unrestored: Vec<UnrestoredOpen>,
    ) {
        if unrestored.is_empty() {
            return;
        }
        let (opens, config) = (unrestored.len(), Arc::new(config.clone()));
        tracing::info!(share = %config.name, opens, "opens from before the restart are restored from now on");
        let of_nfs: Vec<_> = unrestored.extract_if(.., |open| is_claimed(&open.note)).collect();
        nfs.expect_opens(&config.engine, &of_nfs);
        smb.expect(&config, &unrestored);
        let engine = Arc::clone(&config.engine);
        engine.restore_for(Arc::new(ShareRestorer {
            share: share.clone(),
            principals: Arc::clone(principals),
            smb: Arc::clone(smb),
            config,
            nfs: Arc::clone(nfs),
            restarted: net::now(),
            begun: Instant::now(),
            smb_opens: AtomicUsize::new(0),
            nfs_opens: AtomicUsize::new(0),
        }));
    }
}

impl OpenRestorer for ShareRestorer {
    fn user(&self, sid: &Sid) -> Result<Arc<Identity>, UserFailure> {
        let identity = self.principals.restored(sid)?;
        Ok(super::homes::at_home(&self.share, &identity))
    }

    fn take(&self, restored: Restored) {
        let (is_kept, opens) = if is_claimed(&restored.note) {
            (self.nfs.restore(&self.config.engine, restored), &self.nfs_opens)
        } else {
            let is_kept = self.smb.restore_open(&self.config, restored, self.restarted, net::now());
            (is_kept, &self.smb_opens)
        };
        opens.fetch_add(usize::from(is_kept), Ordering::Relaxed);
    }

    fn lose(&self, client: ClientKey, note: &[u8]) {
        if is_claimed(note) {
            self.nfs.lose(client, note);
        }
    }
}

impl Drop for ShareRestorer {
    /// All opens of the share are restored.
    fn drop(&mut self) {
        let smb = self.smb_opens.load(Ordering::Relaxed);
        let nfs = self.nfs_opens.load(Ordering::Relaxed);
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let share = &self.config.name;
        tracing::info!(%share, smb, nfs, ms, "all opens from before the restart wait for their clients");
    }
}

/// The threads that restore opens behind the requests. Dropping it stops them.
#[derive(Default)]
pub struct Restoring(Arc<RestoringThreads>);

#[derive(Default)]
struct RestoringThreads {
    state: Mutex<ThreadState>,
    /// The server stops, or a thread has ended.
    changed: Condvar,
}

#[derive(Default)]
struct ThreadState {
    is_over: bool,
    running: usize,
}

/// One thread of those. It is counted until this is dropped.
struct CountedThread(Arc<RestoringThreads>);

impl Drop for CountedThread {
    fn drop(&mut self) {
        held(&self.0.state).running -= 1;
        self.0.changed.notify_all();
    }
}

impl Restoring {
    /// Restores all opens of these shares.
    pub fn start(&self, engines: &[Arc<share::Share>]) {
        if engines.is_empty() {
            return;
        }
        held(&self.0.state).running += 1;
        let counted = CountedThread(Arc::clone(&self.0));
        let left: Vec<_> = engines.iter().map(Arc::downgrade).collect();
        let spawned = thread::Builder::new().name("restore".into()).spawn(move || counted.0.restore(left));
        if let Err(why) = spawned {
            tracing::warn!(%why, "the host has no thread to restore opens; requests restore them");
        }
    }

    /// Stops the threads. Opens that are not restored stay recorded.
    pub fn stop(&self) {
        let mut state = held(&self.0.state);
        state.is_over = true;
        self.0.changed.notify_all();
        let is_running = |state: &mut ThreadState| state.running > 0;
        let waited = self.0.changed.wait_timeout_while(state, MOST_STOP, is_running);
        if waited.is_ok_and(|(_, waited)| waited.timed_out()) {
            tracing::warn!("a store does not answer: opens from before the restart were still restored");
        }
    }
}

impl Drop for Restoring {
    fn drop(&mut self) {
        self.stop();
    }
}

impl RestoringThreads {
    /// Restores the opens of these shares. Files that the host fails to open are tried again and again, with
    /// a pause that grows.
    fn restore(&self, mut left: Vec<Weak<share::Share>>) {
        let mut pause = FIRST_PAUSE;
        loop {
            self.run_round(&left.iter().filter_map(Weak::upgrade).collect::<Vec<_>>());
            left.retain(|engine| engine.upgrade().is_some_and(|engine| engine.is_restoring()));
            if left.is_empty() || self.is_over_within(pause) {
                return;
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Tries each file once.
    fn run_round(&self, engines: &[Arc<share::Share>]) {
        engines.iter().for_each(|engine| engine.restore_again());
        let work = || {
            for engine in engines {
                while !held(&self.state).is_over && engine.restore_next() {}
            }
        };
        let files: usize = engines.iter().map(|engine| engine.unrestored_files()).sum();
        thread::scope(|scope| {
            for _ in 1..THREADS.min(files) {
                // If the host has no more threads, the others do the work.
                let _spawned = thread::Builder::new().name("restore".into()).spawn_scoped(scope, work);
            }
            work();
        });
    }

    /// Waits so long. Returns true as soon as the server stops.
    fn is_over_within(&self, pause: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(held(&self.state), pause, |state: &mut ThreadState| !state.is_over);
        waited.is_ok_and(|(state, _)| state.is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::mpsc::{Receiver, channel};

    use smb_wire::create_context::{Contexts, DurableFlags, RequestContext};
    use testkit::smb::client::OpenFile;
    use testkit::smb::{SmbTestServer, Store};
    use volume::Failure;
    use volume::faulty::{FaultPlan, VolumeCall};

    const ENOUGH: Duration = Duration::from_secs(20);

    /// A server after a restart, with one handle that is not restored. Its disk fails to open the file.
    fn failing() -> (SmbTestServer, Arc<FaultPlan>) {
        let mut store = Store::new();
        let (flags, create_guid) = (DurableFlags::PERSISTENT, smb_wire::Guid([1; 16]));
        let asked = [RequestContext::DurableHandleRequestV2 { timeout: 0, flags, create_guid }];
        let contexts = Contexts::Requests(&asked);
        store.serve().client().create(&OpenFile { contexts, ..OpenFile::named("f") }).file_id();
        let (world, plan) = store.serve_faulty();
        plan.always(VolumeCall::Lookup, Some(Failure::Io));
        (world, plan)
    }

    /// Tells of each call of the disk.
    fn watch(plan: &FaultPlan) -> Receiver<()> {
        let (calls, called) = channel();
        let calls = Mutex::new(calls);
        plan.slow_down(move || {
            let _sent = held(&calls).send(());
        });
        called
    }

    fn running(restoring: &Restoring) -> usize {
        held(&restoring.0.state).running
    }

    #[test]
    fn a_file_that_the_disk_fails_to_open_is_tried_again_after_a_pause() {
        let (world, plan) = failing();
        let called = watch(&plan);
        let (restoring, begun) = (Restoring::default(), Instant::now());
        restoring.start(&[Arc::clone(&world.engine)]);
        (0..3).for_each(|_| called.recv_timeout(ENOUGH).expect("the file is tried again"));
        assert!(begun.elapsed() >= FIRST_PAUSE * 3, "the second pause is twice as long");
        plan.always(VolumeCall::Lookup, None);
        let is_running = |state: &mut ThreadState| state.running > 0;
        let ended = restoring.0.changed.wait_timeout_while(held(&restoring.0.state), ENOUGH, is_running);
        assert!(!ended.unwrap().1.timed_out());
        assert!(!world.engine.is_restoring());
        assert_eq!(world.engine.open_count(), 1);
    }

    #[test]
    fn the_server_stops_while_the_disk_fails() {
        let (world, plan) = failing();
        let called = watch(&plan);
        let restoring = Restoring::default();
        restoring.start(&[Arc::clone(&world.engine)]);
        called.recv_timeout(ENOUGH).expect("the file is tried");
        assert_eq!(running(&restoring), 1);
        restoring.stop();
        assert_eq!(running(&restoring), 0);
        assert!(world.engine.is_restoring(), "its record stays");
    }
}
