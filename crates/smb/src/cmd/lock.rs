//! LOCK: byte ranges (MS-SMB2 3.3.5.14).

use std::sync::Arc;

use share::{LockRule, RangeKind, RangeNote, RangeRequest};
use smb_wire::lock::{self, Flags, LockElement};
use smb_wire::negotiate::{Capabilities, Dialect};
use smb_wire::{Command, FileId, Header, NtStatus};

use crate::connection::{Connection, Negotiated};
use crate::dispatch::Request;
use crate::exchange::outcome::{Aside, Handled, Stop};
use crate::open::{OnDisk, Open};
use crate::persistent;
use crate::sequence::LockSequences;

/// Most ranges in one request.
const MAX_RANGES: usize = 1024;

/// Answers a LOCK.
pub(crate) fn handle(
    connection: &mut Connection,
    settled: &Negotiated,
    request: &mut Request<'_>,
    body: &mut Vec<u8>,
) -> Handled {
    let asked = lock::Request::parse(request.message)?;
    let named = connection.open(request, asked.file_id)?;
    let open = named.share();
    if asked.locks.len() > MAX_RANGES {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    let disk = open.on_disk().ok_or(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST))?;
    let elements: Vec<LockElement> = asked.locks.iter().collect();
    let (index, number) = (asked.lock_sequence_index, asked.lock_sequence_number);
    let is_verified = is_sequenced(settled, &open);
    let engine = disk.file.is_lasting().then(|| Arc::clone(disk.engine));
    let told = Arc::clone(&open);
    let tell = move || !is_verified || told.locks.tell(index, number);
    // Also of one that has waited: it may have been done on another channel meanwhile.
    let is_done = || is_verified && open.locks.is_done(index, number);
    let replayed = |body: &mut Vec<u8>| {
        lock::Response.write(body);
        match &engine {
            Some(engine) => Err(persistent::when_lasting(engine, tell.clone(), || ())),
            None => Ok(NtStatus::SUCCESS),
        }
    };
    let sequence = request.header.channel_sequence();
    let is_late = || open.refused_locks.is_late((index, number), sequence, &open.moving.sequence);
    if is_late() && !(is_verified && open.locks.was_done(index, number)) {
        return refuse_late(request, disk);
    }
    if is_done() {
        return replayed(body);
    }
    // MS-SMB2 3.3.5.14
    let unlocks = elements[0].flags.contains(Flags::UNLOCK);
    // What was released stays so.
    let is_told = unlocks || engine.is_none();
    let done = |locks: &LockSequences| {
        if is_verified {
            locks.done(index, number, is_told);
        }
    };
    let note = persistent::lock_note(&open, done);
    if unlocks {
        unlock(disk, &elements, &note)?;
    } else if !take(connection, request, (disk, &note), &elements, (index, number), is_done)? {
        return replayed(body);
    }
    drop(note);
    if engine.is_none() {
        done(&open.locks);
    }
    if is_verified && !unlocks {
        settle_copies(disk, &elements, (index, number), is_late())?;
    }
    lock::Response.write(body);
    let Some(engine) = engine else { return Ok(NtStatus::SUCCESS) };
    // It may be taken back until it lasts.
    let changing = named.go_on();
    let sequence = settled.protection.dialect.is_smb3().then_some(sequence);
    let undo = move || {
        take_back(&open, &elements, (index, number), sequence);
        drop(changing);
    };
    Err(persistent::when_lasting(&engine, tell, undo))
}

/// Refuses a LOCK of which a second copy was refused before. A range that it was woken for goes to the next.
fn refuse_late(request: &Request<'_>, disk: OnDisk<'_>) -> Handled {
    if request.resumed {
        disk.engine.pass_turn(disk.file);
    }
    Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE))
}

/// A LOCK is refused: if it was sent again after a channel was lost, its first copy takes nothing when it comes late. False
/// when that was done already, which is the answer to both then.
fn note_refused(connection: &Connection, open: &Open, header: &Header, (index, number): (u32, u8)) -> bool {
    // Before 3.0 the field of the ChannelSequence says something else (MS-SMB2 2.2.1.1).
    let Some(settled) = connection.negotiated.filter(|it| it.protection.dialect.is_smb3()) else {
        return true;
    };
    // Asked first: nothing else of the Open is locked while the refused ones are.
    let is_verified = is_sequenced(&settled, open);
    let is_done = || is_verified && open.locks.was_done(index, number);
    open.refused_locks.note((index, number), header.channel_sequence(), is_done)
}

/// A request that waits, or was about to, is refused or taken back: `message` on the Open `id`. False for a LOCK whose first
/// copy was done already, which is its answer too.
pub(crate) fn note_ended(
    connection: &Connection,
    header: &Header,
    id: Option<FileId>,
    message: &[u8],
) -> bool {
    let id = id.filter(|_| header.command() == Command::Lock);
    let open = id.and_then(|id| connection.server.opens.get(id.volatile).filter(|open| open.id == id));
    match (open, lock::Request::parse(message)) {
        (Some(open), Ok(asked)) => {
            let numbered = (asked.lock_sequence_index, asked.lock_sequence_number);
            note_refused(connection, &open, header, numbered)
        }
        _ => true,
    }
}

/// A range that was locked may have been asked for twice: who waits for the same looks again whether it is done. With `is_late` the
/// second copy was refused meanwhile, and the first gives way.
fn settle_copies(
    OnDisk { open, engine, file, .. }: OnDisk<'_>,
    elements: &[LockElement],
    (index, number): (u32, u8),
    is_late: bool,
) -> Result<(), Stop> {
    if is_late {
        open.locks.withdraw(index, number);
        release(open, elements);
        return Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE));
    }
    if let (true, [element]) = (LockSequences::has_place(index), elements) {
        engine.ask_again(file, element.offset, element.length);
    }
    Ok(())
}

/// Releases what was locked and is not sure to be held after a restart, unless the client was told of it as it sent
/// this again. It was refused then under this ChannelSequence.
fn take_back(open: &Open, elements: &[LockElement], (index, number): (u32, u8), sequence: Option<u16>) {
    if elements[0].flags.contains(Flags::UNLOCK) {
        return;
    }
    // Before its number is free again: a first copy that comes late takes nothing then. A note beside a number that stays says nothing.
    if let Some(sequence) = sequence {
        open.refused_locks.note((index, number), sequence, || false);
    }
    if open.locks.take_back(index, number) {
        release(open, elements);
    }
}

/// Releases what was locked.
fn release(open: &Open, elements: &[LockElement]) {
    let Some(disk) = open.on_disk() else { return };
    let note = persistent::lock_note(open, |_| ());
    for element in elements {
        // The client may have released it already.
        let _ = unlock(disk, &[LockElement { flags: Flags::UNLOCK, ..*element }], &note);
    }
}

/// Whether the sequence numbers of LOCK requests count: where one may be sent again.
// MS-SMB2 3.3.5.14
fn is_sequenced(settled: &Negotiated, open: &Open) -> bool {
    let dialect = settled.protection.dialect;
    let multichannel = dialect.is_smb3() && settled.capabilities.contains(Capabilities::MULTI_CHANNEL);
    multichannel || (dialect != Dialect::Smb202 && open.survival.lock().survives())
}

// MS-SMB2 3.3.5.14.1
fn unlock(disk: OnDisk<'_>, elements: &[LockElement], note: RangeNote<'_>) -> Result<(), Stop> {
    let OnDisk { open, engine, file, .. } = disk;
    // What stands before a malformed element is unlocked and stays so.
    let well_formed = elements.iter().take_while(|element| element.flags == Flags::UNLOCK);
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

/// Takes ranges. False when another copy of the request has taken them.
fn take(
    connection: &mut Connection,
    request: &mut Request<'_>,
    (disk, note): (OnDisk<'_>, RangeNote<'_>),
    elements: &[LockElement],
    numbered: (u32, u8),
    is_done: impl Fn() -> bool,
) -> Result<bool, Stop> {
    match lock(connection, request, (disk, note), elements) {
        // It was done since it was looked whether it is.
        Err(Stop::Aside(Aside::Wait(engine, ticket))) if is_done() => {
            engine.cancel(ticket);
            Ok(false)
        }
        Err(Stop::Fail(_)) if !note_refused(connection, disk.open, &request.header, numbered) => Ok(false),
        locked => locked.map(|()| true),
    }
}

// MS-SMB2 3.3.5.14.2
fn lock(
    connection: &mut Connection,
    request: &mut Request<'_>,
    (disk, note): (OnDisk<'_>, RangeNote<'_>),
    elements: &[LockElement],
) -> Result<(), Stop> {
    let OnDisk { open, engine, file, identity } = disk;
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
    let waiter = connection.waiter_for(request);
    let waiter = waits.then_some(&waiter);
    let caller = request.caller(identity, open.client, waiter);
    Stop::unless_done(
        engine,
        engine.lock_noting(&caller, file, open.lock_owner(), LockRule::Exact, &ranges, note),
    )
}
