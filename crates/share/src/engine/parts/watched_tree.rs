//! Directories whose changes the host must report for watches: one set for all watches below its root.
//!
//! The host reports changes of a directory as long as there is a reference to it. A recursive watch needs all
//! directories below it. The first one on a tree walks it, and others below the same root share its
//! references.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use volume::{Failure, NodeId, NodeKind, OpenHow};

use crate::engine::parts::names::directory::{Directories, Directory};
use crate::engine::values::descriptors::Descriptors;
use crate::ranked::{Mutex, Rank};

/// Most directories that one tree holds. All trees together hold at most [`Descriptors::hold_for_watch`] of
/// them. Watches learn of this limit as of lost changes.
pub(crate) const MAX_DIRECTORIES: usize = 4096;

/// The directories below one root, or the root alone. A file system that is mounted below is left out: while
/// one of its directories is held it cannot be unmounted, and a watch may stay for ever.
pub(crate) struct WatchedTree {
    root: NodeId,
    recursive: bool,
    directories: Mutex<HashMap<NodeId, Arc<Directory>>>,
    /// Held while the tree is walked, so that a watch that shares it begins with the whole tree.
    walk: Mutex<()>,
    /// Some directories are not held, because there are too many.
    is_cut: AtomicBool,
    /// The limits of descriptors: one must be left for each directory.
    descriptors: Arc<Descriptors>,
}

impl Drop for WatchedTree {
    fn drop(&mut self) {
        self.descriptors.release_for_watch(self.directories.get_mut().len());
    }
}

impl WatchedTree {
    /// A tree below a root that holds no directory yet.
    pub fn new(root: NodeId, recursive: bool, descriptors: &Arc<Descriptors>) -> WatchedTree {
        WatchedTree {
            root,
            recursive,
            directories: Mutex::of_default(Rank::WatchedDirectories),
            walk: Mutex::of_default(Rank::TreeWalk),
            is_cut: AtomicBool::new(false),
            descriptors: Arc::clone(descriptors),
        }
    }

    /// Runs the walk that completes the tree, while others that share it wait.
    pub fn walking<T>(&self, act: impl FnOnce() -> T) -> T {
        let _walk = self.walk.lock();
        act()
    }

    /// Returns when no thread walks it.
    pub fn wait_until_whole(&self) {
        drop(self.walk.lock());
    }

    /// Whether its watches miss changes by the host in some directories.
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// Whether it covers the directories below a directory.
    pub fn holds_below(&self, directory: &Arc<Directory>) -> bool {
        self.reaches(directory.id) && directory.is_within(self.root)
    }

    /// Whether it reaches a directory below its root.
    fn reaches(&self, directory: NodeId) -> bool {
        self.recursive && directory.device == self.root.device
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
    }

    /// Holds a directory. Returns false if there was no need to look below it.
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

    /// Holds a directory and, in a recursive tree, all below it.
    pub(crate) fn hold_below(&self, known: &Directories, directory: Arc<Directory>) {
        let is_new = self.hold(&directory);
        let mut todo = if is_new { vec![directory] } else { Vec::new() };
        while let Some(directory) = todo.pop() {
            let mut names = Vec::new();
            let listed = directory.node.entries(0, &mut |entry| {
                if entry.kind == Some(NodeKind::Directory) {
                    names.push(entry.name);
                }
                ControlFlow::Continue(())
            });
            if let Err(failure) = listed {
                tracing::debug!(%failure, "a directory below a watch cannot be listed");
            }
            for name in names {
                // Each directory is open from here on, so none is opened that is not held.
                if self.is_cut() {
                    return;
                }
                match directory.node.lookup(&name, OpenHow::Attributes) {
                    Ok(node) if self.reaches(node.id()) => {
                        let below = known.enter(&directory, (&name, &name), node, None);
                        if self.hold(&below) {
                            todo.push(below);
                        }
                    }
                    Err(Failure::Exhausted) => self.cut(),
                    _ => {}
                }
            }
        }
    }
}
