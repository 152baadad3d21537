//! Directories of which the host must tell for the sake of watches: one set for all watches below its root.
//!
//! The host tells of a directory as long as somebody holds it. A watch that goes deep needs all directories below it; the first
//! one on a tree walks it, and others below the same root share what it holds.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use volume::{Failure, Kind, Name, NodeId, OpenHow};

use super::Share;
use super::descriptors::Descriptors;
use super::names::directory::Directory;
use crate::Ticket;
use crate::ranked::{Mutex, Rank};

/// Most directories that one tree holds; all trees together hold [`Descriptors::hold_for_watch`] of them. Watches hear of the end
/// as of lost changes.
pub(crate) const MAX_DIRECTORIES: usize = 4096;

/// The directories below one root, or the root alone. A file system that is mounted below is left out: as long as a directory
/// of it is held it cannot be unmounted, and a watch may stay for ever.
pub(crate) struct WatchedTree {
    root: NodeId,
    recursive: bool,
    directories: Mutex<HashMap<NodeId, Arc<Directory>>>,
    /// Held while the tree is walked, so that whoever shares it begins with the whole.
    walk: Mutex<()>,
    /// Some directories are not held, since there are too many.
    is_cut: AtomicBool,
    /// Where there must be one left for a directory.
    descriptors: Arc<Descriptors>,
}

impl Drop for WatchedTree {
    fn drop(&mut self) {
        self.descriptors.release_for_watch(self.directories.get_mut().len());
    }
}

impl WatchedTree {
    /// Whether its watches miss what the host does in some directories.
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    fn holds_below(&self, directory: &Arc<Directory>) -> bool {
        self.reaches(directory.id) && directory.is_within(self.root)
    }

    /// Whether it goes deep enough for a directory below its root.
    fn reaches(&self, directory: NodeId) -> bool {
        self.recursive && directory.device == self.root.device
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
    }

    /// Holds a directory; false when there was no need to look below it.
    fn hold(&self, directory: &Arc<Directory>) -> bool {
        let mut held = self.directories.lock();
        if held.contains_key(&directory.id) {
            return false;
        }
        if held.len() >= MAX_DIRECTORIES || !self.descriptors.hold_for_watch() {
            self.cut();
            return false;
        }
        held.insert(directory.id, Arc::clone(directory));
        self.recursive
    }
}

impl Share {
    /// What a new watch on a directory holds: with `recursive` the tree that a watch above it has already, if there is one.
    pub(super) fn watched_tree(&self, directory: Arc<Directory>, recursive: bool) -> Arc<WatchedTree> {
        let new = WatchedTree {
            root: directory.id,
            recursive,
            directories: Mutex::of_default(Rank::WatchedDirectories),
            walk: Mutex::of_default(Rank::TreeWalk),
            is_cut: AtomicBool::new(false),
            descriptors: Arc::clone(self.descriptors()),
        };
        let tree = Arc::new(new);
        let walk = tree.walk.lock();
        let shared = self.watching().share_tree(&tree, |other| recursive && other.holds_below(&directory));
        if let Some(other) = shared {
            // Nobody else knows the new one.
            drop(walk);
            drop(other.walk.lock());
            return other;
        }
        self.hold_below(&tree, directory);
        drop(walk);
        tree
    }

    /// Holds a directory and, in a tree that goes deep, all below it.
    fn hold_below(&self, tree: &WatchedTree, directory: Arc<Directory>) {
        let is_new = tree.hold(&directory);
        let mut todo = if is_new { vec![directory] } else { Vec::new() };
        while let Some(directory) = todo.pop() {
            let mut names = Vec::new();
            let listed = directory.node.entries(0, &mut |entry| {
                if entry.kind == Some(Kind::Directory) {
                    names.push(entry.name);
                }
                ControlFlow::Continue(())
            });
            if let Err(failure) = listed {
                tracing::debug!(%failure, "a directory below a watch cannot be listed");
            }
            for name in names {
                // Each is open from here on, so none is opened that is not held.
                if tree.is_cut() {
                    return;
                }
                match directory.node.lookup(&name, OpenHow::Attributes) {
                    Ok(node) if tree.reaches(node.id()) => {
                        let names = (&name, &name);
                        let below = self.directories().enter(&directory, names, node, None);
                        if tree.hold(&below) {
                            todo.push(below);
                        }
                    }
                    Err(Failure::Exhausted) => tree.cut(),
                    _ => {}
                }
            }
        }
    }

    /// Lets watches that go deep hear of a directory that the host made. Says whom to wake, where there is no room for it.
    pub(super) fn hold_new(&self, parent: &Arc<Directory>, name: &Name) -> Vec<Ticket> {
        if self.watching().is_empty() {
            return Vec::new();
        }
        let mut wakes = Vec::new();
        for tree in self.watching().trees().iter().filter(|tree| tree.holds_below(parent)) {
            if !tree.is_cut()
                && let Ok(node) = parent.node.lookup(name, OpenHow::Attributes)
            {
                let directory = self.directories().enter(parent, (name, name), node, None);
                self.hold_below(tree, directory);
            }
            if tree.is_cut() {
                wakes.extend(self.watching().in_tree(tree).iter().flat_map(|watch| watch.overflow()));
            }
        }
        wakes
    }
}
