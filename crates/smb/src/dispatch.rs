//! Passes an admitted request to its command. It first makes the checks that all commands share, in the order
//! of the specification (MS-SMB2 3.3.5.2). Start with [`handle`].

use std::sync::atomic::Ordering;

use smb_wire::{NtStatus, SmbCommand};
use wire::Output;

use crate::connection::{Connection, Negotiated};
use crate::exchange::{CommandOutcome, Handled, ParkReason, ReplyContent, Request, Stop};
use crate::state::Event;
use crate::state::session::SessionState;
use crate::{cmd, counting};

/// Makes the shared checks and calls the command of the request.
pub fn handle(
    connection: &mut Connection,
    request: &mut Request<'_>,
    out: &mut Output<Event>,
) -> CommandOutcome {
    let mut outcome = checked(connection, request, out).unwrap_or_else(CommandOutcome::from);
    if let CommandOutcome::Answered(ReplyContent::Failed(status, _)) = &mut outcome
        && request.announced
    {
        *status = ended(request.header.command(), *status);
    }
    let goes_on =
        matches!(&outcome, CommandOutcome::Parked(aside) if !matches!(aside, ParkReason::Answer(..)));
    if !goes_on && let Some(open) = request.counted.take().and_then(|id| connection.server.opens.get(id)) {
        // MS-SMB2 3.3.4.1
        open.per_request.sequence.end(request.header.channel_sequence());
    }
    match &outcome {
        CommandOutcome::Answered(ReplyContent::Failed(status, _)) => {
            // MS-SMB2 3.3.5.2.7.2: the requests that follow have no tree.
            if request.header.command() == SmbCommand::TreeConnect {
                request.related.tree_id = u32::MAX;
            }
            // MS-SMB2 3.3.5.2.7.2: only a request that would have created an Open fails those that follow.
            if request.header.command() == SmbCommand::Create || request.related.file_id.is_none() {
                request.related.failed = Some(*status);
            }
        }
        CommandOutcome::Answered(ReplyContent::Done(_)) | CommandOutcome::Parked(ParkReason::Answer(..)) => {
            request.related.failed = None;
        }
        CommandOutcome::Parked(_) | CommandOutcome::Silent | CommandOutcome::Disconnect(_) => {}
    }
    outcome
}

/// The status of a waiting request whose Open, tree or session has ended.
fn ended(command: SmbCommand, status: NtStatus) -> NtStatus {
    let gone = [NtStatus::FILE_CLOSED, NtStatus::NETWORK_NAME_DELETED, NtStatus::USER_SESSION_DELETED];
    match command {
        _ if !gone.contains(&status) => status,
        // MS-FSA 2.1.5.8
        SmbCommand::Lock => NtStatus::RANGE_NOT_LOCKED,
        // MS-FSA 2.1.5.5
        SmbCommand::ChangeNotify => NtStatus::NOTIFY_CLEANUP,
        _ => status,
    }
}

fn checked(
    connection: &mut Connection,
    request: &mut Request<'_>,
    out: &mut Output<Event>,
) -> Result<CommandOutcome, Stop> {
    let command = request.header.command();
    if !request.resumed {
        connection.handle.counters.request();
    }
    // MS-SMB2 3.3.5.2.7.2: the first request of a frame has nothing to be related to.
    let alone = !request.related.any && !request.resumed && command != SmbCommand::Cancel;
    if request.header.is_related() && (alone || request.related.invalid) {
        request.related.invalid = true;
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    request.channel = connection.channel_of(request.session_id);
    if command == SmbCommand::Negotiate {
        return Ok(cmd::negotiate::handle(connection, request, out).into());
    }
    let negotiated = &connection.negotiated.ok_or(Stop::Disconnect("a request before NEGOTIATE"))?;
    let handled = match command {
        SmbCommand::SessionSetup => cmd::session_setup::handle(connection, negotiated, request),
        SmbCommand::Echo => cmd::echo::handle(request),
        SmbCommand::Cancel => {
            cmd::cancel::handle(connection, request, out);
            return Ok(CommandOutcome::Silent);
        }
        SmbCommand::Ioctl
            if request.channel.is_none() && cmd::ioctl::torture::is_sessionless(connection, request) =>
        {
            cmd::ioctl::torture::handle(connection, request)
        }
        _ => in_session(connection, negotiated, request),
    };
    Ok(handled.into())
}

/// Refuses a new request of a session whose ticket has ended.
///
/// # Errors
/// NETWORK_SESSION_EXPIRED.
// MS-SMB2 3.3.5.2.9
pub(crate) fn check_ticket(connection: &Connection, request: &Request<'_>) -> Result<(), Stop> {
    let session = connection.session(request)?;
    if request.resumed || !session.has_expired(request.now) {
        return Ok(());
    }
    if session.tell_expiry() {
        connection.server.ticket_ends.note_expired();
    }
    Err(Stop::Fail(NtStatus::NETWORK_SESSION_EXPIRED))
}

/// Checks and calls the commands that need a session.
fn in_session(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    // MS-SMB2 3.3.5.2.9
    if request.channel.is_none() && request.header.is_related() {
        // The request that it is related to had no session either. There is nothing to inherit.
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    if request.channel.is_none() {
        connection.log_foreign_session(request);
    }
    let session = connection.session(request)?;
    Stop::when(session.state() != SessionState::Valid, NtStatus::USER_SESSION_DELETED)?;
    let frees = matches!(request.header.command(), SmbCommand::Logoff | SmbCommand::Close | SmbCommand::Lock);
    if !frees {
        check_ticket(connection, request)?;
    }
    if session.authenticated().is_some_and(|authenticated| !authenticated.anonymous) {
        let by_key = session.session_settings().is_some_and(|settings| settings.by_key);
        request.transaction.authentication = if by_key { counting::BY_KEY } else { counting::PROVED };
    }
    Stop::when(session.sealing_required.load(Ordering::Relaxed) && !request.sealed, NtStatus::ACCESS_DENIED)?;
    match request.header.command() {
        SmbCommand::Read => cmd::read::handle(connection, negotiated, request),
        SmbCommand::Write => cmd::write::handle(connection, negotiated, request),
        SmbCommand::Logoff => cmd::logoff::handle(connection, request),
        SmbCommand::TreeConnect => cmd::tree_connect::handle(connection, negotiated, request),
        SmbCommand::TreeDisconnect => cmd::tree_disconnect::handle(connection, request),
        SmbCommand::Create => cmd::create::handle(connection, negotiated, request),
        SmbCommand::Close => cmd::close::handle(connection, request),
        SmbCommand::Flush => cmd::flush::handle(connection, request),
        SmbCommand::Lock => cmd::lock::handle(connection, negotiated, request),
        SmbCommand::Ioctl => cmd::ioctl::handle(connection, negotiated, request),
        SmbCommand::QueryDirectory => cmd::query_directory::handle(connection, negotiated, request),
        SmbCommand::ChangeNotify => cmd::change_notify::handle(connection, negotiated, request),
        SmbCommand::QueryInfo => cmd::query_info::handle(connection, negotiated, request),
        SmbCommand::SetInfo => cmd::set_info::handle(connection, negotiated, request),
        SmbCommand::OplockBreak => cmd::oplock_break::handle(connection, request),
        SmbCommand::ServerToClientNotification | SmbCommand::Unknown(_) => {
            Err(Stop::Fail(NtStatus::INVALID_PARAMETER))
        }
        SmbCommand::Negotiate | SmbCommand::SessionSetup | SmbCommand::Echo | SmbCommand::Cancel => {
            Err(Stop::Fail(NtStatus::INVALID_PARAMETER))
        }
    }
}
