//! What the target has beyond the source: it is counted, and deleted in a mirror. What patterns leave out stays, and so
//! does every directory that still holds such a thing.

use std::collections::BTreeMap;

use client::remote::{Attributes, Kind};

use crate::error::{Done, Fault};
use crate::found::Survey;
use crate::job::{Directory, Job, OWNERS, part_of};
use crate::name;
use crate::name::join;
use crate::patience::patiently;
use crate::shared::Shared;
use crate::tally::Tally;
use crate::tree::facts::Entry;
use crate::tree::like::Like;

/// Keeps in mind what the source has where the copy begins, where what a mirror deletes may be just that by another
/// name.
pub(crate) fn remember_root(shared: &Shared, entries: &[Entry]) {
    if shared.plan.is_doubtful {
        // Where this was done before, it was the same.
        let _ = shared.root.set(by_name(entries));
    }
}

/// Makes sure that a directory of the target is not the source by another name: it has not all that the source has.
pub(crate) fn spare_source(shared: &Shared, entries: &[Entry]) -> Done<()> {
    let Some(source) = shared.root.get().filter(|source| !source.is_empty()) else { return Ok(()) };
    let found = by_name(entries);
    match source.iter().all(|(name, size)| found.get(name) == Some(size)) {
        true => Err(Fault::Said(
            "it has all that the source has and may be the source by another name; it stays. Where it is not, \
             delete it yourself"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

fn by_name(entries: &[Entry]) -> BTreeMap<String, u64> {
    let own = entries.iter().filter(|entry| !name::is_part(&entry.name));
    own.map(|entry| (entry.name.to_lowercase(), entry.facts.size)).collect()
}

/// Counts what the target has beyond the source, and deletes it in a mirror.
pub(crate) async fn extras(
    shared: &Shared,
    survey: &mut Survey,
    path: &str,
    left: impl Iterator<Item = Entry>,
) {
    let plan = &shared.plan;
    let mut left = left.peekable();
    let is_spared = plan.mirror && left.peek().is_some() && is_behind_link(shared, survey, path).await;
    for entry in left {
        if shared.is_over() {
            return;
        }
        let own = join(path, &entry.name);
        let is_directory = entry.facts.kind == Kind::Directory;
        let is_part = name::is_part(&entry.name);
        if !plan.wants(&own, is_directory) {
            continue;
        }
        if is_part {
            // What a broken copy has left is gone on with when its file is copied.
            // Only in a share have we made such directories.
            let is_ours = !is_directory || shared.target.is_share();
            if is_ours && plan.mirror && !is_spared && !plan.dry_run && !is_due(shared, survey, &entry, &own)
            {
                // It is in nobody's way. What is in it counts as little.
                let _ = delete(shared, own, entry.facts, &mut Survey::default()).await;
            }
            continue;
        }
        if !plan.mirror || is_spared {
            count_extra(&mut survey.tally, &entry.facts);
            continue;
        }
        if let Err(fault) = delete(shared, own.clone(), entry.facts, survey).await {
            survey.fail(own, fault);
            count_extra(&mut survey.tally, &entry.facts);
        }
    }
}

/// Whether a directory of the target lies behind a link, so that what is deleted there would be missing elsewhere. Only a share
/// shows a link as what it leads to; it is asked for each directory once, and only where something is to be deleted.
async fn is_behind_link(shared: &Shared, survey: &mut Survey, path: &str) -> bool {
    if !shared.target.is_share() {
        return false;
    }
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    for above in ends.map(|end| &path[..end]).filter(|above| !above.is_empty()) {
        let is_link = match shared.asked.known(above) {
            Some(known) => known,
            None => match patiently(shared, || shared.target.is_link(above)).await {
                Ok(is_link) => shared.asked.learn(above, is_link),
                Err(fault) => {
                    // Nothing is deleted where that is not known.
                    survey.fail(path.to_owned(), fault);
                    return true;
                }
            },
        };
        if is_link {
            let what = "what only the target has here stays: a link leads there; remove the link, or what is behind it";
            survey.notes.push((path.to_owned(), what.to_owned()));
            return true;
        }
    }
    false
}

/// Whether a part that a broken copy has left is gone on with.
fn is_due(shared: &Shared, survey: &Survey, entry: &Entry, own: &str) -> bool {
    let of_job = |job: &Job| entry.name == part_of(&job.path, &job.facts);
    let of_directory = |it: &Directory| shared.target.unnamed(&it.path).as_deref() == Some(own);
    match entry.facts.kind {
        Kind::Directory => survey.directories.iter().filter(|it| it.there.is_none()).any(of_directory),
        _ => survey.jobs.iter().any(of_job),
    }
}

fn count_extra(tally: &mut Tally, facts: &Attributes) {
    match facts.kind {
        Kind::Directory => tally.directories.extras += 1,
        _ => tally.files.extras += 1,
    }
    tally.bytes.extras += facts.size;
}

/// A directory whose entries are being deleted.
struct Doomed {
    path: String,
    facts: Attributes,
    left: std::vec::IntoIter<Entry>,
    /// What has no name that we could say, which may be what a pattern leaves out.
    unusable: Option<(String, String)>,
    /// Whether all that was looked at so far is gone.
    is_empty: bool,
    /// The permission bits that it gets back if it stays.
    restore: Option<u32>,
}

/// Deletes a file or a whole directory, and counts what is gone; in a dry run it only says and counts. False when it stays
/// for what is in it. The way down is kept here and not on the stack, which a server could exhaust by a deep tree.
async fn delete(shared: &Shared, path: String, facts: Attributes, survey: &mut Survey) -> Done<bool> {
    let mut way = Vec::new();
    let deleted = delete_along(shared, path, facts, survey, &mut way).await;
    for directory in way.into_iter().rev() {
        close(shared, &directory.path, directory.restore).await;
    }
    deleted
}

/// The same; what is left on the way stays.
async fn delete_along(
    shared: &Shared,
    path: String,
    facts: Attributes,
    survey: &mut Survey,
    way: &mut Vec<Doomed>,
) -> Done<bool> {
    let mut next = Some((path, facts));
    loop {
        match next.take() {
            Some((path, mut facts)) if facts.kind == Kind::Directory => {
                if is_link(shared, &path).await? {
                    facts.kind = Kind::Link;
                    gone(shared, path, &facts, survey).await?;
                } else {
                    way.push(begin(shared, path, facts).await?);
                }
            }
            Some((path, facts)) => gone(shared, path, &facts, survey).await?,
            None => {}
        }
        let Some(directory) = way.last_mut() else { return Ok(true) };
        if let Some(entry) = directory.left.next() {
            let below = join(&directory.path, &entry.name);
            match shared.plan.wants(&below, entry.facts.kind == Kind::Directory) {
                true => next = Some((below, entry.facts)),
                false => directory.is_empty = false,
            }
            continue;
        }
        if let Some((name, why)) = directory.unusable.take() {
            return Err(Fault::Said(format!("{name}: {why}")));
        }
        if directory.is_empty {
            gone(shared, directory.path.clone(), &directory.facts, survey).await?;
        }
        let Some(directory) = way.pop() else { return Ok(true) };
        if !directory.is_empty {
            close(shared, &directory.path, directory.restore).await;
        }
        match way.last_mut() {
            Some(above) => above.is_empty &= directory.is_empty,
            None => return Ok(directory.is_empty),
        }
    }
}

/// Whether what a share shows as a directory is a link: that goes itself, and nothing of what it leads to.
async fn is_link(shared: &Shared, path: &str) -> Done<bool> {
    let is_asked = shared.target.is_share();
    Ok(is_asked && patiently(shared, || shared.target.is_link(path)).await?)
}

/// Lists a directory that is to go.
async fn begin(shared: &Shared, path: String, facts: Attributes) -> Done<Doomed> {
    let restore = facts.mode.filter(|mode| mode & OWNERS != OWNERS && !shared.plan.dry_run);
    if let Some(mode) = restore {
        let like = Like { mode: Some(mode | OWNERS), ..Like::default() };
        // Whoever may not do this is told so by what cannot be deleted.
        let _ = shared.target.settle_directory(&path, &like).await;
    }
    let listed = patiently(shared, || shared.target.list(&path)).await;
    let listing = match listed.and_then(|it| spare_source(shared, &it.entries).map(|()| it)) {
        Ok(listing) => listing,
        Err(fault) => {
            close(shared, &path, restore).await;
            return Err(fault);
        }
    };
    let unusable = listing.unusable.into_iter().next();
    Ok(Doomed { path, facts, left: listing.entries.into_iter(), unusable, is_empty: true, restore })
}

/// Gives a directory that stays its permission bits back, if it was opened.
async fn close(shared: &Shared, path: &str, restore: Option<u32>) {
    if restore.is_some() && !shared.target.is_lost() {
        // What counts is why it stays.
        let _ = shared.target.settle_directory(path, &Like { mode: restore, ..Like::default() }).await;
    }
}

/// Removes a file or a directory in which nothing is left, or says that it would, and counts it.
async fn gone(shared: &Shared, path: String, facts: &Attributes, survey: &mut Survey) -> Done<()> {
    match shared.plan.dry_run {
        true => survey.doomed.push(path),
        false => patiently(shared, || remove(shared, &path, facts.kind == Kind::Directory)).await?,
    }
    survey.changes = true;
    count_extra(&mut survey.tally, facts);
    Ok(())
}

/// Removes a file or an empty directory. One that is gone already was removed by an attempt whose answer was lost.
pub(crate) async fn remove(shared: &Shared, path: &str, is_directory: bool) -> Done<()> {
    let removed = match is_directory {
        true => shared.target.remove_directory(path).await,
        false => shared.target.remove(path).await,
    };
    match removed {
        Err(fault) if fault.is_missing() => Ok(()),
        removed => removed,
    }
}
