//! One file from one side to the other.
//!
//! A small one is read in one round trip and written in one or two. A large one is moved in many pieces at once, which
//! the client spreads over the channels of each side. Both are written under a name of their own and get their final
//! one when they are whole.
//!
//! Pieces of a large file are begun in order, and none further than [`WINDOW`] behind the first that is not done. So
//! of what a broken copy has left, all but the last [`WINDOW`] bytes is known to be there, and the next copy goes on
//! from there: nothing else has to be remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::error::{Done, Fault};
use crate::name;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::survey::Job;
use crate::tree::{Facts, File, Tree, join, split};
use crate::widen::Trial;
use crate::{Plan, widen};

/// Bytes of one piece at most.
const PIECE: u32 = 1024 * 1024;
/// Pieces of one file that are under way at once for each connection, and in all: enough for a long path, and not so
/// many that a connection that is added finds nothing left to do.
const DEPTH: usize = 16;
const DEEPEST: usize = 64;
/// Pieces of all files that are under way at once, which is also what they take of memory.
const PIECES: usize = 96;
/// How far behind the first piece that is not done others may be begun, in bytes.
const WINDOW: u64 = 64 * 1024 * 1024;
/// How long to wait before a file is tried again; twice as long each time.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What all files of a copy share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) source: Tree,
    pub(crate) target: Tree,
    pub(crate) progress: Progress,
    piece: u32,
    /// [`WINDOW`], but for tests.
    pub(crate) window: u64,
    room: Arc<Semaphore>,
    pace: Pace,
    /// Connections to the server that has more.
    width: AtomicUsize,
    /// What was moved so far, in bytes, with something for each file.
    moved: AtomicU64,
    trials: Mutex<Vec<Trial>>,
    /// Tells the parts of further attempts from those of others.
    nonce: [u8; 16],
}

type Hash = [u8; 32];

fn hash(data: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, data).as_ref());
    hash
}

impl Shared {
    pub(crate) fn new(plan: Plan, source: Tree, target: Tree, progress: Progress) -> Shared {
        let piece = PIECE.min(source.max_io()).min(target.max_io());
        let (room, pace) = (Arc::new(Semaphore::new(PIECES)), Pace::new(plan.rate));
        let (width, moved, trials) = (AtomicUsize::new(1), AtomicU64::new(0), Mutex::default());
        let nonce = auth::crypto::random();
        let window = WINDOW;
        Shared { plan, source, target, progress, piece, window, room, pace, width, moved, trials, nonce }
    }

    /// So much of a file has got from one side to the other.
    fn count(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.progress.moved(bytes);
    }

    /// What was moved so far; only for comparison with itself.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Bytes of one piece.
    pub(crate) fn piece(&self) -> u64 {
        u64::from(self.piece)
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

    /// Pieces of one file that may be under way.
    fn depth(&self) -> usize {
        (self.width.load(Ordering::Relaxed).max(1) * DEPTH).min(DEEPEST)
    }

    /// Room for one more piece in memory.
    async fn permit(&self) -> Done<OwnedSemaphorePermit> {
        let closed = |_| Fault::Said("the copy is over".to_owned());
        Arc::clone(&self.room).acquire_owned().await.map_err(closed)
    }
}

/// Copies a file. Answers its size.
pub(crate) async fn copy(shared: &Arc<Shared>, job: &Job) -> Done<u64> {
    let mut job = job.clone();
    let mut pause = PAUSE;
    for attempt in 0..shared.plan.retries {
        let fault = match once(shared, &job, attempt).await {
            Ok(()) => return Ok(job.facts.size),
            Err(fault) if fault.may_pass() => fault,
            Err(fault) => return Err(fault),
        };
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        if fault.is_interruption() {
            // When this is of no use, the next attempt says why.
            let _ = shared.source.revive().await;
            let _ = shared.target.revive().await;
        } else if let Some(now) = shared.source.stat(&job.from).await? {
            job.facts = now;
        } else {
            return Err(Fault::Changed);
        }
    }
    once(shared, &job, shared.plan.retries).await.map(|()| job.facts.size)
}

async fn once(shared: &Arc<Shared>, job: &Job, attempt: u32) -> Done<()> {
    if job.facts.size < u64::from(shared.piece) && !shared.plan.verify && !shared.plan.sync {
        small(shared, job, attempt).await
    } else {
        large(shared, job).await
    }
}

async fn small(shared: &Shared, job: &Job, attempt: u32) -> Done<()> {
    let Job { from, path, facts } = job;
    let _permit = shared.permit().await?;
    shared.pace.take(facts.size).await;
    let content = match facts.size {
        0 => Bytes::new(),
        size => {
            let (content, now) = shared.source.fetch(from, size).await?;
            if !now.looks_like(facts) || content.len() as u64 != size {
                return Err(Fault::Changed);
            }
            content
        }
    };
    let above = split(path).0;
    let first = join(above, &part_of(path, facts));
    if attempt == 0 {
        shared.target.put(path, &first, &content, facts).await?;
    } else {
        // What an attempt on a lost connection has sent may still come to be done, to a name that is not this one.
        let of = [&shared.nonce[..], &attempt.to_le_bytes()].concat();
        let part = join(above, &name::part(split(path).1, &of));
        shared.target.put(path, &part, &content, facts).await?;
        // There may be none.
        let _ = shared.target.remove(&first).await;
    }
    shared.moved.fetch_add(widen::FILE, Ordering::Relaxed);
    shared.count(facts.size);
    Ok(())
}

/// The name that a file has while it is made: the same in every copy of it as it is now, so that the next one finds what
/// a broken one has left.
pub(crate) fn part_of(path: &str, facts: &Facts) -> String {
    let of = [facts.size.to_le_bytes(), facts.modified.div_euclid(100).to_le_bytes()].concat();
    name::part(split(path).1, &of)
}

async fn large(shared: &Arc<Shared>, job: &Job) -> Done<()> {
    let Job { from, path, facts } = job;
    let part = join(split(path).0, &part_of(path, facts));
    let reader = Arc::new(shared.source.open_file(from).await?);
    let done = async {
        let writer = Arc::new(shared.target.create(&part, true).await?);
        let filled = fill(shared, &reader, &writer, facts).await;
        let Ok(writer) = Arc::try_unwrap(writer) else {
            return Err(Fault::Said("a piece of it is still under way".to_owned()));
        };
        match filled {
            Ok(()) => shared.target.finish(writer, &part, path, facts).await,
            Err(fault) => {
                // What counts is why it was not filled.
                let _ = writer.close().await;
                Err(fault)
            }
        }
    };
    let done = done.await;
    if let Ok(reader) = Arc::try_unwrap(reader) {
        // All that was wanted of it has been read.
        let _ = reader.close().await;
    }
    if done.as_ref().is_err_and(|fault| !fault.is_interruption()) {
        // Only what the loss of a server has left is gone on with.
        let _ = shared.target.remove(&part).await;
    }
    done
}

/// Fills `writer` with what `reader` has, from where an earlier copy stopped.
async fn fill(shared: &Arc<Shared>, reader: &Arc<File>, writer: &Arc<File>, facts: &Facts) -> Done<()> {
    if !reader.facts().await?.looks_like(facts) {
        return Err(Fault::Changed);
    }
    let piece = u64::from(shared.piece);
    let have = writer.facts().await?.size;
    let start = match have <= facts.size {
        true => have.saturating_sub(shared.window) / piece * piece,
        false => 0,
    };
    shared.progress.moved(start);
    let (hashes, moved) = pieces(shared, reader, writer, facts, start).await;
    let hashes = match hashes {
        Ok(hashes) => hashes,
        Err(fault) => {
            shared.progress.back(start + moved);
            return Err(fault);
        }
    };
    let rest = async {
        writer.set_length(facts.size).await?;
        writer.settle_data(shared.plan.sync).await?;
        if shared.plan.verify {
            verify(shared, reader, writer, facts, &hashes).await?;
        }
        match reader.facts().await?.looks_like(facts) {
            true => Ok(()),
            false => Err(Fault::Changed),
        }
    };
    let done = rest.await;
    if done.is_err() {
        shared.progress.back(start + moved);
    }
    done
}

/// Moves all pieces from `start` on. Answers the hash of each by where it begins, and how many bytes were moved.
async fn pieces(
    shared: &Arc<Shared>,
    reader: &Arc<File>,
    writer: &Arc<File>,
    facts: &Facts,
    start: u64,
) -> (Done<BTreeMap<u64, Hash>>, u64) {
    let piece = u64::from(shared.piece);
    let (mut tasks, mut under_way) = (JoinSet::new(), BTreeSet::new());
    let (mut hashes, mut next, mut moved) = (BTreeMap::new(), start, 0);
    let all = async {
        loop {
            let in_window =
                |first: Option<&u64>| first.is_none_or(|first| next + piece <= first + shared.window);
            if next < facts.size && under_way.len() < shared.depth() && in_window(under_way.first()) {
                if facts.sparse {
                    let data = reader.data_from(next).await?.min(facts.size);
                    let skipped = data.saturating_sub(next) / piece * piece;
                    let skipped = if data == facts.size { facts.size - next } else { skipped };
                    next += skipped;
                    moved += skipped;
                    shared.progress.moved(skipped);
                    if next >= facts.size {
                        continue;
                    }
                }
                let length = piece.min(facts.size - next);
                let permit = shared.permit().await?;
                shared.pace.take(length).await;
                let (reader, writer) = (Arc::clone(reader), Arc::clone(writer));
                let (at, sparse, hashed) = (next, facts.sparse, shared.plan.verify);
                tasks.spawn(async move {
                    let _permit = permit;
                    move_piece(&reader, &writer, at, length as u32, sparse, hashed).await
                });
                under_way.insert(next);
                next += length;
                continue;
            }
            let Some(done) = tasks.join_next().await else { return Ok(()) };
            let ended = |why| Fault::Said(format!("a piece of it ended early: {why}"));
            let (at, length, hash) = done.map_err(ended)??;
            under_way.remove(&at);
            moved += u64::from(length);
            shared.count(u64::from(length));
            hashes.extend(hash.map(|hash| (at, hash)));
        }
    };
    let all: Done<()> = all.await;
    tasks.shutdown().await;
    (all.map(|()| hashes), moved)
}

/// Moves one piece. Answers where it begins, its length, and its hash where that is wanted.
async fn move_piece(
    reader: &File,
    writer: &File,
    at: u64,
    length: u32,
    sparse: bool,
    hashed: bool,
) -> Done<(u64, u32, Option<Hash>)> {
    let data = reader.read(at, length).await?;
    if data.len() != length as usize {
        return Err(Fault::Changed);
    }
    let hash = hashed.then(|| hash(&data));
    // A hole stays one.
    if !(sparse && data.iter().all(|byte| *byte == 0)) {
        writer.write(at, &data).await?;
    }
    Ok((at, length, hash))
}

/// Reads back all of `writer` and holds it against `hashes`; against `reader` where there is none, since an earlier
/// copy has written it or it is a hole.
async fn verify(
    shared: &Arc<Shared>,
    reader: &Arc<File>,
    writer: &Arc<File>,
    facts: &Facts,
    hashes: &BTreeMap<u64, Hash>,
) -> Done<()> {
    let piece = u64::from(shared.piece);
    let mut tasks = JoinSet::new();
    let (mut at, mut done) = (0, Ok(()));
    while done.is_ok() && (at < facts.size || !tasks.is_empty()) {
        if at < facts.size && tasks.len() < shared.depth() {
            let length = piece.min(facts.size - at) as u32;
            let permit = shared.permit().await?;
            let (reader, writer) = (Arc::clone(reader), Arc::clone(writer));
            let expected = hashes.get(&at).copied();
            tasks.spawn(async move {
                let _permit = permit;
                let expected = match expected {
                    Some(expected) => expected,
                    None => hash(&reader.read(at, length).await?),
                };
                match hash(&writer.read(at, length).await?) == expected {
                    true => Ok(()),
                    false => Err(Fault::Differs),
                }
            });
            at += u64::from(length);
        } else if let Some(ended) = tasks.join_next().await {
            let early = |why| Err(Fault::Said(format!("reading back ended early: {why}")));
            done = ended.unwrap_or_else(early);
        }
    }
    tasks.shutdown().await;
    done
}
