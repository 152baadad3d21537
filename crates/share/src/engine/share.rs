//! The share: its parts, each of which has private fields.

use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use volume::Volume;

use super::{Config, DeferredClose, Descriptors};
use crate::engine::parts::audit::AuditSelection;
use crate::engine::parts::counters::FamilyCounters;
use crate::engine::parts::limits::LimitsInForce;
use crate::engine::parts::names::Names;
use crate::engine::parts::names::cache::{Cache, MetadataCaching, can_remember};
use crate::engine::parts::names::directory::{Directories, Directory};
use crate::engine::parts::open_files::OpenFiles;
use crate::engine::parts::persistence::Persistence;
use crate::engine::parts::recycle_bin::RecycleBin;
use crate::engine::parts::rights::CachingRights;
use crate::engine::parts::waits::Waits;
use crate::engine::parts::watches::Watches;
use crate::{BreakListener, ClientKey, ClientMemory, Refusal};

/// One share: a volume and all opens of clients on it.
pub struct Share {
    volume: Arc<dyn Volume>,
    settings: ArcSwap<Config>,
    common: SharedResources,
    names: Names,
    open_files: OpenFiles,
    rights: CachingRights,
    waits: Waits,
    watches: Watches,
    persistence: Persistence,
    limits_in_force: LimitsInForce,
    counters: FamilyCounters,
    audit_selection: AuditSelection,
    recycle_bin: RecycleBin,
}

/// The resources that a share has in common with other shares.
struct SharedResources {
    /// The source of descriptors for cached names.
    descriptors: Arc<Descriptors>,
    /// The memory for clients.
    memory: Arc<ClientMemory>,
    /// Closes files after the reply to the client.
    give_back: Option<Arc<dyn DeferredClose>>,
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Share {
    /// Starts serving a volume.
    ///
    /// # Errors
    /// The error of the volume if its root cannot be opened.
    pub fn open(volume: Arc<dyn Volume>, config: Config) -> Result<Arc<Share>, Refusal> {
        let share = Arc::new(Share {
            names: Names::open(&volume, &config)?,
            volume,
            common: SharedResources {
                descriptors: Arc::clone(&config.descriptors),
                memory: Arc::clone(&config.memory),
                give_back: config.give_back.clone(),
            },
            audit_selection: AuditSelection::default(),
            settings: ArcSwap::from_pointee(config),
            open_files: OpenFiles::default(),
            rights: CachingRights::default(),
            waits: Waits::default(),
            watches: Watches::default(),
            persistence: Persistence::default(),
            limits_in_force: LimitsInForce::default(),
            counters: FamilyCounters::default(),
            recycle_bin: RecycleBin::default(),
        });
        share.audit_selection.set(share.settings().audited());
        let sharing: Weak<Share> = Arc::downgrade(&share);
        share.common.descriptors.join(sharing);
        Ok(share)
    }

    /// The volume behind the share.
    pub fn volume(&self) -> &Arc<dyn Volume> {
        &self.volume
    }

    /// The memory for clients, of all shares together.
    pub fn client_memory(&self) -> &Arc<ClientMemory> {
        &self.common.memory
    }

    /// The share's name.
    pub fn name(&self) -> String {
        self.settings().name.clone()
    }

    /// The settings in force.
    pub fn config(&self) -> Arc<Config> {
        self.settings.load_full()
    }

    /// Puts new settings into force. Existing opens stay as they are.
    pub fn configure(&self, config: Config) {
        let remembers = config.metadata_caching;
        self.audit_selection.set(config.audited());
        self.settings.store(Arc::new(config));
        self.directories().forget_names();
        self.recycle_bin.restart();
        self.set_metadata_caching(remembers);
    }

    /// Registers a client, so that it hears of breaks. The calls are counted: one [`Share::detach`] undoes
    /// each of them.
    pub fn attach(&self, client: ClientKey, holder: Arc<dyn BreakListener>) {
        self.waits.clients().attach(client, holder);
    }

    /// Undoes one [`Share::attach`]. The client's opens stay until they are closed.
    pub fn detach(&self, client: ClientKey) {
        self.waits.clients().detach(client);
    }

    /// The number of opens, with those from before a restart that are not restored yet.
    pub fn open_count(&self) -> usize {
        self.restored_count() + self.persistence.unrestored().open_count()
    }

    /// The number of opens without those from before a restart that are not restored yet.
    pub fn restored_count(&self) -> usize {
        self.open_files.count()
    }

    /// Room on the volume.
    ///
    /// # Errors
    /// The host's error.
    pub fn space(&self) -> Result<volume::Space, Refusal> {
        Ok(self.volume.space()?)
    }

    /// Room on the file system that an open is on.
    ///
    /// # Errors
    /// The host's error.
    pub fn space_of(&self, open: &crate::Open) -> Result<volume::Space, Refusal> {
        Ok(self.volume.space_at(open.node.as_ref())?)
    }

    /// Turns the cache of names, attributes and descriptors on or off. It takes effect at once, also for
    /// existing opens. If the volume does not report changes by others, nothing is ever cached.
    pub fn set_metadata_caching(&self, on: bool) {
        self.cache().set(on && can_remember(self.volume.properties()));
        if !self.cache().is_on() {
            self.directories().forget_listings();
        }
    }

    /// Whether names, attributes and descriptors are cached now.
    pub fn caches_metadata(&self) -> bool {
        self.cache().is_on()
    }

    /// The size and the hit counters of the cache.
    pub fn metadata_caching(&self) -> MetadataCaching {
        self.cache().summary()
    }
}

/// The parts.
impl Share {
    /// The settings in force, for a short access.
    #[inline]
    pub(crate) fn settings(&self) -> Guard<Arc<Config>> {
        self.settings.load()
    }

    /// The source of descriptors for cached names, of all shares together.
    pub(crate) fn descriptors(&self) -> &Arc<Descriptors> {
        &self.common.descriptors
    }

    /// Has the node of an open closed after the reply, if that is configured.
    pub(crate) fn give_back_behind(&self, open: &crate::Open) {
        if let Some(by) = &self.common.give_back {
            open.node.give_back_by(Arc::clone(by));
        }
    }

    /// The names of the share.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The root of the share.
    pub(crate) fn root(&self) -> &Arc<Directory> {
        self.names.root()
    }

    /// The known directories.
    pub(crate) fn directories(&self) -> &Directories {
        self.names.directories()
    }

    /// The cache of names and files.
    pub(crate) fn cache(&self) -> &Cache {
        self.names.cache()
    }

    /// The opens and their files.
    pub(crate) fn open_files(&self) -> &OpenFiles {
        &self.open_files
    }

    /// The caching rights.
    pub(crate) fn rights(&self) -> &CachingRights {
        &self.rights
    }

    /// The waiting requests.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// The watches.
    pub(crate) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// The opens that outlive a client or the process.
    pub(crate) fn persistence(&self) -> &Persistence {
        &self.persistence
    }

    /// The provisioned limits.
    #[inline]
    pub(crate) fn limits_in_force(&self) -> &LimitsInForce {
        &self.limits_in_force
    }

    /// The selected audit events.
    #[inline]
    pub(crate) fn audit_selection(&self) -> &AuditSelection {
        &self.audit_selection
    }

    /// The counters of the recycle folder, and the search for the files in it.
    pub(crate) fn recycle_bin(&self) -> &RecycleBin {
        &self.recycle_bin
    }

    /// The counters.
    #[inline]
    pub(crate) fn counters(&self) -> &FamilyCounters {
        &self.counters
    }
}
