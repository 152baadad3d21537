//! Caching rights between the pure state machine and those who hold them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::Now;

use super::Share;
use super::file::{File, State, Stream, StreamState};
use super::keeping::Absent;
use super::waits::Effects;
use crate::caching::grants::{Asker, Deadlines, Grant, Need};
use crate::{
    BreakNotice, CacheKey, Caching, CachingRequest, Caller, Cause, ClientKey, Open, OpenRequest, Options,
    Refusal, Step, Ticket,
};

impl Share {
    /// Asks the holders of rights on a stream for what a request needs. True when it has to wait.
    pub(super) fn require(
        &self,
        file: &Arc<File>,
        stream: &mut StreamState,
        asker: &Asker,
        need: Need,
        cause: Cause,
        effects: &mut Effects,
    ) -> bool {
        let now = cause.now;
        let deadlines =
            Deadlines { single: self.break_deadline(false, now), whole: self.break_deadline(true, now) };
        let broken = stream.grants.require(file.id, asker, need, deadlines);
        stream.publish();
        for notice in &broken.notices {
            let holder = (notice.client, notice.key, notice.keyed);
            if let Some(deadline) = stream.grants.deadline_of(&holder) {
                self.watch_deadline(file, deadline);
            }
            self.note_right(holder, stream.grants.of(notice.client, notice.key, notice.keyed));
        }
        let loses_read =
            |notice: &BreakNotice| notice.keyed && (notice.from - notice.to).contains(Caching::READ);
        if asker.whole && broken.notices.iter().any(loses_read) {
            self.rights().note_contended(file.id, now.mono_ns);
        }
        let is_whole = |notice: &BreakNotice| {
            stream.grants.of(notice.client, notice.key, notice.keyed).is_some_and(|grant| grant.whole)
        };
        if broken.wait && broken.notices.iter().any(is_whole) {
            self.rights().note_recalled(file.id, now.mono_ns);
        }
        effects.notices.extend(broken.notices);
        effects.cause = cause;
        broken.wait
    }

    /// By when the holder of a right must have answered that is asked for now.
    pub(super) fn break_deadline(&self, whole: bool, now: Now) -> u64 {
        let config = self.settings();
        let timeout = if whole { config.whole_break_timeout_ns } else { config.break_timeout_ns };
        now.mono_ns.saturating_add(timeout)
    }

    /// What is asked for, or nothing while clients of both protocols contend for the file; nor while somebody is to come again
    /// who had a right taken away that is given back as a whole.
    pub(super) fn moderated(&self, asked: &CachingRequest, file: &File, now: Now) -> CachingRequest {
        let gives = !asked.keyed || !self.rights().is_quiet(file.id, asked.whole, now.mono_ns);
        CachingRequest { want: if gives { asked.want } else { Caching::empty() }, ..*asked }
    }

    /// The same for the stream of an open, without the lock held: done, or a wait.
    pub(super) fn require_for(&self, caller: &Caller<'_>, open: &Open, need: Need) -> Step<()> {
        if !open.stream.has_grants.load(Ordering::Acquire) {
            return Step::Done(());
        }
        self.require_where(caller, open, need, |stream| Arc::ptr_eq(&stream.stream, &open.stream))
    }

    /// The same before something about the file is changed that is no data, and which all streams have in common: those
    /// give way who would not look again while they have a right.
    // RFC 8881 10.4.4
    pub(super) fn require_attributes(&self, caller: &Caller<'_>, open: &Open) -> Step<()> {
        if !open.stream.is_named && !open.stream.has_grants.load(Ordering::Acquire) {
            return Step::Done(());
        }
        self.require_where(caller, open, Need::Attributes, |stream| !stream.stream.is_named)
    }

    fn require_where(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        need: Need,
        is_asked: impl Fn(&StreamState) -> bool,
    ) -> Step<()> {
        loop {
            let (mut effects, mut wait) = (Effects::default(), false);
            let mut state = open.file.state.lock();
            for stream in state.streams.iter_mut().filter(|stream| is_asked(stream)) {
                wait |= self.require(&open.file, stream, &open.asker(), need, caller.cause(), &mut effects);
            }
            let step = if wait {
                self.park(caller, &open.file, &mut state, Refusal::SharingConflict)
            } else {
                Step::Done(())
            };
            drop(state);
            self.settle(effects);
            if matches!(step, Step::Wait(_)) {
                self.end_lapsed_at(&[open.file.id], Some(caller.client), caller.cause());
            }
            match step {
                // Who was in the way has gone when it was asked.
                Step::Wait(ticket) if self.waits().is_over(ticket) => {}
                step => return step,
            }
        }
    }

    /// Something is done for which others gave way. Whoever was given a right since they were asked, when [`Stream::given`] was
    /// `given`, may have read what was there before: that right goes after the fact.
    pub(super) fn catch_up(
        &self,
        file: &Arc<File>,
        stream: &Arc<Stream>,
        asker: &Asker,
        need: Need,
        given: u64,
        cause: Cause,
    ) {
        if stream.given() == given {
            return;
        }
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        for entry in state.streams.iter_mut().filter(|entry| Arc::ptr_eq(&entry.stream, stream)) {
            self.require(file, entry, asker, need, cause, &mut effects);
        }
        drop(state);
        self.settle(effects);
    }

    /// Changes data when `ask` says that nobody is in the way.
    pub(super) fn change_data<A, T>(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        ask: impl FnOnce() -> Step<A>,
        act: impl FnOnce(A) -> Result<T, Refusal>,
    ) -> Step<T> {
        let given = open.stream.given();
        match ask() {
            Step::Done(found) => {
                let done = act(found);
                // What failed may have been done in part.
                if done.is_err() {
                    open.file.changes.fetch_add(1, Ordering::SeqCst);
                }
                self.catch_up(&open.file, &open.stream, &open.asker(), Need::Change, given, caller.cause());
                done.into()
            }
            Step::Wait(ticket) => Step::Wait(ticket),
            Step::Refused(why) => Step::Refused(why),
        }
    }

    /// Refuses a key that is in use for something else than the stream, which may be about to be made; unless that is
    /// to go.
    // MS-SMB2 3.3.5.9.8
    // MS-SMB2 3.3.5.9.11
    pub(super) fn check_key(
        &self,
        client: ClientKey,
        request: &CachingRequest,
        stream: Option<&Arc<Stream>>,
    ) -> Result<(), Refusal> {
        match self.rights().keys().elsewhere(&(client, request.key, request.keyed), stream) {
            Some(false) => Err(Refusal::Invalid),
            Some(true) | None => Ok(()),
        }
    }

    /// Whether what a client has under this key is to go: through an open under the key it was marked so.
    pub fn goes(&self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        self.rights().keys().elsewhere(&(client, key, keyed), None) == Some(true)
    }

    /// Who makes a new open of the stream, and what they ask for: nothing, and under no key, while the key is in use
    /// for something else.
    pub(super) fn asking<'r>(
        &self,
        caller: &Caller<'_>,
        request: &'r OpenRequest<'_>,
        stream: &Arc<Stream>,
    ) -> (Asker, Option<&'r CachingRequest>) {
        let asker = self.asker(caller, request);
        let used = |asked: &CachingRequest| {
            self.rights().keys().elsewhere(&(caller.client, asked.key, asked.keyed), Some(stream)).is_some()
        };
        match &request.caching {
            Some(asked) if used(asked) => (Asker { key: None, ..asker }, None),
            asked => (asker, asked.as_ref()),
        }
    }

    /// Grants what can be had to a new open of a stream with storage up to `extent`. Under the file's lock.
    pub(super) fn grant(
        &self,
        file: &Arc<File>,
        state: &mut State,
        stream: &Arc<Stream>,
        asker: &Asker,
        request: &CachingRequest,
        extent: u64,
    ) -> Grant {
        let around = state.surroundings(stream, asker, file.is_directory && !stream.is_named, extent);
        let Some(client) = asker.client else {
            let (epoch, parent) = (request.epoch, request.parent);
            let (state, whole) = (Caching::empty(), request.whole);
            return Grant { state, epoch, parent, breaking: None, whole };
        };
        let is_first = state.streams.iter().all(|stream| stream.grants.is_empty());
        let has_known_name = file.is_directory || state.has_known_name();
        let entry = state.stream(stream);
        let grant = entry.grants.grant(client, request, around);
        if !grant.state.is_empty() {
            if !has_known_name {
                // Nobody would say that a program of the host has changed it: the right ends by itself.
                self.directories().note_untold();
            }
            stream.gave.fetch_add(1, Ordering::SeqCst);
            if is_first {
                file.granted_s.store(self.cache().now_s(), Ordering::Relaxed);
            }
        }
        entry.publish();
        self.note_right((client, request.key, request.keyed), Some(grant));
        if request.keyed || !grant.state.is_empty() {
            self.rights().keys().enter((client, request.key, request.keyed), file, stream);
        }
        grant
    }

    /// An open that deletes has been made.
    // MS-SMB2 3.3.5.9.8
    // MS-SMB2 3.3.5.9.11
    pub(super) fn note_goes(&self, asker: &Asker, stream: &Arc<Stream>, options: Options) {
        if options.contains(Options::DELETE_ON_CLOSE) {
            self.rights().keys().set_goes(asker, stream, true);
        }
    }

    /// An open under a key is gone. Under the file's lock.
    pub(super) fn release_grant(&self, state: &mut State, stream: &Arc<Stream>, asker: &Asker) {
        let (Some(client), Some((key, keyed))) = (asker.client, asker.key) else {
            return;
        };
        let entry = state.stream(stream);
        entry.grants.release(client, key, keyed);
        entry.publish();
        if entry.grants.of(client, key, keyed).is_none() {
            self.rights().keys().leave(&(client, key, keyed), stream);
        }
    }

    /// Whether a client has a right under this key, broken or not.
    pub fn holds(&self, client: ClientKey, key: CacheKey, keyed: bool) -> bool {
        self.rights().keys().find(&(client, key, keyed)).is_some()
    }

    /// Takes a holder's answer to a break.
    ///
    /// # Errors
    /// [`Refusal::NoSuchGrant`], [`Refusal::TooMuchKept`].
    // MS-FSA 2.1.5.19
    pub fn acknowledge(
        &self,
        client: ClientKey,
        key: CacheKey,
        keyed: bool,
        keep: Caching,
        now: Now,
    ) -> Result<Grant, Refusal> {
        let holder = (client, key, keyed);
        let (file, stream) = self.rights().keys().find(&holder).ok_or(Refusal::NoSuchGrant)?;
        // What is given back as a whole has no further step.
        let deadline = self.break_deadline(false, now);
        let mut state = file.state.lock();
        let entry = state.stream(&stream);
        let (grant, next) = entry.grants.acknowledge(file.id, holder, keep, deadline)?;
        entry.publish();
        self.note_right(holder, entry.grants.of(client, key, keyed));
        // Who waits goes on when the last step of the break was answered.
        let goes_on = next.is_some_and(|notice| notice.answer);
        if goes_on {
            self.watch_deadline(&file, deadline);
        }
        let wakes = if goes_on { Vec::new() } else { std::mem::take(&mut state.waiting) };
        drop(state);
        self.settle(Effects { notices: next.into_iter().collect(), wakes, cause: now.into() });
        Ok(grant)
    }

    /// Whether the holder still owes the answer to this very notice.
    pub fn awaits(&self, notice: &BreakNotice) -> bool {
        let holder = (notice.client, notice.key, notice.keyed);
        self.rights().keys().find(&holder).is_some_and(|(file, stream)| {
            file.state.lock().stream(&stream).grants.is_told(&holder, notice.to)
        })
    }

    /// A notice that [`crate::Holder::on_break`] had taken on cannot reach the holder after all: the right is
    /// taken away at once, unless its opens are kept for a holder who will hear it then. Called with no lock
    /// held.
    pub fn undelivered(&self, notice: &BreakNotice) {
        if matches!(self.absent(notice), Absent::Stays) {
            return;
        }
        let wakes = self.revoke(notice);
        self.wake_all(wakes);
    }

    /// A holder gives all it has under a key back, whether it was asked or not; its opens stay.
    pub fn give_up(&self, client: ClientKey, key: CacheKey, keyed: bool, now: Now) {
        let Some((file, stream)) = self.rights().keys().find(&(client, key, keyed)) else {
            return;
        };
        let mut state = file.state.lock();
        let entry = state.stream(&stream);
        if entry.grants.of(client, key, keyed).is_some_and(|grant| grant.breaking.is_some()) {
            self.rights().note_given_back(file.id, now.mono_ns);
        }
        entry.grants.revoke(client, key, keyed);
        entry.publish();
        self.note_right((client, key, keyed), entry.grants.of(client, key, keyed));
        let wakes = std::mem::take(&mut state.waiting);
        drop(state);
        self.write_changes();
        self.wake_all(wakes);
    }

    /// Takes a right away whose holder cannot be told; says whom to wake.
    pub(super) fn revoke(&self, notice: &BreakNotice) -> Vec<Ticket> {
        let holder = (notice.client, notice.key, notice.keyed);
        let Some((file, stream)) = self.rights().keys().find(&holder).filter(|_| notice.answer) else {
            return Vec::new();
        };
        let mut state = file.state.lock();
        let entry = state.stream(&stream);
        if !entry.grants.is_told(&holder, notice.to) {
            return Vec::new();
        }
        entry.grants.revoke(notice.client, notice.key, notice.keyed);
        entry.publish();
        self.note_right(holder, entry.grants.of(notice.client, notice.key, notice.keyed));
        std::mem::take(&mut state.waiting)
    }

    /// Takes away rights on a file whose holders did not answer in time.
    pub(super) fn expire(&self, file: &Arc<File>, now: u64) {
        let mut state = file.state.lock();
        let mut any = false;
        for stream in &mut state.streams {
            for holder in stream.grants.expire(now) {
                any = true;
                let (client, key, keyed) = holder;
                self.note_right(holder, stream.grants.of(client, key, keyed));
            }
            stream.publish();
        }
        let wakes = if any { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        self.wake_all(wakes);
    }
}
