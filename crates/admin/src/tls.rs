//! TLS for the admin page, by which other hosts reach it.
//!
//! Certificate and key are files that somebody else renews. Each connection looks whether they have changed.
//! A new pair counts from then on, and a pair that cannot be used leaves the old one in force. A host that is
//! slow to answer delays only the connection that looks.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, InconsistentKeys, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The time in which a client must finish the handshake.
pub const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

/// The file that cannot be used, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// The certificate.
    Certificate(String),
    /// The key.
    Key(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Certificate(why) | Unusable::Key(why) => f.write_str(why),
        }
    }
}

/// A certificate with its key, both files in PEM.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    /// The acceptor with the pair in force.
    acceptor: Mutex<TlsAcceptor>,
    /// The stamps of the files at the last look. The connection that looks holds the lock.
    seen: Mutex<[Option<Stamp>; 2]>,
}

/// The time of change and the length of a file, which tell that it has changed.
type Stamp = (SystemTime, u64);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    /// The file that cannot be used, with the reason.
    pub fn load(certificate: &Path, key: &Path) -> Result<Tls, Unusable> {
        let seen = Mutex::new(stamps(certificate, key));
        let acceptor = Mutex::new(acceptor(certificate, key)?);
        Ok(Tls { certificate: certificate.to_owned(), key: key.to_owned(), acceptor, seen })
    }

    /// Does the handshake with a client, within [`HANDSHAKE_PATIENCE`].
    pub(crate) async fn accept(self: &Arc<Self>, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let tls = Arc::clone(self);
        let agreed = async {
            // It asks the host, which may take long.
            let acceptor = tokio::task::spawn_blocking(move || tls.current()).await?;
            acceptor.accept(stream).await
        };
        match tokio::time::timeout(HANDSHAKE_PATIENCE, agreed).await {
            Ok(agreed) => agreed,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "too slow to agree on keys")),
        }
    }

    /// The acceptor in force. It looks at the files first unless another connection does.
    fn current(&self) -> TlsAcceptor {
        // Both are replaced as a whole, so they are complete after a panic, too.
        let in_force = || self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = match self.seen.try_lock() {
            Ok(seen) => seen,
            Err(TryLockError::Poisoned(seen)) => seen.into_inner(),
            Err(TryLockError::WouldBlock) => return in_force().clone(),
        };
        let now = stamps(&self.certificate, &self.key);
        if now != *seen {
            *seen = now;
            match acceptor(&self.certificate, &self.key) {
                Ok(acceptor) => {
                    let certificate = self.certificate.display();
                    tracing::info!(%certificate, "the admin page has another certificate");
                    *in_force() = acceptor;
                }
                Err(why) => tracing::error!(%why, "the admin page keeps the certificate that it had"),
            }
        }
        in_force().clone()
    }
}

fn stamps(certificate: &Path, key: &Path) -> [Option<Stamp>; 2] {
    [certificate, key].map(|path| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.modified().ok()?, meta.len()))
    })
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Unusable> {
    let of_certificate = |why: String| Unusable::Certificate(format!("{}: {why}", certificate.display()));
    let of_key = |why: String| Unusable::Key(format!("{}: {why}", key.display()));
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| of_certificate(said(error)))?;
    if chain.is_empty() {
        return Err(of_certificate("there is no certificate in it (PEM, BEGIN CERTIFICATE)".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        PemError::NoItemsFound => of_key("there is no private key in it (PEM, BEGIN PRIVATE KEY)".to_owned()),
        error => of_key(said(error)),
    })?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| of_certificate(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, secret);
    let mut config = config.map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            of_key(format!("the key is not the one of the certificate in {}", certificate.display()))
        }
        Error::InvalidCertificate(why) => of_certificate(format!("the certificate cannot be read: {why}")),
        error => of_key(error.to_string()),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The text of an error of reading a file, without the host's number.
fn said(error: PemError) -> String {
    match error {
        PemError::Io(error) => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_lowercase()
        }
        error => format!("it is no PEM: {error}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A certificate for `localhost` and its key, in PEM.
    pub(crate) fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn stored(dir: &Path, (certificate, key): &(String, String)) -> (PathBuf, PathBuf) {
        let paths = (dir.join("cert.pem"), dir.join("key.pem"));
        std::fs::write(&paths.0, certificate).unwrap();
        std::fs::write(&paths.1, key).unwrap();
        paths
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let own = pair();
        let (certificate, key) = stored(dir.path(), &own);
        assert!(Tls::load(&certificate, &key).is_ok());
        let none = dir.path().join("none.pem");
        let why = |certificate: &Path, key: &Path| Tls::load(certificate, key).unwrap_err();
        let missing = format!("{}: no such file or directory", none.display());
        assert_eq!(why(&none, &key), Unusable::Certificate(missing.clone()));
        assert_eq!(why(&certificate, &none), Unusable::Key(missing));
        assert!(
            matches!(why(&key, &key), Unusable::Certificate(why) if why.contains("no certificate in it"))
        );
        assert!(
            matches!(why(&certificate, &certificate), Unusable::Key(why) if why.contains("no private key"))
        );
        std::fs::write(&key, pair().1).unwrap();
        assert!(
            matches!(why(&certificate, &key), Unusable::Key(why) if why.contains("not the one of the cert"))
        );
        std::fs::write(&certificate, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .unwrap();
        assert!(matches!(why(&certificate, &key), Unusable::Certificate(_)), "{}", why(&certificate, &key));
        std::fs::write(&certificate, "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n").unwrap();
        assert!(matches!(why(&certificate, &key), Unusable::Certificate(why) if why.contains("no PEM")));
    }

    #[test]
    fn a_renewed_pair_counts_at_once_and_a_broken_one_never() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = stored(dir.path(), &pair());
        let tls = Tls::load(&certificate, &key).unwrap();
        let in_force = || Arc::as_ptr(tls.current().config());
        let first = in_force();
        assert_eq!(in_force(), first);
        std::fs::write(&certificate, "half a").unwrap();
        assert_eq!(in_force(), first);
        stored(dir.path(), &pair());
        // As if it had been made later: the host's clock goes in ticks.
        let later = SystemTime::now() + Duration::from_secs(10);
        std::fs::File::options().write(true).open(&key).unwrap().set_modified(later).unwrap();
        assert_ne!(in_force(), first);
        // While one connection looks at the files, the others go on with the pair in force.
        let _looking = tls.seen.lock().unwrap();
        assert_ne!(in_force(), first);
    }
}
