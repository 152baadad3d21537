//! Copies the sidecar data of a file before the copy gets its name, and that of a directory when it is
//! complete.

use bytes::Bytes;
use client::remote::Attributes;

use super::{Lost, Sidecar, SidecarOutcome};
use crate::context::CopyContext;
use crate::error::{Fault, FileResult};
use crate::job::Job;
use crate::preserve::PreservedParts;
use crate::tree::File;
use crate::tree::listing::lent;
use crate::tree::target_attributes::TargetAttributes;

/// Copies it from `reader` to `writer`, which is the file `part` until it is complete. Returns the other
/// attributes to set.
pub(crate) async fn carry(
    shared: &CopyContext,
    reader: &File,
    writer: &File,
    job: &Job,
    part: &str,
) -> FileResult<TargetAttributes> {
    let keep = &shared.plan.keep;
    let like = keep.like(&job.attributes);
    if !keep.is_more() && !keep.streams {
        return Ok(like);
    }
    let beside = reader.sidecar(keep).await?;
    let attributes = as_it_is(reader, &job.attributes, keep).await?;
    let like = keep.like(&attributes);
    let found = Sidecar { mode: attributes.mode, ..beside };
    // Streams alone need no setting.
    let given =
        if keep.is_more() { writer.set_sidecar(&found, keep).await? } else { SidecarOutcome::default() };
    streams(shared, &found, &job.from, part).await?;
    shared.lose(&given.lost);
    Ok(like.with_sidecar(&given, attributes.kind))
}

/// The attributes of a file whose bits lend the rights of its owner, read after its owner. The listed
/// attributes may belong to another file.
async fn as_it_is(reader: &File, listed: &Attributes, keep: &PreservedParts) -> FileResult<Attributes> {
    if !keep.owners || listed.special() & lent(listed.kind) == 0 {
        return Ok(*listed);
    }
    let attributes = reader.attributes().await?;
    if attributes.looks_like(listed) { Ok(attributes) } else { Err(Fault::Changed) }
}

/// Does the same for the directory `path`, which is `from` in the source.
pub(crate) async fn carry_directory(
    shared: &CopyContext,
    from: &str,
    path: &str,
    attributes: &Attributes,
) -> FileResult<TargetAttributes> {
    let keep = &shared.plan.keep;
    let like = keep.like(attributes);
    if !keep.is_more() && !keep.streams {
        return Ok(like);
    }
    let found = Sidecar { mode: attributes.mode, ..shared.source.sidecar(from, keep).await? };
    let given = if keep.is_more() {
        shared.target.set_sidecar(path, &found, keep).await?
    } else {
        SidecarOutcome::default()
    };
    streams(shared, &found, from, path).await?;
    shared.lose(&given.lost);
    Ok(like.with_sidecar(&given, attributes.kind))
}

/// Copies named streams, one after the other.
async fn streams(shared: &CopyContext, found: &Sidecar, from: &str, to: &str) -> FileResult<()> {
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
                // The caller gets the first error.
                let _ = target.close().await;
                return Err(fault);
            }
        };
        let copied = fill(shared, &source, &target, *size).await;
        let closed = target.close().await;
        // All needed data has been read.
        let _ = source.close().await;
        copied.and(closed)?;
    }
    Ok(())
}

async fn fill(shared: &CopyContext, source: &File, target: &File, size: u64) -> FileResult<()> {
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
