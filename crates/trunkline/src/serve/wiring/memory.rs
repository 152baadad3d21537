//! The memory bounds for the state of clients, and their report.

use std::sync::Arc;

use admin::status;
use share::ClientMemory;

/// The part of this process's memory for clients' opens and byte ranges, and its maximum of 4 GiB.
const FOR_CLIENTS: (u64, u64) = (8, 4 << 30);
/// The part for sessions, and its maximum of 1 GiB.
const FOR_SESSIONS: (u64, u64) = (32, 1 << 30);

/// The memory for clients' opens and byte ranges, and for NFS state.
pub fn for_clients() -> Arc<ClientMemory> {
    part_of_memory(FOR_CLIENTS)
}

/// The memory for SMB sessions and their tree connects.
pub fn for_sessions() -> Arc<ClientMemory> {
    part_of_memory(FOR_SESSIONS)
}

fn part_of_memory((part, most): (u64, u64)) -> Arc<ClientMemory> {
    let bytes = net::memory_limit().map_or(most, |limit| (limit / part).min(most));
    ClientMemory::bounded(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// The memory in use by clients, in the engines and in sessions.
pub fn report(all: [&ClientMemory; 2]) -> status::ClientMemory {
    status::ClientMemory {
        bytes: all.iter().map(|of| of.used() as u64).sum(),
        bound_bytes: all.iter().map(|of| of.bound() as u64).sum(),
        refused: all.iter().map(|of| of.refused()).sum(),
    }
}
