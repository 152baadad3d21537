//! Changes that are being carried out on an Open, so that none of a session that has ended lands behind what its client
//! does after it.
//!
//! A WRITE can stand in a slow volume while its session is ended from elsewhere, by a LOGOFF on another channel or a new
//! session that takes its place. From that moment no change of that session begins any more ([`Changes`]), and whoever
//! comes back for the Open, or opens its file in its place, waits until those that had begun are over
//! (`connection/waits.rs`). No section asks for that: within a session the ChannelSequence does the same
//! ([`crate::state::sequence`]).
//!
//! A CLOSE waits too, also for what only looks and does so elsewhere ([`Looking`]): a client may send it without waiting
//! for the answer to a READ, and that READ came in time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use share::{ClientKey, Share, Ticket};
use smb_wire::Command;

use super::Open;
use super::changes::{AWAITED, COUNT, Changes};
use crate::table::EntryGuard;

/// What has to be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The last change.
    Unchanged,
    /// The last change, and whatever only looks.
    Idle,
}

impl Open {
    /// Whether it is still reached as by this: neither closed nor left by its session since.
    pub(crate) fn is_alive(&self) -> bool {
        self.moving.changes.life() == self.life
    }

    pub(crate) fn is_over(&self, until: Until) -> bool {
        let looks = || self.looks.0.load(Ordering::Acquire);
        !self.moving.changes.are_under_way() && (until == Until::Unchanged || looks() == 0)
    }

    /// The holder of this ticket is woken behind the last one, or before; false when there is none to wait for.
    pub(crate) fn await_end(&self, engine: &Share, ticket: Ticket, until: Until) -> bool {
        let Changes(word) = &self.moving.changes;
        let mut waiting = self.awaiting.0.lock();
        // In one order with `end_look`: either that sees the mark, or this sees nothing that looks.
        let is_unchanged = word.fetch_or(AWAITED, Ordering::SeqCst) & COUNT == 0;
        let looks = || self.looks.0.load(Ordering::SeqCst);
        if is_unchanged && (until == Until::Unchanged || looks() == 0) {
            if waiting.is_empty() {
                word.fetch_and(!AWAITED, Ordering::AcqRel);
            }
            return false;
        }
        // Those that were taken back meanwhile.
        waiting.retain(|&ticket| engine.is_waiting(ticket));
        waiting.push(ticket);
        true
    }

    fn end_change(&self) {
        if self.moving.changes.end() {
            self.wake_awaiting();
        }
    }

    fn end_look(&self) {
        let Changes(word) = &self.moving.changes;
        let is_last = self.looks.0.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && word.load(Ordering::SeqCst) & AWAITED != 0 {
            self.wake_awaiting();
        }
    }

    #[cold]
    fn wake_awaiting(&self) {
        let mut waiting = self.awaiting.0.lock();
        self.moving.changes.0.fetch_and(!AWAITED, Ordering::AcqRel);
        let woken = std::mem::take(&mut *waiting);
        drop(waiting);
        if let Some((engine, _)) = self.file() {
            woken.into_iter().for_each(|ticket| engine.wake(ticket));
        }
    }
}

/// The Open that a request names. Where the request changes something, that is being carried out until this is dropped.
pub(crate) struct Named {
    open: EntryGuard<Open>,
    changes: bool,
}

impl Named {
    /// For a request with this command; none when the Open is closed or left just now, and nothing may be changed.
    #[inline]
    pub fn new(open: EntryGuard<Open>, command: Command) -> Option<Named> {
        // Of the control codes it is not worth telling which only look.
        let changes = matches!(command, Command::Write | Command::SetInfo | Command::Ioctl | Command::Lock);
        let begins = !changes || open.moving.changes.begin(open.life);
        begins.then(|| Named { open, changes })
    }

    /// The Open, to keep.
    pub fn share(&self) -> Arc<Open> {
        self.open.share()
    }

    /// Requests that only look go on elsewhere, until what this gives is dropped.
    pub fn look_on(&self) -> Looking {
        self.looks.0.fetch_add(1, Ordering::SeqCst);
        Looking(self.share())
    }

    /// The change goes on elsewhere, until what this gives is dropped.
    pub fn go_on(mut self) -> Changing {
        Changing(std::mem::take(&mut self.changes).then(|| self.open.share()))
    }
}

impl std::ops::Deref for Named {
    type Target = Open;

    #[inline]
    fn deref(&self) -> &Open {
        &self.open
    }
}

impl Drop for Named {
    #[inline]
    fn drop(&mut self) {
        if self.changes {
            self.open.end_change();
        }
    }
}

/// A change that is carried out by work elsewhere, until this is dropped.
pub(crate) struct Changing(Option<Arc<Open>>);

impl Drop for Changing {
    fn drop(&mut self) {
        if let Some(open) = &self.0 {
            open.end_change();
        }
    }
}

/// An Open that work elsewhere only looks at, until this is dropped.
pub(crate) struct Looking(Arc<Open>);

impl std::ops::Deref for Looking {
    type Target = Open;

    fn deref(&self) -> &Open {
        &self.0
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.end_look();
    }
}

/// A request that waits, or whose work runs elsewhere, and counts until this is dropped.
pub struct Outstanding {
    /// Its Open.
    pub open: Arc<Open>,
    /// The sequence it is counted under.
    pub sequence: u16,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        // Whoever has taken the Open up since counts from their own beginning.
        if self.open.is_alive() {
            self.open.moving.sequence.end(self.sequence);
        }
    }
}

/// Opens that were closed or left by their session while changes were being carried out on them, and whose they were.
/// Each is there as long as a change holds it.
#[derive(Debug, Default)]
pub(crate) struct Late {
    opens: Mutex<Vec<(ClientKey, Weak<Open>)>>,
    /// Whether there may be any.
    any: AtomicBool,
}

impl Late {
    /// The life of an Open ends.
    pub fn end_life(&self, open: &Arc<Open>) {
        if open.moving.changes.end_life() {
            let mut opens = self.opens.lock();
            opens.push((open.client, Arc::downgrade(open)));
            self.any.store(true, Ordering::Release);
        }
    }

    /// Those that are left.
    pub fn all(&self) -> Vec<(ClientKey, Arc<Open>)> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut left = Vec::new();
        let mut opens = self.opens.lock();
        opens.retain(|(client, open)| {
            let open = open.upgrade().filter(|open| open.moving.changes.are_under_way());
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
    use crate::state::tree::{Target, Tree};
    use crate::table::LockFreeTable;
    use smb_wire::FileId;
    use smb_wire::create::Access;
    use wire::Now;

    /// A table with one Open in it.
    fn one_open() -> (LockFreeTable<Open>, Arc<Open>) {
        let (table, now) = (LockFreeTable::new(1), Now { mono_ns: 0, wall_ns: 0 });
        let tree = Tree::new(1, now, Target::Pipes, Access::FILE_ALL);
        let id = FileId { persistent: 1, volatile: table.reserve().unwrap() };
        let open = Arc::new(Open::new(id, 1, ClientKey(1), Arc::new(tree), now));
        table.fill(Arc::clone(&open));
        (table, open)
    }

    #[test]
    fn what_comes_behind_the_end_of_a_life_is_not_begun_and_does_not_count() {
        let (table, open) = one_open();
        let named = |command| Named::new(table.get(open.id.volatile).unwrap(), command);
        let late = Late::default();
        let begun = [Command::Write, Command::SetInfo].map(|command| named(command).unwrap());
        late.end_life(&open);
        for command in [Command::Write, Command::SetInfo, Command::Ioctl, Command::Lock] {
            assert!(named(command).is_none());
        }
        assert!(named(Command::Read).is_some());
        // One is done, the other goes on elsewhere.
        let [done, goes_on] = begun;
        drop(done);
        let elsewhere = goes_on.go_on();
        assert!(open.moving.changes.are_under_way());
        assert_eq!(late.all().len(), 1);
        drop(elsewhere);
        assert!(!open.moving.changes.are_under_way());
        assert!(late.all().is_empty());
        // Nothing is remembered of one through which nothing is changed.
        late.end_life(&open);
        assert!(!late.any.load(Ordering::Relaxed));
    }
}
