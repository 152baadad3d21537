//! Changes under way on an Open. They must not take effect after their session has ended and its client has
//! gone on.
//!
//! A WRITE may be stuck in a slow volume while its session ends, by a LOGOFF on another channel or a new
//! session that replaces it. From then on no change of that session begins any more ([`Changes`]). A client
//! that reconnects to the Open, or opens the file in its place, waits until the changes that had begun are
//! over (`connection/pending_changes.rs`). No section of the specification asks for that. Within a session
//! the ChannelSequence does the same ([`crate::state::sequence`]).
//!
//! A CLOSE also waits for read-only operations on the blocking pool ([`ReadInProgress`]). A client may send
//! a CLOSE without waiting for the reply to a READ, and that READ came in time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use share::{ClientKey, Share, Ticket};
use smb_wire::SmbCommand;

use super::Open;
use super::changes::{AWAITED, COUNT, Changes};
use crate::table::EntryGuard;

/// The operations whose end is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingUntil {
    /// All changes.
    Unchanged,
    /// All changes and all read-only operations.
    Idle,
}

impl Open {
    /// Whether this value is in the current life of the Open: the Open was neither closed nor detached
    /// since.
    pub(crate) fn is_alive(&self) -> bool {
        self.per_request.changes.life() == self.life
    }

    pub(crate) fn is_over(&self, until: PendingUntil) -> bool {
        let pending_reads = || self.pending_reads.0.load(Ordering::Acquire);
        !self.per_request.changes.are_under_way()
            && (until == PendingUntil::Unchanged || pending_reads() == 0)
    }

    /// Wakes this ticket after the last operation, or earlier. Returns false if there is nothing to wait
    /// for.
    pub(crate) fn await_end(&self, engine: &Share, ticket: Ticket, until: PendingUntil) -> bool {
        let Changes(word) = &self.per_request.changes;
        let mut waiting = self.end_waiters.0.lock();
        // This is in one order with `end_read`: either that sees the mark, or this sees no read-only
        // operation.
        let is_unchanged = word.fetch_or(AWAITED, Ordering::SeqCst) & COUNT == 0;
        let pending_reads = || self.pending_reads.0.load(Ordering::SeqCst);
        if is_unchanged && (until == PendingUntil::Unchanged || pending_reads() == 0) {
            if waiting.is_empty() {
                word.fetch_and(!AWAITED, Ordering::AcqRel);
            }
            return false;
        }
        // Cancelled waiters are removed.
        waiting.retain(|&ticket| engine.is_waiting(ticket));
        waiting.push(ticket);
        true
    }

    fn end_change(&self) {
        if self.per_request.changes.end() {
            self.wake_waiters();
        }
    }

    fn end_read(&self) {
        let Changes(word) = &self.per_request.changes;
        let is_last = self.pending_reads.0.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && word.load(Ordering::SeqCst) & AWAITED != 0 {
            self.wake_waiters();
        }
    }

    #[cold]
    fn wake_waiters(&self) {
        let mut waiting = self.end_waiters.0.lock();
        self.per_request.changes.0.fetch_and(!AWAITED, Ordering::AcqRel);
        let woken = std::mem::take(&mut *waiting);
        drop(waiting);
        if let Some((engine, _)) = self.file() {
            woken.into_iter().for_each(|ticket| engine.wake(ticket));
        }
    }
}

/// The Open of a request. If the request changes the Open, the change is under way until this value is
/// dropped.
pub(crate) struct RequestOpen {
    open: EntryGuard<Open>,
    changes: bool,
}

impl RequestOpen {
    /// The Open for a request with this command. Returns `None` if the Open was just closed or detached.
    /// Then nothing may be changed.
    #[inline]
    pub fn new(open: EntryGuard<Open>, command: SmbCommand) -> Option<RequestOpen> {
        // All control codes count as changes. It is not worth telling apart those that only read.
        let changes =
            matches!(command, SmbCommand::Write | SmbCommand::SetInfo | SmbCommand::Ioctl | SmbCommand::Lock);
        let begins = !changes || open.per_request.changes.begin(open.life);
        begins.then(|| RequestOpen { open, changes })
    }

    /// A counted reference to the Open.
    pub fn share(&self) -> Arc<Open> {
        self.open.share()
    }

    /// Continues a read-only request on the blocking pool. It is under way until the result is dropped.
    pub fn continue_read(&self) -> ReadInProgress {
        self.pending_reads.0.fetch_add(1, Ordering::SeqCst);
        ReadInProgress(self.share())
    }

    /// Continues the change on the blocking pool. It is under way until the result is dropped.
    pub fn continue_change(mut self) -> ChangeInProgress {
        ChangeInProgress(std::mem::take(&mut self.changes).then(|| self.open.share()))
    }
}

impl std::ops::Deref for RequestOpen {
    type Target = Open;

    #[inline]
    fn deref(&self) -> &Open {
        &self.open
    }
}

impl Drop for RequestOpen {
    #[inline]
    fn drop(&mut self) {
        if self.changes {
            self.open.end_change();
        }
    }
}

/// A change on the blocking pool. It is under way until this value is dropped.
pub(crate) struct ChangeInProgress(Option<Arc<Open>>);

impl Drop for ChangeInProgress {
    fn drop(&mut self) {
        if let Some(open) = &self.0 {
            open.end_change();
        }
    }
}

/// An Open that a read-only job on the blocking pool uses. The job is under way until this value is dropped.
pub(crate) struct ReadInProgress(Arc<Open>);

impl std::ops::Deref for ReadInProgress {
    type Target = Open;

    fn deref(&self) -> &Open {
        &self.0
    }
}

impl Drop for ReadInProgress {
    fn drop(&mut self) {
        self.0.end_read();
    }
}

/// A request that waits or runs on the blocking pool. It counts as outstanding until this value is dropped.
pub struct Outstanding {
    /// Its Open.
    pub open: Arc<Open>,
    /// The sequence that it was counted under.
    pub sequence: u16,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        // After a reconnect the Open has a new count.
        if self.open.is_alive() {
            self.open.per_request.sequence.end(self.sequence);
        }
    }
}

/// Opens that were closed or detached while changes were under way on them, with their clients. Each is
/// listed as long as a change holds it.
#[derive(Debug, Default)]
pub(crate) struct LateChanges {
    opens: Mutex<Vec<(ClientKey, Weak<Open>)>>,
    /// Whether the list may be non-empty.
    any: AtomicBool,
}

impl LateChanges {
    /// Ends the life of an Open.
    pub fn end_life(&self, open: &Arc<Open>) {
        if open.per_request.changes.end_life() {
            let mut opens = self.opens.lock();
            opens.push((open.client, Arc::downgrade(open)));
            self.any.store(true, Ordering::Release);
        }
    }

    /// The Opens that still have changes under way.
    pub fn all(&self) -> Vec<(ClientKey, Arc<Open>)> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut left = Vec::new();
        let mut opens = self.opens.lock();
        opens.retain(|(client, open)| {
            let open = open.upgrade().filter(|open| open.per_request.changes.are_under_way());
            let is_left = open.is_some();
            left.extend(open.map(|open| (*client, open)));
            is_left
        });
        self.any.store(!opens.is_empty(), Ordering::Release);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tree::{Tree, TreeTarget};
    use crate::table::LockFreeTable;
    use smb_wire::FileId;
    use smb_wire::create::Access;
    use wire::Now;

    /// A table with one Open in it.
    fn one_open() -> (LockFreeTable<Open>, Arc<Open>) {
        let (table, now) = (LockFreeTable::new(1), Now { mono_ns: 0, wall_ns: 0 });
        let tree = Tree::new(1, now, TreeTarget::Pipes, Access::FILE_ALL);
        let id = FileId { persistent: 1, volatile: table.reserve().unwrap() };
        let open = Arc::new(Open::new(id, 1, ClientKey(1), Arc::new(tree), now));
        table.fill(Arc::clone(&open));
        (table, open)
    }

    #[test]
    fn what_comes_behind_the_end_of_a_life_is_not_begun_and_does_not_count() {
        let (table, open) = one_open();
        let named = |command| RequestOpen::new(table.get(open.id.volatile).unwrap(), command);
        let late = LateChanges::default();
        let begun = [SmbCommand::Write, SmbCommand::SetInfo].map(|command| named(command).unwrap());
        late.end_life(&open);
        for command in [SmbCommand::Write, SmbCommand::SetInfo, SmbCommand::Ioctl, SmbCommand::Lock] {
            assert!(named(command).is_none());
        }
        assert!(named(SmbCommand::Read).is_some());
        // One change has ended. The other one goes on in the blocking pool.
        let [done, goes_on] = begun;
        drop(done);
        let elsewhere = goes_on.continue_change();
        assert!(open.per_request.changes.are_under_way());
        assert_eq!(late.all().len(), 1);
        drop(elsewhere);
        assert!(!open.per_request.changes.are_under_way());
        assert!(late.all().is_empty());
        // An Open without a change under way is not listed.
        late.end_life(&open);
        assert!(!late.any.load(Ordering::Relaxed));
    }
}
