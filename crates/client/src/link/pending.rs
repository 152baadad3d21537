//! A request on its way: the future of its reply.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{EntryState, Link};
use crate::buffer::Reply;
use crate::{Error, Result};

/// Resolves to the final reply, whatever its status. Dropped before that, the reply is ignored when it
/// comes; the server still does what was asked.
#[derive(Debug)]
pub(crate) struct Pending {
    link: Arc<Link>,
    message_id: u64,
    fetched: bool,
}

impl Pending {
    pub(super) fn new(link: Arc<Link>, message_id: u64) -> Pending {
        Pending { link, message_id, fetched: false }
    }
}

impl Future for Pending {
    type Output = Result<Reply>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut state = this.link.lock();
        let Some(entry) = state.entries.get_mut(&this.message_id) else {
            this.fetched = true;
            return Poll::Ready(Err(state.failed.clone().unwrap_or(Error::Closed)));
        };
        match &mut entry.state {
            EntryState::Waiting(Some(waker)) => waker.clone_from(context.waker()),
            EntryState::Waiting(place) => *place = Some(context.waker().clone()),
            EntryState::Done(_) | EntryState::Abandoned => {
                let entry = state.entries.remove(&this.message_id);
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

impl Drop for Pending {
    fn drop(&mut self) {
        if self.fetched {
            return;
        }
        let mut state = self.link.lock();
        let dropped = match state.entries.get_mut(&self.message_id) {
            Some(entry) if matches!(entry.state, EntryState::Waiting(_)) => {
                entry.state = EntryState::Abandoned;
                None
            }
            _ => state.entries.remove(&self.message_id),
        };
        // A reply gives its buffer back, which is no business of this lock.
        drop(state);
        drop(dropped);
    }
}
