//! Further sessions for small files. Some servers, Samba among them, serve all connections of a client from
//! one process, and creating a file is work for that process. Then more channels of one session bring
//! nothing, but more clients do.
//!
//! Each lane is a session of its own with one connection, under another ClientGuid. Work of one or two round
//! trips on a file that nobody else knows goes over the session with the least in flight. All other work
//! stays in the first session.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use client::ChannelStatus;
use client::smb::Tree;

use super::reconnecting::ReconnectingSession;
use crate::error::FileResult;

/// The number of sessions with a server, including the first one.
const LANES: usize = 4;

/// A session for small files.
#[derive(Debug)]
struct Lane {
    live: ReconnectingSession,
    /// The number of files in flight.
    busy: Arc<AtomicUsize>,
}

/// The further sessions.
#[derive(Debug, Default)]
pub(in crate::tree) struct Lanes {
    list: RwLock<Vec<Arc<Lane>>>,
    /// The number of small files in flight in the first session.
    first: Arc<AtomicUsize>,
}

/// The session chosen for a small file. Dropping it ends the file's count.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) tree: Tree,
    lane: Option<Arc<Lane>>,
    busy: Arc<AtomicUsize>,
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lanes {
    /// Opens the missing ones with `begin`, all at once. A refused session only makes the copy slower.
    pub(super) async fn open<F>(&self, begin: impl Fn() -> F)
    where
        F: Future<Output = Option<ReconnectingSession>> + Send + 'static,
    {
        let mut opening = tokio::task::JoinSet::new();
        for _ in self.all().len()..LANES - 1 {
            opening.spawn(begin());
        }
        while let Some(opened) = opening.join_next().await {
            if let Ok(Some(live)) = opened {
                let lane = Arc::new(Lane { live, busy: Arc::default() });
                self.list.write().unwrap_or_else(PoisonError::into_inner).push(lane);
            }
        }
    }

    fn all(&self) -> Vec<Arc<Lane>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Chooses the session with the least in flight. `first` is the first session.
    pub(super) fn choose(&self, first: Tree) -> Chosen {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let count = |busy: &AtomicUsize| busy.load(Ordering::Relaxed);
        let least = list.iter().min_by_key(|lane| count(&lane.busy));
        let lane = least.filter(|lane| count(&lane.busy) < count(&self.first)).cloned();
        let (tree, busy) = match &lane {
            Some(lane) => (lane.live.tree.clone(), &lane.busy),
            None => (first, &self.first),
        };
        busy.fetch_add(1, Ordering::Relaxed);
        Chosen { tree, busy: Arc::clone(busy), lane }
    }

    /// Ends the use of a session. After a loss the next attempt uses another one.
    pub(super) fn end<T>(&self, chosen: Chosen, done: FileResult<T>) -> FileResult<T> {
        if let (Some(lane), Err(fault)) = (&chosen.lane, &done)
            && fault.is_interruption()
        {
            let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
            list.retain(|other| !Arc::ptr_eq(other, lane));
        }
        done
    }

    pub(in crate::tree) fn channels(&self) -> Vec<ChannelStatus> {
        self.all().iter().flat_map(|lane| lane.live.session.channels()).collect()
    }
}
