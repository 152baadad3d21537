//! TreeConnect: a session's access to one share (MS-SMB2 3.3.1.9).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use share::{Identity, Share};
use smb_wire::create::Access as Rights;

use crate::config::ShareConfig;

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
    /// The batch for which the share last took in what others changed on the host.
    pub looked_at: AtomicU64,
}

impl Tree {
    /// To be called before names are answered from memory: takes in what others have changed on the host,
    /// once for each batch, which is one reading of the clock.
    pub fn take_host_changes(&self, now: wire::Now) {
        if let Target::Disk { engine, .. } = &self.target
            && self.looked_at.swap(now.mono_ns, Ordering::Relaxed) != now.mono_ns
        {
            engine.before_batch(now);
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
