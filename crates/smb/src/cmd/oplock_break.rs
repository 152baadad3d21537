//! OPLOCK_BREAK: the client's answer to a notice (MS-SMB2 3.3.5.22).

use share::{CacheKey, Caching, Refusal};
use smb_wire::NtStatus;
use smb_wire::create::OplockLevel;
use smb_wire::create_context::LeaseState;
use smb_wire::oplock_break::{self, Lease, Oplock};

use crate::connection::Connection;
use crate::dispatch::Request;
use crate::suspend::{Handled, Stop};
use crate::tree::Target;

/// Answers an acknowledgement.
pub(crate) fn handle(connection: &mut Connection, request: &mut Request<'_>, body: &mut Vec<u8>) -> Handled {
    match oplock_break::Request::parse(request.message)? {
        oplock_break::Request::Oplock(oplock) => of_oplock(connection, request, oplock, body),
        oplock_break::Request::Lease(lease) => of_lease(connection, request, lease, body),
    }
}

// MS-SMB2 3.3.5.22.1
fn of_oplock(
    connection: &mut Connection,
    request: &mut Request<'_>,
    oplock: Oplock,
    body: &mut Vec<u8>,
) -> Handled {
    let open = connection.open(request, oplock.file_id)?.share();
    let (engine, _) = open.file().ok_or(Stop::Fail(NtStatus::INVALID_PARAMETER))?;
    let keep = match oplock.oplock_level {
        OplockLevel::None => Caching::empty(),
        OplockLevel::LevelII => Caching::READ,
        OplockLevel::Exclusive => Caching::READ | Caching::WRITE,
        OplockLevel::Batch => Caching::all(),
        OplockLevel::Lease | OplockLevel::Unknown(_) => return Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
    };
    let key = crate::client::oplock_key(open.id);
    match engine.acknowledge(open.client, key, false, keep, request.now) {
        Ok(grant) => {
            let left =
                if grant.state.contains(Caching::READ) { OplockLevel::LevelII } else { OplockLevel::None };
            let answer = Oplock { oplock_level: left, file_id: open.id };
            oplock_break::Response::Oplock(answer).write(body);
            Ok(NtStatus::SUCCESS)
        }
        Err(Refusal::NoSuchGrant) => Err(Stop::Fail(NtStatus::INVALID_OPLOCK_PROTOCOL)),
        // MS-SMB2 3.3.5.22.1: who keeps more than they may loses everything.
        Err(Refusal::TooMuchKept) => Err(Stop::Fail(NtStatus::INVALID_OPLOCK_PROTOCOL)),
        Err(refusal) => Err(refusal.into()),
    }
}

// MS-SMB2 3.3.5.22.2
fn of_lease(
    connection: &mut Connection,
    request: &mut Request<'_>,
    lease: Lease,
    body: &mut Vec<u8>,
) -> Handled {
    let client = connection.session(request)?.client;
    let tree = connection.tree(request)?;
    let Target::Disk { engine, .. } = &tree.target else {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    };
    let key = CacheKey(u128::from_le_bytes(lease.key.0));
    let keep = Caching::from_bits_truncate(lease.state.bits() as u8);
    match engine.acknowledge(client, key, true, keep, request.now) {
        Ok(grant) => {
            let state = LeaseState::from_bits_retain(u32::from(grant.state.bits()));
            oplock_break::Response::Lease(Lease { key: lease.key, state }).write(body);
            Ok(NtStatus::SUCCESS)
        }
        Err(Refusal::NoSuchGrant) if engine.holds(client, key, true) => {
            Err(Stop::Fail(NtStatus::UNSUCCESSFUL))
        }
        Err(Refusal::NoSuchGrant) => Err(Stop::Fail(NtStatus::OBJECT_NAME_NOT_FOUND)),
        Err(refusal) => Err(refusal.into()),
    }
}
