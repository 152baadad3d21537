//! What is remembered of names and files: how much of it there may be, and what is told of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use admin::metadata::RememberedShare;
use share::Share;
use share::engine::METADATA_CACHE_BYTES;
use volume::Volume;
use volume::faulty::FaultyVolume;

/// Bytes of the limit for each descriptor that may be kept: two thirds of them are for names, and each counts for 2 KiB.
const BYTES_FOR_DESCRIPTOR: u64 = 3072;
/// What part of the process's descriptors all shares together may keep for names.
const PART_OF_DESCRIPTORS: u64 = 4;

/// The limit for one of so many shares, so that clients' connections and files are not kept from descriptors.
pub fn cache_bytes(shares: usize) -> usize {
    limit(net::raise_descriptor_limit(), shares as u64)
}

fn limit(descriptors: u64, shares: u64) -> usize {
    let kept = descriptors / PART_OF_DESCRIPTORS / shares.max(1);
    usize::try_from(kept.saturating_mul(BYTES_FOR_DESCRIPTOR)).unwrap_or(usize::MAX).min(METADATA_CACHE_BYTES)
}

/// The volume, each of whose calls about names and attributes takes so much longer; the volume itself for 0.
pub fn slowed(volume: Arc<dyn Volume>, delay_us: u64) -> Arc<dyn Volume> {
    if delay_us == 0 {
        return volume;
    }
    let slow = FaultyVolume::new(volume);
    slow.plan().slow_down(move || std::thread::sleep(Duration::from_micros(delay_us)));
    Arc::new(slow)
}

/// What is told of each engine.
pub fn report<'a>(engines: impl Iterator<Item = &'a Arc<Share>>) -> BTreeMap<String, RememberedShare> {
    let each = engines.map(|engine| {
        let seen = engine.metadata_caching();
        let told = RememberedShare {
            on: seen.on,
            names: seen.names as u64,
            files: seen.files as u64,
            bytes: seen.bytes as u64,
            hits: seen.hits,
            misses: seen.misses,
        };
        (engine.name(), told)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_leave_descriptors_for_clients() {
        assert_eq!(limit(u64::MAX, 1), METADATA_CACHE_BYTES);
        assert_eq!(limit(1 << 20, 3), METADATA_CACHE_BYTES);
        let two = limit(4096, 2);
        assert_eq!(two, 512 * 3072);
        assert_eq!(limit(4096, 0), 2 * two);
    }
}
