//! A pending request: the future of its reply.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{EntryState, Protocol, Transport};
use crate::Error;
use crate::error::Result;

/// Resolves to the final reply, whatever its status. If it is dropped before, the reply is ignored when it
/// arrives, but the server still carries out the request.
#[derive(Debug)]
pub(crate) struct Pending<P: Protocol> {
    transport: Arc<Transport<P>>,
    id: u64,
    fetched: bool,
}

impl<P: Protocol> Pending<P> {
    /// The reply to request `id`, which has an entry.
    pub(crate) fn new(transport: Arc<Transport<P>>, id: u64) -> Pending<P> {
        Pending { transport, id, fetched: false }
    }
}

impl<P: Protocol> Future for Pending<P> {
    type Output = Result<P::Reply>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut state = this.transport.lock();
        let Some(entry) = state.entries.get_mut(&this.id) else {
            this.fetched = true;
            return Poll::Ready(Err(state.failed.clone().unwrap_or(Error::Closed)));
        };
        match &mut entry.state {
            EntryState::Waiting(Some(waker)) => waker.clone_from(context.waker()),
            EntryState::Waiting(empty) => *empty = Some(context.waker().clone()),
            EntryState::Done(_) | EntryState::Abandoned => {
                let entry = state.entries.remove(&this.id);
                this.fetched = true;
                return match entry.map(|entry| entry.state) {
                    Some(EntryState::Done(reply)) => Poll::Ready(Ok(reply)),
                    _ => Poll::Ready(Err(Error::Closed)),
                };
            }
        }
        Poll::Pending
    }
}

impl<P: Protocol> Drop for Pending<P> {
    fn drop(&mut self) {
        if self.fetched {
            return;
        }
        let mut state = self.transport.lock();
        let dropped = match state.entries.get_mut(&self.id) {
            Some(entry) if matches!(entry.state, EntryState::Waiting(_)) => {
                entry.state = EntryState::Abandoned;
                None
            }
            _ => state.entries.remove(&self.id),
        };
        // Dropping a reply returns its buffer to the pool, which must not happen under this lock.
        drop(state);
        drop(dropped);
    }
}
