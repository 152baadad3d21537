//! Open: what CREATE made (MS-SMB2 3.3.1.10).

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use share::{ClientKey, LockOwner, Share};
use smb_wire::FileId;
use smb_wire::rpc::Pipe;
use wire::Now;

use crate::cmd::query_directory::Listing;
use crate::info::Kept;
use crate::table::Keyed;
use crate::tree::Tree;

/// What an Open leads to.
pub enum Object {
    /// A file or directory of a share.
    File {
        /// The share's engine.
        engine: Arc<Share>,
        /// The engine's side of the Open.
        open: Arc<share::Open>,
    },
    /// A named pipe.
    Pipe(Mutex<Pipe>),
}

/// One Open.
pub struct Open {
    /// Both halves of its id.
    pub id: FileId,
    /// The session that made it.
    pub session_id: u64,
    /// The client of that session.
    pub client: ClientKey,
    /// The tree it was made on.
    pub tree: Arc<Tree>,
    /// When it was made.
    pub created: Now,
    object: OnceLock<Object>,
    /// Its directory listing.
    pub(crate) listing: Mutex<Listing>,
    /// What some information classes ask for.
    pub(crate) kept: Kept,
    /// The lease it was opened with.
    pub lease_key: OnceLock<[u8; 16]>,
}

impl Open {
    /// An Open whose object is not known yet: the id must exist before the engine is asked, since a
    /// break may come before its answer.
    pub fn new(id: FileId, session_id: u64, client: ClientKey, tree: Arc<Tree>, created: Now) -> Open {
        let (object, lease_key) = (OnceLock::new(), OnceLock::new());
        let (listing, kept) = (Mutex::default(), Kept::default());
        Open { id, session_id, client, tree, created, object, listing, kept, lease_key }
    }

    /// What it leads to has been opened.
    pub fn settle(&self, object: Object) {
        let _ = self.object.set(object);
    }

    /// What it leads to; none while CREATE is under way.
    #[inline]
    pub fn object(&self) -> Option<&Object> {
        self.object.get()
    }

    /// The engine's side, if it leads to a file.
    #[inline]
    pub fn file(&self) -> Option<(&Arc<Share>, &Arc<share::Open>)> {
        match self.object.get() {
            Some(Object::File { engine, open }) => Some((engine, open)),
            _ => None,
        }
    }

    /// Who owns the byte ranges that are locked through it.
    #[inline]
    pub fn lock_owner(&self) -> LockOwner {
        LockOwner { client: self.client, owner: u128::from(self.id.persistent) }
    }
}

impl Keyed for Open {
    fn key(&self) -> u64 {
        self.id.volatile
    }
}
