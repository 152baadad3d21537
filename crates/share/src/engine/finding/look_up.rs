//! What one name in a directory leads to: from what is remembered, or from the volume.
//!
//! [`Share::look_up`] is the only way by which requests come from a name to a node. Where names are remembered
//! ([`crate::engine::parts::names::cache`]) an answer comes from there only in a directory in which the volume tells of changes by others, when
//! those were taken in for the request, and when nobody is changing the name just now.

use std::sync::Arc;

use volume::{Failure, Name, Node, NodeKind, OpenHow, Stat};

use crate::Refusal;
use crate::engine::Share;
use crate::engine::parts::names::cache::{Answer, KeptNode};
use crate::engine::parts::names::directory::{Directory, Known};
use crate::engine::parts::names::has_case;

/// How names are looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search {
    /// Names match exactly.
    pub exact: bool,
    /// What to open the last component for.
    pub how: OpenHow,
    /// The caller rather expects that the last component does not exist.
    pub rather_missing: bool,
}

/// A name as it really is, and what it leads to.
pub(crate) struct Named {
    pub name: Name,
    pub node: Arc<dyn Node>,
    /// Where it is remembered.
    pub kept: Option<Arc<KeptNode>>,
    /// What the volume said of it when it was asked for the name just now.
    pub seen: Option<Stat>,
    /// The volume was not asked for the name.
    pub is_from_memory: bool,
}

/// What is remembered of an exact name.
enum Recalled {
    /// It leads to this.
    Found(Named),
    /// It leads to nothing.
    Absent,
    /// It must be asked for.
    Nothing,
}

impl Named {
    /// A node under its name, of which nothing else is known.
    pub fn of(name: Name, node: Arc<dyn Node>) -> Named {
        Named { name, node, kept: None, seen: None, is_from_memory: false }
    }
}

impl Share {
    /// What a name in a directory leads to, and what it is really called; none when it does not exist. The caller holds no
    /// lock of the directory.
    ///
    /// # Errors
    /// As the volume says.
    pub(crate) fn look_up(
        &self,
        here: &Arc<Directory>,
        name: &Name,
        search: Search,
    ) -> Result<Option<Named>, Refusal> {
        self.with_room(|| self.look_up_once(here, name, search))
    }

    fn look_up_once(
        &self,
        here: &Arc<Directory>,
        name: &Name,
        search: Search,
    ) -> Result<Option<Named>, Refusal> {
        let folds = !search.exact && has_case(name.as_bytes());
        if self.cache().is_on() && here.is_told() && here.settle(name) {
            return self.look_up_remembered(here, name, search.how, folds);
        }
        if folds && search.rather_missing && here.is_told() {
            // The index saves asking for a name that is not there.
            if let Known::Names(spellings) = here.known(name)? {
                return self.first_of(here, spellings, search.how);
            }
        }
        if let Some(node) = existing(here.node.lookup(name, search.how))? {
            return Ok(Some(Named::of(name.clone(), node)));
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
    ) -> Result<Option<Named>, Refusal> {
        for real in spellings {
            if let Some(node) = existing(here.node.lookup(&real, how))? {
                return Ok(Some(Named::of(real, node)));
            }
            here.seen_gone(&real);
        }
        Ok(None)
    }

    fn look_up_remembered(
        &self,
        here: &Arc<Directory>,
        name: &Name,
        how: OpenHow,
        folds: bool,
    ) -> Result<Option<Named>, Refusal> {
        match self.recall(here, name, how)? {
            Recalled::Found(found) => return Ok(Some(found)),
            Recalled::Absent if !folds => {
                self.cache().hit();
                return Ok(None);
            }
            Recalled::Absent | Recalled::Nothing => {}
        }
        if let Known::Names(mut spellings) = here.known(name)? {
            spellings.retain(|real| folds || real == name);
            return self.first_remembered(here, spellings, how);
        }
        if let Some(found) = self.ask(here, name, how, !folds)? {
            return Ok(Some(found));
        }
        if !folds {
            self.directories().missed(here);
            return Ok(None);
        }
        let spellings = self.directories().spellings(here, name)?;
        self.first_remembered(here, spellings, how)
    }

    /// What the first of these spellings leads to that is there.
    fn first_remembered(
        &self,
        here: &Arc<Directory>,
        spellings: Vec<Name>,
        how: OpenHow,
    ) -> Result<Option<Named>, Refusal> {
        if spellings.is_empty() {
            self.cache().hit();
        }
        for real in spellings {
            let found = match self.recall(here, &real, how)? {
                Recalled::Found(found) => Some(found),
                Recalled::Absent | Recalled::Nothing => self.ask(here, &real, how, false)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            here.seen_gone(&real);
        }
        Ok(None)
    }

    /// What is remembered of an exact name, opened for this.
    fn recall(&self, here: &Directory, name: &Name, how: OpenHow) -> Result<Recalled, Refusal> {
        let generation = here.generation();
        Ok(match here.answer(name) {
            Some(Answer::There(kept)) => {
                self.reuse(here, name, &kept, how, generation)?.map_or(Recalled::Nothing, Recalled::Found)
            }
            Some(Answer::Absent) => Recalled::Absent,
            None => Recalled::Nothing,
        })
    }

    /// The node that is remembered for an exact name, if that can be trusted.
    pub(crate) fn remembered(&self, here: &Directory, name: &Name) -> Option<Arc<KeptNode>> {
        if !here.is_told() || !here.settle(name) {
            return None;
        }
        let Some(Answer::There(kept)) = here.answer(name) else { return None };
        self.cache().hit();
        Some(kept)
    }

    /// What is remembered of a name, opened for this; none when it cannot be any more.
    fn reuse(
        &self,
        here: &Directory,
        name: &Name,
        kept: &Arc<KeptNode>,
        how: OpenHow,
        generation: u64,
    ) -> Result<Option<Named>, Refusal> {
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
            here.remember(name, generation, Answer::There(Arc::clone(&kept)));
        }
        self.cache().hit();
        Ok(Some(Named { name: name.clone(), node, kept: Some(kept), seen: None, is_from_memory: true }))
    }

    /// Asks the volume for an exact name, and remembers what it says.
    fn ask(
        &self,
        here: &Directory,
        name: &Name,
        how: OpenHow,
        remembers_absence: bool,
    ) -> Result<Option<Named>, Refusal> {
        self.cache().missed();
        let generation = here.generation();
        // What is open for writing is not kept: only what will be is opened for its attributes first.
        let writes = how == OpenHow::ReadWrite;
        let is_let_in = !writes || here.lets_in(name);
        let first = if writes && is_let_in { OpenHow::Attributes } else { how };
        let Some(found) = existing(here.node.lookup(name, first))? else {
            if remembers_absence {
                here.remember(name, generation, Answer::Absent);
            }
            return Ok(None);
        };
        let seen = found.first_stat();
        if !is_let_in {
            return Ok(Some(Named { seen, ..Named::of(name.clone(), found) }));
        }
        let kept = KeptNode::new(Arc::clone(&found));
        if writes {
            here.remember_let_in(name, generation, &kept);
        } else {
            here.remember(name, generation, Answer::There(Arc::clone(&kept)));
        }
        let node = if serves(found.as_ref(), how) { found } else { found.open_again(how)? };
        Ok(Some(Named { name: name.clone(), node, kept: Some(kept), seen, is_from_memory: false }))
    }
}

/// Whether a node can do what it is wanted for: what is neither file nor directory is never opened for more.
fn serves(node: &dyn Node, how: OpenHow) -> bool {
    match node.kind() {
        NodeKind::File => node.how() >= how,
        NodeKind::Directory => node.how() >= how.min(OpenHow::Read),
        _ => true,
    }
}

/// A lookup whose failure to find anything is an answer.
fn existing(result: volume::Result<Arc<dyn Node>>) -> Result<Option<Arc<dyn Node>>, Refusal> {
    match result {
        Ok(node) => Ok(Some(node)),
        Err(Failure::NotFound) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}
