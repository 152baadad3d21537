//! What the target has beyond the source: it is counted, and deleted in a mirror. What patterns leave out stays, and so
//! does every directory that still holds such a thing.

use std::collections::BTreeMap;
use std::pin::Pin;

use crate::error::{Done, Fault};
use crate::file::{Shared, patiently};
use crate::name;
use crate::report::Tally;
use crate::survey::{Job, Survey};
use crate::tree::{Entry, Facts, Kind, join};

impl Shared {
    /// Keeps in mind what the source has where the copy begins, where what a mirror deletes may be just that by another
    /// name.
    pub(crate) fn remember_root(&self, entries: &[Entry]) {
        if self.plan.is_doubtful {
            // Where this was done before, it was the same.
            let _ = self.root.set(by_name(entries));
        }
    }

    /// Makes sure that a directory of the target is not the source by another name: it has not all that the source has.
    pub(crate) fn spare_source(&self, entries: &[Entry]) -> Done<()> {
        let Some(source) = self.root.get().filter(|source| !source.is_empty()) else { return Ok(()) };
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
            let is_due = |job: &Job| entry.name == crate::file::part_of(&job.path, &job.facts);
            if plan.mirror && !plan.dry_run && !survey.jobs.iter().any(is_due) {
                // It is in nobody's way.
                let _ = shared.target.remove(&own).await;
            }
            continue;
        }
        if !plan.mirror {
            count_extra(&mut survey.tally, &entry.facts);
            continue;
        }
        if let Err(fault) = delete(shared, own.clone(), entry.facts, survey).await {
            survey.fail(own, fault);
            count_extra(&mut survey.tally, &entry.facts);
        }
    }
}

fn count_extra(tally: &mut Tally, facts: &Facts) {
    match facts.kind {
        Kind::Directory => tally.directories.extras += 1,
        _ => tally.files.extras += 1,
    }
    tally.bytes.extras += facts.size;
}

/// Deletes a file or a whole directory, and counts what is gone; in a dry run it only says and counts. False when it stays
/// for what is in it.
fn delete<'a>(
    shared: &'a Shared,
    path: String,
    facts: Facts,
    survey: &'a mut Survey,
) -> Pin<Box<dyn Future<Output = Done<bool>> + Send + 'a>> {
    Box::pin(async move {
        let is_directory = facts.kind == Kind::Directory;
        if is_directory {
            let listing = patiently(shared, || shared.target.list(&path)).await?;
            shared.spare_source(&listing.entries)?;
            let mut is_empty = true;
            for entry in listing.entries {
                let below = join(&path, &entry.name);
                let wanted = shared.plan.wants(&below, entry.facts.kind == Kind::Directory);
                is_empty &= wanted && delete(shared, below, entry.facts, survey).await?;
            }
            // What has no name that we could say may be what a pattern leaves out.
            if let Some((name, why)) = listing.unusable.into_iter().next() {
                return Err(Fault::Said(format!("{name}: {why}")));
            }
            if !is_empty {
                return Ok(false);
            }
        }
        match (shared.plan.dry_run, is_directory) {
            (true, _) => survey.doomed.push(path),
            (false, _) => patiently(shared, || remove(shared, &path, is_directory)).await?,
        }
        survey.changes = true;
        count_extra(&mut survey.tally, &facts);
        Ok(true)
    })
}

/// Removes a file or an empty directory. One that is gone already was removed by an attempt whose answer was lost.
async fn remove(shared: &Shared, path: &str, is_directory: bool) -> Done<()> {
    let removed = match is_directory {
        true => shared.target.remove_directory(path).await,
        false => shared.target.remove(path).await,
    };
    match removed {
        Err(fault) if fault.is_missing() => Ok(()),
        removed => removed,
    }
}
