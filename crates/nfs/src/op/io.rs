//! What READ, WRITE and their kin have in common: which open a stateid stands for.

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::types::StateId;
use share::{CopySide, LockOwner, Open};
use volume::Kind;
use volume::security::Rights;
use wire::table::Held;

use super::names::opening_own;
use crate::compound::{Run, Stop};
use crate::config::Export;
use crate::state::open::Holding;
use crate::state::stateid::State;

/// An open to read or write through.
pub enum Through {
    /// The client's own, which stands behind its stateid. Both are held without counting references, which all
    /// connections of the client would do in one place.
    Held(Held<State>, arc_swap::Guard<Arc<Holding>>),
    /// One that was made for a special stateid, to be closed.
    Own(Arc<Export>, Arc<Open>),
}

impl Through {
    /// The open.
    #[inline]
    pub fn open(&self) -> &Arc<Open> {
        match self {
            Through::Held(_, holding) => &holding.open,
            Through::Own(_, open) => open,
        }
    }

    /// The export.
    #[inline]
    pub fn export(&self) -> &Arc<Export> {
        match self {
            Through::Held(state, _) => &state.export,
            Through::Own(export, _) => export,
        }
    }

    /// Where the file was last seen not to end, when that is remembered.
    #[inline]
    pub fn holding(&self) -> Option<&Holding> {
        match self {
            Through::Held(_, holding) => Some(holding),
            Through::Own(..) => None,
        }
    }

    /// It as one side of a copy.
    pub fn side(&self, owner: LockOwner, at: u64) -> CopySide<'_> {
        CopySide { open: self.open(), owner, at }
    }

    /// Ends it.
    pub fn end(self, run: &Run) {
        if let Through::Own(export, open) = self {
            // What could go wrong is the removal of a name, which such an open never asks for.
            let _ = export.engine.close(&open, run.now);
        }
    }
}

/// The stateid that is meant.
///
/// # Errors
/// NFS4ERR_BAD_STATEID when the current one is meant and there is none.
// RFC 8881 8.2.3
#[inline]
pub fn meant(run: &Run, id: &StateId) -> Result<StateId, NfsStat> {
    if *id == StateId::CURRENT {
        return run.stateid.ok_or(NfsStat::BadStateId);
    }
    Ok(*id)
}

/// What to read or write through.
///
/// # Errors
/// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE; NFS4ERR_ISDIR and NFS4ERR_WRONG_TYPE for what has no
/// data; NFS4ERR_ACCESS, NFS4ERR_SHARE_DENIED and NFS4ERR_DELAY for special stateids.
// RFC 8881 8.2.3, 9.1.2
pub fn through(run: &mut Run, id: &StateId, access: ShareAccess) -> Result<Through, Stop> {
    let id = meant(run, id)?;
    if !id.is_special() {
        let (handle, client) = (run.handle()?, run.session()?.client.id);
        let state = run.server.state(client, &id)?;
        if state.handle != handle {
            return Err(NfsStat::BadStateId.into());
        }
        let holding = state.holding();
        // Whoever may write may read, too, what its own writing needs.
        if access == ShareAccess::WRITE && !holding.access.contains(access) {
            return Err(NfsStat::OpenMode.into());
        }
        if access == ShareAccess::READ && !holding.access.contains(access) {
            return Err(NfsStat::OpenMode.into());
        }
        return Ok(Through::Held(state, holding));
    }
    if id != StateId::ANONYMOUS && id != StateId::READ_BYPASS {
        return Err(NfsStat::BadStateId.into());
    }
    let (export, item) = run.item(NfsStat::IsDir)?;
    check_data(item.kind())?;
    let rights = if access == ShareAccess::WRITE { Rights::WRITE_DATA } else { Rights::READ_DATA };
    let open = |rights| {
        let request = opening_own(run, &export, item.id(), &[], rights)?;
        run.ask(&export, |engine, caller| engine.create_from(caller, &item, &request))
    };
    let opened = match open(rights) {
        // RFC 8881 6.2.1.3.1: what may be run is read to run it.
        Err(Stop::Fail(NfsStat::Access)) if access == ShareAccess::READ => open(Rights::EXECUTE),
        other => other,
    };
    let opened = opened.map_err(|stop| match stop {
        Stop::Fail(NfsStat::ShareDenied) => Stop::Fail(NfsStat::Locked),
        other => other,
    })?;
    Ok(Through::Own(export, opened.open))
}

/// The same for the saved filehandle, and the stateid that was saved with it.
///
/// # Errors
/// As [`through`].
pub fn through_saved(run: &mut Run, id: &StateId, access: ShareAccess) -> Result<Through, Stop> {
    let swap = |run: &mut Run| {
        std::mem::swap(&mut run.current, &mut run.saved);
        std::mem::swap(&mut run.stateid, &mut run.saved_stateid);
    };
    swap(run);
    let found = through(run, id, access);
    swap(run);
    found
}

/// Refuses what has no data.
///
/// # Errors
/// NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE.
pub fn check_data(kind: Kind) -> Result<(), NfsStat> {
    match kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(NfsStat::IsDir),
        Kind::Link => Err(NfsStat::Symlink),
        _ => Err(NfsStat::WrongType),
    }
}

/// The owner of byte ranges on whose behalf data is read and written: the ranges of NFS clients do not stand in
/// their way, and nobody else's are ever theirs.
#[must_use]
pub fn owner(run: &Run) -> LockOwner {
    let client = run.session.as_ref().map_or(share::ClientKey(0), |session| session.client.key);
    LockOwner { client, owner: 0 }
}
