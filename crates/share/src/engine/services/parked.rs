//! Requests that wait: parked, woken, cancelled.

use std::sync::Arc;

use crate::engine::Share;
use crate::engine::parts::file::{File, FileState};
use crate::{CallResult, Caller, Open, Refusal, Ticket, Waiter};

/// The time after which it is checked again whether a program of the host has released a file.
const HOST_ASKED_AGAIN_NS: u64 = 100_000_000;

impl Share {
    /// Lets the request wait until the file changes, or refuses it if it cannot wait.
    pub(crate) fn park<T>(
        &self,
        caller: &Caller<'_>,
        file: &Arc<File>,
        state: &mut FileState,
        else_: Refusal,
    ) -> CallResult<T> {
        match caller.waiter {
            Some(waiter) => {
                let ticket = self.waits().add(waiter, file);
                state.waiting.push(ticket);
                CallResult::Wait(ticket)
            }
            None => CallResult::Refused(else_),
        }
    }

    /// Lets the request wait for a program of the host to release a file. The host limits that wait itself.
    pub(crate) fn try_later<T>(&self, caller: &Caller<'_>) -> CallResult<T> {
        match caller.waiter {
            Some(waiter) => {
                let at = caller.now.mono_ns.saturating_add(HOST_ASKED_AGAIN_NS);
                CallResult::Wait(self.waits().add_later(waiter, at))
            }
            None => CallResult::Refused(Refusal::HostKeeps),
        }
    }

    /// Lets a request wait for an event outside of the engine, no longer than until `at_ns` (monotonic).
    /// [`Share::wake`] ends the wait sooner.
    pub fn wait_until(&self, waiter: &Waiter, at_ns: u64) -> Ticket {
        self.waits().add_later(waiter, at_ns)
    }

    /// Wakes the request that waits under this ticket, if there is one.
    pub fn wake(&self, ticket: Ticket) {
        if let Some((waiter, _)) = self.waits().take(ticket) {
            waiter.wake.wake(waiter.token);
        }
    }

    /// Whether a request still waits under this ticket.
    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        !self.waits().is_over(ticket)
    }

    /// Whether the request waits for a file that is kept open over a restart for a client that is not back
    /// yet.
    pub fn waits_for_absent(&self, ticket: Ticket) -> bool {
        let file = self.waits().file_of(ticket);
        let is_absent = |open: Arc<Open>| open.is_persistent() && open.is_detached();
        file.is_some_and(|file| file.opens().into_iter().any(is_absent))
    }

    /// Cancels a wait. Returns false if the waiter was woken before, or is just being woken.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        let Some((_, file)) = self.waits().take(ticket) else {
            return false;
        };
        if let Some(file) = file.upgrade() {
            let mut state = file.state.lock();
            state.waiting.retain(|waiting| *waiting != ticket);
            for stream in &mut state.streams {
                stream.ranges.forget(ticket);
            }
        }
        true
    }

    /// Enters the deadline of a break that was started under the file's lock.
    pub(crate) fn watch_deadline(&self, file: &Arc<File>, deadline: u64) {
        self.waits().add_deadline(deadline, file);
    }
}
