//! The workloads: what must exist before, what one operation is, what is cleared away after.

pub(crate) mod data;
pub(crate) mod metadata;

use std::sync::Arc;

use crate::Error;
use crate::error::Doing;
use crate::peer::Share;

/// Makes a directory and those above it, where they do not exist.
pub(crate) async fn make_directories(share: &Share, path: &str) -> Result<(), Error> {
    for (at, _) in path.match_indices('/').chain([(path.len(), "")]) {
        let path = &path[..at];
        if !path.is_empty() {
            share.make_directory(path).await.doing(|| format!("making directory {path}"))?;
        }
    }
    Ok(())
}

/// Joins parts of a path, either of which may be empty.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Does `each` for all numbers below `count`, several at once.
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
                    return Ok(());
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

/// Operations under way while files are made and cleared away.
const AT_ONCE: u64 = 16;

/// Random numbers: xorshift64*, good enough for offsets and quick.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for each `seed`.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(mixed) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_reach_every_block_and_none_beyond() {
        let mut seen = [0u32; 16];
        let mut random = Random::new(0);
        (0..16_000).for_each(|_| seen[random.below(16) as usize] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        let (mut a, mut b) = (Random::new(1), Random::new(2));
        assert_ne!(a.below(u64::MAX), b.below(u64::MAX));
    }
}
