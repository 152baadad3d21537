//! The journals that survive a restart: those of each share's persistent opens, and those of NFS client
//! records. They are in the state directory, next to the other files of the served directory.

use std::path::Path;
use std::sync::Arc;

use nfs::state::client_records::RecordStorage;
use share::UnrestoredOpen;
use volume_posix::{PosixJournal, PosixMark, RecoveredJournal};

use crate::config::Share;
use crate::state::StateDir;

/// The content of the journals, for messages.
const OPENS: &str = "what clients had open";
const CLIENTS: &str = "which clients there were, so some of them may be unable to reclaim their state";

/// Makes a new engine record its opens in the file `journal`. Returns the opens of the previous run, which
/// are restored later ([`super::restoring`]), and whether some are lost.
///
/// # Errors
/// One line with the share and the reason.
pub fn keep(
    share: &Share,
    state: &StateDir,
    journal: &Path,
    engine: &share::Share,
) -> Result<(Vec<UnrestoredOpen>, bool), String> {
    let name = &share.name.value;
    let cannot = |why: &dyn std::fmt::Display| {
        format!(
            "share `{name}`: the record of its persistent opens cannot be used: {why}; \
             see --state-dir"
        )
    };
    let is_missing = warn_if_missing(state, journal, OPENS);
    let (kept, found) = PosixJournal::open(journal).map_err(|why| cannot(&why))?;
    warn_of_damage(journal, &found, OPENS);
    let kept = Arc::new(kept);
    state.journals().add(journal, &kept);
    let unrestored = engine.begin_restoring(kept, &found.records, net::now());
    let unrestored = unrestored.map(|opens| (opens, is_missing || !found.damage.is_empty()));
    unrestored.map_err(|why| cannot(&format_args!("{}: {why}", journal.display())))
}

/// The boot of a host whose records are on stable storage before any reply relies on them: another boot has
/// lost nothing.
const STABLE: &str = "stable records";

/// Makes the NFS server store its client records in the file `journal`, and lets the clients in it reclaim.
/// `are_records_stable`: all records are on stable storage before a reply relies on them.
///
/// # Errors
/// One line that names the file.
pub fn keep_clients(
    state: &StateDir,
    journal: &Path,
    nfs: &nfs::Server,
    are_records_stable: bool,
) -> Result<(), String> {
    let is_missing = warn_if_missing(state, journal, CLIENTS);
    let (kept, found) =
        PosixJournal::open(journal).map_err(|why| format!("the NFS clients' record: {why}"))?;
    warn_of_damage(journal, &found, CLIENTS);
    // Shows whether only this program was restarted, or the whole host.
    let boot =
        if are_records_stable { STABLE.to_owned() } else { crate::host::boot_id().unwrap_or_default() };
    let kept = Arc::new(kept);
    state.journals().add(journal, &kept);
    let storage = RecordStorage { journal: kept, mark: Arc::new(PosixMark::beside(journal)) };
    nfs.keep_clients(storage, &found.records, boot.as_bytes(), net::now())
        .map_err(|why| format!("the NFS clients' record {}: {why}", journal.display()))?;
    if is_missing || !found.damage.is_empty() {
        nfs.mark_records_incomplete();
    }
    Ok(())
}

/// Logs a warning if a journal that was in use is missing. `content` describes it. A new one replaces it.
fn warn_if_missing(state: &StateDir, journal: &Path, content: &str) -> bool {
    let is_missing = state.lacks_journal(journal);
    if is_missing {
        tracing::warn!(path = %journal.display(), "a journal is missing and a new one replaces it; it \
                                                   contained {content}; to recover it, stop the server, \
                                                   restore the file and start again");
        // The next start misses no journal, unless a new one is created until then.
        if let Err(error) = state.forget_journal(journal) {
            tracing::warn!(%error, "the next start will report it again");
        }
    }
    is_missing
}

/// Records which journals and sidecar directories exist now, so that the next start can report missing ones.
pub fn record_present_files(state: &StateDir) {
    if let Err(error) = state.record_present_files() {
        tracing::warn!(%error, "the files of the state directory cannot be recorded, so the next start will \
                                not notice missing ones");
    }
}

/// Logs a warning if the sidecar data of a share, in `volume`, is missing.
pub fn warn_if_sidecar_missing(state: &StateDir, share: &str, volume: &Path) {
    if state.lacks_sidecar(volume) {
        tracing::warn!(share, path = %volume.display(), "the sidecar data of the share's files is missing: \
                                                         named streams, and descriptors and reparse points \
                                                         too large for a file's own attributes; to recover \
                                                         it, stop the server, restore this directory and \
                                                         start again");
    }
}

/// Logs a warning about each damaged part of a journal. `content` describes the journal.
fn warn_of_damage(journal: &Path, found: &RecoveredJournal, content: &str) {
    let kept = found.aside.as_deref().map(|aside| aside.display().to_string()).unwrap_or_default();
    for damage in &found.damage {
        tracing::warn!(path = %journal.display(), offset = damage.offset, %kept, "a journal is damaged and \
            continues without {damage}; it contains {content}");
    }
}

/// Deletes the journal of a directory whose opens are no longer persistent. Its clients are long gone.
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
