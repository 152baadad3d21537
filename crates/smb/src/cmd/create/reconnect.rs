//! CREATE that takes an Open up again whose session is gone (MS-SMB2 3.3.5.9.7, 3.3.5.9.12).

use std::sync::Arc;

use share::{CacheKey, Caching, Caller, Info, Share};
use smb_wire::create::CreateAction;
use smb_wire::create_context::Lease;
use smb_wire::fscc::names::Syntax;
use smb_wire::{Guid, NtStatus, create};

use super::contexts::{self, Asked};
use super::durability::Reconnect;
use super::{Response, write_response};
use crate::connection::Connection;
use crate::dispatch::Request;
use crate::durable::{Made, Survival};
use crate::exchange::outcome::{Handled, Stop};
use crate::open::{NO_SESSION, Open};
use crate::path;
use crate::server::Server;
use crate::session::Session;
use crate::tree::Tree;

/// What the CreateGuid of an Open is that was made without one.
const NO_GUID: Guid = Guid([0; 16]);

const NOT_FOUND: Stop = Stop::Fail(NtStatus::OBJECT_NAME_NOT_FOUND);

/// Answers a CREATE that comes back for an Open.
pub(crate) fn handle(
    connection: &mut Connection,
    request: &mut Request<'_>,
    tree: &Arc<Tree>,
    (asked, contexts): (&create::Request<'_>, &Asked),
    wanted: Reconnect,
    body: &mut Vec<u8>,
) -> Handled {
    let server = Arc::clone(&connection.server);
    let session = Arc::clone(connection.session(request)?);
    // MS-SMB2 3.3.5.9.7
    // MS-SMB2 3.3.5.9.12
    let lasts = tree.is_continuously_available(contexts.capabilities);
    let by_guid = wanted.v2.filter(|v2| v2.persistent && lasts).map(|v2| v2.create_guid);
    let found = at(&server, wanted.file_id.persistent).or_else(|| server.persistent_open(by_guid?));
    let found = found.ok_or(NOT_FOUND)?;
    let survival = found.survival.lock();
    // Another request may have been quicker.
    let found = at(&server, found.id.persistent).ok_or(NOT_FOUND)?;
    let (Some((engine, file)), Some(made)) = (found.file(), found.made.get()) else {
        return Err(NOT_FOUND);
    };
    check(&Candidate { open: &found, file, made, survival: &survival }, &session, contexts, wanted)?;
    // MS-SMB2 3.3.5.9.7 (exception: an Open is taken up on the share on which it was made)
    let identity = tree.identity().filter(|_| tree.leads_to(engine)).ok_or(NOT_FOUND)?;
    let goes = |lease: Lease| engine.goes(made.client, CacheKey(u128::from_le_bytes(lease.key.0)), true);
    if made.lease.is_some_and(|lease| !goes(lease)) && !is_named(engine, file, asked) {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    // MS-SMB2 3.3.5.9.12
    if wanted.v2.is_some_and(|v2| v2.persistent) && !survival.is_persistent() {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    if !survival.is_owned_by(&session) {
        tracing::info!(
            user = session.user_name(),
            open = found.id.persistent,
            "refused to take up another user's open"
        );
        return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    connection.outlast(request, &found)?;
    let caller = request.caller(identity, session.client, None);
    // Nothing may fail once it is taken up: its client could not come back for it a second time.
    let info = engine.info(file)?;
    let open = take_up(&server, &session, tree, (&found, &survival), &caller)?;
    drop(survival);
    // A session counts from its own beginning, and nothing of the old one can be late any more.
    open.start_sequence(request.header.channel_sequence());
    request.related.file_id = Some(open.id);
    respond(&open, (contexts, info), body)
}

/// The Open under the persistent half of its id, as it is reached now.
pub(super) fn at(server: &Server, persistent: u64) -> Option<Arc<Open>> {
    Some(server.opens.get(server.index.by_durable_id(persistent)?)?.share())
}

/// What is looked at before an Open is taken up.
struct Candidate<'a> {
    open: &'a Open,
    file: &'a share::Open,
    made: &'a Made,
    survival: &'a Survival,
}

fn check(found: &Candidate<'_>, session: &Session, asked: &Asked, wanted: Reconnect) -> Result<(), Stop> {
    let Candidate { open, file, made, survival } = found;
    let given = asked.lease_context;
    let key = |lease: Option<Lease>| lease.map(|lease| lease.key);
    let version = |lease: Option<Lease>| lease.map(|lease| lease.v2.is_some());
    let held = file.caching().map_or(Caching::empty(), |grant| grant.state);
    // MS-SMB2 3.3.5.9.7
    // MS-SMB2 3.3.5.9.12
    let fits = (made.lease.is_none() || made.client == session.client)
        && wanted.v2.is_none_or(|v2| v2.create_guid == made.create_guid.unwrap_or(NO_GUID))
        && survival.survives()
        && (!survival.is_persistent() || wanted.v2.is_some_and(|v2| v2.persistent))
        && open.session_id == NO_SESSION
        && key(made.lease) == key(given)
        && version(made.lease) == version(given)
        // A batch oplock is the only one that has it, too. A persistent Open is kept without (exception: as
        // Windows has it).
        && (survival.durable.is_none() || survival.is_persistent() || held.contains(Caching::HANDLE));
    if fits { Ok(()) } else { Err(NOT_FOUND) }
}

/// Whether the request names the file as it is called now.
fn is_named(engine: &Share, file: &share::Open, asked: &create::Request<'_>) -> bool {
    path::parse(asked.name, Syntax::Windows).is_ok_and(|target| target.is_path_of(engine, file))
}

/// Gives the Open a new id, session and tree. Called with its survival locked.
pub(super) fn take_up(
    server: &Server,
    session: &Arc<Session>,
    tree: &Arc<Tree>,
    (found, survival): (&Arc<Open>, &Survival),
    caller: &Caller<'_>,
) -> Result<Arc<Open>, Stop> {
    let (engine, file) = found.file().ok_or(NOT_FOUND)?;
    let volatile = server.opens.reserve().ok_or(Stop::Fail(NtStatus::INSUFFICIENT_RESOURCES))?;
    let open = Arc::new(found.rebound(volatile, session.id, session.client, Arc::clone(tree)));
    // A break that comes at once must find it.
    server.opens.fill(Arc::clone(&open));
    server.index.enter(&open, survival.is_persistent());
    if engine.reclaim(file, caller).is_err() {
        server.index.remove(&open);
        server.opens.remove(volatile);
        return Err(NOT_FOUND);
    }
    server.opens.remove(found.id.volatile);
    server.index.remove(found);
    server.join_session(session, &open, caller.cause())?;
    Ok(open)
}

fn respond(open: &Open, (contexts, info): (&Asked, Info), body: &mut Vec<u8>) -> Handled {
    let (Some((_, file)), Some(made)) = (open.file(), open.made.get()) else { return Err(NOT_FOUND) };
    let (lease, granted) = (made.lease, file.caching());
    let response = Response {
        info,
        action: CreateAction::Opened,
        oplock_level: contexts::level(lease, granted),
        lease,
        granted,
        // MS-SMB2 3.3.5.9.7: no context says again that it is durable, as Windows has it.
        durable: None,
    };
    write_response(open, contexts, &response, body)
}
