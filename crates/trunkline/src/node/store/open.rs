//! Opens the tenure store of a configuration.

use std::sync::Arc;
use std::time::Duration;

use tenure::TenureStore;

use super::{EtcdLogin, EtcdOptions, EtcdStore, EtcdTls, ExternalStore, FlockStore, TenureFile};
use crate::config::node::TenureKind;
use crate::config::{Config, Node, check};

/// A store, and the end of it that another program uses.
pub struct OpenedStore {
    /// The store.
    pub store: Arc<dyn TenureStore>,
    /// The same, if another program decides.
    pub external: Option<Arc<ExternalStore>>,
}

/// Opens the store of `[node]`.
///
/// # Errors
/// One line about the setting that cannot be used.
pub fn open(config: &Config) -> anyhow::Result<OpenedStore> {
    let node = &config.node;
    let beside = || TenureFile::beside(&config.server.state_dir.value).map_err(anyhow::Error::msg);
    let store = match node.tenure.as_ref().map(|tenure| tenure.value) {
        None => anyhow::bail!("`tenure` is not set in [node]"),
        Some(TenureKind::Flock) => {
            OpenedStore { store: Arc::new(FlockStore::new(beside()?)), external: None }
        }
        Some(TenureKind::External) => {
            let store = Arc::new(ExternalStore::new(beside()?, net::boot_time));
            OpenedStore { store: Arc::<ExternalStore>::clone(&store), external: Some(store) }
        }
        Some(TenureKind::Etcd) => OpenedStore { store: Arc::new(etcd(node)?), external: None },
    };
    Ok(store)
}

/// Checks the settings of a store and the files that they name, as [`open`] does. It needs no storage and
/// asks no store.
///
/// # Errors
/// One line about the setting that cannot be used.
pub fn check(node: &Node) -> anyhow::Result<()> {
    match node.tenure.as_ref().map(|tenure| tenure.value) {
        Some(TenureKind::Etcd) => etcd(node).map(drop),
        Some(TenureKind::Flock | TenureKind::External) | None => Ok(()),
    }
}

fn etcd(node: &Node) -> anyhow::Result<EtcdStore> {
    EtcdStore::new(options(node)?).map_err(|why| anyhow::anyhow!("[node]: {why}"))
}

fn options(node: &Node) -> anyhow::Result<EtcdOptions> {
    let client = node.etcd_certificate.as_ref().zip(node.etcd_key.as_ref());
    let client = client.map(|(certificate, key)| (certificate.value.clone(), key.value.clone()));
    let tls = node.etcd_ca.as_ref().map(|ca| EtcdTls { ca: ca.value.clone(), client });
    let login = match (&node.etcd_user, &node.etcd_password_file) {
        (Some(user), Some(file)) => Some(EtcdLogin {
            user: user.value.clone(),
            password: check::read_password(&file.value)
                .map_err(|why| anyhow::anyhow!("`etcd_password_file` in [node]: {why}"))?,
        }),
        _ => None,
    };
    Ok(EtcdOptions {
        endpoints: node.etcd.value.clone(),
        server: node.server.value.clone(),
        term: Duration::from_secs(node.term_s.value),
        tls,
        login,
    })
}
