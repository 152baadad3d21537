//! Shares in which the host does not report changes by its programs.

use std::path::Path;

use volume_posix::PosixVolume;

/// Logs a warning if the host does not report changes in a share's directory.
pub fn warn_if_missing(share: &str, path: &Path, volume: &PosixVolume) {
    if let Some(why) = volume.missing_events() {
        tracing::warn!(share, path = %path.display(), "the host reports no changes by its own programs in \
            this share, since {why}; the share caches no names, and a client's caching right ends 60 seconds \
            after it was given, a durable handle with it; to change that, {}", why.remedy());
    }
}
