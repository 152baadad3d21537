//! Files of several names (hard links): the first name is copied like any other file, and the others are given to what has come
//! of that. They wait for it, as with rsync -H.

use std::collections::HashMap;

use crate::survey::Job;
use crate::tree::Node;

/// The files of several names that were found.
#[derive(Debug, Default)]
pub(crate) struct Twins(HashMap<Node, First>);

/// What has become of the first name of a file.
#[derive(Debug)]
enum First {
    /// It is being copied, and others wait for it.
    UnderWay(Vec<Job>),
    /// The target has it by this path, as that file if it is known which.
    Whole(String, Option<Node>),
}

impl Twins {
    /// Takes a job; answers what of it can be begun now. One that waits is answered when the first is done.
    pub(crate) fn admit(&mut self, mut job: Job) -> Option<Job> {
        let Some(node) = job.facts.node else { return Some(job) };
        match self.0.get_mut(&node) {
            None => drop(self.0.insert(node, First::UnderWay(Vec::new()))),
            Some(First::UnderWay(waiting)) => {
                waiting.push(job);
                return None;
            }
            Some(First::Whole(path, _)) => job.twin = Some(path.clone()),
        }
        Some(job)
    }

    /// Takes a file that looks like that of the target, which is the file `there`. False when it is another one than that of the
    /// names before it, and has to be joined with them.
    pub(crate) fn is_joined(&mut self, job: &Job, there: Option<Node>) -> bool {
        let Some(node) = job.facts.node else { return true };
        match self.0.get(&node) {
            None => {
                self.0.insert(node, First::Whole(job.path.clone(), there));
                true
            }
            Some(First::UnderWay(_)) => false,
            Some(First::Whole(_, first)) => first.is_some() && *first == there,
        }
    }

    /// Takes notice of a job that is done. Answers what can be begun now.
    pub(crate) fn end(&mut self, job: &Job, is_made: bool) -> Vec<Job> {
        let Some(node) = job.facts.node.filter(|_| job.twin.is_none()) else { return Vec::new() };
        let first = if is_made { Some(First::Whole(job.path.clone(), None)) } else { None };
        let before = match first {
            Some(first) => self.0.insert(node, first),
            // The next name is the first one then.
            None => self.0.remove(&node),
        };
        let Some(First::UnderWay(waiting)) = before else { return Vec::new() };
        waiting.into_iter().filter_map(|job| self.admit(job)).collect()
    }

    /// What still waits, since nothing more is begun.
    pub(crate) fn abandon(&mut self) -> Vec<Job> {
        let all = self.0.drain().map(|(_, first)| first);
        all.flat_map(|first| if let First::UnderWay(waiting) = first { waiting } else { Vec::new() })
            .collect()
    }
}
