//! An export that is taken away while clients use it: who uses it, and the end of what they have there.
//!
//! A client is not told. What it asks next of the export gets NFS4ERR_STALE, as after `exportfs -u` on other servers;
//! its session and what it has elsewhere stay.
//!
//! An export that is served from another directory by now is another one under the same name. All filehandles of the old
//! directory are NFS4ERR_STALE but those of files that are open: with them clients go on until they have closed the file.

use std::collections::HashSet;
use std::sync::Arc;

use wire::Now;

use super::Server;
use crate::config::Export;
use crate::state::filehandle::Handle;
use crate::state::stateid::Of;

impl Server {
    /// How many clients have been at an export or have something of it. Nobody says that they have unmounted one export of
    /// several, so that some of these may be gone.
    #[must_use]
    pub fn clients_of_export(&self, name: &str) -> usize {
        let id = self.exports().named(name.as_bytes()).map(|export| export.id);
        let mut clients: HashSet<u64> = HashSet::new();
        for client in self.clients.all() {
            if id.is_some_and(|id| client.used_exports().contains(&id)) {
                clients.insert(client.id);
            }
        }
        let states = self.all_states();
        let here = states.iter().filter(|state| state.export.name == name && !state.is_admin_revoked());
        clients.extend(here.map(|state| state.client));
        clients.len()
    }

    /// The export of a file that is open in a directory from which the export of that name is not served any more. What
    /// the export allows counts here too.
    #[must_use]
    pub fn left_behind(&self, handle: &Handle) -> Option<Arc<Export>> {
        let left = Arc::clone(&self.opened.lock().get(handle)?.export);
        let now = Export::clone(self.exports().named(left.name.as_bytes())?);
        Some(Arc::new(Export { id: left.id, engine: Arc::clone(&left.engine), ..now }))
    }

    /// Clients that have nothing of an engine any more that is not served let go of it, so that its directory is free.
    pub(crate) fn let_go_of_engines(&self) {
        let exports = self.exports();
        let is_served = |engine: &Arc<share::Share>| {
            exports.list().iter().any(|export| Arc::ptr_eq(&export.engine, engine))
        };
        for client in self.clients.all() {
            let left = client.unused_engines(is_served);
            left.iter().for_each(|export| export.engine.detach(client.key));
            if !left.is_empty() {
                client.ways().iter().for_each(|way| way.forget_handles());
            }
        }
    }

    /// Closes what clients have open on an export that is not served any more, with their locks and delegations; how
    /// many opens and delegations it were.
    pub fn end_export(&self, name: &str, now: Now) -> usize {
        let mut count = 0;
        for state in self.all_states().into_iter().filter(|state| state.export.name == name) {
            let Some(client) = self.clients.get(state.client) else { continue };
            let _turn = self.turn(&client, &state.export, state.node);
            if state.is_admin_revoked() {
                self.forget_revoked(&client, &state);
                continue;
            }
            if let Some(open) = state.opened() {
                let of = Of { owner: &open.owner, export: state.export.id, node: state.node };
                for locks in client.remove_open(of, &state) {
                    self.end_state(&locks, now);
                }
                count += usize::from(self.end_state(&state, now));
            } else if state.delegation().is_some() {
                self.end_delegation(&client, &state, now);
                count += 1;
            }
        }
        count
    }
}
