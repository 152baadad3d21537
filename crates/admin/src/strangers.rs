//! Callers of the admin page and of the metrics that are not let in yet. They are bounded apart from those
//! who are, so that nobody without a token or a certificate can keep others out.
//!
//! When there are too many, the one that came first is dropped: a caller with a token shows it at once. A
//! host that sends too many loses its own callers and nobody else's.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// The most strangers of one address.
const MAX_OF_ONE: usize = 16;
/// The most strangers in all.
const MAX_OF_ALL: usize = 256;

/// The strangers of one listening socket.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<List>);

#[derive(Default)]
struct List {
    /// The strangers in the order in which they came.
    all: VecDeque<Entry>,
    next_id: u64,
}

struct Entry {
    id: u64,
    address: IpAddr,
    /// The task that serves the stranger, as soon as it is there.
    task: Option<AbortHandle>,
}

/// A caller that counts as a stranger until it is let in or this is dropped.
pub(crate) struct Stranger {
    id: u64,
    among: Arc<Strangers>,
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.introduced();
    }
}

impl Stranger {
    /// The caller is let in: it is no stranger any more.
    pub(crate) fn introduced(&self) {
        self.among.held().all.retain(|entry| entry.id != self.id);
    }
}

impl Strangers {
    /// Serves a caller from `address` in a task of its own. The task ends when the caller is dropped for
    /// another.
    pub(crate) fn serve<F>(self: &Arc<Self>, address: IpAddr, serving: impl FnOnce(Stranger) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = self.held().enter(address);
        let task = tokio::spawn(serving(Stranger { id, among: Arc::clone(self) })).abort_handle();
        let let_go = {
            let mut list = self.held();
            // The task may have ended by now.
            if let Some(entry) = list.all.iter_mut().find(|entry| entry.id == id) {
                entry.task = Some(task);
            }
            list.shorten(address)
        };
        if let Some(Entry { address, task: Some(task), .. }) = let_go {
            tracing::debug!(%address, "a caller that was not let in is let go for another");
            task.abort();
        }
    }

    fn held(&self) -> MutexGuard<'_, List> {
        // The list is complete between any two changes, after a panic, too.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    fn enter(&mut self, address: IpAddr) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.all.push_back(Entry { id, address, task: None });
        id
    }

    /// Takes the stranger out that has to go for one more from `address`.
    fn shorten(&mut self, address: IpAddr) -> Option<Entry> {
        let mut own = self.all.iter().enumerate().filter(|(_, entry)| entry.address == address);
        let first = own.next().map(|(at, _)| at);
        if own.count() >= MAX_OF_ONE {
            return self.all.remove(first?);
        }
        if self.all.len() > MAX_OF_ALL { self.all.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::sync::oneshot::{Receiver, channel, error::TryRecvError};

    use super::*;

    /// A caller from a numbered address that never ends. The receiver tells when it is dropped.
    fn come(strangers: &Arc<Strangers>, address: u32, has_token: bool) -> Receiver<()> {
        let (kept, is_there) = channel();
        strangers.serve(IpAddr::V4(Ipv4Addr::from(address)), move |stranger| async move {
            if has_token {
                stranger.introduced();
            }
            let _kept = (stranger, kept);
            std::future::pending::<()>().await;
        });
        is_there
    }

    fn is_gone(caller: &mut Receiver<()>) -> bool {
        caller.try_recv() == Err(TryRecvError::Closed)
    }

    /// Lets all tasks run as far as they can.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn who_comes_too_often_costs_itself_its_places_and_nobody_else() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let strangers = Arc::default();
            let mut known = Vec::new();
            for _ in 0..2 * MAX_OF_ONE {
                known.push(come(&strangers, 9, true));
                settle().await;
            }
            let mut other = come(&strangers, 1, false);
            let mut flood: Vec<_> = (0..MAX_OF_ONE + 3).map(|_| come(&strangers, 9, false)).collect();
            settle().await;
            let gone: Vec<bool> = flood.iter_mut().map(is_gone).collect();
            assert!(gone[..3].iter().all(|gone| *gone) && !gone[3..].contains(&true), "{gone:?}");
            assert!(!is_gone(&mut other));
            // From everywhere: the oldest goes.
            for address in 0..MAX_OF_ALL as u32 {
                drop(come(&strangers, 100 + address, false));
            }
            settle().await;
            assert!(is_gone(&mut other) && flood.iter_mut().all(is_gone));
            assert!(!known.iter_mut().any(is_gone), "the token was known");
            assert_eq!(strangers.held().all.len(), MAX_OF_ALL);
        });
    }
}
