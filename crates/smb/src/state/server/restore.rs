//! Restores the persistent Opens of a share after a restart ([`Server::restore_open`]).

use std::sync::Arc;

use share::{CacheKey, Detached, Refusal, Restored, UnrestoredOpen};
use smb_wire::create::Access;
use smb_wire::{FileId, Guid, NtStatus};
use wire::Now;

use super::Server;
use crate::config::ShareConfig;
use crate::state::durable::{Durable, Survival, Version};
use crate::state::persistent::Note;
use crate::state::{Object, Open, Tree, TreeTarget};

impl Server {
    /// Enters the ids of Opens that the engine of a share restores later, or when a request needs them. Notes
    /// of other protocols are left out. Call this before clients can connect the share.
    pub fn expect(&self, config: &ShareConfig, unrestored: &[UnrestoredOpen]) {
        for open in unrestored {
            // What cannot be read is told when it is restored.
            let Ok(note) = Note::decode(&open.note) else { continue };
            self.reserve_above(note.persistent);
            self.expected.enter(&config.engine, open.id, &note);
        }
    }

    /// Has the expected Open with this durable id restored, and those with this CreateGuid.
    ///
    /// # Errors
    /// STATUS_FILE_NOT_AVAILABLE if the host fails to open the file. Clients ask again then. They would take
    /// the handle for lost if it was said not to exist.
    pub(crate) fn restore_expected(
        &self,
        durable_id: Option<u64>,
        create: Option<Guid>,
    ) -> Result<(), NtStatus> {
        self.expected.restore(durable_id, create, None).map_err(|_| NtStatus::FILE_NOT_AVAILABLE)
    }

    /// Has the expected Opens of an application instance restored.
    ///
    /// # Errors
    /// The host's error.
    pub(crate) fn restore_instance(&self, instance: Guid) -> Result<(), Refusal> {
        self.expected.restore(None, None, Some(instance))
    }

    /// Restores an Open of a share. It waits for its client from now on. Returns whether that is possible. If
    /// not, it is closed. The time for which it is kept counts from the restart.
    // MS-SMB2 3.3.7.1
    pub fn restore_open(
        &self,
        config: &Arc<ShareConfig>,
        restored: Restored,
        restarted: Now,
        now: Now,
    ) -> bool {
        let Restored { open, keep_ns, note, is_doubtful, .. } = restored;
        let until_ns = restarted.mono_ns.saturating_add(keep_ns);
        let Err(why) = self.restore_one(config, &open, until_ns, &note, now) else { return true };
        let share = &config.name;
        if is_doubtful {
            let lack = "what it lacks may stand in a damaged record";
            tracing::info!(%share, why, "an open from before the restart is closed; {lack}");
        } else {
            tracing::warn!(%share, why, "an open from before the restart is closed");
        }
        if let Err(why) = config.engine.close(&open, now) {
            tracing::warn!(%share, %why, "it was closed with an error");
        }
        false
    }

    fn restore_one(
        &self,
        config: &Arc<ShareConfig>,
        file: &Arc<share::Open>,
        until_ns: u64,
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
        let how = Detached { until_ns, yields: false, keeper: Arc::clone(&self.reaper), token: volatile };
        config.engine.detach_restored(file, how, now).map_err(|_| {
            self.opens.remove(volatile);
            self.index.remove(&open);
            "there are too many"
        })
    }
}
