//! Breaks of rights before an action through an open, and once more after it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::caching::grants::{Need, Requester};
use crate::engine::Share;
use crate::engine::parts::file::{File, Stream, StreamState};
use crate::engine::values::effects::Effects;
use crate::{CallResult, Caller, Cause, Open, Refusal};

impl Share {
    /// Breaks the rights on the stream of an open that conflict with a request. Returns done, or a wait. The
    /// caller holds no lock.
    pub(crate) fn require_for(&self, caller: &Caller<'_>, open: &Open, need: Need) -> CallResult<()> {
        if !open.stream.has_grants.load(Ordering::Acquire) {
            return CallResult::Done(());
        }
        self.require_where(caller, open, need, |stream| Arc::ptr_eq(&stream.stream, &open.stream))
    }

    /// Breaks the rights on a file before a change of a property that is no data and that all its streams
    /// share. It breaks the rights of holders that cache such properties while they have a right.
    // RFC 8881 10.4.4
    pub(crate) fn require_attributes(&self, caller: &Caller<'_>, open: &Open) -> CallResult<()> {
        if !open.stream.is_named && !open.stream.has_grants.load(Ordering::Acquire) {
            return CallResult::Done(());
        }
        self.require_where(caller, open, Need::Attributes, |stream| !stream.stream.is_named)
    }

    fn require_where(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        need: Need,
        is_asked: impl Fn(&StreamState) -> bool,
    ) -> CallResult<()> {
        loop {
            let (mut effects, mut wait) = (Effects::default(), false);
            let mut state = open.file.state.lock();
            for stream in state.streams.iter_mut().filter(|stream| is_asked(stream)) {
                wait |=
                    self.require(&open.file, stream, &open.requester(), need, caller.cause(), &mut effects);
            }
            let step = if wait {
                self.park(caller, &open.file, &mut state, Refusal::SharingConflict)
            } else {
                CallResult::Done(())
            };
            drop(state);
            self.settle(effects);
            if matches!(step, CallResult::Wait(_)) {
                self.end_expired_at(&[open.file.id], Some(caller.client), caller.cause());
            }
            match step {
                // The holder in conflict has gone when it was asked.
                CallResult::Wait(ticket) if self.waits().is_over(ticket) => {}
                step => return step,
            }
        }
    }

    /// Runs after an action for which rights were broken. A right that was granted since the break, when
    /// [`Stream::given`] was `given`, may cover data that was read before the action. That right is broken
    /// after the fact.
    pub(crate) fn catch_up(
        &self,
        file: &Arc<File>,
        stream: &Arc<Stream>,
        requester: &Requester,
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
            self.require(file, entry, requester, need, cause, &mut effects);
        }
        drop(state);
        self.settle(effects);
    }

    /// Changes data when `ask` finds no conflict.
    pub(crate) fn change_data<A, T>(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        ask: impl FnOnce() -> CallResult<A>,
        act: impl FnOnce(A) -> Result<T, Refusal>,
    ) -> CallResult<T> {
        let given = open.stream.given();
        match ask() {
            CallResult::Done(found) => {
                let done = act(found);
                // A failed action may have been done in part.
                if done.is_err() {
                    open.file.changes.fetch_add(1, Ordering::SeqCst);
                }
                self.catch_up(
                    &open.file,
                    &open.stream,
                    &open.requester(),
                    Need::Change,
                    given,
                    caller.cause(),
                );
                done.into()
            }
            CallResult::Wait(ticket) => CallResult::Wait(ticket),
            CallResult::Refused(why) => CallResult::Refused(why),
        }
    }

    /// Changes attributes if that is allowed, once no client caches the old ones.
    pub(crate) fn after_attributes(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        may: Result<(), Refusal>,
        act: impl FnOnce() -> Result<(), Refusal>,
    ) -> CallResult<()> {
        match may {
            Err(why) => CallResult::Refused(why),
            Ok(()) => {
                let given = open.stream.given();
                match self.require_attributes(caller, open) {
                    CallResult::Done(()) => {}
                    other => return other,
                }
                let done = act();
                let requester = open.requester();
                self.catch_up(&open.file, &open.stream, &requester, Need::Attributes, given, caller.cause());
                done.into()
            }
        }
    }
}
