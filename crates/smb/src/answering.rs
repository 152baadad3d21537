//! Which connection a thread answers a request of. When that changes what its own client knows a directory to list, the
//! client is told on the connection that the request came over, and before its answer.
//!
//! Linux's client lists from memory until it is told, also what it has changed itself. Over another channel the notice
//! would come as late as that channel is full, and the client would list what it has long removed.
//!
//! [`Answering`] lives while requests are answered. [`crate::notice`] asks [`connection`] which one comes first, and
//! hands what is to leave before the answer to [`keep`]; the connection takes it from [`take`].

use std::cell::RefCell;

use crate::notice::Notice;

struct State {
    /// The connection's id.
    connection: u64,
    /// Whether the connection itself is at work, and not a job of its on the blocking pool.
    is_itself: bool,
    kept: Vec<Notice>,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// As long as it lives, this thread answers requests of one connection.
pub(crate) struct Answering(());

impl Answering {
    /// The connection `id` is at work; it will [`take`] what is kept.
    pub(crate) fn itself(id: u64) -> Answering {
        Answering::begin(id, true)
    }

    /// A job of the connection `id` is. Its end is told through the connection's mailbox, behind what it has broken.
    pub(crate) fn by_a_job(id: u64) -> Answering {
        Answering::begin(id, false)
    }

    fn begin(connection: u64, is_itself: bool) -> Answering {
        STATE.set(Some(State { connection, is_itself, kept: Vec::new() }));
        Answering(())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // What is still kept finds its way over other connections.
        drop(STATE.take());
    }
}

/// The connection whose request is being answered here.
pub(crate) fn connection() -> Option<u64> {
    STATE.with_borrow(|state| state.as_ref().map(|state| state.connection))
}

/// Keeps a notice that goes over [`connection`], if that is at work here itself; else gives it back.
pub(crate) fn keep(notice: Notice) -> Option<Notice> {
    STATE.with_borrow_mut(|state| match state {
        Some(state) if state.is_itself => {
            state.kept.push(notice);
            None
        }
        _ => Some(notice),
    })
}

/// What was kept.
pub(crate) fn take() -> Vec<Notice> {
    STATE.with_borrow_mut(|state| {
        state.as_mut().map_or_else(Vec::new, |state| std::mem::take(&mut state.kept))
    })
}
