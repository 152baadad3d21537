//! The names of a share: directories on paths, the cache of names and files, and the time up to which the
//! host's events were taken in.

pub(crate) mod cache;
pub(crate) mod directory;
mod host_events;
mod index;
mod listing;
mod pages;

use std::sync::Arc;

use volume::{Name, Node, Volume};
use wire::Now;

use crate::Refusal;
use crate::engine::Config;
use cache::{Cache, can_remember};
use directory::{Directories, Directory};
use host_events::HostEventIntake;
pub(crate) use index::{has_case, same_folded};

/// The names of a share.
pub(crate) struct Names {
    root: Arc<Directory>,
    directories: Directories,
    cache: Arc<Cache>,
    intake: HostEventIntake,
}

impl Names {
    /// The names of a volume.
    ///
    /// # Errors
    /// The error of the volume if its root cannot be opened.
    pub fn open(volume: &Arc<dyn Volume>, config: &Config) -> Result<Names, Refusal> {
        let node = volume.root()?;
        let is_on = config.metadata_caching && can_remember(volume.properties());
        let cache = Arc::new(Cache::new(config.metadata_cache_bytes, &config.descriptors, is_on));
        let root = Directory::root(volume, node, &cache);
        let directories = Directories::new(volume, &root, &cache);
        Ok(Names { root, directories, cache, intake: HostEventIntake::default() })
    }

    /// The root of the share.
    pub fn root(&self) -> &Arc<Directory> {
        &self.root
    }

    /// The known directories.
    pub fn directories(&self) -> &Directories {
        &self.directories
    }

    /// The directory of a node. If it is not known, it is entered with its parent and name; none if those are
    /// not known either.
    pub fn directory_of(
        &self,
        node: &Arc<dyn Node>,
        parent_and_name: impl FnOnce() -> Option<(Arc<Directory>, Name)>,
    ) -> Option<Arc<Directory>> {
        if let Some(known) = self.directories.get(node.id()) {
            return Some(known);
        }
        let (parent, name) = parent_and_name()?;
        Some(self.directories.enter(&parent, (&name, &name), Arc::clone(node), None))
    }

    /// The cache of names and files.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Whether the events of the host before `now` were taken in.
    pub fn is_taken_in(&self, now: Now) -> bool {
        self.intake.is_done(now)
    }

    /// Takes in the events of the host before `now`, by one thread at a time.
    pub fn take_in<T>(&self, now: Now, apply: impl FnOnce() -> T) -> T {
        self.intake.take_in(now, apply)
    }
}
