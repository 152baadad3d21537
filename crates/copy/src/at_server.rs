//! Whether the server that both sides are at copies files by itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::OnceCell;

use crate::error::{Done, Fault};
use crate::tree::Tree;

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
    pub(crate) bytes: AtomicU64,
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
    pub(crate) async fn is_one(&self, source: &Tree, target: &Tree) -> Done<bool> {
        let ask = || async {
            match target.has_root_of(source).await {
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
    pub(crate) fn refused(&self, fault: Fault) -> Done<()> {
        if fault.is_interruption() || fault.is_full() {
            return Err(fault);
        }
        if fault.refuses_kind() {
            self.copies.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}
