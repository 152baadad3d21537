//! The server's side of a log-on with a ticket.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zeroize::Zeroizing;

use crate::ap_req;
use crate::credentials::{AcceptorCredentials, AcceptorKeys};
use crate::encryption_type::EncryptionType;
use crate::error::{Cause, GssError};
use crate::library::{Context, flags};

/// The attribute of a name with the whole PAC (MIT's `gss_get_name_attribute`).
const PAC_ATTRIBUTE: &str = "urn:mspac:";

/// One log-on from the server's view.
pub struct AcceptorContext {
    credentials: Arc<AcceptorCredentials>,
    context: Context,
    /// The type of the ticket's encryption, after the first token.
    ticket_type: Option<EncryptionType>,
}

/// The result of a token.
#[derive(Debug)]
pub enum Accepted {
    /// Send this token, then pass in the client's next one.
    Continue(Vec<u8>),
    /// The client is authenticated.
    Done {
        /// Send this token. It is empty if the client did not ask for mutual authentication.
        reply: Vec<u8>,
        /// The client.
        client: Client,
    },
}

/// The PAC of a ticket (MS-PAC).
#[derive(Clone, PartialEq, Eq)]
pub enum PacData {
    /// The ticket has none, or none with a valid server signature: MIT's library hides such a PAC.
    Missing,
    /// The bytes of a PAC with a valid server signature.
    Verified(Vec<u8>),
}

/// A client that has proved itself with a ticket.
pub struct Client {
    /// Its principal, such as `bob@EXAMPLE.NET`.
    pub principal: String,
    /// The service that the ticket is for, such as `cifs/files.example.net@EXAMPLE.NET`.
    pub service: String,
    /// The key that only client and server know: the acceptor's subkey if there is one, else the initiator's,
    /// else the ticket's session key.
    pub session_key: Zeroizing<Vec<u8>>,
    /// The encryption type of that key.
    pub encryption_type: EncryptionType,
    /// How long the ticket stays valid. MIT adds the clock skew of the host's `krb5.conf`.
    pub lifetime: Duration,
    /// The ticket's PAC.
    pub pac: PacData,
    /// Whether the client has asked the server to prove itself too.
    pub is_mutual: bool,
}

impl AcceptorContext {
    /// A context that waits for its first token.
    #[must_use]
    pub fn new(credentials: &Arc<AcceptorCredentials>) -> AcceptorContext {
        let context = Context::new(credentials.library());
        AcceptorContext { credentials: Arc::clone(credentials), context, ticket_type: None }
    }

    /// Takes the client's next token. This looks at the keytab and writes the replay cache, so it may block.
    ///
    /// # Errors
    /// The reason why the client is refused. The context is of no use afterwards.
    pub fn step(&mut self, token: &[u8]) -> Result<Accepted, GssError> {
        let ticket_type = match self.ticket_type {
            Some(known) => known,
            None => {
                let types = ap_req::encryption_types(token);
                let types =
                    types.ok_or_else(|| GssError::local("gss_accept_sec_context", Cause::BadToken))?;
                types.into_iter().try_for_each(|kind| self.credentials.check(kind))?;
                *self.ticket_type.insert(types[0])
            }
        };
        let (credentials, keys) = (&self.credentials, self.credentials.keys());
        let turn = credentials.with_own(&keys, |credential| self.context.accept(credential, token));
        let turn = turn.map_err(|why| match why.cause() {
            Cause::Skew | Cause::NotYetValid => why.with_note(clocks_note(&keys, token)),
            _ => why,
        })?;
        let Some(name) = turn.client.filter(|_| turn.is_established) else {
            return Ok(Accepted::Continue(turn.token));
        };
        let (session_key, kind) = self.context.session_key()?;
        let encryption_type = EncryptionType::of_last_arc(&kind);
        self.credentials.check(encryption_type)?;
        let pac = match name.attribute(PAC_ATTRIBUTE)? {
            Some(pac) if pac.is_authenticated => PacData::Verified(pac.value),
            Some(_) | None => PacData::Missing,
        };
        let client = Client {
            principal: name.text()?,
            service: self.service(&keys, ticket_type)?,
            session_key,
            encryption_type,
            lifetime: Duration::from_secs(turn.lifetime_s.into()),
            pac,
            is_mutual: turn.flags & flags::MUTUAL != 0,
        };
        Ok(Accepted::Done { reply: turn.token, client })
    }

    /// The service that the ticket is for. Each name that the library gives costs three contexts of
    /// `libkrb5`, so it is asked only where the keys leave a choice.
    fn service(&self, keys: &AcceptorKeys, ticket_type: EncryptionType) -> Result<String, GssError> {
        let told = || self.context.service()?.text();
        let Some(known) = keys.service(ticket_type) else { return told() };
        debug_assert_eq!(told().as_deref(), Ok(known));
        Ok(known.to_owned())
    }

    /// The message integrity code of a message, after the client is authenticated.
    ///
    /// # Errors
    /// The library's.
    pub fn get_mic(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        self.context.mic(message)
    }

    /// Checks the client's message integrity code of a message.
    ///
    /// # Errors
    /// [`Cause::WrongKey`] for a wrong one, and others.
    pub fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> Result<(), GssError> {
        self.context.verify(message, mic)
    }
}

/// How far the clocks of client and server are apart, if the client's token can be opened.
fn clocks_note(keys: &AcceptorKeys, token: &[u8]) -> Option<String> {
    let client_s = keys.client_time(ap_req::request(token)?)?;
    let own_s = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs().cast_signed();
    Some(apart(own_s - client_s))
}

/// The difference of the clocks in words. `ahead_s` is that of the server.
fn apart(ahead_s: i64) -> String {
    match ahead_s {
        -1..=1 => "this server's clock agrees with the client's".to_owned(),
        2.. => format!("this server's clock is {ahead_s} s ahead of the client's"),
        _ => format!("this server's clock is {} s behind the client's", ahead_s.unsigned_abs()),
    }
}

impl fmt::Debug for AcceptorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcceptorContext")
    }
}

impl fmt::Debug for PacData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacData::Missing => f.write_str("Missing"),
            PacData::Verified(bytes) => write!(f, "Verified({} bytes)", bytes.len()),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("principal", &self.principal)
            .field("service", &self.service)
            .field("encryption_type", &self.encryption_type)
            .field("lifetime", &self.lifetime)
            .field("pac", &self.pac)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_says_which_clock_is_where() {
        assert_eq!(apart(612), "this server's clock is 612 s ahead of the client's");
        assert_eq!(apart(-612), "this server's clock is 612 s behind the client's");
        assert_eq!(apart(-1), "this server's clock agrees with the client's");
    }
}
