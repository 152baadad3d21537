//! OPLOCK_BREAK: the client acknowledges a break (MS-SMB2 3.3.5.22).

use std::sync::Arc;

use share::{CacheKey, Caching, Grant, Refusal};
use smb_wire::NtStatus;
use smb_wire::create::OplockLevel;
use smb_wire::create_context::LeaseState;
use smb_wire::oplock_break::{self, AcknowledgedLease, Oplock};

use crate::connection::Connection;
use crate::exchange::{Handled, Request, Stop};
use crate::state::{OnDisk, Tree, TreeTarget};

/// Answers an acknowledgment.
pub fn handle(connection: &mut Connection, request: &mut Request<'_>) -> Handled {
    match oplock_break::Request::parse(request.message)? {
        oplock_break::Request::Oplock(oplock) => of_oplock(connection, request, oplock),
        oplock_break::Request::Lease(lease) => of_lease(connection, request, lease),
    }
}

// MS-SMB2 3.3.5.22.1
fn of_oplock(connection: &mut Connection, request: &mut Request<'_>, oplock: Oplock) -> Handled {
    let open = connection.open(request, oplock.file_id)?.share();
    let OnDisk { engine, file, .. } = open.on_disk().ok_or(NtStatus::INVALID_DEVICE_STATE)?;
    let held = file.caching();
    let (keep, answer) = answered(oplock.oplock_level, held);
    let key = open.oplock_key;
    match engine.acknowledge(open.client, key, false, keep, request.now) {
        Ok(_) => {}
        // A right that was lost without a break to acknowledge gives the protocol error. Without any break
        // there is nothing to acknowledge.
        Err(Refusal::NoSuchGrant) => {
            let was_lost = held.is_none() && file.asked_for_caching();
            let status =
                if was_lost { NtStatus::INVALID_OPLOCK_PROTOCOL } else { NtStatus::INVALID_DEVICE_STATE };
            return Err(refuse_unexpected(connection, request, status, "an oplock"));
        }
        Err(refusal) => return Err(refusal.into()),
    }
    let level = answer?;
    oplock_break::Response::Oplock(Oplock { oplock_level: level, file_id: open.id }).write(request.body);
    Ok(NtStatus::SUCCESS)
}

/// The part of the right that an acknowledgment keeps, and the level or error in its response. A client that
/// wants to keep more than was offered loses everything.
// MS-SMB2 3.3.5.22.1
fn answered(level: OplockLevel, held: Option<Grant>) -> (Caching, Result<OplockLevel, Stop>) {
    let was_batch = held.is_some_and(|grant| grant.state.contains(Caching::WRITE | Caching::HANDLE));
    let may_read = held.and_then(|grant| grant.breaking).is_none_or(|told| told.contains(Caching::READ));
    let wrong = |status| (Caching::empty(), Err(Stop::Fail(status)));
    match level {
        OplockLevel::LevelII if may_read => (Caching::READ, Ok(OplockLevel::LevelII)),
        OplockLevel::None | OplockLevel::LevelII => (Caching::empty(), Ok(OplockLevel::None)),
        OplockLevel::Exclusive if was_batch => (Caching::empty(), Ok(OplockLevel::None)),
        OplockLevel::Lease => wrong(NtStatus::INVALID_PARAMETER),
        OplockLevel::Exclusive | OplockLevel::Batch | OplockLevel::Unknown(_) => {
            wrong(NtStatus::INVALID_OPLOCK_PROTOCOL)
        }
    }
}

// MS-SMB2 3.3.5.22.2
fn of_lease(connection: &mut Connection, request: &mut Request<'_>, lease: AcknowledgedLease) -> Handled {
    let session = Arc::clone(connection.session(request)?);
    let (client, tree) = (session.client, connection.tree(request)?);
    let key = CacheKey(u128::from_le_bytes(lease.key.0));
    // A lease belongs to its client. Any tree may acknowledge it.
    let holds = |tree: &Arc<Tree>| match &tree.target {
        TreeTarget::Disk { engine, .. } => engine.holds(client, key, true).then(|| Arc::clone(engine)),
        TreeTarget::Pipes => None,
    };
    let engine = holds(&tree).or_else(|| session.trees().iter().find_map(holds));
    let not_held =
        |connection: &Connection, status| refuse_unexpected(connection, request, status, "a lease");
    let engine = engine.ok_or_else(|| not_held(connection, NtStatus::OBJECT_NAME_NOT_FOUND))?;
    for volatile in connection.server.index.by_lease(client, lease.key) {
        if let Some(open) = connection.server.opens.get(volatile) {
            open.used();
        }
    }
    // Unknown bits ask for too much, like all bits.
    let keep = u8::try_from(lease.state.bits()).ok().and_then(Caching::from_bits).unwrap_or(Caching::all());
    match engine.acknowledge(client, key, true, keep, request.now) {
        Ok(grant) => {
            let state = LeaseState::from_bits_retain(u32::from(grant.state.bits()));
            oplock_break::Response::Lease(AcknowledgedLease { key: lease.key, state }).write(request.body);
            Ok(NtStatus::SUCCESS)
        }
        Err(Refusal::NoSuchGrant) if engine.holds(client, key, true) => {
            Err(not_held(connection, NtStatus::UNSUCCESSFUL))
        }
        Err(Refusal::NoSuchGrant) => Err(not_held(connection, NtStatus::OBJECT_NAME_NOT_FOUND)),
        Err(refusal) => Err(refusal.into()),
    }
}

/// Refuses an acknowledgment without a matching break of the client.
fn refuse_unexpected(connection: &Connection, request: &Request<'_>, status: NtStatus, of: &str) -> Stop {
    let what = format!("acknowledgement refused: no break of {of} that this client holds waits for one");
    connection.log_refusal(request.session_id, status, &what, request.now);
    Stop::Fail(status)
}
