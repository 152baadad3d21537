//! The share: its parts, each of which keeps its fields to itself.

use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use volume::Volume;

use super::{Config, Descriptors, GiveBack};
use crate::engine::parts::counting::Counting;
use crate::engine::parts::lasting::Lasting;
use crate::engine::parts::limiting::Limiting;
use crate::engine::parts::names::Names;
use crate::engine::parts::names::cache::{Cache, MetadataCaching, can_remember};
use crate::engine::parts::names::directory::{Directories, Directory};
use crate::engine::parts::open_files::OpenFiles;
use crate::engine::parts::rights::CachingRights;
use crate::engine::parts::waits::Waits;
use crate::engine::parts::watching::Watching;
use crate::{ClientKey, ClientMemory, Holder, Refusal};

/// One share: a volume and everything that clients have open on it.
pub struct Share {
    volume: Arc<dyn Volume>,
    settings: ArcSwap<Config>,
    common: Common,
    names: Names,
    open_files: OpenFiles,
    rights: CachingRights,
    waits: Waits,
    watching: Watching,
    lasting: Lasting,
    limiting: Limiting,
    counting: Counting,
}

/// What a share has together with others.
struct Common {
    /// Where descriptors come from that are kept.
    descriptors: Arc<Descriptors>,
    /// The memory for clients.
    memory: Arc<ClientMemory>,
    /// Who gives files back behind the answer.
    give_back: Option<Arc<dyn GiveBack>>,
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
    /// What the volume says when its root cannot be opened.
    pub fn open(volume: Arc<dyn Volume>, config: Config) -> Result<Arc<Share>, Refusal> {
        let share = Arc::new(Share {
            names: Names::open(&volume, &config)?,
            volume,
            common: Common {
                descriptors: Arc::clone(&config.descriptors),
                memory: Arc::clone(&config.memory),
                give_back: config.give_back.clone(),
            },
            settings: ArcSwap::from_pointee(config),
            open_files: OpenFiles::default(),
            rights: CachingRights::default(),
            waits: Waits::default(),
            watching: Watching::default(),
            lasting: Lasting::default(),
            limiting: Limiting::default(),
            counting: Counting::default(),
        });
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

    /// Takes new settings into force. What is open stays as it is.
    pub fn configure(&self, config: Config) {
        let remembers = config.metadata_caching;
        self.settings.store(Arc::new(config));
        self.directories().forget_names();
        self.set_metadata_caching(remembers);
    }

    /// Makes a client known, so that it hears of breaks. Counted: each call is undone by one
    /// [`Share::detach`].
    pub fn attach(&self, client: ClientKey, holder: Arc<dyn Holder>) {
        self.waits.clients().attach(client, holder);
    }

    /// Undoes one [`Share::attach`]. The client's opens stay until they are closed.
    pub fn detach(&self, client: ClientKey) {
        self.waits.clients().detach(client);
    }

    /// How many opens there are.
    pub fn open_count(&self) -> usize {
        self.open_files.count()
    }

    /// Room on the volume.
    ///
    /// # Errors
    /// As the host says.
    pub fn space(&self) -> Result<volume::Space, Refusal> {
        Ok(self.volume.space()?)
    }

    /// Room on the file system that an open is on.
    ///
    /// # Errors
    /// As the host says.
    pub fn space_of(&self, open: &crate::Open) -> Result<volume::Space, Refusal> {
        Ok(self.volume.space_at(open.node.as_ref())?)
    }

    /// Has names, attributes and descriptors remembered from now on, or forgotten; takes effect at once, for whatever is
    /// open. Where the volume does not tell of changes by others nothing is ever remembered.
    pub fn set_metadata_caching(&self, on: bool) {
        self.cache().set(on && can_remember(self.volume.properties()));
        if !self.cache().is_on() {
            self.directories().forget_listings();
        }
    }

    /// Whether names, attributes and descriptors are remembered now.
    pub fn remembers_metadata(&self) -> bool {
        self.cache().is_on()
    }

    /// How much is remembered, and what that was good for.
    pub fn metadata_caching(&self) -> MetadataCaching {
        self.cache().summary()
    }
}

/// The parts.
impl Share {
    /// The settings in force, for one look.
    #[inline]
    pub(crate) fn settings(&self) -> Guard<Arc<Config>> {
        self.settings.load()
    }

    /// Where descriptors come from that are kept, of all shares together.
    pub(crate) fn descriptors(&self) -> &Arc<Descriptors> {
        &self.common.descriptors
    }

    /// Whoever gives files back behind the answer is to do so with the node of an open, where there is somebody.
    pub(crate) fn give_back_behind(&self, open: &crate::Open) {
        if let Some(by) = &self.common.give_back {
            open.node.give_back_by(Arc::clone(by));
        }
    }

    /// What is known of names.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The root of the share.
    pub(crate) fn root(&self) -> &Arc<Directory> {
        self.names.root()
    }

    /// The directories that are known.
    pub(crate) fn directories(&self) -> &Directories {
        self.names.directories()
    }

    /// What is remembered of names and files.
    pub(crate) fn cache(&self) -> &Cache {
        self.names.cache()
    }

    /// What is open.
    pub(crate) fn open_files(&self) -> &OpenFiles {
        &self.open_files
    }

    /// Where caching rights are.
    pub(crate) fn rights(&self) -> &CachingRights {
        &self.rights
    }

    /// Who waits.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Who watches.
    pub(crate) fn watching(&self) -> &Watching {
        &self.watching
    }

    /// What outlives a client or the process.
    pub(crate) fn lasting(&self) -> &Lasting {
        &self.lasting
    }

    /// What it may do a second.
    #[inline]
    pub(crate) fn limiting(&self) -> &Limiting {
        &self.limiting
    }

    /// What it has done.
    #[inline]
    pub(crate) fn counting(&self) -> &Counting {
        &self.counting
    }
}
