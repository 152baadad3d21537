//! The lookup of one name in a directory, from the cache or from the volume.
//!
//! [`Share::look_up`] is the only way by which requests come from a name to a node. If names are cached
//! ([`crate::engine::parts::names::cache`]), the cache may answer only under three conditions. The volume
//! must report changes by others in that directory. Those reports must have been taken in for the request.
//! And no request may be changing the name just now.

use std::sync::Arc;

use volume::{Failure, Name, Node, NodeKind, OpenHow, Stat};

use crate::Refusal;
use crate::engine::Share;
use crate::engine::parts::names::cache::{CachedTarget, KeptNode};
use crate::engine::parts::names::directory::{Directory, KnownName};
use crate::engine::parts::names::has_case;

/// The mode of a lookup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search {
    /// Names match exactly.
    pub exact: bool,
    /// The access for which the last component is opened.
    pub how: OpenHow,
    /// The caller expects that the last component does not exist.
    pub rather_missing: bool,
}

/// The real name of an object, and its node.
pub(crate) struct ResolvedName {
    pub name: Name,
    pub node: Arc<dyn Node>,
    /// The cache entry of the node.
    pub kept: Option<Arc<KeptNode>>,
    /// The stat that the volume returned if it was asked for the name just now.
    pub seen: Option<Stat>,
    /// Whether the name was answered from the cache and the volume was not asked.
    pub is_from_memory: bool,
}

/// The cached state of an exact name.
enum CacheRecall {
    /// The name leads to this node.
    Found(ResolvedName),
    /// The name leads to nothing.
    Absent,
    /// The volume must be asked.
    Nothing,
}

impl ResolvedName {
    /// A node under its name, without further information.
    pub fn of(name: Name, node: Arc<dyn Node>) -> ResolvedName {
        ResolvedName { name, node, kept: None, seen: None, is_from_memory: false }
    }
}

impl Share {
    /// The node and the real name that a name in a directory leads to; none if it does not exist. The caller
    /// holds no lock of the directory.
    ///
    /// # Errors
    /// The volume's error.
    pub(crate) fn look_up(
        &self,
        here: &Arc<Directory>,
        name: &Name,
        search: Search,
    ) -> Result<Option<ResolvedName>, Refusal> {
        self.with_room(|| self.look_up_once(here, name, search))
    }

    fn look_up_once(
        &self,
        here: &Arc<Directory>,
        name: &Name,
        search: Search,
    ) -> Result<Option<ResolvedName>, Refusal> {
        let folds = !search.exact && has_case(name.as_bytes());
        if self.cache().is_on() && here.reports_changes() && here.settle(name) {
            return self.look_up_cached(here, name, search.how, folds);
        }
        if folds && search.rather_missing && here.reports_changes() {
            // The index saves a request to the volume for a name that does not exist.
            if let KnownName::Names(spellings) = here.known(name)? {
                return self.first_of(here, spellings, search.how);
            }
        }
        if let Some(node) = existing(here.node.lookup(name, search.how))? {
            return Ok(Some(ResolvedName::of(name.clone(), node)));
        }
        if !folds {
            return Ok(None);
        }
        let spellings = self.directories().spellings(here, name)?;
        self.first_of(here, spellings, search.how)
    }

    fn first_of(
        &self,
        here: &Arc<Directory>,
        spellings: Vec<Name>,
        how: OpenHow,
    ) -> Result<Option<ResolvedName>, Refusal> {
        for real in spellings {
            if let Some(node) = existing(here.node.lookup(&real, how))? {
                return Ok(Some(ResolvedName::of(real, node)));
            }
            here.note_missing(&real);
        }
        Ok(None)
    }

    fn look_up_cached(
        &self,
        here: &Arc<Directory>,
        name: &Name,
        how: OpenHow,
        folds: bool,
    ) -> Result<Option<ResolvedName>, Refusal> {
        match self.recall(here, name, how)? {
            CacheRecall::Found(found) => return Ok(Some(found)),
            CacheRecall::Absent if !folds => {
                self.cache().hit();
                return Ok(None);
            }
            CacheRecall::Absent | CacheRecall::Nothing => {}
        }
        if let KnownName::Names(mut spellings) = here.known(name)? {
            spellings.retain(|real| folds || real == name);
            return self.first_cached(here, spellings, how);
        }
        if let Some(found) = self.ask(here, name, how, !folds)? {
            return Ok(Some(found));
        }
        if !folds {
            self.directories().missed(here);
            return Ok(None);
        }
        let spellings = self.directories().spellings(here, name)?;
        self.first_cached(here, spellings, how)
    }

    /// The node of the first of these spellings that exists.
    fn first_cached(
        &self,
        here: &Arc<Directory>,
        spellings: Vec<Name>,
        how: OpenHow,
    ) -> Result<Option<ResolvedName>, Refusal> {
        if spellings.is_empty() {
            self.cache().hit();
        }
        for real in spellings {
            let found = match self.recall(here, &real, how)? {
                CacheRecall::Found(found) => Some(found),
                CacheRecall::Absent | CacheRecall::Nothing => self.ask(here, &real, how, false)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            here.note_missing(&real);
        }
        Ok(None)
    }

    /// The cached state of an exact name, with its node opened for `how`.
    fn recall(&self, here: &Directory, name: &Name, how: OpenHow) -> Result<CacheRecall, Refusal> {
        let generation = here.generation();
        Ok(match here.answer(name) {
            Some(CachedTarget::There(kept)) => self
                .reuse(here, name, &kept, how, generation)?
                .map_or(CacheRecall::Nothing, CacheRecall::Found),
            Some(CachedTarget::Absent) => CacheRecall::Absent,
            None => CacheRecall::Nothing,
        })
    }

    /// The cached node of an exact name, if it can be trusted.
    pub(crate) fn cached_node(&self, here: &Directory, name: &Name) -> Option<Arc<KeptNode>> {
        if !here.reports_changes() || !here.settle(name) {
            return None;
        }
        let Some(CachedTarget::There(kept)) = here.answer(name) else { return None };
        self.cache().hit();
        Some(kept)
    }

    /// The cached node of a name, opened for `how`; none if that is no longer possible.
    fn reuse(
        &self,
        here: &Directory,
        name: &Name,
        kept: &Arc<KeptNode>,
        how: OpenHow,
        generation: u64,
    ) -> Result<Option<ResolvedName>, Refusal> {
        let mut kept = Arc::clone(kept);
        let node = if serves(kept.node.as_ref(), how) {
            Arc::clone(&kept.node)
        } else {
            match kept.node.open_again(how) {
                Ok(node) => node,
                Err(Failure::Stale | Failure::NotFound) => {
                    here.forget_name(name);
                    return Ok(None);
                }
                Err(failure) => return Err(failure.into()),
            }
        };
        if node.how() == OpenHow::Read && kept.node.how() < OpenHow::Read {
            kept = KeptNode::new(Arc::clone(&node));
            here.remember(name, generation, CachedTarget::There(Arc::clone(&kept)));
        }
        self.cache().hit();
        Ok(Some(ResolvedName {
            name: name.clone(),
            node,
            kept: Some(kept),
            seen: None,
            is_from_memory: true,
        }))
    }

    /// Asks the volume for an exact name, and caches the answer.
    fn ask(
        &self,
        here: &Directory,
        name: &Name,
        how: OpenHow,
        caches_absence: bool,
    ) -> Result<Option<ResolvedName>, Refusal> {
        self.cache().missed();
        let generation = here.generation();
        // A node that is open for writing is not cached. Only a node that will be cached is opened for its
        // attributes first.
        let writes = how == OpenHow::ReadWrite;
        let is_admitted = !writes || here.admits(name);
        let first = if writes && is_admitted { OpenHow::Attributes } else { how };
        let Some(found) = existing(here.node.lookup(name, first))? else {
            if caches_absence {
                here.remember(name, generation, CachedTarget::Absent);
            }
            return Ok(None);
        };
        let seen = found.first_stat();
        if !is_admitted {
            return Ok(Some(ResolvedName { seen, ..ResolvedName::of(name.clone(), found) }));
        }
        let kept = KeptNode::new(Arc::clone(&found));
        if writes {
            here.cache_admitted(name, generation, &kept);
        } else {
            here.remember(name, generation, CachedTarget::There(Arc::clone(&kept)));
        }
        let node = if serves(found.as_ref(), how) { found } else { found.open_again(how)? };
        Ok(Some(ResolvedName { name: name.clone(), node, kept: Some(kept), seen, is_from_memory: false }))
    }
}

/// Whether a node serves for this access. A node that is neither file nor directory is never opened for more.
fn serves(node: &dyn Node, how: OpenHow) -> bool {
    match node.kind() {
        NodeKind::File => node.how() >= how,
        NodeKind::Directory => node.how() >= how.min(OpenHow::Read),
        _ => true,
    }
}

/// A lookup for which "not found" is a valid result.
fn existing(result: volume::Result<Arc<dyn Node>>) -> Result<Option<Arc<dyn Node>>, Refusal> {
    match result {
        Ok(node) => Ok(Some(node)),
        Err(Failure::NotFound) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}
