//! A share whose `path` leads to another directory by now. Who is connected stays at the old one, as at a
//! share that was taken out; it goes with the last of them. What is the share's own and not the directory's
//! goes along: its limits, for everybody, the burst credits left, and the counts.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::engines::{EnginesByPath, ServedDirectory};
use crate::config::{Share, check};
use crate::serve::plan::ServePlan;

/// Where a share was served until now, if that is not `path`.
pub fn before<'e>(engines: &'e EnginesByPath, share: &Share, path: &Path) -> Option<(&'e Path, &'e ServedDirectory)> {
    let is_it = |served: &ServedDirectory| !served.is_left && is_of(served, &share.name.value);
    let (old, served) = engines.iter().find(|(_, served)| is_it(served))?;
    (old != path).then_some((old, served))
}

/// The engines that go: no share is in their directories any more.
pub fn leaving<'e>(engines: &'e EnginesByPath, planned: &[PathBuf]) -> Vec<(&'e Path, &'e ServedDirectory)> {
    let planned: HashSet<&PathBuf> = planned.iter().collect();
    let leaving = engines.iter().filter(|(path, _)| !planned.contains(path));
    leaving.map(|(path, served)| (path.as_path(), served)).collect()
}

/// Refuses a new directory that holds files which somebody has open by way of an engine that goes. Each
/// engine keeps its own truth about them.
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
                "`path` of share `{}`: {} and {}, where share `{}` is still used by who came before, hold the same files; \
                 wait until they have left, or delete that share and create it again",
                share.name.value,
                path.display(),
                old.display(),
                engine.name(),
            ));
        }
    }
    Ok(())
}

/// The directories whose shares are gone. The others' are elsewhere, and have taken their limits along.
pub fn without_share<'e>(left: &'e [(PathBuf, ServedDirectory)], plan: &ServePlan) -> impl Iterator<Item = &'e Path> {
    let is_there =
        |served: &ServedDirectory| plan.config.shares.values().any(|share| is_of(served, &share.name.value));
    left.iter().filter(move |(_, served)| !is_there(served)).map(|(path, _)| path.as_path())
}

/// Who stays at the old directory of a share keeps to the share's limits, with all others.
pub fn limit<'e>(left: &[(PathBuf, ServedDirectory)], shares: impl Iterator<Item = &'e Arc<share::Share>>) {
    for engine in shares {
        for (_, behind) in left.iter().filter(|(_, served)| is_of(served, &engine.name())) {
            behind
                .engine
                .set_limits(engine.limits().map(|limits| share::limits::ShareLimits::clone(&limits)));
        }
    }
}

/// Takes out engines that are left and that nobody uses any more, for their directories to be free.
pub fn take_unused(engines: &mut EnginesByPath) -> Vec<ServedDirectory> {
    let is_unused = |served: &ServedDirectory| served.is_left && Arc::strong_count(&served.engine) == 1;
    let unused = engines.iter().filter(|(_, served)| is_unused(served));
    let unused: Vec<PathBuf> = unused.map(|(path, _)| path.clone()).collect();
    unused.iter().filter_map(|path| engines.remove(path)).collect()
}

/// Whether an engine is, or was, of the share of this name.
pub fn is_of(served: &ServedDirectory, name: &str) -> bool {
    served.engine.name().to_lowercase() == name.to_lowercase()
}
