//! CREATE: opens or creates a file, a directory or a pipe (MS-SMB2 3.3.5.9).
//!
//! [`handle`] checks the fields. [`contexts`] reads the create contexts and writes those of the response.
//! The engine decides.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use share::{
    Attributes, CallResult, Caller, Cause, Deny, Disposition, Identity, OpenRequest, OpenResult, Options,
    Outcome, Share,
};
use smb_wire::create::{self, Access, CreateAction, CreateOptions, ShareAccess};
use smb_wire::fscc::FileAttributes;
use smb_wire::fscc::names::Syntax;
use smb_wire::{FileId, NtStatus};
use volume::security::Rights;

use super::pipe;
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::path;
use crate::state::durable::{CreateRecord, ReplayParameters};
use crate::state::{Object, Open, Server, Session, Tree, TreeTarget, persistent};

pub(crate) mod contexts;
mod durability;
mod instance;
mod reconnect;
mod replay;

use contexts::{CreateContexts, Response};

/// Bits of DesiredAccess with a meaning (MS-SMB2 2.2.13.1.1).
const KNOWN_ACCESS: u32 = 0xf31f_01ff;
/// Bits of FileAttributes that a client may send (MS-FSCC 2.6).
const KNOWN_ATTRIBUTES: u32 = 0x0000_7fb7 | UNSUPPORTED_ATTRIBUTES.bits();
/// Attributes that files do not have here. A CREATE that asks for one makes the file without it.
const UNSUPPORTED_ATTRIBUTES: FileAttributes = FileAttributes::INTEGRITY_STREAM
    .union(FileAttributes::NO_SCRUB_DATA)
    .union(FileAttributes::RECALL_ON_OPEN)
    .union(FileAttributes::PINNED)
    .union(FileAttributes::UNPINNED)
    .union(FileAttributes::RECALL_ON_DATA_ACCESS);
/// Bits of CreateOptions with a meaning (MS-SMB2 2.2.13).
const KNOWN_OPTIONS: u32 = 0x00ff_ffff;
/// The bit by which NT connects a tree. It has no meaning here. Windows refuses it like the bits that
/// MS-SMB2 2.2.13 refuses.
const CREATE_TREE_CONNECTION: CreateOptions = CreateOptions::from_bits_retain(0x80);

/// An Open must have one of these rights before its CREATE may be replayed (MS-SMB2 3.3.5.9.10).
const REPLAYABLE: Rights = Rights::READ_DATA
    .union(Rights::EXECUTE)
    .union(Rights::WRITE_DATA)
    .union(Rights::APPEND_DATA)
    .union(Rights::DELETE);

/// One CREATE on a share, with its session and tree.
#[derive(Clone, Copy)]
struct Create<'a> {
    connection: &'a Connection,
    session: &'a Arc<Session>,
    tree: &'a Arc<Tree>,
    engine: &'a Arc<Share>,
    /// The session's user within the share's limits.
    identity: &'a Arc<Identity>,
    parsed: &'a create::Request<'a>,
    contexts: &'a CreateContexts,
    /// Whether the Open is requested to outlive the server, and can.
    lasts: bool,
}

/// Answers a CREATE.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let parsed = &create::Request::parse(request.message)?;
    let tree = &connection.tree(request)?;
    connection.pace_metadata(request, tree)?;
    let TreeTarget::Disk { engine, identity, .. } = &tree.target else {
        check_impersonation(parsed)?;
        return pipe::create(connection, request, tree, parsed);
    };
    let contexts = &CreateContexts::read(negotiated, parsed)?;
    let connection = &*connection;
    let session = connection.session(request)?;
    // MS-SMB2 3.3.5.9.10
    let is_persistent = contexts.durability.request_v2.is_some_and(|v2| v2.persistent);
    let lasts = is_persistent && tree.is_continuously_available(contexts.capabilities);
    let create = Create { connection, session, tree, engine, identity, parsed, contexts, lasts };
    if let Some(wanted) = contexts.durability.reconnect {
        return reconnect::handle(create, request, wanted);
    }
    check_impersonation(parsed)?;
    check_fields(parsed)?;
    create_file(create, request)
}

// MS-SMB2 3.3.5.9
fn check_impersonation(parsed: &create::Request<'_>) -> Result<(), Stop> {
    match parsed.impersonation_level {
        create::ImpersonationLevel::Unknown(_) => Err(Stop::Fail(NtStatus::BAD_IMPERSONATION_LEVEL)),
        _ => Ok(()),
    }
}

// MS-SMB2 3.3.5.9
fn check_fields(parsed: &create::Request<'_>) -> Result<(), Stop> {
    const INVALID: NtStatus = NtStatus::INVALID_PARAMETER;
    let access = desired_access(parsed).bits();
    Stop::when(access & !KNOWN_ACCESS != 0 || access == 0, NtStatus::ACCESS_DENIED)?;
    let share = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    Stop::when(!share.contains(parsed.share_access), INVALID)?;
    Stop::when(matches!(parsed.create_disposition, create::Disposition::Unknown(_)), INVALID)?;
    Stop::when(parsed.file_attributes & !KNOWN_ATTRIBUTES != 0, INVALID)?;
    let options = parsed.create_options;
    Stop::when(options.bits() & !KNOWN_OPTIONS != 0, INVALID)?;
    // MS-SMB2 2.2.13: bits that no server supports.
    let refused = CreateOptions::OPEN_BY_FILE_ID | CreateOptions::RESERVE_OPFILTER | CREATE_TREE_CONNECTION;
    Stop::when(options.intersects(refused), NtStatus::NOT_SUPPORTED)?;
    // MS-FSA 2.1.5.1
    let both = CreateOptions::DIRECTORY_FILE | CreateOptions::NON_DIRECTORY_FILE;
    Stop::when(options.contains(both), INVALID)?;
    let destroys = matches!(
        parsed.create_disposition,
        create::Disposition::Supersede | create::Disposition::Overwrite | create::Disposition::OverwriteIf
    );
    Stop::when(options.contains(CreateOptions::DIRECTORY_FILE) && destroys, INVALID)?;
    let deletes = Access::DELETE | Access::GENERIC_ALL | Access::MAXIMUM_ALLOWED;
    let may_delete = parsed.desired_access.intersects(deletes);
    Stop::when(options.contains(CreateOptions::DELETE_ON_CLOSE) && !may_delete, INVALID)
}

/// The requested rights. An unbuffered Open gets no right to append.
// MS-SMB2 3.3.5.9
fn desired_access(parsed: &create::Request<'_>) -> Access {
    let is_unbuffered = parsed.create_options.contains(CreateOptions::NO_INTERMEDIATE_BUFFERING);
    parsed.desired_access - if is_unbuffered { Access::APPEND_DATA } else { Access::empty() }
}

fn create_file(create: Create<'_>, request: &mut Request<'_>) -> Handled {
    let Create { connection, session, tree, engine, identity, parsed, contexts, lasts } = create;
    let mut options = options(parsed, contexts, engine.config().follow_links);
    let target = target(create, request, options)?;
    target.constrain(&mut options)?;
    if lasts {
        // MS-SMB2 3.3.5.9 (exception: an Open that ends with the server gains nothing from that)
        options |= Options::WRITE_THROUGH;
    }
    options |= session_options(session, contexts);
    let claim = match replay::begin(create, request)? {
        replay::ReplayCheck::New(claim) => claim,
        replay::ReplayCheck::Replay(open) => return replay::answer(create, request, &open),
    };
    instance::take_over(create, request, &target)?;
    let late =
        connection.await_late_changes(request, session, (engine, identity), &target, contexts.instance);
    if let Err(stop) = late {
        request.claim = claim;
        return Err(stop);
    }
    let server = &connection.server;
    let open = server.new_open(session, tree, request.header.channel_sequence(), request.now);
    let open = open.ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
    let waiter = connection.waiter_for(request);
    let details = session.details();
    let caller = Caller { details, ..request.caller(identity, session.client, Some(&waiter)) };
    let wanted = create.wanted(&target, options, open.id);
    tree.take_host_changes(request.cause());
    match engine.create(&caller, &wanted) {
        CallResult::Done(opened) => {
            let opened = create.change_owner(&caller, opened);
            let response = create.settle(&open, opened);
            server.enter_index(&open);
            server.join_session(session, &open, request.cause())?;
            request.related.file_id = Some(open.id);
            response.write(&open, contexts, request.body)?;
            if response.durable.is_some_and(|durable| durable.persistent) {
                return Err(complete_persistent(server, engine, open, request.cause().elsewhere()));
            }
            Ok(NtStatus::SUCCESS)
        }
        CallResult::Wait(ticket) => {
            server.opens.remove(open.id.volatile);
            request.claim = claim;
            Err(Stop::wait(engine, ticket))
        }
        CallResult::Refused(refusal) => {
            server.opens.remove(open.id.volatile);
            Err(path::refused(&refusal, parsed.name, contexts.posix))
        }
    }
}

/// The path of the CREATE, checked only for its form.
fn target(create: Create<'_>, request: &Request<'_>, options: Options) -> Result<path::ParsedPath, Stop> {
    let Create { session, engine, identity, parsed, contexts, .. } = create;
    let syntax = if contexts.posix_mode.is_some() { Syntax::Posix } else { Syntax::Windows };
    let has_streams = engine.config().streams;
    match path::parse(parsed.name, syntax) {
        Ok(target) if has_streams || !target.names_data() => Ok(target),
        Err(_) if has_streams => {
            let caller = request.caller(identity, session.client, None);
            let needs_file = matches!(
                parsed.create_disposition,
                create::Disposition::Open | create::Disposition::Overwrite
            );
            Err(path::refusal(parsed.name, syntax, contexts.posix, needs_file, |names| {
                engine.exists(&caller, names, options)
            }))
        }
        // MS-FSCC 2.1.5.2: a name must not have a colon.
        Ok(_) => Err(Stop::Fail(NtStatus::OBJECT_NAME_INVALID)),
        Err(stop) => Err(stop),
    }
}

/// Completes a CREATE with a persistent Open. If the Open cannot be recorded, its client never gets it,
/// unless a replay was answered before.
fn complete_persistent(server: &Arc<Server>, engine: &Arc<Share>, open: Arc<Open>, cause: Cause) -> Stop {
    let (server, told) = (Arc::clone(server), Arc::clone(&open));
    let undo = move || {
        if open.promise.take_back() {
            let _ = server.force_close(&open, cause);
        }
    };
    Stop::when_persistent(engine, move || told.promise.tell(), undo)
}

impl Create<'_> {
    /// Gives a new file the owner and group that the client names by number, if the client may do that:
    /// chown(2). A refused number has no effect. Hosts seldom agree about all numbers, and a client that
    /// always sends its own could otherwise create nothing.
    fn change_owner(&self, caller: &Caller<'_>, opened: OpenResult) -> OpenResult {
        let numbers = &self.contexts.numbers;
        if numbers.is_none() {
            return opened;
        }
        self.tree.speaks_numbers.store(true, Ordering::Relaxed);
        let uid = numbers.uid.filter(|uid| *uid != opened.info.uid);
        let gid = numbers.gid.filter(|gid| *gid != opened.info.gid);
        if opened.outcome != Outcome::Created || (uid, gid) == (None, None) {
            return opened;
        }
        let caller = Caller { waiter: None, ..*caller };
        for (uid, gid) in [(uid, None), (None, gid)] {
            if uid.is_some() || gid.is_some() {
                let _not_theirs = self.engine.set_owner(&caller, &opened.open, uid, gid);
            }
        }
        let info = self.engine.info(&opened.open).unwrap_or(opened.info);
        OpenResult { info, ..opened }
    }

    /// The request for the engine, for an Open with this id.
    fn wanted<'a>(&'a self, target: &'a path::ParsedPath, options: Options, id: FileId) -> OpenRequest<'a> {
        let Create { parsed, contexts, .. } = self;
        OpenRequest {
            path: &target.names,
            stream: target.stream.as_ref(),
            access: Rights::from_bits_retain(desired_access(parsed).bits()),
            deny: deny(parsed.share_access),
            disposition: disposition(parsed.create_disposition),
            options,
            attributes: Attributes::from_bits_truncate(parsed.file_attributes),
            mode: contexts.mode(),
            descriptor: contexts.descriptor.as_ref(),
            extended: &contexts.extended,
            allocation: contexts.allocation,
            caching: contexts.caching(parsed, id, self.connection.handle.id),
            step_of: None,
        }
    }

    /// Completes the Open with the opened file and the record of its CREATE.
    fn settle(&self, open: &Open, opened: OpenResult) -> Response {
        let Create { session, engine, parsed, contexts, .. } = self;
        let OpenResult { open: file, outcome, info, granted } = opened;
        let is_directory = file.is_directory();
        let oplock = parsed.requested_oplock_level;
        let grant = |lasts| contexts.durability.grant(contexts.lease, oplock, granted, is_directory, lasts);
        let mut durable = grant(self.lasts);
        if let Some(lease) = &contexts.lease {
            let _ = open.lease_key.set(lease.key.0);
        }
        let record = CreateRecord {
            client: session.client,
            create_guid: contexts.durability.request_v2.map(|v2| v2.create_guid),
            lease: contexts.lease,
            action: action(outcome),
            instance: contexts.instance,
            asked_for: asked_for(parsed),
        };
        let action = record.action;
        let _ = open.create_record.set(record);
        if durable.is_some() || contexts.durability.request_v2.is_some() {
            let mut survival = open.survival.lock();
            (survival.durable, survival.owner) = (durable, session.sid());
        }
        // MS-SMB2 3.3.5.9.10
        if contexts.durability.request_v2.is_some() && !is_directory && file.granted().intersects(REPLAYABLE)
        {
            open.set_replayable();
        }
        open.settle(Object::File { engine: Arc::clone(engine), open: file });
        if durable.is_some_and(|durable| durable.persistent) && !persistent::begin(open) {
            durable = grant(false);
            open.survival.lock().durable = durable;
        }
        let (lease, oplock_level) = (contexts.lease, contexts::level(contexts.lease, granted));
        Response { info, action, oplock_level, lease, granted, durable }
    }
}

/// The parameters that a replay of this CREATE must repeat.
fn asked_for(parsed: &create::Request<'_>) -> ReplayParameters {
    ReplayParameters {
        options: parsed.create_options.bits(),
        access: parsed.desired_access.bits(),
        share: parsed.share_access.bits(),
    }
}

fn options(parsed: &create::Request<'_>, contexts: &CreateContexts, follows_links: bool) -> Options {
    let table = [
        (CreateOptions::DIRECTORY_FILE, Options::DIRECTORY),
        (CreateOptions::NON_DIRECTORY_FILE, Options::NOT_DIRECTORY),
        (CreateOptions::DELETE_ON_CLOSE, Options::DELETE_ON_CLOSE),
        (CreateOptions::OPEN_REPARSE_POINT, Options::OPEN_LINK),
        (CreateOptions::WRITE_THROUGH, Options::WRITE_THROUGH),
        (CreateOptions::OPEN_FOR_BACKUP_INTENT, Options::BACKUP),
        (CreateOptions::COMPLETE_IF_OPLOCKED, Options::NO_WAIT_FOR_BREAK),
        (CreateOptions::NO_EA_KNOWLEDGE, Options::NO_EA_KNOWLEDGE),
    ];
    let mut options = Options::empty();
    for (bit, means) in table {
        options.set(means, parsed.create_options.contains(bit));
    }
    options.set(Options::STOP_AT_LINKS, !follows_links);
    if contexts.posix_mode.is_some() {
        // A POSIX client resolves links itself, uses case-sensitive names, and unlinks by a delete on close.
        options |= Options::STOP_AT_LINKS | Options::EXACT_CASE | Options::DELETE_AT_ONCE;
    }
    options
}

/// Options that depend on the session's client.
fn session_options(session: &Session, contexts: &CreateContexts) -> Options {
    if contexts.is_of_macos() {
        session.is_of_macos.store(true, Ordering::Relaxed);
    }
    let mut options = Options::empty();
    options.set(Options::MOVES_BESIDE_OWN, session.is_of_macos.load(Ordering::Relaxed));
    // MS-SMB2 3.3.5.9
    options.set(Options::NOT_BESIDE_ABSENT, session.protection.dialect.is_smb3());
    options
}

fn deny(shared: ShareAccess) -> Deny {
    let mut deny = Deny::empty();
    deny.set(Deny::READ, !shared.contains(ShareAccess::READ));
    deny.set(Deny::WRITE, !shared.contains(ShareAccess::WRITE));
    deny.set(Deny::DELETE, !shared.contains(ShareAccess::DELETE));
    deny
}

fn disposition(parsed: create::Disposition) -> Disposition {
    match parsed {
        create::Disposition::Supersede => Disposition::Supersede,
        create::Disposition::Create => Disposition::Create,
        create::Disposition::OpenIf => Disposition::OpenOrCreate,
        create::Disposition::Overwrite => Disposition::Overwrite,
        create::Disposition::OverwriteIf => Disposition::OverwriteOrCreate,
        // `check_fields` has refused unknown ones.
        create::Disposition::Open | create::Disposition::Unknown(_) => Disposition::Open,
    }
}

fn action(outcome: Outcome) -> CreateAction {
    match outcome {
        Outcome::Superseded => CreateAction::Superseded,
        Outcome::Opened => CreateAction::Opened,
        Outcome::Created => CreateAction::Created,
        Outcome::Overwritten => CreateAction::Overwritten,
    }
}
