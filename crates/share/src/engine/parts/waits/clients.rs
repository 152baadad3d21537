//! The clients that hear of breaks.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ranked::{Mutex, Rank};
use crate::{BreakListener, ClientKey};

/// A client, and how often it was attached.
type AttachedClient = (Arc<dyn BreakListener>, usize);

/// The clients of a share.
pub(crate) struct Clients(Mutex<HashMap<ClientKey, AttachedClient>>);

impl Default for Clients {
    fn default() -> Clients {
        Clients(Mutex::of_default(Rank::Clients))
    }
}

impl Clients {
    /// Enters a client once more.
    pub fn attach(&self, client: ClientKey, holder: Arc<dyn BreakListener>) {
        let mut clients = self.0.lock();
        let count = clients.get(&client).map_or(0, |(_, count)| *count);
        clients.insert(client, (holder, count + 1));
    }

    /// Undoes one [`Clients::attach`].
    pub fn detach(&self, client: ClientKey) {
        let mut clients = self.0.lock();
        if let Some((_, count)) = clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&client);
            }
        }
    }

    /// The callback of a client for breaks.
    pub fn holder(&self, client: ClientKey) -> Option<Arc<dyn BreakListener>> {
        self.0.lock().get(&client).map(|(holder, _)| Arc::clone(holder))
    }
}
