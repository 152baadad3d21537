//! What was made on a server goes again: by the names that were given, which takes few round trips and needs no right to list
//! anything. Only where that leaves something is our own directory listed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::remote::{Directory, RemoteSession};

use crate::protocol::MOUNT_OPTIONS;

/// Names that are deleted at once.
const AT_ONCE: usize = 128;
/// How long to wait before what could not be deleted is tried again: what a lost session had open is let go a moment later.
const PAUSE: Duration = Duration::from_millis(50);

/// The names in the directory of the test files that may be there. Copies share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made(Arc<Mutex<BTreeSet<String>>>);

impl Made {
    fn locked(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes down a name that is about to be made.
    pub(crate) fn note(&self, name: &str) {
        self.locked().insert(name.to_owned());
    }

    /// Strikes out a name that was deleted.
    pub(crate) fn forget(&self, name: &str) {
        self.locked().remove(name);
    }

    fn names(&self) -> Vec<String> {
        self.locked().iter().cloned().collect()
    }
}

/// Deletes the directory `scratch` in `directory`, with all in it; whether nothing is left. Tries until the time is over, or the
/// session is lost.
pub(crate) async fn clear(
    session: &RemoteSession,
    directory: &str,
    scratch: &str,
    made: &Made,
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

/// Tries it once with the names that are `known`, or with those that a listing brings; whether nothing is left.
async fn once(
    session: &RemoteSession,
    directory: &str,
    scratch: &str,
    made: &Made,
    known: Option<Vec<String>>,
) -> client::Result<bool> {
    let root = session.root(MOUNT_OPTIONS).directory(directory).await?;
    let place = match root.directory(scratch).await {
        Err(why) if why.is_missing() => return Ok(true),
        found => found?,
    };
    let names: Vec<String> = match known {
        Some(names) => names,
        None => match place.list().await {
            Ok(listed) => listed.iter().map(|it| String::from_utf8_lossy(&it.name).into_owned()).collect(),
            Err(why) if why.is_missing() => return Ok(true),
            Err(why) if why.is_loss() => return Err(why),
            // Who may make something may not be allowed to list it.
            Err(_) => made.names(),
        },
    };
    let are_gone = remove(&place, names).await;
    match root.remove_directory(scratch).await {
        // Some servers take the order to delete a directory that is not empty, and do not carry it out (MS-FSA 2.1.5.5).
        Ok(()) => Ok(are_gone),
        Err(why) if why.is_missing() => Ok(true),
        Err(why) => Err(why),
    }
}

/// Deletes files; whether none of them is left.
async fn remove(place: &Directory, names: Vec<String>) -> bool {
    let (mut tasks, mut are_gone) = (tokio::task::JoinSet::new(), true);
    for (number, name) in names.into_iter().enumerate() {
        let place = place.clone();
        tasks.spawn(async move { place.remove(&name).await.map_or_else(|why| why.is_missing(), |()| true) });
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
        let made = Made::default();
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
        let place = Directory::local(here.path().to_owned(), MOUNT_OPTIONS);
        for (name, is_gone) in [("gone", true), ("there", true), ("no-file", false)] {
            assert_eq!(remove(&place, vec![name.to_owned()]).await, is_gone, "{name}");
        }
        assert!(!here.path().join("there").exists() && here.path().join("no-file").exists());
    }
}
