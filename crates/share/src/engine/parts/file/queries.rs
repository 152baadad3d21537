//! Queries and updates of an open file that need its lock only once.

use std::sync::Arc;

use volume::{Name, Node, NodeId, OpenHow};

use super::{File, HardLinkedName, Member, Stream};
use crate::caching::grants::{Grant, Holder};
use crate::engine::parts::names::cache::NewFile;
use crate::engine::values::record::Record;
use crate::{ClientKey, Open};

/// Queries of its opens.
impl File {
    /// Whether it is open, or about to be.
    pub fn has_members(&self) -> bool {
        !self.state.lock().members.is_empty()
    }

    /// Whether the predicate holds for any of its opens.
    pub fn any_member(&self, is_meant: impl FnMut(&Member) -> bool) -> bool {
        self.state.lock().members.iter().any(is_meant)
    }

    /// Its opens.
    pub fn opens(&self) -> Vec<Arc<Open>> {
        self.state.lock().members.iter().filter_map(|member| member.open.upgrade()).collect()
    }

    /// Adds the clients that have it open.
    pub fn add_clients(&self, clients: &mut Vec<ClientKey>) {
        clients.extend(self.state.lock().members.iter().filter_map(|member| member.requester.client));
    }

    /// Whether the name of an open is removed or marked for deletion.
    pub fn is_deleted(&self, link: Option<&Arc<HardLinkedName>>) -> bool {
        self.state.lock().is_deleted(link)
    }

    /// Notes that a name is gone, for the opens that have it.
    pub fn note_removed(&self, directory: NodeId, name: &Name) {
        for entry in &mut self.state.lock().links {
            entry.removed |= entry.link.is_at(directory, name);
        }
    }

    /// Whether there is a caching right on it or one of its streams.
    pub fn has_grants(&self) -> bool {
        self.state.lock().streams.iter().any(|stream| !stream.grants.is_empty())
    }

    /// The right of a holder on a stream that is open.
    pub fn grant_of(&self, stream: &Arc<Stream>, (client, key, keyed): Holder) -> Option<Grant> {
        self.state.lock().stream(stream).grants.of(client, key, keyed)
    }

    /// Passes the client of each open that holds a descriptor.
    pub fn name_holders(&self, name: &mut dyn FnMut(ClientKey)) {
        let state = self.state.lock();
        // An open that is about to be returned holds one too.
        let holds = |open: Option<Arc<Open>>| open.is_none_or(|open| !open.data.is_closed());
        let holders = state.members.iter().filter(|member| holds(member.open.upgrade()));
        holders.filter_map(|member| member.requester.client).for_each(name);
    }
}

/// Queries and updates of its cached properties.
impl File {
    /// The stored attribute record; none if it was not read yet.
    pub fn record(&self) -> Option<Record> {
        self.state.lock().record
    }

    /// Records the stored attribute record.
    pub fn note_record(&self, record: Record) {
        self.state.lock().record = Some(record);
    }

    /// Forgets the descriptor after a change of it.
    pub fn forget_security(&self) {
        self.state.lock().security = None;
    }

    /// Size of the extended attributes in list form, if it was counted.
    pub fn extended_size(&self) -> Option<u32> {
        self.state.lock().extended_size
    }

    /// Records the size of the extended attributes.
    pub fn note_extended_size(&self, size: u32) {
        self.state.lock().extended_size = Some(size);
    }

    /// Records the cache entry for its creation.
    pub fn note_new_file(&self, made: Option<Arc<NewFile>>) {
        self.state.lock().made = made;
    }

    /// Records the number of all its names.
    pub fn note_names(&self, names: u32) {
        self.state.lock().names = names;
    }

    /// The stored node, if it has this access.
    pub fn node_for(&self, how: OpenHow) -> Option<Arc<dyn Node>> {
        self.state.lock().node_for(how)
    }

    /// Stores the node if it has more access than the stored one. Returns the better one.
    pub fn share_node(&self, node: Arc<dyn Node>) -> Arc<dyn Node> {
        self.state.lock().share_node(node)
    }
}
