//! What others hold of a connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use share::Wake;
use share::counts::Visits;
use wire::{Mailbox, Now, Peer, Transfer};

use crate::counters::Counters;
use crate::event::Event;
use crate::index::Claim;
use crate::notice::Way;
use crate::own_notices::OwnNotices;

/// The end of a connection that others hold: how to reach it, and what status shows of it.
pub struct Handle {
    /// Counts connections.
    pub id: u64,
    /// Both addresses.
    pub peer: Peer,
    /// When it was accepted.
    pub since: Now,
    /// How good it is for reaching the client.
    pub way: Way,
    /// What it has done.
    pub counters: Counters,
    /// What it has done on which share.
    pub visits: Arc<Visits>,
    /// How the data of its large reads leaves.
    pub transfer: Transfer,
    /// The client has said that it can have several connections (MS-SMB2 2.2.3 Capabilities).
    pub announced_multichannel: AtomicBool,
    mailbox: Arc<dyn Mailbox<Event>>,
    /// What its own requests have broken of its client's rights.
    pub(crate) own_notices: OwnNotices,
    /// What it has left under way, by async ids.
    pub(crate) left: Mutex<HashMap<u64, Claim>>,
}

impl Handle {
    /// The end of a connection that has just been accepted.
    pub fn new(
        id: u64,
        peer: Peer,
        since: Now,
        mailbox: Arc<dyn Mailbox<Event>>,
        visits: Arc<Visits>,
    ) -> Handle {
        Handle {
            id,
            peer,
            since,
            way: Way::default(),
            counters: Counters::default(),
            visits,
            transfer: Transfer::default(),
            announced_multichannel: AtomicBool::new(false),
            mailbox,
            own_notices: OwnNotices::default(),
            left: Mutex::default(),
        }
    }

    /// Posts to the connection's own thread; false when it is gone.
    pub fn post(&self, event: Event) -> bool {
        self.mailbox.post(event)
    }

    /// The same for what the client there is to be told before the one that is being answered here.
    pub fn post_ahead(&self, event: Event) -> bool {
        self.mailbox.post_ahead(event)
    }
}

impl Wake for Handle {
    fn wake(&self, token: u64) {
        self.left.lock().remove(&token);
        self.mailbox.post(Event::Wake { async_id: token });
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).field("peer", &self.peer).finish_non_exhaustive()
    }
}
