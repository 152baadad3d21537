//! Compares one directory on both sides: files to copy, files that exist already, mismatches, and extras of
//! the target.

use std::collections::HashMap;
use std::mem::take;
use std::sync::Arc;
use std::time::Instant;

use client::remote::{Attributes, Kind};

use crate::context::CopyContext;
use crate::error::FileResult;
use crate::follow::{self, Followed};
use crate::job::{Directory, Job, OWNERS};
use crate::mirror::{extras, remember_root, spare_source};
use crate::name::{join, split};
use crate::naming;
use crate::retry::patiently;
use crate::staged::{NewDirectory, StagedDirectory};
use crate::survey_result::{PriorSurvey, Survey};
use crate::tree::listing::{Entry, Listing, TargetName};
use crate::tree::target_attributes::TargetAttributes;
use crate::{Links, name};

/// The form of a name by which the target tells names apart.
fn key(shared: &CopyContext, name: &str) -> String {
    if shared.target.is_share() { name.chars().map(wire::fold::fold).collect() } else { name.to_owned() }
}

/// The contents of a directory in the source and in the target. The target's directory is created if it does
/// not exist.
async fn both(
    shared: &CopyContext,
    directory: &Directory,
    known: PriorSurvey,
) -> FileResult<(Listing, NewDirectory)> {
    let path = &directory.path;
    let listed = match known.listed {
        Some(listed) => listed,
        None => patiently(shared, || shared.source.list(&directory.from)).await?,
    };
    let made = match (directory.there, known.made) {
        (Some(_), _) => {
            let there = patiently(shared, || shared.target.list(path)).await?;
            NewDirectory { there, unnamed: None }
        }
        (None, Some(made)) => made,
        (None, None) if shared.plan.dry_run => NewDirectory::default(),
        (None, None) => patiently(shared, || naming::make(shared, directory, &listed)).await?,
    };
    Ok((listed, made))
}

/// Surveys a directory, and creates it in the target if it is new. A mirror deletes the extras of the target.
pub(crate) async fn survey(shared: Arc<CopyContext>, directory: Directory, known: PriorSurvey) -> Survey {
    let mut survey = Survey::default();
    let path = &directory.path;
    let (listed, NewDirectory { unnamed, there }) = match both(&shared, &directory, known).await {
        Ok(both) => both,
        Err(fault) => {
            survey.tally.directories.failed += 1;
            survey.fail(path.clone(), fault);
            return survey;
        }
    };
    if directory.there.is_none() && unnamed.is_none() {
        survey.tally.directories.copied += 1;
    }
    if path.is_empty() {
        remember_root(&shared, &listed.entries);
    } else if let Err(fault) = spare_source(&shared, &there.entries) {
        survey.tally.directories.failed += 1;
        survey.fail(path.clone(), fault);
        return survey;
    }
    for (name, why) in listed.unusable {
        survey.tally.files.total += 1;
        survey.tally.files.failed += 1;
        survey.failures.push((join(path, &name), why));
    }
    let mut there: HashMap<String, Entry> =
        there.entries.into_iter().map(|entry| (key(&shared, &entry.name), entry)).collect();
    let mut seen: HashMap<String, String> = HashMap::new();
    for entry in listed.entries {
        let own = join(path, &entry.name);
        let wanted = shared.plan.wants(&own, entry.attributes.kind == Kind::Directory);
        if name::is_part(&entry.name) || !wanted {
            continue;
        }
        let target = there.remove(&key(&shared, &entry.name)).map(|entry| entry.attributes);
        let Some(found) = resolve(&shared, &mut survey, &directory, &own, &entry).await else { continue };
        if found.attributes.kind == Kind::Directory && !shared.plan.wants(&own, true) {
            continue;
        }
        let other = seen.insert(key(&shared, &entry.name), entry.name.clone());
        consider(&shared, &mut survey, own, found, target, other);
    }
    match unnamed {
        Some(unnamed) => {
            naming::clear(&shared, &unnamed, there.into_values(), &survey.jobs).await;
            let (jobs, directories) = (take(&mut survey.jobs), take(&mut survey.directories));
            let (first, unnamed) =
                StagedDirectory::new(&shared, unnamed, directory.clone(), jobs, directories);
            survey.jobs = first;
            survey.unnamed = Some(unnamed);
        }
        None => {
            open_up(&shared, &mut survey, &directory, !there.is_empty()).await;
            let since = Instant::now();
            extras(&shared, &mut survey, path, there.into_values()).await;
            survey.deleting = since.elapsed();
        }
    }
    survey.done = true;
    survey
}

/// Gives the owner of the target's directory the rights to add or remove entries, if that is necessary and
/// its permission bits forbid it. As with rsync, it gets its bits back at the end.
async fn open_up(shared: &CopyContext, survey: &mut Survey, directory: &Directory, has_extras: bool) {
    let is_due = survey.changes || survey.may_change || (shared.plan.mirror && has_extras);
    let Some(mode) = directory.there.and_then(|there| there.mode) else { return };
    if !is_due || shared.plan.dry_run || mode & OWNERS == OWNERS {
        return;
    }
    let like = TargetAttributes { mode: Some(mode | OWNERS), ..TargetAttributes::default() };
    // A failure shows when the entries cannot be changed.
    if shared.target.settle_directory(&directory.path, &like).await.is_ok() {
        survey.opened = Some(mode);
    }
}

/// The object that a name of the source stands for, as the copy treats it. None if it is left out, or has
/// failed here.
async fn resolve(
    shared: &CopyContext,
    survey: &mut Survey,
    directory: &Directory,
    own: &str,
    entry: &Entry,
) -> Option<Followed> {
    let from = join(&directory.from, &entry.name);
    let left_out = match (entry.attributes.kind, shared.plan.links) {
        (Kind::Link, Links::Follow) => match follow::follow(shared, directory, &from).await {
            Ok(followed) if followed.attributes.kind == Kind::Other => {
                "what it leads to is neither a file nor a directory"
            }
            Ok(followed) => return Some(followed),
            Err(fault) => {
                survey.tally.files.total += 1;
                survey.tally.files.failed += 1;
                survey.fail(own.to_owned(), fault);
                return None;
            }
        },
        (Kind::Link, Links::Skip) => "a symbolic link",
        (Kind::Other, _) => "neither a file nor a directory",
        _ => return Some(Followed { from, attributes: entry.attributes, trail: directory.trail.clone() }),
    };
    // robocopy counts objects that it leaves out the same way, without a bit in the exit status.
    survey.tally.files.total += 1;
    survey.tally.files.skipped += 1;
    survey.tally.others += 1;
    survey.notes.push((own.to_owned(), format!("left out: {left_out}")));
    None
}

/// The note about an object that is not copied, because one of `kind` is in its place.
fn in_its_place(kind: Kind) -> String {
    let what = match kind {
        Kind::File => "a file",
        Kind::Directory => "a directory",
        Kind::Link => "a symbolic link",
        Kind::Other => "something else",
    };
    format!("not copied: the target has {what} of that name; remove it there")
}

/// Decides about one name.
fn consider(
    shared: &CopyContext,
    survey: &mut Survey,
    path: String,
    found: Followed,
    target: Option<Attributes>,
    other: Option<String>,
) {
    let Followed { from, attributes, trail } = found;
    let is_directory = attributes.kind == Kind::Directory;
    let mut refusal = other.map(|other| format!("the target takes it for {other:?}; rename one of them"));
    if shared.target.is_share() {
        refusal = refusal.or(name::check_for_smb(split(&path).1).err());
    }
    let tally = &mut survey.tally;
    let counts = if is_directory { &mut tally.directories } else { &mut tally.files };
    counts.total += 1;
    tally.bytes.total += attributes.size;
    if let Some(why) = refusal {
        counts.failed += 1;
        tally.bytes.failed += attributes.size;
        survey.failures.push((path, why));
        return;
    }
    let is_link = attributes.kind == Kind::Link;
    match target {
        // A share may show a link as its target. The existing object is examined again when the link is
        // copied.
        Some(target) if is_link && (target.kind == Kind::Link || shared.target.is_share()) => {
            survey.may_change = true;
            let (spot, twin) = (TargetName::Taken, None);
            survey.jobs.push(Job { from, path, attributes, spot, twin });
        }
        Some(target) if target.kind != attributes.kind => {
            counts.mismatch += 1;
            tally.bytes.mismatch += attributes.size;
            survey.notes.push((path, in_its_place(target.kind)));
        }
        Some(target) if is_directory => {
            counts.skipped += 1;
            survey.directories.push(Directory {
                path,
                from,
                trail,
                attributes,
                there: Some(target),
                restore: None,
            });
        }
        Some(target) if target.looks_like(&attributes) => {
            counts.skipped += 1;
            tally.bytes.skipped += attributes.size;
            if shared.plan.hard_links && attributes.node.is_some() {
                let job = Job { from, path, attributes, spot: TargetName::Taken, twin: None };
                // On a share it stays as it is.
                survey.may_change |= !shared.target.is_share();
                survey.alike.push((job, target.node));
            }
        }
        None if is_directory => {
            survey.changes = true;
            survey.directories.push(Directory { path, from, trail, attributes, there: None, restore: None });
        }
        other => {
            survey.changes = true;
            survey.jobs.push(Job { from, path, attributes, spot: TargetName::of(other), twin: None });
        }
    }
}
