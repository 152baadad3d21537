//! The client's side of a log-on with a ticket.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::credentials::InitiatorCredentials;
use crate::encryption_type::EncryptionType;
use crate::error::GssError;
use crate::library::{Context, Name, NameForm, flags};

/// One log-on from the client's view. The server always has to prove itself too.
pub struct InitiatorContext {
    credentials: Arc<InitiatorCredentials>,
    target: Name,
    context: Context,
    /// The bindings to the channel that protects the messages.
    channel: Option<Vec<u8>>,
}

/// The result of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Initiated {
    /// Send this token, then pass in the server's next one.
    Continue(Vec<u8>),
    /// The server is authenticated too. Send this token if it is not empty.
    Done {
        /// The token.
        token: Vec<u8>,
        /// How long the ticket stays valid.
        lifetime: Duration,
    },
}

/// The flags that a client asks for, and those for messages that it protects itself.
const WANTED: u32 = flags::MUTUAL | flags::REPLAY | flags::SEQUENCE;
const PROTECTED: u32 = flags::CONFIDENTIALITY | flags::INTEGRITY;

impl InitiatorContext {
    /// A log-on to `service` (`cifs`, `ldap`) on `host`.
    ///
    /// # Errors
    /// [`Cause::BadName`](crate::Cause::BadName) and others.
    pub fn new(
        credentials: &Arc<InitiatorCredentials>,
        service: &str,
        host: &str,
    ) -> Result<InitiatorContext, GssError> {
        let library = credentials.credential.library();
        let target = library.name(&format!("{service}@{host}"), NameForm::HostService)?;
        let context = Context::new(library);
        Ok(InitiatorContext { credentials: Arc::clone(credentials), target, context, channel: None })
    }

    /// A log-on to a service with this principal, such as `ldap/dc1.corp.example@CORP.EXAMPLE`. The library
    /// then asks no name server for another name of the host.
    ///
    /// # Errors
    /// [`Cause::BadName`](crate::Cause::BadName) and others.
    pub fn to_principal(
        credentials: &Arc<InitiatorCredentials>,
        principal: &str,
    ) -> Result<InitiatorContext, GssError> {
        let library = credentials.credential.library();
        let target = library.name(principal, NameForm::Principal)?;
        let context = Context::new(library);
        Ok(InitiatorContext { credentials: Arc::clone(credentials), target, context, channel: None })
    }

    /// The log-on within a channel that protects the messages, such as TLS, with the bindings to it (RFC
    /// 5929). It asks for no protection of its own.
    #[must_use]
    pub fn within(self, channel: Vec<u8>) -> InitiatorContext {
        InitiatorContext { channel: Some(channel), ..self }
    }

    /// Begins (without a token), or takes the server's next token. The first turn may ask a server of the
    /// realm for a ticket, so it may block.
    ///
    /// # Errors
    /// The reason why there is no ticket, or why the server is not the right one.
    pub fn step(&mut self, token: Option<&[u8]>) -> Result<Initiated, GssError> {
        let wanted = if self.channel.is_some() { WANTED } else { WANTED | PROTECTED };
        let between = (&self.credentials.credential, &self.target);
        let turn = self.context.initiate(between, wanted, self.channel.as_deref(), token)?;
        if !turn.is_established {
            return Ok(Initiated::Continue(turn.token));
        }
        Ok(Initiated::Done { token: turn.token, lifetime: Duration::from_secs(turn.lifetime_s.into()) })
    }

    /// The key that only client and server know, after the log-on.
    ///
    /// # Errors
    /// The library's.
    pub fn session_key(&self) -> Result<(Zeroizing<Vec<u8>>, EncryptionType), GssError> {
        let (key, kind) = self.context.session_key()?;
        Ok((key, EncryptionType::of_last_arc(&kind)))
    }

    /// The message integrity code of a message, after the log-on.
    ///
    /// # Errors
    /// The library's.
    pub fn get_mic(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        self.context.mic(message)
    }

    /// Checks the server's message integrity code of a message.
    ///
    /// # Errors
    /// [`Cause::WrongKey`](crate::Cause::WrongKey) for a wrong one, and others.
    pub fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> Result<(), GssError> {
        self.context.verify(message, mic)
    }

    /// Encrypts (`seal`) or signs a message.
    ///
    /// # Errors
    /// The library's.
    pub fn wrap(&mut self, message: &[u8], seal: bool) -> Result<Vec<u8>, GssError> {
        self.context.wrap(message, seal)
    }

    /// Decrypts or verifies a message of the server. Also returns whether it was encrypted.
    ///
    /// # Errors
    /// The library's.
    pub fn unwrap(&mut self, wrapped: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        self.context.unwrap(wrapped)
    }
}

impl fmt::Debug for InitiatorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InitiatorContext")
    }
}
