//! New directories, and when they get their names.
//!
//! A file that is made under a name of its own costs the server a rename, which Samba spends a third of its time on. Where a
//! directory is new, its small files need none: it is made under a name of its own instead ([`make`]), they are made in it
//! under their final names, and all of them are to be seen at once when it gets its own ([`name`]). What else is to be in it
//! waits until then.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::error::{Done, Fault};
use crate::file::{Shared, patiently};
use crate::name::is_part;
use crate::run::MANY;
use crate::survey::{Directory, Job};
use crate::tree::{Entry, Kind, Like, Listing, join, split};

/// Small files that are made before their directory has its name at most: whoever waits for it does not wait much longer.
pub(crate) const MOST: usize = 10_000;
/// Files that are moved at once, where a directory cannot be given its name.
const MOVING: usize = 32;

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
    pub(crate) left: usize,
    /// Those that could not be made.
    pub(crate) failed: Vec<String>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) directories: Vec<Directory>,
}

/// Makes a directory for what is listed of the source: under a name of its own if that pays.
pub(crate) async fn make(shared: &Shared, directory: &Directory, listed: &Listing) -> Done<Made> {
    let path = directory.path.as_str();
    let is_one = |it: &&Entry| {
        let own = join(path, &it.name);
        it.facts.kind == Kind::File
            && shared.is_small(it.facts.size)
            && !is_part(&it.name)
            && shared.plan.wants(&own, false)
    };
    let is_many = shared.plan.is_plain() && listed.entries.iter().filter(is_one).take(MANY).count() == MANY;
    match shared.target.unnamed(path).filter(|_| is_many) {
        Some(unnamed) => make_unnamed(shared, path, unnamed).await,
        None if path.is_empty() => shared.target.make_root().await.map(|()| Made::default()),
        None => {
            let like = shared.plan.keep.like(&directory.facts);
            shared.target.make_directory(path, &like).await.map(|_| Made::default())
        }
    }
}

async fn make_unnamed(shared: &Shared, path: &str, unnamed: String) -> Done<Made> {
    let target = &shared.target;
    let is_made = match target.make_directory(&unnamed, &Like::default()).await {
        // Something is missing above it.
        Err(fault) if path.is_empty() && fault.is_missing() => {
            target.make_above_root().await?;
            target.make_directory(&unnamed, &Like::default()).await?
        }
        made => made?,
    };
    let there = if is_made { Listing::default() } else { target.list(&unnamed).await? };
    Ok(Made { unnamed: Some(unnamed), there })
}

/// Takes away what an earlier copy has left in `unnamed` and nobody wants any more.
pub(crate) async fn clear(shared: &Shared, unnamed: &str, left: impl Iterator<Item = Entry>, jobs: &[Job]) {
    for entry in left {
        let is_due = |job: &Job| entry.name == crate::file::part_of(&job.path, &job.facts);
        if entry.facts.kind == Kind::File && !jobs.iter().any(is_due) {
            // What stays is beyond the source, and goes with a mirror.
            let _ = shared.target.remove(&join(unnamed, &entry.name)).await;
        }
    }
}

/// Gives a directory its name, once nothing is in it that is not whole. Answers whether it is like that of the source too.
pub(crate) async fn name(shared: &Arc<Shared>, unnamed: &Unnamed) -> Done<bool> {
    for file in &unnamed.failed {
        match patiently(shared, || shared.target.remove(file)).await {
            Err(fault) if !fault.is_missing() => return Err(fault),
            _ => {}
        }
    }
    match patiently(shared, || rename(shared, unnamed)).await {
        // Somebody has made one of that name meanwhile, or looks into this one, which Windows takes for a reason.
        Err(Fault::Server(error)) if !error.is_loss() => {
            move_all(shared, &unnamed.path, &unnamed.directory.path).await.map(|()| false)
        }
        done => done,
    }
}

async fn rename(shared: &Shared, Unnamed { path, directory, jobs, directories, .. }: &Unnamed) -> Done<bool> {
    let keep = &shared.plan.keep;
    // Nothing more is put into it, and it has nothing beside that.
    let is_done = jobs.is_empty() && directories.is_empty() && !keep.is_more() && !keep.streams;
    let like = if is_done { keep.like(&directory.facts) } else { Like::default() };
    let renamed = shared.target.rename_directory(path, &directory.path, &like).await;
    if renamed.as_ref().is_err_and(Fault::is_missing) && shared.target.stat(&directory.path).await?.is_some()
    {
        // It was done by an attempt whose answer was lost.
        return Ok(false);
    }
    Ok(renamed? && is_done)
}

/// Moves what is in one directory into another, in the place of what is there.
async fn move_all(shared: &Arc<Shared>, unnamed: &str, path: &str) -> Done<()> {
    let like = Like::default();
    patiently(shared, || shared.target.make_directory(path, &like)).await?;
    let listed = patiently(shared, || shared.target.list(unnamed)).await?;
    let mut moving = JoinSet::new();
    for entry in listed.entries {
        if moving.len() >= MOVING {
            ended(&mut moving).await?;
        }
        let (from, to) = (join(unnamed, &entry.name), join(path, &entry.name));
        let shared = Arc::clone(shared);
        moving.spawn(async move { patiently(&shared, || shared.target.replace(&from, &to)).await });
    }
    while !moving.is_empty() {
        ended(&mut moving).await?;
    }
    patiently(shared, || shared.target.remove_directory(unnamed)).await
}

async fn ended(moving: &mut JoinSet<Done<()>>) -> Done<()> {
    match moving.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(why)) => Err(Fault::Said(format!("a part of the copy ended early: {why}"))),
        None => Ok(()),
    }
}

/// The unnamed directory that `job` is for, if it is for one.
pub(crate) fn of(job: &Job) -> Option<&str> {
    job.is_unseen.then(|| split(&job.path).0)
}
