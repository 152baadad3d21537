//! Asking those to give way who hold a right, before something is done through an open and once more after it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::caching::grants::{Asker, Need};
use crate::engine::Share;
use crate::engine::parts::file::{File, Stream, StreamState};
use crate::engine::values::effects::Effects;
use crate::{Caller, Cause, Open, Refusal, Step};

impl Share {
    /// Asks the holders of rights on the stream of an open for what a request needs: done, or a wait. Called with no lock held.
    pub(crate) fn require_for(&self, caller: &Caller<'_>, open: &Open, need: Need) -> Step<()> {
        if !open.stream.has_grants.load(Ordering::Acquire) {
            return Step::Done(());
        }
        self.require_where(caller, open, need, |stream| Arc::ptr_eq(&stream.stream, &open.stream))
    }

    /// The same before something about the file is changed that is no data, and which all streams have in common: those
    /// give way who would not look again while they have a right.
    // RFC 8881 10.4.4
    pub(crate) fn require_attributes(&self, caller: &Caller<'_>, open: &Open) -> Step<()> {
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
    pub(crate) fn catch_up(
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
    pub(crate) fn change_data<A, T>(
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

    /// Changes attributes if that is allowed and once nobody believes the old ones.
    pub(crate) fn after_attributes(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        may: Result<(), Refusal>,
        act: impl FnOnce() -> Result<(), Refusal>,
    ) -> Step<()> {
        match may {
            Err(why) => Step::Refused(why),
            Ok(()) => {
                let given = open.stream.given();
                match self.require_attributes(caller, open) {
                    Step::Done(()) => {}
                    other => return other,
                }
                let done = act();
                let asker = open.asker();
                self.catch_up(&open.file, &open.stream, &asker, Need::Attributes, given, caller.cause());
                done.into()
            }
        }
    }
}
