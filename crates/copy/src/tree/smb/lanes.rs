//! Further sessions for small files. Some servers, Samba among them, serve all connections of a client from one process,
//! and making a file is work for that process: more channels of one session bring nothing then, but more clients do.
//!
//! Each lane is a session of its own with one connection, under another ClientGuid. What is done in one round trip or
//! two with a file that nobody else knows goes over whichever has least under way; everything else stays where it was.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use client::ChannelStatus;
use client::smb::Tree;

use super::live::Live;
use crate::error::Done;

/// Sessions with a server, the first one included.
const LANES: usize = 4;

/// A session that takes small files.
#[derive(Debug)]
struct Lane {
    live: Live,
    /// How many it has under way.
    busy: Arc<AtomicUsize>,
}

/// The further sessions there are.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    list: RwLock<Vec<Arc<Lane>>>,
    /// What the first session has under way of the same.
    first: Arc<AtomicUsize>,
}

/// Where a small file goes. Dropping it says that it is no longer under way.
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
    /// Opens those that are missing, all at once; `begin` makes one. One that cannot be had only makes the copy slower.
    pub(super) async fn open<F>(&self, begin: impl Fn() -> F)
    where
        F: Future<Output = Option<Live>> + Send + 'static,
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

    /// The session that has least under way; `first` is that which was there first.
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

    /// Takes notice of what has come of something: after a loss the next attempt goes elsewhere.
    pub(super) fn end<T>(&self, chosen: Chosen, done: Done<T>) -> Done<T> {
        if let (Some(lane), Err(fault)) = (&chosen.lane, &done)
            && fault.is_interruption()
        {
            let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
            list.retain(|other| !Arc::ptr_eq(other, lane));
        }
        done
    }

    pub(super) fn channels(&self) -> Vec<ChannelStatus> {
        self.all().iter().flat_map(|lane| lane.live.channels()).collect()
    }
}
