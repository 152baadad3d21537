//! SESSION_SETUP: authenticates a user (MS-SMB2 3.3.5.5).
//!
//! [`handle`] finds or begins the log-on of a request and passes its token on. After the authentication
//! `accept` sets up the result: a new session, a reauthenticated one, or one more channel ([`bind`]).

mod attempt;
mod bind;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use auth::crypto::preauth_hash;
use auth::ntlm::NtHash;
use auth::{Acceptor, Account, Credentials, Login, PassThroughRefusalKind, Proof, Step, TicketRefusalKind};
use share::{ClientDetails, Identity};
use smb_wire::negotiate::{Dialect, SecurityMode};
use smb_wire::session_setup::{self, RequestFlags, SessionFlags};
use smb_wire::{Header, NtStatus};

use crate::config::account::{LogonMechanism, LogonProperties, SessionSettings};
use crate::config::target::Verdict;
use crate::config::{Encryption, Ntlm, ServerConfig, Signing, same_name};
use crate::connection::setup::{Purpose, Setup, SetupShare};
use crate::connection::{Channel, Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::keys;
use crate::limits::{MAX_SESSIONS_PER_CONNECTION, MAX_SETUPS_PER_CONNECTION};
use crate::state::session::{AuthenticatedUser, SessionState};
use crate::state::{Server, Session};
use attempt::{Judgment, ResolvedIdentity};

/// The most characters of a client's machine name in the audit.
const MAX_MACHINE_SHOWN: usize = 64;

struct Users<'a>(&'a Server);

impl Credentials for Users<'_> {
    fn lookup(&self, user: &str) -> Option<Account> {
        let found = self.0.user(user)?;
        let nt_hash = NtHash::from_bytes(found.nt_hash);
        let second_hash = found.second_hash.map(NtHash::from_bytes);
        let (name, restriction) = (found.identity.name.clone(), found.restriction.clone());
        Some(Account { name, nt_hash, second_hash, restriction })
    }
}

/// Answers a SESSION_SETUP.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let parsed = session_setup::Request::parse(request.message)?;
    let config = &*connection.settings();
    // MS-SMB2 3.3.5.5: a client that must seal and cannot is refused here.
    let cannot_seal = config.encryption == Encryption::Required && negotiated.protection.cipher.is_none();
    Stop::when(cannot_seal, NtStatus::ACCESS_DENIED)?;
    LogOn { connection, negotiated, request, config }.continue_setup(&parsed)
}

/// One request of a log-on, with its connection.
struct LogOn<'a, 'm> {
    connection: &'a mut Connection,
    negotiated: &'a Negotiated,
    request: &'a mut Request<'m>,
    /// The settings of this connection.
    config: &'a ServerConfig,
}

impl LogOn<'_, '_> {
    fn continue_setup(mut self, parsed: &session_setup::Request<'_>) -> Handled {
        // MS-SMB2 3.3.5.5: without a session id the request is an ordinary log-on.
        let binding = parsed.flags.contains(RequestFlags::BINDING) && self.request.session_id != 0;
        let judged = self.request.log_on_job.as_ref().map(|job| job.setup);
        let at = match judged {
            Some(number) => self.find_judged(number)?,
            None if binding => self.find_binding()?,
            None => self.find_setup()?,
        };
        let setup = &mut self.connection.setups[at];
        self.request.related.session_id = setup.session.id;
        // A resumed request was hashed when it came. One that comes while another is judged is no part of
        // the log-on.
        let is_next = !self.request.resumed && setup.acceptor.is_some();
        if self.negotiated.protection.dialect == Dialect::Smb311 && is_next {
            setup.preauth = preauth_hash(&setup.preauth, &signed_message(self.request));
        }
        let Judgment { step, user, identity } = self.judge(at, parsed.security_buffer)?;
        match step {
            Step::Continue(token) => {
                session_setup::Response { session_flags: SessionFlags::empty(), security_buffer: &token }
                    .write(self.request.body);
                Ok(NtStatus::MORE_PROCESSING_REQUIRED)
            }
            Step::Done { reply, login } => {
                let setup = self.connection.setups.remove(at);
                let flags = self.accept(parsed, &setup, &login, identity)?;
                session_setup::Response { session_flags: flags, security_buffer: &reply }
                    .write(self.request.body);
                let anonymous =
                    setup.session.authenticated().is_none_or(|authenticated| authenticated.anonymous);
                self.request.sign_answer = !anonymous;
                // MS-SMB2 3.3.5.5.3
                self.connection.constrained &= anonymous;
                Ok(NtStatus::SUCCESS)
            }
            Step::Refused(why) => {
                let setup = self.connection.setups.remove(at);
                let (user, reason) = (user.as_deref().unwrap_or_default(), why.to_string());
                match setup.purpose {
                    Purpose::New => self.refuse_log_on(&setup, user, &reason, "log-on refused"),
                    Purpose::Again => {
                        let what = "log-on refused and session ended: it was to be renewed";
                        self.refuse_log_on(&setup, user, &reason, what);
                    }
                    Purpose::Bind => {
                        let (what, now) = (format!("channel refused: {why}"), self.request.now);
                        self.connection.log_refusal(setup.session.id, status_of(&why), &what, now);
                    }
                }
                self.abandon(&setup);
                Err(Stop::Fail(status_of(&why)))
            }
        }
    }

    /// The log-on whose token was judged on the blocking pool. It may have ended meanwhile, and so may the
    /// session that a binding is for.
    fn find_judged(&mut self, number: u64) -> Result<usize, Stop> {
        let setups = &self.connection.setups;
        let found = setups.iter().position(|setup| setup.number == number);
        let at = found.ok_or(Stop::Fail(NtStatus::USER_SESSION_DELETED))?;
        if setups[at].binds() {
            self.session_to_bind().inspect_err(|_| drop(self.connection.setups.remove(at)))?;
        }
        Ok(at)
    }

    /// The log-on that the request continues, or a new one.
    fn find_setup(&mut self) -> Result<usize, Stop> {
        let id = self.request.session_id;
        let mut setups = self.connection.setups.iter();
        if let Some(at) = setups.position(|setup| setup.session.id == id && !setup.binds()) {
            return Ok(at);
        }
        if id == 0 {
            // MS-SMB2 3.3.5.5.1
            let share = self.check_room()?;
            let Negotiated { client_guid, client, protection, .. } = *self.negotiated;
            let server = &self.connection.server;
            let session = server.new_session(client_guid, client, protection, self.request.now);
            let added = session.add_channel(&self.connection.handle, 1);
            added.map_err(|_| NtStatus::INSUFFICIENT_RESOURCES)?;
            return Ok(self.begin(session, Purpose::New, share));
        }
        // MS-SMB2 3.3.5.5: a session that is in use on this connection is authenticated again.
        let found = self.connection.channel_of(id);
        let found = found.map(|at| Arc::clone(&self.connection.channels[at].session));
        match found.filter(|session| session.state() == SessionState::Valid) {
            Some(session) => {
                let share = self.check_room()?;
                Ok(self.begin(session, Purpose::Again, share))
            }
            None => {
                self.connection.log_foreign_session(self.request);
                Err(Stop::Fail(NtStatus::USER_SESSION_DELETED))
            }
        }
    }

    /// The binding that the request continues, or a new one. Each request of a binding is checked from the
    /// start, since the session may have ended on another connection meanwhile.
    fn find_binding(&mut self) -> Result<usize, Stop> {
        let id = self.request.session_id;
        let checked = self.session_to_bind();
        let setups = &mut self.connection.setups;
        let under_way = setups.iter().position(|setup| setup.session.id == id && setup.binds());
        match (checked, under_way) {
            (Ok(session), Some(at)) if Arc::ptr_eq(&session, &setups[at].session) => Ok(at),
            (checked, stale) => {
                if let Some(at) = stale {
                    setups.remove(at);
                }
                let session = checked?;
                let share = self.check_room()?;
                Ok(self.begin(session, Purpose::Bind, share))
            }
        }
    }

    /// Checks that one more log-on may be unfinished.
    fn check_room(&self) -> Result<SetupShare, Stop> {
        let (carried, under_way) = (self.connection.channels.len(), self.connection.setups.len());
        let has_room =
            carried + under_way < MAX_SESSIONS_PER_CONNECTION && under_way < MAX_SETUPS_PER_CONNECTION;
        let share = has_room.then(|| SetupShare::take(&self.connection.server)).flatten();
        share.ok_or(Stop::Fail(NtStatus::INSUFFICIENT_RESOURCES))
    }

    /// Begins a log-on and returns its index.
    fn begin(&mut self, session: Arc<Session>, purpose: Purpose, share: SetupShare) -> usize {
        let acceptor = Some(Acceptor::new(&self.config.log_on()));
        let preauth = self.connection.preauth;
        let number = self.connection.setups_begun;
        self.connection.setups_begun += 1;
        self.connection.setups.push(Setup { number, session, preauth, acceptor, purpose, _share: share });
        self.connection.setups.len() - 1
    }

    /// Sets up keys and flags after the authentication, and ends a previous session of the user (MS-SMB2
    /// 3.3.5.5.3).
    fn accept(
        &mut self,
        parsed: &session_setup::Request<'_>,
        setup: &Setup,
        login: &Login,
        identity: Option<ResolvedIdentity>,
    ) -> Result<SessionFlags, Stop> {
        let (session, config, now) = (&setup.session, self.config, self.request.now);
        self.check_target(setup, login)?;
        let (identity, key_of) = self.user_of(setup, login, identity).inspect_err(|_| self.abandon(setup))?;
        self.check_dialect(setup)?;
        let memory = &config.session_memory;
        let account = memory.account(session.client, &identity);
        if setup.purpose == Purpose::New && !session.take_memory(memory, account) {
            memory.refuse(account, &identity.name, now.mono_ns);
            self.abandon(setup);
            return Err(Stop::Fail(NtStatus::INSUFFICIENT_RESOURCES));
        }
        let signs = config.signing == Signing::Required
            || parsed.security_mode.contains(SecurityMode::SIGNING_REQUIRED)
            || self.negotiated.client_security.contains(SecurityMode::SIGNING_REQUIRED);
        // A user of the domain may have the name of a local one, and has another SID.
        let is_owner = same_name(session.user_name(), &identity.name) && session.sid() == Some(identity.sid);
        match setup.purpose {
            Purpose::New => {
                // This comes before the session is valid, so that a binding never sees other settings.
                let (protection, key_of) = (session.protection, key_of.as_deref());
                let logon = LogonProperties { protection, signs, key_of, mechanism: mechanism_of(login) };
                session.settle(self.session_settings(setup, &identity, logon)?);
                self.log_on(setup, login, identity);
            }
            Purpose::Bind if !is_owner => return Err(self.other_user(session, &identity.name)),
            Purpose::Bind => {
                self.take_channel(setup, &login.session_key)?;
                self.connection.deadline = None;
            }
            // MS-SMB2 3.3.5.5.3: another user may not take the session over. Its keys and its user stay the
            // same, also when its client sends an anonymous log-on.
            Purpose::Again if !is_owner && !login.is_anonymous() => {
                return Err(self.end_for_another(setup, &identity.name));
            }
            Purpose::Again => self.check_mechanism(setup, login, &identity.name)?,
        }
        // MS-SMB2 3.3.5.5.3
        if setup.purpose != Purpose::Bind && !login.is_anonymous() {
            session.set_expiry(login.ticket.as_ref().map(|ticket| ticket.lifetime), now);
            if setup.purpose == Purpose::Again {
                self.connection.server.ticket_ends.note_reauthenticated();
            }
        }
        let settings = session.session_settings();
        let required = signs || settings.is_some_and(|settings| settings.signs);
        // MS-SMB2 3.3.5.5.3 (exception: a further channel does not change the requirements on the others)
        if required && setup.purpose != Purpose::Bind {
            session.signing_required.store(true, Ordering::Relaxed);
        }
        self.end_previous(session, parsed.previous_session_id);
        let mut flags = SessionFlags::empty();
        let seals =
            config.encryption == Encryption::Required || settings.is_some_and(|settings| settings.seals);
        if login.is_anonymous() && setup.purpose == Purpose::New {
            flags |= SessionFlags::IS_NULL;
        } else if seals && setup.purpose != Purpose::Bind {
            session.sealing_required.store(true, Ordering::Relaxed);
            flags |= SessionFlags::ENCRYPT_DATA;
        }
        Ok(flags)
    }

    /// Ends a session that another user was to renew.
    fn end_for_another(&self, setup: &Setup, user: &str) -> Stop {
        let session = &setup.session;
        let (peer, of, id) = (self.connection.handle.peer.remote, session.user_name(), session.id);
        tracing::info!(%peer, session = id, of, user, "session ends: renewed by another");
        self.tell_refused(setup, user, &format!("the session that it was to renew belongs to `{of}`"));
        self.connection.server.end_session(session, self.request.cause());
        Stop::Fail(NtStatus::ACCESS_DENIED)
    }

    /// Refuses to renew with NTLM a session that a ticket has opened, if an account's shares refuse NTLM: the
    /// session may use them.
    fn check_mechanism(&mut self, setup: &Setup, login: &Login, user: &str) -> Result<(), Stop> {
        let settings = setup.session.session_settings();
        let is_by_ticket = settings.is_some_and(|settings| settings.mechanism == LogonMechanism::Kerberos);
        let is_weaker = is_by_ticket && mechanism_of(login) != LogonMechanism::Kerberos;
        let strict = self.connection.server.config().accounts.iter().any(|one| one.demands.ntlm != Ntlm::On);
        if login.is_anonymous() || !(is_weaker && strict) {
            return Ok(());
        }
        let why = "the session began with a ticket, and `ntlm` of an account lets no password renew it";
        self.refuse_log_on(setup, user, why, "log-on refused and session ended");
        self.abandon(setup);
        Err(Stop::Fail(NtStatus::ACCESS_DENIED))
    }

    /// The user of a log-on, and the account whose key was used.
    fn user_of(
        &self,
        setup: &Setup,
        login: &Login,
        identity: Option<ResolvedIdentity>,
    ) -> Result<(Arc<Identity>, Option<String>), Stop> {
        match identity {
            Some(Ok(identity)) => return Ok((identity, None)),
            Some(Err(why)) => {
                self.refuse_log_on(setup, &login.user, &why.to_string(), "log-on refused");
                return Err(Stop::Fail(why.status()));
            }
            // A ticket or a domain controller proves an account of the domain, and never a local one of that
            // name.
            None if login.proof == Proof::Ticket || login.domain_account.is_some() => {
                let why = "log-ons of users of the domain were switched off meanwhile";
                self.refuse_log_on(setup, &login.user, why, "log-on refused");
                return Err(Stop::Fail(NtStatus::LOGON_FAILURE));
            }
            None => {}
        }
        if login.is_anonymous() {
            let nobody = self.config.anonymous.then(|| (Arc::new(crate::config::nobody()), None));
            return nobody.ok_or(Stop::Fail(NtStatus::ACCESS_DENIED));
        }
        let user = self.connection.server.user(&login.user).filter(|user| user.restriction.is_none());
        let user = user.ok_or(NtStatus::LOGON_FAILURE)?;
        Ok((Arc::clone(&user.identity), user.key_of.clone()))
    }

    /// Checks that a log-on with a password or a ticket was meant for this server.
    fn check_target(&mut self, setup: &Setup, login: &Login) -> Result<(), Stop> {
        if !matches!(login.proof, Proof::Password | Proof::Ticket) {
            return Ok(());
        }
        let interfaces = self.connection.server.interfaces();
        let own = interfaces.iter().map(|at| at.address);
        match self.config.judge_target(&login.target, self.connection.handle.peer.local.ip(), own) {
            Verdict::Fine => Ok(()),
            Verdict::Unknown(name) => {
                let why = format!(
                    "it is meant for `{name}`: add the name to {} if it is one of this server's",
                    self.config.target.setting()
                );
                self.warn(&login.user, &why, "log-on for an unknown server is let in");
                Ok(())
            }
            Verdict::Refused(why) => {
                self.refuse_log_on(setup, &login.user, &why, "log-on refused");
                self.abandon(setup);
                Err(Stop::Fail(NtStatus::ACCESS_DENIED))
            }
        }
    }

    /// The settings of a new session from the user's account. The session ends at once if it does not meet
    /// the account's demands.
    fn session_settings(
        &mut self,
        setup: &Setup,
        identity: &Identity,
        logon: LogonProperties<'_>,
    ) -> Result<SessionSettings, Stop> {
        let (config, user) = (self.connection.server.config().clone(), &identity.name);
        config.session_settings(self.connection.account.as_ref(), identity, logon).map_err(|why| {
            let peer = self.connection.handle.peer.remote;
            tracing::warn!(%peer, user, "log-on refused: {why}");
            self.tell_refused(setup, user, &why);
            self.abandon(setup);
            Stop::Fail(NtStatus::ACCESS_DENIED)
        })
    }

    /// Checks the dialect of a client. A client has one dialect, so a new session with another one ends at
    /// once.
    // MS-SMB2 3.3.5.5.3
    fn check_dialect(&mut self, setup: &Setup) -> Result<(), Stop> {
        let client = self.connection.server.client(self.negotiated.client);
        let dialect = self.negotiated.protection.dialect;
        if setup.purpose != Purpose::New || client.is_none_or(|client| client.accepts_dialect(dialect)) {
            return Ok(());
        }
        let peer = self.connection.handle.peer.remote;
        let why = "its client speaks another dialect on its other connections";
        tracing::info!(%peer, ?dialect, "log-on refused: {why}");
        self.abandon(setup);
        Err(Stop::Fail(NtStatus::USER_SESSION_DELETED))
    }

    /// Gives a new session its user and keys, with this connection as its first channel.
    fn log_on(&mut self, setup: &Setup, login: &Login, identity: Arc<Identity>) {
        let Setup { session, preauth, .. } = setup;
        let protection = session.protection;
        let key: &[u8; 16] = &login.session_key;
        // MS-SMB2 3.3.5.5.3: Session.SigningKey is Channel.SigningKey of the first channel.
        let new_signer = || keys::signer(protection, key, preauth);
        let seal = keys::server_seal(protection, key, login.full_session_key(), preauth);
        session.authenticate(AuthenticatedUser {
            identity,
            anonymous: login.is_anonymous(),
            signer: new_signer(),
            seal,
        });
        let channel = Channel { session: Arc::clone(session), signer: new_signer() };
        self.connection.channels.push(channel);
        self.connection.deadline = None;
        let (peer, user) = (self.connection.handle.peer.remote, session.user_name());
        let (workstation, dialect) = (&login.workstation, protection.dialect);
        match &login.ticket {
            Some(ticket) => {
                let (principal, encryption_type) = (&ticket.principal, &ticket.encryption_type);
                tracing::info!(%peer, user, principal, encryption_type, ?dialect, "logged on");
            }
            None => tracing::info!(%peer, user, workstation, ?dialect, "logged on"),
        }
        session.describe(self.client_details(session, &login.workstation));
        if let Some((by, details)) = session.authenticated().zip(session.details()) {
            self.connection.server.auditor.log_on((user, Some(by.identity.uid)), details, None);
        }
    }

    /// The properties of the client for the audit.
    fn client_details(&self, session: &Session, workstation: &str) -> ClientDetails {
        ClientDetails {
            protocol: protocol_name(session.protection.dialect),
            address: self.connection.handle.peer.remote.ip().to_canonical(),
            machine: workstation.chars().take(MAX_MACHINE_SHOWN).collect(),
            session: session.id,
            rendered: std::sync::OnceLock::new(),
        }
    }

    // MS-SMB2 3.3.5.5.3
    fn end_previous(&self, session: &Session, previous: u64) {
        let server = &self.connection.server;
        let Some(old) = server.session(previous).filter(|old| old.id != session.id) else { return };
        let is_its_user = old.user_name() == session.user_name() && old.sid() == session.sid();
        if old.state() == SessionState::Valid && is_its_user {
            let user = old.user_name();
            tracing::info!(session = old.id, by = session.id, user, "session replaced by its client");
            server.end_session(&old, self.request.cause());
        }
    }

    /// Ends the session of a failed log-on (MS-SMB2 3.3.5.5.3). A refused binding does not affect its
    /// session.
    fn abandon(&mut self, setup: &Setup) {
        if !setup.binds() {
            self.connection.server.end_session(&setup.session, self.request.cause());
            self.connection.forget_session(setup.session.id);
        }
    }

    /// Logs why a log-on is refused, and tells the audit.
    fn refuse_log_on(&self, setup: &Setup, user: &str, why: &str, what: &str) {
        self.warn(user, why, what);
        self.tell_refused(setup, user, why);
    }

    /// Tells the audit of a refused log-on.
    fn tell_refused(&self, setup: &Setup, user: &str, why: &str) {
        let details = self.client_details(&setup.session, "");
        let user: String = user.chars().take(MAX_MACHINE_SHOWN).collect();
        self.connection.server.auditor.log_on((&user, None), &details, Some(why));
    }

    /// Logs why a log-on is refused, or is allowed with a warning.
    fn warn(&self, user: &str, why: &str, what: &str) {
        self.connection.log_log_on(user, why, what, self.request.now);
    }
}

/// The mechanism of a log-on.
fn mechanism_of(login: &Login) -> LogonMechanism {
    match (&login.ticket, &login.domain_account) {
        (Some(_), _) => LogonMechanism::Kerberos,
        (None, Some(_)) => LogonMechanism::NtlmOfDomain,
        (None, None) => LogonMechanism::Ntlm,
    }
}

/// The protocol and its version, for the audit.
fn protocol_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Smb202 => "SMB 2.0.2",
        Dialect::Smb210 => "SMB 2.1",
        Dialect::Smb300 => "SMB 3.0",
        Dialect::Smb302 => "SMB 3.0.2",
        Dialect::Smb311 => "SMB 3.1.1",
        _ => "SMB",
    }
}

/// The request as it was sent, with its signature. The pre-authentication hash covers it in this form.
fn signed_message(request: &Request<'_>) -> Vec<u8> {
    let mut message = request.message.to_vec();
    if let Ok(header) = Header::parse_mut(&mut message) {
        header.set_signature(request.signature);
    }
    message
}

/// The status for the refusal of a log-on.
fn status_of(why: &auth::Refusal) -> NtStatus {
    use auth::Refusal;
    match why {
        Refusal::BadToken(_) | Refusal::BadMessage(_) | Refusal::OutOfTurn | Refusal::TooWeak => {
            NtStatus::INVALID_PARAMETER
        }
        Refusal::OldResponse | Refusal::WrongCredentials => NtStatus::LOGON_FAILURE,
        // Only a client ends with these.
        Refusal::Rejected | Refusal::NoTicket(_) => NtStatus::LOGON_FAILURE,
        // MS-ERREF 2.3.1: the name and the password are right.
        Refusal::AccountRestriction(_) => NtStatus::ACCOUNT_RESTRICTION,
        Refusal::NtlmOff => NtStatus::NTLM_BLOCKED,
        Refusal::PassThrough(refusal) => match refusal.kind {
            PassThroughRefusalKind::WrongCredentials => NtStatus::LOGON_FAILURE,
            PassThroughRefusalKind::Disabled => NtStatus::ACCOUNT_DISABLED,
            PassThroughRefusalKind::LockedOut => NtStatus::ACCOUNT_LOCKED_OUT,
            PassThroughRefusalKind::PasswordExpired => NtStatus::PASSWORD_EXPIRED,
            PassThroughRefusalKind::Restricted => NtStatus::ACCOUNT_RESTRICTION,
            PassThroughRefusalKind::Unavailable => NtStatus::NO_LOGON_SERVERS,
        },
        Refusal::Ticket(ticket) => match ticket.kind {
            TicketRefusalKind::ClockSkew => NtStatus::TIME_DIFFERENCE_AT_DC,
            TicketRefusalKind::BadToken => NtStatus::INVALID_PARAMETER,
            TicketRefusalKind::Invalid => NtStatus::LOGON_FAILURE,
        },
        Refusal::NoCommonMechanism
        | Refusal::KerberosOff(_)
        | Refusal::WrongMic
        | Refusal::WrongMechListMic => NtStatus::LOGON_FAILURE,
    }
}
