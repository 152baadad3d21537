//! TLS for the admin page and the metrics, by which other hosts reach them.
//!
//! Certificate, key and the authorities of client certificates are files that somebody else renews. Each
//! connection looks whether they have changed. New files count from then on, and files that cannot be used
//! leave the old ones in force. A host that is slow to answer delays only the connection that looks.
//!
//! A client may come without a certificate, and then needs a token. A certificate that no authority vouches
//! for, or that has expired, ends the handshake.

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
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{Error, InconsistentKeys, RootCertStore, ServerConfig};
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
    /// The authorities of client certificates.
    ClientCa(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Certificate(why) | Unusable::Key(why) | Unusable::ClientCa(why) => f.write_str(why),
        }
    }
}

/// The files of TLS, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's chain of certificates.
    pub certificate: PathBuf,
    /// The key of its first certificate.
    pub key: PathBuf,
    /// The authorities of client certificates; none: clients have no certificates.
    pub client_ca: Option<PathBuf>,
}

/// TLS with the files that are in force.
pub struct Tls {
    files: TlsFiles,
    /// The acceptor with the files in force.
    acceptor: Mutex<TlsAcceptor>,
    /// The stamps of the files at the last look. The connection that looks holds the lock.
    seen: Mutex<Stamps>,
}

/// The time of change and the length of each file, which tell that it has changed.
type Stamps = Vec<Option<(SystemTime, u64)>>;

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// A certificate of a client that the handshake has checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its DNS names (subjectAltName).
    pub names: Vec<String>,
}

impl ClientCertificate {
    /// The certificate of the client at the other end, if it has one.
    pub(crate) fn of<T>(stream: &TlsStream<T>) -> Option<ClientCertificate> {
        let first = stream.get_ref().1.peer_certificates()?.first()?;
        let read = webpki::EndEntityCert::try_from(first).ok()?;
        Some(ClientCertificate { names: read.valid_dns_names().map(str::to_owned).collect() })
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// The file that cannot be used, with the reason.
    pub fn load(files: TlsFiles) -> Result<Tls, Unusable> {
        let seen = Mutex::new(stamps(&files));
        let acceptor = Mutex::new(acceptor(&files)?);
        Ok(Tls { files, acceptor, seen })
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
        let now = stamps(&self.files);
        if now != *seen {
            *seen = now;
            match acceptor(&self.files) {
                Ok(acceptor) => {
                    let certificate = self.files.certificate.display();
                    tracing::info!(%certificate, "renewed files of TLS are in force for administrators");
                    *in_force() = acceptor;
                }
                Err(why) => tracing::error!(%why, "TLS for administrators keeps the files that it had"),
            }
        }
        in_force().clone()
    }
}

fn stamps(files: &TlsFiles) -> Stamps {
    let all = [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()];
    let stamp = |path: &PathBuf| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.modified().ok()?, meta.len()))
    };
    all.into_iter().flatten().map(stamp).collect()
}

fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, Unusable> {
    let TlsFiles { certificate, key, client_ca } = files;
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
        .map_err(|error| of_certificate(error.to_string()))?;
    let config = match client_ca {
        None => config.with_no_client_auth(),
        Some(path) => config.with_client_cert_verifier(verifier(path)?),
    };
    let config = config.with_single_cert(chain, secret);
    let mut config = config.map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            of_key(format!("the key is not the one of the certificate in {}", certificate.display()))
        }
        Error::InvalidCertificate(why) => of_certificate(format!("the certificate cannot be read: {why}")),
        error => of_key(error.to_string()),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // The client's certificate is not checked again when a session is resumed, and may have expired.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The check of client certificates against the authorities in a file.
fn verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, Unusable> {
    let wrong = |why: String| Unusable::ClientCa(format!("{}: {why}", path.display()));
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut roots = RootCertStore::empty();
    for authority in found.map_err(|error| wrong(said(error)))? {
        roots.add(authority).map_err(|error| wrong(format!("a certificate cannot be read: {error}")))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate in it (PEM, BEGIN CERTIFICATE)".to_owned()));
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| wrong(error.to_string()))
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

    /// An authority that signs certificates of clients.
    pub(crate) struct Authority(rcgen::CertifiedIssuer<'static, rcgen::KeyPair>);

    impl Authority {
        pub(crate) fn new() -> Authority {
            let mut parameters = rcgen::CertificateParams::default();
            parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            let key = rcgen::KeyPair::generate().unwrap();
            Authority(rcgen::CertifiedIssuer::self_signed(parameters, key).unwrap())
        }

        pub(crate) fn pem(&self) -> String {
            self.0.pem()
        }

        /// A certificate for a DNS name and its key, in PEM.
        pub(crate) fn client(&self, name: &str, is_valid: bool) -> (String, String) {
            let mut parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
            parameters.extended_key_usages.push(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
            if !is_valid {
                parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
            }
            let key = rcgen::KeyPair::generate().unwrap();
            let signed = parameters.signed_by(&key, &self.0).unwrap();
            (signed.pem(), key.serialize_pem())
        }
    }

    /// A client that trusts a certificate, and may have one of its own with its key.
    pub(crate) fn connector(trusted: &str, own: Option<&(String, String)>) -> tokio_rustls::TlsConnector {
        use tokio_rustls::rustls::ClientConfig;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        tokio_rustls::TlsConnector::from(Arc::new(config))
    }

    fn stored(dir: &Path, (certificate, key): &(String, String)) -> (PathBuf, PathBuf) {
        let paths = (dir.join("cert.pem"), dir.join("key.pem"));
        std::fs::write(&paths.0, certificate).unwrap();
        std::fs::write(&paths.1, key).unwrap();
        paths
    }

    fn load(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Tls, Unusable> {
        let client_ca = client_ca.map(Path::to_owned);
        Tls::load(TlsFiles { certificate: certificate.to_owned(), key: key.to_owned(), client_ca })
    }

    #[test]
    fn authorities_that_cannot_be_used_are_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = stored(dir.path(), &pair());
        assert!(load(&certificate, &key, Some(&certificate)).is_ok());
        let why = |ca: &Path| match load(&certificate, &key, Some(ca)).unwrap_err() {
            Unusable::ClientCa(why) => why,
            other => panic!("{other}"),
        };
        assert!(why(&dir.path().join("none")).ends_with("none: no such file or directory"));
        assert!(why(&key).contains("there is no certificate in it"));
        let bad = dir.path().join("bad");
        std::fs::write(&bad, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(why(&bad).contains("a certificate cannot be read"), "{}", why(&bad));
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let own = pair();
        let (certificate, key) = stored(dir.path(), &own);
        assert!(load(&certificate, &key, None).is_ok());
        let none = dir.path().join("none.pem");
        let why = |certificate: &Path, key: &Path| load(certificate, key, None).unwrap_err();
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
        let tls = load(&certificate, &key, None).unwrap();
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
