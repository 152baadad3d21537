//! A client by its ClientGuid: the connections over which it can be told to give a caching right back
//! (MS-SMB2 3.3.4.6, 3.3.4.7).

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use share::{BreakNotice, Caching, ClientKey, Holder};
use smb_wire::FileId;
use smb_wire::create::OplockLevel;

use crate::connection::Handle;
use crate::event::{Event, LeaseBreak};
use crate::server::Server;

/// One client of this server, whatever number of connections and sessions it has.
pub struct Client {
    /// Its key for the engine.
    pub key: ClientKey,
    server: Weak<Server>,
    connections: Mutex<Vec<Arc<Handle>>>,
}

impl Client {
    /// A client without connections.
    pub fn new(key: ClientKey, server: Weak<Server>) -> Client {
        Client { key, server, connections: Mutex::default() }
    }

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

    /// Posts to the first of `handles` that takes it.
    fn post(handles: &[Arc<Handle>], event: impl Fn() -> Event) -> bool {
        handles.iter().any(|handle| handle.post(event()))
    }

    // MS-SMB2 3.3.4.7
    fn break_lease(&self, notice: &BreakNotice) -> bool {
        let lease = LeaseBreak {
            lease_key: notice.key.0.to_le_bytes(),
            current: u32::from(notice.from.bits()),
            new: u32::from(notice.to.bits()),
            epoch: notice.epoch,
            ack: notice.answer,
        };
        let connections = self.connections.lock().clone();
        Self::post(&connections, || Event::LeaseBreak(lease))
    }

    // MS-SMB2 3.3.4.6
    fn break_oplock(&self, notice: &BreakNotice) -> bool {
        let file_id = oplock_file_id(notice);
        let Some(server) = self.server.upgrade() else { return false };
        let Some(open) = server.opens.get(file_id.volatile) else { return false };
        let Some(session) = server.session(open.session_id) else { return false };
        let level = if notice.to.contains(Caching::READ) { OplockLevel::LevelII } else { OplockLevel::None };
        let session_id = open.session_id;
        Self::post(&session.channels(), || Event::OplockBreak { session_id, file_id, level })
    }
}

/// The key of a caching right that belongs to one Open: its FileId.
#[must_use]
pub fn oplock_key(id: FileId) -> share::CacheKey {
    share::CacheKey((u128::from(id.persistent) << 64) | u128::from(id.volatile))
}

fn oplock_file_id(notice: &BreakNotice) -> FileId {
    FileId { persistent: (notice.key.0 >> 64) as u64, volatile: notice.key.0 as u64 }
}

impl Holder for Client {
    fn on_break(&self, notice: &BreakNotice) -> bool {
        if notice.keyed { self.break_lease(notice) } else { self.break_oplock(notice) }
    }
}
