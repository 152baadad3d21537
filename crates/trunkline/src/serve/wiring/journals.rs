//! Where a share's opens are kept over a restart: a journal in the state directory, beside what else
//! belongs to the served directory.

use std::path::Path;
use std::sync::Arc;

use share::{Identity, Restored};
use volume::security::Sid;
use volume_posix::{Found, PosixJournal};

use crate::config::Share;
use crate::state::StateDir;

/// Where Linux names each time that it runs.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the journals have.
const OPENS: &str = "what clients had open";
const CLIENTS: &str = "who the clients were, so that some may be refused what they had";

/// Has a new engine keep its opens in the file `journal`, and gives those that were kept there, and whether
/// some are lost.
///
/// # Errors
/// One line that names the share and what is in the way.
pub fn keep(
    share: &Share,
    state: &StateDir,
    journal: &Path,
    engine: &share::Share,
    principals: &[smb::UserConfig],
) -> Result<(Vec<Restored>, bool), String> {
    let name = &share.name.value;
    let cannot = |why: &dyn std::fmt::Display| {
        format!(
            "share `{name}`: what is open is kept over a restart, and the record of it cannot be used: {why}; \
             see --state-dir"
        )
    };
    let is_missing = tell_if_missing(state, journal, OPENS);
    let (kept, found) = PosixJournal::open(journal).map_err(|why| cannot(&why))?;
    tell_of_damage(journal, &found, OPENS);
    let who = |sid: &Sid| -> Option<Arc<Identity>> {
        let user = principals.iter().find(|user| user.identity.sid == *sid && user.enabled);
        user.map(|user| Arc::clone(&user.identity))
    };
    let restored = engine.keep_opens(Arc::new(kept), &found.records, &who, net::now());
    let restored = restored.map(|restored| (restored, is_missing || !found.damage.is_empty()));
    restored.map_err(|why| cannot(&format_args!("{}: {why}", journal.display())))
}

/// Has the NFS server keep its clients in the file `journal`, and lets those come back that it has.
///
/// # Errors
/// One line that names the file.
pub fn keep_clients(state: &StateDir, journal: &Path, nfs: &nfs::Server) -> Result<(), String> {
    let is_missing = tell_if_missing(state, journal, CLIENTS);
    let (kept, found) =
        PosixJournal::open(journal).map_err(|why| format!("the NFS clients' record: {why}"))?;
    tell_of_damage(journal, &found, CLIENTS);
    // Tells whether only this program began anew, or the whole host.
    let boot = std::fs::read(BOOT_ID).unwrap_or_default();
    nfs.keep_clients(Arc::new(kept), &found.records, &boot, net::now())
        .map_err(|why| format!("the NFS clients' record {}: {why}", journal.display()))?;
    if is_missing || !found.damage.is_empty() {
        nfs.doubt_records();
    }
    Ok(())
}

/// Tells of a journal that was kept and is gone, which had `content`. A new one takes its place.
fn tell_if_missing(state: &StateDir, journal: &Path, content: &str) -> bool {
    let is_missing = state.lacks_journal(journal);
    if is_missing {
        tracing::warn!(path = %journal.display(), "a journal is missing and begins anew; it had {content}; to have it back, stop, restore it and start again");
        // The next start lacks nothing, unless there is one again until then.
        if let Err(error) = state.forget_journal(journal) {
            tracing::warn!(%error, "the next start tells of it again");
        }
    }
    is_missing
}

/// Takes note of what there is by now beside the database, so that it is told when some of it is gone at the
/// next start.
pub fn note_what_is_kept(state: &StateDir) {
    if let Err(error) = state.note_what_is_kept() {
        tracing::warn!(%error, "it is not noted what the state directory has, and it will not be told if some of it is gone");
    }
}

/// Tells when what lay beside a share's files, kept in `volume`, is gone.
pub fn tell_if_emptied(state: &StateDir, share: &str, volume: &Path) {
    if state.lacks_what_lay_beside(volume) {
        tracing::warn!(share, path = %volume.display(), "what lay beside the share's files is gone: named streams, and descriptors and reparse points too large for a file's own attributes; to have it back, stop, restore this directory and start again");
    }
}

/// Tells of what is left out of a journal, which had `content`.
fn tell_of_damage(journal: &Path, found: &Found, content: &str) {
    let kept = found.aside.as_deref().map(|aside| aside.display().to_string()).unwrap_or_default();
    for damage in &found.damage {
        tracing::warn!(path = %journal.display(), offset = damage.offset, %kept, "a journal is damaged and goes on without {damage}; it has {content}");
    }
}

/// Forgets what was kept for a directory whose opens are not kept any more: its clients are long gone.
///
/// # Errors
/// One line that names the file.
pub fn forget(state: &StateDir, journal: &Path) -> Result<(), String> {
    state.forget_journal(journal).map_err(|why| why.to_string())?;
    match std::fs::remove_file(journal) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {}", journal.display(), crate::config::os_error(&why)))
        }
        _ => Ok(()),
    }
}
