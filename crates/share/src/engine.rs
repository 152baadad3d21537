//! The engine of one share.
//!
//! [`Share`] is the whole of it; its methods are spread over the files of this directory, one subject
//! each. Read `create` first (with `walk`, which finds names, and `access`, which decides rights), then
//! `file` (what is kept of a file while anybody has it open), then `close`, `data` and the rest.
//!
//! | file | subject |
//! |---|---|
//! | `config` | settings, and who is who |
//! | `table`, `ids`, `file`, `record` | open files: the table of them, how it is hashed, one of them, its attribute record |
//! | `directory`, `names`, `look_up`, `walk` | directories on the way, names without regard to case, one name, paths and links |
//! | `followed` | links that were followed, and the last of them in the place of what it leads to |
//! | `link_making` | which symbolic links may be made |
//! | `cache` | what is remembered of names and files so that the volume need not be asked |
//! | `giving_back` | files that are given back to the volume behind the answer |
//! | `access` | descriptors and rights |
//! | `items` | what was found and is not open |
//! | `create`, `existing`, `fresh`, `amending`, `close` | the life of an open |
//! | `data`, `copy`, `size`, `locking` | bytes and byte ranges |
//! | `info`, `basic`, `security`, `extended`, `reparse`, `streams` | what is known of a file, and changing it |
//! | `deleting`, `rename`, `linking`, `scan` | names |
//! | `shortage`, `fairness` | what is given up when something is short, and who gets what is left |
//! | `keeping` | opens whose client is gone |
//! | `lapsing` | clients whose time is over |
//! | `lasting`, `restoring` | opens that outlive the process: recorded, and made again |
//! | `waits`, `breaks` | requests that wait, and whom they wait for |
//! | `watching`, `changes`, `host` | who hears of changes, from us and from the host |
//! | `limiting`, `counting`, `usage` | what the share may do a second, what it has done, and what lies there |
//! | `since` | whether what was read is still so |
//! | `versions` | the number that moves with each change of a file |
//!
//! The locks, and the order in which they are taken, stand in one table: `crate::ranked::Rank`. No holder is told, and no waiter
//! woken, while any of them is held: what is to be sent is collected in [`waits::Effects`] and sent by `Share::settle`.

mod access;
mod address;
mod amending;
mod basic;
mod breaks;
mod cache;
mod changes;
mod close;
mod config;
mod contention;
mod copy;
mod counting;
mod create;
mod data;
mod deleting;
mod directory;
mod existing;
mod extended;
mod fairness;
pub(crate) mod file;
pub(crate) mod followed;
mod fresh;
pub(crate) mod giving_back;
mod host;
mod host_lists;
mod ids;
mod info;
mod items;
mod keeping;
mod lapsing;
mod lasting;
mod limiting;
mod link_making;
mod linking;
mod locking;
mod look_up;
mod names;
mod pages;
mod record;
mod rename;
mod reparse;
mod restoring;
mod scan;
mod security;
mod shortage;
mod since;
mod size;
mod streams;
mod syncing;
mod table;
mod untold;
mod usage;
mod versions;
mod waits;
mod walk;
mod watched_tree;
mod watching;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use volume::Volume;

use crate::ranked::{Mutex, Rank};
use crate::{ClientKey, ClientMemory, Holder, Refusal};

pub(crate) use watched_tree::WatchedTree;

pub use basic::{Basic, TimeSet};
pub use cache::{Descriptors, MetadataCaching};
pub use config::{Accounts, Config, METADATA_CACHE_BYTES, NoAccounts};
pub use copy::Side;
pub use data::WriteAt;
pub use extended::Extended;
pub use giving_back::GiveBack;
pub use info::{HeldRange, OpenSummary};
pub use items::{Fresh, Item};
pub use link_making::Symlinks;
pub use locking::RangeNote;
pub use scan::Entry;

/// A client, and how often it was attached.
type Attached = (Arc<dyn Holder>, usize);

/// One share: a volume and everything that clients have open on it.
pub struct Share {
    volume: Arc<dyn Volume>,
    config: ArcSwap<Config>,
    root: Arc<directory::Directory>,
    directories: directory::Directories,
    cache: Arc<cache::Cache>,
    /// Where descriptors come from that are kept, of all shares together.
    descriptors: Arc<Descriptors>,
    /// The memory for clients, of all shares together.
    memory: Arc<ClientMemory>,
    give_back: Option<Arc<dyn GiveBack>>,
    versions: versions::Versions,
    files: table::Files,
    waits: waits::Waits,
    detachment: keeping::Detachment,
    /// Where opens are recorded; none when they end with the process.
    keeping: OnceLock<lasting::Keeping>,
    watching: watching::Watching,
    untold: untold::Untold,
    /// Who hears of breaks.
    clients: Mutex<HashMap<ClientKey, Attached>>,
    /// Where the right under a key is.
    keys: breaks::Keys,
    contention: contention::Contention,
    /// The same for rights that are given back as a whole, whoever wants them back.
    recalls: contention::Contention,
    /// Who ends clients whose time is over.
    keepers: lapsing::Keepers,
    limiting: limiting::Limiting,
    counting: counting::Counting,
    next_open: AtomicU64,
    /// How often the host has refused to bring written data to stable storage.
    failed_syncs: AtomicU64,
    open_count: AtomicUsize,
    /// Held while what happened on the host is taken in, so that whoever comes later knows it too.
    taking: Mutex<()>,
    /// Up to when what happened on the host was taken in (monotonic ns).
    looked_at_ns: AtomicU64,
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
        let node = volume.root()?;
        let is_on = config.metadata_caching && cache::can_remember(volume.facts());
        let cache = Arc::new(cache::Cache::new(config.metadata_cache_bytes, &config.descriptors, is_on));
        let root = directory::Directory::root(&volume, node, &cache);
        let directories = directory::Directories::new(Arc::clone(&root), &cache);
        let descriptors = Arc::clone(&config.descriptors);
        let share = Arc::new(Share {
            volume,
            descriptors,
            memory: Arc::clone(&config.memory),
            give_back: config.give_back.clone(),
            config: ArcSwap::from_pointee(config),
            root,
            directories,
            cache,
            versions: versions::Versions::default(),
            files: table::Files::default(),
            waits: waits::Waits::default(),
            detachment: keeping::Detachment::default(),
            keeping: OnceLock::new(),
            watching: watching::Watching::default(),
            untold: untold::Untold::default(),
            clients: Mutex::of_default(Rank::Clients),
            keys: breaks::Keys::default(),
            contention: contention::Contention::default(),
            recalls: contention::Contention::default(),
            keepers: lapsing::Keepers::default(),
            limiting: limiting::Limiting::default(),
            counting: counting::Counting::default(),
            next_open: AtomicU64::new(1),
            failed_syncs: AtomicU64::new(0),
            open_count: AtomicUsize::new(0),
            taking: Mutex::of_default(Rank::HostEvents),
            looked_at_ns: AtomicU64::new(0),
        });
        let sharing: Weak<Share> = Arc::downgrade(&share);
        share.descriptors.join(sharing);
        Ok(share)
    }

    /// The volume behind the share.
    pub fn volume(&self) -> &Arc<dyn Volume> {
        &self.volume
    }

    /// The memory for clients, of all shares together.
    pub fn client_memory(&self) -> &Arc<ClientMemory> {
        &self.memory
    }

    /// The share's name.
    pub fn name(&self) -> String {
        self.config.load().name.clone()
    }

    /// The settings in force.
    pub fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }

    /// Takes new settings into force. What is open stays as it is.
    pub fn configure(&self, config: Config) {
        let remembers = config.metadata_caching;
        self.config.store(Arc::new(config));
        self.directories.forget_names();
        self.set_metadata_caching(remembers);
    }

    /// Makes a client known, so that it hears of breaks. Counted: each call is undone by one
    /// [`Share::detach`].
    pub fn attach(&self, client: ClientKey, holder: Arc<dyn Holder>) {
        let mut clients = self.clients.lock();
        let count = clients.get(&client).map_or(0, |(_, count)| *count);
        clients.insert(client, (holder, count + 1));
    }

    /// Undoes one [`Share::attach`]. The client's opens stay until they are closed.
    pub fn detach(&self, client: ClientKey) {
        let mut clients = self.clients.lock();
        if let Some((_, count)) = clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&client);
            }
        }
    }

    /// How many opens there are.
    pub fn open_count(&self) -> usize {
        self.open_count.load(Ordering::Relaxed)
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

    /// Room on the file system that an item is on.
    ///
    /// # Errors
    /// As the host says.
    pub fn space_at(&self, item: &Item) -> Result<volume::Space, Refusal> {
        Ok(self.volume.space_at(item.node())?)
    }
}
