//! Lookup of a request's session, tree and Open, with the checks that belong to each (MS-SMB2 3.3.5.2.9 to
//! 3.3.5.2.11).

use std::sync::Arc;

use share::{Waiter, Wake};
use smb_wire::header::Flags;
use smb_wire::negotiate::Dialect;
use smb_wire::{FileId, Header, NtStatus, SmbCommand};

use super::{Connection, Negotiated};
use crate::exchange::{Request, RequestState, Stop};
use crate::state::open::pending::{Outstanding, RequestOpen};
use crate::state::{Open, Session, Tree, TreeTarget};

impl Connection {
    /// The session of a request. An earlier check has found that it has one.
    pub(crate) fn session(&self, request: &Request<'_>) -> Result<&Arc<Session>, Stop> {
        let channel = request.channel.and_then(|at| self.channels.get(at));
        channel.map(|channel| &channel.session).ok_or(Stop::Fail(NtStatus::USER_SESSION_DELETED))
    }

    /// The tree of a request.
    pub(crate) fn tree(&mut self, request: &mut Request<'_>) -> Result<Arc<Tree>, Stop> {
        // MS-SMB2 3.3.5.2.7.2
        Stop::when(request.header.is_related() && request.tree_id == u32::MAX, NtStatus::INVALID_PARAMETER)?;
        // MS-SMB2 3.3.5.2.11
        let tree = self.session(request)?.tree(request.tree_id);
        let tree = tree.ok_or(NtStatus::NETWORK_NAME_DELETED)?;
        self.set_counted_share(request, &tree);
        check_protection(&tree, request)?;
        Ok(tree)
    }

    /// The Open of a request, found without a lock. The following requests of the compound inherit its id.
    pub(crate) fn open(&mut self, request: &mut Request<'_>, id: FileId) -> Result<RequestOpen, Stop> {
        let id = request.file_id(id)?;
        let session = self.session(request)?;
        let found =
            self.server.opens.get(id.volatile).filter(|open| {
                open.id == id && open.session_id == session.id && open.tree.id == request.tree_id
            });
        match found {
            Some(open) if open.object().is_some() => {
                self.set_counted_share(request, &open.tree);
                check_protection(&open.tree, request)?;
                request.related.file_id = Some(id);
                self.check_sequence(request, &open)?;
                // MS-SMB2 3.3.5.11 to 3.3.5.22
                open.used();
                self.pace_metadata(request, &open.tree)?;
                RequestOpen::new(open, request.header.command()).ok_or(Stop::Fail(NtStatus::FILE_CLOSED))
            }
            _ => {
                self.tree(request)?;
                self.log_unknown_open(request.header.command(), id);
                Err(Stop::Fail(NtStatus::FILE_CLOSED))
            }
        }
    }

    /// Logs an id that no Open of the session has. A client that uses the volatile id from before it opened a
    /// durable handle again sees its Open as closed, although the handle has `now` another volatile id.
    fn log_unknown_open(&self, command: SmbCommand, id: FileId) {
        tracing::debug!(
            ?command,
            persistent = id.persistent,
            volatile = id.volatile,
            now = ?self.server.index.by_durable_id(id.persistent),
            "no open has this id"
        );
    }

    /// Sets the share that a request is counted for.
    fn set_counted_share(&mut self, request: &mut Request<'_>, tree: &Tree) {
        if let TreeTarget::Disk { engine, .. } = &tree.target {
            request.transaction.share_index = self.desk.share_index(engine);
        }
    }

    /// Checks whether a request is on time for the Open. The Open counts it from now on.
    fn check_sequence(&self, request: &mut Request<'_>, open: &Open) -> Result<(), Stop> {
        // MS-SMB2 3.3.5.2.10
        let is_known = request.resumed || request.counted.is_some();
        if is_known || !self.negotiated.is_some_and(|negotiated| negotiated.protection.dialect.is_smb3()) {
            return Ok(());
        }
        let is_replay = request.header.flags().contains(Flags::REPLAY_OPERATION);
        if open.per_request.sequence.begin(request.header.channel_sequence(), is_replay) {
            request.counted = Some(open.id.volatile);
            return Ok(());
        }
        let command = request.header.command();
        if !matches!(command, SmbCommand::Write | SmbCommand::SetInfo | SmbCommand::Ioctl) {
            return Ok(());
        }
        let late = "its ChannelSequence is an older one, as of a channel that was lost";
        let why = if is_replay { "an earlier one is still under way" } else { late };
        let (what, status) = (format!("{command:?} refused: {why}"), NtStatus::FILE_NOT_AVAILABLE);
        self.log_refusal(request.session_id, status, &what, request.now);
        Err(Stop::Fail(status))
    }

    /// Keeps the count of a request that is put aside.
    pub(crate) fn outstanding(&self, counted: Option<u64>, header: &Header) -> Option<Outstanding> {
        let open = self.server.opens.get(counted?)?.share();
        Some(Outstanding { open, sequence: header.channel_sequence() })
    }

    /// The waiter by which the engine wakes a request that may have to wait.
    pub(crate) fn waiter_for(&self, request: &mut RequestState) -> Waiter {
        Waiter { wake: Arc::clone(&self.handle) as Arc<dyn Wake>, token: self.async_id(request) }
    }

    /// The async id of a request that may have to wait.
    pub(crate) fn async_id(&self, request: &mut RequestState) -> u64 {
        *request.async_id.get_or_insert_with(|| {
            let id = self.next_async.get() + 1;
            self.next_async.set(id);
            id
        })
    }
}

/// Checks the protection of a request. A share may require more than the session (MS-SMB2 3.3.5.2.11).
fn check_protection(tree: &Tree, request: &Request<'_>) -> Result<(), Stop> {
    let unsealed = tree.sealed && !request.sealed;
    let unsigned = tree.signed && !request.sealed && !request.header.is_signed();
    if unsealed || unsigned { Err(Stop::Fail(NtStatus::ACCESS_DENIED)) } else { Ok(()) }
}

impl Negotiated {
    /// Checks that a request may transfer `size` bytes: at most the negotiated size, and a payload within
    /// the charged credits (MS-SMB2 3.3.5.2.5).
    pub(crate) fn check_size(&self, request: &Request<'_>, size: usize, payload: u32) -> Result<(), Stop> {
        Stop::when(size > self.max_io as usize, NtStatus::INVALID_PARAMETER)?;
        let paid = if self.multi_credit() { request.header.credit_charge().max(1) } else { 1 };
        let needed = payload.saturating_sub(1) / 65536 + 1;
        let small = self.protection.dialect == Dialect::Smb202;
        Stop::when(needed > u32::from(paid) && !small, NtStatus::INVALID_PARAMETER)
    }
}
