//! Removal of an export while clients use it: the clients that use it, and the end of their state there.
//!
//! A client is not notified. Its next request to the export gets NFS4ERR_STALE, as after `exportfs -u` on
//! other servers. Its session and its state elsewhere stay.
//!
//! An export that is now served from another directory is a new export under the old name. All filehandles of
//! the old directory become NFS4ERR_STALE, except those of open files. Clients keep using those until they
//! have closed the file.

use std::collections::HashSet;
use std::sync::Arc;

use wire::Now;

use super::Server;
use crate::config::Export;
use crate::state::filehandle::Handle;
use crate::state::stateid::OwnerOnFile;

impl Server {
    /// The number of clients that have used an export or have state on it. Clients do not say that they have
    /// unmounted one export of several, so some of these may be gone.
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

    /// The export of an open file, if the export of that name is now served from another directory. The rules
    /// of the present export apply.
    #[must_use]
    pub fn relocated_export(&self, handle: &Handle) -> Option<Arc<Export>> {
        let left = Arc::clone(&self.opened.lock().get(handle)?.export);
        let now = Export::clone(self.exports().named(left.name.as_bytes())?);
        Some(Arc::new(Export { id: left.id, engine: Arc::clone(&left.engine), ..now }))
    }

    /// Detaches clients from engines that are no longer served and where they have no state, so that the
    /// directories become free.
    pub(crate) fn detach_unused_engines(&self) {
        let exports = self.exports();
        let is_served = |engine: &Arc<share::Share>| {
            exports.list().iter().any(|export| Arc::ptr_eq(&export.engine, engine))
        };
        for client in self.clients.all() {
            let left = client.unused_engines(is_served);
            left.iter().for_each(|export| export.engine.detach(client.key));
            if !left.is_empty() {
                client.connections().iter().for_each(|connection| connection.forget_handles());
            }
        }
    }

    /// Closes the opens of clients on an export that is no longer served, with their locks and delegations.
    /// Returns the number of opens and delegations.
    pub fn end_export(&self, name: &str, now: Now) -> usize {
        let mut count = 0;
        for state in self.all_states().into_iter().filter(|state| state.export.name == name) {
            let Some(client) = self.clients.get(state.client) else { continue };
            let _lock = self.lock_states(&client, &state.export, state.node);
            if state.is_admin_revoked() {
                continue;
            }
            if let Some(open) = state.opened() {
                let of = OwnerOnFile { owner: &open.owner, export: state.export.id, node: state.node };
                for locks in client.remove_open(of, &state) {
                    self.end_state(&locks, now);
                }
                count += usize::from(self.end_state(&state, now));
            } else if state.delegation().is_some() {
                self.end_delegation(&client, &state, now);
                count += 1;
            }
        }
        for client in self.clients.all() {
            self.recorded.remove_keys(&client.remove_revoked_on(name));
        }
        count
    }
}
