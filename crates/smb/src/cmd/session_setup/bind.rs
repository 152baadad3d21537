//! Session binding: checks whether a session may take a further connection as a channel (MS-SMB2 3.3.5.5).
//!
//! [`LogOn::session_to_bind`] makes all checks of a binding request that are possible before its token.
//! [`LogOn::take_channel`] adds the channel after the authentication. A refusal changes nothing.

use std::sync::Arc;

use auth::crypto::SigningAlgorithm;
use smb_wire::NtStatus;
use wire::Now;

use super::LogOn;
use crate::config::account::ChannelRule;
use crate::connection::setup::Setup;
use crate::connection::{Channel, Negotiated};
use crate::exchange::Stop;
use crate::keys;
use crate::state::session::{Full, SessionState};
use crate::state::{Event, Handle, Session};

/// A refusal with its log line for the administrator.
type BindRefusal = (NtStatus, &'static str);

const TOO_MANY: BindRefusal =
    (NtStatus::INSUFFICIENT_RESOURCES, "the session has as many channels as max_channels lets it have");

const ENDED: BindRefusal =
    (NtStatus::USER_SESSION_DELETED, "there is no session of this id; it may have ended");

impl LogOn<'_, '_> {
    /// The session of a binding request, if it passes the checks before the authentication.
    ///
    /// # Errors
    /// The status of MS-SMB2 3.3.5.5 for the failed check.
    pub(super) fn session_to_bind(&self) -> Result<Arc<Session>, Stop> {
        let id = self.request.session_id;
        let session = self.connection.server.session(id);
        let checked = self.check(session.as_ref()).and_then(|()| session.ok_or(ENDED));
        checked.map_err(|refused| self.refuse(id, refused))
    }

    fn check(&self, session: Option<&Arc<Session>>) -> Result<(), BindRefusal> {
        let negotiated = self.negotiated;
        if let Some(session) = session.filter(|session| is_named(session) && self.request.header.is_signed())
        {
            // MS-SMB2 3.3.5.2.4
            if !self.request.signed {
                return Err((NtStatus::ACCESS_DENIED, "the request is not signed with the session's key"));
            }
            can_sign(session, negotiated)?;
        }
        // MS-SMB2 3.3.5.5
        if !negotiated.protection.dialect.is_smb3() {
            return Err((NtStatus::REQUEST_NOT_ACCEPTED, "dialects before 3.0 have no channels"));
        }
        if !self.rule_of(session).multichannel {
            return Err((
                NtStatus::REQUEST_NOT_ACCEPTED,
                "Multichannel is switched off for its account or the server",
            ));
        }
        let session = session.ok_or(ENDED)?;
        if session.protection.dialect != negotiated.protection.dialect {
            return Err((NtStatus::INVALID_PARAMETER, "the session was made with another dialect"));
        }
        if !self.request.header.is_signed() {
            return Err((NtStatus::INVALID_PARAMETER, "the request is not signed"));
        }
        // MS-SMB2 3.3.5.5 (exception: the ClientGuid is not compared, which the section leaves to the
        // server; as in Windows, the session's key identifies its client)
        let Some(authenticated) = session.authenticated().filter(|_| session.state() == SessionState::Valid)
        else {
            return Err((NtStatus::REQUEST_NOT_ACCEPTED, "the session's own log-on is not done yet"));
        };
        if session.has_expired(self.request.now) {
            return Err((NtStatus::NETWORK_SESSION_EXPIRED, "the session's ticket has ended"));
        }
        if authenticated.anonymous {
            return Err((NtStatus::NOT_SUPPORTED, "the session is anonymous"));
        }
        if self.request.channel.is_some() {
            return Err((NtStatus::REQUEST_NOT_ACCEPTED, "the connection carries the session already"));
        }
        let came_to = self.connection.account.as_ref().and_then(|known| known.endpoint.as_ref());
        if session.session_settings().is_some_and(|settings| settings.endpoint.as_ref() != came_to) {
            return Err((
                NtStatus::REQUEST_NOT_ACCEPTED,
                "the connection came to an address of another account or share than the session's first one",
            ));
        }
        // MS-SMB2 3.3.5.5 (exception: the section does not mention ciphers; the sealing keys belong to the
        // session, so a connection with another cipher could not use them)
        if session.protection.cipher != negotiated.protection.cipher {
            return Err((NtStatus::INVALID_PARAMETER, "the session was made with another cipher"));
        }
        let most = self.rule_of(Some(session)).most();
        // That channel ends only after the authentication.
        let has_room = session.channel_count() < most || session.can_replace(self.request.now);
        if has_room { Ok(()) } else { Err(TOO_MANY) }
    }

    /// The limit from the session's account. Without a session, or before its authentication, the settings
    /// of NEGOTIATE count.
    fn rule_of(&self, session: Option<&Arc<Session>>) -> ChannelRule {
        let known = session.and_then(|session| session.channel_rule().cloned());
        known.unwrap_or_else(|| ChannelRule {
            accounts: Vec::new(),
            multichannel: self.config.offers_multichannel(self.connection.account.as_ref()),
            max_channels: self.config.max_channels,
        })
    }

    /// Makes the connection a channel of the session after the authentication, with a signing key of its
    /// own.
    ///
    /// # Errors
    /// The status if another channel was faster, or the session has ended meanwhile.
    pub(super) fn take_channel(&mut self, setup: &Setup, session_key: &[u8; 16]) -> Result<(), Stop> {
        let (session, now) = (&setup.session, self.request.now);
        let most = self.rule_of(Some(session)).most();
        let replaced = session.add_or_replace(&self.connection.handle, most, now).map_err(|full| {
            let refused = match full {
                Full::Channels => TOO_MANY,
                Full::Ended => ENDED,
            };
            self.refuse(session.id, refused)
        })?;
        if let Some(silent) = replaced {
            close_silent(&silent, session, now);
        }
        // MS-SMB2 3.3.5.5.3: Channel.SigningKey
        let signer = keys::signer(self.negotiated.protection, session_key, &setup.preauth);
        self.connection.channels.push(Channel { session: Arc::clone(session), signer });
        self.connection.join(session.client);
        let (peer, user) = (self.connection.handle.peer.remote, session.user_name());
        let (session, channels) = (session.id, session.channel_count());
        tracing::info!(%peer, user, session, channels, "channel added");
        Ok(())
    }

    /// Refuses a binding of another user.
    pub(super) fn other_user(&self, session: &Session, user: &str) -> Stop {
        let what =
            format!("channel refused: the session belongs to another user than {user}, who asks for it");
        // MS-SMB2 3.3.5.5 (exception: STATUS_ACCESS_DENIED as in Windows Server, not STATUS_NOT_SUPPORTED)
        let status = NtStatus::ACCESS_DENIED;
        self.connection.log_refusal(session.id, status, &what, self.request.now);
        Stop::Fail(status)
    }

    fn refuse(&self, session: u64, (status, why): BindRefusal) -> Stop {
        let what = format!("channel refused: {why}");
        self.connection.log_refusal(session, status, &what, self.request.now);
        Stop::Fail(status)
    }
}

/// Closes a silent channel that was replaced at its client's request (`state/channel_limit.rs`).
fn close_silent(silent: &Handle, session: &Session, now: Now) {
    let silent_ms = now.mono_ns.saturating_sub(silent.path.heard_ns()) / 1_000_000;
    let (peer, what) = (silent.peer.remote, "it is silent, and its client has asked for one in its place");
    tracing::info!(%peer, session = session.id, silent_ms, "channel closed: {what}");
    // The close counts it as a lost connection.
    silent.post(Event::Close);
}

/// Whether the session has an authenticated user that is not anonymous.
fn is_named(session: &Session) -> bool {
    session.authenticated().is_some_and(|authenticated| !authenticated.anonymous)
}

/// Whether the signing algorithms of a session and a connection allow a binding.
///
/// GMAC and the two algorithms before it do not mix, as in Windows Server. MS-SMB2 does not mention this.
fn can_sign(session: &Session, here: &Negotiated) -> Result<(), BindRefusal> {
    let is_gmac = |algorithm| algorithm == SigningAlgorithm::AesGmac;
    match (is_gmac(session.protection.signing), is_gmac(here.protection.signing)) {
        (false, true) => {
            Err((NtStatus::NOT_SUPPORTED, "the connection signs with GMAC, the session does not"))
        }
        (true, false) => {
            Err((NtStatus::REQUEST_OUT_OF_SEQUENCE, "the session signs with GMAC, the connection does not"))
        }
        _ => Ok(()),
    }
}
