//! Restores the persistent Opens of a share after a restart ([`Server::restore`]).

use std::sync::Arc;

use share::{CacheKey, Detached, Restored};
use smb_wire::FileId;
use smb_wire::create::Access;
use wire::Now;

use super::Server;
use crate::config::ShareConfig;
use crate::state::durable::{Durable, Survival, Version};
use crate::state::persistent::Note;
use crate::state::{Object, Open, Tree, TreeTarget};

impl Server {
    /// Restores the recorded Opens of a share. Each of them waits for its client from now on.
    ///
    /// Call this before clients can connect the share.
    // MS-SMB2 3.3.7.1
    pub fn restore(&self, config: &Arc<ShareConfig>, restored: Vec<Restored>, now: Now) {
        let (share, mut taken) = (&config.name, 0);
        for Restored { open, keep_ns, note, is_doubtful, .. } in restored {
            match self.restore_one(config, &open, keep_ns, &note, now) {
                Ok(()) => taken += 1,
                Err(why) => {
                    if is_doubtful {
                        let lack = "what it lacks may stand in a damaged record";
                        tracing::info!(%share, why, "an open from before the restart is closed; {lack}");
                    } else {
                        tracing::warn!(%share, why, "an open from before the restart is closed");
                    }
                    if let Err(why) = config.engine.close(&open, now) {
                        tracing::warn!(%share, %why, "it was closed with an error");
                    }
                }
            }
        }
        if taken > 0 {
            tracing::info!(%share, opens = taken, "opens from before the restart wait for their clients");
        }
    }

    fn restore_one(
        &self,
        config: &Arc<ShareConfig>,
        file: &Arc<share::Open>,
        keep_ns: u64,
        note: &[u8],
        now: Now,
    ) -> Result<(), &'static str> {
        let note = Note::decode(note).map_err(|_| "what was noted of it cannot be read")?;
        if self.index.by_durable_id(note.persistent).is_some() {
            return Err("another has its id");
        }
        // The host's clock may have gone back.
        self.reserve_above(note.persistent);
        let volatile = self.opens.reserve().ok_or("there are too many")?;
        let identity = file.identity();
        let target = TreeTarget::Disk {
            config: Arc::clone(config),
            engine: Arc::clone(&config.engine),
            identity: Arc::clone(&identity),
        };
        let maximal = Access::from_bits_retain(file.granted().bits());
        let tree = Arc::new(Tree::new(0, now, target, maximal));
        let id = FileId { persistent: note.persistent, volatile };
        let open = Open::restored(id, CacheKey(note.oplock_key), note.create_record.client, tree, now);
        if let Some(lease) = &note.create_record.lease {
            let _ = open.lease_key.set(lease.key.0);
        }
        let durable = Durable { version: Version::Two, timeout_ms: note.timeout_ms, persistent: true };
        *open.survival.lock() =
            Survival { durable: Some(durable), resilient_ms: None, owner: Some(identity.sid) };
        if note.is_replayable {
            open.set_replayable();
        }
        open.locks.set_all(note.locks);
        let _ = open.create_record.set(note.create_record);
        open.settle(Object::File { engine: Arc::clone(&config.engine), open: Arc::clone(file) });
        let open = Arc::new(open);
        self.opens.fill(Arc::clone(&open));
        self.index.enter(&open, true);
        let until_ns = now.mono_ns.saturating_add(keep_ns);
        let how = Detached { until_ns, yields: false, keeper: Arc::clone(&self.reaper), token: volatile };
        config.engine.detach_open(file, how, now).map_err(|_| {
            self.opens.remove(volatile);
            self.index.remove(&open);
            "there are too many"
        })
    }
}
