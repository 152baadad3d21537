//! CREATE: opens or makes a file, a directory or a pipe (MS-SMB2 3.3.5.9).
//!
//! [`handle`] checks the fields, [`contexts`] reads what comes beside them and writes what goes back;
//! the engine decides.

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
use crate::state::durable::{AskedFor, Made};
use crate::state::{Object, Open, Server, Session, Target, Tree, persistent};

pub(crate) mod contexts;
mod durability;
mod instance;
mod reconnect;
mod replay;

use contexts::{Asked, Response};

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

/// One CREATE on a share: who asks, for what and where.
#[derive(Clone, Copy)]
struct Create<'a> {
    connection: &'a Connection,
    session: &'a Arc<Session>,
    tree: &'a Arc<Tree>,
    engine: &'a Arc<Share>,
    /// The session's user, held to the share's limits.
    identity: &'a Arc<Identity>,
    asked: &'a create::Request<'a>,
    contexts: &'a Asked,
    /// Whether the Open is to outlive the server, and can.
    lasts: bool,
}

/// Answers a CREATE.
pub fn handle(connection: &mut Connection, settled: &Negotiated, request: &mut Request<'_>) -> Handled {
    let asked = &create::Request::parse(request.message)?;
    let tree = &connection.tree(request)?;
    connection.pace_metadata(request, tree)?;
    let Target::Disk { engine, identity, .. } = &tree.target else {
        check_impersonation(asked)?;
        return pipe::create(connection, request, tree, asked);
    };
    let contexts = &Asked::read(settled, asked)?;
    let connection = &*connection;
    let session = connection.session(request)?;
    // MS-SMB2 3.3.5.9.10
    let is_persistent = contexts.durability.request_v2.is_some_and(|v2| v2.persistent);
    let lasts = is_persistent && tree.is_continuously_available(contexts.capabilities);
    let create = Create { connection, session, tree, engine, identity, asked, contexts, lasts };
    if let Some(wanted) = contexts.durability.reconnect {
        return reconnect::handle(create, request, wanted);
    }
    check_impersonation(asked)?;
    check_fields(asked)?;
    create_file(create, request)
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
    const INVALID: NtStatus = NtStatus::INVALID_PARAMETER;
    let access = desired_access(asked).bits();
    Stop::when(access & !KNOWN_ACCESS != 0 || access == 0, NtStatus::ACCESS_DENIED)?;
    let share = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    Stop::when(!share.contains(asked.share_access), INVALID)?;
    Stop::when(matches!(asked.create_disposition, create::Disposition::Unknown(_)), INVALID)?;
    Stop::when(asked.file_attributes & !KNOWN_ATTRIBUTES != 0, INVALID)?;
    let options = asked.create_options;
    Stop::when(options.bits() & !KNOWN_OPTIONS != 0, INVALID)?;
    // MS-SMB2 2.2.13: what no server does.
    let refused = CreateOptions::OPEN_BY_FILE_ID | CreateOptions::RESERVE_OPFILTER | CREATE_TREE_CONNECTION;
    Stop::when(options.intersects(refused), NtStatus::NOT_SUPPORTED)?;
    // MS-FSA 2.1.5.1
    let both = CreateOptions::DIRECTORY_FILE | CreateOptions::NON_DIRECTORY_FILE;
    Stop::when(options.contains(both), INVALID)?;
    let destroys = matches!(
        asked.create_disposition,
        create::Disposition::Supersede | create::Disposition::Overwrite | create::Disposition::OverwriteIf
    );
    Stop::when(options.contains(CreateOptions::DIRECTORY_FILE) && destroys, INVALID)?;
    let deletes = Access::DELETE | Access::GENERIC_ALL | Access::MAXIMUM_ALLOWED;
    let may_delete = asked.desired_access.intersects(deletes);
    Stop::when(options.contains(CreateOptions::DELETE_ON_CLOSE) && !may_delete, INVALID)
}

/// The rights that are asked for. Nothing is appended past a cache that the client does not want.
// MS-SMB2 3.3.5.9
fn desired_access(asked: &create::Request<'_>) -> Access {
    let is_unbuffered = asked.create_options.contains(CreateOptions::NO_INTERMEDIATE_BUFFERING);
    asked.desired_access - if is_unbuffered { Access::APPEND_DATA } else { Access::empty() }
}

fn create_file(create: Create<'_>, request: &mut Request<'_>) -> Handled {
    let Create { connection, session, tree, engine, identity, asked, contexts, lasts } = create;
    let mut options = options(asked, contexts, engine.config().follow_links);
    let target = target(create, request, options)?;
    target.constrain(&mut options)?;
    if lasts {
        // MS-SMB2 3.3.5.9 (exception: an Open that ends with the server has nothing that this would save)
        options |= Options::WRITE_THROUGH;
    }
    options |= session_options(session, contexts);
    let claim = match replay::begin(create, request)? {
        replay::Begun::New(claim) => claim,
        replay::Begun::Replay(open) => return replay::answer(create, request, &open),
    };
    instance::take_over(create, request, &target)?;
    if let Err(stop) = connection.outlast_late(request, session, engine, &target, contexts.instance) {
        request.claim = claim;
        return Err(stop);
    }
    let server = &connection.server;
    let open = server.new_open(session, tree, request.header.channel_sequence(), request.now);
    let open = open.ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
    let waiter = connection.waiter_for(request);
    let caller = request.caller(identity, session.client, Some(&waiter));
    let wanted = create.wanted(&target, options, open.id);
    tree.take_host_changes(request.cause());
    match engine.create(&caller, &wanted) {
        CallResult::Done(opened) => {
            let opened = create.given_by_number(&caller, opened);
            let response = create.settle(&open, opened);
            server.enter_index(&open);
            server.join_session(session, &open, request.cause())?;
            request.related.file_id = Some(open.id);
            response.write(&open, contexts, request.body)?;
            if response.durable.is_some_and(|durable| durable.persistent) {
                return Err(once_lasting(server, engine, open, request.cause().elsewhere()));
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
            Err(path::refused(&refusal, asked.name, contexts.posix))
        }
    }
}

/// What the path leads to, as far as its form says.
fn target(create: Create<'_>, request: &Request<'_>, options: Options) -> Result<path::Target, Stop> {
    let Create { session, engine, identity, asked, contexts, .. } = create;
    let syntax = if contexts.posix_mode.is_some() { Syntax::Posix } else { Syntax::Windows };
    let has_streams = engine.config().streams;
    match path::parse(asked.name, syntax) {
        Ok(target) if has_streams || !target.names_data() => Ok(target),
        Err(_) if has_streams => {
            let caller = request.caller(identity, session.client, None);
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
    Stop::when_lasting(engine, move || told.promise.tell(), undo)
}

impl Create<'_> {
    /// What was made belongs to whom the client names by number, if that is theirs to say: chown(2). A number that is not stays
    /// without effect, since hosts seldom agree about all of them, and a client that always sends its own could make nothing.
    fn given_by_number(&self, caller: &Caller<'_>, opened: OpenResult) -> OpenResult {
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

    /// The request as the engine has it, for an Open under this id.
    fn wanted<'a>(&'a self, target: &'a path::Target, options: Options, id: FileId) -> OpenRequest<'a> {
        let Create { asked, contexts, .. } = self;
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
            caching: contexts.caching(asked, id, self.connection.handle.id),
        }
    }

    /// What was opened becomes the Open's, with what is remembered of the request.
    fn settle(&self, open: &Open, opened: OpenResult) -> Response {
        let Create { session, engine, asked, contexts, .. } = self;
        let OpenResult { open: file, outcome, info, granted } = opened;
        let is_directory = file.is_directory();
        let oplock = asked.requested_oplock_level;
        let grant = |lasts| contexts.durability.grant(contexts.lease, oplock, granted, is_directory, lasts);
        let mut durable = grant(self.lasts);
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

/// What a CREATE that is sent again must ask for too.
fn asked_for(asked: &create::Request<'_>) -> AskedFor {
    AskedFor {
        options: asked.create_options.bits(),
        access: asked.desired_access.bits(),
        share: asked.share_access.bits(),
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
        options.set(means, asked.create_options.contains(bit));
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
    let mut deny = Deny::empty();
    deny.set(Deny::READ, !shared.contains(ShareAccess::READ));
    deny.set(Deny::WRITE, !shared.contains(ShareAccess::WRITE));
    deny.set(Deny::DELETE, !shared.contains(ShareAccess::DELETE));
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
