//! The deletion of a share: counts its users and disconnects them.

use std::sync::Arc;

use super::engines::{EnginesByPath, ServedDirectory};
use super::exports::Servers;
use crate::serve::server::ShareUse;

/// The number of users of a share.
pub fn use_of(server: &smb::Server, nfs: &Servers, engines: &EnginesByPath, share: &str) -> ShareUse {
    ShareUse {
        trees: server.trees_of_share(share),
        nfs_clients: nfs.list().iter().map(|(_, server)| server.clients_of_export(share)).sum(),
        opens: engines.values().filter(is(share)).map(|served| served.engine.open_count()).sum(),
    }
}

/// Disconnects all clients from a removed share, and releases its directory.
pub fn disconnect(server: &smb::Server, nfs: &Servers, engines: &mut EnginesByPath, share: &str) {
    // An open that is restored later would outlive its share.
    for served in engines.values().filter(is(share)) {
        if let Err(why) = served.engine.restore_all() {
            let opens = served.engine.give_up_unrestored();
            tracing::warn!(
                share,
                %why,
                opens,
                "the share is gone, so opens of files that could not be opened after the restart have ended; \
                 a file that was to be deleted when it was closed may still be there"
            );
        }
    }
    let now = net::now();
    let trees = server.disconnect_share(share, now);
    let opens: usize = nfs.list().iter().map(|(_, server)| server.end_export(share, now)).sum();
    for served in engines.values().filter(is(share)) {
        served.engine.end_all_detached(now);
        served.engine.write_noted();
    }
    // An engine that is still referenced for a moment is removed with the next change.
    engines.retain(|_, served| !is(share)(&&*served) || Arc::strong_count(&served.engine) > 1);
    tracing::info!(
        share,
        smb_connections = trees,
        nfs_opens = opens,
        "all clients of the share were disconnected"
    );
}

fn is(share: &str) -> impl Fn(&&ServedDirectory) -> bool {
    move |served| super::share_relocation::is_of(served, share)
}
