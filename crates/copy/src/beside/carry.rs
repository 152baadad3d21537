//! Takes what a file has beside its data to its copy, before that gets its name; and the same for directories, when
//! nothing more is put into them.

use bytes::Bytes;
use client::remote::Attributes;

use super::{Beside, Given, Lost};
use crate::error::{Done, Fault};
use crate::job::Job;
use crate::keep::Keep;
use crate::shared::Shared;
use crate::tree::File;
use crate::tree::facts::lent;
use crate::tree::like::Like;

/// Takes it from `reader` to `writer`, which is the file `part` until it is whole.
/// Answers what else the copy shall be like.
pub(crate) async fn carry(
    shared: &Shared,
    reader: &File,
    writer: &File,
    job: &Job,
    part: &str,
) -> Done<Like> {
    let keep = &shared.plan.keep;
    let like = keep.like(&job.facts);
    if !keep.is_more() && !keep.streams {
        return Ok(like);
    }
    let beside = reader.beside(keep).await?;
    let facts = as_it_is(reader, &job.facts, keep).await?;
    let like = keep.like(&facts);
    let found = Beside { mode: facts.mode, ..beside };
    // Streams alone are nothing to be set.
    let given = if keep.is_more() { writer.set_beside(&found, keep).await? } else { Given::default() };
    streams(shared, &found, &job.from, part).await?;
    shared.lose(&given.lost);
    Ok(like.beside(&given, facts.kind))
}

/// A file whose bits lend the rights of its owner as it is when its owner has been read: what was listed may be another file's.
async fn as_it_is(reader: &File, listed: &Attributes, keep: &Keep) -> Done<Attributes> {
    if !keep.owners || listed.special() & lent(listed.kind) == 0 {
        return Ok(*listed);
    }
    let facts = reader.facts().await?;
    if facts.looks_like(listed) { Ok(facts) } else { Err(Fault::Changed) }
}

/// The same for the directory `path`, which the source has at `from`.
pub(crate) async fn carry_directory(
    shared: &Shared,
    from: &str,
    path: &str,
    facts: &Attributes,
) -> Done<Like> {
    let keep = &shared.plan.keep;
    let like = keep.like(facts);
    if !keep.is_more() && !keep.streams {
        return Ok(like);
    }
    let found = Beside { mode: facts.mode, ..shared.source.beside(from, keep).await? };
    let given =
        if keep.is_more() { shared.target.set_beside(path, &found, keep).await? } else { Given::default() };
    streams(shared, &found, from, path).await?;
    shared.lose(&given.lost);
    Ok(like.beside(&given, facts.kind))
}

/// Copies named streams, one after the other.
async fn streams(shared: &Shared, found: &Beside, from: &str, to: &str) -> Done<()> {
    for (name, size) in &found.streams {
        let target = match shared.target.create_stream(to, name).await {
            Err(fault) if fault.is_unsupported() => {
                shared.lose(&[Lost::Stream]);
                return Ok(());
            }
            other => other?,
        };
        let source = match shared.source.open_stream(from, name).await {
            Ok(source) => source,
            Err(fault) => {
                // What counts is why there is nothing to be copied.
                let _ = target.close().await;
                return Err(fault);
            }
        };
        let copied = fill(shared, &source, &target, *size).await;
        let closed = target.close().await;
        // All that was wanted of it has been read.
        let _ = source.close().await;
        copied.and(closed)?;
    }
    Ok(())
}

async fn fill(shared: &Shared, source: &File, target: &File, size: u64) -> Done<()> {
    let mut at = 0;
    while at < size {
        let length = shared.piece().min(size - at);
        let _permit = shared.permit(length).await?;
        shared.pace.take(length).await;
        let data: Bytes = source.read(at, length as u32).await?;
        if data.is_empty() {
            return Err(Fault::Changed);
        }
        target.write(at, &data).await?;
        at += data.len() as u64;
    }
    Ok(())
}
