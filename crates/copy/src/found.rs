//! What is found in a directory.

use std::time::Duration;

use client::remote::Node;

use crate::error::Fault;
use crate::job::{Directory, Job};
use crate::tally::Tally;
use crate::tree::facts::Listing;
use crate::unnamed::{Made, Unnamed};

/// What is known of a directory before it is looked at.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// What the source has in it.
    pub(crate) listed: Option<Listing>,
    /// What was made of it in the target, where it is new.
    pub(crate) made: Option<Made>,
}

/// What came of looking at a directory.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) jobs: Vec<Job>,
    pub(crate) directories: Vec<Directory>,
    /// Files of several names that the target has already, and which file each is there.
    pub(crate) alike: Vec<(Job, Option<Node>)>,
    pub(crate) tally: Tally,
    /// What was not done, and why: a path each.
    pub(crate) failures: Vec<(String, String)>,
    /// What is only worth a line.
    pub(crate) notes: Vec<(String, String)>,
    /// What a dry run would delete in the target.
    pub(crate) doomed: Vec<String>,
    /// What deleting took.
    pub(crate) deleting: Duration,
    /// Whether the target's directory has been changed, or will be.
    pub(crate) changes: bool,
    /// Whether that may come of links and names that are looked at only when they are copied.
    pub(crate) may_change: bool,
    /// Whether it could be looked at at all.
    pub(crate) done: bool,
    /// What waits until the directory has its name, if it has none yet.
    pub(crate) unnamed: Option<Unnamed>,
    /// The permission bits of the target's directory, if it was given those that the work needs.
    pub(crate) opened: Option<u32>,
    /// What was lost with the server, so that nothing further makes sense.
    pub(crate) lost: Option<Fault>,
}

impl Survey {
    pub(crate) fn fail(&mut self, path: String, fault: Fault) {
        self.failures.push((path, fault.to_string()));
        if fault.is_loss() {
            self.lost = Some(fault);
        }
    }
}
