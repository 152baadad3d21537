//! Whether the server that both sides are at copies a file by itself, and what becomes of a piece where it does not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::OnceCell;

use crate::error::{Done, Fault};
use crate::file::Shared;
use crate::tree::inside::Inside;
use crate::tree::{Facts, File, Tree};

/// From so many bytes on a file is not worth its way to this host and back.
const LEAST: u64 = 64 * 1024;

/// What is known of a server that both sides may be at.
#[derive(Debug)]
pub(crate) struct AtServer {
    /// Whether it is one server, which has not refused to copy.
    copies: AtomicBool,
    /// Whether both sides have shown that it is one: asked once, by the first file.
    is_one: OnceCell<bool>,
    /// Bytes that it has copied.
    bytes: AtomicU64,
}

impl AtServer {
    pub(crate) fn of(source: &Tree, target: &Tree) -> AtServer {
        let copies = AtomicBool::new(target.is_at_server_of(source));
        AtServer { copies, is_one: OnceCell::new(), bytes: AtomicU64::new(0) }
    }

    /// Whether a file of `size` bytes is to be copied there.
    pub(crate) fn takes(&self, size: u64) -> bool {
        size >= LEAST && self.copies.load(Ordering::Relaxed)
    }

    /// Bytes that it has copied.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Makes sure that the server of the target has the source itself, and not something else by its name.
    async fn is_one(&self, shared: &Shared) -> Done<bool> {
        let ask = || async {
            match shared.target.has_root_of(&shared.source).await {
                Err(fault) if fault.is_interruption() => Err(fault),
                // What cannot be known is not relied on.
                Err(_) => Ok(false),
                known => known,
            }
        };
        let is_one = *self.is_one.get_or_try_init(ask).await?;
        if !is_one {
            self.copies.store(false, Ordering::Relaxed);
        }
        Ok(is_one)
    }

    /// Takes notice of a refusal. Answers what is none: that ends the attempt.
    fn refused(&self, fault: Fault) -> Done<()> {
        if fault.is_interruption() || fault.is_full() {
            return Err(fault);
        }
        if fault.refuses_kind() {
            self.copies.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Opens the source `from` at the server, if that is to copy it. None where it refuses, or has another file by that name:
/// then it is copied as ever.
pub(crate) async fn open(shared: &Shared, from: &str, facts: &Facts) -> Done<Option<Inside>> {
    if !shared.at_server.takes(facts.size) || !shared.at_server.is_one(shared).await? {
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
