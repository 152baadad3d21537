//! A share that is to be deleted: who uses it, and how they are disconnected.

use std::sync::Arc;

use super::engines::{EnginesByPath, ServedDirectory};
use super::exports::Servers;
use crate::serve::server::ShareUse;

/// Who uses a share.
pub fn use_of(server: &smb::Server, nfs: &Servers, engines: &EnginesByPath, share: &str) -> ShareUse {
    ShareUse {
        trees: server.trees_of_share(share),
        nfs_clients: nfs.list().iter().map(|(_, server)| server.clients_of_export(share)).sum(),
        opens: engines.values().filter(is(share)).map(|served| served.engine.open_count()).sum(),
    }
}

/// Takes a share that is not offered any more from whoever uses it, and lets go of its directory.
pub fn disconnect(server: &smb::Server, nfs: &Servers, engines: &mut EnginesByPath, share: &str) {
    let now = net::now();
    let trees = server.disconnect_share(share, now);
    let opens: usize = nfs.list().iter().map(|(_, server)| server.end_export(share, now)).sum();
    for served in engines.values().filter(is(share)) {
        served.engine.end_all_detached(now);
        served.engine.write_noted();
    }
    // Those that somebody still holds for a moment go with the next change.
    engines.retain(|_, served| !is(share)(&&*served) || Arc::strong_count(&served.engine) > 1);
    tracing::info!(
        share,
        smb_connections = trees,
        nfs_opens = opens,
        "whoever used the share is disconnected"
    );
}

fn is(share: &str) -> impl Fn(&&ServedDirectory) -> bool {
    move |served| super::share_relocation::is_of(served, share)
}
