//! The links by which somebody came to what is open.

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
pub(crate) struct Trail {
    /// The directories that hold them, the first link first.
    pub holders: Vec<Arc<Directory>>,
    /// The one that the path ends with.
    pub last: Option<LastLink>,
    /// The name that the path ends with stands behind a link.
    pub is_behind: bool,
}

impl Trail {
    /// Whether who goes on from a directory can come by the same link again.
    pub fn leads_round(&self, to: NodeId) -> bool {
        self.holders.iter().any(|holder| holder.is_within(to))
    }
}

/// The links by which an open came to what it is of.
pub(crate) struct Followed {
    pub trail: Trail,
    /// Its file was made by it.
    pub is_own: bool,
    /// The last link, once it was opened to go or to move.
    itself: Mutex<Option<Arc<Open>>>,
}

impl Followed {
    /// None when there was no link.
    pub fn of(trail: Trail, outcome: Outcome) -> Box<Followed> {
        Box::new(Followed {
            trail,
            is_own: outcome == Outcome::Created,
            itself: Mutex::of_default(Rank::LastLink),
        })
    }

    /// The last link, if it was opened.
    pub fn link(&self) -> Option<Arc<Open>> {
        self.itself.lock().clone()
    }

    /// Takes the last link, which is closed with what it led to.
    pub fn take_link(&self) -> Option<Arc<Open>> {
        self.itself.lock().take()
    }

    /// Keeps the last link that was opened. The one of somebody who was quicker, if there is one.
    pub fn keep_link(&self, link: &Arc<Open>) -> Option<Arc<Open>> {
        let mut itself = self.itself.lock();
        if itself.is_none() {
            *itself = Some(Arc::clone(link));
            return None;
        }
        itself.clone()
    }
}
