//! What is known of names: directories on the way, what is remembered of names and files, and up to when the host was heard.

pub(crate) mod cache;
pub(crate) mod directory;
mod index;
mod intake;
mod listing;
mod pages;

use std::sync::Arc;

use volume::{Name, Node, Volume};
use wire::Now;

use crate::Refusal;
use crate::engine::Config;
use cache::{Cache, can_remember};
use directory::{Directories, Directory};
pub(crate) use index::{has_case, same_folded};
use intake::Intake;

/// The names of a share.
pub(crate) struct Names {
    root: Arc<Directory>,
    directories: Directories,
    cache: Arc<Cache>,
    intake: Intake,
}

impl Names {
    /// Those of a volume.
    ///
    /// # Errors
    /// What the volume says when its root cannot be opened.
    pub fn open(volume: &Arc<dyn Volume>, config: &Config) -> Result<Names, Refusal> {
        let node = volume.root()?;
        let is_on = config.metadata_caching && can_remember(volume.properties());
        let cache = Arc::new(Cache::new(config.metadata_cache_bytes, &config.descriptors, is_on));
        let root = Directory::root(volume, node, &cache);
        let directories = Directories::new(volume, &root, &cache);
        Ok(Names { root, directories, cache, intake: Intake::default() })
    }

    /// The root of the share.
    pub fn root(&self) -> &Arc<Directory> {
        &self.root
    }

    /// The directories that are known.
    pub fn directories(&self) -> &Directories {
        &self.directories
    }

    /// The kept directory behind a node, which is entered with its place when it is not known; none where that is not known either.
    pub fn directory_of(
        &self,
        node: &Arc<dyn Node>,
        place: impl FnOnce() -> Option<(Arc<Directory>, Name)>,
    ) -> Option<Arc<Directory>> {
        if let Some(known) = self.directories.get(node.id()) {
            return Some(known);
        }
        let (parent, name) = place()?;
        Some(self.directories.enter(&parent, (&name, &name), Arc::clone(node), None))
    }

    /// What is remembered.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Whether what happened on the host before `now` was taken in.
    pub fn is_taken_in(&self, now: Now) -> bool {
        self.intake.is_done(now)
    }

    /// Takes in what happened on the host before `now`, by one thread at a time.
    pub fn take_in<T>(&self, now: Now, believe: impl FnOnce() -> T) -> T {
        self.intake.take_in(now, believe)
    }
}
