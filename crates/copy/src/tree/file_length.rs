//! The length of a file that several pieces are written to at once.
//!
//! Setting a length cuts off all bytes after it. So every piece is noted before it is written, and a length
//! is only set beyond all noted pieces.

use tokio::sync::{Mutex, MutexGuard};

use crate::error::FileResult;

/// The length of a file, or its length after the pending writes.
#[derive(Debug)]
pub(super) struct FileLength(Mutex<u64>);

impl FileLength {
    pub(super) fn new(end: u64) -> FileLength {
        FileLength(Mutex::new(end))
    }

    /// Notes a write up to `end` that is about to begin.
    pub(super) async fn note(&self, end: u64) {
        let mut length = self.0.lock().await;
        *length = end.max(*length);
    }

    /// Extends the file to `end` with `set` if it is shorter. Nothing is noted and nothing else extended
    /// until the result is dropped.
    pub(super) async fn extend(
        &self,
        end: u64,
        set: impl AsyncFnOnce() -> FileResult<()>,
    ) -> FileResult<MutexGuard<'_, u64>> {
        let mut length = self.0.lock().await;
        if *length < end {
            set().await?;
            *length = end;
        }
        Ok(length)
    }

    /// Sets the length to `end` with `set`.
    pub(super) async fn set(&self, end: u64, set: impl AsyncFnOnce() -> FileResult<()>) -> FileResult<()> {
        let mut length = self.0.lock().await;
        set().await?;
        *length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_length_is_never_set_before_what_is_written() {
        let (length, is_set) = (Arc::new(FileLength::new(0)), Arc::new(AtomicBool::new(false)));
        let ((begun, has_begun), (go, may_go)) = (oneshot::channel(), oneshot::channel());
        let (of_task, sets) = (Arc::clone(&length), Arc::clone(&is_set));
        let extending = tokio::spawn(async move {
            let set = async || {
                begun.send(()).unwrap();
                may_go.await.unwrap();
                sets.store(true, Ordering::Relaxed);
                Ok(())
            };
            of_task.extend(16, set).await.map(drop)
        });
        has_begun.await.unwrap();
        // A piece behind it waits until the length is set.
        let of_task = Arc::clone(&length);
        let writing = tokio::spawn(async move {
            of_task.note(64).await;
            is_set.load(Ordering::Relaxed)
        });
        tokio::task::yield_now().await;
        assert!(!writing.is_finished());
        go.send(()).unwrap();
        extending.await.unwrap().unwrap();
        assert!(writing.await.unwrap());
        // A piece before it sets none any more, and one behind it does.
        drop(length.extend(32, async || unreachable!("it would cut off what was written")).await.unwrap());
        let is_set = AtomicBool::new(false);
        let set = async || {
            is_set.store(true, Ordering::Relaxed);
            Ok(())
        };
        drop(length.extend(80, set).await.unwrap());
        assert!(is_set.swap(false, Ordering::Relaxed));
        length.set(8, async || Ok(())).await.unwrap();
        drop(length.extend(9, set).await.unwrap());
        assert!(is_set.into_inner());
    }
}
