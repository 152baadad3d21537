//! A login: its identity, its keys, and the channels over which it is reached (MS-SMB2 3.2.5.3).

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use auth::{ClientIdentity, Initiator, InitiatorStep, Wrap, preauth_hash};
use smb_wire::negotiate::{Capabilities, Dialect, SecurityMode};
use smb_wire::session_setup::{self, RequestFlags, SessionFlags};
use smb_wire::{Command, Header, NtStatus, logoff};
use wire::Now;

use crate::buffer::Reply;
use crate::connection::Inner;
use crate::link::{Envelope, Part, Pending};
use crate::protection::{ChannelKeys, Protection};
use crate::{Connection, Credentials, Error, Result, Tree, negotiate};

/// A session: who we are to the server. It uses connections and belongs to none; copies share it.
///
/// Dropping the last copy does not log off: the server ends the session with its last connection.
/// [`Session::log_off`] ends it now.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) inner: Arc<SessionInner>,
}

#[derive(Debug)]
pub(crate) struct SessionInner {
    id: u64,
    flags: SessionFlags,
    /// How requests are protected where the tree does not demand more.
    protection: Protection,
    /// The connections that carry the session, each with its own signing key.
    channels: RwLock<Vec<Arc<Channel>>>,
}

/// One connection that carries a session.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) connection: Arc<Inner>,
    keys: Arc<ChannelKeys>,
}

impl Session {
    /// Logs on. With `encrypt` every message of the session is sealed.
    ///
    /// ```no_run
    /// # async fn example(connection: client::Connection) -> client::Result<()> {
    /// let alice = client::Credentials::new("alice", "her password");
    /// let session = client::Session::log_on(&connection, &alice, false).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Status`] and [`Error::LogOn`] when the server does not let us in, [`Error::Guest`] when it does
    /// so as its guest, [`Error::NotOffered`] when it cannot encrypt.
    pub async fn log_on(connection: &Connection, who: &Credentials, encrypt: bool) -> Result<Session> {
        let inner = &connection.inner;
        let target = format!("cifs/{}", inner.host);
        let identity = ClientIdentity::new(&who.user, &who.domain, who.hash.clone(), &target);
        let mut exchange = Exchange::new(inner, Initiator::new(identity, Wrap::Spnego));
        let (reply, response_flags) = exchange.run().await?;
        // MS-SMB2 3.2.5.3.1
        if response_flags.intersects(SessionFlags::IS_GUEST | SessionFlags::IS_NULL) {
            return Err(Error::Guest);
        }
        let session_key =
            exchange.initiator.session_key().ok_or(Error::Protocol("let in before a key was agreed on"))?;
        let id = reply.header().session_id();
        let agreed = inner.negotiated.agreed(exchange.preauth);
        let keys = Arc::new(ChannelKeys::derive(id, session_key, &agreed));
        let is_signed = reply.header().is_signed();
        if is_signed || inner.negotiated.dialect == Dialect::Smb311 {
            // The proof that the server knows our password too, and that nobody changed the negotiation.
            keys.verify(&mut reply.message().to_vec())?;
        }
        let must_encrypt = encrypt || response_flags.contains(SessionFlags::ENCRYPT_DATA);
        if must_encrypt && !keys.can_seal() {
            return Err(Error::NotOffered("encryption"));
        }
        let server_requires = inner.negotiated.security_mode.contains(SecurityMode::SIGNING_REQUIRED);
        let protection = match must_encrypt {
            true => Protection::Sealed,
            false if inner.options.require_signing || server_requires => Protection::Signed,
            false => Protection::None,
        };
        inner.link.add_channel(&keys);
        let channel = Arc::new(Channel { connection: Arc::clone(inner), keys });
        let channels = RwLock::new(vec![channel]);
        Ok(Session { inner: Arc::new(SessionInner { id, flags: response_flags, protection, channels }) })
    }

    /// The number by which the server knows the session.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// What kind of session the server made.
    #[must_use]
    pub fn flags(&self) -> SessionFlags {
        self.inner.flags
    }

    /// Whether every message is signed. Where this is false some still are, such as the TREE_CONNECT of 3.1.1.
    #[must_use]
    pub fn signs(&self) -> bool {
        self.inner.protection == Protection::Signed
    }

    /// Whether every message is sealed.
    #[must_use]
    pub fn seals(&self) -> bool {
        self.inner.protection == Protection::Sealed
    }

    /// Connects to a share.
    ///
    /// # Errors
    /// [`Error::Status`] when the server has no such share or does not let us in, [`Error::NotOffered`] when the
    /// share demands encryption that was not agreed on.
    pub async fn connect(&self, share: &str) -> Result<Tree> {
        Tree::connect(Arc::clone(&self.inner), share).await
    }

    /// Ends the session and everything that was opened in it.
    ///
    /// # Errors
    /// When the server did not take notice.
    pub async fn log_off(self) -> Result<()> {
        let part = Part { command: Command::Logoff, payload: 0, body: &|out| logoff::Request.write(out) };
        let [pending] = self.inner.send(0, Protection::None, [part]).await?;
        pending.await?.success()?;
        Ok(())
    }
}

impl SessionInner {
    /// The channel for the next request.
    pub(crate) fn channel(&self) -> Arc<Channel> {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&channels[0])
    }

    /// Sends one frame for the tree `tree_id`, protected as the session demands, or better.
    pub(crate) async fn send<const N: usize>(
        &self,
        tree_id: u32,
        at_least: Protection,
        parts: [Part<'_>; N],
    ) -> Result<[Pending; N]> {
        let channel = self.channel();
        let protection = match (self.protection, at_least) {
            (Protection::Sealed, _) | (_, Protection::Sealed) => Protection::Sealed,
            (Protection::Signed, _) | (_, Protection::Signed) => Protection::Signed,
            (Protection::None, Protection::None) => Protection::None,
        };
        let envelope =
            Envelope { session_id: self.id, tree_id, protection, keys: Some(channel.keys.as_ref()) };
        channel.connection.link.send(envelope, parts, None).await
    }

    /// Whether the server can be asked to seal.
    pub(crate) fn can_seal(&self) -> bool {
        self.channel().keys.can_seal()
    }
}

/// The SESSION_SETUP messages of one login.
struct Exchange<'a> {
    connection: &'a Inner,
    initiator: Initiator,
    session_id: u64,
    preauth: [u8; 64],
}

impl<'a> Exchange<'a> {
    fn new(connection: &'a Inner, initiator: Initiator) -> Exchange<'a> {
        let preauth = connection.negotiated.preauth;
        Exchange { connection, initiator, session_id: 0, preauth }
    }

    /// Sends tokens until the server lets us in; answers with its last reply.
    async fn run(&mut self) -> Result<(Reply, SessionFlags)> {
        let mut token = self.initiator.first();
        loop {
            let reply = self.turn(&token).await?;
            let status = reply.status();
            if status != NtStatus::SUCCESS && status != NtStatus::MORE_PROCESSING_REQUIRED {
                return Err(reply.refused());
            }
            let response = session_setup::Response::parse(reply.message())?;
            let step = self.initiator.step(response.security_buffer, now());
            match (step, status) {
                (InitiatorStep::Done, NtStatus::SUCCESS) => {
                    let flags = response.session_flags;
                    return Ok((reply, flags));
                }
                (InitiatorStep::Continue(next), NtStatus::MORE_PROCESSING_REQUIRED) => {
                    // MS-SMB2 3.2.5.3
                    self.session_id = reply.header().session_id();
                    self.preauth = preauth_hash(&self.preauth, reply.message());
                    token = next;
                }
                (InitiatorStep::Refused(why), _) => return Err(why.into()),
                _ => return Err(Error::Protocol("token and status of SESSION_SETUP contradict each other")),
            }
        }
    }

    /// One request and its reply.
    async fn turn(&mut self, token: &[u8]) -> Result<Reply> {
        let request = session_setup::Request {
            flags: RequestFlags::empty(),
            security_mode: negotiate::security_mode(&self.connection.options),
            capabilities: Capabilities::empty(),
            previous_session_id: 0,
            security_buffer: token,
        };
        let body = |out: &mut Vec<u8>| request.write(out);
        let part = Part { command: Command::SessionSetup, payload: request.payload_len(), body: &body };
        let envelope = Envelope { session_id: self.session_id, ..Envelope::PLAIN };
        let mut sent = Vec::new();
        let [pending] = self.connection.link.send(envelope, [part], Some(&mut sent)).await?;
        self.preauth = preauth_hash(&self.preauth, &sent);
        debug_assert!(Header::parse(&sent).is_ok());
        pending.await
    }
}

/// The time, which NTLM puts into its answer when the server says none.
fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { mono_ns: 0, wall_ns: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX) }
}
