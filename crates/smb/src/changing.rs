//! Changes that are being carried out on an Open, so that none of a session that has ended lands behind what its client
//! does after it.
//!
//! A WRITE can stand in a slow volume while its session is ended from elsewhere, by a LOGOFF on another channel or a new
//! session that takes its place. From that moment no change of that session begins any more ([`Changes`]), and whoever
//! comes back for the Open, or opens its file in its place, waits until those that had begun are over
//! ([`Connection::outlast`]). No section asks for that: within a session the ChannelSequence does the same
//! ([`crate::sequence`]).
//!
//! A CLOSE waits too, also for what only looks and does so elsewhere ([`Looks`]): a client may send it without waiting
//! for the answer to a READ, and that READ came in time ([`Connection::let_finish`]).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use share::{ClientKey, Share, Ticket};
use smb_wire::{Command, NtStatus};

use crate::connection::Connection;
use crate::dispatch::Request;
use crate::durable::Instance;
use crate::exchange::outcome::Stop;
use crate::limits::LATE_CHANGES_NS;
use crate::open::Open;
use crate::path::Target;
use crate::session::Session;
use crate::table::Held;

/// Which life of an Open this is, and how many changes are being carried out on it. A life ends when the Open is closed,
/// or left by its session; taken up again it begins another one.
///
/// One word, so that a change begins either before the end of its life, and is waited for, or not at all.
#[derive(Debug, Default)]
pub(crate) struct Changes(AtomicU64);

/// How many there are.
const COUNT: u64 = 0x7fff_ffff;
/// Somebody waits for the last of them.
const AWAITED: u64 = 0x8000_0000;
/// Where the number of the life stands.
const LIFE: u32 = 32;

impl Changes {
    /// The life of this moment.
    pub fn life(&self) -> u32 {
        (self.0.load(Ordering::Acquire) >> LIFE) as u32
    }

    /// A change of this life begins; false when that is over, and nothing may be changed.
    #[inline]
    fn begin(&self, life: u32) -> bool {
        let begin = |word: u64| ((word >> LIFE) as u32 == life).then_some(word + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin).is_ok()
    }

    /// A change is over; true when it was the last one, and somebody waits for that.
    #[inline]
    fn end(&self) -> bool {
        // Release and acquire: who has waited sees what it has changed.
        self.0.fetch_sub(1, Ordering::AcqRel) & (COUNT | AWAITED) == AWAITED | 1
    }

    /// A life is over; whether changes of it still are being carried out.
    pub fn end_life(&self) -> bool {
        self.0.fetch_add(1 << LIFE, Ordering::AcqRel) & COUNT != 0
    }

    /// Whether changes are being carried out.
    fn are_under_way(&self) -> bool {
        self.0.load(Ordering::Acquire) & COUNT != 0
    }
}

/// How many requests that only look are being carried out elsewhere on an Open: a READ of what is not in memory, a FLUSH.
#[derive(Debug, Default)]
pub(crate) struct Looks(AtomicU32);

/// What has to be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The last change.
    Unchanged,
    /// The last change, and whatever only looks.
    Idle,
}

/// Who waits for that on an Open.
#[derive(Debug, Default)]
pub(crate) struct Awaiting(Mutex<Vec<Ticket>>);

impl Open {
    /// Whether it is still reached as by this: neither closed nor left by its session since.
    pub(crate) fn is_alive(&self) -> bool {
        self.moving.changes.life() == self.life
    }

    fn is_over(&self, until: Until) -> bool {
        let looks = || self.looks.0.load(Ordering::Acquire);
        !self.moving.changes.are_under_way() && (until == Until::Unchanged || looks() == 0)
    }

    /// The holder of this ticket is woken behind the last one, or before; false when there is none to wait for.
    fn await_end(&self, engine: &Share, ticket: Ticket, until: Until) -> bool {
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
    open: Held<Open>,
    changes: bool,
}

impl Named {
    /// For a request with this command; none when the Open is closed or left just now, and nothing may be changed.
    #[inline]
    pub fn new(open: Held<Open>, command: Command) -> Option<Named> {
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
    fn all(&self) -> Vec<(ClientKey, Arc<Open>)> {
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

impl Connection {
    /// Lets a request wait until nothing is being changed through an Open that its session has left, but not for ever.
    ///
    /// # Errors
    /// The wait; or, when that took too long, the status with which a client is told to try again later (MS-SMB2
    /// 3.3.5.2.10 has it for what is sent again while a request of before is under way).
    pub(crate) fn outlast(&self, request: &mut Request<'_>, open: &Open) -> Result<(), Stop> {
        if self.wait_for(request, open, Until::Unchanged)? {
            return Ok(());
        }
        let why = "Create refused: a change of a session that has ended is still being carried out";
        self.complain(request.session_id, NtStatus::FILE_NOT_AVAILABLE, why, request.now);
        Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE))
    }

    /// Lets a CLOSE wait until what was asked of its Open before is over, but not for ever. No section asks for that, and
    /// none lets what came before the CLOSE be told that the Open is closed.
    ///
    /// # Errors
    /// The wait.
    pub(crate) fn let_finish(&self, request: &mut Request<'_>, open: &Open) -> Result<(), Stop> {
        // A CLOSE that is refused would leave its Open behind: clients forget the handle whatever they are told.
        if !self.has_room_to_wait() {
            return Ok(());
        }
        self.wait_for(request, open, Until::Idle).map(|_| ())
    }

    /// Whether it is over; false when that took too long.
    fn wait_for(&self, request: &mut Request<'_>, open: &Open, until: Until) -> Result<bool, Stop> {
        let Some((engine, _)) = open.file().filter(|_| !open.is_over(until)) else { return Ok(true) };
        let until_ns = request.course.arrived_ns.saturating_add(LATE_CHANGES_NS);
        if request.now.mono_ns >= until_ns {
            return Ok(false);
        }
        let waiter = self.waiter(self.async_id(request));
        let ticket = engine.wait_until(&waiter, until_ns);
        if open.await_end(engine, ticket, until) {
            return Err(Stop::wait(engine, ticket));
        }
        engine.cancel(ticket);
        Ok(true)
    }

    /// The same for a CREATE of a file that its own client had open, or an earlier instance of its application.
    pub(crate) fn outlast_late(
        &self,
        request: &mut Request<'_>,
        session: &Session,
        (engine, target): (&Arc<Share>, &Target),
        instance: Option<Instance>,
    ) -> Result<(), Stop> {
        let is_earlier = |open: &Open| {
            let made = open.made.get().and_then(|made| made.instance);
            instance.zip(made).is_some_and(|(one, other)| one.id == other.id)
        };
        for (client, open) in self.server.late.all() {
            let Some((own, file)) = open.file() else { continue };
            let is_its = client == session.client || is_earlier(&open);
            if is_its && Arc::ptr_eq(own, engine) && target.is_path_of(engine, file) {
                self.outlast(request, &open)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use crate::tree::{Target, Tree};
    use smb_wire::FileId;
    use smb_wire::create::Access;
    use wire::Now;

    /// A table with one Open in it.
    fn one_open() -> (Table<Open>, Arc<Open>) {
        let (table, now) = (Table::new(1), Now { mono_ns: 0, wall_ns: 0 });
        let (target, maximal) = (Target::Pipes, Access::FILE_ALL);
        let tree = Tree {
            id: 1,
            connected: now,
            target,
            maximal,
            sealed: false,
            signed: false,
            speaks_numbers: AtomicBool::default(),
        };
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

    #[test]
    fn a_change_begins_in_its_own_life_only() {
        let changes = Changes::default();
        let first = changes.life();
        assert!(changes.begin(first) && changes.begin(first));
        assert!(changes.end_life());
        assert!(!changes.begin(first));
        assert!(changes.are_under_way());
        // Whoever takes the Open up is in the next one.
        let second = changes.life();
        assert_ne!(first, second);
        assert!(!changes.end());
        changes.0.fetch_or(AWAITED, Ordering::Relaxed);
        assert!(changes.end(), "it was the last one");
        assert!(!changes.are_under_way());
        assert!(changes.begin(second));
        changes.end();
        assert!(!changes.end_life());
    }

    #[test]
    fn lives_go_round() {
        let changes = Changes(AtomicU64::new(u64::from(u32::MAX) << LIFE));
        assert!(changes.begin(u32::MAX));
        assert!(changes.end_life());
        assert_eq!(changes.life(), 0);
        assert!(changes.are_under_way());
    }
}
