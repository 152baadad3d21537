//! One file from one side to the other.
//!
//! A small one is read in one round trip and written in one or two. A large one is moved in many pieces at once, which
//! the client spreads over the channels of each side. Both are written under a name of their own and get their final
//! one when they are whole.
//!
//! Pieces of a large file are begun in order, and none further than [`WINDOW`] behind the first that is not done ([`Front`]).
//! So of what a broken copy has left, all but the last [`WINDOW`] bytes is known to be there, and the next copy goes on
//! from there: nothing else has to be remembered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::Plan;
use crate::beside::Lost;
use crate::beside::carry::carry;
use crate::beside::kept;
use crate::error::{Done, Fault};
use crate::front::Front;
use crate::inside::{self, AtServer};
use crate::link::{self, Outcome};
use crate::mirror::LinkChecks;
use crate::name;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::survey::Job;
use crate::tree::inside::{AT_ONCE, Inside};
use crate::tree::{Carried, Facts, File, Kind, Spot, Tree, join, split};
use crate::widen::Trial;

/// Bytes of one piece at most.
pub(crate) const PIECE: u32 = 1024 * 1024;
/// Pieces of one file that are under way at once for each connection, with as many to spare for one that is added, and in
/// all: enough for a long path, and not so many that everything waits in the end for what a slow connection was given.
const DEPTH: usize = 8;
const DEEPEST: usize = 32;
/// What all files that are under way at once may take of memory, in bytes, and in what steps that is counted.
const ROOM: usize = 96 * 1024 * 1024;
const STEP: usize = 4096;
/// How far behind the first piece that is not done others may be begun, in bytes. It is several times what is under way,
/// since one connection may be far slower than the others.
const WINDOW: u64 = 128 * 1024 * 1024;
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
    fn depth(&self) -> usize {
        ((self.width.load(Ordering::Relaxed).max(1) + 1) * DEPTH).min(DEEPEST)
    }

    /// Room for so many bytes in memory.
    pub(crate) async fn permit(&self, bytes: u64) -> Done<OwnedSemaphorePermit> {
        let closed = |_| Fault::Said("the copy is over".to_owned());
        let steps = bytes.div_ceil(STEP as u64).clamp(1, (ROOM / STEP) as u64) as u32;
        Arc::clone(&self.room).acquire_many_owned(steps).await.map_err(closed)
    }
}

/// Waits before a further attempt, longer each time, and looks for a server that may be gone.
struct Pauses(Duration);

impl Pauses {
    fn new() -> Pauses {
        Pauses(PAUSE)
    }

    async fn after(&mut self, shared: &Shared, fault: &Fault) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
        if fault.is_interruption() {
            // When this is of no use, the next attempt says why.
            let _ = tokio::join!(shared.source.revive(), shared.target.revive());
        }
    }
}

/// Does what may be done twice, again and again as files are copied.
pub(crate) async fn patiently<T, F>(shared: &Shared, what: impl FnMut() -> F) -> Done<T>
where
    F: Future<Output = Done<T>>,
{
    patiently_where(shared, Fault::may_pass, what).await
}

/// The same where `may_pass` says whether another attempt may fare better.
pub(crate) async fn patiently_where<T, F>(
    shared: &Shared,
    may_pass: impl Fn(&Fault) -> bool,
    mut what: impl FnMut() -> F,
) -> Done<T>
where
    F: Future<Output = Done<T>>,
{
    let all = async {
        let mut pauses = Pauses::new();
        for _ in 0..shared.plan.retries {
            match what().await {
                Err(fault) if may_pass(&fault) => pauses.after(shared, &fault).await,
                done => return done,
            }
        }
        what().await
    };
    shared.unless_over(all).await
}

/// Copies a file or a link. What most files do not need is boxed: all of this is moved for each of them.
pub(crate) async fn copy(shared: &Arc<Shared>, job: &Job) -> Done<Outcome> {
    if job.facts.kind == Kind::Link {
        return Box::pin(patiently(shared, || link::copy(shared, job))).await;
    }
    if let Some(first) = &job.twin
        && Box::pin(patiently(shared, || link::join_names(shared, first, job))).await?
    {
        return Ok(Outcome::Made(job.facts.size));
    }
    let size = shared.unless_over(Box::pin(again_and_again(shared, job))).await?;
    let is_parted = job.facts.node.is_some() && (job.twin.is_some() || !shared.plan.hard_links);
    if is_parted {
        shared.lose(&[Lost::HardLink]);
    }
    Ok(Outcome::Made(size))
}

async fn again_and_again(shared: &Arc<Shared>, job: &Job) -> Done<u64> {
    let mut job = job.clone();
    let mut pauses = Pauses::new();
    for attempt in 0..shared.plan.retries {
        let fault = match once(shared, &job, attempt).await {
            Ok(()) => return done(shared, &job).await,
            Err(fault) if fault.may_pass() => fault,
            Err(fault) => return Err(fault),
        };
        Box::pin(pauses.after(shared, &fault)).await;
        if fault.is_interruption() {
            continue;
        }
        match Box::pin(shared.source.stat(&job.from)).await {
            Ok(Some(now)) if now.kind == Kind::File => job.facts = now,
            // It is gone, or something else by now.
            Ok(_) => return Err(Fault::Changed),
            // The next attempt is made all the same, and knows what it began with.
            Err(fault) if fault.may_pass() => {}
            Err(fault) => return Err(fault),
        }
    }
    Box::pin(once(shared, &job, shared.plan.retries)).await?;
    done(shared, &job).await
}

/// Looks what the target has kept of a file that is whole. Answers its size.
async fn done(shared: &Shared, job: &Job) -> Done<u64> {
    kept::check(shared, &job.path, &job.facts).await?;
    Ok(job.facts.size)
}

async fn once(shared: &Arc<Shared>, job: &Job, attempt: u32) -> Done<()> {
    let size = job.facts.size;
    let is_small = shared.plan.is_plain() && shared.is_small(size) && !shared.at_server.takes(size);
    if is_small && small(shared, job, attempt).await? {
        return Ok(());
    }
    Box::pin(large(shared, job)).await
}

/// Copies a file that fits one piece. False when it has more than that takes, and nothing was done.
async fn small(shared: &Shared, job: &Job, attempt: u32) -> Done<bool> {
    let Job { from, path, facts, spot, .. } = job;
    let _permit = shared.permit(facts.size).await?;
    shared.pace.take(facts.size).await;
    let content = match facts.size {
        // One that is empty may have streams.
        0 if !shared.plan.keep.streams => Bytes::new(),
        size => {
            let fetched = shared.source.fetch(from, size).await?;
            if !fetched.facts.looks_like(facts) || fetched.content.len() as u64 != size {
                return Err(Fault::Changed);
            }
            if fetched.has_streams {
                return Ok(false);
            }
            fetched.content
        }
    };
    let like = shared.plan.keep.like(facts);
    let above = split(path).0;
    let first = join(above, &part_of(path, facts));
    if attempt == 0 {
        shared.target.put(path, &first, &content, &like, *spot).await?;
    } else {
        // What an attempt on a lost connection has sent may still come to be done, to a name that is not this one; or to
        // one that is taken by then, which it leaves alone.
        let of = [&shared.nonce[..], &attempt.to_le_bytes()].concat();
        let part = join(above, &name::part(split(path).1, &of));
        shared.target.put(path, &part, &content, &like, Spot::Taken).await?;
        // There may be none.
        let _ = shared.target.remove(&first).await;
    }
    shared.progress.moved(facts.size);
    Ok(true)
}

/// The name that a file has while it is made: the same in every copy of it as it is now, so that the next one finds what
/// a broken one has left.
pub(crate) fn part_of(path: &str, facts: &Facts) -> String {
    let of = [facts.size.to_le_bytes(), (facts.modified.div_euclid(100) as i64).to_le_bytes()].concat();
    name::part(split(path).1, &of)
}

async fn large(shared: &Arc<Shared>, job: &Job) -> Done<()> {
    let Job { from, path, facts, .. } = job;
    let part = join(split(path).0, &part_of(path, facts));
    let reader = Arc::new(shared.source.open_file(from).await?);
    let inside = inside::open(shared, from, facts).await?.map(Arc::new);
    let done = match shared.target.create(&part, true, &shared.plan.keep.like(facts)).await {
        Ok(writer) => {
            let done =
                make(shared, &Sources { reader: &reader, inside: inside.as_ref() }, writer, job, &part).await;
            if done.as_ref().is_err_and(|fault| !fault.is_interruption()) {
                // Only what the loss of a server has left is gone on with.
                let _ = shared.target.remove(&part).await;
            }
            done
        }
        // What is there may be what a lost session has left and still has open.
        Err(fault) => Err(fault),
    };
    if let Some(inside) = inside.and_then(Arc::into_inner) {
        // All that was wanted of it has been copied.
        let _ = inside.close().await;
    }
    if let Ok(reader) = Arc::try_unwrap(reader) {
        // All that was wanted of it has been read.
        let _ = reader.close().await;
    }
    done
}

/// The source of one file.
struct Sources<'a> {
    /// As this host reads it.
    reader: &'a Arc<File>,
    /// As its server copies it by itself.
    inside: Option<&'a Arc<Inside>>,
}

/// Fills the file `part`, which is open, and gives it its name.
async fn make(shared: &Arc<Shared>, sources: &Sources<'_>, writer: File, job: &Job, part: &str) -> Done<()> {
    let (writer, reader) = (Arc::new(writer), sources.reader);
    let filled = fill(shared, sources, &writer, &job.facts).await;
    let Ok(writer) = Arc::try_unwrap(writer) else {
        return Err(Fault::Said("a piece of it is still under way".to_owned()));
    };
    let carried = match filled {
        Ok(()) => carry(shared, reader, &writer, job, part).await,
        Err(fault) => Err(fault),
    };
    match carried {
        Ok(like) => shared.target.finish(writer, part, &job.path, &like).await,
        Err(fault) => {
            // What counts is why it was not filled.
            let _ = writer.close().await;
            Err(fault)
        }
    }
}

/// Fills `writer` with what `reader` has, from where an earlier copy stopped.
async fn fill(shared: &Arc<Shared>, sources: &Sources<'_>, writer: &Arc<File>, facts: &Facts) -> Done<()> {
    let reader = sources.reader;
    let (read, written) = tokio::try_join!(reader.opened(), writer.opened())?;
    if !read.looks_like(facts) {
        return Err(Fault::Changed);
    }
    let piece = u64::from(shared.piece);
    let mut have = written.size;
    let start = match have <= facts.size {
        true => have.saturating_sub(shared.window) / piece * piece,
        false => 0,
    };
    if facts.sparse && have > start {
        // What is left out behind it must be a hole there too, whatever an earlier copy has left.
        writer.set_length(start).await?;
        have = start;
    }
    shared.progress.moved(start);
    let (done, moved) = pieces(shared, sources, writer, facts, start).await;
    let Written { hashes, end } = match done {
        Ok(done) => done,
        Err(fault) => {
            shared.progress.back(start + moved);
            return Err(fault);
        }
    };
    let rest = async {
        if have.max(end) != facts.size {
            writer.set_length(facts.size).await?;
        }
        writer.settle_data(shared.plan.sync).await?;
        if shared.plan.verify {
            verify(shared, reader, writer, facts, &hashes).await?;
        }
        let copied = match sources.inside {
            Some(inside) => inside.facts().await?.looks_like(facts),
            None => true,
        };
        match copied && reader.facts().await?.looks_like(facts) {
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

/// What was written of a file.
#[derive(Debug, Default)]
struct Written {
    /// The hash of each piece by where it begins, where that is wanted.
    hashes: BTreeMap<u64, Hash>,
    /// Where the last piece ends that was not left out as a hole.
    end: u64,
}

/// Moves all pieces from `start` on. Answers what was written, and how many bytes were moved.
async fn pieces(
    shared: &Arc<Shared>,
    sources: &Sources<'_>,
    writer: &Arc<File>,
    facts: &Facts,
    start: u64,
) -> (Done<Written>, u64) {
    let (mut tasks, reader) = (JoinSet::new(), sources.reader);
    // Small pieces leave more holes.
    let piece = if sources.inside.is_some() && !facts.sparse { AT_ONCE } else { shared.piece() };
    let mut front = Front::new(start, facts.size, piece, shared.window.max(piece), writer.may_lose());
    let (mut written, mut moved) = (Written::default(), 0);
    let mut sparse = facts.sparse;
    let all = async {
        loop {
            if let Some(up_to) = front.ask() {
                let writer = Arc::clone(writer);
                tasks.spawn(async move { writer.settle_data(false).await.map(|()| Step::Kept(up_to)) });
            }
            if front.is_open(shared.depth()) {
                if sparse {
                    let data = reader.data_from(front.next(), piece).await?;
                    // LinkChecks only where there is one, and before anything behind it is written.
                    sparse = data == front.next() || writer.keeps_holes().await?;
                    let skipped = if sparse { front.skip(data) } else { 0 };
                    moved += skipped;
                    shared.progress.moved(skipped);
                }
                if let Some((at, length)) = front.begin() {
                    let permit = shared.permit(length).await?;
                    shared.pace.take(length).await;
                    let (reader, writer) = (Arc::clone(reader), Arc::clone(writer));
                    let hashed = shared.plan.verify;
                    let (shared, inside) = (Arc::clone(shared), sources.inside.cloned());
                    tasks.spawn(async move {
                        let _permit = permit;
                        if let Some(inside) = inside {
                            let moved = copy_inside(&shared, &inside, &reader, &writer, at, length).await;
                            return moved.map(|()| Step::Moved(Moved::by_server(at, length)));
                        }
                        move_piece(&reader, &writer, at, length as u32, sparse, hashed).await.map(Step::Moved)
                    });
                    continue;
                }
            }
            let Some(done) = tasks.join_next().await else { return Ok(()) };
            let ended = |why| Fault::Said(format!("a piece of it ended early: {why}"));
            let Moved { at, length, is_hole, hash } = match done.map_err(ended)?? {
                Step::Moved(moved) => moved,
                Step::Kept(up_to) => {
                    front.keep(up_to);
                    continue;
                }
            };
            front.end(at);
            moved += u64::from(length);
            shared.progress.moved(u64::from(length));
            written.hashes.extend(hash.map(|hash| (at, hash)));
            if !is_hole {
                written.end = written.end.max(at + u64::from(length));
            }
        }
    };
    let all: Done<()> = all.await;
    tasks.shutdown().await;
    (all.map(|()| written), moved)
}

/// What is done of a file.
enum Step {
    Moved(Moved),
    /// The target will keep what it has up to here.
    Kept(u64),
}

/// A piece that was moved: where it begins, its length, whether it is a hole, and its hash where that is wanted.
struct Moved {
    at: u64,
    length: u32,
    is_hole: bool,
    hash: Option<Hash>,
}

impl Moved {
    /// A piece that the server has copied. What it is read back against is the source.
    fn by_server(at: u64, length: u64) -> Moved {
        Moved { at, length: length as u32, is_hole: false, hash: None }
    }
}

/// Has the server copy one piece, or moves it in several where it refuses.
async fn copy_inside(
    shared: &Shared,
    inside: &Inside,
    reader: &File,
    writer: &File,
    at: u64,
    length: u64,
) -> Done<()> {
    if inside::copy(shared, inside, writer, at, length).await? {
        return Ok(());
    }
    let mut done = 0;
    while done < length {
        let next = shared.piece().min(length - done);
        move_piece(reader, writer, at + done, next as u32, false, false).await?;
        done += next;
    }
    Ok(())
}

/// Moves one piece.
async fn move_piece(
    reader: &File,
    writer: &File,
    at: u64,
    length: u32,
    sparse: bool,
    hashed: bool,
) -> Done<Moved> {
    let data = reader.read(at, length).await?;
    if data.len() != length as usize {
        return Err(Fault::Changed);
    }
    let hash = hashed.then(|| hash(&data));
    // A hole stays one.
    let is_hole = sparse && data.iter().all(|byte| *byte == 0) && writer.keeps_holes().await?;
    if !is_hole {
        writer.write(at, &data).await?;
    }
    Ok(Moved { at, length, is_hole, hash })
}

/// Reads back all of `writer` and holds it against `hashes`; where there is none, against zeros if `reader` has a hole
/// there, and else against what it has, which an earlier copy has written.
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
            let permit = shared.permit(u64::from(length)).await?;
            let (reader, writer) = (Arc::clone(reader), Arc::clone(writer));
            let mut expected = hashes.get(&at).copied();
            if expected.is_none()
                && facts.sparse
                && reader.data_from(at, piece).await? >= at + u64::from(length)
            {
                expected = Some(hash(&vec![0; length as usize]));
            }
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
