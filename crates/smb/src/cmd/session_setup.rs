//! SESSION_SETUP: proves who somebody is (MS-SMB2 3.3.5.5).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use auth::crypto::preauth_hash;
use auth::ntlm::{Names, NtHash};
use auth::{Acceptor, Account, Credentials, Login, Step};
use smb_wire::negotiate::{Dialect, SecurityMode};
use smb_wire::session_setup::{self, RequestFlags, SessionFlags};
use smb_wire::{Header, NtStatus};

use crate::config::{Encryption, ServerConfig, Signing};
use crate::connection::{Channel, Connection};
use crate::dispatch::Request;
use crate::keys;
use crate::limits::MAX_SESSIONS_PER_CONNECTION;
use crate::server::Server;
use crate::session::{Proved, Session, State};
use crate::suspend::{Handled, Stop};

/// A log-on under way on one connection.
pub struct Setup {
    /// The session it is for.
    pub session: Arc<Session>,
    /// The pre-authentication hash of this connection and session (MS-SMB2 3.3.1.7).
    pub preauth: [u8; 64],
    acceptor: Acceptor,
    /// The session is in use, and its user proves themselves once more.
    again: bool,
}

struct Users<'a>(&'a Server);

impl Credentials for Users<'_> {
    fn lookup(&self, user: &str) -> Option<Account> {
        let found = self.0.user(user)?;
        let nt_hash = NtHash::from_bytes(found.nt_hash);
        Some(Account { name: found.identity.name.clone(), nt_hash, disabled: !found.enabled })
    }
}

/// Answers a SESSION_SETUP.
pub(crate) fn handle(connection: &mut Connection, request: &mut Request<'_>, body: &mut Vec<u8>) -> Handled {
    let asked = session_setup::Request::parse(request.message)?;
    let negotiated = *connection.negotiated()?;
    let config = connection.server.config().clone();
    // MS-SMB2 3.3.5.5: who must seal and cannot is told so here.
    if config.encryption == Encryption::Required && negotiated.protection.cipher.is_none() {
        return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    if asked.flags.contains(RequestFlags::BINDING) {
        // MS-SMB2 3.3.5.5 (exception: no channel is bound to a session of another connection)
        return Err(Stop::Fail(NtStatus::REQUEST_NOT_ACCEPTED));
    }
    let at = find_setup(connection, request, &config)?;
    let setup = &mut connection.setups[at];
    let session = Arc::clone(&setup.session);
    request.related.session_id = session.id;
    if negotiated.protection.dialect == Dialect::Smb311 {
        setup.preauth = preauth_hash(&setup.preauth, &signed_message(request));
    }
    match setup.acceptor.step(asked.security_buffer, &Users(&connection.server), request.now) {
        Step::Continue(token) => {
            session_setup::Response { session_flags: SessionFlags::empty(), security_buffer: &token }
                .write(body);
            Ok(NtStatus::MORE_PROCESSING_REQUIRED)
        }
        Step::Done { reply, login } => {
            let setup = connection.setups.remove(at);
            let proving = Arc::clone(&setup.session);
            let flags = accept(connection, request, &asked, setup, &login, &config)?;
            session_setup::Response { session_flags: flags, security_buffer: &reply }.write(body);
            let anonymous = proving.proved().is_none_or(|proved| proved.anonymous);
            request.sign_answer = !anonymous;
            Ok(NtStatus::SUCCESS)
        }
        Step::Refused(why) => {
            tracing::info!(peer = %connection.handle.peer.remote, %why, "log-on refused");
            let setup = connection.setups.remove(at);
            abandon(connection, &setup, request);
            Err(Stop::Fail(status_of(&why)))
        }
    }
}

/// The log-on that the request goes on with, or a new one.
fn find_setup(
    connection: &mut Connection,
    request: &Request<'_>,
    config: &ServerConfig,
) -> Result<usize, Stop> {
    if let Some(at) = connection.setups.iter().position(|setup| setup.session.id == request.session_id) {
        return Ok(at);
    }
    let negotiated = *connection.negotiated()?;
    let (session, again) = if request.session_id == 0 {
        // MS-SMB2 3.3.5.5.1
        if connection.channels.len() + connection.setups.len() >= MAX_SESSIONS_PER_CONNECTION {
            return Err(Stop::Fail(NtStatus::INSUFFICIENT_RESOURCES));
        }
        let server = &connection.server;
        let (guid, client) = (negotiated.client_guid, negotiated.client);
        let session = server.new_session(guid, client, negotiated.protection, request.now);
        session.add_channel(&connection.handle);
        (session, false)
    } else {
        // MS-SMB2 3.3.5.5: a session that is in use on this connection is authenticated again.
        let found = connection.channel_of(request.session_id);
        let found = found.map(|at| Arc::clone(&connection.channels[at].session));
        match found.filter(|session| session.state() == State::Valid) {
            Some(session) => (session, true),
            None => return Err(Stop::Fail(NtStatus::USER_SESSION_DELETED)),
        }
    };
    let names = Names {
        netbios_computer: config.name.clone(),
        netbios_domain: config.name.clone(),
        dns_computer: config.dns_name.clone(),
        dns_domain: String::new(),
    };
    let acceptor = Acceptor::new(&auth::Config::new(names));
    connection.setups.push(Setup { session, preauth: connection.preauth, acceptor, again });
    Ok(connection.setups.len() - 1)
}

/// The user is proved: keys, flags, and what an earlier session of theirs leaves (MS-SMB2 3.3.5.5.3).
fn accept(
    connection: &mut Connection,
    request: &Request<'_>,
    asked: &session_setup::Request<'_>,
    setup: Setup,
    login: &Login,
    config: &ServerConfig,
) -> Result<SessionFlags, Stop> {
    let server = Arc::clone(&connection.server);
    let Setup { session, preauth, again, .. } = &setup;
    if login.is_anonymous() && !config.anonymous {
        abandon(connection, &setup, request);
        return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    let identity = match login.is_anonymous() {
        true => Arc::new(crate::config::nobody()),
        false => match server.user(&login.user) {
            Some(user) => Arc::clone(&user.identity),
            None => {
                abandon(connection, &setup, request);
                return Err(Stop::Fail(NtStatus::LOGON_FAILURE));
            }
        },
    };
    let protection = session.protection;
    let key: [u8; 16] = *login.session_key;
    if *again {
        // MS-SMB2 3.3.5.5.3: another user may not take the session over; its keys and its user stay as they
        // are, also when its client shows for once that it has no name.
        if !login.is_anonymous() && !session.user_name().eq_ignore_ascii_case(&identity.name) {
            server.end_session(session, request.now);
            return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
        }
    } else {
        let seal = keys::server_seal(protection, &key, preauth);
        let anonymous = login.is_anonymous();
        session.prove(Proved { identity, anonymous, session_key: key, seal });
        let signer = keys::signer(protection, &key, preauth);
        connection.channels.push(Channel { session: Arc::clone(session), signer });
        connection.deadline = None;
        tracing::info!(
            peer = %connection.handle.peer.remote,
            user = session.user_name(),
            workstation = login.workstation,
            dialect = ?protection.dialect,
            "logged on"
        );
    }
    let required = config.signing == Signing::Required
        || asked.security_mode.contains(SecurityMode::SIGNING_REQUIRED)
        || connection.negotiated()?.client_security.contains(SecurityMode::SIGNING_REQUIRED);
    if required {
        session.signing_required.store(true, Ordering::Relaxed);
    }
    end_previous(&server, session, asked.previous_session_id, request);
    let mut flags = SessionFlags::empty();
    if login.is_anonymous() && !*again {
        flags |= SessionFlags::IS_NULL;
    } else if config.encryption == Encryption::Required {
        session.sealing_required.store(true, Ordering::Relaxed);
        flags |= SessionFlags::ENCRYPT_DATA;
    }
    Ok(flags)
}

// MS-SMB2 3.3.5.5.3
fn end_previous(server: &Arc<Server>, session: &Arc<Session>, previous: u64, request: &Request<'_>) {
    if previous == 0 || previous == session.id {
        return;
    }
    let Some(old) = server.session(previous) else { return };
    if old.state() == State::Valid && old.user_name() == session.user_name() {
        server.end_session(&old, request.now);
    }
}

/// A log-on that has failed takes its session along (MS-SMB2 3.3.5.5.3).
fn abandon(connection: &mut Connection, setup: &Setup, request: &Request<'_>) {
    connection.server.end_session(&setup.session, request.now);
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
