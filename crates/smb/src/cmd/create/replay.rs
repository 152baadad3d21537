//! CREATE that is sent again, since its answer may have been lost with a channel (MS-SMB2 3.3.5.9,
//! 3.3.5.9.10).
//!
//! A CREATE is known by its client and its CreateGuid: while it is under way, and as long as the Open it
//! made has not been used. Sent again as a replay it is answered from that Open, and changes nothing.

use std::sync::Arc;

use smb_wire::create::OplockLevel;
use smb_wire::header::Flags;
use smb_wire::{Guid, NtStatus, create};

use super::contexts::{self, Asked};
use super::{Response, write_response};
use crate::connection::Connection;
use crate::dispatch::Request;
use crate::durable::{Durable, Survival, Version};
use crate::exchange::outcome::{Handled, Stop};
use crate::index::{Claim, Known, Sent};
use crate::open::{NO_SESSION, Open};
use crate::server::Server;
use crate::session::Session;
use crate::tree::Tree;

/// How a CREATE goes on.
pub(super) enum Begun {
    /// It is carried out; the claim keeps its name until it is done.
    New(Option<Claim>),
    /// It was carried out before and made this.
    Replay(Arc<Open>),
}

/// Looks a CREATE up by its name. `lasts`: it is to make a persistent Open, and can.
pub(super) fn begin(
    connection: &Connection,
    request: &mut Request<'_>,
    tree: &Arc<Tree>,
    (asked, contexts, lasts): (&create::Request<'_>, &Asked, bool),
    session: &Arc<Session>,
) -> Result<Begun, Stop> {
    if let Some(claim) = request.claim.take() {
        return Ok(Begun::New(Some(claim)));
    }
    let Some(v2) = contexts.durability.request_v2 else { return Ok(Begun::New(None)) };
    let server = &connection.server;
    let is_replay = request.header.flags().contains(Flags::REPLAY_OPERATION);
    let take_up = |request: &mut Request<'_>| match (is_replay, lasts) {
        // What could not be made to outlive the server was opened as one that does not.
        (true, true) => match take_up(connection, request, tree, (asked, v2.create_guid), session)? {
            None => take_up_durable(connection, request, tree, (contexts, v2.create_guid), session),
            taken => Ok(taken),
        },
        (true, false) => take_up_durable(connection, request, tree, (contexts, v2.create_guid), session),
        (false, _) => Ok(None),
    };
    if let Some(open) = take_up(request)? {
        return Ok(Begun::Replay(open));
    }
    let find = |volatile| server.opens.get(volatile).filter(|open| open.is_replayable());
    let sent = Sent { session: session.id, is_replay, sequence: request.header.channel_sequence() };
    match server.index.claim((session.client, v2.create_guid), sent, find) {
        // Its Open may have been used since it was looked for.
        Known::Claimed(claim) => match take_up(request)? {
            Some(open) => Ok(Begun::Replay(open)),
            None => Ok(Begun::New(Some(claim))),
        },
        // MS-SMB2 3.3.5.9.10
        Known::Made(_) | Known::UnderWay if !is_replay => {
            let why = "another of its client has its CreateGuid";
            Err(refuse(connection, request, NtStatus::DUPLICATE_OBJECTID, why))
        }
        // A replay of it was quicker. No section knows that; it is a late request of a lost channel like those of
        // MS-SMB2 3.3.5.2.10, and would be done twice.
        Known::Late => {
            let why = "it came after a replay of it";
            Err(refuse(connection, request, NtStatus::DUPLICATE_OBJECTID, why))
        }
        // No section knows a CREATE that is under way; the client is told, as for other replays that come
        // too early (MS-SMB2 3.3.5.2.10), to try again.
        Known::UnderWay => Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE)),
        Known::Made(open) => {
            check(&open, contexts, session)
                .map_err(|(status, why)| refuse(connection, request, status, why))?;
            Ok(Begun::Replay(open.share()))
        }
    }
}

/// The persistent Open that this CREATE made before its session ended or the server was started anew: it is
/// taken up again. None where it made none, or one that is answered from as of any other CREATE.
// MS-SMB2 3.3.5.9 (exception: what has no session is looked for before the Opens of this client, since it would be
// refused there)
fn take_up(
    connection: &Connection,
    request: &mut Request<'_>,
    tree: &Arc<Tree>,
    (asked, create_guid): (&create::Request<'_>, Guid),
    session: &Arc<Session>,
) -> Result<Option<Arc<Open>>, Stop> {
    let server = &connection.server;
    let replayed = server.index.by_create((session.client, create_guid)).and_then(|id| server.opens.get(id));
    if replayed.is_some_and(|open| open.is_replayable() && open.session_id != NO_SESSION) {
        return Ok(None);
    }
    let Some(found) = server.persistent_open(create_guid) else { return Ok(None) };
    let survival = found.survival.lock();
    // Another request may have been quicker.
    let Some(found) = super::reconnect::at(server, found.id.persistent) else { return Ok(None) };
    let not_available = Stop::Fail(NtStatus::FILE_NOT_AVAILABLE);
    let (Some(made), Some((engine, _))) = (found.made.get(), found.file()) else {
        return Err(not_available);
    };
    // Somebody has it. A client that does has used it, and so knows how its CREATE went, which would be done twice.
    if found.session_id != NO_SESSION || !tree.leads_to(engine) {
        let why = "the handle that it made is in use";
        return Err(refuse(connection, request, NtStatus::FILE_NOT_AVAILABLE, why));
    }
    if !survival.is_owned_by(session) {
        let why = "the handle that it made is another user's";
        return Err(refuse(connection, request, NtStatus::ACCESS_DENIED, why));
    }
    if made.asked_for != super::asked_for(asked) {
        let why = "it asks for something else than at first";
        return Err(refuse(connection, request, NtStatus::CONTEXT_MISMATCH, why));
    }
    connection.outlast(request, &found)?;
    resume(server, request, tree, (&found, &survival), session).map(Some)
}

/// Gives an Open that waits for its client to this session.
fn resume(
    server: &Server,
    request: &Request<'_>,
    tree: &Arc<Tree>,
    found: (&Arc<Open>, &Survival),
    session: &Arc<Session>,
) -> Result<Arc<Open>, Stop> {
    let identity = tree.identity().ok_or(Stop::Fail(NtStatus::ACCESS_DENIED))?;
    let caller = request.caller(identity, session.client, None);
    let open = super::reconnect::take_up(server, session, tree, found, &caller)?;
    open.start_sequence(request.header.channel_sequence());
    Ok(open)
}

/// The same for a durable Open that nobody has used since: it waits for its client.
// MS-SMB2 3.3.5.9 (exception: an Open without a session is not one of another session)
fn take_up_durable(
    connection: &Connection,
    request: &mut Request<'_>,
    tree: &Arc<Tree>,
    (asked, create_guid): (&Asked, Guid),
    session: &Arc<Session>,
) -> Result<Option<Arc<Open>>, Stop> {
    let server = &connection.server;
    let waits = |open: &Open| open.is_replayable() && open.session_id == NO_SESSION;
    let id = server.index.by_create((session.client, create_guid));
    let Some(found) = id.and_then(|id| Some(server.opens.get(id)?.share())).filter(|open| waits(open)) else {
        return Ok(None);
    };
    let survival = found.survival.lock();
    // Another request may have been quicker.
    let Some(found) = super::reconnect::at(server, found.id.persistent).filter(|open| waits(open)) else {
        return Ok(None);
    };
    if !found.file().is_some_and(|(engine, _)| tree.leads_to(engine)) {
        return Ok(None);
    }
    check_owner(&found, asked, &survival, session)
        .map_err(|(status, why)| refuse(connection, request, status, why))?;
    resume(server, request, tree, (&found, &survival), session).map(Some)
}

/// Whether it is the user and the lease that a CREATE came with at first.
// MS-SMB2 3.3.5.9
fn check_owner(
    open: &Open,
    asked: &Asked,
    survival: &Survival,
    session: &Session,
) -> Result<(), (NtStatus, &'static str)> {
    // An Open without a lease is not taken for one with a lease either, as Windows has it.
    let made = open.made.get().and_then(|made| made.lease);
    let same_lease = made.map(|lease| lease.key) == asked.lease.map(|lease| lease.key);
    match survival.is_owned_by(session) && same_lease {
        true => Ok(()),
        false => Err((NtStatus::ACCESS_DENIED, "it has another user or lease than at first")),
    }
}

// MS-SMB2 3.3.5.9
fn check(open: &Open, asked: &Asked, session: &Session) -> Result<(), (NtStatus, &'static str)> {
    open.made.get().ok_or((NtStatus::FILE_NOT_AVAILABLE, "it is not done yet"))?;
    let survival = open.survival.lock();
    check_owner(open, asked, &survival, session)?;
    if open.session_id != session.id {
        return Err((NtStatus::DUPLICATE_OBJECTID, "what it made is another session's"));
    }
    if survival.is_persistent() && asked.durability.request_v2.is_none_or(|v2| !v2.persistent) {
        return Err((NtStatus::INVALID_PARAMETER, "it does not ask for a persistent handle as at first"));
    }
    Ok(())
}

fn refuse(connection: &Connection, request: &Request<'_>, status: NtStatus, why: &str) -> Stop {
    connection.complain(request.session_id, status, &format!("CREATE refused: {why}"), request.now);
    Stop::Fail(status)
}

/// Answers from the Open that was made.
pub(super) fn answer(
    request: &mut Request<'_>,
    open: &Open,
    (asked, contexts): (&create::Request<'_>, &Asked),
    body: &mut Vec<u8>,
) -> Handled {
    let (engine, file) = open.file().ok_or(Stop::Fail(NtStatus::FILE_CLOSED))?;
    let made = open.made.get().ok_or(Stop::Fail(NtStatus::FILE_CLOSED))?;
    let granted = file.caching();
    let held = contexts::level(made.lease, granted);
    let oplock_level = match asked.requested_oplock_level {
        _ if made.lease.is_some() => held,
        // Who asks for less this time is answered so, and keeps what they have, as with Windows.
        less if rank(less) < rank(held) => less,
        _ => held,
    };
    // The Open is there, and a client that were told otherwise would leave it behind: it tries again, as while a CREATE
    // is under way.
    let info = engine.info(file).map_err(|_| Stop::Fail(NtStatus::FILE_NOT_AVAILABLE))?;
    let response = Response {
        info,
        action: made.action,
        oplock_level,
        lease: made.lease,
        granted,
        durable: durable(open, oplock_level, granted),
    };
    request.related.file_id = Some(open.id);
    write_response(open, contexts, &response, body)
}

/// What is said of the Open being durable: only that it is so by what is answered beside it.
// MS-SMB2 3.3.5.9.10
fn durable(open: &Open, level: OplockLevel, granted: Option<share::Grant>) -> Option<Durable> {
    let keeps = granted.is_some_and(|grant| grant.state.contains(share::Caching::HANDLE));
    let durable = open.survival.lock().durable?;
    let says = matches!(level, OplockLevel::Batch | OplockLevel::Lease) && keeps;
    ((says || durable.persistent) && durable.version == Version::Two).then_some(durable)
}

fn rank(level: OplockLevel) -> u8 {
    match level {
        OplockLevel::None | OplockLevel::Unknown(_) => 0,
        OplockLevel::LevelII => 1,
        OplockLevel::Exclusive => 2,
        OplockLevel::Batch | OplockLevel::Lease => 3,
    }
}
