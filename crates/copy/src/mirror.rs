//! Counts the extras of the target, which the source does not have, and deletes them in a mirror. Names
//! excluded by patterns stay, and so does every directory that still holds one.

use std::collections::BTreeMap;

use client::remote::{Attributes, Kind};

use crate::context::CopyContext;
use crate::error::{Fault, FileResult};
use crate::job::{Directory, Job, OWNERS, part_of};
use crate::name;
use crate::name::join;
use crate::retry::patiently;
use crate::survey_result::Survey;
use crate::tally::Tally;
use crate::tree::listing::Entry;
use crate::tree::target_attributes::TargetAttributes;

/// Remembers the source's root, if a mirror might delete the source under another name.
pub(crate) fn remember_root(shared: &CopyContext, entries: &[Entry]) {
    if shared.plan.is_doubtful {
        // An earlier call stored the same value.
        let _ = shared.root.set(by_name(entries));
    }
}

/// Fails if a directory of the target has all that the source has, because it may be the source under another
/// name.
pub(crate) fn spare_source(shared: &CopyContext, entries: &[Entry]) -> FileResult<()> {
    let Some(source) = shared.root.get().filter(|source| !source.is_empty()) else { return Ok(()) };
    let found = by_name(entries);
    match source.iter().all(|(name, size)| found.get(name) == Some(size)) {
        true => Err(Fault::Said(
            "it has all that the source has and may be the source by another name; it stays. Where it is \
             not, delete it yourself"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

fn by_name(entries: &[Entry]) -> BTreeMap<String, u64> {
    let own = entries.iter().filter(|entry| !name::is_part(&entry.name));
    own.map(|entry| (entry.name.to_lowercase(), entry.attributes.size)).collect()
}

/// Counts the extras of the target, and deletes them in a mirror.
pub(crate) async fn extras(
    shared: &CopyContext,
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
        let is_directory = entry.attributes.kind == Kind::Directory;
        let is_part = name::is_part(&entry.name);
        if !plan.wants(&own, is_directory) {
            continue;
        }
        if is_part {
            // A file from a broken copy is continued when its source is copied. Only in a share has a copy
            // made directories with such names.
            let is_ours = !is_directory || shared.target.is_share();
            if is_ours && plan.mirror && !is_spared && !plan.dry_run && !is_due(shared, survey, &entry, &own)
            {
                // It is in nobody's way, so the result does not matter.
                let _ = delete(shared, own, entry.attributes, &mut Survey::default()).await;
            }
            continue;
        }
        if !plan.mirror || is_spared {
            count_extra(&mut survey.tally, &entry.attributes);
            continue;
        }
        if let Err(fault) = delete(shared, own.clone(), entry.attributes, survey).await {
            survey.fail(own, fault);
            count_extra(&mut survey.tally, &entry.attributes);
        }
    }
}

/// Whether a directory of the target lies behind a link, so that a deletion there would remove files
/// elsewhere. Only a share shows a link as its target. Each directory is queried once, and only before a
/// deletion.
async fn is_behind_link(shared: &CopyContext, survey: &mut Survey, path: &str) -> bool {
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
                    // Nothing is deleted if that is not known.
                    survey.fail(path.to_owned(), fault);
                    return true;
                }
            },
        };
        if is_link {
            let what = "what only the target has here stays: a link leads there; remove the link, or what is \
                        behind it";
            survey.notes.push((path.to_owned(), what.to_owned()));
            return true;
        }
    }
    false
}

/// Whether a file or directory from a broken copy will be continued.
fn is_due(shared: &CopyContext, survey: &Survey, entry: &Entry, own: &str) -> bool {
    let of_job = |job: &Job| entry.name == part_of(&job.path, &job.attributes);
    let of_directory = |it: &Directory| shared.target.staging_path(&it.path).as_deref() == Some(own);
    match entry.attributes.kind {
        Kind::Directory => survey.directories.iter().filter(|it| it.there.is_none()).any(of_directory),
        _ => survey.jobs.iter().any(of_job),
    }
}

fn count_extra(tally: &mut Tally, attributes: &Attributes) {
    match attributes.kind {
        Kind::Directory => tally.directories.extras += 1,
        _ => tally.files.extras += 1,
    }
    tally.bytes.extras += attributes.size;
}

/// A directory whose entries are being deleted.
struct Doomed {
    path: String,
    attributes: Attributes,
    left: std::vec::IntoIter<Entry>,
    /// A name that cannot be used. A pattern may exclude it.
    unusable: Option<(String, String)>,
    /// Whether all entries so far are gone.
    is_empty: bool,
    /// The permission bits to restore if the directory stays.
    restore: Option<u32>,
}

/// Deletes a file or a whole directory, and counts the deletions. A dry run only reports and counts them.
/// Returns false if the directory stays because of its contents. The way down is kept here and not on the
/// stack, which a server could exhaust with a deep tree.
async fn delete(
    shared: &CopyContext,
    path: String,
    attributes: Attributes,
    survey: &mut Survey,
) -> FileResult<bool> {
    let mut way = Vec::new();
    let deleted = delete_along(shared, path, attributes, survey, &mut way).await;
    for directory in way.into_iter().rev() {
        close(shared, &directory.path, directory.restore).await;
    }
    deleted
}

/// Does the same. The directories that are left on the way stay.
async fn delete_along(
    shared: &CopyContext,
    path: String,
    attributes: Attributes,
    survey: &mut Survey,
    way: &mut Vec<Doomed>,
) -> FileResult<bool> {
    let mut next = Some((path, attributes));
    loop {
        match next.take() {
            Some((path, mut attributes)) if attributes.kind == Kind::Directory => {
                if is_link(shared, &path).await? {
                    attributes.kind = Kind::Link;
                    gone(shared, path, &attributes, survey).await?;
                } else {
                    way.push(begin(shared, path, attributes).await?);
                }
            }
            Some((path, attributes)) => gone(shared, path, &attributes, survey).await?,
            None => {}
        }
        let Some(directory) = way.last_mut() else { return Ok(true) };
        if let Some(entry) = directory.left.next() {
            let below = join(&directory.path, &entry.name);
            match shared.plan.wants(&below, entry.attributes.kind == Kind::Directory) {
                true => next = Some((below, entry.attributes)),
                false => directory.is_empty = false,
            }
            continue;
        }
        if let Some((name, why)) = directory.unusable.take() {
            return Err(Fault::Said(format!("{name}: {why}")));
        }
        if directory.is_empty {
            gone(shared, directory.path.clone(), &directory.attributes, survey).await?;
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

/// Whether a directory that a share shows is a link. Then the link is deleted, and nothing behind it.
async fn is_link(shared: &CopyContext, path: &str) -> FileResult<bool> {
    let is_asked = shared.target.is_share();
    Ok(is_asked && patiently(shared, || shared.target.is_link(path)).await?)
}

/// Lists a directory that is to be deleted.
async fn begin(shared: &CopyContext, path: String, attributes: Attributes) -> FileResult<Doomed> {
    let restore = attributes.mode.filter(|mode| mode & OWNERS != OWNERS && !shared.plan.dry_run);
    if let Some(mode) = restore {
        let like = TargetAttributes { mode: Some(mode | OWNERS), ..TargetAttributes::default() };
        // A failure shows when the entries cannot be deleted.
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
    Ok(Doomed { path, attributes, left: listing.entries.into_iter(), unusable, is_empty: true, restore })
}

/// Restores the permission bits of a directory that stays, if they were changed.
async fn close(shared: &CopyContext, path: &str, restore: Option<u32>) {
    if restore.is_some() && !shared.target.is_lost() {
        // The caller gets the reason why it stays.
        let _ = shared
            .target
            .settle_directory(path, &TargetAttributes { mode: restore, ..TargetAttributes::default() })
            .await;
    }
}

/// Removes a file or an empty directory, or reports that it would, and counts it.
async fn gone(
    shared: &CopyContext,
    path: String,
    attributes: &Attributes,
    survey: &mut Survey,
) -> FileResult<()> {
    match shared.plan.dry_run {
        true => survey.doomed.push(path),
        false => patiently(shared, || remove(shared, &path, attributes.kind == Kind::Directory)).await?,
    }
    survey.changes = true;
    count_extra(&mut survey.tally, attributes);
    Ok(())
}

/// Removes a file or an empty directory. If it is missing, an attempt with a lost reply has removed it.
pub(crate) async fn remove(shared: &CopyContext, path: &str, is_directory: bool) -> FileResult<()> {
    let removed = match is_directory {
        true => shared.target.remove_directory(path).await,
        false => shared.target.remove(path).await,
    };
    match removed {
        Err(fault) if fault.is_missing() => Ok(()),
        removed => removed,
    }
}
