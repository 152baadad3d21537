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
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use client::remote::{Attributes, Kind};
use tokio::task::JoinSet;

use crate::beside::carry::carry;
use crate::beside::{Lost, kept};
use crate::error::{Done, Fault};
use crate::front::Front;
use crate::inside;
use crate::job::{Job, part_of};
use crate::link::{self, Outcome};
use crate::name;
use crate::name::{join, split};
use crate::patience::{Pauses, patiently};
use crate::shared::Shared;
use crate::tree::File;
use crate::tree::facts::Spot;
use crate::tree::inside::{AT_ONCE, Inside};

type Hash = [u8; 32];

fn hash(data: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, data).as_ref());
    hash
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
async fn fill(
    shared: &Arc<Shared>,
    sources: &Sources<'_>,
    writer: &Arc<File>,
    facts: &Attributes,
) -> Done<()> {
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
    facts: &Attributes,
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
    facts: &Attributes,
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
