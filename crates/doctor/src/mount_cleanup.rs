//! Deletes the test files through a mount. Each call may take a round trip, so several are under way at
//! once.

use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The number of names that are deleted at once.
const AT_ONCE: usize = 16;
/// The pause before another attempt.
const PAUSE: Duration = Duration::from_millis(20);

/// Deletes `directory` with its content. Returns whether nothing is left. It tries until the time is
/// over: in NFS a file that was deleted while it is open stays under another name until it is closed.
pub(crate) fn delete(directory: &Path, until: Instant) -> bool {
    loop {
        empty(directory, until);
        match fs::remove_dir(directory) {
            Ok(()) => return true,
            // It is looked up once more: on a read-only mount a missing name cannot be deleted either
            // (EROFS).
            Err(_) if is_gone(directory) => return true,
            Err(_) if Instant::now() >= until => return false,
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|why| why.kind() == ErrorKind::NotFound)
}

/// Deletes as much as possible of the content of `directory`.
fn empty(directory: &Path, until: Instant) {
    let Ok(listed) = fs::read_dir(directory) else { return };
    let listed: Vec<DirEntry> = listed.flatten().collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(listed.len()) {
            scope.spawn(|| {
                while let Some(entry) = listed.get(next.fetch_add(1, Ordering::Relaxed))
                    && Instant::now() < until
                {
                    let is_directory = entry.file_type().is_ok_and(|it| it.is_dir());
                    // A file that could not be deleted keeps its directory, and the deletion of that
                    // fails.
                    let _ = match is_directory {
                        true => {
                            empty(&entry.path(), until);
                            fs::remove_dir(entry.path())
                        }
                        false => fs::remove_file(entry.path()),
                    };
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn a_directory_goes_with_all_in_it() {
        let here = tempfile::tempdir().unwrap();
        let made = here.path().join("made");
        fs::create_dir_all(made.join("names/deep")).unwrap();
        for number in 0..100 {
            fs::write(made.join(format!("names/{number}")), "x").unwrap();
        }
        fs::write(made.join("names/deep/one"), "x").unwrap();
        std::os::unix::fs::symlink(here.path(), made.join("link")).unwrap();
        assert!(delete(&made, soon()) && !made.exists());
        assert!(here.path().exists(), "a link is deleted, and not what it leads to");
        assert!(delete(&made, soon()), "what is gone is gone");
    }

    #[test]
    fn what_does_not_go_is_given_up_in_time() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("file");
        fs::write(&file, "x").unwrap();
        // It is no directory, so it cannot be deleted as one.
        assert!(!delete(&file, Instant::now()));
    }
}
