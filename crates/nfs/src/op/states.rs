//! Room for a new state, and its addition to the states of its client.

use std::sync::Arc;

use nfs_wire::NfsStat;
use share::Item;

use crate::compound::{Run, Stop};
use crate::config::Export;
use crate::state::client::Client;
use crate::state::filehandle::Handle;
use crate::state::stateid::{LockingState, OwnerOnFile, state_bytes};

/// A client and the file that it gets a state of.
#[derive(Clone, Copy)]
pub struct StateTarget<'a> {
    /// The client.
    pub client: &'a Arc<Client>,
    /// The export.
    pub export: &'a Arc<Export>,
    /// The file.
    pub item: &'a Item,
    /// The filehandle of the file.
    pub handle: Handle,
}

impl<'a> StateTarget<'a> {
    /// The key of an owner's state of the file.
    pub fn of(&self, owner: &'a [u8]) -> OwnerOnFile<'a> {
        OwnerOnFile { owner, export: self.export.id, node: self.item.id() }
    }
}

/// Reserves the key of a new state of a client on an export, for an owner of this name. None if there are too
/// many states, or if the client has used up its memory.
pub fn reserve_charged(run: &Run, client: &Client, export: &Arc<Export>, owner: &[u8]) -> Option<u64> {
    let memory = export.engine.client_memory();
    let user = run.identity(export);
    let account = memory.account(client.key, &user);
    if memory.has_room(account, state_bytes(owner)) {
        return reserve(run, client);
    }
    memory.refuse(account, &user.name, run.now.mono_ns);
    None
}

/// The same for a state that is reclaimed: its client was charged for the open when the open was restored.
pub fn reserve(run: &Run, client: &Client) -> Option<u64> {
    if !client.may_add_state() {
        return None;
    }
    let reserve = || run.server.reserve_state();
    // Clients whose lease has expired make room.
    reserve().or_else(|| if run.server.end_expired(run.now) { reserve() } else { None })
}

/// Ends a state again whose client has ended before the state was added.
///
/// # Errors
/// NFS4ERR_DELAY. The client learns with its next request that its session is gone.
pub fn finish_adding(run: &Run, state: &LockingState, is_entered: bool) -> Result<(), Stop> {
    if is_entered {
        return Ok(());
    }
    run.server.end_state(state, run.now);
    Err(NfsStat::Delay.into())
}
