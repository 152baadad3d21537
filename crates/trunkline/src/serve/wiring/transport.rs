//! The connections, counts of refused ones, and the memory for unread replies, for the status and the
//! metrics.

use admin::status::{ClientMemory, Connections, Descriptors, TicketEnds, Transport};
use net::Backlog;
use wire::endpoint::Service;

/// The connections of one transport.
pub fn seen<S: Service>(handle: &net::Handle<S>) -> Connections {
    let refused = handle.refusals();
    Connections {
        connections: handle.connections() as u64,
        unproved: handle.unproved_connections() as u64,
        refused_all: refused.all,
        refused_address: refused.address,
        refused_unproved: refused.unproved,
        refused_descriptors: refused.descriptors,
        displaced: refused.displaced,
    }
}

/// Counts about files when descriptors ran short.
pub fn descriptors(shared: &share::engine::Descriptors) -> Descriptors {
    let idle = volume_posix::IdleFiles::count();
    Descriptors {
        idle_closed: idle.closed,
        opened_again: idle.opened_again,
        refused_opens: shared.refused_opens(),
    }
}

/// The connections of both transports, and the resources that they share.
pub fn report(
    smb: Option<Connections>,
    nfs: Option<Connections>,
    backlog: &Backlog,
    descriptors: Descriptors,
    client_memory: ClientMemory,
    ticket_ends: TicketEnds,
) -> Transport {
    Transport {
        smb: smb.unwrap_or_default(),
        nfs: nfs.unwrap_or_default(),
        unread_bytes: backlog.held() as u64,
        unread_bound_bytes: backlog.bound() as u64,
        unread_closed: backlog.closed(),
        descriptors,
        client_memory,
        ticket_ends,
    }
}
