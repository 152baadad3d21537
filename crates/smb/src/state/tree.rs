//! TreeConnect: a session's access to one share (MS-SMB2 3.3.1.9).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use share::{Cause, Identity, Share};
use smb_wire::create::Access as Rights;
use smb_wire::negotiate::Capabilities;

use crate::config::{ShareConfig, same_name};

/// The target of a tree.
pub enum TreeTarget {
    /// The files of a share.
    Disk {
        /// The share's settings at the time of TREE_CONNECT.
        config: Arc<ShareConfig>,
        /// Its engine.
        engine: Arc<Share>,
        /// The session's user within the share's limits.
        identity: Arc<Identity>,
    },
    /// The named pipes of the server.
    Pipes,
}

/// A session's access to one share.
pub struct Tree {
    /// The TreeId in headers.
    pub id: u32,
    /// When it was connected.
    pub connected: wire::Now,
    /// The target of the tree.
    pub target: TreeTarget,
    /// The most access that a request may ask for (MS-SMB2 3.3.5.7 MaximalAccess).
    pub maximal: Rights,
    /// Whether requests must be sealed.
    pub sealed: bool,
    /// Whether requests must be signed or sealed.
    pub signed: bool,
    /// Whether the client has set owners or modes by number ([`crate::info::numbers`]). Such a client
    /// understands them.
    pub speaks_numbers: AtomicBool,
}

impl Tree {
    /// A tree that requires no protection.
    pub fn new(id: u32, connected: wire::Now, target: TreeTarget, maximal: Rights) -> Tree {
        let speaks_numbers = AtomicBool::default();
        Tree { id, connected, target, maximal, sealed: false, signed: false, speaks_numbers }
    }

    /// Takes in changes that others have made on the host, once for each batch (one reading of the clock).
    /// Call it before a lookup of names from memory.
    pub fn take_host_changes(&self, cause: Cause) {
        if let TreeTarget::Disk { engine, .. } = &self.target {
            engine.take_host_changes(cause);
        }
    }

    /// Ends state of clients that are gone, because a resource is short. Returns false if there was none.
    pub fn release_lost_clients(&self, now: wire::Now) -> bool {
        matches!(&self.target, TreeTarget::Disk { engine, .. } if engine.relieve(now))
    }

    /// Whether its target is the share of this engine.
    pub fn leads_to(&self, engine: &Arc<Share>) -> bool {
        matches!(&self.target, TreeTarget::Disk { engine: own, .. } if Arc::ptr_eq(own, engine))
    }

    /// Whether its target is the share of this name, ignoring case. It is false for the server's pipes.
    pub fn leads_to_share(&self, name: &str) -> bool {
        matches!(&self.target, TreeTarget::Disk { config, .. } if same_name(&config.name, name))
    }

    /// Whether Opens of this tree can outlive the server, for a client with these capabilities (MS-SMB2
    /// 3.3.5.9.10).
    pub fn is_continuously_available(&self, capabilities: Capabilities) -> bool {
        let here = matches!(&self.target, TreeTarget::Disk { config, .. } if config.continuously_available);
        here && capabilities.contains(Capabilities::PERSISTENT_HANDLES)
    }

    /// The session's user within the share's limits. `None` for pipes.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        match &self.target {
            TreeTarget::Disk { identity, .. } => Some(identity),
            TreeTarget::Pipes => None,
        }
    }

    /// The name of the share.
    #[must_use]
    pub fn share_name(&self) -> &str {
        match &self.target {
            TreeTarget::Disk { config, .. } => &config.name,
            TreeTarget::Pipes => "IPC$",
        }
    }
}
