//! LOCK: takes and releases byte-range locks (MS-SMB2 3.3.5.14).

use std::sync::Arc;

use share::{LockRule, RangeKind, RangeNote, RangeRequest};
use smb_wire::NtStatus;
use smb_wire::lock::{self, LockElement, LockFlags};

use crate::connection::{Connection, Negotiated};
use crate::dispatch::check_ticket;
use crate::exchange::{Handled, ParkReason, Request, Stop};
use crate::state::sequence::{LockNumber, LockSequences};
use crate::state::{OnDisk, Open, persistent};

/// The most ranges in one request.
const MAX_RANGES: usize = 1024;

/// The ranges of one request.
#[derive(Clone, Copy)]
struct Ranges<'a> {
    disk: OnDisk<'a>,
    elements: &'a [LockElement],
    /// The note that is recorded with them.
    note: RangeNote<'a>,
}

/// Answers a LOCK.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let parsed = lock::Request::parse(request.message)?;
    let named = connection.open(request, parsed.file_id)?;
    let open = named.share();
    Stop::when(parsed.locks.len() > MAX_RANGES, NtStatus::INVALID_PARAMETER)?;
    let disk = open.on_disk().ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
    let elements: Vec<LockElement> = parsed.locks.iter().collect();
    // MS-SMB2 3.3.5.14
    let unlocks = elements[0].flags.contains(LockFlags::UNLOCK);
    // MS-SMB2 3.3.5.2.9 (exception: after the end of its ticket a session only releases ranges, as in
    // Windows)
    if !unlocks {
        check_ticket(connection, request)?;
    }
    let numbered = LockNumber::of(&parsed);
    let is_verified = negotiated.counts_locks(&open);
    let engine = disk.file.is_persistent().then(|| Arc::clone(disk.engine));
    let told = Arc::clone(&open);
    let tell = move || !is_verified || told.locks.tell(numbered);
    // A resumed request checks this too: another channel may have done the LOCK meanwhile.
    let is_done = || is_verified && open.locks.is_done(numbered);
    let replayed = |body: &mut Vec<u8>| {
        lock::Response.write(body);
        match &engine {
            Some(engine) => Err(Stop::when_persistent(engine, tell.clone(), || ())),
            None => Ok(NtStatus::SUCCESS),
        }
    };
    let sequence = request.header.channel_sequence();
    let is_late = || open.refused_locks.is_late(numbered, sequence, &open.per_request.sequence);
    if is_late() && !(is_verified && open.locks.was_done(numbered)) {
        return refuse_late(request, disk);
    }
    if is_done() {
        return replayed(request.body);
    }
    // A released range stays released.
    let is_told = unlocks || engine.is_none();
    let done = |locks: &LockSequences| {
        if is_verified {
            locks.done(numbered, is_told);
        }
    };
    let note = persistent::lock_note(&open, done);
    let ranges = Ranges { disk, elements: &elements, note: &note };
    if unlocks {
        unlock(ranges)?;
    } else if !take(connection, request, ranges, numbered, is_done)? {
        return replayed(request.body);
    }
    drop(note);
    if engine.is_none() {
        done(&open.locks);
    }
    if is_verified && !unlocks {
        settle_copies(disk, &elements, numbered, is_late())?;
    }
    lock::Response.write(request.body);
    let Some(engine) = engine else { return Ok(NtStatus::SUCCESS) };
    // The lock may be revoked until it is on stable storage.
    let changing = named.continue_change();
    let sequence = negotiated.protection.dialect.is_smb3().then_some(sequence);
    let undo = move || {
        take_back(&open, &elements, numbered, sequence);
        drop(changing);
    };
    Err(Stop::when_persistent(&engine, tell, undo))
}

/// Refuses a LOCK whose second copy was refused before. The next waiter gets the range that it was woken
/// for.
fn refuse_late(request: &Request<'_>, disk: OnDisk<'_>) -> Handled {
    if request.resumed {
        disk.engine.wake_ready_waiters(disk.file);
    }
    Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE))
}

/// Settles two copies of a LOCK that took a range. A waiting copy checks again whether the LOCK is done.
/// `is_late` says that the second copy was refused meanwhile. Then the first copy releases the range.
fn settle_copies(
    OnDisk { open, engine, file, .. }: OnDisk<'_>,
    elements: &[LockElement],
    numbered: LockNumber,
    is_late: bool,
) -> Result<(), Stop> {
    if is_late {
        open.locks.withdraw(numbered);
        release(open, elements);
        return Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE));
    }
    if let (true, [element]) = (numbered.has_place(), elements) {
        engine.retry_waiters(file, element.offset, element.length);
    }
    Ok(())
}

/// Releases ranges that may not survive a restart, unless the client was told of them in the response to a
/// replay. The LOCK was refused under this ChannelSequence.
fn take_back(open: &Open, elements: &[LockElement], numbered: LockNumber, sequence: Option<u16>) {
    if elements[0].flags.contains(LockFlags::UNLOCK) {
        return;
    }
    // This comes before its number is free again, so that a late first copy has no effect. A note beside a
    // number that stays does no harm.
    if let Some(sequence) = sequence {
        open.refused_locks.note(numbered, sequence, || false);
    }
    if open.locks.take_back(numbered) {
        release(open, elements);
    }
}

/// Releases the ranges of a LOCK.
fn release(open: &Open, elements: &[LockElement]) {
    let Some(disk) = open.on_disk() else { return };
    let note = persistent::lock_note(open, |_| ());
    for element in elements {
        // The client may have released it already.
        let elements = &[LockElement { flags: LockFlags::UNLOCK, ..*element }];
        let _ = unlock(Ranges { disk, elements, note: &note });
    }
}

// MS-SMB2 3.3.5.14.1
fn unlock(Ranges { disk, elements, note }: Ranges<'_>) -> Result<(), Stop> {
    let OnDisk { open, engine, file, .. } = disk;
    // The elements before a malformed one are unlocked and stay unlocked.
    let well_formed = elements.iter().take_while(|element| element.flags == LockFlags::UNLOCK);
    let range = |element: &LockElement| RangeRequest {
        start: element.offset,
        len: element.length,
        kind: RangeKind::Exclusive,
    };
    let ranges: Vec<RangeRequest> = well_formed.map(range).collect();
    if ranges.len() < elements.len() {
        engine.unlock(file, open.lock_owner(), LockRule::Exact, &ranges)?;
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    engine.unlock_noting(file, open.lock_owner(), LockRule::Exact, &ranges, note)?;
    Ok(())
}

/// Takes ranges. Returns false if another copy of the request has taken them.
fn take(
    connection: &mut Connection,
    request: &mut Request<'_>,
    ranges: Ranges<'_>,
    numbered: LockNumber,
    is_done: impl Fn() -> bool,
) -> Result<bool, Stop> {
    match lock(connection, request, ranges) {
        // The other copy has taken them since the first check.
        Err(Stop::Park(ParkReason::Wait(engine, ticket))) if is_done() => {
            engine.cancel(ticket);
            Ok(false)
        }
        Err(Stop::Fail(_)) if !connection.note_refused_lock(ranges.disk.open, &request.header, numbered) => {
            Ok(false)
        }
        locked => locked.map(|()| true),
    }
}

// MS-SMB2 3.3.5.14.2
fn lock(
    connection: &mut Connection,
    request: &mut Request<'_>,
    Ranges { disk, elements, note }: Ranges<'_>,
) -> Result<(), Stop> {
    let OnDisk { open, engine, file, identity } = disk;
    let mut ranges = Vec::with_capacity(elements.len());
    for element in elements {
        let kind = match element.flags - LockFlags::FAIL_IMMEDIATELY {
            LockFlags::SHARED_LOCK => RangeKind::Shared,
            LockFlags::EXCLUSIVE_LOCK => RangeKind::Exclusive,
            _ => return Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
        };
        ranges.push(RangeRequest { start: element.offset, len: element.length, kind });
    }
    let waits = elements.iter().any(|element| !element.flags.contains(LockFlags::FAIL_IMMEDIATELY));
    Stop::when(waits && elements.len() > 1, NtStatus::INVALID_PARAMETER)?;
    let waiter = connection.waiter_for(request);
    let waiter = waits.then_some(&waiter);
    let caller = request.caller(identity, open.client, waiter);
    Stop::done_or_wait(
        engine,
        engine.lock_recorded(&caller, file, open.lock_owner(), LockRule::Exact, &ranges, note),
    )
}
