//! Has the server that both sides are at copy a file by itself, and says what becomes of a piece where it does not.

use std::sync::atomic::Ordering;

use client::remote::Attributes;

use crate::error::Done;
use crate::shared::Shared;
use crate::tree::File;
use crate::tree::inside::Inside;

/// Opens the source `from` at the server, if that is to copy it. None where it refuses, or has another file by that name:
/// then it is copied as ever.
pub(crate) async fn open(shared: &Shared, from: &str, facts: &Attributes) -> Done<Option<Inside>> {
    if !shared.at_server.takes(facts.size) || !shared.at_server.is_one(&shared.source, &shared.target).await?
    {
        return Ok(None);
    }
    let inside = match shared.target.open_inside(&shared.source, from).await {
        Ok(inside) => inside,
        Err(fault) => return shared.at_server.refused(fault).map(|()| None),
    };
    match inside.opened().await {
        Ok(found) if found.looks_like(facts) => return Ok(Some(inside)),
        Ok(_) => {}
        Err(fault) => shared.at_server.refused(fault)?,
    }
    // Nothing is wanted of it.
    let _ = inside.close().await;
    Ok(None)
}

/// Has the server copy a piece. False where it refuses.
pub(crate) async fn copy(
    shared: &Shared,
    inside: &Inside,
    writer: &File,
    at: u64,
    length: u64,
) -> Done<bool> {
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
