//! Watches: beginning, taking, ending.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use volume::security::Rights;
use volume::{Kind, NodeId, OpenHow};

use super::Share;
use super::directory::Directory;
use super::waits::Effects;
use crate::watch::Taken;
use crate::{Change, ChangeFilter, Open, Refusal, Step, Ticket, Waiter, Watch};

/// Most directories below one watch that are told of for its sake.
const MAX_HELD: usize = 4096;

/// Every watch, by the directory it is on.
#[derive(Default)]
pub(super) struct Watching {
    count: AtomicUsize,
    by_directory: Mutex<HashMap<NodeId, Vec<Arc<Watch>>>>,
}

impl Watching {
    /// Whether nobody watches anything.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The watches on one directory.
    pub fn on(&self, directory: NodeId) -> Vec<Arc<Watch>> {
        self.by_directory.lock().get(&directory).cloned().unwrap_or_default()
    }

    /// All watches.
    pub fn all(&self) -> Vec<Arc<Watch>> {
        self.by_directory.lock().values().flatten().cloned().collect()
    }

    fn add(&self, watch: &Arc<Watch>) {
        self.by_directory.lock().entry(watch.directory).or_default().push(Arc::clone(watch));
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    fn remove(&self, watch: &Arc<Watch>) {
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

impl Share {
    /// Begins to collect changes below a directory. The first call fixes what is collected, until the
    /// open is closed; more than `max_bytes` of them not taken count as lost.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::Invalid`] for what is no directory,
    /// [`Refusal::NotSupported`] where the share's settings say so.
    // MS-FSA 2.1.5.11
    pub fn watch(
        &self,
        open: &Arc<Open>,
        filter: ChangeFilter,
        recursive: bool,
        max_bytes: usize,
    ) -> Result<(), Refusal> {
        if !open.is_directory() {
            return Err(Refusal::Invalid);
        }
        if !self.config.load().watches {
            return Err(Refusal::NotSupported);
        }
        if !open.granted.contains(Rights::LIST_DIRECTORY) {
            return Err(Refusal::AccessDenied);
        }
        if open.file.state.lock().is_deleted(open.link.as_ref()) {
            return Err(Refusal::DeletePending);
        }
        let mut own = open.watch.lock();
        if open.is_closed() {
            return Err(Refusal::Gone);
        }
        if own.is_some() {
            return Ok(());
        }
        let watch = Arc::new(Watch::new(open.file.id, filter, recursive, max_bytes));
        self.watching.add(&watch);
        *own = Some(Arc::clone(&watch));
        drop(own);
        if self.volume.facts().tells_changes
            && let Some(directory) = self.directory_of(open)
        {
            self.hold(&watch, directory);
        }
        Ok(())
    }

    /// The kept directory of an open.
    pub(super) fn directory_of(&self, open: &Open) -> Option<Arc<Directory>> {
        if let Some(known) = self.directories.get(open.file.id) {
            return Some(known);
        }
        let (parent, name) = open.link.as_ref()?.place();
        Some(self.directories.enter(&self.volume, &parent, (&name, &name), Arc::clone(&open.node), None))
    }

    /// Keeps a directory told of, with everything below it when the watch goes that deep.
    pub(super) fn hold(&self, watch: &Arc<Watch>, directory: Arc<Directory>) {
        let mut todo = vec![directory];
        while let Some(directory) = todo.pop() {
            let mut held = watch.held.lock();
            if held.len() >= MAX_HELD || held.iter().any(|known| known.id == directory.id) {
                continue;
            }
            held.push(Arc::clone(&directory));
            drop(held);
            if !watch.recursive {
                continue;
            }
            let mut names = Vec::new();
            let listed = directory.node.entries(0, &mut |entry| {
                if entry.kind == Some(Kind::Directory) {
                    names.push(entry.name);
                }
                std::ops::ControlFlow::Continue(())
            });
            if let Err(failure) = listed {
                tracing::debug!(%failure, "a directory below a watch cannot be listed");
            }
            for name in names {
                if let Ok(node) = directory.node.lookup(&name, OpenHow::Attributes) {
                    let names = (&name, &name);
                    todo.push(self.directories.enter(&self.volume, &directory, names, node, None));
                }
            }
        }
    }

    /// Takes the changes that were collected; waits when there are none.
    // MS-FSA 2.1.5.11.1
    pub fn take_changes(&self, open: &Arc<Open>, waiter: Option<&Waiter>) -> Step<Vec<Change>> {
        let Some(watch) = open.watch.lock().clone() else {
            return Step::Refused(if open.is_closed() { Refusal::Gone } else { Refusal::Invalid });
        };
        let (taken, ticket) = watch.take(|| waiter.map(|waiter| self.waits.add(waiter, &open.file)));
        match (taken, ticket) {
            (Taken::Changes(changes), _) => Step::Done(changes),
            (Taken::Refused(why), _) => Step::Refused(why),
            (Taken::Nothing, Some(ticket)) => Step::Wait(ticket),
            (Taken::Nothing, None) => Step::Refused(Refusal::NoMoreEntries),
        }
    }

    /// Ends the watch of an open that is closed.
    pub(super) fn end_watch(&self, open: &Open) {
        let watch = open.watch.lock().clone();
        if let Some(watch) = watch {
            self.watching.remove(&watch);
            watch.held.lock().clear();
            self.wake_all(watch.end(Refusal::Gone));
        }
    }

    /// Ends every watch on a directory that is removed.
    pub(super) fn end_watches_of(&self, directory: NodeId) {
        if self.watching.is_empty() {
            return;
        }
        for watch in self.watching.on(directory) {
            self.wake_all(watch.end(Refusal::DeletePending));
        }
    }

    pub(super) fn wake_all(&self, wakes: Vec<Ticket>) {
        if !wakes.is_empty() {
            self.settle(Effects { wakes, ..Effects::default() });
        }
    }
}
