//! Where a share's opens are kept over a restart: a journal in the state directory, beside what else
//! belongs to the served directory.

use std::path::Path;
use std::sync::Arc;

use share::{Identity, Restored};
use volume::security::Sid;
use volume_posix::PosixJournal;

use crate::config::Share;

/// Where Linux names each time that it runs.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Has a new engine keep its opens in the file `journal`, and gives those that were kept there.
///
/// # Errors
/// One line that names the share and what is in the way.
pub fn keep(
    share: &Share,
    journal: &Path,
    engine: &share::Share,
    people: &[smb::UserConfig],
) -> Result<Vec<Restored>, String> {
    let name = &share.name.value;
    let cannot = |why: &dyn std::fmt::Display| {
        format!(
            "share `{name}`: what is open is kept over a restart, and the record of it cannot be used: {why}; \
             see --state-dir"
        )
    };
    let (kept, found) = PosixJournal::open(journal).map_err(|why| cannot(&why))?;
    if found.cut_off > 0 {
        tracing::info!(share = %name, bytes = found.cut_off, "the record of opens ended within an entry, which was never promised");
    }
    let who = |sid: &Sid| -> Option<Arc<Identity>> {
        let user = people.iter().find(|user| user.identity.sid == *sid && user.enabled);
        user.map(|user| Arc::clone(&user.identity))
    };
    let restored = engine.keep_opens(Arc::new(kept), &found.records, &who, net::now());
    restored.map_err(|why| cannot(&format_args!("{}: {why}", journal.display())))
}

/// Has the NFS server keep its clients in the file `journal`, and lets those come back that it has.
///
/// # Errors
/// One line that names the file.
pub fn keep_clients(journal: &Path, nfs: &nfs::Server) -> Result<(), String> {
    let (kept, found) =
        PosixJournal::open(journal).map_err(|why| format!("the NFS clients' record: {why}"))?;
    // Tells whether only this program began anew, or the whole host.
    let boot = std::fs::read(BOOT_ID).unwrap_or_default();
    nfs.keep_clients(Arc::new(kept), &found.records, &boot, net::now())
        .map_err(|why| format!("the NFS clients' record {}: {why}", journal.display()))
}

/// Forgets what was kept for a directory whose opens are not kept any more: its clients are long gone.
///
/// # Errors
/// One line that names the file.
pub fn forget(journal: &Path) -> Result<(), String> {
    match std::fs::remove_file(journal) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {}", journal.display(), crate::config::os_error(&why)))
        }
        _ => Ok(()),
    }
}
