//! Names new directories, early or late.
//!
//! A file with a temporary name costs the server a rename, which is a large part of Samba's work for it. The
//! small files of a new directory need none. The directory itself gets a temporary name ([`make`]), its small
//! files are created in it under their final names, and all of them become visible at once when it gets its
//! own name ([`name`]). Other contents wait until then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use client::remote::{Attributes, Kind};
use tokio::task::{JoinError, JoinSet};

use crate::context::{CopyContext, MANY};
use crate::error::{Fault, FileResult};
use crate::job::{Directory, Job, part_of};
use crate::mirror::remove;
use crate::name::{is_part, join};
use crate::retry::{patiently, patiently_where};
use crate::sidecar::silent_losses;
use crate::staged::{NewDirectory, StagedDirectory};
use crate::tree::listing::{Entry, Listing};
use crate::tree::target_attributes::TargetAttributes;

/// The most files moved at once if a directory cannot be renamed.
const MOVING: usize = 32;

/// A directory that has its final name.
#[derive(Debug)]
pub(crate) struct NamedDirectory {
    /// Whether its attributes are set too.
    pub(crate) is_settled: bool,
    /// The files that could not be moved, if they had to be moved one by one.
    pub(crate) stayed: Vec<(Entry, Fault)>,
}

/// Creates a directory for the listing of the source, under a temporary name if that pays.
pub(crate) async fn make(
    shared: &CopyContext,
    directory: &Directory,
    listed: &Listing,
) -> FileResult<NewDirectory> {
    let path = directory.path.as_str();
    let is_one = |it: &&Entry| {
        let own = join(path, &it.name);
        it.attributes.kind == Kind::File
            && shared.is_small(it.attributes.size)
            && !is_part(&it.name)
            && shared.plan.wants(&own, false)
    };
    let is_many = || listed.entries.iter().filter(is_one).take(MANY).count() == MANY;
    match shared
        .target
        .staging_path(path)
        .filter(|_| shared.plan.is_plain() && !shared.plan.hard_links && is_many())
    {
        Some(unnamed) => make_unnamed(shared, path, unnamed).await,
        None if path.is_empty() => shared.target.make_root().await.map(|()| NewDirectory::default()),
        None => {
            let like = shared.plan.keep.like(&directory.attributes);
            shared.target.make_directory(path, &like).await.map(|_| NewDirectory::default())
        }
    }
}

async fn make_unnamed(shared: &CopyContext, path: &str, unnamed: String) -> FileResult<NewDirectory> {
    let target = &shared.target;
    let is_made = match target.make_directory(&unnamed, &TargetAttributes::default()).await {
        // A directory above it is missing.
        Err(fault) if path.is_empty() && fault.is_missing() => {
            target.make_above_root().await?;
            target.make_directory(&unnamed, &TargetAttributes::default()).await?
        }
        made => made?,
    };
    let there = if is_made { Listing::default() } else { target.list(&unnamed).await? };
    Ok(NewDirectory { unnamed: Some(unnamed), there })
}

/// Removes files of an earlier copy from `unnamed` that the source does not have. Nobody knows whether they
/// are complete.
pub(crate) async fn clear(
    shared: &CopyContext,
    unnamed: &str,
    left: impl Iterator<Item = Entry>,
    jobs: &[Job],
) {
    let (parts, others): (Vec<Entry>, Vec<Entry>) =
        left.filter(|entry| entry.attributes.kind == Kind::File).partition(|entry| is_part(&entry.name));
    let due: HashSet<String> = match parts.is_empty() {
        true => HashSet::new(),
        false => jobs.iter().map(|job| part_of(&job.path, &job.attributes)).collect(),
    };
    for entry in parts.into_iter().filter(|part| !due.contains(&part.name)).chain(others) {
        if shared.is_over() {
            return;
        }
        // A file that stays is an extra, which a mirror deletes.
        let _ = shared.target.remove(&join(unnamed, &entry.name)).await;
    }
}

/// Renames a directory to its final name, without incomplete files in it.
pub(crate) async fn name(shared: &Arc<CopyContext>, unnamed: &StagedDirectory) -> FileResult<NamedDirectory> {
    let withheld = withdraw(shared, unnamed).await?;
    if withheld.is_empty() {
        // Windows refuses this as long as a file in it is open, for example in a scanner of new files.
        let may_pass = |fault: &Fault| fault.may_pass() || fault.is_denied();
        match patiently_where(shared, may_pass, || rename(shared, unnamed)).await {
            Ok(is_settled) => return Ok(NamedDirectory { is_settled, stayed: Vec::new() }),
            // A directory of that name was created meanwhile, or the server refuses.
            Err(Fault::Remote(error)) if !error.is_loss() => {}
            Err(fault) => return Err(fault),
        }
    }
    move_all(shared, &unnamed.path, &unnamed.directory.path, &withheld).await
}

/// Removes incomplete files. Returns those that cannot be removed.
async fn withdraw(
    shared: &CopyContext,
    StagedDirectory { path, doubtful, .. }: &StagedDirectory,
) -> FileResult<HashSet<String>> {
    if doubtful.is_empty() {
        return Ok(HashSet::new());
    }
    // There may be another file with a name that the server considers equal.
    let listed = patiently(shared, || shared.target.list(path)).await?;
    let there: HashMap<String, Attributes> =
        listed.entries.into_iter().map(|it| (it.name, it.attributes)).collect();
    let mut withheld = HashSet::new();
    for (name, wanted) in doubtful {
        if there.get(name).is_none_or(|attributes| attributes.looks_like(wanted)) {
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

async fn rename(
    shared: &CopyContext,
    StagedDirectory { path, directory, jobs, directories, .. }: &StagedDirectory,
) -> FileResult<bool> {
    let keep = &shared.plan.keep;
    // Nothing more is put into it, and it has no sidecar data.
    let is_plain = !keep.is_more() && !keep.streams && !silent_losses::is_doubtful(&directory.attributes);
    let is_done = jobs.is_empty() && directories.is_empty() && is_plain;
    let like = if is_done { keep.like(&directory.attributes) } else { TargetAttributes::default() };
    let renamed = shared.target.rename_directory(path, &directory.path, &like).await;
    match was_done_before(shared, &renamed, &directory.path).await? {
        true => Ok(false),
        false => Ok(renamed? && is_done),
    }
}

/// Whether an attempt with a lost reply did the rename that is refused now.
async fn was_done_before<T>(shared: &CopyContext, done: &FileResult<T>, new_path: &str) -> FileResult<bool> {
    let is_gone = done.as_ref().is_err_and(Fault::is_missing);
    Ok(is_gone && shared.target.stat(new_path).await?.is_some())
}

/// Moves the files of one directory into another, replacing existing files, except those that are `withheld`.
async fn move_all(
    shared: &Arc<CopyContext>,
    unnamed: &str,
    path: &str,
    withheld: &HashSet<String>,
) -> FileResult<NamedDirectory> {
    let like = TargetAttributes::default();
    patiently(shared, || shared.target.make_directory(path, &like)).await?;
    let listed = patiently(shared, || shared.target.list(unnamed)).await?;
    let (mut moving, mut stayed) = (JoinSet::new(), Vec::new());
    let goes = |it: &Entry| it.attributes.kind == Kind::File && !withheld.contains(&it.name);
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
    // The remaining files keep the directory, which is in nobody's way.
    let _ = shared.target.remove_directory(unnamed).await;
    Ok(NamedDirectory { is_settled: false, stayed })
}

async fn replace(shared: &CopyContext, from: &str, to: &str) -> FileResult<()> {
    let moved = shared.target.replace(from, to).await;
    if was_done_before(shared, &moved, to).await? { Ok(()) } else { moved }
}

type Stayed = Option<(Entry, Fault)>;

fn ended(moved: Option<Result<Stayed, JoinError>>) -> FileResult<Stayed> {
    let why = |why| Fault::Said(format!("a part of the copy ended early: {why}"));
    moved.transpose().map(Option::flatten).map_err(why)
}
