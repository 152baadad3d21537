//! An export that is taken away while clients use it: who uses it, and the end of what they have there.
//!
//! A client is not told. What it asks next of the export gets NFS4ERR_STALE, as after `exportfs -u` on other servers;
//! its session and what it has elsewhere stay.

use std::collections::HashSet;

use wire::Now;

use crate::client::Of;
use crate::server::Server;

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
        clients.extend(self.all_states().iter().filter(|state| state.export.name == name).map(|s| s.client));
        clients.len()
    }

    /// Closes what clients have open on an export that is not served any more, with their locks and delegations; how
    /// many opens and delegations it were.
    pub fn end_export(&self, name: &str, now: Now) -> usize {
        let mut count = 0;
        for state in self.all_states().into_iter().filter(|state| state.export.name == name) {
            let Some(client) = self.clients.get(state.client) else { continue };
            let _turn = self.turn(&client, &state.export, state.node);
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
