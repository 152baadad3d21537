//! The shared state of the files of a copy.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::Plan;
use crate::channel::Trial;
use crate::error::{Fault, FileResult};
use crate::link_checks::LinkChecks;
use crate::offload::OffloadState;
use crate::progress::Progress;
use crate::rate_limit::Pace;
use crate::sidecar::Lost;
use crate::tree::Tree;
use crate::tree::path_traffic::PathTraffic;

/// The most bytes of one piece.
pub(crate) const PIECE: u32 = 1024 * 1024;

/// The memory of all files in flight, in bytes, and the unit in which it is counted.
const ROOM: usize = 96 * 1024 * 1024;

const STEP: usize = 4096;

/// The distance after the first unfinished piece within which further pieces may begin, in bytes. It is
/// several times the data in flight, because one connection may be far slower than the others.
const WINDOW: u64 = 128 * 1024 * 1024;

/// The pieces of one file in flight for each connection, with as many in reserve for a further connection,
/// and the most in all. They suffice for a long path. With more, everything would wait in the end for the
/// pieces of a slow connection.
const DEPTH: usize = 8;

const DEEPEST: usize = 32;

/// The shared state of all files of a copy.
#[derive(Debug)]
pub(crate) struct CopyContext {
    pub(crate) plan: Plan,
    pub(crate) source: Tree,
    pub(crate) target: Tree,
    pub(crate) progress: Progress,
    pub(crate) piece: u32,
    /// [`WINDOW`], except in tests.
    pub(crate) window: u64,
    room: Arc<Semaphore>,
    pub(crate) pace: Pace,
    /// The connections to the server with more of them.
    width: AtomicUsize,
    /// Whether small files have sessions of their own, or are about to get them.
    split: AtomicBool,
    trials: Mutex<Vec<Trial>>,
    /// The kinds of data that the target could not hold, with counts.
    lost: Mutex<BTreeMap<Lost, u64>>,
    /// The names, folded, and sizes in the source's root, if a mirror must recognise it.
    pub(crate) root: OnceLock<BTreeMap<String, u64>>,
    pub(crate) asked: LinkChecks,
    /// Whether the whole copy has ended.
    over: watch::Sender<bool>,
    /// Whether both sides are on one server that copies by itself.
    pub(crate) at_server: OffloadState,
    /// Makes the temporary names of further attempts unique.
    pub(crate) nonce: [u8; 16],
}

impl CopyContext {
    pub(crate) fn new(plan: Plan, source: Tree, target: Tree, progress: Progress) -> CopyContext {
        let piece = PIECE.min(source.max_io()).min(target.max_io());
        let (room, pace) = (Arc::new(Semaphore::new(ROOM / STEP)), Pace::new(plan.rate));
        let (width, split) = (AtomicUsize::new(1), AtomicBool::new(false));
        let (trials, lost) = (Mutex::default(), Mutex::default());
        let nonce = auth::crypto::random();
        let (window, over) = (WINDOW, watch::Sender::new(false));
        let at_server = OffloadState::of(&source, &target);
        CopyContext {
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

    /// The bytes of one piece.
    pub(crate) fn piece(&self) -> u64 {
        u64::from(self.piece)
    }

    /// Counts data that the target could not hold. Each kind is reported once.
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

    /// Whether a file of this size is moved in one piece.
    pub(crate) fn is_small(&self, size: u64) -> bool {
        size < u64::from(self.piece)
    }

    /// The bytes that the connections to both sides have carried.
    pub(crate) fn carried(&self) -> PathTraffic {
        let (source, target) = (self.source.carried(), self.target.carried());
        let bytes = source.bytes + target.bytes;
        PathTraffic { bytes, round_trip: source.round_trip.max(target.round_trip) }
    }

    pub(crate) fn note(&self, trial: Trial) {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner).push(trial);
    }

    pub(crate) fn trials(&self) -> Vec<Trial> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the number of connections to the server with more of them.
    pub(crate) fn set_width(&self, channels: usize) {
        self.width.store(channels, Ordering::Relaxed);
    }

    /// Notes that small files have sessions of their own from now on. Returns false if they had them before.
    pub(crate) fn set_split(&self) -> bool {
        !self.split.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_split(&self) -> bool {
        // Only shares have sessions for small files.
        let is_share = self.source.is_share() || self.target.is_share();
        is_share && self.split.load(Ordering::Relaxed)
    }

    /// Ends all work.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
    }

    /// Whether the whole copy has ended.
    pub(crate) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// The result of `work`, unless the whole copy ends before.
    pub(crate) async fn unless_over<T>(&self, work: impl Future<Output = FileResult<T>>) -> FileResult<T> {
        let mut over = self.over.subscribe();
        tokio::select! {
            biased;
            _ = over.wait_for(|is_over| *is_over) => Err(Fault::Over),
            done = work => done,
        }
    }

    /// Whether a server is lost altogether, not just one of several connections to it.
    pub(crate) fn is_lost(&self) -> bool {
        self.source.is_lost() || self.target.is_lost()
    }

    /// The most pieces of one file in flight.
    pub(crate) fn depth(&self) -> usize {
        ((self.width.load(Ordering::Relaxed).max(1) + 1) * DEPTH).min(DEEPEST)
    }

    /// Reserves memory for `bytes`.
    pub(crate) async fn permit(&self, bytes: u64) -> FileResult<OwnedSemaphorePermit> {
        let closed = |_| Fault::Said("the copy is over".to_owned());
        let steps = bytes.div_ceil(STEP as u64).clamp(1, (ROOM / STEP) as u64) as u32;
        Arc::clone(&self.room).acquire_many_owned(steps).await.map_err(closed)
    }
}

/// The number of small files from which it pays to make them faster.
pub(crate) const MANY: usize = 64;
