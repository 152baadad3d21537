//! CREATE: opens or makes a file, a directory or a pipe (MS-SMB2 3.3.5.9).
//!
//! [`handle`] checks the fields, [`contexts`] reads what comes beside them and writes what goes back;
//! the engine decides.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use share::{
    Attributes, Caller, Cause, Deny, Disposition, Grant, Info, OpenRequest, Opened, Options, Outcome, Share,
    Step,
};
use smb_wire::create::{
    self, Access, CreateAction, CreateOptions, FileInfo, OplockLevel, ResponseFlags, ShareAccess,
};
use smb_wire::create_context::{Contexts, Lease};
use smb_wire::fscc::FileAttributes;
use smb_wire::fscc::names::Syntax;
use smb_wire::{FileId, NtStatus};
use volume::security::Rights;

use crate::connection::{Connection, Negotiated};
use crate::dispatch::Request;
use crate::durable::{Durable, Made};
use crate::exchange::outcome::{Handled, Stop};
use crate::info::Shown;
use crate::info::numbers::Numbers;
use crate::open::{Object, Open};
use crate::path;
use crate::persistent::{self, AskedFor};
use crate::server::Server;
use crate::session::Session;
use crate::tree::{Target, Tree};

pub(crate) mod contexts;
mod durability;
mod instance;
mod reconnect;
mod replay;

use contexts::Asked;

/// Bits of DesiredAccess that mean something (MS-SMB2 2.2.13.1.1).
const KNOWN_ACCESS: u32 = 0xf31f_01ff;
/// Bits of FileAttributes that a client may send (MS-FSCC 2.6).
const KNOWN_ATTRIBUTES: u32 = 0x0000_7fb7 | UNSUPPORTED_ATTRIBUTES.bits();
/// Those among them that no file has here; a CREATE that asks for one makes the file without it.
const UNSUPPORTED_ATTRIBUTES: FileAttributes = FileAttributes::INTEGRITY_STREAM
    .union(FileAttributes::NO_SCRUB_DATA)
    .union(FileAttributes::RECALL_ON_OPEN)
    .union(FileAttributes::PINNED)
    .union(FileAttributes::UNPINNED)
    .union(FileAttributes::RECALL_ON_DATA_ACCESS);
/// Bits of CreateOptions that mean something (MS-SMB2 2.2.13).
const KNOWN_OPTIONS: u32 = 0x00ff_ffff;
/// The bit by which NT connects a tree, which has no meaning here; Windows refuses it like those that
/// MS-SMB2 2.2.13 has refused.
const CREATE_TREE_CONNECTION: CreateOptions = CreateOptions::from_bits_retain(0x80);

/// Rights of which an Open must have one, for its CREATE to be replayed (MS-SMB2 3.3.5.9.10).
const REPLAYABLE: Rights = Rights::READ_DATA
    .union(Rights::EXECUTE)
    .union(Rights::WRITE_DATA)
    .union(Rights::APPEND_DATA)
    .union(Rights::DELETE);

/// Answers a CREATE.
pub(crate) fn handle(
    connection: &mut Connection,
    settled: &Negotiated,
    request: &mut Request<'_>,
    body: &mut Vec<u8>,
) -> Handled {
    let asked = create::Request::parse(request.message)?;
    let tree = connection.tree(request)?;
    connection.pace_metadata(request, &tree)?;
    match &tree.target {
        Target::Pipes => {
            check_impersonation(&asked)?;
            crate::pipe::create(connection, request, &tree, &asked, body)
        }
        Target::Disk { engine, .. } => {
            let contexts = Asked::read(settled, &asked)?;
            if let Some(wanted) = contexts.durability.reconnect() {
                return reconnect::handle(connection, request, &tree, (&asked, &contexts), wanted, body);
            }
            check_impersonation(&asked)?;
            check_fields(&asked)?;
            let engine = Arc::clone(engine);
            create_file(connection, request, &tree, &engine, &asked, &contexts, body)
        }
    }
}

// MS-SMB2 3.3.5.9
fn check_impersonation(asked: &create::Request<'_>) -> Result<(), Stop> {
    match asked.impersonation_level {
        create::ImpersonationLevel::Unknown(_) => Err(Stop::Fail(NtStatus::BAD_IMPERSONATION_LEVEL)),
        _ => Ok(()),
    }
}

// MS-SMB2 3.3.5.9
fn check_fields(asked: &create::Request<'_>) -> Result<(), Stop> {
    let invalid = Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    let access = desired_access(asked).bits();
    if access & !KNOWN_ACCESS != 0 || access == 0 {
        return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    let share = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    if !share.contains(asked.share_access)
        || matches!(asked.create_disposition, create::Disposition::Unknown(_))
        || asked.file_attributes & !KNOWN_ATTRIBUTES != 0
    {
        return invalid;
    }
    let options = asked.create_options;
    if options.bits() & !KNOWN_OPTIONS != 0 {
        return invalid;
    }
    // MS-SMB2 2.2.13: what no server does.
    let refused = CreateOptions::OPEN_BY_FILE_ID | CreateOptions::RESERVE_OPFILTER | CREATE_TREE_CONNECTION;
    if options.intersects(refused) {
        return Err(Stop::Fail(NtStatus::NOT_SUPPORTED));
    }
    // MS-FSA 2.1.5.1
    let both = CreateOptions::DIRECTORY_FILE | CreateOptions::NON_DIRECTORY_FILE;
    if options.contains(both) {
        return invalid;
    }
    let destroys = matches!(
        asked.create_disposition,
        create::Disposition::Supersede | create::Disposition::Overwrite | create::Disposition::OverwriteIf
    );
    if options.contains(CreateOptions::DIRECTORY_FILE) && destroys {
        return invalid;
    }
    let deletes = Access::DELETE | Access::GENERIC_ALL | Access::MAXIMUM_ALLOWED;
    if options.contains(CreateOptions::DELETE_ON_CLOSE) && !asked.desired_access.intersects(deletes) {
        return invalid;
    }
    Ok(())
}

/// The rights that are asked for. Nothing is appended past a cache that the client does not want.
// MS-SMB2 3.3.5.9
fn desired_access(asked: &create::Request<'_>) -> Access {
    match asked.create_options.contains(CreateOptions::NO_INTERMEDIATE_BUFFERING) {
        true => asked.desired_access.difference(Access::APPEND_DATA),
        false => asked.desired_access,
    }
}

fn create_file(
    connection: &mut Connection,
    request: &mut Request<'_>,
    tree: &Arc<Tree>,
    engine: &Arc<Share>,
    asked: &create::Request<'_>,
    contexts: &Asked,
    body: &mut Vec<u8>,
) -> Handled {
    let session = Arc::clone(connection.session(request)?);
    let Target::Disk { identity, .. } = &tree.target else {
        return Err(Stop::Fail(NtStatus::INTERNAL_ERROR));
    };
    let mut options = options(asked, contexts, engine.config().follow_links);
    let target = target(connection, request, tree, engine, (asked, contexts, options))?;
    target.constrain(&mut options)?;
    let lasts = lasts(tree, contexts);
    if lasts {
        // MS-SMB2 3.3.5.9 (exception: an Open that ends with the server has nothing that this would save)
        options |= Options::WRITE_THROUGH;
    }
    options |= session_options(&session, contexts);
    let claim = match replay::begin(connection, request, tree, (asked, contexts, lasts), &session)? {
        replay::Begun::New(claim) => claim,
        replay::Begun::Replay(open) => {
            replay::answer(request, &open, (asked, contexts), body)?;
            return persistent::replay_when_lasting(&open);
        }
    };
    instance::take_over(connection, request, tree, &target, contexts)?;
    if let Err(stop) = connection.outlast_late(request, &session, (engine, &target), contexts.instance) {
        request.claim = claim;
        return Err(stop);
    }
    let open = reserve(connection, request, &session, tree)?;
    let waiter = connection.waiter_for(request);
    let caller = request.caller(identity, session.client, Some(&waiter));
    let wanted = wanted((asked, contexts), &target, options, (open.id, connection.handle.id));
    tree.take_host_changes(request.cause());
    match engine.create(&caller, &wanted) {
        Step::Done(opened) => {
            let opened = given_by_number(&caller, (engine, tree), opened, &contexts.numbers);
            let response = settle(&open, engine, (asked, contexts), (opened, lasts), &session);
            connection.server.enter_index(&open);
            connection.server.join_session(&session, &open, request.cause())?;
            request.related.file_id = Some(open.id);
            let status = write_response(&open, contexts, &response, body)?;
            if response.durable.is_some_and(|durable| durable.persistent) {
                return Err(once_lasting(&connection.server, engine, open, request.cause().elsewhere()));
            }
            Ok(status)
        }
        Step::Wait(ticket) => {
            connection.server.opens.remove(open.id.volatile);
            request.claim = claim;
            Err(Stop::wait(engine, ticket))
        }
        Step::Refused(refusal) => {
            connection.server.opens.remove(open.id.volatile);
            Err(path::refused(&refusal, asked.name, contexts.posix))
        }
    }
}

/// What the path leads to, as far as its form says.
fn target(
    connection: &Connection,
    request: &Request<'_>,
    tree: &Tree,
    engine: &Share,
    (asked, contexts, options): (&create::Request<'_>, &Asked, Options),
) -> Result<path::Target, Stop> {
    let syntax = if contexts.posix_mode.is_some() { Syntax::Posix } else { Syntax::Windows };
    let has_streams = engine.config().streams;
    match path::parse(asked.name, syntax) {
        Ok(target) if has_streams || !target.names_data() => Ok(target),
        Err(_) if has_streams => {
            let identity = tree.identity().ok_or(Stop::Fail(NtStatus::INTERNAL_ERROR))?;
            let client = connection.session(request)?.client;
            let caller = request.caller(identity, client, None);
            let needs_file = matches!(
                asked.create_disposition,
                create::Disposition::Open | create::Disposition::Overwrite
            );
            Err(path::refusal(asked.name, syntax, contexts.posix, needs_file, |names| {
                engine.exists(&caller, names, options)
            }))
        }
        // MS-FSCC 2.1.5.2: a colon is no character of a name.
        Ok(_) => Err(Stop::Fail(NtStatus::OBJECT_NAME_INVALID)),
        Err(stop) => Err(stop),
    }
}

/// The answer to a CREATE that has made a persistent Open. Where that cannot be made to last its client never gets to
/// know it, unless a replay of this was answered before.
fn once_lasting(server: &Arc<Server>, engine: &Arc<Share>, open: Arc<Open>, cause: Cause) -> Stop {
    let (server, told) = (Arc::clone(server), Arc::clone(&open));
    let undo = move || {
        if open.promise.take_back() {
            let _ = server.force_close(&open, cause);
        }
    };
    persistent::when_lasting(engine, move || told.promise.tell(), undo)
}

/// What was made belongs to whom the client names by number, if that is theirs to say: chown(2). A number that is not stays without
/// effect, since hosts seldom agree about all of them, and a client that always sends its own could make nothing.
fn given_by_number(
    caller: &Caller<'_>,
    (engine, tree): (&Arc<Share>, &Tree),
    opened: Opened,
    numbers: &Numbers,
) -> Opened {
    if numbers.is_none() {
        return opened;
    }
    tree.speaks_numbers.store(true, Ordering::Relaxed);
    let uid = numbers.uid.filter(|uid| *uid != opened.info.uid);
    let gid = numbers.gid.filter(|gid| *gid != opened.info.gid);
    if opened.outcome != Outcome::Created || (uid, gid) == (None, None) {
        return opened;
    }
    let caller = Caller { waiter: None, ..*caller };
    for (uid, gid) in [(uid, None), (None, gid)] {
        if uid.is_some() || gid.is_some() {
            let _not_theirs = engine.set_owner(&caller, &opened.open, uid, gid);
        }
    }
    let info = engine.info(&opened.open).unwrap_or(opened.info);
    Opened { info, ..opened }
}

/// The request as the engine has it.
fn wanted<'a>(
    (asked, contexts): (&create::Request<'_>, &'a Asked),
    target: &'a path::Target,
    options: Options,
    (id, via): (FileId, u64),
) -> OpenRequest<'a> {
    OpenRequest {
        path: &target.names,
        stream: target.stream.as_ref(),
        access: Rights::from_bits_retain(desired_access(asked).bits()),
        deny: deny(asked.share_access),
        disposition: disposition(asked.create_disposition),
        options,
        attributes: Attributes::from_bits_truncate(asked.file_attributes),
        mode: contexts.mode(),
        descriptor: contexts.descriptor.as_ref(),
        extended: &contexts.extended,
        allocation: contexts.allocation,
        caching: contexts.caching(asked, id, via),
    }
}

/// Whether the Open is to outlive the server, and can.
// MS-SMB2 3.3.5.9.10
fn lasts(tree: &Tree, contexts: &Asked) -> bool {
    let wanted = contexts.durability.request_v2.is_some_and(|v2| v2.persistent);
    wanted && tree.is_continuously_available(contexts.capabilities)
}

/// Makes an Open under an id of its own, so that a break that comes at once finds it.
pub(crate) fn reserve(
    connection: &Connection,
    request: &Request<'_>,
    session: &Session,
    tree: &Arc<Tree>,
) -> Result<Arc<Open>, Stop> {
    let reserve = || connection.server.reserve_open();
    // What is kept for clients that are gone is in nobody's way.
    let id = reserve().or_else(|| if tree.relieve(request.now) { reserve() } else { None });
    let id = id.ok_or(Stop::Fail(NtStatus::INSUFFICIENT_RESOURCES))?;
    let open = Arc::new(Open::new(id, session.id, session.client, Arc::clone(tree), request.now));
    open.start_sequence(request.header.channel_sequence());
    connection.server.opens.fill(Arc::clone(&open));
    Ok(open)
}

/// What the answer to a CREATE is made of.
pub(crate) struct Response {
    pub info: Info,
    pub action: CreateAction,
    pub oplock_level: OplockLevel,
    pub lease: Option<Lease>,
    pub granted: Option<Grant>,
    /// What is said of the Open being durable.
    pub durable: Option<Durable>,
}

/// What was opened becomes the Open's, with what is remembered of the request.
fn settle(
    open: &Open,
    engine: &Arc<Share>,
    (asked, contexts): (&create::Request<'_>, &Asked),
    (opened, lasts): (Opened, bool),
    session: &Session,
) -> Response {
    let Opened { open: file, outcome, info, granted } = opened;
    let is_directory = file.is_directory();
    let oplock = asked.requested_oplock_level;
    let grant = |lasts| contexts.durability.grant(contexts, oplock, granted, (is_directory, lasts));
    let mut durable = grant(lasts);
    if let Some(lease) = &contexts.lease {
        let _ = open.lease_key.set(lease.key.0);
    }
    let made = Made {
        client: session.client,
        create_guid: contexts.durability.request_v2.map(|v2| v2.create_guid),
        lease: contexts.lease,
        action: action(outcome),
        instance: contexts.instance,
        asked_for: asked_for(asked),
    };
    let action = made.action;
    let _ = open.made.set(made);
    if durable.is_some() || contexts.durability.request_v2.is_some() {
        let mut survival = open.survival.lock();
        survival.durable = durable;
        survival.owner = session.proved().map(|proved| proved.identity.sid);
    }
    // MS-SMB2 3.3.5.9.10
    if contexts.durability.request_v2.is_some() && !is_directory && file.granted().intersects(REPLAYABLE) {
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

/// What a CREATE that is sent again must ask for too.
fn asked_for(asked: &create::Request<'_>) -> AskedFor {
    AskedFor {
        options: asked.create_options.bits(),
        access: asked.desired_access.bits(),
        share: asked.share_access.bits(),
    }
}

/// Appends the answer to a CREATE.
// MS-SMB2 3.3.5.9
pub(crate) fn write_response(
    open: &Open,
    contexts: &Asked,
    response: &Response,
    body: &mut Vec<u8>,
) -> Handled {
    let (engine, file) = open.file().ok_or(Stop::Fail(NtStatus::FILE_CLOSED))?;
    let info = &response.info;
    let mut answers = contexts.answers(engine, file, info, (response.lease, response.granted));
    answers.durable = response.durable;
    let mut flags = ResponseFlags::empty();
    if info.attributes.contains(Attributes::REPARSE) {
        flags |= ResponseFlags::REPARSEPOINT;
    }
    let fixed = create::Response {
        oplock_level: response.oplock_level,
        flags,
        create_action: response.action,
        info: file_info(info, file),
        file_id: open.id,
        contexts: Contexts::EMPTY,
    };
    answers.write(fixed, body);
    Ok(NtStatus::SUCCESS)
}

/// The times, sizes and attributes that CREATE and CLOSE answer with.
pub(crate) fn file_info(info: &Info, open: &share::Open) -> FileInfo {
    let shown = Shown::of_open(info, open);
    FileInfo {
        creation_time: crate::time::to_file_time(info.created),
        last_access_time: crate::time::to_file_time(info.accessed),
        last_write_time: crate::time::to_file_time(info.modified),
        change_time: crate::time::to_file_time(info.changed),
        allocation_size: shown.allocated(),
        end_of_file: shown.size(),
        file_attributes: shown.attributes().bits(),
    }
}

fn options(asked: &create::Request<'_>, contexts: &Asked, follows_links: bool) -> Options {
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
        if asked.create_options.contains(bit) {
            options |= means;
        }
    }
    options.set(Options::STOP_AT_LINKS, !follows_links);
    if contexts.posix_mode.is_some() {
        // A POSIX client resolves links itself, tells names apart by case, and unlinks by a delete on close.
        options |= Options::STOP_AT_LINKS | Options::EXACT_CASE | Options::DELETE_AT_ONCE;
    }
    options
}

/// What the session's client adds to every open.
fn session_options(session: &Session, contexts: &Asked) -> Options {
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
    let mut deny = Deny::all();
    for (bit, means) in [
        (ShareAccess::READ, Deny::READ),
        (ShareAccess::WRITE, Deny::WRITE),
        (ShareAccess::DELETE, Deny::DELETE),
    ] {
        if shared.contains(bit) {
            deny -= means;
        }
    }
    deny
}

fn disposition(asked: create::Disposition) -> Disposition {
    match asked {
        create::Disposition::Supersede => Disposition::Supersede,
        create::Disposition::Create => Disposition::Create,
        create::Disposition::OpenIf => Disposition::OpenOrCreate,
        create::Disposition::Overwrite => Disposition::Overwrite,
        create::Disposition::OverwriteIf => Disposition::OverwriteOrCreate,
        // Unknown ones were refused by `check_fields`.
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
