//! Copies one file from one side to the other.
//!
//! A small file is read in one round trip and written in one or two. A large file is moved in many pieces at
//! once, which the client spreads over the channels of each side. Both get a temporary name first and their
//! final name when they are complete.
//!
//! The pieces of a large file begin in order, and none further than `WINDOW` after the first unfinished one
//! ([`PieceWindow`]). So all but the last `WINDOW` bytes of a file from a broken copy are known to be
//! written, and the next copy continues from there without any other record.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use client::remote::{Attributes, Kind};
use tokio::task::JoinSet;

use crate::context::CopyContext;
use crate::error::{Fault, FileResult};
use crate::job::{Job, part_of};
use crate::link::{self, Outcome};
use crate::name;
use crate::name::{join, split};
use crate::retry::{Pauses, patiently};
use crate::server_copy;
use crate::sidecar::carry::carry;
use crate::sidecar::{Lost, silent_losses};
use crate::tree::File;
use crate::tree::listing::TargetName;
use crate::tree::offload::{AT_ONCE, OffloadSource};
use crate::window::PieceWindow;

type Hash = [u8; 32];

fn hash(data: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, data).as_ref());
    hash
}

/// Copies a file or a link. Rare work is boxed, because the whole future is moved for each file.
pub(crate) async fn copy(shared: &Arc<CopyContext>, job: &Job) -> FileResult<Outcome> {
    if job.attributes.kind == Kind::Link {
        return Box::pin(patiently(shared, || link::copy(shared, job))).await;
    }
    if let Some(first) = &job.twin
        && Box::pin(patiently(shared, || link::join_names(shared, first, job))).await?
    {
        return Ok(Outcome::Made(job.attributes.size));
    }
    let size = shared.unless_over(Box::pin(again_and_again(shared, job))).await?;
    let is_parted = job.attributes.node.is_some() && (job.twin.is_some() || !shared.plan.hard_links);
    if is_parted {
        shared.lose(&[Lost::HardLink]);
    }
    Ok(Outcome::Made(size))
}

async fn again_and_again(shared: &Arc<CopyContext>, job: &Job) -> FileResult<u64> {
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
            Ok(Some(now)) if now.kind == Kind::File => job.attributes = now,
            // It is gone, or is something else by now.
            Ok(_) => return Err(Fault::Changed),
            // The next attempt is made all the same, with the attributes of the first one.
            Err(fault) if fault.may_pass() => {}
            Err(fault) => return Err(fault),
        }
    }
    Box::pin(once(shared, &job, shared.plan.retries)).await?;
    done(shared, &job).await
}

/// Checks what the target has kept of a complete file. Returns its size.
async fn done(shared: &CopyContext, job: &Job) -> FileResult<u64> {
    silent_losses::check(shared, &job.path, &job.attributes).await?;
    Ok(job.attributes.size)
}

async fn once(shared: &Arc<CopyContext>, job: &Job, attempt: u32) -> FileResult<()> {
    let size = job.attributes.size;
    let is_small = shared.plan.is_plain() && shared.is_small(size) && !shared.at_server.takes(size);
    if is_small && small(shared, job, attempt).await? {
        return Ok(());
    }
    Box::pin(large(shared, job)).await
}

/// Copies a file that fits one piece. Returns false if it has more than that, and nothing was done.
async fn small(shared: &CopyContext, job: &Job, attempt: u32) -> FileResult<bool> {
    let Job { from, path, attributes, spot, .. } = job;
    let _permit = shared.permit(attributes.size).await?;
    shared.pace.take(attributes.size).await;
    let content = match attributes.size {
        // An empty file may have streams.
        0 if !shared.plan.keep.streams => Bytes::new(),
        size => {
            let fetched = shared.source.fetch(from, size).await?;
            if !fetched.attributes.looks_like(attributes) || fetched.content.len() as u64 != size {
                return Err(Fault::Changed);
            }
            if fetched.has_streams {
                return Ok(false);
            }
            fetched.content
        }
    };
    let like = shared.plan.keep.like(attributes);
    let above = split(path).0;
    let first = join(above, &part_of(path, attributes));
    if attempt == 0 {
        shared.target.put(path, &first, &content, &like, *spot).await?;
    } else {
        // A request of an attempt on a lost connection may still be carried out. It then affects another
        // name, or one that exists by then, which it leaves alone.
        let of = [&shared.nonce[..], &attempt.to_le_bytes()].concat();
        let part = join(above, &name::part(split(path).1, &of));
        shared.target.put(path, &part, &content, &like, TargetName::Taken).await?;
        // There may be none.
        let _ = shared.target.remove(&first).await;
    }
    shared.progress.moved(attributes.size);
    Ok(true)
}

async fn large(shared: &Arc<CopyContext>, job: &Job) -> FileResult<()> {
    let Job { from, path, attributes, .. } = job;
    let part = join(split(path).0, &part_of(path, attributes));
    let reader = Arc::new(shared.source.open_file(from).await?);
    let inside = server_copy::open(shared, from, attributes).await?.map(Arc::new);
    let done = match shared.target.create(&part, &shared.plan.keep.like(attributes)).await {
        Ok(writer) => {
            let done =
                make(shared, &Sources { reader: &reader, inside: inside.as_ref() }, writer, job, &part).await;
            if done.as_ref().is_err_and(|fault| !fault.is_interruption()) {
                // A copy only continues files that the loss of a server has left.
                let _ = shared.target.remove(&part).await;
            }
            done
        }
        // The file may belong to a lost session, and still be open in it.
        Err(fault) => Err(fault),
    };
    if let Some(inside) = inside.and_then(Arc::into_inner) {
        // All needed data has been copied.
        let _ = inside.close().await;
    }
    if let Ok(reader) = Arc::try_unwrap(reader) {
        // All needed data has been read.
        let _ = reader.close().await;
    }
    done
}

/// The source of one file.
struct Sources<'a> {
    /// The file as this host reads it.
    reader: &'a Arc<File>,
    /// The file as its server copies it by itself.
    inside: Option<&'a Arc<OffloadSource>>,
}

/// Fills the open file `part`, and renames it to its final name.
async fn make(
    shared: &Arc<CopyContext>,
    sources: &Sources<'_>,
    writer: File,
    job: &Job,
    part: &str,
) -> FileResult<()> {
    let (writer, reader) = (Arc::new(writer), sources.reader);
    let filled = fill(shared, sources, &writer, &job.attributes).await;
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
            // The caller gets the first error.
            let _ = writer.close().await;
            Err(fault)
        }
    }
}

/// Fills `writer` with the data of `reader`, from the place where an earlier copy stopped.
async fn fill(
    shared: &Arc<CopyContext>,
    sources: &Sources<'_>,
    writer: &Arc<File>,
    attributes: &Attributes,
) -> FileResult<()> {
    let reader = sources.reader;
    let (read, written) = (reader.opened(), writer.opened());
    if !read.looks_like(attributes) {
        return Err(Fault::Changed);
    }
    let piece = u64::from(shared.piece);
    let mut have = written.size;
    let start = match have <= attributes.size {
        true => have.saturating_sub(shared.window) / piece * piece,
        false => 0,
    };
    if attributes.sparse && have > start {
        // An omitted range must be a hole in the target too, whatever an earlier copy has left there.
        writer.set_length(start).await?;
        have = start;
    }
    shared.progress.moved(start);
    let (done, moved) = pieces(shared, sources, writer, attributes, start).await;
    let Written { hashes, end } = match done {
        Ok(done) => done,
        Err(fault) => {
            shared.progress.back(start + moved);
            return Err(fault);
        }
    };
    let rest = async {
        if have.max(end) != attributes.size {
            writer.set_length(attributes.size).await?;
        }
        writer.settle_data(shared.plan.sync).await?;
        if shared.plan.verify {
            verify(shared, reader, writer, attributes, &hashes).await?;
        }
        let copied = match sources.inside {
            Some(inside) => inside.attributes().await?.looks_like(attributes),
            None => true,
        };
        match copied && reader.attributes().await?.looks_like(attributes) {
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

/// The written data of a file.
#[derive(Debug, Default)]
struct Written {
    /// The hash of each piece by its offset, if hashes are needed.
    hashes: BTreeMap<u64, Hash>,
    /// The end of the last piece that was not omitted as a hole.
    end: u64,
}

/// Moves all pieces from `start` on. Returns the written data, and the number of moved bytes.
async fn pieces(
    shared: &Arc<CopyContext>,
    sources: &Sources<'_>,
    writer: &Arc<File>,
    attributes: &Attributes,
    start: u64,
) -> (FileResult<Written>, u64) {
    let (mut tasks, reader) = (JoinSet::new(), sources.reader);
    // Smaller pieces leave more holes.
    let piece = if sources.inside.is_some() && !attributes.sparse { AT_ONCE } else { shared.piece() };
    let mut front =
        PieceWindow::new(start, attributes.size, piece, shared.window.max(piece), writer.may_lose());
    let (mut written, mut moved) = (Written::default(), 0);
    let mut sparse = attributes.sparse;
    let all = async {
        loop {
            if let Some(up_to) = front.ask() {
                let writer = Arc::clone(writer);
                tasks.spawn(async move { writer.settle_data(false).await.map(|()| Step::Kept(up_to)) });
            }
            if front.is_open(shared.depth()) {
                if sparse {
                    let data = reader.data_from(front.next(), piece).await?;
                    // The target is asked only if there is a hole, and before anything after it is written.
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
    let all: FileResult<()> = all.await;
    tasks.shutdown().await;
    (all.map(|()| written), moved)
}

/// The result of one task of a file.
enum Step {
    Moved(Moved),
    /// The target has committed all data up to here.
    Kept(u64),
}

/// A moved piece: its offset, its length, whether it is a hole, and its hash if it is needed.
struct Moved {
    at: u64,
    length: u32,
    is_hole: bool,
    hash: Option<Hash>,
}

impl Moved {
    /// A piece that the server has copied. It is verified against the source.
    fn by_server(at: u64, length: u64) -> Moved {
        Moved { at, length: length as u32, is_hole: false, hash: None }
    }
}

/// Makes the server copy one piece, or moves it in several pieces if the server refuses.
async fn copy_inside(
    shared: &CopyContext,
    inside: &OffloadSource,
    reader: &File,
    writer: &File,
    at: u64,
    length: u64,
) -> FileResult<()> {
    if server_copy::copy(shared, inside, writer, at, length).await? {
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

/// Moves the piece of `length` bytes at `at` from `reader` to `writer`.
async fn move_piece(
    reader: &File,
    writer: &File,
    at: u64,
    length: u32,
    sparse: bool,
    hashed: bool,
) -> FileResult<Moved> {
    let data = reader.read(at, length).await?;
    if data.len() != length as usize {
        return Err(Fault::Changed);
    }
    let hash = hashed.then(|| hash(&data));
    // A hole stays a hole.
    let is_hole = sparse && data.iter().all(|byte| *byte == 0) && writer.keeps_holes().await?;
    if !is_hole {
        writer.write(at, &data).await?;
    }
    Ok(Moved { at, length, is_hole, hash })
}

/// Reads all of `writer` back and compares it with `hashes`. A piece without a hash is compared with zeros if
/// `reader` has a hole there, or else with the data of `reader`, because an earlier copy has written it.
async fn verify(
    shared: &Arc<CopyContext>,
    reader: &Arc<File>,
    writer: &Arc<File>,
    attributes: &Attributes,
    hashes: &BTreeMap<u64, Hash>,
) -> FileResult<()> {
    let piece = u64::from(shared.piece);
    let mut tasks = JoinSet::new();
    let (mut at, mut done) = (0, Ok(()));
    while done.is_ok() && (at < attributes.size || !tasks.is_empty()) {
        if at < attributes.size && tasks.len() < shared.depth() {
            let length = piece.min(attributes.size - at) as u32;
            let permit = shared.permit(u64::from(length)).await?;
            let (reader, writer) = (Arc::clone(reader), Arc::clone(writer));
            let mut expected = hashes.get(&at).copied();
            if expected.is_none()
                && attributes.sparse
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
