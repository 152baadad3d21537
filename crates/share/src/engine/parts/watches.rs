//! The watches of a share, and the trees whose changes the host reports for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use volume::{Name, NodeId, OpenHow};

use crate::engine::parts::names::directory::{Directories, Directory};
use crate::engine::parts::watched_tree::WatchedTree;
use crate::engine::values::descriptors::Descriptors;
use crate::ranked::{Mutex, Rank};
use crate::{Change, ChangeFilter, DirectoryWatch, Identity, Refusal, Ticket};

/// Every watch, by its directory.
pub(crate) struct Watches {
    count: AtomicUsize,
    by_directory: Mutex<HashMap<NodeId, Vec<Arc<DirectoryWatch>>>>,
    /// The trees whose changes the host reports for the watches.
    trees: Mutex<Vec<Weak<WatchedTree>>>,
}

impl Default for Watches {
    fn default() -> Watches {
        Watches {
            count: AtomicUsize::new(0),
            by_directory: Mutex::of_default(Rank::Watches),
            trees: Mutex::of_default(Rank::WatchedTrees),
        }
    }
}

impl Watches {
    /// Whether there are no watches.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The watches on one directory.
    fn on(&self, directory: NodeId) -> Vec<Arc<DirectoryWatch>> {
        self.by_directory.lock().get(&directory).cloned().unwrap_or_default()
    }

    /// Reports changes in directories that belong together. Each watch gets all of them that it covers at
    /// once, if `passes` lets its user through all directories between. Returns the requests to wake.
    pub fn report(
        &self,
        changes: Vec<(&Arc<Directory>, Change)>,
        what: ChangeFilter,
        passes: &dyn Fn(&Arc<Identity>, &Arc<Directory>) -> bool,
    ) -> Vec<Ticket> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut heard: Vec<(Arc<DirectoryWatch>, Vec<Change>)> = Vec::new();
        let mut places: HashMap<*const DirectoryWatch, usize> = HashMap::new();
        for (directory, mut change) in changes {
            let mut hear = |watch: Arc<DirectoryWatch>, change: &Change| {
                let index = *places.entry(Arc::as_ptr(&watch)).or_insert(heard.len());
                match heard.get_mut(index) {
                    Some((_, changes)) => changes.push(change.clone()),
                    None => heard.push((watch, vec![change.clone()])),
                }
            };
            // The folder of a user is a secret itself.
            let mut between: Vec<_> = change
                .path
                .first()
                .and_then(|name| directory.child(name, true))
                .into_iter()
                .map(|(_, named)| named)
                .collect();
            let may_hear = |watch: &Arc<DirectoryWatch>, between: &[Arc<Directory>]| {
                between.iter().all(|directory| passes(&watch.identity, directory))
            };
            let near = self.on(directory.id).into_iter().filter(|watch| may_hear(watch, &between));
            near.for_each(|watch| hear(watch, &change));
            between.push(Arc::clone(directory));
            for (above, name) in directory.ancestors() {
                change.path.insert(0, name);
                let deep = self.on(above.id).into_iter().filter(|watch| watch.recursive);
                deep.filter(|watch| may_hear(watch, &between)).for_each(|watch| hear(watch, &change));
                between.push(above);
            }
        }
        heard.into_iter().flat_map(|(watch, changes)| watch.add(changes, what)).collect()
    }

    /// All watches have missed a change. Returns the requests to wake.
    pub fn overflow(&self) -> Vec<Ticket> {
        self.all().iter().flat_map(|watch| watch.overflow()).collect()
    }

    /// Ends the watch of an open that is closed. Returns the requests to wake.
    pub fn end(&self, watch: &Arc<DirectoryWatch>) -> Vec<Ticket> {
        self.remove(watch);
        watch.tree.lock().take();
        watch.end(Refusal::Gone)
    }

    /// Ends every watch on a directory that is removed. Returns the requests to wake.
    pub fn end_on(&self, directory: NodeId) -> Vec<Ticket> {
        if self.is_empty() {
            return Vec::new();
        }
        self.on(directory).iter().flat_map(|watch| watch.end(Refusal::DeletePending)).collect()
    }

    /// All watches.
    fn all(&self) -> Vec<Arc<DirectoryWatch>> {
        self.by_directory.lock().values().flatten().cloned().collect()
    }

    /// The watches that share a tree.
    fn in_tree(&self, tree: &Arc<WatchedTree>) -> Vec<Arc<DirectoryWatch>> {
        let is_in = |watch: &Arc<DirectoryWatch>| {
            watch.tree.lock().as_ref().is_some_and(|own| Arc::ptr_eq(own, tree))
        };
        self.all().into_iter().filter(is_in).collect()
    }

    /// The tree of a new watch on a directory. With `recursive` it is the tree of a watch above, if there is
    /// one.
    pub fn tree_of(
        &self,
        directory: Arc<Directory>,
        recursive: bool,
        known: &Directories,
        descriptors: &Arc<Descriptors>,
    ) -> Arc<WatchedTree> {
        let new = Arc::new(WatchedTree::new(directory.id, recursive, descriptors));
        let shared = new.walking(|| {
            let shared = self.share_tree(&new, |other| recursive && other.holds_below(&directory));
            if shared.is_none() {
                new.hold_below(known, directory);
            }
            shared
        });
        // If there is another tree, no other thread knows the new one.
        let Some(other) = shared else { return new };
        other.wait_until_whole();
        other
    }

    /// Adds a directory that the host created to recursive watches. Returns the requests to wake, if there is
    /// no room for it.
    pub fn hold_new(&self, known: &Directories, parent: &Arc<Directory>, name: &Name) -> Vec<Ticket> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut wakes = Vec::new();
        for tree in self.trees().iter().filter(|tree| tree.holds_below(parent)) {
            if !tree.is_cut()
                && let Ok(node) = parent.node.lookup(name, OpenHow::Attributes)
            {
                tree.hold_below(known, known.enter(parent, (name, name), node, None));
            }
            if tree.is_cut() {
                wakes.extend(self.in_tree(tree).iter().flat_map(|watch| watch.overflow()));
            }
        }
        wakes
    }

    /// The trees of all watches.
    fn trees(&self) -> Vec<Arc<WatchedTree>> {
        self.trees.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// A tree that serves as well as `new`. If there is none, `new` is one of them from now on.
    fn share_tree(
        &self,
        new: &Arc<WatchedTree>,
        serves: impl Fn(&WatchedTree) -> bool,
    ) -> Option<Arc<WatchedTree>> {
        let mut trees = self.trees.lock();
        trees.retain(|tree| tree.strong_count() > 0);
        let found = trees.iter().filter_map(Weak::upgrade).find(|tree| serves(tree));
        if found.is_none() {
            trees.push(Arc::downgrade(new));
        }
        found
    }

    /// Adds a watch.
    pub fn add(&self, watch: &Arc<DirectoryWatch>) {
        self.by_directory.lock().entry(watch.directory).or_default().push(Arc::clone(watch));
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a watch.
    fn remove(&self, watch: &Arc<DirectoryWatch>) {
        let mut all = self.by_directory.lock();
        if let Some(watches) = all.get_mut(&watch.directory) {
            let before = watches.len();
            watches.retain(|other| !Arc::ptr_eq(other, watch));
            self.count.fetch_sub(before - watches.len(), Ordering::AcqRel);
            if watches.is_empty() {
                all.remove(&watch.directory);
            }
        }
    }
}
