//! New directories, and when they get their names.
//!
//! A file that is made under a name of its own costs the server a rename, which for Samba is a large part of all its work for
//! it. Where a directory is new, its small files need none: it is made under a name of its own instead ([`make`]),
//! they are made in it under their final names, and all of them are to be seen at once when it gets its own ([`name`]).
//! What else is to be in it waits until then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use client::remote::{Attributes, Kind};
use tokio::task::{JoinError, JoinSet};

use crate::beside::kept;
use crate::error::{Done, Fault};
use crate::job::{Directory, Job, part_of};
use crate::mirror::remove;
use crate::name::{is_part, join};
use crate::patience::{patiently, patiently_where};
use crate::shared::{MANY, Shared};
use crate::tree::facts::{Entry, Listing};
use crate::tree::like::Like;
use crate::unnamed::{Made, Unnamed};

/// Files that are moved at once, where a directory cannot be given its name.
const MOVING: usize = 32;

/// A directory that has its name.
#[derive(Debug)]
pub(crate) struct Named {
    /// Whether it is like that of the source, too.
    pub(crate) is_settled: bool,
    /// What could not come with it, where its files had to be moved one by one.
    pub(crate) stayed: Vec<(Entry, Fault)>,
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
    let is_many = || listed.entries.iter().filter(is_one).take(MANY).count() == MANY;
    match shared
        .target
        .unnamed(path)
        .filter(|_| shared.plan.is_plain() && !shared.plan.hard_links && is_many())
    {
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

/// Takes away what an earlier copy has left in `unnamed` and the source does not have: nobody knows whether it is whole.
pub(crate) async fn clear(shared: &Shared, unnamed: &str, left: impl Iterator<Item = Entry>, jobs: &[Job]) {
    let (parts, others): (Vec<Entry>, Vec<Entry>) =
        left.filter(|entry| entry.facts.kind == Kind::File).partition(|entry| is_part(&entry.name));
    let due: HashSet<String> = match parts.is_empty() {
        true => HashSet::new(),
        false => jobs.iter().map(|job| part_of(&job.path, &job.facts)).collect(),
    };
    for entry in parts.into_iter().filter(|part| !due.contains(&part.name)).chain(others) {
        if shared.is_over() {
            return;
        }
        // What stays is beyond the source, and goes with a mirror.
        let _ = shared.target.remove(&join(unnamed, &entry.name)).await;
    }
}

/// Gives a directory its name, without what is not whole in it.
pub(crate) async fn name(shared: &Arc<Shared>, unnamed: &Unnamed) -> Done<Named> {
    let withheld = withdraw(shared, unnamed).await?;
    if withheld.is_empty() {
        // Windows refuses it as long as anybody has a file in it open, as who looks through all that is new.
        let may_pass = |fault: &Fault| fault.may_pass() || fault.is_denied();
        match patiently_where(shared, may_pass, || rename(shared, unnamed)).await {
            Ok(is_settled) => return Ok(Named { is_settled, stayed: Vec::new() }),
            // Somebody has made one of that name meanwhile, or the server does not want it.
            Err(Fault::Server(error)) if !error.is_loss() => {}
            Err(fault) => return Err(fault),
        }
    }
    move_all(shared, &unnamed.path, &unnamed.directory.path, &withheld).await
}

/// Removes what is there and not whole. Answers what cannot be removed.
async fn withdraw(shared: &Shared, Unnamed { path, doubtful, .. }: &Unnamed) -> Done<HashSet<String>> {
    if doubtful.is_empty() {
        return Ok(HashSet::new());
    }
    // Another file may be there instead, whose name the server takes for the same.
    let listed = patiently(shared, || shared.target.list(path)).await?;
    let there: HashMap<String, Attributes> =
        listed.entries.into_iter().map(|it| (it.name, it.facts)).collect();
    let mut withheld = HashSet::new();
    for (name, wanted) in doubtful {
        if there.get(name).is_none_or(|facts| facts.looks_like(wanted)) {
            continue;
        }
        let file = join(path, name);
        match patiently(shared, || remove(shared, &file, false)).await {
            Err(fault) if fault.is_loss() => return Err(fault),
            Err(_) => drop(withheld.insert(name.clone())),
            Ok(()) => {}
        }
    }
    Ok(withheld)
}

async fn rename(shared: &Shared, Unnamed { path, directory, jobs, directories, .. }: &Unnamed) -> Done<bool> {
    let keep = &shared.plan.keep;
    // Nothing more is put into it, and it has nothing beside that.
    let is_plain = !keep.is_more() && !keep.streams && !kept::is_doubtful(&directory.facts);
    let is_done = jobs.is_empty() && directories.is_empty() && is_plain;
    let like = if is_done { keep.like(&directory.facts) } else { Like::default() };
    let renamed = shared.target.rename_directory(path, &directory.path, &like).await;
    match was_done_before(shared, &renamed, &directory.path).await? {
        true => Ok(false),
        false => Ok(renamed? && is_done),
    }
}

/// Whether what was refused has its new path by an attempt whose answer was lost.
async fn was_done_before<T>(shared: &Shared, done: &Done<T>, new_path: &str) -> Done<bool> {
    let is_gone = done.as_ref().is_err_and(Fault::is_missing);
    Ok(is_gone && shared.target.stat(new_path).await?.is_some())
}

/// Moves what is in one directory into another, in the place of what is there, but for what is `withheld`.
async fn move_all(
    shared: &Arc<Shared>,
    unnamed: &str,
    path: &str,
    withheld: &HashSet<String>,
) -> Done<Named> {
    let like = Like::default();
    patiently(shared, || shared.target.make_directory(path, &like)).await?;
    let listed = patiently(shared, || shared.target.list(unnamed)).await?;
    let (mut moving, mut stayed) = (JoinSet::new(), Vec::new());
    let goes = |it: &Entry| it.facts.kind == Kind::File && !withheld.contains(&it.name);
    for entry in listed.entries.into_iter().filter(goes) {
        if moving.len() >= MOVING {
            stayed.extend(ended(moving.join_next().await)?);
        }
        let (from, to) = (join(unnamed, &entry.name), join(path, &entry.name));
        let shared = Arc::clone(shared);
        moving.spawn(async move {
            let moved = patiently(&shared, || replace(&shared, &from, &to)).await;
            moved.err().map(|fault| (entry, fault))
        });
    }
    while !moving.is_empty() {
        stayed.extend(ended(moving.join_next().await)?);
    }
    // What is left keeps it there, and is in nobody's way.
    let _ = shared.target.remove_directory(unnamed).await;
    Ok(Named { is_settled: false, stayed })
}

async fn replace(shared: &Shared, from: &str, to: &str) -> Done<()> {
    let moved = shared.target.replace(from, to).await;
    if was_done_before(shared, &moved, to).await? { Ok(()) } else { moved }
}

type Stayed = Option<(Entry, Fault)>;

fn ended(moved: Option<Result<Stayed, JoinError>>) -> Done<Stayed> {
    let why = |why| Fault::Said(format!("a part of the copy ended early: {why}"));
    moved.transpose().map(Option::flatten).map_err(why)
}
