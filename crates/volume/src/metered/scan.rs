//! Counting everything anew while clients continue.
//!
//! A scan walks the volume once, with a few names in each [`Scan::step`]. Changes of files that it has
//! counted are added to its sum when they happen. It finds the changes of other files when it reaches
//! them. A file that gets or loses a name is counted at once, and a directory that moves is walked too.
//! So nothing moves from a part that the scan has not visited to one that it has. When the scan ends, its
//! sum replaces the usage.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::node_id_set::NodeIdSet;
use super::{Meter, Recount};
use crate::{Failure, Name, Node, NodeKind, OpenHow, Result};

/// Names that are read from a directory at once.
const BATCH: usize = 256;
/// The greatest depth of directories. Each directory on the path is kept open.
const MAX_DEPTH: usize = 2048;

/// A directory on the path that the scan is in.
struct Level {
    node: Arc<dyn Node>,
    /// The cookie behind which its remaining names begin.
    cookie: u64,
    names: VecDeque<Name>,
    is_read: bool,
}

/// A count that is under way. Dropping it cancels the count.
pub struct Scan {
    meter: Arc<Meter>,
    levels: Vec<Level>,
    visited: NodeIdSet,
    unreadable: u64,
    is_done: bool,
}

impl Scan {
    pub(super) fn begin(meter: &Arc<Meter>) -> Result<Scan> {
        let root = meter.inner.root()?;
        {
            let _no_move = meter.moving.write();
            let mut totals = meter.totals.lock();
            if totals.recount.is_some() {
                return Err(Failure::Busy);
            }
            totals.is_stale = false;
            totals.recount = Some(Recount { count: totals.nameless, ..Recount::default() });
        }
        let mut scan = Scan {
            meter: Arc::clone(meter),
            levels: Vec::new(),
            visited: NodeIdSet::default(),
            unreadable: 0,
            is_done: false,
        };
        scan.visited.insert(root.id());
        scan.count(&root)?;
        scan.enter(root)?;
        Ok(scan)
    }

    /// Visits up to `at_most` names. True when everything is counted and the sum has become the usage.
    ///
    /// # Errors
    /// Those of the host; [`Failure::Exhausted`] when directories are nested too deep, [`Failure::Busy`]
    /// when too many of them were moved meanwhile. The scan is cancelled then and the usage stays as it
    /// was.
    pub fn step(&mut self, at_most: usize) -> Result<bool> {
        for _ in 0..at_most {
            if self.is_done {
                return Ok(true);
            }
            match self.next_name()? {
                Some(name) => self.visit(&name)?,
                None => {
                    self.levels.pop();
                    if self.levels.is_empty() {
                        self.finish()?;
                    }
                }
            }
        }
        Ok(self.is_done)
    }

    /// The next name of the innermost directory. `None` when it has no more.
    fn next_name(&mut self) -> Result<Option<Name>> {
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        if level.names.is_empty() && !level.is_read {
            let (names, cookie) = (&mut level.names, &mut level.cookie);
            level.node.entries(*cookie, &mut |entry| {
                *cookie = entry.cookie;
                names.push_back(entry.name);
                if names.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            level.is_read = level.names.len() < BATCH;
        }
        Ok(level.names.pop_front())
    }

    fn visit(&mut self, name: &Name) -> Result<()> {
        let Some(level) = self.levels.last() else { return Ok(()) };
        let found = level.node.lookup(name, OpenHow::Attributes);
        let Some(node) = self.skip_unavailable(found)? else { return Ok(()) };
        self.count(&node)?;
        if node.kind() == NodeKind::Directory && self.visited.insert(node.id()) {
            self.enter(node)?;
        }
        Ok(())
    }

    fn count(&mut self, node: &Arc<dyn Node>) -> Result<()> {
        let file = self.meter.enter(node.id(), node.kind());
        let counted = file.count(&**node);
        self.skip_unavailable(counted).map(|_| ())
    }

    /// Enters a directory.
    fn enter(&mut self, node: Arc<dyn Node>) -> Result<()> {
        if self.levels.len() >= MAX_DEPTH {
            return Err(Failure::Exhausted);
        }
        let opened = if node.how() >= OpenHow::Read { Ok(node) } else { node.open_again(OpenHow::Read) };
        if let Some(node) = self.skip_unavailable(opened)? {
            self.levels.push(Level { node, cookie: 0, names: VecDeque::new(), is_read: false });
        }
        Ok(())
    }

    /// Skips a node that was removed meanwhile. Skips and counts a node that the process may not read.
    fn skip_unavailable<T>(&mut self, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Failure::NotFound | Failure::Stale | Failure::NotADirectory | Failure::IsALink) => Ok(None),
            Err(Failure::Denied) => {
                self.unreadable += 1;
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }

    /// Continues with the directories that were moved meanwhile. Without any, the scan is complete.
    fn finish(&mut self) -> Result<()> {
        let moved = {
            let _no_move = self.meter.moving.write();
            let totals = &mut *self.meter.totals.lock();
            let Some(recount) = &mut totals.recount else { return Err(Failure::Busy) };
            if recount.has_too_many_moves {
                return Err(Failure::Busy);
            }
            let moved = std::mem::take(&mut recount.moved);
            if moved.is_empty() {
                totals.used = recount.count;
                (totals.recount, totals.is_known) = (None, true);
                (totals.finished, totals.unreadable) = (totals.finished + 1, self.unreadable);
                self.is_done = true;
            }
            moved
        };
        for node in moved {
            if self.visited.insert(node.id()) {
                self.count(&node)?;
                self.enter(node)?;
            }
        }
        // If none of them could be entered, there is nothing to do. The next step comes back here.
        Ok(())
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if !self.is_done {
            self.meter.totals.lock().recount = None;
        }
    }
}
