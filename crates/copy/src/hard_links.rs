//! Files with several names (hard links). The first name is copied like any other file, and the others become
//! names of the copy. They wait for it, as with rsync -H.

use std::collections::HashMap;

use client::remote::FileIdentity;

use crate::job::Job;

/// The files with several names found so far. The number of a deleted file is reused, so another size or time
/// makes another file.
#[derive(Debug, Default)]
pub(crate) struct HardLinks(HashMap<(FileIdentity, u64, i128), First>);

fn key(job: &Job) -> Option<(FileIdentity, u64, i128)> {
    job.attributes.node.map(|node| (node, job.attributes.size, job.attributes.modified))
}

/// The state of the first name of a file.
#[derive(Debug)]
enum First {
    /// It is being copied, and others wait for it.
    UnderWay(Vec<Job>),
    /// The target has it at this path, with this identity if it is known.
    Whole(String, Option<FileIdentity>),
}

impl HardLinks {
    /// Takes a job. Returns it if it can begin now. Otherwise it is returned when the first name is done.
    pub(crate) fn admit(&mut self, mut job: Job) -> Option<Job> {
        let Some(key) = key(&job) else { return Some(job) };
        match self.0.get_mut(&key) {
            None => drop(self.0.insert(key, First::UnderWay(Vec::new()))),
            Some(First::UnderWay(waiting)) => {
                waiting.push(job);
                return None;
            }
            Some(First::Whole(path, _)) => job.twin = Some(path.clone()),
        }
        Some(job)
    }

    /// Takes a file that equals the file `there` of the target. Returns false if `there` is another file than
    /// that of earlier names, and must be linked to them.
    pub(crate) fn is_joined(&mut self, job: &Job, there: Option<FileIdentity>) -> bool {
        let Some(key) = key(job) else { return true };
        match self.0.get(&key) {
            None => {
                self.0.insert(key, First::Whole(job.path.clone(), there));
                true
            }
            Some(First::UnderWay(_)) => false,
            Some(First::Whole(_, first)) => first.is_some() && *first == there,
        }
    }

    /// Notes that a job is done. Returns the jobs that can begin now.
    pub(crate) fn end(&mut self, job: &Job, is_made: bool) -> Vec<Job> {
        let Some(key) = key(job).filter(|_| job.twin.is_none()) else { return Vec::new() };
        let first = if is_made { Some(First::Whole(job.path.clone(), None)) } else { None };
        let before = match first {
            Some(first) => self.0.insert(key, first),
            // The next name then becomes the first one.
            None => self.0.remove(&key),
        };
        let Some(First::UnderWay(waiting)) = before else { return Vec::new() };
        waiting.into_iter().filter_map(|job| self.admit(job)).collect()
    }

    /// The waiting jobs, when nothing more is begun.
    pub(crate) fn abandon(&mut self) -> Vec<Job> {
        let all = self.0.drain().map(|(_, first)| first);
        all.flat_map(|first| if let First::UnderWay(waiting) = first { waiting } else { Vec::new() })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::listing::TargetName;
    use client::remote::{Attributes, Kind};

    fn job(name: &str, size: u64, modified: i128) -> Job {
        let (kind, node) = (Kind::File, Some((7, 42)));
        let attributes = Attributes {
            kind,
            may_be_listed: false,
            size,
            modified,
            node,
            sparse: false,
            mode: None,
            attributes: None,
        };
        Job { from: name.to_owned(), path: name.to_owned(), attributes, spot: TargetName::Free, twin: None }
    }

    #[test]
    fn the_number_of_a_file_that_is_gone_makes_another_one_no_name_of_it() {
        let mut twins = HardLinks::default();
        let first = twins.admit(job("a", 5, 100)).unwrap();
        assert!(twins.admit(job("b", 5, 100)).is_none());
        // It does not wait either.
        assert!(twins.admit(job("c", 6, 100)).is_some_and(|job| job.twin.is_none()));
        let released = twins.end(&first, true);
        assert_eq!(released.len(), 1);
        assert_eq!(released[0].twin.as_deref(), Some("a"));
        assert!(twins.admit(job("d", 5, 200)).is_some_and(|job| job.twin.is_none()));
        assert!(twins.is_joined(&job("e", 7, 100), None));
    }
}
