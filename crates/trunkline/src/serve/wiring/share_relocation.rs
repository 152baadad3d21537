//! Changes of a share's `path`. Connected clients stay at the old directory, as after the removal of a share,
//! until the last of them disconnects. State that belongs to the share and not to the directory moves along:
//! its limits, for all clients, the remaining burst credits, and the counters.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::engines::{EnginesByPath, ServedDirectory};
use crate::config::{Share, check};
use crate::serve::plan::ServePlan;

/// The current directory of a share, if it is not `path`.
pub fn before<'e>(
    engines: &'e EnginesByPath,
    share: &Share,
    path: &Path,
) -> Option<(&'e Path, &'e ServedDirectory)> {
    let is_it = |served: &ServedDirectory| !served.is_left && is_of(served, &share.name.value);
    let (old, served) = engines.iter().find(|(_, served)| is_it(served))?;
    (old != path).then_some((old, served))
}

/// The engines whose directories no share uses any more.
pub fn leaving<'e>(engines: &'e EnginesByPath, planned: &[PathBuf]) -> Vec<(&'e Path, &'e ServedDirectory)> {
    let planned: HashSet<&PathBuf> = planned.iter().collect();
    let leaving = engines.iter().filter(|(path, _)| !planned.contains(path));
    leaving.map(|(path, served)| (path.as_path(), served)).collect()
}

/// Refuses a new directory that contains files which are open through an engine that is about to go. Each
/// engine keeps its own state of its files.
///
/// # Errors
/// One line for the user.
pub fn check_free(
    leaving: &[(&Path, &ServedDirectory)],
    server: &smb::Server,
    share: &Share,
    path: &Path,
) -> Result<(), String> {
    for (old, ServedDirectory { engine, .. }) in leaving {
        let is_used = engine.open_count() > 0 || server.is_connected(engine);
        if is_used && check::hold_same_files(old, path) {
            return Err(format!(
                "`path` of share `{}`: {} and {}, where share `{}` still has connected clients, contain the \
                 same files; wait until they disconnect, or delete that share and create it again",
                share.name.value,
                path.display(),
                old.display(),
                engine.name(),
            ));
        }
    }
    Ok(())
}

/// The old directories whose shares were removed. Other shares have moved, together with their limits.
pub fn without_share<'e>(
    left: &'e [(PathBuf, ServedDirectory)],
    plan: &ServePlan,
) -> impl Iterator<Item = &'e Path> {
    let is_there =
        |served: &ServedDirectory| plan.config.shares.values().any(|share| is_of(served, &share.name.value));
    left.iter().filter(move |(_, served)| !is_there(served)).map(|(path, _)| path.as_path())
}

/// Applies the share's limits also to clients that stay at its old directory, together with all others.
pub fn limit<'e>(left: &[(PathBuf, ServedDirectory)], shares: impl Iterator<Item = &'e Arc<share::Share>>) {
    for engine in shares {
        for (_, behind) in left.iter().filter(|(_, served)| is_of(served, &engine.name())) {
            behind
                .engine
                .set_limits(engine.limits().map(|limits| share::limits::ShareLimits::clone(&limits)));
        }
    }
}

/// Removes old engines that are no longer in use, so that their directories are free.
pub fn take_unused(engines: &mut EnginesByPath) -> Vec<ServedDirectory> {
    let is_unused = |served: &ServedDirectory| served.is_left && Arc::strong_count(&served.engine) == 1;
    let unused = engines.iter().filter(|(_, served)| is_unused(served));
    let unused: Vec<PathBuf> = unused.map(|(path, _)| path.clone()).collect();
    unused.iter().filter_map(|path| engines.remove(path)).collect()
}

/// Whether an engine belongs, or did belong, to the share of this name.
pub fn is_of(served: &ServedDirectory, name: &str) -> bool {
    served.engine.name().to_lowercase() == name.to_lowercase()
}
