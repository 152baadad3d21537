//! TREE_CONNECT: connects a session to one share (MS-SMB2 3.3.5.7).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use share::{AuditedOperation, Identity};
use smb_wire::create::Access as Rights;
use smb_wire::negotiate::Dialect;
use smb_wire::tree_connect::{self, ShareCapabilities, ShareFlags, ShareType};
use smb_wire::{NtStatus, header};
use volume::Name;

use crate::config::account::Demands;
use crate::config::{Access, Encryption, ShareConfig, Signing};
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, HomeJob, ParkReason, Request, Stop};
use crate::state::notice::Holder;
use crate::state::{Session, Tree, TreeTarget};

/// The rights of a user with write access: all rights but those to change owners and descriptors.
const WRITE: Rights = Rights::from_bits_retain(0x0013_01ff);
/// The rights of a user with read access.
const READ: Rights = Rights::FILE_GENERIC_READ.union(Rights::FILE_GENERIC_EXECUTE);

/// Answers a TREE_CONNECT.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let dialect = negotiated.protection.dialect;
    let session = Arc::clone(connection.session(request)?);
    let parsed = tree_connect::Request::parse(request.message, dialect == Dialect::Smb311)?;
    let anonymous = session.authenticated().is_none_or(|authenticated| authenticated.anonymous);
    // MS-SMB2 3.3.5.7
    let protected = request.sealed || request.header.flags().contains(header::Flags::SIGNED);
    if dialect == Dialect::Smb311 && !anonymous && !protected {
        return Err(Stop::Disconnect("a TREE_CONNECT that is neither signed nor sealed"));
    }
    let name = parsed.share().to_string_exact().ok_or(NtStatus::BAD_NETWORK_NAME)?;
    if name.eq_ignore_ascii_case("IPC$") {
        return connect_pipes(request, &session);
    }
    let config = connection.server.share_for(&name, session.user_name());
    check_endpoint(connection, &session, config.as_ref().map_or(&name, |config| &config.name))?;
    let config = config.ok_or(NtStatus::BAD_NETWORK_NAME)?;
    request.transaction.share_index = connection.desk.share_index(&config.engine);
    Stop::when(anonymous, NtStatus::ACCESS_DENIED)?;
    let connected = connect_disk(connection, request, &session, &config);
    if let (Some(by), details) = (session.authenticated(), session.details().map(|details| &**details)) {
        let refused = match &connected {
            Ok(_) => None,
            Err(Stop::Fail(NtStatus::ACCESS_DENIED)) => Some("the share is not for this user or session"),
            Err(_) => return connected,
        };
        config.engine.note_connection(AuditedOperation::Connect, &by.identity, details, refused);
    }
    connected
}

fn connect_pipes(request: &mut Request<'_>, session: &Session) -> Handled {
    let maximal = READ | Rights::WRITE_DATA;
    let connected = request.now;
    let tree = session
        .connect(|id| Tree::new(id, connected, TreeTarget::Pipes, maximal))
        .ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
    request.related.tree_id = tree.id;
    tree_connect::Response {
        share_type: ShareType::Pipe,
        share_flags: ShareFlags::NO_CACHING,
        capabilities: ShareCapabilities::empty(),
        maximal_access: maximal,
    }
    .write(request.body);
    Ok(NtStatus::SUCCESS)
}

fn connect_disk(
    connection: &Connection,
    request: &mut Request<'_>,
    session: &Session,
    config: &Arc<ShareConfig>,
) -> Handled {
    let denied = Stop::Fail(NtStatus::ACCESS_DENIED);
    let authenticated = session.authenticated().ok_or(NtStatus::USER_SESSION_DELETED)?;
    let protection = session.protection;
    let by_key = session.session_settings().is_some_and(|settings| settings.by_key);
    let access = if by_key { config.full_access() } else { config.access(&authenticated.identity) };
    let maximal = match access {
        Access::None => return Err(denied),
        Access::Read => READ,
        Access::Write => WRITE,
        Access::Full => Rights::FILE_ALL,
    };
    // A share may demand more than its account, but not less.
    let demands = check_account(connection, session, config)?;
    let seal = config.encryption == Encryption::Required || demands.seals();
    if protection.dialect.get() < config.min_dialect.get() || (seal && protection.cipher.is_none()) {
        return Err(denied);
    }
    let home = home(connection, request, session, config)?;
    let identity = limited(&authenticated.identity, maximal, home);
    let engine = Arc::clone(&config.engine);
    let connected = request.now;
    let target = TreeTarget::Disk { config: Arc::clone(config), engine: Arc::clone(&engine), identity };
    let signed = config.signing == Signing::Required || demands.signs();
    let tree =
        session.connect(|id| Tree { sealed: seal, signed, ..Tree::new(id, connected, target, maximal) });
    let tree = tree.ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
    engine.attach(session.client, Holder::new(&connection.server, &engine));
    request.related.tree_id = tree.id;
    let mut flags = ShareFlags::empty();
    // MS-SMB2 3.3.5.7: a session that seals all its messages does not need the flag.
    let asks_itself = config.encryption == Encryption::Required && !config.inherits_encryption;
    let is_news = seal && !session.sealing_required.load(Ordering::Relaxed);
    flags.set(ShareFlags::ENCRYPT_DATA, asks_itself || is_news);
    flags.set(ShareFlags::ACCESS_BASED_DIRECTORY_ENUM, config.hide_unreadable);
    let mut capabilities = ShareCapabilities::empty();
    // MS-SMB2 3.3.5.7
    if protection.dialect.is_smb3() && config.continuously_available {
        capabilities |= ShareCapabilities::CONTINUOUS_AVAILABILITY;
    }
    engine.client_returned(session.client, &authenticated.identity.sid, connected);
    tree_connect::Response {
        share_type: ShareType::Disk,
        share_flags: flags,
        capabilities,
        maximal_access: maximal,
    }
    .write(request.body);
    Ok(NtStatus::SUCCESS)
}

/// Refuses any other share at the address of a share.
fn check_endpoint(connection: &Connection, session: &Session, share: &str) -> Result<(), Stop> {
    let why = session.session_settings().and_then(|settings| settings.refusal_for_share(share));
    why.map_or(Ok(()), |why| Err(refuse(connection, session, share, &why, NtStatus::BAD_NETWORK_NAME)))
}

/// The demands of the share's account. Refuses a share of another account than the session's, and a share
/// whose account has demands that the session does not meet.
fn check_account(connection: &Connection, session: &Session, share: &ShareConfig) -> Result<Demands, Stop> {
    let settings = session.session_settings().ok_or(NtStatus::USER_SESSION_DELETED)?;
    let config = connection.server.config();
    let demands = config.reach(settings, share.account.as_deref(), session.protection);
    demands.map_err(|why| refuse(connection, session, &share.name, &why, NtStatus::ACCESS_DENIED))
}

fn refuse(connection: &Connection, session: &Session, share: &str, why: &str, status: NtStatus) -> Stop {
    let (peer, user) = (connection.handle.peer.remote, session.user_name());
    tracing::warn!(%peer, user, share, "TREE_CONNECT refused: {why}");
    Stop::Fail(status)
}

/// The user's directory on a share of homes. A client with an account's key is no user and has none.
///
/// # Errors
/// [`ParkReason::Home`] until the blocking pool has found or made it, since the directory may be on a disk
/// that is slow or gone. Otherwise a refusal.
fn home(
    connection: &Connection,
    request: &mut Request<'_>,
    session: &Session,
    share: &ShareConfig,
) -> Result<Option<Name>, Stop> {
    let Some(homes) = &share.homes else { return Ok(None) };
    let refused = |why: &str| refuse(connection, session, &share.name, why, NtStatus::BAD_NETWORK_NAME);
    let settings = session.session_settings().ok_or(NtStatus::USER_SESSION_DELETED)?;
    if settings.by_key {
        return Err(refused("a client with the key of an account has no home"));
    }
    // A reload may have put the share elsewhere meanwhile.
    if let Some(job) = request.home_job.take().filter(|job| Arc::ptr_eq(&job.homes, homes)) {
        // A job that has panicked leaves no result.
        let found = job.result.lock().take().ok_or(NtStatus::INTERNAL_ERROR)?;
        return found.map(Some).map_err(|why| refused(&why));
    }
    let authenticated = session.authenticated().ok_or(NtStatus::USER_SESSION_DELETED)?;
    let identity = Arc::clone(&authenticated.identity);
    let (homes, result) = (Arc::clone(homes), Arc::new(Mutex::new(None)));
    request.home_job = Some(HomeJob { homes: Arc::clone(&homes), result: Arc::clone(&result) });
    Err(Stop::Park(ParkReason::Home(Box::new(move || *result.lock() = Some(homes.home(&identity))))))
}

/// The user's identity within the rights on the share and within the home.
fn limited(identity: &Arc<Identity>, maximal: Rights, home: Option<Name>) -> Arc<Identity> {
    let limit = volume::security::Rights::from_bits_retain(maximal.bits());
    let mut limited = Identity { home, ..Identity::clone(identity) };
    limited.limit &= limit;
    Arc::new(limited)
}
