//! Checks whether a session still works, and replaces it once for all who have noticed its loss.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use crate::error::{Fault, FileResult};

/// The time without any byte in either direction after which a server that does not answer is given up. A
/// host that is gone is noticed sooner, by its connections ([`client::smb::Options::dead_after`]).
const SILENCE: Duration = Duration::from_secs(30);

/// Work that one task does for all tasks that need it at the same time.
#[derive(Debug, Default)]
pub(super) struct SharedTask {
    /// The number of completed runs.
    done: AtomicU64,
    /// The result of the last run. The lock is held during a run.
    last: Mutex<Option<FileResult<()>>>,
}

impl SharedTask {
    /// Runs `work`, or waits for the present run and returns its result.
    pub(super) async fn once<F: Future<Output = FileResult<()>>>(
        &self,
        work: impl FnOnce() -> F,
    ) -> FileResult<()> {
        let before = self.done.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|_| self.done.load(Ordering::Acquire) != before) {
            return last.clone();
        }
        let done = work().await;
        *last = Some(done.clone());
        self.done.fetch_add(1, Ordering::Release);
        done
    }
}

/// Whether a server answers `ask`, however long the answer waits behind data on a slow path. It is alive as
/// long as bytes are `carried`.
pub(super) async fn is_alive<T, F>(ask: impl FnOnce() -> F, carried: impl Fn() -> u64) -> bool
where
    F: Future<Output = client::Result<T>>,
{
    let mut answer = std::pin::pin!(ask());
    let mut before = carried();
    loop {
        match tokio::time::timeout(SILENCE, &mut answer).await {
            // With any other answer it is alive and knows the session.
            Ok(answer) => return !answer.is_err_and(|error| Fault::from(error).is_interruption()),
            Err(_) if carried() == before => return false,
            Err(_) => before = carried(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn what_came_of_it_is_shared_by_all_who_have_waited_and_not_by_who_comes_later() {
        let together = Arc::new(SharedTask::default());
        let (times, gate) = (Arc::new(AtomicU64::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
        let work = || {
            let (together, times, gate) = (Arc::clone(&together), Arc::clone(&times), Arc::clone(&gate));
            async move {
                let work = || async {
                    times.fetch_add(1, Ordering::Relaxed);
                    let _gate = gate.acquire().await;
                    Err(Fault::Said("gone".to_owned()))
                };
                together.once(work).await
            }
        };
        let all: Vec<_> = (0..500).map(|_| tokio::spawn(work())).collect();
        while times.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(1);
        for one in all {
            assert!(matches!(one.await.unwrap(), Err(Fault::Said(_))));
        }
        assert_eq!(times.load(Ordering::Relaxed), 1);
        assert!(work().await.is_err());
        assert_eq!(times.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_there_as_long_as_bytes_move_or_it_answers() {
        let carried = Cell::new(0);
        let count = || {
            carried.set(carried.get() + 1);
            carried.get()
        };
        let slow = || async {
            tokio::time::sleep(SILENCE * 20).await;
            Ok(())
        };
        assert!(is_alive(slow, count).await);
        assert!(!is_alive(slow, || 7).await);
        assert!(is_alive(|| async { Err::<(), _>(client::Error::NotOffered("this")) }, || 7).await);
        assert!(!is_alive(|| async { Err::<(), _>(client::Error::Closed) }, || 7).await);
    }
}
