//! Copies one symbolic link, or one further name of a file.

use crate::context::CopyContext;
use crate::error::{Fault, FileResult};
use crate::job::{Job, part_of};
use crate::name;
use crate::name::{join, split};
use crate::sidecar::Lost;
use crate::tree::links::LinkMade;
use crate::tree::listing::TargetName;

/// The outcome of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file was copied with this many bytes.
    Made(u64),
    /// The target has the same already.
    Same,
    /// The target cannot hold it, which was counted.
    Left,
    /// The target has an object of another type in its place.
    Mismatch,
}

/// Copies a symbolic link. Links are compared by their targets, because two of them may well have one time.
pub(crate) async fn copy(shared: &CopyContext, job: &Job) -> FileResult<Outcome> {
    let keep = &shared.plan.keep;
    let Some(mut link) = shared.source.read_link(&job.from).await? else {
        // A special file of a share looks like a link until it is read.
        shared.lose(&[Lost::Link]);
        return Ok(Outcome::Left);
    };
    if job.spot == TargetName::Taken {
        match shared.target.read_link(&job.path).await? {
            Some(there) if there.looks_like(&link) => return Ok(Outcome::Same),
            Some(_) => {}
            None if shared.target.stat(&job.path).await?.is_some() => return Ok(Outcome::Mismatch),
            None => {}
        }
    }
    if !keep.owners {
        link.owner = None;
    }
    let part = join(split(&job.path).0, &part_of(&job.path, &job.attributes));
    match shared.target.put_link(&job.path, &part, &link, &keep.like(&job.attributes)).await? {
        LinkMade::Yes => Ok(Outcome::Made(0)),
        LinkMade::WithoutOwner => {
            shared.lose(&[Lost::Owner]);
            Ok(Outcome::Made(0))
        }
        LinkMade::WithoutTime => {
            shared.lose(&[Lost::Time]);
            Ok(Outcome::Made(0))
        }
        LinkMade::No => {
            shared.lose(&[Lost::Link]);
            Ok(Outcome::Left)
        }
    }
}

/// Gives the complete file `first` of the target the name of `job`. Returns false if the file cannot have a
/// further name.
pub(crate) async fn join_names(shared: &CopyContext, first: &str, job: &Job) -> FileResult<bool> {
    let part = join(split(&job.path).0, &name::part(split(&job.path).1, b"name"));
    match shared.target.link(first, &job.path, &part).await {
        Err(Fault::Remote(error)) if error.is_loss() => Err(Fault::Remote(error)),
        linked => linked,
    }
}
