//! What the files of a copy share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::Plan;
use crate::at_server::AtServer;
use crate::beside::Lost;
use crate::channel::Trial;
use crate::error::{Done, Fault};
use crate::link_checks::LinkChecks;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::tree::Tree;
use crate::tree::carried::Carried;

/// Bytes of one piece at most.
pub(crate) const PIECE: u32 = 1024 * 1024;

/// What all files that are under way at once may take of memory, in bytes, and in what steps that is counted.
const ROOM: usize = 96 * 1024 * 1024;

const STEP: usize = 4096;

/// How far behind the first piece that is not done others may be begun, in bytes. It is several times what is under way,
/// since one connection may be far slower than the others.
const WINDOW: u64 = 128 * 1024 * 1024;

/// Pieces of one file that are under way at once for each connection, with as many to spare for one that is added, and in
/// all: enough for a long path, and not so many that everything waits in the end for what a slow connection was given.
const DEPTH: usize = 8;

const DEEPEST: usize = 32;

/// What all files of a copy share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) source: Tree,
    pub(crate) target: Tree,
    pub(crate) progress: Progress,
    pub(crate) piece: u32,
    /// [`WINDOW`], but for tests.
    pub(crate) window: u64,
    room: Arc<Semaphore>,
    pub(crate) pace: Pace,
    /// Connections to the server that has more.
    width: AtomicUsize,
    /// Whether small files have sessions of their own, or are about to.
    split: AtomicBool,
    trials: Mutex<Vec<Trial>>,
    /// What the target could not hold, and how often.
    lost: Mutex<BTreeMap<Lost, u64>>,
    /// What the source has where the copy begins, if that is how it must be known: names without regard to case, and
    /// sizes.
    pub(crate) root: OnceLock<BTreeMap<String, u64>>,
    pub(crate) asked: LinkChecks,
    /// Whether the whole copy has ended, and nothing is of any use any more.
    over: watch::Sender<bool>,
    /// Whether both sides are at one server, which copies by itself.
    pub(crate) at_server: AtServer,
    /// Tells the parts of further attempts from those of others.
    pub(crate) nonce: [u8; 16],
}

impl Shared {
    pub(crate) fn new(plan: Plan, source: Tree, target: Tree, progress: Progress) -> Shared {
        let piece = PIECE.min(source.max_io()).min(target.max_io());
        let (room, pace) = (Arc::new(Semaphore::new(ROOM / STEP)), Pace::new(plan.rate));
        let (width, split) = (AtomicUsize::new(1), AtomicBool::new(false));
        let (trials, lost) = (Mutex::default(), Mutex::default());
        let nonce = auth::crypto::random();
        let (window, over) = (WINDOW, watch::Sender::new(false));
        let at_server = AtServer::of(&source, &target);
        Shared {
            plan,
            source,
            target,
            progress,
            piece,
            window,
            room,
            pace,
            width,
            split,
            trials,
            lost,
            root: OnceLock::new(),
            asked: LinkChecks::default(),
            over,
            at_server,
            nonce,
        }
    }

    /// Bytes of one piece.
    pub(crate) fn piece(&self) -> u64 {
        u64::from(self.piece)
    }

    /// Counts what the target could not hold; each kind is said once.
    pub(crate) fn lose(&self, lost: &[Lost]) {
        let mut counts = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in lost {
            let count = counts.entry(*kind).or_default();
            if *count == 0 {
                let (name, why) = (kind.name(), kind.why());
                self.progress
                    .say(&format!("trunkline: {name} are not kept: {why} (said once, counted at the end)"));
            }
            *count += 1;
        }
    }

    pub(crate) fn lost(&self) -> BTreeMap<Lost, u64> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a file of so many bytes is moved in one piece.
    pub(crate) fn is_small(&self, size: u64) -> bool {
        size < u64::from(self.piece)
    }

    /// What the connections to both sides have carried.
    pub(crate) fn carried(&self) -> Carried {
        let (source, target) = (self.source.carried(), self.target.carried());
        let bytes = source.bytes + target.bytes;
        Carried { bytes, round_trip: source.round_trip.max(target.round_trip) }
    }

    pub(crate) fn note(&self, trial: Trial) {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner).push(trial);
    }

    pub(crate) fn trials(&self) -> Vec<Trial> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// There are so many connections to the server that has more.
    pub(crate) fn set_width(&self, channels: usize) {
        self.width.store(channels, Ordering::Relaxed);
    }

    /// From now on small files have sessions of their own. False when they had before.
    pub(crate) fn set_split(&self) -> bool {
        !self.split.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_split(&self) -> bool {
        // Nobody else makes sessions for them.
        let is_share = self.source.is_share() || self.target.is_share();
        is_share && self.split.load(Ordering::Relaxed)
    }

    /// Ends whatever is under way.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
    }

    /// Whether the whole copy has ended.
    pub(crate) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// What comes of `work`, unless the whole copy ends before.
    pub(crate) async fn unless_over<T>(&self, work: impl Future<Output = Done<T>>) -> Done<T> {
        let mut over = self.over.subscribe();
        tokio::select! {
            biased;
            _ = over.wait_for(|is_over| *is_over) => Err(Fault::Over),
            done = work => done,
        }
    }

    /// Whether a server is lost altogether, and not only one of several connections to it.
    pub(crate) fn is_lost(&self) -> bool {
        self.source.is_lost() || self.target.is_lost()
    }

    /// Pieces of one file that may be under way.
    pub(crate) fn depth(&self) -> usize {
        ((self.width.load(Ordering::Relaxed).max(1) + 1) * DEPTH).min(DEEPEST)
    }

    /// Room for so many bytes in memory.
    pub(crate) async fn permit(&self, bytes: u64) -> Done<OwnedSemaphorePermit> {
        let closed = |_| Fault::Said("the copy is over".to_owned());
        let steps = bytes.div_ceil(STEP as u64).clamp(1, (ROOM / STEP) as u64) as u32;
        Arc::clone(&self.room).acquire_many_owned(steps).await.map_err(closed)
    }
}

/// From so many small files on, what makes them quicker is worth its beginning.
pub(crate) const MANY: usize = 64;
