//! One symbolic link, or one further name of a file, from one side to the other.

use crate::beside::Lost;
use crate::error::{Done, Fault};
use crate::job::{Job, part_of};
use crate::name;
use crate::name::{join, split};
use crate::shared::Shared;
use crate::tree::facts::Spot;
use crate::tree::links::LinkMade;

/// What came of one thing that was to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was made, with so many bytes.
    Made(u64),
    /// The target has the same already.
    Same,
    /// The target cannot hold it, which was counted.
    Left,
    /// The target has something of another kind in its place.
    Mismatch,
}

/// Copies a symbolic link. Links are compared by where they lead: two of them may well be of one time.
pub(crate) async fn copy(shared: &Shared, job: &Job) -> Done<Outcome> {
    let keep = &shared.plan.keep;
    let Some(mut link) = shared.source.read_link(&job.from).await? else {
        // A special file of a share looks like a link until it is read.
        shared.lose(&[Lost::Link]);
        return Ok(Outcome::Left);
    };
    if job.spot == Spot::Taken {
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
    let part = join(split(&job.path).0, &part_of(&job.path, &job.facts));
    match shared.target.put_link(&job.path, &part, &link, &keep.like(&job.facts)).await? {
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

/// Gives the file `first` of the target, which is whole, the name that `job` is to have. False where it cannot have another.
pub(crate) async fn join_names(shared: &Shared, first: &str, job: &Job) -> Done<bool> {
    let part = join(split(&job.path).0, &name::part(split(&job.path).1, b"name"));
    match shared.target.link(first, &job.path, &part).await {
        Err(Fault::Server(error)) if error.is_loss() => Err(Fault::Server(error)),
        linked => linked,
    }
}
