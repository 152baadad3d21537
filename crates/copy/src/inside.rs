//! Whether the server that both sides are at copies a file by itself, and what becomes of a piece where it does not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Done, Fault};
use crate::file::Shared;
use crate::tree::inside::Inside;
use crate::tree::{File, Tree};

/// From so many bytes on a file is not worth its way to this host and back.
const LEAST: u64 = 64 * 1024;

/// What is known of a server that both sides may be at.
#[derive(Debug)]
pub(crate) struct AtServer {
    /// Whether it is one server, which has not refused to copy.
    copies: AtomicBool,
    /// Bytes that it has copied.
    bytes: AtomicU64,
}

impl AtServer {
    pub(crate) fn of(source: &Tree, target: &Tree) -> AtServer {
        let copies = AtomicBool::new(target.is_at_server_of(source));
        AtServer { copies, bytes: AtomicU64::new(0) }
    }

    /// Whether a file of `size` bytes is to be copied there.
    pub(crate) fn takes(&self, size: u64) -> bool {
        size >= LEAST && self.copies.load(Ordering::Relaxed)
    }

    /// Bytes that it has copied.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
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

/// Opens the source `from` at the server, if that is to copy it. None where it refuses: then it is copied as ever.
pub(crate) async fn open(shared: &Shared, from: &str, size: u64) -> Done<Option<Inside>> {
    if !shared.at_server.takes(size) {
        return Ok(None);
    }
    match shared.target.open_inside(&shared.source, from).await {
        Ok(inside) => Ok(Some(inside)),
        Err(fault) => shared.at_server.refused(fault).map(|()| None),
    }
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
