//! A connection to a directory: SASL with a security layer or within TLS, and searches page by page.
//!
//! Every call has a deadline. A connection that failed once is not used again.

use std::time::{Duration, Instant};

use super::ber::{self, BerError};
use super::directory::DomainController;
use super::message::{self, Filter, LdapEntry, LdapResult, LdapSearch, Reply, Scope};
use super::transport::{LdapStream, LdapTls, left};

/// The largest message of a server.
const MOST_BYTES: usize = 16 << 20;
/// The most entries of one search.
const MOST_ENTRIES: usize = 100_000;
/// The result codes of RFC 4511 appendix A.1.
const SUCCESS: u32 = 0;
const NO_SUCH_OBJECT: u32 = 32;
const SASL_IN_PROGRESS: u32 = 14;
/// The layers of RFC 4752 section 3.1: none is 1, integrity 2, confidentiality 4.
const NO_LAYER: u8 = 1;
const SEALED: u8 = 4;

/// The reason why a directory gave no result.
#[derive(Debug, thiserror::Error)]
pub enum LdapError {
    /// The host's error.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A message that is none.
    #[error(transparent)]
    Ber(#[from] BerError),
    /// TLS failed.
    #[error("TLS: {0}")]
    Tls(String),
    /// The mechanism's error.
    #[error("{0}")]
    Sasl(String),
    /// The server refused.
    #[error("the directory refused with the result {code}: {text}")]
    Refused {
        /// The result code of RFC 4511.
        code: u32,
        /// The server's explanation.
        text: String,
    },
    /// Too much, or not what the protocol demands.
    #[error("the directory broke the protocol: {0}")]
    Protocol(&'static str),
    /// The deadline passed.
    #[error("no answer in time")]
    Late,
}

/// A turn of a mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslTurn {
    /// Send this token, then pass in the server's next one.
    Continue(Vec<u8>),
    /// The mechanism is done. Send this token, which may be empty.
    Done(Vec<u8>),
}

/// The client's side of SASL's mechanism GSSAPI (RFC 4752).
pub trait SaslContext: Send {
    /// Begins (without a token), or takes the server's next token.
    ///
    /// # Errors
    /// The reason, for the log.
    fn step(&mut self, token: Option<&[u8]>) -> Result<SaslTurn, String>;
    /// Encrypts and signs a message, or signs it alone.
    ///
    /// # Errors
    /// The reason.
    fn wrap(&mut self, message: &[u8], seal: bool) -> Result<Vec<u8>, String>;
    /// Decrypts a message of the server, and says whether it was encrypted.
    ///
    /// # Errors
    /// The reason.
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<(Vec<u8>, bool), String>;
}

/// A connection that is bound, and sealed or within TLS.
pub struct LdapConnection {
    transport: LdapStream,
    /// The mechanism, once the log-on has begun.
    layer: Option<Box<dyn SaslContext>>,
    is_sealed: bool,
    /// The largest message that the server takes, layer included.
    most: usize,
    last_id: u32,
    /// Bytes of the stream, and bytes out of the layer.
    raw: Vec<u8>,
    plain: Vec<u8>,
}

impl LdapConnection {
    /// Connects to a host, and begins TLS if there are settings for it.
    ///
    /// # Errors
    /// [`LdapError`].
    pub fn connect(
        controller: &DomainController,
        tls: Option<&LdapTls>,
        deadline: Instant,
    ) -> Result<LdapConnection, LdapError> {
        let transport = LdapStream::connect(controller.address, deadline)?;
        let (raw, plain, most) = (Vec::new(), Vec::new(), MOST_BYTES);
        let mut connection =
            LdapConnection { transport, layer: None, is_sealed: false, most, last_id: 0, raw, plain };
        if let Some(tls) = tls {
            connection.start_tls(tls, &controller.host, deadline)?;
        }
        Ok(connection)
    }

    /// Begins TLS (RFC 4511 section 4.14).
    fn start_tls(&mut self, tls: &LdapTls, host: &str, deadline: Instant) -> Result<(), LdapError> {
        let id = self.next_id();
        self.send(&message::start_tls(id), deadline)?;
        match self.reply(id, deadline)? {
            Reply::Extended(result) if result.code == SUCCESS => {}
            Reply::Extended(result) => return Err(refused(result, "")),
            _ => return Err(LdapError::Protocol("another reply than that to StartTLS")),
        }
        // Bytes that came before the handshake are no part of what TLS protects.
        if !self.plain.is_empty() {
            return Err(LdapError::Protocol("bytes before the handshake of TLS"));
        }
        self.transport.secure(tls, host, deadline)
    }

    /// The binding to the channel of TLS (RFC 5929), for the mechanism; none: there is no TLS.
    #[must_use]
    pub fn channel(&self) -> Option<Vec<u8>> {
        self.transport.binding()
    }

    /// Binds with GSSAPI. The connection is sealed or within TLS then, or this fails.
    ///
    /// # Errors
    /// [`LdapError`].
    pub fn bind(&mut self, mut layer: Box<dyn SaslContext>, deadline: Instant) -> Result<(), LdapError> {
        let mut server_token: Option<Vec<u8>> = None;
        loop {
            let turn = layer.step(server_token.as_deref()).map_err(LdapError::Sasl)?;
            let (SaslTurn::Continue(token) | SaslTurn::Done(token)) = &turn;
            let (result, next) = self.bind_turn(token, deadline)?;
            if result.code != SASL_IN_PROGRESS {
                // A server that ends here offers no layer.
                return Err(refused(result, "the bind ended without a security layer"));
            }
            server_token = next;
            if let SaslTurn::Done(_) = turn {
                break;
            }
        }
        self.negotiate_layer(&mut *layer, &server_token.unwrap_or_default(), deadline)?;
        self.is_sealed = !self.transport.is_tls();
        self.layer = Some(layer);
        Ok(())
    }

    /// The last turn: the server offers layers, and the client takes the sealed one, or none within TLS
    /// (RFC 4752 section 3.1).
    fn negotiate_layer(
        &mut self,
        layer: &mut dyn SaslContext,
        offer: &[u8],
        deadline: Instant,
    ) -> Result<(), LdapError> {
        let (offer, _) = layer.unwrap(offer).map_err(LdapError::Sasl)?;
        let [layers, a, b, c] = offer[..] else { return Err(LdapError::Protocol("no offer of layers")) };
        let choice = if self.transport.is_tls() {
            if layers & NO_LAYER == 0 {
                return Err(LdapError::Protocol("the server wants encryption within TLS"));
            }
            [NO_LAYER, 0, 0, 0]
        } else {
            if layers & SEALED == 0 {
                return Err(LdapError::Protocol("the server offers no encryption"));
            }
            self.most = u32::from_be_bytes([0, a, b, c]) as usize;
            [SEALED, 0xff, 0xff, 0xff]
        };
        let token = layer.wrap(&choice, false).map_err(LdapError::Sasl)?;
        let (result, _) = self.bind_turn(&token, deadline)?;
        if result.code != SUCCESS {
            return Err(refused(result, "the server takes no security layer"));
        }
        Ok(())
    }

    fn bind_turn(
        &mut self,
        token: &[u8],
        deadline: Instant,
    ) -> Result<(LdapResult, Option<Vec<u8>>), LdapError> {
        let id = self.next_id();
        self.send(&message::bind(id, "GSSAPI", Some(token)), deadline)?;
        match self.reply(id, deadline)? {
            Reply::Bind(result, token) => Ok((result, token)),
            _ => Err(LdapError::Protocol("another reply than that to the bind")),
        }
    }

    /// All entries of a search. A base that does not exist has none. References are not followed.
    ///
    /// # Errors
    /// [`LdapError`]. The connection is of no use then.
    pub fn search(
        &mut self,
        search: &LdapSearch<'_>,
        deadline: Instant,
    ) -> Result<Vec<LdapEntry>, LdapError> {
        let (mut entries, mut cookie) = (Vec::new(), Vec::new());
        loop {
            let id = self.next_id();
            let seconds = u32::try_from(left(deadline)?.as_secs()).unwrap_or(0) + 1;
            self.send(&message::search(id, search, &cookie, seconds), deadline)?;
            cookie = loop {
                match self.reply(id, deadline)? {
                    Reply::Entry(entry) if entries.len() < MOST_ENTRIES => entries.push(entry),
                    Reply::Entry(_) => return Err(LdapError::Protocol("too many entries")),
                    Reply::Reference | Reply::Other => {}
                    Reply::Done(result, cookie) if result.code == SUCCESS => break cookie,
                    Reply::Done(result, _) if result.code == NO_SUCH_OBJECT => return Ok(Vec::new()),
                    Reply::Done(result, _) => return Err(refused(result, "")),
                    Reply::Bind(..) | Reply::Extended(_) => {
                        return Err(LdapError::Protocol("a reply to another request"));
                    }
                }
            };
            if cookie.is_empty() {
                return Ok(entries);
            }
        }
    }

    /// All values of an attribute of one entry. A server returns those of a large attribute in ranges
    /// (MS-ADTS 3.1.1.3.1.3.3).
    ///
    /// # Errors
    /// [`LdapError`].
    pub fn all_values(
        &mut self,
        name: &str,
        attribute: &str,
        deadline: Instant,
    ) -> Result<Vec<Vec<u8>>, LdapError> {
        let filter = Filter::Present("objectClass");
        let (mut values, mut wanted) = (Vec::new(), attribute.to_owned());
        loop {
            let attributes = [wanted.as_str()];
            let search =
                LdapSearch { base: name, scope: Scope::Base, filter: &filter, attributes: &attributes };
            let mut next = None;
            for entry in self.search(&search, deadline)? {
                for (found, more) in entry.attributes {
                    next = next.or(message::rest_of_range(&found, attribute)).filter(|_| !more.is_empty());
                    values.extend(more);
                }
            }
            if values.len() > MOST_ENTRIES {
                return Err(LdapError::Protocol("too many values"));
            }
            let Some(from) = next else { return Ok(values) };
            wanted = format!("{attribute};range={from}-*");
        }
    }

    fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    fn send(&mut self, message: &[u8], deadline: Instant) -> Result<(), LdapError> {
        let Some(layer) = self.layer.as_mut().filter(|_| self.is_sealed) else {
            return self.transport.send(message, deadline);
        };
        let wrapped = layer.wrap(message, true).map_err(LdapError::Sasl)?;
        if wrapped.len() > self.most {
            return Err(LdapError::Protocol("the request is larger than the server takes"));
        }
        let mut framed = u32::try_from(wrapped.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
        framed.extend_from_slice(&wrapped);
        self.transport.send(&framed, deadline)
    }

    /// The next reply to this request. Replies to others are left over from a search that was given up.
    fn reply(&mut self, id: u32, deadline: Instant) -> Result<Reply, LdapError> {
        loop {
            let message = self.receive(deadline)?;
            let (own, reply) = message::parse(&message)?;
            if own == id {
                return Ok(reply);
            }
            // 0 is the server's notice that it disconnects (RFC 4511 section 4.4.1).
            if own == 0 {
                return Err(LdapError::Protocol("the server disconnects"));
            }
        }
    }

    /// The next message, out of the layer.
    fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, LdapError> {
        loop {
            if let Some(length) = ber::message_length(&self.plain)? {
                if length > MOST_BYTES {
                    return Err(LdapError::Protocol("a message that is too large"));
                }
                if length <= self.plain.len() {
                    let rest = self.plain.split_off(length);
                    return Ok(std::mem::replace(&mut self.plain, rest));
                }
            }
            self.fill(deadline)?;
        }
    }

    /// Adds at least one byte to the bytes out of the layer.
    fn fill(&mut self, deadline: Instant) -> Result<(), LdapError> {
        loop {
            let layer = self.layer.as_mut().filter(|_| self.is_sealed);
            if let Some((header, layer)) = self.raw.first_chunk::<4>().zip(layer) {
                let length = u32::from_be_bytes(*header) as usize;
                if length > MOST_BYTES {
                    return Err(LdapError::Protocol("a sealed message that is too large"));
                }
                if let Some(wrapped) = self.raw.get(4..4 + length) {
                    let (message, was_sealed) = layer.unwrap(wrapped).map_err(LdapError::Sasl)?;
                    if !was_sealed {
                        return Err(LdapError::Protocol("a message without encryption"));
                    }
                    self.plain.extend_from_slice(&message);
                    self.raw.drain(..4 + length);
                    return Ok(());
                }
            }
            let mut buffer = [0; 16 << 10];
            let count = self.transport.read(&mut buffer, deadline)?;
            if count == 0 {
                return Err(LdapError::Protocol("the server closed the connection"));
            }
            if self.is_sealed {
                self.raw.extend_from_slice(&buffer[..count]);
            } else {
                self.plain.extend_from_slice(&buffer[..count]);
                return Ok(());
            }
        }
    }
}

impl Drop for LdapConnection {
    fn drop(&mut self) {
        // A courtesy: the server sees the end of the connection anyway.
        let soon = Instant::now() + Duration::from_millis(50);
        let id = self.next_id();
        let _ = self.send(&message::unbind(id), soon);
    }
}

fn refused(result: LdapResult, without: &'static str) -> LdapError {
    match result.code {
        SUCCESS => LdapError::Protocol(without),
        code => LdapError::Refused { code, text: result.text.trim_end_matches('\0').to_owned() },
    }
}
