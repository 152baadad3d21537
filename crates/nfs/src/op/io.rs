//! Common parts of READ, WRITE and related operations: the open behind a stateid. Start with [`io_open`].

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::types::StateId;
use share::{AuditedOperation, ClientDetails, CopySide, Identity, LockOwner, Open, ReadSender};
use volume::NodeKind;
use volume::security::Rights;
use wire::table::EntryGuard;

use super::names::{opening_own, step_of};
use crate::compound::{Run, Stop};
use crate::config::Export;
use crate::state::open::Holding;
use crate::state::stateid::LockingState;

/// An open to read or write through.
pub enum IoOpen {
    /// The client's own open behind its stateid. Neither part counts references: all connections of the
    /// client would change the same counter.
    Held(EntryGuard<LockingState>, arc_swap::Guard<Arc<Holding>>),
    /// An open that was made for a special stateid, and is closed afterwards.
    Own(Arc<Export>, Arc<Open>),
}

impl IoOpen {
    /// The open.
    #[inline]
    pub fn open(&self) -> &Arc<Open> {
        match self {
            IoOpen::Held(_, holding) => &holding.open,
            IoOpen::Own(_, open) => open,
        }
    }

    /// The export.
    #[inline]
    pub fn export(&self) -> &Arc<Export> {
        match self {
            IoOpen::Held(state, _) => &state.export,
            IoOpen::Own(export, _) => export,
        }
    }

    /// The client's open, which remembers the size of the file. None for a special stateid.
    #[inline]
    pub fn holding(&self) -> Option<&Holding> {
        match self {
            IoOpen::Held(_, holding) => Some(holding),
            IoOpen::Own(..) => None,
        }
    }

    /// This open as the source or destination of a copy.
    pub fn side(&self, owner: LockOwner, at: u64) -> CopySide<'_> {
        CopySide { open: self.open(), owner, at }
    }

    /// Closes an open that was made for a special stateid.
    pub fn end(self, run: &Run) {
        if let IoOpen::Own(export, open) = self {
            // Closing can only fail if it removes a name, and this open removes none.
            let _ = export.engine.close(&open, run.now);
        }
    }
}

/// Replaces the special stateid that stands for the current one.
///
/// # Errors
/// NFS4ERR_BAD_STATEID if there is no current stateid.
// RFC 8881 8.2.3
#[inline]
pub fn resolve_stateid(run: &Run, id: &StateId) -> Result<StateId, NfsStat> {
    if *id == StateId::CURRENT {
        return run.stateid.ok_or(NfsStat::BadStateId);
    }
    Ok(*id)
}

/// The open to read or write through.
///
/// # Errors
/// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE; NFS4ERR_ISDIR and NFS4ERR_WRONG_TYPE for
/// objects without data; NFS4ERR_ACCESS, NFS4ERR_SHARE_DENIED and NFS4ERR_DELAY for special stateids.
// RFC 8881 8.2.3, 9.1.2
pub fn io_open(run: &mut Run, id: &StateId, access: ShareAccess) -> Result<IoOpen, Stop> {
    let id = resolve_stateid(run, id)?;
    if !id.is_special() {
        let (handle, client) = (run.handle()?, run.session()?.client.id);
        let state = run.server.state(client, &id)?;
        if state.handle != handle {
            return Err(NfsStat::BadStateId.into());
        }
        let holding = state.holding();
        // An open for writing may also read, as far as the client needs that to write.
        if access == ShareAccess::WRITE && !holding.access.contains(access) {
            return Err(NfsStat::OpenMode.into());
        }
        if access == ShareAccess::READ && !holding.access.contains(access) {
            return Err(NfsStat::OpenMode.into());
        }
        return Ok(IoOpen::Held(state, holding));
    }
    if id != StateId::ANONYMOUS && id != StateId::READ_BYPASS {
        return Err(NfsStat::BadStateId.into());
    }
    let (export, item) = run.item(NfsStat::IsDir)?;
    check_data(item.kind())?;
    let rights = if access == ShareAccess::WRITE { Rights::WRITE_DATA } else { Rights::READ_DATA };
    let open = |rights| {
        let operation =
            if access == ShareAccess::WRITE { AuditedOperation::Write } else { AuditedOperation::Read };
        let request = step_of(operation, opening_own(run, &export, item.id(), &[], rights)?);
        run.ask(&export, |engine, caller| engine.create_from(caller, &item, &request))
    };
    let opened = match open(rights) {
        // RFC 8881 6.2.1.3.1: a file that may be executed can be read to execute it.
        Err(Stop::Fail(NfsStat::Access)) if access == ShareAccess::READ => open(Rights::EXECUTE),
        other => other,
    };
    let opened = opened.map_err(|stop| match stop {
        Stop::Fail(NfsStat::ShareDenied) => Stop::Fail(NfsStat::Locked),
        other => other,
    })?;
    Ok(IoOpen::Own(export, opened.open))
}

/// The same for the saved filehandle and the saved stateid.
///
/// # Errors
/// As for [`io_open`].
pub fn io_open_saved(run: &mut Run, id: &StateId, access: ShareAccess) -> Result<IoOpen, Stop> {
    let swap = |run: &mut Run| {
        std::mem::swap(&mut run.current, &mut run.saved);
        std::mem::swap(&mut run.stateid, &mut run.saved_stateid);
    };
    swap(run);
    let found = io_open(run, id, access);
    swap(run);
    found
}

/// Refuses objects without data.
///
/// # Errors
/// NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE.
pub fn check_data(kind: NodeKind) -> Result<(), NfsStat> {
    match kind {
        NodeKind::File => Ok(()),
        NodeKind::Directory => Err(NfsStat::IsDir),
        NodeKind::Link => Err(NfsStat::Symlink),
        _ => Err(NfsStat::WrongType),
    }
}

/// The lock-owner on whose behalf data is read and written. Its requests do not conflict with the ranges of
/// NFS clients, and it never owns a range.
#[must_use]
pub fn owner(run: &Run) -> LockOwner {
    let client = run.session.as_ref().map_or(share::ClientKey(0), |session| session.client.key);
    LockOwner { client, owner: 0 }
}

/// The user and session that the audit tells of a read, if it tells it. Another user than the open's may read
/// through the open.
pub struct ToldReader(Option<(Arc<Identity>, Arc<ClientDetails>)>);

impl ToldReader {
    /// The sender of this request.
    ///
    /// # Errors
    /// NFS4ERR_OP_NOT_IN_SESSION without a session.
    pub fn of(run: &Run, from: &IoOpen) -> Result<ToldReader, Stop> {
        if !from.export().engine.tells_next_read(from.open()) {
            return Ok(ToldReader(None));
        }
        Ok(ToldReader(Some((run.identity(from.export()), Arc::clone(&run.session()?.details)))))
    }

    /// The same as the engine takes it.
    pub fn reader(&self, run: &Run) -> ReadSender<'_> {
        let audited_as = self.0.as_ref().map(|(identity, details)| (&**identity, &**details));
        ReadSender { owner: owner(run), audited_as }
    }
}
