//! Looks after the directories of shares for the health of the server, within a bounded time.
//!
//! A directory on a disk that does not answer blocks whoever looks at it. So a thread looks at one directory
//! after the other, and [`ShareCheck::faults`] waits for it for a bounded time only. At most one such thread
//! exists.

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
    /// The number of directories and the faults that the last complete check found.
    last: (usize, Vec<ShareFault>),
}

impl ShareCheck {
    /// A check that has not run yet, of so many shares.
    pub fn of(shares: usize) -> ShareCheck {
        let state = CheckState { last: (shares, Vec::new()), ..CheckState::default() };
        ShareCheck(Arc::new((Mutex::new(state), Condvar::new())))
    }

    /// The number of directories that `directories` returns, and those that cannot be used. A directory that
    /// has not answered `within` this time is one of them. The others are then as the last check found them.
    pub fn faults(
        &self,
        directories: impl FnOnce() -> Vec<ServedPath> + Send + 'static,
        within: Duration,
    ) -> (usize, Vec<ShareFault>) {
        let mut state = self.lock();
        if !state.is_running {
            let checker = self.clone();
            let thread = std::thread::Builder::new().name("health".to_owned());
            match thread.spawn(move || checker.run(directories())) {
                Ok(_) => state.is_running = true,
                Err(error) => tracing::warn!(%error, "the directories of the shares were not checked"),
            }
        }
        let waited = self.0.1.wait_timeout_while(state, within, |state| state.is_running);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let (count, mut faults) = state.last.clone();
        if let Some((share, path)) = &state.current {
            faults.retain(|fault| fault.path != *path);
            let why = "its disk does not answer".to_owned();
            faults.push(ShareFault { share: share.clone(), path: path.clone(), why });
        }
        (count, faults)
    }

    fn run(&self, directories: Vec<ServedPath>) {
        let mut faults = Vec::new();
        let count = directories.len();
        for ServedPath { share, path, check } in directories {
            let path = path.display().to_string();
            self.lock().current = Some((share.clone(), path.clone()));
            if let Err(why) = check() {
                faults.push(ShareFault { share, path, why });
            }
        }
        *self.lock() = CheckState { is_running: false, current: None, last: (count, faults) };
        self.0.1.notify_all();
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
        let (count, faults) = check.faults(move || vec![hangs, gone()], Duration::from_millis(1));
        assert_eq!(count, 2);
        let hanging = |faults: &[ShareFault]| faults.iter().any(|fault| fault.why.contains("not answer"));
        assert!(faults.is_empty() || hanging(&faults), "{faults:?}");
        // The first thread still runs, so no second one begins.
        let (_, faults) = check.faults(|| unreachable!(), Duration::from_millis(1));
        assert!(faults.is_empty() || hanging(&faults), "{faults:?}");
        release.send(()).unwrap();
        let (count, faults) = check.faults(move || vec![gone()], LONG);
        let gone_fault =
            ShareFault { share: "gone".to_owned(), path: "/gone".to_owned(), why: "it is gone".to_owned() };
        assert!(count == 1 || count == 2, "the first check or a second one has ended");
        assert_eq!(faults, [gone_fault]);
    }
}
