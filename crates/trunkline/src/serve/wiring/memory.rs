//! Memory for what clients hold: how much of it there may be, and how it is reported.

use std::sync::Arc;

use admin::status;
use share::ClientMemory;

/// Clients' opens and byte ranges may take an eighth of the memory of this process, and 4 GiB where it has
/// plenty.
const FOR_CLIENTS: (u64, u64) = (8, 4 << 30);
/// Sessions may take a 32nd, and 1 GiB.
const FOR_SESSIONS: (u64, u64) = (32, 1 << 30);

/// The memory for clients' opens and byte ranges, and for states of NFS.
pub fn for_clients() -> Arc<ClientMemory> {
    part_of_memory(FOR_CLIENTS)
}

/// The memory for sessions of SMB and their trees.
pub fn for_sessions() -> Arc<ClientMemory> {
    part_of_memory(FOR_SESSIONS)
}

fn part_of_memory((part, most): (u64, u64)) -> Arc<ClientMemory> {
    let bytes = net::memory_limit().map_or(most, |limit| (limit / part).min(most));
    ClientMemory::bounded(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// The memory of clients, in the engines and as sessions.
pub fn report(all: [&ClientMemory; 2]) -> status::ClientMemory {
    status::ClientMemory {
        bytes: all.iter().map(|of| of.used() as u64).sum(),
        bound_bytes: all.iter().map(|of| of.bound() as u64).sum(),
        refused: all.iter().map(|of| of.refused()).sum(),
    }
}
