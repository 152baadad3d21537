//! Replaces files of a state directory, all of them or none, whenever the power fails and however full the
//! disk is. A restore and the migration to another version use it.
//!
//! The new files are first written to the folder `incoming`, with a plan. Then that folder is renamed to
//! `committed`, and from that moment on the new files count. The plan is then carried out: files are
//! renamed away, and the new ones are renamed to their names. [`recover`] does the rest of it after a
//! crash. Every start calls it before it reads anything. `version` goes first and comes last. So a program
//! that does not know these folders refuses the directory meanwhile.
//!
//! Nothing is renamed over the directory itself. It may be the root of a volume of a container, or the only
//! directory that the process may write to.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::version::VERSION_FILE;

/// The folder of new files before they count.
pub const INCOMING: &str = "incoming";
/// The same folder afterwards.
pub const COMMITTED: &str = "committed";
/// The new files in either.
const NEW: &str = "new";
const PLAN: &str = "plan.json";
/// The folder in `committed` of files that are removed at the end.
const REMOVED: &str = "removed";
/// The beginning of the name of a folder with files that were replaced, and are kept.
pub const REPLACED: &str = "replaced-";

/// The rest of a replacement.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ReplacementPlan {
    /// The folder that keeps the old files. None removes them.
    keep_as: Option<String>,
    /// The names below the state directory that go.
    take_away: Vec<String>,
    /// The names that come.
    bring: Vec<String>,
}

/// New files that do not count yet. Dropping it without [`Replacement::commit`] removes them.
#[derive(Debug)]
pub struct Replacement<'a> {
    dir: &'a Path,
    disk: &'a Disk,
    brought: Vec<String>,
    is_committed: bool,
}

impl<'a> Replacement<'a> {
    /// Begins a replacement in `dir`, of which the caller holds the lock.
    ///
    /// # Errors
    /// Those of the host.
    pub fn begin(dir: &'a Path, disk: &'a Disk) -> io::Result<Replacement<'a>> {
        recover(dir, disk)?;
        disk.create_directory(&dir.join(INCOMING).join(NEW))?;
        Ok(Replacement { dir, disk, brought: Vec::new(), is_committed: false })
    }

    /// Writes a new file. `name` is its path below the state directory.
    ///
    /// # Errors
    /// Those of the host.
    pub fn file(&mut self, name: &str, data: &mut dyn Read) -> io::Result<()> {
        let path = self.dir.join(INCOMING).join(NEW).join(name);
        let parent = parent(&path);
        if !parent.is_dir() {
            self.disk.create_directory(parent)?;
        }
        self.disk.write(&path, data)?;
        self.brought.push(name.to_owned());
        Ok(())
    }

    /// Makes the new files count. The files `take_away` go first, into the folder `keep_as` if it is given.
    ///
    /// # Errors
    /// Those of the host. Everything is as before then, or [`recover`] completes the replacement.
    pub fn commit(mut self, take_away: Vec<String>, keep_as: Option<String>) -> io::Result<()> {
        let incoming = self.dir.join(INCOMING);
        let old = incoming.join(keep_as.as_deref().unwrap_or(REMOVED));
        let mut plan = ReplacementPlan { keep_as, take_away, bring: std::mem::take(&mut self.brought) };
        plan.take_away.sort_by_key(|name| name != VERSION_FILE);
        plan.bring.sort_by_key(|name| name == VERSION_FILE);
        // Their folders are made now, as long as nothing counts and the disk may be full.
        self.disk.create_directory(&old)?;
        for name in &plan.take_away {
            let parent = old.join(name);
            if !self::parent(&parent).is_dir() {
                self.disk.create_directory(self::parent(&parent))?;
            }
        }
        for directory in directories(&incoming)? {
            self.disk.sync_directory(&directory)?;
        }
        self.disk.write(&incoming.join(PLAN), &mut &*serde_json::to_vec(&plan)?)?;
        self.disk.sync_directory(&incoming)?;
        self.disk.rename(&incoming, &self.dir.join(COMMITTED))?;
        self.is_committed = true;
        self.disk.sync_directory(self.dir)?;
        carry_out(self.dir, &plan, self.disk)
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.is_committed
            && let Err(error) = self.disk.remove_directory(&self.dir.join(INCOMING))
        {
            tracing::debug!(%error, "the next start removes the incomplete files");
        }
    }
}

/// Whether a replacement was begun in `dir` and not ended.
pub fn is_begun(dir: &Path) -> bool {
    [INCOMING, COMMITTED].iter().any(|name| dir.join(name).is_dir())
}

/// Completes a replacement that was interrupted, or removes its files if they do not count yet. The caller
/// holds the lock of `dir`.
///
/// # Errors
/// Those of the host.
pub fn recover(dir: &Path, disk: &Disk) -> io::Result<()> {
    let [incoming, committed] = [INCOMING, COMMITTED].map(|name| dir.join(name));
    if committed.is_dir() {
        match fs::read(committed.join(PLAN)) {
            Ok(plan) => carry_out(dir, &serde_json::from_slice(&plan)?, disk)?,
            // Only the last step is missing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => clear(dir, disk)?,
            Err(error) => return Err(error),
        }
    }
    if incoming.is_dir() {
        disk.remove_directory(&incoming)?;
    }
    Ok(())
}

/// Carries out a plan, of which any part may have been carried out before.
fn carry_out(dir: &Path, plan: &ReplacementPlan, disk: &Disk) -> io::Result<()> {
    let committed = dir.join(COMMITTED);
    let old = committed.join(plan.keep_as.as_deref().unwrap_or(REMOVED));
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    for name in &plan.take_away {
        let (from, to) = (dir.join(name), old.join(name));
        // One that was taken away before has been replaced since.
        if !exists(&to) && exists(&from) {
            disk.rename(&from, &to)?;
        }
    }
    sync_all(dir, &plan.take_away, disk)?;
    for name in &plan.bring {
        let (from, to) = (committed.join(NEW).join(name), dir.join(name));
        if !exists(&from) {
            continue;
        }
        if !parent(&to).is_dir() {
            disk.create_directory(parent(&to))?;
        }
        disk.rename(&from, &to)?;
    }
    sync_all(dir, &plan.bring, disk)?;
    disk.remove_file(&committed.join(PLAN))?;
    disk.sync_directory(&committed)?;
    clear(dir, disk)
}

/// Puts the old files where they are kept, and removes the folder of a plan that was carried out.
fn clear(dir: &Path, disk: &Disk) -> io::Result<()> {
    let committed = dir.join(COMMITTED);
    for entry in fs::read_dir(&committed)? {
        let name = entry?.file_name();
        if name.to_string_lossy().starts_with(REPLACED) {
            disk.rename(&committed.join(&name), &dir.join(&name))?;
        }
    }
    disk.sync_directory(dir)?;
    disk.remove_directory(&committed)
}

/// Waits until the names of these files are on the disk.
fn sync_all(dir: &Path, names: &[String], disk: &Disk) -> io::Result<()> {
    let parents: std::collections::BTreeSet<PathBuf> = names
        .iter()
        .map(|name| parent(&dir.join(name)).to_owned())
        .filter(|parent| parent.is_dir())
        .collect();
    parents.iter().try_for_each(|parent| disk.sync_directory(parent))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// A directory and all directories below it.
fn directories(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = vec![root.to_owned()];
    let mut at = 0;
    while let Some(directory) = all.get(at).cloned() {
        at += 1;
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                all.push(entry.path());
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// All files below a directory with their contents.
    fn files(dir: &Path) -> BTreeMap<String, String> {
        let all = directories(dir).unwrap();
        let entries =
            all.iter().flat_map(|dir| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()));
        let files = entries.filter(|path| path.is_file());
        files
            .map(|path| {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                (name, fs::read_to_string(&path).unwrap())
            })
            .collect()
    }

    fn named(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn old() -> BTreeMap<String, String> {
        named(&[("version", "1"), ("state.redb", "old"), ("volumes/1.opens", "old"), ("lock", "")])
    }

    fn prepare() -> tempfile::TempDir {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        for (name, text) in old() {
            let path = dir.path().join(name);
            fs::create_dir_all(parent(&path)).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn replace(dir: &Path, disk: &Disk, keep_as: Option<&str>) -> io::Result<()> {
        let mut replacement = Replacement::begin(dir, disk)?;
        for (name, text) in [("version", "2"), ("state.redb", "new"), ("volumes/2.opens", "new")] {
            replacement.file(name, &mut text.as_bytes())?;
        }
        let gone = ["state.redb", "version", "volumes/1.opens"].map(str::to_owned);
        replacement.commit(gone.to_vec(), keep_as.map(str::to_owned))
    }

    #[test]
    fn all_files_are_replaced_or_none_wherever_it_is_interrupted_and_again_while_it_is_completed() {
        let new = named(&[("version", "2"), ("state.redb", "new"), ("volumes/2.opens", "new"), ("lock", "")]);
        let mut kept = new.clone();
        for name in ["version", "state.redb", "volumes/1.opens"] {
            kept.insert(format!("replaced-1/{name}"), old()[name].clone());
        }
        for (keep_as, wanted) in [(None, &new), (Some("replaced-1"), &kept)] {
            let (mut were_old, mut were_new) = (0, 0);
            for changes in 0.. {
                let dir = prepare();
                let done = replace(dir.path(), &Disk::failing_after(changes), keep_as);
                // The next start is interrupted too, at each of its steps, until one is not.
                for again in 0.. {
                    if recover(dir.path(), &Disk::failing_after(again)).is_ok() {
                        break;
                    }
                    // A program that knows nothing of this finds no version meanwhile, or a whole directory.
                    let found = files(dir.path());
                    let is_whole = [&old(), wanted].iter().any(|all| {
                        all.iter().all(|(name, text)| {
                            found.get(name) == Some(text) || name.starts_with("replaced-")
                        })
                    });
                    assert!(is_whole || !found.contains_key("version"), "{changes} {again}: {found:?}");
                }
                assert!(!is_begun(dir.path()));
                let found = files(dir.path());
                let is_old = found == old();
                assert!(is_old || found == *wanted, "{changes} changes: {found:?}");
                were_old += u32::from(is_old);
                were_new += u32::from(!is_old);
                assert!(done.is_err() || !is_old);
                if done.is_ok() {
                    break;
                }
            }
            assert!(were_old > 8 && were_new > 8, "{were_old} and {were_new}");
        }
    }

    #[test]
    fn files_that_are_not_committed_are_removed() {
        let dir = prepare();
        let disk = Disk::default();
        let mut replacement = Replacement::begin(dir.path(), &disk).unwrap();
        replacement.file("volumes/9.opens", &mut &b"x"[..]).unwrap();
        assert!(is_begun(dir.path()));
        drop(replacement);
        assert!(!is_begun(dir.path()) && files(dir.path()) == old());
    }
}
