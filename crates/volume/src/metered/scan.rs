//! Counting everything anew while clients go on.
//!
//! A scan walks the volume once, a few names with each [`Scan::step`]. What clients change in files that it has counted
//! is added to it as it happens; what they change in others it finds when it comes there. A file that gets or loses a
//! name is counted at once, and a directory that moves is walked too, so that nothing slips from where the scan has not
//! been to where it has. When it is done its count takes the place of what was known.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::seen::Seen;
use super::{Meter, Recount};
use crate::{Failure, Kind, Name, Node, OpenHow, Result};

/// Names that are taken from a directory at once.
const BATCH: usize = 256;
/// Directories below each other, of which each is kept open.
const MAX_DEPTH: usize = 2048;

/// A directory on the way.
struct Level {
    node: Arc<dyn Node>,
    /// Where the rest of its names begins.
    cookie: u64,
    names: VecDeque<Name>,
    is_read: bool,
}

/// A count that is under way; given up when dropped.
pub struct Scan {
    meter: Arc<Meter>,
    levels: Vec<Level>,
    visited: Seen,
    unreadable: u64,
    is_done: bool,
}

impl Scan {
    pub(super) fn begin(meter: &Arc<Meter>) -> Result<Scan> {
        let root = meter.inner.root()?;
        {
            let _still = meter.moving.write();
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
            visited: Seen::default(),
            unreadable: 0,
            is_done: false,
        };
        scan.visited.insert(root.id());
        scan.count(&root)?;
        scan.enter(root)?;
        Ok(scan)
    }

    /// Looks at up to `at_most` names; true when everything was counted and the count is what is known from now on.
    ///
    /// # Errors
    /// As the host says; [`Failure::Exhausted`] when directories lie too deep, [`Failure::Busy`] when too many of them
    /// were moved meanwhile. Then the count is given up and what was known stays.
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

    /// The next name of the directory at hand; none: it has no more.
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
        let Some(node) = self.passable(found)? else { return Ok(()) };
        self.count(&node)?;
        if node.kind() == Kind::Directory && self.visited.insert(node.id()) {
            self.enter(node)?;
        }
        Ok(())
    }

    fn count(&mut self, node: &Arc<dyn Node>) -> Result<()> {
        let file = self.meter.enter(node.id(), node.kind());
        let counted = file.count(&**node);
        self.passable(counted).map(|_| ())
    }

    /// Goes into a directory.
    fn enter(&mut self, node: Arc<dyn Node>) -> Result<()> {
        if self.levels.len() >= MAX_DEPTH {
            return Err(Failure::Exhausted);
        }
        let opened = if node.how() >= OpenHow::Read { Ok(node) } else { node.open_again(OpenHow::Read) };
        if let Some(node) = self.passable(opened)? {
            self.levels.push(Level { node, cookie: 0, names: VecDeque::new(), is_read: false });
        }
        Ok(())
    }

    /// What is gone meanwhile is passed by, and so is, noted, what the process may not see.
    fn passable<T>(&mut self, found: Result<T>) -> Result<Option<T>> {
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

    /// Goes on with directories that were moved meanwhile; without any the count is done.
    fn finish(&mut self) -> Result<()> {
        let moved = {
            let _still = self.meter.moving.write();
            let totals = &mut *self.meter.totals.lock();
            let Some(recount) = &mut totals.recount else { return Err(Failure::Busy) };
            if recount.is_spoiled {
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
        // Those that could not be entered leave nothing to do; the next step comes back here.
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
