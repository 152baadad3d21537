//! The result of the survey of a directory.

use std::time::Duration;

use client::remote::FileIdentity;

use crate::error::Fault;
use crate::job::{Directory, Job};
use crate::staged::{NewDirectory, StagedDirectory};
use crate::tally::Tally;
use crate::tree::listing::Listing;

/// The knowledge about a directory before its survey.
#[derive(Debug, Default)]
pub(crate) struct PriorSurvey {
    /// The listing of the source.
    pub(crate) listed: Option<Listing>,
    /// The new directory in the target.
    pub(crate) made: Option<NewDirectory>,
}

/// The result of the survey of a directory.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) jobs: Vec<Job>,
    pub(crate) directories: Vec<Directory>,
    /// Files with several names that the target has already, with their identity there.
    pub(crate) alike: Vec<(Job, Option<FileIdentity>)>,
    pub(crate) tally: Tally,
    /// Paths that failed, each with the reason.
    pub(crate) failures: Vec<(String, String)>,
    /// Paths with a note.
    pub(crate) notes: Vec<(String, String)>,
    /// Paths in the target that a dry run would delete.
    pub(crate) doomed: Vec<String>,
    /// The time spent on deletions.
    pub(crate) deleting: Duration,
    /// Whether the target's directory has been changed, or will be.
    pub(crate) changes: bool,
    /// Whether links and names may change it, which are examined only when they are copied.
    pub(crate) may_change: bool,
    /// Whether the survey succeeded.
    pub(crate) done: bool,
    /// The staged directory, if it has no name yet.
    pub(crate) unnamed: Option<StagedDirectory>,
    /// The former permission bits of the target's directory, if it was given the bits that the work needs.
    pub(crate) opened: Option<u32>,
    /// The loss of the server, after which nothing further makes sense.
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
