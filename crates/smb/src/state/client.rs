//! A client by its ClientGuid: the connections over which it can be told to give a caching right back
//! (MS-SMB2 3.3.4.7).

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use smb_wire::negotiate::Dialect;

use crate::state::Handle;

/// One client of this server, whatever number of connections and sessions it has.
#[derive(Debug, Default)]
pub struct Client {
    connections: Mutex<Vec<Arc<Handle>>>,
    /// What its first log-on came in.
    dialect: OnceLock<Dialect>,
}

impl Client {
    /// A further connection.
    pub fn add(&self, handle: &Arc<Handle>) {
        self.connections.lock().push(Arc::clone(handle));
    }

    /// A connection is gone; true when it was the last.
    pub fn remove(&self, connection: u64) -> bool {
        let mut connections = self.connections.lock();
        connections.retain(|known| known.id != connection);
        connections.is_empty()
    }

    /// Whether somebody may log on from it in this dialect: it has one as long as it has connections.
    // MS-SMB2 3.3.5.5.3
    pub fn speaks(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Smb202 || *self.dialect.get_or_init(|| dialect) == dialect
    }

    /// Its connections, the first one first.
    pub fn connections(&self) -> Vec<Arc<Handle>> {
        self.connections.lock().clone()
    }
}
