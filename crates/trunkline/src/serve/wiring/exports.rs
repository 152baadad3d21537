//! NFS: a server for each endpoint, and what it is told of shares.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nfs::connection::service::{Endpoints, Nfs};

use crate::config::endpoints::EndpointOwner;
use crate::config::values::Network;
use crate::config::{ShareProtocol, Share};
use crate::serve::listen::BoundEndpoint;
use crate::serve::plan::ServePlan;
use crate::state::StateDir;

/// The file with the key that filehandles are signed with.
const HANDLE_KEY: &str = "handle-key";

/// Replies that NFS sessions keep may take this part of the host's memory, and always so many bytes.
const REPLY_PART: u64 = 32;
const REPLY_LEAST: u64 = 16 << 20;

/// A server for each endpoint; none where nobody serves NFS.
pub struct Servers {
    list: Vec<(BoundEndpoint, Arc<nfs::Server>)>,
}

impl Servers {
    /// For a plan; they serve nothing yet.
    ///
    /// # Errors
    /// One line for the user.
    pub fn new(plan: &ServePlan, state: &StateDir, endpoints: Vec<BoundEndpoint>) -> anyhow::Result<Servers> {
        let settings = &plan.config.server;
        let guid = plan.identity.guid.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let reply_memory = nfs::state::reply_memory::ReplyMemory::new(reply_bytes());
        let instance = net::now().wall_ns.unsigned_abs();
        let mut list = Vec::new();
        for (number, endpoint) in (0..).zip(endpoints) {
            // Another owner and scope is another server to clients (RFC 8881 2.10.5.1), so that they take
            // nothing of one for something of the other.
            let name = match &endpoint.owner {
                EndpointOwner::Server => format!("trunkline-{guid}"),
                EndpointOwner::Account(name) => format!("trunkline-{guid}/account/{name}"),
                EndpointOwner::Share(name) => format!("trunkline-{guid}/share/{name}"),
            };
            let server = nfs::Server::new(nfs::ServerConfig {
                name: name.into_bytes(),
                handle_key: state.secret(HANDLE_KEY)?,
                // Client IDs and session ids begin with it: each server's are its own.
                instance: instance.wrapping_add(number),
                lease_time_s: u32::try_from(settings.nfs_lease_time_s.value)?,
                slots: u32::try_from(settings.nfs_slots.value)?,
                max_connections: usize::try_from(settings.max_connections.value)?,
                connections_per_client: usize::try_from(endpoint.max_connections)?,
                reply_memory: Arc::clone(&reply_memory),
            });
            list.push((endpoint, server));
        }
        Ok(Servers { list })
    }

    /// With their endpoints, the server's own first.
    pub fn list(&self) -> &[(BoundEndpoint, Arc<nfs::Server>)] {
        &self.list
    }

    /// All of them behind one transport.
    pub fn service(&self) -> Endpoints {
        let routes = self.list.iter().flat_map(|(endpoint, server)| {
            endpoint.addresses.iter().map(|address| (*address, Nfs(Arc::clone(server))))
        });
        Endpoints::new(routes.collect())
    }

    /// Serves these from now on, each at its endpoint.
    pub fn set_exports(&self, exports: Vec<(EndpointOwner, nfs::Export)>) {
        for (owner, export) in &exports {
            if !self.list.iter().any(|(endpoint, _)| endpoint.owner == *owner) {
                tracing::warn!(share = %export.name, endpoint = %owner, "NFS clients find the share after the next start: nothing listens there yet");
            }
        }
        for (endpoint, server) in &self.list {
            let here = exports.iter().filter(|(owner, _)| *owner == endpoint.owner);
            server.set_exports(here.map(|(_, export)| export.clone()));
        }
    }

    /// Has each keep its clients, and lets those come back that were there before.
    ///
    /// # Errors
    /// One line for the user.
    pub fn keep_clients(&self, state: &StateDir) -> Result<(), String> {
        for (endpoint, server) in &self.list {
            let path = state.clients_path(&endpoint.owner.to_string()).map_err(|e| e.to_string())?;
            super::journals::keep_clients(state, &path, server)?;
        }
        Ok(())
    }

    /// Hands what a share has restored to the servers whose clients had it. To be called after the exports
    /// are set.
    pub fn restore(&self, engine: &Arc<share::Share>, restored: Vec<share::Restored>) {
        let now = net::now();
        let mut rest = restored;
        for (_, server) in &self.list {
            let is_here = |open: &share::Restored| {
                let note = nfs::state::record::Note::decode(&open.note);
                note.is_ok_and(|note| server.exports().get(note.export).is_some())
            };
            let (here, others) = rest.into_iter().partition(is_here);
            server.restore(engine, here, now);
            rest = others;
        }
        for share::Restored { open, .. } in rest {
            tracing::info!(share = %engine.name(), "an open from before the restart is closed: its export is not served any more");
            if let Err(why) = engine.close(&open, now) {
                tracing::warn!(share = %engine.name(), %why, "it was closed with an error");
            }
        }
    }

    /// Does what time brings.
    pub fn tick(&self) {
        let now = net::now();
        for (_, server) in &self.list {
            server.tick(now);
        }
    }
}

/// What kept replies may take, in bytes.
fn reply_bytes() -> usize {
    let host = rustix::system::sysinfo();
    let total = u64::from(host.mem_unit).saturating_mul(host.totalram as u64);
    usize::try_from((total / REPLY_PART).max(REPLY_LEAST)).unwrap_or(usize::MAX)
}

/// What an export's number is kept under. Each name has its own: what one share allows another of the same
/// directory may not.
fn numbered_by(share: &Share, path: &Path) -> PathBuf {
    path.join(":nfs").join(&share.name.value)
}

/// What the numbers of all exports are kept under, for shares and the real paths of their directories.
pub fn numbered<'a>(shares: impl Iterator<Item = (&'a Share, &'a PathBuf)>) -> Vec<PathBuf> {
    let exported = shares.filter(|(share, _)| share.offers(ShareProtocol::Nfs));
    exported.map(|(share, path)| numbered_by(share, path)).collect()
}

/// A share as NFS clients see it; none when they do not.
///
/// # Errors
/// One line for the user.
pub fn export(
    share: &Share,
    path: &Path,
    engine: &Arc<share::Share>,
    state: &StateDir,
) -> Result<Option<nfs::Export>, String> {
    if !share.offers(ShareProtocol::Nfs) {
        return Ok(None);
    }
    let id = state.number(&numbered_by(share, path)).map_err(|e| e.to_string())?;
    Ok(Some(nfs::Export {
        name: share.name.value.clone(),
        id,
        engine: Arc::clone(engine),
        read_only: share.read_only.value,
        squash: share.root_squash.value,
        anonymous: (share.anonymous_uid.value, share.anonymous_gid.value),
        clients: share.nfs_clients.value.iter().map(network).collect(),
        secure: share.nfs_secure_port.value,
    }))
}

fn network(network: &Network) -> nfs::Network {
    nfs::Network { address: network.address, bits: network.bits }
}
