//! Objects that a request has found and that are not open.
//!
//! A path is one way to a file. The other begins at an object that was found before, by name or by the
//! address that the volume gave it ([`Share::item`]). An [`Item`] is that beginning.

use std::sync::Arc;

use volume::{Name, Node, NodeId, NodeKind, OpenHow};

use crate::engine::Share;
use crate::engine::parts::names::cache::KeptNode;
use crate::engine::parts::names::directory::{Directory, Evidence};
use crate::engine::services::freshness::LookupCounters;
use crate::{Open, Refusal};

/// The most directories between a directory that was found by its address and the root.
const MAX_DEPTH: usize = 1024;

/// A found object of a share. It holds no right and hinders no other request.
#[derive(Clone)]
pub struct Item {
    pub(crate) node: Arc<dyn Node>,
    /// Set if the item is a directory.
    pub(crate) directory: Option<Arc<Directory>>,
    /// The name by which it was found; none for the root and for an object that was found by its address.
    pub(crate) parent_and_name: Option<(Arc<Directory>, Name)>,
    /// The cache entry of its node.
    pub(crate) kept: Option<Arc<KeptNode>>,
    /// Whether the volume was asked when the item was looked up, so that its first stat is current.
    pub(crate) is_asked: bool,
    /// Whether the name was answered from the cache and the volume was not asked.
    pub(crate) is_from_memory: bool,
    /// The state of the cache before the lookup.
    pub(crate) since: LookupCounters,
}

/// The time when an item was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupTime {
    /// Some time before. Its name may lead to another object by now.
    Before,
    /// By the request that opens the item.
    JustNow,
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Item").field("node", &self.id()).finish_non_exhaustive()
    }
}

impl Item {
    pub(crate) fn of_directory(directory: Arc<Directory>) -> Item {
        let (node, parent_and_name) = (Arc::clone(&directory.node), directory.parent_and_name());
        Item {
            node,
            parent_and_name,
            directory: Some(directory),
            kept: None,
            is_asked: false,
            is_from_memory: false,
            since: LookupCounters::default(),
        }
    }

    /// An item that is no directory, with its parent and name if they are known.
    pub(crate) fn of_other(node: Arc<dyn Node>, parent_and_name: Option<(Arc<Directory>, Name)>) -> Item {
        Item {
            node,
            directory: None,
            parent_and_name,
            kept: None,
            is_asked: false,
            is_from_memory: false,
            since: LookupCounters::default(),
        }
    }

    /// The same item with the cache entry of its node.
    pub(crate) fn kept_as(self, kept: Option<Arc<KeptNode>>) -> Item {
        Item { kept, ..self }
    }

    /// The same item after it was changed since its lookup.
    #[must_use]
    pub fn changed_since(self) -> Item {
        Item { is_asked: false, ..self }
    }

    /// The identity of the object.
    pub fn id(&self) -> NodeId {
        self.node.id()
    }

    /// The path from the root of the share, by the name under which the item was found; none if it is not
    /// known.
    pub fn path(&self) -> Option<Vec<Name>> {
        if let Some(directory) = &self.directory {
            return Some(directory.path());
        }
        let (parent, name) = self.parent_and_name.as_ref()?;
        Some(parent.path_to(name))
    }

    /// The kind of the object.
    pub fn kind(&self) -> NodeKind {
        self.node.kind()
    }

    /// Whether it holds a descriptor of the host that can write.
    pub fn is_open_to_write(&self) -> bool {
        self.node.how() == OpenHow::ReadWrite
    }

    /// The address by which [`Share::item`] finds it again.
    ///
    /// # Errors
    /// [`Refusal::NotSupported`] if it has none.
    pub fn address(&self) -> Result<Vec<u8>, Refusal> {
        match (&self.directory, &self.kept) {
            (Some(directory), _) => directory.address(),
            (None, Some(kept)) => kept.address.get(|| self.address_as_made()),
            (None, None) => self.address_as_made(),
        }
    }

    /// The address. For a file that was created a moment ago it is already known.
    fn address_as_made(&self) -> Result<Vec<u8>, Refusal> {
        let ask = || -> Result<Vec<u8>, Refusal> { Ok(self.node.address()?) };
        let made = match (&self.parent_and_name, self.node.first_stat()) {
            (Some((parent, name)), Some(first)) => parent.made(name).filter(|made| made.is(&first)),
            _ => None,
        };
        made.map_or_else(ask, |made| made.address.get(ask))
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if it is not a link; the volume's error.
    pub fn link_text(&self) -> Result<Vec<u8>, Refusal> {
        Ok(self.node.link_text()?)
    }

    pub(crate) fn node(&self) -> &dyn Node {
        self.node.as_ref()
    }

    pub(crate) fn directory(&self) -> Result<&Arc<Directory>, Refusal> {
        self.directory.as_ref().ok_or(Refusal::NotADirectory)
    }

    /// The name by which it was found, if the name still leads to it.
    pub(crate) fn known_place(&self) -> Option<(Arc<Directory>, Name)> {
        self.place_if(LookupTime::Before)
    }

    pub(crate) fn place_if(&self, seen: LookupTime) -> Option<(Arc<Directory>, Name)> {
        if let Some(directory) = &self.directory {
            return directory.parent_and_name();
        }
        let (parent, name) = self.parent_and_name.as_ref()?;
        if seen == LookupTime::JustNow {
            return Some((Arc::clone(parent), name.clone()));
        }
        let is_there = parent.leads_to(name, self.id()) || parent.holds(name, self.id());
        is_there.then(|| (Arc::clone(parent), name.clone()))
    }
}

impl Share {
    /// The root.
    pub fn root_item(&self) -> Item {
        Item::of_directory(Arc::clone(self.root()))
    }

    /// The object with this address.
    ///
    /// # Errors
    /// [`Refusal::Gone`] if no object has the address any more, or if the object is outside of the share.
    pub fn item(&self, address: &[u8]) -> Result<Item, Refusal> {
        let node = self.with_room(|| Ok(self.volume().find(address)?))?;
        if node.kind() != NodeKind::Directory {
            return Ok(Item::of_other(node, None));
        }
        Ok(Item::of_directory(self.enter_found(node)?))
    }

    /// Makes sure that an item is still in the share. Only a directory can have left it, if others have moved
    /// it.
    ///
    /// # Errors
    /// [`Refusal::Gone`] if it has left the share; the volume's error, which proves nothing about its
    /// location.
    pub fn check_place(&self, item: &Item) -> Result<(), Refusal> {
        match &item.directory {
            Some(known) if !self.directories().is_placed(known) => {
                self.enter_found(Arc::clone(&item.node)).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The directory of a node that was not reached from the root. The directories above it are entered
    /// first.
    fn enter_found(&self, node: Arc<dyn Node>) -> Result<Arc<Directory>, Refusal> {
        let moves = self.directories().moves();
        let is_sure = |known: &Arc<Directory>| known.reports_changes() && self.directories().is_placed(known);
        let mut below = Vec::new();
        let mut at = node;
        let mut known = loop {
            if at.id() == self.root().id {
                break Arc::clone(self.root());
            }
            if let Some(known) = self.directories().get(at.id()).filter(is_sure) {
                break known;
            }
            let (above, name) = self.with_room(|| Ok(at.parent_and_name()?))?.ok_or(Refusal::Gone)?;
            below.push((name, at));
            if below.len() > MAX_DEPTH {
                return Err(Refusal::Gone);
            }
            at = above;
        };
        for (name, node) in below.into_iter().rev() {
            known = self.directories().enter_as(known.entry(&name), node, Evidence::Told(moves));
        }
        Ok(known)
    }

    /// The item for a node that was found under a name.
    pub(crate) fn item_at(&self, parent: &Arc<Directory>, name: &Name, node: Arc<dyn Node>) -> Item {
        if node.kind() == NodeKind::Directory {
            return Item::of_directory(self.directories().enter(parent, (name, name), node, None));
        }
        Item::of_other(node, Some((Arc::clone(parent), name.clone())))
    }

    /// The item of an open.
    pub fn item_of(&self, open: &Open) -> Item {
        match open.parent_and_name() {
            Some((parent, name)) => self.item_at(&parent, &name, Arc::clone(&open.node)),
            None if open.file.id == self.root().id => self.root_item(),
            None => Item::of_other(Arc::clone(&open.node), None),
        }
    }

    /// The directory that is open.
    pub(crate) fn directory_here(&self, open: &Open) -> Arc<Directory> {
        self.names()
            .directory_of(&open.node, || open.parent_and_name())
            .unwrap_or_else(|| Arc::clone(self.root()))
    }
}
