//! SESSION_SETUP: proves who somebody is (MS-SMB2 3.3.5.5).
//!
//! [`handle`] finds the log-on that a request goes on with or begins one, and hands its token on; when the user
//! is proved, [`accept`] settles what they have: a new session, one that is renewed, or a channel more ([`bind`]).

mod bind;
mod guess;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use auth::crypto::preauth_hash;
use auth::ntlm::{Names, NtHash};
use auth::{Acceptor, Account, Credentials, Login, Proof, Step};
use share::Identity;
use smb_wire::negotiate::{Dialect, SecurityMode};
use smb_wire::session_setup::{self, RequestFlags, SessionFlags};
use smb_wire::{Header, NtStatus};

use crate::account::{Comes, Standing};
use crate::config::{Encryption, ServerConfig, Signing, same_name};
use crate::connection::{Channel, Connection, Negotiated};
use crate::dispatch::Request;
use crate::exchange::outcome::{Handled, Stop};
use crate::keys;
use crate::limits::{MAX_SESSIONS_PER_CONNECTION, MAX_SETUPS, MAX_SETUPS_PER_CONNECTION};
use crate::server::Server;
use crate::session::{Proved, Session, State};
use crate::target::Verdict;

/// A log-on under way on one connection.
pub struct Setup {
    /// The session it is for.
    pub session: Arc<Session>,
    /// The pre-authentication hash of this connection and session (MS-SMB2 3.3.1.7).
    pub preauth: [u8; 64],
    acceptor: Acceptor,
    purpose: Purpose,
    _share: SetupShare,
}

/// One of the log-ons that may be half done at one time, until it is dropped.
struct SetupShare(Arc<Server>);

impl SetupShare {
    /// None when there are too many.
    fn take(server: &Arc<Server>) -> Option<SetupShare> {
        let before = server.setups.fetch_add(1, Ordering::Relaxed);
        // Dropped again when it is one too many.
        Some(SetupShare(Arc::clone(server))).filter(|_| before < MAX_SETUPS)
    }
}

impl Drop for SetupShare {
    fn drop(&mut self) {
        self.0.setups.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Setup {
    /// Whether it adds this connection to a session that others carry.
    pub fn binds(&self) -> bool {
        self.purpose == Purpose::Bind
    }
}

/// What a log-on is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A new session.
    New,
    /// The session is in use here, and its user proves themselves once more.
    Again,
    /// The session is in use on other connections, and this one is to be a channel of it.
    Bind,
}

struct Users<'a>(&'a Server);

impl Credentials for Users<'_> {
    fn lookup(&self, user: &str) -> Option<Account> {
        let found = self.0.user(user)?;
        let nt_hash = NtHash::from_bytes(found.nt_hash);
        let second_hash = found.second_hash.map(NtHash::from_bytes);
        Some(Account { name: found.identity.name.clone(), nt_hash, second_hash, disabled: !found.enabled })
    }
}

/// Answers a SESSION_SETUP.
pub(crate) fn handle(
    connection: &mut Connection,
    settled: &Negotiated,
    request: &mut Request<'_>,
    body: &mut Vec<u8>,
) -> Handled {
    let asked = session_setup::Request::parse(request.message)?;
    let config = connection.settings();
    // MS-SMB2 3.3.5.5: who must seal and cannot is told so here.
    if config.encryption == Encryption::Required && settled.protection.cipher.is_none() {
        return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    // MS-SMB2 3.3.5.5: without an id it is a log-on like any other.
    let binding = asked.flags.contains(RequestFlags::BINDING) && request.session_id != 0;
    let at = match binding {
        true => find_binding(connection, settled, request, &config)?,
        false => find_setup(connection, settled, request, &config)?,
    };
    let setup = &mut connection.setups[at];
    let session = Arc::clone(&setup.session);
    request.related.session_id = session.id;
    // What has waited was taken in when it came.
    if settled.protection.dialect == Dialect::Smb311 && !request.resumed {
        setup.preauth = preauth_hash(&setup.preauth, &signed_message(request));
    }
    let (step, user) = guess::judge(connection, request, at, asked.security_buffer)?;
    match step {
        Step::Continue(token) => {
            session_setup::Response { session_flags: SessionFlags::empty(), security_buffer: &token }
                .write(body);
            Ok(NtStatus::MORE_PROCESSING_REQUIRED)
        }
        Step::Done { reply, login } => {
            let setup = connection.setups.remove(at);
            let proving = Arc::clone(&setup.session);
            let flags = accept(connection, settled, request, &asked, setup, (&login, &config))?;
            session_setup::Response { session_flags: flags, security_buffer: &reply }.write(body);
            let anonymous = proving.proved().is_none_or(|proved| proved.anonymous);
            request.sign_answer = !anonymous;
            // MS-SMB2 3.3.5.5.3
            connection.constrained &= anonymous;
            Ok(NtStatus::SUCCESS)
        }
        Step::Refused(why) => {
            let setup = connection.setups.remove(at);
            let (session, user) = (&setup.session, user.as_deref().unwrap_or_default());
            let (id, reason) = (session.id, why.to_string());
            match setup.purpose {
                Purpose::New => connection.warn_of_log_on(user, &reason, "log-on refused", request.now),
                Purpose::Again => {
                    let what = "log-on refused and session ended: it was to be renewed";
                    connection.warn_of_log_on(user, &reason, what, request.now);
                }
                Purpose::Bind => {
                    let what = format!("channel refused: {why}");
                    connection.complain(id, status_of(&why), &what, request.now);
                }
            }
            abandon(connection, &setup, request);
            Err(Stop::Fail(status_of(&why)))
        }
    }
}

/// The log-on that the request goes on with, or a new one.
fn find_setup(
    connection: &mut Connection,
    settled: &Negotiated,
    request: &Request<'_>,
    config: &ServerConfig,
) -> Result<usize, Stop> {
    let mut setups = connection.setups.iter();
    if let Some(at) = setups.position(|setup| setup.session.id == request.session_id && !setup.binds()) {
        return Ok(at);
    }
    if request.session_id == 0 {
        // MS-SMB2 3.3.5.5.1
        let share = check_room(connection)?;
        let server = &connection.server;
        let (guid, client) = (settled.client_guid, settled.client);
        let session = server.new_session(guid, client, settled.protection, request.now);
        let added = session.add_channel(&connection.handle, 1);
        added.map_err(|_| Stop::Fail(NtStatus::INSUFFICIENT_RESOURCES))?;
        return Ok(begin(connection, session, Purpose::New, share, config));
    }
    // MS-SMB2 3.3.5.5: a session that is in use on this connection is authenticated again.
    let found = connection.channel_of(request.session_id);
    let found = found.map(|at| Arc::clone(&connection.channels[at].session));
    match found.filter(|session| session.state() == State::Valid) {
        Some(session) => {
            let share = check_room(connection)?;
            Ok(begin(connection, session, Purpose::Again, share, config))
        }
        None => {
            connection.complain_of_stolen(request);
            Err(Stop::Fail(NtStatus::USER_SESSION_DELETED))
        }
    }
}

/// The binding that the request goes on with, or a new one. Each request of a binding is checked from the start:
/// the session may have ended on another connection since the last one.
fn find_binding(
    connection: &mut Connection,
    settled: &Negotiated,
    request: &Request<'_>,
    config: &ServerConfig,
) -> Result<usize, Stop> {
    let id = request.session_id;
    let checked = bind::session_to_bind(connection, settled, request, config);
    let under_way = connection.setups.iter().position(|setup| setup.session.id == id && setup.binds());
    match (checked, under_way) {
        (Ok(session), Some(at)) if Arc::ptr_eq(&session, &connection.setups[at].session) => Ok(at),
        (checked, stale) => {
            if let Some(at) = stale {
                connection.setups.remove(at);
            }
            let session = checked?;
            let share = check_room(connection)?;
            Ok(begin(connection, session, Purpose::Bind, share, config))
        }
    }
}

/// Whether one log-on more may be half done.
fn check_room(connection: &Connection) -> Result<SetupShare, Stop> {
    let (carried, under_way) = (connection.channels.len(), connection.setups.len());
    let has_room = carried + under_way < MAX_SESSIONS_PER_CONNECTION && under_way < MAX_SETUPS_PER_CONNECTION;
    let share = has_room.then(|| SetupShare::take(&connection.server)).flatten();
    share.ok_or(Stop::Fail(NtStatus::INSUFFICIENT_RESOURCES))
}

/// Begins a log-on and says where it is in the list.
fn begin(
    connection: &mut Connection,
    session: Arc<Session>,
    purpose: Purpose,
    share: SetupShare,
    config: &ServerConfig,
) -> usize {
    let names = Names {
        netbios_computer: config.name.clone(),
        netbios_domain: config.name.clone(),
        dns_computer: config.dns_name.clone(),
        dns_domain: String::new(),
    };
    let acceptor = Acceptor::new(&auth::Config::new(names));
    connection.setups.push(Setup { session, preauth: connection.preauth, acceptor, purpose, _share: share });
    connection.setups.len() - 1
}

/// The user is proved: keys, flags, and what an earlier session of theirs leaves (MS-SMB2 3.3.5.5.3).
fn accept(
    connection: &mut Connection,
    settled: &Negotiated,
    request: &Request<'_>,
    asked: &session_setup::Request<'_>,
    setup: Setup,
    (login, config): (&Login, &ServerConfig),
) -> Result<SessionFlags, Stop> {
    let server = Arc::clone(&connection.server);
    check_target(connection, &setup, login, config, request)?;
    let (identity, key_of) =
        user_of(&server, login, config).inspect_err(|_| abandon(connection, &setup, request))?;
    let session = &setup.session;
    check_dialect(connection, settled, &setup, request)?;
    let memory = &config.session_memory;
    let payer = memory.payer(session.client, &identity);
    if setup.purpose == Purpose::New && !session.take_memory(memory, payer) {
        memory.refuse(payer, &identity.name, request.now.mono_ns);
        abandon(connection, &setup, request);
        return Err(Stop::Fail(NtStatus::INSUFFICIENT_RESOURCES));
    }
    let signs = config.signing == Signing::Required
        || asked.security_mode.contains(SecurityMode::SIGNING_REQUIRED)
        || settled.client_security.contains(SecurityMode::SIGNING_REQUIRED);
    let (is_owner, now) = (same_name(session.user_name(), &identity.name), request.now);
    match setup.purpose {
        Purpose::New => {
            // Before the session can be found to be in use, so that no binding counts by anything else.
            let comes = Comes { protection: session.protection, signs, key_of: key_of.as_deref() };
            session.settle(standing(connection, request, &setup, &identity, comes)?);
            log_on(connection, &setup, login, identity);
        }
        Purpose::Bind if !is_owner => return Err(bind::other_user(connection, session, &identity.name, now)),
        Purpose::Bind => {
            bind::take_channel(connection, settled, &setup, &login.session_key, config, now)?;
            connection.deadline = None;
        }
        // MS-SMB2 3.3.5.5.3: another user may not take the session over; its keys and its user stay as they
        // are, also when its client shows for once that it has no name.
        Purpose::Again if !is_owner && !login.is_anonymous() => {
            let (peer, of) = (connection.handle.peer.remote, session.user_name());
            tracing::info!(%peer, session = session.id, of, user = identity.name, "session ends: renewed by another");
            server.end_session(session, request.cause());
            return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
        }
        Purpose::Again => {}
    }
    let standing = session.standing();
    let required = signs || standing.is_some_and(|standing| standing.signs);
    // MS-SMB2 3.3.5.5.3 (exception: a further channel does not change what the others need not do so far)
    if required && setup.purpose != Purpose::Bind {
        session.signing_required.store(true, Ordering::Relaxed);
    }
    end_previous(&server, session, asked.previous_session_id, request);
    let mut flags = SessionFlags::empty();
    let seals = config.encryption == Encryption::Required || standing.is_some_and(|standing| standing.seals);
    if login.is_anonymous() && setup.purpose == Purpose::New {
        flags |= SessionFlags::IS_NULL;
    } else if seals && setup.purpose != Purpose::Bind {
        session.sealing_required.store(true, Ordering::Relaxed);
        flags |= SessionFlags::ENCRYPT_DATA;
    }
    Ok(flags)
}

/// Who has logged on, and the account whose key they came with.
fn user_of(
    server: &Server,
    login: &Login,
    config: &ServerConfig,
) -> Result<(Arc<Identity>, Option<String>), Stop> {
    if login.is_anonymous() {
        let nobody = config.anonymous.then(|| (Arc::new(crate::config::nobody()), None));
        return nobody.ok_or(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    let user = server.user(&login.user).ok_or(Stop::Fail(NtStatus::LOGON_FAILURE))?;
    Ok((Arc::clone(&user.identity), user.key_of.clone()))
}

/// Who has proved a password must have meant this server by it.
fn check_target(
    connection: &mut Connection,
    setup: &Setup,
    login: &Login,
    config: &ServerConfig,
    request: &Request<'_>,
) -> Result<(), Stop> {
    if login.proof != Proof::Password {
        return Ok(());
    }
    let interfaces = connection.server.interfaces();
    let own = interfaces.iter().map(|at| at.address);
    match config.judge_target(&login.target, connection.handle.peer.local.ip(), own) {
        Verdict::Fine => Ok(()),
        Verdict::Unknown(name) => {
            let why = format!(
                "it is meant for `{name}`: add the name to `spn_names` if it is one of this server's"
            );
            connection.warn_of_log_on(
                &login.user,
                &why,
                "log-on for an unknown server is let in",
                request.now,
            );
            Ok(())
        }
        Verdict::Refused(why) => {
            connection.warn_of_log_on(&login.user, &why, "log-on refused", request.now);
            abandon(connection, setup, request);
            Err(Stop::Fail(NtStatus::ACCESS_DENIED))
        }
    }
}

/// What the user's account says of a new session, which ends before it begins where the account's demands are not met.
fn standing(
    connection: &mut Connection,
    request: &Request<'_>,
    setup: &Setup,
    identity: &Identity,
    comes: Comes<'_>,
) -> Result<Standing, Stop> {
    let config = connection.server.config().clone();
    let user = &identity.name;
    let known = connection.account.as_ref();
    let standing = config.standing(known, user, comes);
    standing.map_err(|why| {
        let peer = connection.handle.peer.remote;
        tracing::warn!(%peer, user, "log-on refused: {why}");
        abandon(connection, setup, request);
        Stop::Fail(NtStatus::ACCESS_DENIED)
    })
}

/// A client has one dialect: a new session in another one ends before it begins.
// MS-SMB2 3.3.5.5.3
fn check_dialect(
    connection: &mut Connection,
    settled: &Negotiated,
    setup: &Setup,
    request: &Request<'_>,
) -> Result<(), Stop> {
    let client = connection.server.client(settled.client);
    let dialect = settled.protection.dialect;
    if setup.purpose != Purpose::New || client.is_none_or(|client| client.speaks(dialect)) {
        return Ok(());
    }
    let peer = connection.handle.peer.remote;
    tracing::info!(%peer, ?dialect, "log-on refused: its client speaks another dialect on its other connections");
    abandon(connection, setup, request);
    Err(Stop::Fail(NtStatus::USER_SESSION_DELETED))
}

/// Gives a new session its user and keys, and this connection as its first channel.
fn log_on(connection: &mut Connection, setup: &Setup, login: &Login, identity: Arc<Identity>) {
    let Setup { session, preauth, .. } = setup;
    let protection = session.protection;
    let key: &[u8; 16] = &login.session_key;
    // MS-SMB2 3.3.5.5.3: Session.SigningKey is Channel.SigningKey of the first channel.
    let new_signer = || keys::signer(protection, key, preauth);
    let seal = keys::server_seal(protection, key, preauth);
    session.prove(Proved { identity, anonymous: login.is_anonymous(), signer: new_signer(), seal });
    connection.channels.push(Channel { session: Arc::clone(session), signer: new_signer() });
    connection.deadline = None;
    tracing::info!(
        peer = %connection.handle.peer.remote,
        user = session.user_name(),
        workstation = login.workstation,
        dialect = ?protection.dialect,
        "logged on"
    );
}

// MS-SMB2 3.3.5.5.3
fn end_previous(server: &Arc<Server>, session: &Arc<Session>, previous: u64, request: &Request<'_>) {
    if previous == 0 || previous == session.id {
        return;
    }
    let Some(old) = server.session(previous) else { return };
    if old.state() == State::Valid && old.user_name() == session.user_name() {
        tracing::info!(
            session = old.id,
            by = session.id,
            user = old.user_name(),
            "session replaced by its client"
        );
        server.end_session(&old, request.cause());
    }
}

/// A log-on that has failed takes its session along (MS-SMB2 3.3.5.5.3), but a channel that was refused does
/// nothing to the session it was for.
fn abandon(connection: &mut Connection, setup: &Setup, request: &Request<'_>) {
    if setup.binds() {
        return;
    }
    connection.server.end_session(&setup.session, request.cause());
    connection.forget_session(setup.session.id);
}

/// The request as it was sent: with its signature, as the pre-authentication hash wants it.
fn signed_message(request: &Request<'_>) -> Vec<u8> {
    let mut message = request.message.to_vec();
    if let Ok(header) = Header::parse_mut(&mut message) {
        header.set_signature(request.signature);
    }
    message
}

/// Why somebody is not let in, for the client.
fn status_of(why: &auth::Refusal) -> NtStatus {
    use auth::Refusal;
    match why {
        Refusal::BadToken(_) | Refusal::BadMessage(_) | Refusal::OutOfTurn | Refusal::TooWeak => {
            NtStatus::INVALID_PARAMETER
        }
        Refusal::NoCommonMechanism => NtStatus::LOGON_FAILURE,
        Refusal::OldResponse | Refusal::WrongCredentials | Refusal::Rejected => NtStatus::LOGON_FAILURE,
        Refusal::AccountDisabled => NtStatus::ACCOUNT_DISABLED,
        Refusal::WrongMic | Refusal::WrongMechListMic => NtStatus::LOGON_FAILURE,
    }
}
