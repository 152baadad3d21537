//! The client's side of SESSION_SETUP: the exchange of tokens for a new session, for a further channel of a
//! session, or for an expired session (MS-SMB2 3.2.4.2.3 and 3.2.5.3).
//!
//! The server has a time limit for each round trip. The time in which a KDC gives a ticket is none of the
//! server's, and has a limit of its own.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auth::{
    ClientIdentity, Initiator, InitiatorStep, Refusal, TicketFailure, TicketFailureKind, TicketInitiator,
    Tickets, Wrap, preauth_hash,
};
use smb_wire::negotiate::{Capabilities, Dialect};
use smb_wire::session_setup::{self, RequestFlags, SessionFlags};
use smb_wire::{Header, NtStatus, SmbCommand};
use wire::Now;

use crate::Error;
use crate::error::Result;
use crate::retry::answered;
use crate::smb::buffer::Reply;
use crate::smb::connection::ConnectionCore;
use crate::smb::link::{Envelope, FrameRequest};
use crate::smb::protection::{ChannelKeys, Protection};
use crate::smb::{Credentials, Secret, negotiate};

/// The result of a log-on.
pub(crate) struct LoggedOn {
    pub(crate) id: u64,
    pub(crate) flags: SessionFlags,
    pub(crate) keys: ChannelKeys,
}

/// A log-on after its first round trip. The server has sent its challenge.
pub(crate) struct LogonChallenge<'a> {
    exchange: Exchange<'a>,
    next: Next,
}

/// Begins a session on `connection`, in the place of `previous` unless that is 0. The password has no
/// influence on this request. A log-on with a ticket may be over after it.
pub(crate) async fn begin<'a>(
    connection: &'a ConnectionCore,
    who: &Credentials,
    previous: u64,
) -> Result<LogonChallenge<'a>> {
    let mut exchange = Exchange { previous, ..Exchange::new(connection, who, None) };
    let next = exchange.begin().await?;
    Ok(LogonChallenge { exchange, next })
}

impl LogonChallenge<'_> {
    /// Proves that we know the password.
    pub(crate) async fn finish(self) -> Result<LoggedOn> {
        let LogonChallenge { mut exchange, next } = self;
        let (reply, flags) = exchange.go_on(next).await?;
        // MS-SMB2 3.2.5.3.1
        if flags.intersects(SessionFlags::IS_GUEST | SessionFlags::IS_NULL) {
            return Err(Error::Guest);
        }
        let id = reply.header().session_id();
        let negotiated = &exchange.connection.negotiated;
        let agreed = negotiated.agreed(exchange.preauth);
        let keys = ChannelKeys::derive(id, &*exchange.key()?, exchange.full_key()?, &agreed);
        if reply.header().is_signed() || negotiated.dialect == Dialect::Smb311 {
            // The signature proves that the server knows our password too, and that nobody changed the
            // negotiation.
            keys.verify(&mut reply.message().to_vec())?;
        }
        Ok(LoggedOn { id, flags, keys })
    }
}

/// Binds the session with the signing key and encryption keys `session` to `connection`. Returns the keys of
/// the new channel. Each of the server's replies has to come within `time`.
pub(crate) async fn bind(
    connection: &ConnectionCore,
    who: &Credentials,
    session: &ChannelKeys,
    time: Duration,
) -> Result<ChannelKeys> {
    let mut exchange = Exchange { time, ..Exchange::new(connection, who, Some(session)) };
    let first = exchange.begin().await?;
    let (reply, flags) = exchange.go_on(first).await?;
    // MS-SMB2 3.2.5.3.3
    if flags.contains(SessionFlags::IS_GUEST) {
        return Err(Error::Guest);
    }
    let agreed = connection.negotiated.agreed(exchange.preauth);
    let keys = session.bound(&*exchange.key()?, &agreed);
    keys.verify(&mut reply.message().to_vec())?;
    Ok(keys)
}

/// Authenticates again over `connection` for the expired session with these keys. Its keys stay the same.
/// `protection` is that of the session.
pub(crate) async fn renew(
    connection: &ConnectionCore,
    who: &Credentials,
    session: &ChannelKeys,
    protection: Protection,
) -> Result<()> {
    // MS-SMB2 3.2.5.3.2 and 3.2.4.1.8
    let protection = if protection == Protection::Sealed { protection } else { Protection::Binding };
    let new = Exchange::new(connection, who, Some(session));
    let mut exchange = Exchange { flags: RequestFlags::empty(), protection, ..new };
    let first = exchange.begin().await?;
    exchange.go_on(first).await.map(drop)
}

/// The next step after a round trip.
enum Next {
    /// This token must be sent.
    Token(Vec<u8>),
    /// The server has let us in with this reply.
    In(Reply, SessionFlags),
}

/// The mechanism of one log-on.
enum ClientMechanism {
    Ntlm(Box<Initiator>),
    /// Kerberos, before there is a ticket for the server.
    Tickets(Arc<dyn Tickets>),
    Kerberos(Box<TicketInitiator>),
    /// Kerberos works on a token elsewhere.
    Busy,
}

/// The SESSION_SETUP messages of one log-on.
struct Exchange<'a> {
    connection: &'a ConnectionCore,
    mechanism: ClientMechanism,
    /// The keys of the session that is bound or renewed, if any.
    session: Option<&'a ChannelKeys>,
    flags: RequestFlags,
    protection: Protection,
    session_id: u64,
    /// The session that the new one replaces, or 0.
    previous: u64,
    preauth: [u8; 64],
    /// The time for each reply of the server, and for a ticket.
    time: Duration,
}

impl<'a> Exchange<'a> {
    /// An exchange that has not begun, for a new session or to bind `session`.
    fn new(
        connection: &'a ConnectionCore,
        who: &Credentials,
        session: Option<&'a ChannelKeys>,
    ) -> Exchange<'a> {
        let mechanism = match &who.secret {
            Secret::Hash(hash) => {
                let target = format!("cifs/{}", connection.host);
                let identity = ClientIdentity::new(&who.user, &who.domain, hash.clone(), &target);
                ClientMechanism::Ntlm(Box::new(Initiator::new(identity, Wrap::Spnego)))
            }
            Secret::Tickets(tickets) => ClientMechanism::Tickets(Arc::clone(tickets)),
        };
        let session_id = session.map_or(0, |keys| keys.session_id);
        let preauth = connection.negotiated.preauth;
        let (flags, protection) = match session {
            Some(_) => (RequestFlags::BINDING, Protection::Binding),
            None => (RequestFlags::empty(), Protection::None),
        };
        let (previous, time) = (0, connection.options.connect_timeout);
        Exchange { connection, mechanism, session, flags, protection, session_id, previous, preauth, time }
    }

    /// The key that both sides have agreed on, in full length.
    fn full_key(&self) -> Result<&[u8]> {
        let key = match &self.mechanism {
            ClientMechanism::Ntlm(initiator) => initiator.session_key().map(|key| &key[..]),
            ClientMechanism::Kerberos(initiator) => initiator.session_key(),
            ClientMechanism::Tickets(_) | ClientMechanism::Busy => None,
        };
        key.ok_or(Error::Protocol("let in before a key was agreed on"))
    }

    /// The first 16 bytes of the key, filled up with zeros.
    fn key(&self) -> Result<auth::Key> {
        // MS-SMB2 3.2.5.3.1
        let full = self.full_key()?;
        let mut key = auth::Key::default();
        let len = full.len().min(key.len());
        key[..len].copy_from_slice(&full[..len]);
        Ok(key)
    }

    /// Does the first round trip.
    async fn begin(&mut self) -> Result<Next> {
        let token = match &self.mechanism {
            ClientMechanism::Ntlm(_) if !self.connection.negotiated.takes_ntlm => {
                return Err(required().into());
            }
            ClientMechanism::Ntlm(initiator) => initiator.first(),
            ClientMechanism::Tickets(tickets) => {
                let (initiator, token) =
                    Exchange::first_ticket(self.connection, Arc::clone(tickets), self.time).await?;
                self.mechanism = ClientMechanism::Kerberos(initiator);
                token
            }
            _ => return Err(Error::Protocol("a log-on began twice")),
        };
        self.step(&token).await
    }

    /// Gets a ticket for the server, and the first token.
    async fn first_ticket(
        connection: &ConnectionCore,
        tickets: Arc<dyn Tickets>,
        time: Duration,
    ) -> Result<(Box<TicketInitiator>, Vec<u8>)> {
        if !connection.negotiated.takes_kerberos {
            return Err(not_offered().into());
        }
        let host = connection.host.clone();
        let begun = blocking(move || {
            let mut initiator = Box::new(TicketInitiator::new(&*tickets, &host)?);
            let token = initiator.first()?;
            Ok((initiator, token))
        });
        // The library's own limits add up over all KDCs.
        let begun = tokio::time::timeout(time, begun).await.map_err(|_| silent_kdc(time))?;
        begun?.map_err(Refusal::into)
    }

    /// Sends tokens until the server lets us in. Returns its last reply.
    async fn go_on(&mut self, mut next: Next) -> Result<(Reply, SessionFlags)> {
        loop {
            match next {
                Next::Token(token) => next = self.step(&token).await?,
                Next::In(reply, flags) => return Ok((reply, flags)),
            }
        }
    }

    /// Does one round trip and evaluates the reply.
    async fn step(&mut self, token: &[u8]) -> Result<Next> {
        let reply = self.turn(token).await?;
        let status = reply.status();
        if status != NtStatus::SUCCESS && status != NtStatus::MORE_PROCESSING_REQUIRED {
            return Err(self.refused(&reply));
        }
        let response = session_setup::Response::parse(reply.message())?;
        let step = self.mechanism_step(response.security_buffer).await?;
        match (step, status) {
            (InitiatorStep::Done, NtStatus::SUCCESS) => {
                let flags = response.session_flags;
                Ok(Next::In(reply, flags))
            }
            (InitiatorStep::Continue(next), NtStatus::MORE_PROCESSING_REQUIRED) => {
                // MS-SMB2 3.2.5.3
                self.session_id = self.session_of(&reply)?;
                self.preauth = preauth_hash(&self.preauth, reply.message());
                Ok(Next::Token(next))
            }
            (InitiatorStep::Refused(why), _) => Err(why.into()),
            _ => Err(Error::Protocol("token and status of SESSION_SETUP contradict each other")),
        }
    }

    /// Passes the server's token to the mechanism.
    async fn mechanism_step(&mut self, token: &[u8]) -> Result<InitiatorStep> {
        match std::mem::replace(&mut self.mechanism, ClientMechanism::Busy) {
            ClientMechanism::Ntlm(mut initiator) => {
                let step = initiator.step(token, now());
                self.mechanism = ClientMechanism::Ntlm(initiator);
                Ok(step)
            }
            ClientMechanism::Kerberos(mut initiator) => {
                let token = token.to_vec();
                let (initiator, step) = blocking(move || {
                    let step = initiator.step(&token);
                    (initiator, step)
                })
                .await?;
                self.mechanism = ClientMechanism::Kerberos(initiator);
                Ok(step)
            }
            ClientMechanism::Tickets(_) | ClientMechanism::Busy => {
                Err(Error::Protocol("a token before the log-on began"))
            }
        }
    }

    /// The server's refusal of a log-on. A refused ticket where the clocks are apart is the clocks' fault.
    fn refused(&self, reply: &Reply) -> Error {
        let is_ticket = !matches!(self.mechanism, ClientMechanism::Ntlm(_));
        let apart_s = self.connection.negotiated.clock_apart_s;
        let is_skew = reply.status() == NtStatus::TIME_DIFFERENCE_AT_DC || apart_s > MAX_CLOCK_SKEW_S;
        if !is_ticket || !is_skew {
            return reply.refused();
        }
        let (kind, status) = (TicketFailureKind::ClockSkew, reply.status());
        let why = format!(
            "the server refused the ticket with {status}, and its clock differs from this host's by \
             {apart_s} s (the most is {MAX_CLOCK_SKEW_S} s): set both with `timedatectl set-ntp true`"
        );
        Refusal::from(TicketFailure { kind, why }).into()
    }

    /// The session that the server names: a new one, or the one that is bound or renewed.
    fn session_of(&self, reply: &Reply) -> Result<u64> {
        let id = reply.header().session_id();
        match self.session {
            Some(keys) if keys.session_id != id => {
                Err(Error::Protocol("another session than the one to be bound or renewed"))
            }
            _ => Ok(id),
        }
    }

    /// Sends one request and returns its reply.
    async fn turn(&mut self, token: &[u8]) -> Result<Reply> {
        answered(SESSION_SETUP, self.time, self.round_trip(token)).await
    }

    async fn round_trip(&mut self, token: &[u8]) -> Result<Reply> {
        let request = session_setup::Request {
            flags: self.flags,
            security_mode: negotiate::security_mode(&self.connection.options),
            capabilities: Capabilities::empty(),
            // MS-SMB2 3.2.4.2.3
            previous_session_id: self.previous,
            security_buffer: token,
        };
        let body = |out: &mut Vec<u8>| request.write(out);
        let part =
            FrameRequest { command: SmbCommand::SessionSetup, payload: request.payload_len(), body: &body };
        let (session_id, protection) = (self.session_id, self.protection);
        let envelope = Envelope { session_id, protection, keys: self.session, ..Envelope::PLAIN };
        let mut sent = Vec::new();
        let [pending] = self.connection.link.send(envelope, [part], Some(&mut sent)).await?;
        self.preauth = preauth_hash(&self.preauth, &sent);
        debug_assert!(Header::parse(&sent).is_ok());
        pending.await
    }
}

/// The most that the clocks of two hosts of a realm may differ (RFC 4120 section 8.2).
const MAX_CLOCK_SKEW_S: u64 = 300;

/// The name of the log-on step in errors.
const SESSION_SETUP: &str = "SESSION_SETUP";

fn silent_kdc(time: Duration) -> Refusal {
    let why = format!(
        "no KDC of the realm has given a ticket within {time:?}: look at `kdc` in /etc/krb5.conf or at the \
         DNS of the domain, and whether port 88 can be reached; `KRB5_TRACE=/dev/stderr kinit` shows whom \
         this host asks"
    );
    Refusal::from(TicketFailure { kind: TicketFailureKind::NoKdc, why })
}

fn not_offered() -> Refusal {
    let why = "the server does not offer Kerberos: it is in no realm, or knows no key of its own (a \
               Trunkline server needs `trunkline domain join`); leave out --kerberos to log on with a \
               password";
    Refusal::from(TicketFailure { kind: TicketFailureKind::NotOffered, why: why.to_owned() })
}

fn required() -> Refusal {
    let why = "the server takes no passwords, only Kerberos tickets: get one with `kinit` and log on with \
               --kerberos";
    Refusal::from(TicketFailure { kind: TicketFailureKind::Required, why: why.to_owned() })
}

/// Runs work that may wait for a KDC.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Closed)
}

/// The time, which NTLM puts into its response when the server sends none.
pub(super) fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { mono_ns: 0, wall_ns: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX) }
}
