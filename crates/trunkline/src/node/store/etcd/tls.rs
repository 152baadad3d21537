//! TLS to etcd: the authorities of its certificates, and the certificate of this node.
//!
//! The files may be renewed while the node runs. Each connection looks whether they have changed. Files that
//! cannot be used leave the old ones in force.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The files for TLS to etcd, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdTls {
    /// The authorities of etcd's certificates.
    pub ca: PathBuf,
    /// The certificate of this node and its key, if etcd wants one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// The times of change and the lengths of the files.
type FileStamps = Vec<Option<(SystemTime, u64)>>;

/// TLS with the files that are in force.
pub struct ClientTls {
    files: EtcdTls,
    in_force: Mutex<(FileStamps, Arc<ClientConfig>)>,
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn load(files: EtcdTls) -> Result<ClientTls, String> {
        let in_force = Mutex::new((files.stamps(), files.read()?));
        Ok(ClientTls { files, in_force })
    }

    /// Does the handshake with the member that has this host name or address.
    pub async fn secure(&self, stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(self.current()).connect(name, stream).await
    }

    fn current(&self) -> Arc<ClientConfig> {
        let mut in_force = self.in_force.lock();
        let stamps = self.files.stamps();
        if in_force.0 != stamps {
            in_force.0 = stamps;
            match self.files.read() {
                Ok(config) => in_force.1 = config,
                Err(why) => tracing::error!(%why, "TLS to etcd keeps the files that it had"),
            }
        }
        Arc::clone(&in_force.1)
    }
}

impl EtcdTls {
    fn stamps(&self) -> FileStamps {
        let stamp = |path: &PathBuf| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.modified().ok()?, meta.len()))
        };
        let client = self.client.iter().flat_map(|(certificate, key)| [certificate, key]);
        [&self.ca].into_iter().chain(client).map(stamp).collect()
    }

    fn read(&self) -> Result<Arc<ClientConfig>, String> {
        let mut authorities = RootCertStore::empty();
        for certificate in certificates(&self.ca)? {
            authorities.add(certificate).map_err(|why| unusable(&self.ca, &why))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .with_root_certificates(authorities);
        let Some((certificate, key_file)) = &self.client else {
            return Ok(Arc::new(config.with_no_client_auth()));
        };
        let key = PrivateKeyDer::from_pem_file(key_file).map_err(|why| unusable(key_file, &why))?;
        let config = config.with_client_auth_cert(certificates(certificate)?, key);
        config.map(Arc::new).map_err(|why| unusable(certificate, &why))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|why| unusable(path, &why))?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(|why| unusable(path, &why))?;
    if all.is_empty() { Err(unusable(path, &"it has no certificate")) } else { Ok(all) }
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{}: {why}", path.display())
}
