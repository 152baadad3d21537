//! A client, identified by its ClientGuid. It lists the connections over which the server can send the
//! client a break (MS-SMB2 3.3.4.7).

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use smb_wire::negotiate::Dialect;

use crate::state::Handle;

/// One client of this server, with any number of connections and sessions.
#[derive(Debug, Default)]
pub struct Client {
    connections: Mutex<Vec<Arc<Handle>>>,
    /// The dialect of its first log-on.
    dialect: OnceLock<Dialect>,
}

impl Client {
    /// Adds a connection.
    pub fn add(&self, handle: &Arc<Handle>) {
        self.connections.lock().push(Arc::clone(handle));
    }

    /// Removes a connection. Returns true if it was the last one.
    pub fn remove(&self, connection: u64) -> bool {
        let mut connections = self.connections.lock();
        connections.retain(|known| known.id != connection);
        connections.is_empty()
    }

    /// Whether a user may log on from this client with this dialect. A client has one dialect as long as it
    /// has connections.
    // MS-SMB2 3.3.5.5.3
    pub fn accepts_dialect(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Smb202 || *self.dialect.get_or_init(|| dialect) == dialect
    }

    /// The client's connections, the oldest first.
    pub fn connections(&self) -> Vec<Arc<Handle>> {
        self.connections.lock().clone()
    }
}
