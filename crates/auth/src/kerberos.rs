//! The Kerberos mechanism as the acceptor sees it. The program brings the mechanism itself, so this crate
//! depends on no Kerberos library.

use std::fmt;
use std::time::Duration;

use zeroize::Zeroizing;

/// The Kerberos mechanism of a server (RFC 4121), with its keys.
pub trait Mechanism: Send + Sync {
    /// A security context for one log-on.
    fn context(&self) -> Box<dyn SecurityContext>;
}

/// A security context of the acceptor (RFC 2743 section 2.2.2). Its methods may block.
pub trait SecurityContext: Send {
    /// Takes the client's next token.
    ///
    /// # Errors
    /// The reason why the client is refused. The context is over then.
    fn step(&mut self, token: &[u8]) -> Result<ContextStep, TicketRefusal>;

    /// The message integrity code of a message. The context is established.
    ///
    /// # Errors
    /// The reason why there is none.
    fn get_mic(&mut self, message: &[u8]) -> Result<Vec<u8>, TicketRefusal>;

    /// Whether the message integrity code of a message is the client's. The context is established.
    fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> bool;
}

/// The result of a token of Kerberos.
#[derive(Debug)]
pub enum ContextStep {
    /// Send this token, then pass in the client's next one.
    Continue(Vec<u8>),
    /// The client has proved itself. Send this token.
    Done(Vec<u8>, KerberosTicket),
}

/// The properties of an accepted ticket.
#[derive(Clone)]
pub struct KerberosTicket {
    /// The client's principal, such as `bob@EXAMPLE.NET`.
    pub principal: String,
    /// The service that the ticket is for, such as `cifs/files.example.net@EXAMPLE.NET`.
    pub service: String,
    /// The key that only client and server know, in full length.
    pub session_key: Zeroizing<Vec<u8>>,
    /// The name of the key's encryption type.
    pub encryption_type: String,
    /// How long the ticket stays valid.
    pub lifetime: Duration,
    /// The ticket's PAC, if it has one. Its server signature is valid.
    pub pac: Option<Vec<u8>>,
}

impl fmt::Debug for KerberosTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KerberosTicket")
            .field("principal", &self.principal)
            .field("service", &self.service)
            .field("encryption_type", &self.encryption_type)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// The reason why a ticket is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TicketRefusal {
    /// The kind, for the protocol's status.
    pub kind: TicketRefusalKind,
    /// The cause and what mends it, for the log.
    pub why: String,
}

/// The kind of a ticket's refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketRefusalKind {
    /// The clocks of client and server are too far apart.
    ClockSkew,
    /// The token cannot be parsed.
    BadToken,
    /// Any other reason.
    Invalid,
}
