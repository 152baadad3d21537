//! LOCK: byte ranges (MS-SMB2 3.3.5.14).

use share::{Caller, LockRule, RangeKind, RangeRequest, Step};
use smb_wire::NtStatus;
use smb_wire::lock::{self, Flags, LockElement};

use crate::connection::Connection;
use crate::dispatch::Request;
use crate::open::Open;
use crate::suspend::{Handled, Stop};
use crate::tree::Target;

/// Most ranges in one request.
const MAX_RANGES: usize = 1024;

/// Answers a LOCK.
pub(crate) fn handle(connection: &mut Connection, request: &mut Request<'_>, body: &mut Vec<u8>) -> Handled {
    let asked = lock::Request::parse(request.message)?;
    let open = connection.open(request, asked.file_id)?.share();
    if asked.locks.len() > MAX_RANGES {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    let elements: Vec<LockElement> = asked.locks.iter().collect();
    // MS-SMB2 3.3.5.14
    if elements[0].flags.contains(Flags::UNLOCK) {
        unlock(&open, &elements)?;
    } else {
        lock(connection, request, &open, &elements)?;
    }
    lock::Response.write(body);
    Ok(NtStatus::SUCCESS)
}

// MS-SMB2 3.3.5.14.1
fn unlock(open: &Open, elements: &[LockElement]) -> Result<(), Stop> {
    let (engine, file) = open.file().ok_or(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST))?;
    for element in elements {
        // What stands before a malformed element has been unlocked and stays so.
        if element.flags != Flags::UNLOCK {
            return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
        }
        let range = RangeRequest { start: element.offset, len: element.length, kind: RangeKind::Exclusive };
        engine.unlock(file, open.lock_owner(), LockRule::Exact, &[range])?;
    }
    Ok(())
}

// MS-SMB2 3.3.5.14.2
fn lock(
    connection: &mut Connection,
    request: &mut Request<'_>,
    open: &Open,
    elements: &[LockElement],
) -> Result<(), Stop> {
    let (engine, file) = open.file().ok_or(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST))?;
    let mut ranges = Vec::with_capacity(elements.len());
    for element in elements {
        let kind = match element.flags - Flags::FAIL_IMMEDIATELY {
            Flags::SHARED_LOCK => RangeKind::Shared,
            Flags::EXCLUSIVE_LOCK => RangeKind::Exclusive,
            _ => return Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
        };
        ranges.push(RangeRequest { start: element.offset, len: element.length, kind });
    }
    let waits = elements.iter().any(|element| !element.flags.contains(Flags::FAIL_IMMEDIATELY));
    if waits && elements.len() > 1 {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    let Target::Disk { identity, .. } = &open.tree.target else {
        return Err(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST));
    };
    let async_id = connection.async_id(request);
    let waiter = connection.waiter(async_id);
    let waiter = waits.then_some(&waiter);
    let caller = Caller { identity, client: open.client, waiter, now: request.now };
    match engine.lock(&caller, file, open.lock_owner(), LockRule::Exact, &ranges) {
        Step::Done(()) => Ok(()),
        Step::Wait(ticket) => Err(Stop::Wait(Some((engine.clone(), ticket)))),
        Step::Refused(refusal) => Err(refusal.into()),
    }
}
