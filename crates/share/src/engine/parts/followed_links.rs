//! The links on the path of an open.

use std::sync::Arc;

use volume::{Name, NodeId};

use crate::engine::parts::names::directory::Directory;
use crate::ranked::{Mutex, Rank};
use crate::{Open, Outcome};

/// A link by its name.
#[derive(Clone)]
pub(crate) struct LastLink {
    pub parent: Arc<Directory>,
    pub name: Name,
    pub id: NodeId,
}

/// The links that one walk has followed.
#[derive(Clone, Default)]
pub(crate) struct LinkTrail {
    /// The directories that hold them, the first link first.
    pub holders: Vec<Arc<Directory>>,
    /// The link that the path ends with.
    pub last: Option<LastLink>,
    /// Whether the last name of the path is behind a link.
    pub is_behind: bool,
}

impl LinkTrail {
    /// Whether a walk on from a directory can pass the same link again.
    pub fn is_circular(&self, to: NodeId) -> bool {
        self.holders.iter().any(|holder| holder.is_within(to))
    }
}

/// The links on the path of an open.
pub(crate) struct FollowedLinks {
    pub trail: LinkTrail,
    /// Whether this open created its file.
    pub is_own: bool,
    /// The last link, once it was opened to be removed or renamed.
    itself: Mutex<Option<Arc<Open>>>,
}

impl FollowedLinks {
    /// The record for an open; without links it has an empty trail.
    pub fn of(trail: LinkTrail, outcome: Outcome) -> Box<FollowedLinks> {
        Box::new(FollowedLinks {
            trail,
            is_own: outcome == Outcome::Created,
            itself: Mutex::of_default(Rank::LastLink),
        })
    }

    /// The last link, if it was opened.
    pub fn link(&self) -> Option<Arc<Open>> {
        self.itself.lock().clone()
    }

    /// Takes the last link, which is closed with the open.
    pub fn take_link(&self) -> Option<Arc<Open>> {
        self.itself.lock().take()
    }

    /// Stores the last link that was opened. If another request was quicker, returns its link.
    pub fn keep_link(&self, link: &Arc<Open>) -> Option<Arc<Open>> {
        let mut itself = self.itself.lock();
        if itself.is_none() {
            *itself = Some(Arc::clone(link));
            return None;
        }
        itself.clone()
    }
}
