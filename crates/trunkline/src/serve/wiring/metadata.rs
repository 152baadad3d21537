//! Metadata caching: the bounds of its resources, and its report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use admin::metadata::RememberedShare;
use share::Share;
use share::engine::Descriptors;
use volume::Volume;
use volume::faulty::FaultyVolume;

/// The part of the process's descriptors that all shares together may use for cached names.
const PART_OF_DESCRIPTORS: u64 = 4;

/// The descriptors for cached names, when the process has `descriptors`. The rest is for clients' connections
/// and files.
pub fn kept_of(descriptors: u64) -> Arc<Descriptors> {
    Descriptors::new(usize::try_from(descriptors / PART_OF_DESCRIPTORS).unwrap_or(usize::MAX))
}

/// The volume with an additional delay of each call about names and attributes. The volume itself for 0.
pub fn slowed(volume: Arc<dyn Volume>, delay_us: u64) -> Arc<dyn Volume> {
    if delay_us == 0 {
        return volume;
    }
    let slow = FaultyVolume::new(volume);
    slow.plan().slow_down(move || std::thread::sleep(Duration::from_micros(delay_us)));
    Arc::new(slow)
}

/// The state of metadata caching of each engine.
pub fn report<'a>(engines: impl Iterator<Item = &'a Arc<Share>>) -> BTreeMap<String, RememberedShare> {
    let each = engines.map(|engine| {
        let seen = engine.metadata_caching();
        let told = RememberedShare {
            on: seen.on,
            unreported: !engine.volume().properties().tells_changes,
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
