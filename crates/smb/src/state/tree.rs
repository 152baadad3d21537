//! TreeConnect: a session's access to one share (MS-SMB2 3.3.1.9).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use share::{Cause, Identity, Share};
use smb_wire::create::Access as Rights;
use smb_wire::negotiate::Capabilities;

use crate::config::{ShareConfig, same_name};

/// What a tree leads to.
pub enum Target {
    /// Files of a share.
    Disk {
        /// The share's settings when it was connected.
        config: Arc<ShareConfig>,
        /// Its engine.
        engine: Arc<Share>,
        /// The session's user, held to the share's limits.
        identity: Arc<Identity>,
    },
    /// Named pipes of the server itself.
    Pipes,
}

/// A session's access to one share.
pub struct Tree {
    /// The TreeId as it stands in headers.
    pub id: u32,
    /// When it was connected.
    pub connected: wire::Now,
    /// Where it leads.
    pub target: Target,
    /// The most that may be asked for (MS-SMB2 3.3.5.7 MaximalAccess).
    pub maximal: Rights,
    /// Whether requests must be sealed.
    pub sealed: bool,
    /// Whether requests must be signed or sealed.
    pub signed: bool,
    /// Whether the client has set owners or modes by number ([`crate::info::numbers`]), and so understands them.
    pub speaks_numbers: AtomicBool,
}

impl Tree {
    /// One that asks for no protection.
    pub fn new(id: u32, connected: wire::Now, target: Target, maximal: Rights) -> Tree {
        let speaks_numbers = AtomicBool::default();
        Tree { id, connected, target, maximal, sealed: false, signed: false, speaks_numbers }
    }

    /// To be called before names are answered from memory: takes in what others have changed on the host,
    /// once for each batch, which is one reading of the clock.
    pub fn take_host_changes(&self, cause: Cause) {
        if let Target::Disk { engine, .. } = &self.target {
            engine.take_host_changes(cause);
        }
    }

    /// Ends what is kept for clients that are gone, since something is short. False when there was nothing.
    pub fn relieve(&self, now: wire::Now) -> bool {
        matches!(&self.target, Target::Disk { engine, .. } if engine.relieve(now))
    }

    /// Whether it leads to the share behind this engine.
    pub fn leads_to(&self, engine: &Arc<Share>) -> bool {
        matches!(&self.target, Target::Disk { engine: own, .. } if Arc::ptr_eq(own, engine))
    }

    /// Whether it leads to the share of this name, case not minded; never to the server's own pipes.
    pub fn leads_to_share(&self, name: &str) -> bool {
        matches!(&self.target, Target::Disk { config, .. } if same_name(&config.name, name))
    }

    /// Whether Opens of this tree can outlive the server, for a client with these capabilities
    /// (MS-SMB2 3.3.5.9.10).
    pub fn is_continuously_available(&self, capabilities: Capabilities) -> bool {
        let here = matches!(&self.target, Target::Disk { config, .. } if config.continuously_available);
        here && capabilities.contains(Capabilities::PERSISTENT_HANDLES)
    }

    /// The session's user, held to the share's limits; none for pipes.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        match &self.target {
            Target::Disk { identity, .. } => Some(identity),
            Target::Pipes => None,
        }
    }

    /// Name of the share.
    #[must_use]
    pub fn share_name(&self) -> &str {
        match &self.target {
            Target::Disk { config, .. } => &config.name,
            Target::Pipes => "IPC$",
        }
    }
}
