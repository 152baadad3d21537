//! Makes the server of both sides copy a file by itself, with a fallback for each piece that it refuses.

use std::sync::atomic::Ordering;

use client::remote::Attributes;

use crate::context::CopyContext;
use crate::error::FileResult;
use crate::tree::File;
use crate::tree::offload::OffloadSource;

/// Opens the source `from` on the server, if the server is to copy it. Returns none if the server refuses, or
/// has another file of that name. The file is then copied over the network.
pub(crate) async fn open(
    shared: &CopyContext,
    from: &str,
    attributes: &Attributes,
) -> FileResult<Option<OffloadSource>> {
    if !shared.at_server.takes(attributes.size)
        || !shared.at_server.is_one(&shared.source, &shared.target).await?
    {
        return Ok(None);
    }
    let inside = match shared.target.open_offload(&shared.source, from).await {
        Ok(inside) => inside,
        Err(fault) => return shared.at_server.refused(fault).map(|()| None),
    };
    if inside.opened().looks_like(attributes) {
        return Ok(Some(inside));
    }
    // Its data is not needed, so the result does not matter.
    let _ = inside.close().await;
    Ok(None)
}

/// Makes the server copy a piece. Returns false if it refuses.
pub(crate) async fn copy(
    shared: &CopyContext,
    inside: &OffloadSource,
    writer: &File,
    at: u64,
    length: u64,
) -> FileResult<bool> {
    if !shared.at_server.takes(u64::MAX) {
        return Ok(false);
    }
    match inside.copy(writer, at, length).await {
        Ok(()) => {
            shared.at_server.bytes.fetch_add(length, Ordering::Relaxed);
            Ok(true)
        }
        Err(fault) => shared.at_server.refused(fault).map(|()| false),
    }
}
