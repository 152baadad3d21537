//! The workloads: their preparation, their operations, and the removal of their files.

pub(crate) mod data;
pub(crate) mod metadata;

use std::sync::Arc;

use client::remote::Directory;

use crate::Error;
use crate::error::ErrorContext;

/// Creates a directory and its parents, if they do not exist.
pub(crate) async fn make_directories(share: &Directory, path: &str) -> Result<(), Error> {
    for (at, _) in path.match_indices('/').chain([(path.len(), "")]) {
        let path = &path[..at];
        if !path.is_empty() {
            share.make_directory(path, true).await.doing(|| format!("making directory {path}"))?;
        }
    }
    Ok(())
}

/// Runs `each` for all numbers below `count`, several at once.
pub(crate) async fn each_of<F, Fut>(count: u64, each: F) -> Result<(), Error>
where
    F: Fn(u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Error>> + Send,
{
    let each = Arc::new(each);
    let next = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE.min(count) {
        let (each, next) = (Arc::clone(&each), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if number >= count {
                    return Ok::<(), Error>(());
                }
                each(number).await?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.map_err(|why| Error::host("a task of the generator", why))??;
    }
    Ok(())
}

/// Operations under way while files are created and removed.
const AT_ONCE: u64 = 16;
