//! NFS: a server for each endpoint, and the exports of the shares.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nfs::connection::service::{Endpoints, NfsService};

use crate::config::endpoints::EndpointOwner;
use crate::config::values::Network;
use crate::config::{Share, ShareProtocol};
use crate::serve::listen::BoundEndpoint;
use crate::serve::plan::ServePlan;
use crate::state::StateDir;

/// The file with the key that signs filehandles.
const HANDLE_KEY: &str = "handle-key";

/// The part of the host's memory for the reply caches of NFS sessions, and the minimum in bytes.
const REPLY_PART: u64 = 32;
const REPLY_LEAST: u64 = 16 << 20;

/// A server for each endpoint. Empty if no share is offered over NFS.
pub struct Servers {
    list: Vec<(BoundEndpoint, Arc<nfs::Server>)>,
}

impl Servers {
    /// The servers for a plan, without exports.
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
            // Clients treat a different server owner and scope as another server (RFC 8881 2.10.5.1), so they
            // do not confuse the state of the two.
            let name = match &endpoint.owner {
                EndpointOwner::Server => format!("trunkline-{guid}"),
                EndpointOwner::Account(name) => format!("trunkline-{guid}/account/{name}"),
                EndpointOwner::Share(name) => format!("trunkline-{guid}/share/{name}"),
            };
            let server = nfs::Server::new(nfs::ServerConfig {
                name: name.into_bytes(),
                handle_key: state.secret(HANDLE_KEY)?,
                // Client IDs and session IDs begin with this number, so that those of each server differ.
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

    /// The servers with their endpoints. The server's own endpoint comes first.
    pub fn list(&self) -> &[(BoundEndpoint, Arc<nfs::Server>)] {
        &self.list
    }

    /// All servers behind one transport.
    pub fn service(&self) -> Endpoints {
        let routes = self.list.iter().flat_map(|(endpoint, server)| {
            endpoint.addresses.iter().map(|address| (*address, NfsService(Arc::clone(server))))
        });
        Endpoints::new(routes.collect())
    }

    /// Sets the exports, each at its endpoint.
    pub fn set_exports(&self, exports: Vec<(EndpointOwner, nfs::Export)>) {
        for (owner, export) in &exports {
            if !self.list.iter().any(|(endpoint, _)| endpoint.owner == *owner) {
                tracing::warn!(share = %export.name, endpoint = %owner, "NFS clients can reach the share \
                    only after the next start, since the server does not listen at its endpoint yet");
            }
        }
        for (endpoint, server) in &self.list {
            let here = exports.iter().filter(|(owner, _)| *owner == endpoint.owner);
            server.set_exports(here.map(|(_, export)| export.clone()));
        }
    }

    /// Makes each server store its client records, and lets the clients of the previous run reclaim.
    /// `are_records_stable`: all records are on stable storage before a reply relies on them.
    ///
    /// # Errors
    /// One line for the user.
    pub fn keep_clients(&self, state: &StateDir, are_records_stable: bool) -> Result<(), String> {
        for (endpoint, server) in &self.list {
            let path = state.clients_path(&endpoint.owner.to_string()).map_err(|e| e.to_string())?;
            super::journals::keep_clients(state, &path, server, are_records_stable)?;
        }
        Ok(())
    }

    /// Lets the clients of each server resume with the recorded opens of a share.
    pub fn expect_opens(&self, engine: &Arc<share::Share>, unrestored: &[share::UnrestoredOpen]) {
        self.list.iter().for_each(|(_, server)| server.expect_opens(engine, unrestored));
    }

    /// Tells the server of a client that a recorded open could not be restored.
    pub fn lose(&self, client: share::ClientKey, note: &[u8]) {
        self.list.iter().for_each(|(_, server)| server.lose_open(client, note));
    }

    /// Passes a restored open of a share to the server of its client. It must be called after the exports are
    /// set. Returns whether the open is kept for the client.
    pub fn restore(&self, engine: &Arc<share::Share>, restored: share::Restored) -> bool {
        let now = net::now();
        let note = nfs::state::record::Note::decode(&restored.note);
        let is_here = |server: &nfs::Server| {
            note.as_ref().is_ok_and(|note| server.exports().get(note.export).is_some())
        };
        if let Some((_, server)) = self.list.iter().find(|(_, server)| is_here(server)) {
            return server.restore_open(engine, restored, now);
        }
        tracing::info!(share = %engine.name(), "an open from before the restart is closed, since its export \
                                                no longer exists");
        if let Err(why) = engine.close(&restored.open, now) {
            tracing::warn!(share = %engine.name(), %why, "it was closed with an error");
        }
        false
    }

    /// Runs the timers of all servers.
    pub fn tick(&self) {
        let now = net::now();
        for (_, server) in &self.list {
            server.tick(now);
        }
    }
}

/// The size of the reply caches in bytes.
fn reply_bytes() -> usize {
    let host = rustix::system::sysinfo();
    let total = u64::from(host.mem_unit).saturating_mul(host.totalram as u64);
    usize::try_from((total / REPLY_PART).max(REPLY_LEAST)).unwrap_or(usize::MAX)
}

/// The path under which an export's number is stored. Each share name has its own, since another share of the
/// same directory may have other permissions.
fn number_key(share: &Share, path: &Path) -> PathBuf {
    path.join(":nfs").join(&share.name.value)
}

/// The paths under which the numbers of all exports are stored, for shares and the real paths of their
/// directories.
pub fn numbered<'a>(shares: impl Iterator<Item = (&'a Share, &'a PathBuf)>) -> Vec<PathBuf> {
    let exported = shares.filter(|(share, _)| share.offers(ShareProtocol::Nfs));
    exported.map(|(share, path)| number_key(share, path)).collect()
}

/// Whether a share takes the groups of NFS users from the server's side.
pub fn needs_gids(share: &Share) -> bool {
    share.manage_gids.value && share.offers(ShareProtocol::Nfs)
}

/// A share as an NFS export. None if it is not offered over NFS. `gids` are the groups of users for shares
/// with `manage_gids`.
///
/// # Errors
/// One line for the user.
pub fn export(
    share: &Share,
    path: &Path,
    engine: &Arc<share::Share>,
    state: &StateDir,
    gids: Option<&Arc<dyn nfs::ManagedGids>>,
) -> Result<Option<nfs::Export>, String> {
    if !share.offers(ShareProtocol::Nfs) {
        return Ok(None);
    }
    let id = state.number(&number_key(share, path)).map_err(|e| e.to_string())?;
    Ok(Some(nfs::Export {
        name: share.name.value.clone(),
        id,
        engine: Arc::clone(engine),
        read_only: share.read_only.value,
        squash: share.root_squash.value,
        anonymous: (share.anonymous_uid.value, share.anonymous_gid.value),
        clients: share.nfs_clients.value.iter().map(network).collect(),
        secure: share.nfs_secure_port.value,
        manage_gids: gids.filter(|_| share.manage_gids.value).cloned(),
    }))
}

fn network(network: &Network) -> nfs::Network {
    nfs::Network { address: network.address, bits: network.bits }
}
