//! The stream below a connection to a directory: TCP, or TLS within it.
//!
//! Every call has a deadline, which holds for all of its reads and writes together.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{self, Algorithm};
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::ber::{BerReader, OBJECT_IDENTIFIER, SEQUENCE};
use super::connection::LdapError;

/// The label of this kind of channel binding (RFC 5929 section 4).
const END_POINT: &[u8] = b"tls-server-end-point:";

/// TLS to the domain controllers: the authorities whose certificates count.
#[derive(Clone)]
pub struct LdapTls(Arc<ClientConfig>);

impl LdapTls {
    /// TLS with the authorities in a file of PEM.
    ///
    /// # Errors
    /// The reason why the file is of no use.
    pub fn trusting(pem: &[u8]) -> Result<LdapTls, String> {
        let mut authorities = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|why| format!("it is no PEM: {why}"))?;
            authorities.add(certificate).map_err(|why| why.to_string())?;
        }
        if authorities.is_empty() {
            return Err("it has no certificate".to_owned());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?;
        Ok(LdapTls(Arc::new(config.with_root_certificates(authorities).with_no_client_auth())))
    }
}

/// The stream.
pub(super) struct LdapStream {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl LdapStream {
    pub(super) fn connect(address: SocketAddr, deadline: Instant) -> Result<LdapStream, LdapError> {
        let stream = TcpStream::connect_timeout(&address, left(deadline)?)?;
        stream.set_nodelay(true)?;
        Ok(LdapStream { stream, tls: None })
    }

    /// Whether messages are encrypted.
    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Does the handshake of TLS with the server that has this host name.
    pub(super) fn secure(&mut self, tls: &LdapTls, host: &str, deadline: Instant) -> Result<(), LdapError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| LdapError::Tls(format!("{host} is no name that a certificate may have")))?;
        let mut session = ClientConnection::new(Arc::clone(&tls.0), name).map_err(tls_error)?;
        // Requests are bounded, and are sent at once.
        session.set_buffer_limit(None);
        self.tls = Some(Box::new(session));
        while let Some(session) = self.tls.as_ref().filter(|session| session.is_handshaking()) {
            if session.wants_write() {
                self.flush(deadline)?;
            } else {
                self.receive(deadline)?;
            }
        }
        self.flush(deadline)
    }

    /// The binding to this channel: the digest of the server's certificate (RFC 5929 section 4.1).
    pub(super) fn binding(&self) -> Option<Vec<u8>> {
        let certificate = self.tls.as_ref()?.peer_certificates()?.first()?;
        let digest = digest::digest(digest_of(certificate), certificate);
        Some([END_POINT, digest.as_ref()].concat())
    }

    pub(super) fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), LdapError> {
        match &mut self.tls {
            Some(session) => session.writer().write_all(bytes)?,
            None => {
                self.stream.set_write_timeout(Some(left(deadline)?))?;
                return Ok(self.stream.write_all(bytes)?);
            }
        }
        self.flush(deadline)
    }

    /// Reads at least one byte. 0 is the end of the stream.
    pub(super) fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> Result<usize, LdapError> {
        loop {
            let Some(session) = &mut self.tls else {
                self.stream.set_read_timeout(Some(left(deadline)?))?;
                return Ok(self.stream.read(buffer)?);
            };
            match session.reader().read(buffer) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => self.receive(deadline)?,
                read => return Ok(read?),
            }
        }
    }

    /// Takes what the server has sent for TLS.
    fn receive(&mut self, deadline: Instant) -> Result<(), LdapError> {
        let Some(session) = &mut self.tls else { return Ok(()) };
        self.stream.set_read_timeout(Some(left(deadline)?))?;
        if session.read_tls(&mut self.stream)? == 0 && session.is_handshaking() {
            return Err(LdapError::Protocol("the server closed the connection"));
        }
        let processed = session.process_new_packets().map_err(tls_error);
        // An alert says why to the server.
        self.flush(deadline)?;
        processed.map(drop)
    }

    /// Sends what TLS has to send.
    fn flush(&mut self, deadline: Instant) -> Result<(), LdapError> {
        let Some(session) = &mut self.tls else { return Ok(()) };
        while session.wants_write() {
            self.stream.set_write_timeout(Some(left(deadline)?))?;
            session.write_tls(&mut self.stream)?;
        }
        Ok(())
    }
}

fn tls_error(why: rustls::Error) -> LdapError {
    LdapError::Tls(why.to_string())
}

/// The digest of a certificate's own signature, and SHA-256 for older ones (RFC 5929 section 4.1).
fn digest_of(certificate: &[u8]) -> &'static Algorithm {
    // The algorithms of RFC 8017 appendix C and RFC 5758 section 3.2.
    const SHA384: [&[u8]; 2] =
        [&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12], &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3]];
    const SHA512: [&[u8]; 2] =
        [&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13], &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4]];
    let algorithm = || {
        let mut fields = BerReader::new(certificate).inner(SEQUENCE).ok()?;
        fields.expect(SEQUENCE).ok()?;
        fields.inner(SEQUENCE).ok()?.expect(OBJECT_IDENTIFIER).ok()
    };
    match algorithm() {
        Some(algorithm) if SHA384.contains(&algorithm) => &digest::SHA384,
        Some(algorithm) if SHA512.contains(&algorithm) => &digest::SHA512,
        _ => &digest::SHA256,
    }
}

/// The time that is left.
pub(super) fn left(deadline: Instant) -> Result<Duration, LdapError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(LdapError::Late) } else { Ok(left) }
}
