//! Staged directories, which have a temporary name, and the work that waits for their final name.

use client::remote::Attributes;

use crate::context::CopyContext;
use crate::job::{Directory, Job};
use crate::name::{join, split};
use crate::tree::listing::{Listing, TargetName};

/// The most small files that are created before their directory has its name. The work that waits for the
/// name then does not wait much longer.
const MOST: usize = 10_000;

/// A new directory after its creation.
#[derive(Debug, Default)]
pub(crate) struct NewDirectory {
    /// Its temporary path, if it is staged.
    pub(crate) unnamed: Option<String>,
    /// The contents that an earlier copy has left there.
    pub(crate) there: Listing,
}

/// A directory with a temporary name, and the work that waits for its name.
#[derive(Debug)]
pub(crate) struct StagedDirectory {
    /// Its temporary path.
    pub(crate) path: String,
    /// The final directory.
    pub(crate) directory: Directory,
    /// The number of unfinished files that go into it first.
    left: usize,
    /// Files that may exist and be incomplete.
    pub(crate) doubtful: Vec<(String, Attributes)>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) directories: Vec<Directory>,
}

impl StagedDirectory {
    /// A directory at `path`, and those of its files that are created there before it has its name.
    pub(crate) fn new(
        shared: &CopyContext,
        path: String,
        directory: Directory,
        jobs: Vec<Job>,
        directories: Vec<Directory>,
    ) -> (Vec<Job>, StagedDirectory) {
        let (small, mut later): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| shared.is_small(job.attributes.size));
        // An incomplete file must be completed before it becomes visible.
        let (mut first, new): (Vec<Job>, Vec<Job>) =
            small.into_iter().partition(|job| job.spot == TargetName::Taken);
        first.extend(new);
        later.extend(first.split_off(MOST.min(first.len())));
        let is_there = |job: &&Job| job.spot == TargetName::Taken;
        let doubtful = later
            .iter()
            .filter(is_there)
            .map(|job| (split(&job.path).1.to_owned(), job.attributes))
            .collect();
        for job in &mut first {
            job.path = join(&path, split(&job.path).1);
            if job.spot == TargetName::Free {
                job.spot = TargetName::Unseen;
            }
        }
        let left = first.len();
        (first, StagedDirectory { path, directory, left, doubtful, jobs: later, directories })
    }

    /// Notes that one of its files is done. Returns whether it was the last one.
    pub(crate) fn is_last(&mut self, job: &Job, is_made: bool) -> bool {
        self.left -= 1;
        if !is_made {
            self.doubtful.push((split(&job.path).1.to_owned(), job.attributes));
        }
        self.left == 0
    }
}
