//! Removes the test files from a server: by their names, which takes few round trips and needs no right
//! to list a directory. The directory of the test files is listed only if files remain.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::remote::{Directory, RemoteSession};

use crate::protocol::MOUNT_OPTIONS;

/// The number of names that are deleted at once.
const AT_ONCE: usize = 128;
/// The pause before another attempt: a server closes the open files of a lost session a moment later.
const PAUSE: Duration = Duration::from_millis(50);

/// The names that may exist in the directory of the test files. All clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct CreatedNames(Arc<Mutex<BTreeSet<String>>>);

impl CreatedNames {
    fn locked(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a name before it is created.
    pub(crate) fn note(&self, name: &str) {
        self.locked().insert(name.to_owned());
    }

    /// Forgets a name that was deleted.
    pub(crate) fn forget(&self, name: &str) {
        self.locked().remove(name);
    }

    fn names(&self) -> Vec<String> {
        self.locked().iter().cloned().collect()
    }
}

/// Deletes the directory `scratch` in `directory` with its files. Returns whether nothing is left. It
/// tries until the time is over, or until the session is lost.
pub(crate) async fn clear(
    session: &RemoteSession,
    directory: &str,
    scratch: &str,
    made: &CreatedNames,
    until: Instant,
) -> bool {
    let clearing = async {
        let mut known = Some(made.names());
        loop {
            match once(session, directory, scratch, made, known.take()).await {
                Ok(true) => return true,
                Err(why) if why.is_loss() => return false,
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    tokio::time::timeout_at(until.into(), clearing).await.unwrap_or(false)
}

/// Tries it once with the names that are `known`, or with those from a listing. Returns whether nothing
/// is left.
async fn once(
    session: &RemoteSession,
    directory: &str,
    scratch: &str,
    made: &CreatedNames,
    known: Option<Vec<String>>,
) -> client::Result<bool> {
    let root = session.root(MOUNT_OPTIONS).directory(directory).await?;
    let parent = match root.directory(scratch).await {
        Err(why) if why.is_missing() => return Ok(true),
        found => found?,
    };
    let names: Vec<String> = match known {
        Some(names) => names,
        None => match parent.list().await {
            Ok(listed) => listed.iter().map(|it| String::from_utf8_lossy(&it.name).into_owned()).collect(),
            Err(why) if why.is_missing() => return Ok(true),
            Err(why) if why.is_loss() => return Err(why),
            // A user who may create files may not be allowed to list them.
            Err(_) => made.names(),
        },
    };
    let are_gone = remove(&parent, names).await;
    match root.remove_directory(scratch).await {
        // Some servers accept the deletion of a directory that is not empty, and do not carry it out
        // (MS-FSA 2.1.5.5).
        Ok(()) => Ok(are_gone),
        Err(why) if why.is_missing() => Ok(true),
        Err(why) => Err(why),
    }
}

/// Deletes files. Returns whether none of them is left.
async fn remove(parent: &Directory, names: Vec<String>) -> bool {
    let (mut tasks, mut are_gone) = (tokio::task::JoinSet::new(), true);
    for (number, name) in names.into_iter().enumerate() {
        let parent = parent.clone();
        tasks.spawn(async move { parent.remove(&name).await.map_or_else(|why| why.is_missing(), |()| true) });
        if number >= AT_ONCE {
            are_gone &= matches!(tasks.join_next().await, Some(Ok(true)));
        }
    }
    while let Some(done) = tasks.join_next().await {
        are_gone &= matches!(done, Ok(true));
    }
    are_gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_known_by_name_until_it_is_deleted() {
        let made = CreatedNames::default();
        let copy = made.clone();
        for name in ["data", "n1", "n2"] {
            copy.note(name);
        }
        made.forget("n1");
        assert_eq!(copy.names(), ["data", "n2"]);
    }

    #[tokio::test]
    async fn a_name_that_is_not_there_needs_no_deleting() {
        let here = tempfile::tempdir().unwrap();
        std::fs::write(here.path().join("there"), "x").unwrap();
        std::fs::create_dir(here.path().join("no-file")).unwrap();
        let parent = Directory::local(here.path().to_owned(), MOUNT_OPTIONS);
        for (name, is_gone) in [("gone", true), ("there", true), ("no-file", false)] {
            assert_eq!(remove(&parent, vec![name.to_owned()]).await, is_gone, "{name}");
        }
        assert!(!here.path().join("there").exists() && here.path().join("no-file").exists());
    }
}
