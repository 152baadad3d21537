//! Looks after the directories of shares for the health of the server, within a bounded time.
//!
//! A directory on a disk that does not answer blocks whoever looks at it. So a thread looks at one directory
//! after the other, and [`ShareCheck::faults`] waits for it for a bounded time only. At most one such thread
//! exists.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admin::health::ShareFault;

use super::server::ServedPath;

/// The check of all directories.
#[derive(Debug, Clone)]
pub struct ShareCheck(Arc<(Mutex<CheckState>, Condvar)>);

#[derive(Debug, Default)]
struct CheckState {
    is_running: bool,
    /// The share that the thread looks at, and its directory.
    current: Option<(String, String)>,
    /// The result of the last check that has ended.
    last: CheckedShares,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedShares {
    /// The number of directories.
    pub count: usize,
    /// Those that cannot be used.
    pub faults: Vec<ShareFault>,
    /// The check itself has failed. The rest is then as an earlier one found it.
    pub has_failed: bool,
}

impl ShareCheck {
    /// A check that has not run yet, of so many shares.
    pub fn of(shares: usize) -> ShareCheck {
        let last = CheckedShares { count: shares, ..CheckedShares::default() };
        let state = CheckState { last, ..CheckState::default() };
        ShareCheck(Arc::new((Mutex::new(state), Condvar::new())))
    }

    /// Checks the directories that `directories` returns. A directory that has not answered `within` this
    /// time cannot be used. The others are then as the last check found them.
    pub fn faults(
        &self,
        directories: impl FnOnce() -> Vec<ServedPath> + Send + 'static,
        within: Duration,
    ) -> CheckedShares {
        let mut state = self.lock();
        if !state.is_running {
            let checker = self.clone();
            let thread = std::thread::Builder::new().name("health".to_owned());
            match thread.spawn(move || checker.run(directories)) {
                Ok(_) => state.is_running = true,
                Err(error) => {
                    tracing::warn!(%error, "the directories of the shares were not checked");
                    state.last.has_failed = true;
                }
            }
        }
        let waited = self.0.1.wait_timeout_while(state, within, |state| state.is_running);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let mut checked = state.last.clone();
        if let Some((share, path)) = &state.current {
            checked.faults.retain(|fault| fault.path != *path);
            let why = "its disk does not answer".to_owned();
            checked.faults.push(ShareFault { share: share.clone(), path: path.clone(), why });
        }
        checked
    }

    fn run(&self, directories: impl FnOnce() -> Vec<ServedPath>) {
        // After a panic the next question begins a new check. No lock is held while `look` calls a check.
        let looked = catch_unwind(AssertUnwindSafe(|| self.look(directories())));
        let mut state = self.lock();
        let last = looked.unwrap_or_else(|_| {
            tracing::error!("the check of the shares' directories has failed; the server is not ready");
            CheckedShares { has_failed: true, ..state.last.clone() }
        });
        *state = CheckState { is_running: false, current: None, last };
        drop(state);
        self.0.1.notify_all();
    }

    /// Looks at one directory after the other.
    fn look(&self, directories: Vec<ServedPath>) -> CheckedShares {
        let mut checked = CheckedShares { count: directories.len(), ..CheckedShares::default() };
        for ServedPath { share, path, check } in directories {
            let path = path.display().to_string();
            self.lock().current = Some((share.clone(), path.clone()));
            if let Err(why) = check() {
                checked.faults.push(ShareFault { share, path, why });
            }
        }
        checked
    }

    fn lock(&self) -> MutexGuard<'_, CheckState> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    fn served(share: &str, check: impl Fn() -> Result<(), String> + Send + 'static) -> ServedPath {
        ServedPath {
            share: share.to_owned(),
            path: PathBuf::from(format!("/{share}")),
            check: Box::new(check),
        }
    }

    #[test]
    fn a_directory_that_does_not_answer_is_a_fault_until_it_does() {
        let check = ShareCheck::of(2);
        let (release, released) = mpsc::channel::<()>();
        let gone = || served("gone", || Err("it is gone".to_owned()));
        let hangs = served("slow", move || released.recv().map_err(|_| "nobody came".to_owned()));
        let CheckedShares { count, faults, .. } =
            check.faults(move || vec![hangs, gone()], Duration::from_millis(1));
        assert_eq!(count, 2);
        let hanging = |faults: &[ShareFault]| faults.iter().any(|fault| fault.why.contains("not answer"));
        assert!(faults.is_empty() || hanging(&faults), "{faults:?}");
        // The first thread still runs, so no second one begins.
        let CheckedShares { faults, .. } = check.faults(|| unreachable!(), Duration::from_millis(1));
        assert!(faults.is_empty() || hanging(&faults), "{faults:?}");
        release.send(()).unwrap();
        let CheckedShares { count, faults, .. } = check.faults(move || vec![gone()], LONG);
        let gone_fault =
            ShareFault { share: "gone".to_owned(), path: "/gone".to_owned(), why: "it is gone".to_owned() };
        assert!(count == 1 || count == 2, "the first check or a second one has ended");
        assert_eq!(faults, [gone_fault]);
    }

    #[test]
    fn a_check_that_panics_is_told_and_the_next_one_counts_again() {
        let check = ShareCheck::of(1);
        let panics = || -> Result<(), String> { panic!("a defect") };
        let first = check.faults(move || vec![served("docs", panics)], LONG);
        assert_eq!(first, CheckedShares { count: 1, faults: Vec::new(), has_failed: true });
        assert!(check.faults(|| panic!("another"), LONG).has_failed);
        let sound = check.faults(|| vec![served("docs", || Ok(()))], LONG);
        assert_eq!(sound, CheckedShares { count: 1, ..CheckedShares::default() });
    }
}
