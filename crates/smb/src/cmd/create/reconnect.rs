//! Reconnects a CREATE to an Open whose session has ended (MS-SMB2 3.3.5.9.7, 3.3.5.9.12).

use std::sync::Arc;

use share::{CacheKey, Caching, Caller, Identity, Share};
use smb_wire::create::CreateAction;
use smb_wire::create_context::Lease;
use smb_wire::fscc::names::Syntax;
use smb_wire::{Guid, NtStatus, create};

use super::Create;
use super::contexts::{self, Response};
use super::durability::Reconnect;
use crate::exchange::{Handled, Request, Stop};
use crate::path;
use crate::state::durable::{CreateRecord, Survival};
use crate::state::open::NO_SESSION;
use crate::state::{Open, Server};

/// The CreateGuid of an Open that was created without one.
const NO_GUID: Guid = Guid([0; 16]);

const NOT_FOUND: Stop = Stop::Fail(NtStatus::OBJECT_NAME_NOT_FOUND);

/// Answers a CREATE with a reconnect.
pub(super) fn handle(create: Create<'_>, request: &mut Request<'_>, wanted: Reconnect) -> Handled {
    let Create { connection, session, tree, parsed, contexts, .. } = create;
    let server = &connection.server;
    // MS-SMB2 3.3.5.9.7
    // MS-SMB2 3.3.5.9.12
    let lasts = tree.is_continuously_available(contexts.capabilities);
    let by_guid = wanted.v2.filter(|v2| v2.persistent && lasts).map(|v2| v2.create_guid);
    server.restore_expected(Some(wanted.file_id.persistent), by_guid)?;
    let found = at(server, wanted.file_id.persistent).or_else(|| server.persistent_open(by_guid?));
    let found = found.ok_or(NOT_FOUND)?;
    let survival = found.survival.lock();
    // Another request may have reconnected to it first.
    let found = at(server, found.id.persistent).ok_or(NOT_FOUND)?;
    let (Some((engine, file)), Some(create_record)) = (found.file(), found.create_record.get()) else {
        return Err(NOT_FOUND);
    };
    create.check(&Candidate { open: &found, file, create_record, survival: &survival }, wanted)?;
    // MS-SMB2 3.3.5.9.7 (exception: a reconnect must come on the share of the Open)
    if !tree.leads_to(engine) {
        return Err(NOT_FOUND);
    }
    let goes = |lease: Lease| {
        engine.is_key_delete_pending(create_record.client, CacheKey(u128::from_le_bytes(lease.key.0)), true)
    };
    let is_lost = create_record.lease.is_some_and(|lease| !goes(lease));
    Stop::when(is_lost && !is_named(create.identity, engine, file, parsed), NtStatus::INVALID_PARAMETER)?;
    // MS-SMB2 3.3.5.9.12
    let asks_to_last = wanted.v2.is_some_and(|v2| v2.persistent);
    Stop::when(asks_to_last && !survival.is_persistent(), NtStatus::INVALID_PARAMETER)?;
    if !survival.is_owned_by(session.sid()) {
        let (user, open) = (session.user_name(), found.id.persistent);
        tracing::info!(user, open, "refused to take up another user's open");
        return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    connection.await_changes(request, &found)?;
    // Nothing may fail after the reconnect: the client could not reconnect a second time.
    let info = engine.info(file)?;
    let open = create.take_up(request, &found, &survival)?;
    drop(survival);
    request.related.file_id = Some(open.id);
    let (lease, granted) = (create_record.lease, file.caching());
    let response = Response {
        info,
        action: CreateAction::Opened,
        oplock_level: contexts::level(lease, granted),
        lease,
        granted,
        // MS-SMB2 3.3.5.9.7: the response does not repeat the durable context, as in Windows.
        durable: None,
    };
    response.write(&open, contexts, request.body)
}

/// The Open with this persistent id, as it is now.
pub(super) fn at(server: &Server, persistent: u64) -> Option<Arc<Open>> {
    Some(server.opens.get(server.index.by_durable_id(persistent)?)?.share())
}

/// The values that are checked before a reconnect.
struct Candidate<'a> {
    open: &'a Open,
    file: &'a share::Open,
    create_record: &'a CreateRecord,
    survival: &'a Survival,
}

/// Whether the request has the current name of the file.
fn is_named(user: &Identity, engine: &Share, file: &share::Open, parsed: &create::Request<'_>) -> bool {
    path::parse(parsed.name, Syntax::Windows).is_ok_and(|target| target.is_path_of(user, engine, file))
}

impl Create<'_> {
    fn check(&self, found: &Candidate<'_>, wanted: Reconnect) -> Result<(), Stop> {
        let Candidate { open, file, create_record, survival } = found;
        let given = self.contexts.lease_context;
        let key = |lease: Option<Lease>| lease.map(|lease| lease.key);
        let version = |lease: Option<Lease>| lease.map(|lease| lease.v2.is_some());
        let held = file.caching().map_or(Caching::empty(), |grant| grant.state);
        // MS-SMB2 3.3.5.9.7
        // MS-SMB2 3.3.5.9.12
        let fits = (create_record.lease.is_none() || create_record.client == self.session.client)
            && wanted.v2.is_none_or(|v2| v2.create_guid == create_record.create_guid.unwrap_or(NO_GUID))
            && survival.survives()
            && (!survival.is_persistent() || wanted.v2.is_some_and(|v2| v2.persistent))
            && open.session_id == NO_SESSION
            && key(create_record.lease) == key(given)
            && version(create_record.lease) == version(given)
            // A batch oplock is the only one with it, too. A persistent Open is kept without (exception: as
            // in Windows).
            && (survival.durable.is_none() || survival.is_persistent() || held.contains(Caching::HANDLE));
        if fits { Ok(()) } else { Err(NOT_FOUND) }
    }

    /// Gives the Open a new id, session and tree. The caller has its survival locked.
    pub(super) fn take_up(
        &self,
        request: &Request<'_>,
        found: &Arc<Open>,
        survival: &Survival,
    ) -> Result<Arc<Open>, Stop> {
        let Create { session, tree, identity, .. } = self;
        let server = &self.connection.server;
        let (engine, file) = found.file().ok_or(NOT_FOUND)?;
        let volatile = server.opens.reserve().ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
        let open = Arc::new(found.reconnected(volatile, session.id, session.client, Arc::clone(tree)));
        // An immediate break must find it.
        server.opens.fill(Arc::clone(&open));
        server.index.enter(&open, survival.is_persistent());
        let details = session.details();
        let caller = Caller { details, ..request.caller(identity, session.client, None) };
        if engine.reclaim(file, &caller).is_err() {
            server.index.remove(&open);
            server.opens.remove(volatile);
            return Err(NOT_FOUND);
        }
        server.opens.remove(found.id.volatile);
        server.index.remove(found);
        server.join_session(session, &open, request.cause())?;
        // A session counts from its own start, and no request of the old one can come late any more.
        open.start_sequence(request.header.channel_sequence());
        Ok(open)
    }
}
