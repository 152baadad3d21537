//! Whether the server of both sides copies files by itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::OnceCell;

use crate::error::{Fault, FileResult};
use crate::tree::Tree;

/// The size from which a file is not worth its way to this host and back.
const LEAST: u64 = 64 * 1024;

/// The knowledge about a server that both sides may be on.
#[derive(Debug)]
pub(crate) struct OffloadState {
    /// Whether it is one server, which has not refused to copy.
    copies: AtomicBool,
    /// Whether both sides have proven that it is one server. The first file queries it once.
    is_one: OnceCell<bool>,
    /// The bytes that it has copied.
    pub(crate) bytes: AtomicU64,
}

impl OffloadState {
    pub(crate) fn of(source: &Tree, target: &Tree) -> OffloadState {
        let copies = AtomicBool::new(target.is_at_server_of(source));
        OffloadState { copies, is_one: OnceCell::new(), bytes: AtomicU64::new(0) }
    }

    /// Whether it should copy a file of `size` bytes.
    pub(crate) fn takes(&self, size: u64) -> bool {
        size >= LEAST && self.copies.load(Ordering::Relaxed)
    }

    /// The bytes that it has copied.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Checks that the server of the target has the source itself, and not another directory of the same
    /// name.
    pub(crate) async fn is_one(&self, source: &Tree, target: &Tree) -> FileResult<bool> {
        let ask = || async {
            match target.has_root_of(source).await {
                Err(fault) if fault.is_interruption() => Err(fault),
                // Something unknown is not relied on.
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

    /// Notes a refusal. Returns any other fault, which ends the attempt.
    pub(crate) fn refused(&self, fault: Fault) -> FileResult<()> {
        if fault.is_interruption() || fault.is_full() {
            return Err(fault);
        }
        if fault.refuses_kind() {
            self.copies.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}
