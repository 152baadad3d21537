//! The mount that the programs of this package share.

use cases::Arguments;
use nfs_rs::Mount;

/// A mount with a session and one connection of its own.
pub type BoxedMount = Box<dyn Mount>;

/// Mounts an export as root. The user of `arguments` is the version, as the crate spells it.
///
/// # Errors
/// Errors of the crate.
pub async fn mount(arguments: &Arguments) -> nfs_rs::Result<BoxedMount> {
    let Arguments { port, share, user: version, .. } = arguments;
    let url = format!("nfs://127.0.0.1/{share}?version={version}&nfsport={port}&uid=0&gid=0&noresvport=true");
    nfs_rs::parse_url_and_mount(&url).await
}
