//! New directories that have no names yet, and what waits for them.

use client::remote::Attributes;

use crate::job::{Directory, Job};
use crate::name::{join, split};
use crate::shared::Shared;
use crate::tree::facts::{Listing, Spot};

/// Small files that are made before their directory has its name at most: whoever waits for it does not wait much longer.
const MOST: usize = 10_000;

/// A new directory as it was made.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Where it is until it gets its name, if it is anywhere else.
    pub(crate) unnamed: Option<String>,
    /// What an earlier copy has left there.
    pub(crate) there: Listing,
}

/// A directory that has no name yet, and what waits for that.
#[derive(Debug)]
pub(crate) struct Unnamed {
    /// Where it is.
    pub(crate) path: String,
    /// What it is to be.
    pub(crate) directory: Directory,
    /// Files that are to be in it first and are not done.
    left: usize,
    /// Files that may be there and not be whole.
    pub(crate) doubtful: Vec<(String, Attributes)>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) directories: Vec<Directory>,
}

impl Unnamed {
    /// A directory at `path`, and those of its files that are to be made there before it has its name.
    pub(crate) fn new(
        shared: &Shared,
        path: String,
        directory: Directory,
        jobs: Vec<Job>,
        directories: Vec<Directory>,
    ) -> (Vec<Job>, Unnamed) {
        let (small, mut later): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| shared.is_small(job.facts.size));
        // What is there and not whole is to be so before it can be seen.
        let (mut first, new): (Vec<Job>, Vec<Job>) =
            small.into_iter().partition(|job| job.spot == Spot::Taken);
        first.extend(new);
        later.extend(first.split_off(MOST.min(first.len())));
        let is_there = |job: &&Job| job.spot == Spot::Taken;
        let doubtful =
            later.iter().filter(is_there).map(|job| (split(&job.path).1.to_owned(), job.facts)).collect();
        for job in &mut first {
            job.path = join(&path, split(&job.path).1);
            if job.spot == Spot::Free {
                job.spot = Spot::Unseen;
            }
        }
        let left = first.len();
        (first, Unnamed { path, directory, left, doubtful, jobs: later, directories })
    }

    /// Takes notice of one of its files that is done, and answers whether it was the last one.
    pub(crate) fn is_last(&mut self, job: &Job, is_made: bool) -> bool {
        self.left -= 1;
        if !is_made {
            self.doubtful.push((split(&job.path).1.to_owned(), job.facts));
        }
        self.left == 0
    }
}
