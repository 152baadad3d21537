//! LOCK: byte ranges (MS-SMB2 3.3.5.14).

use std::sync::Arc;

use share::{Caller, LockRule, RangeKind, RangeNote, RangeRequest, Step};
use smb_wire::lock::{self, Flags, LockElement};
use smb_wire::negotiate::{Capabilities, Dialect};
use smb_wire::{Command, Header, NtStatus};

use crate::connection::Connection;
use crate::dispatch::Request;
use crate::open::Open;
use crate::persistent;
use crate::sequence::LockSequences;
use crate::suspend::{Handled, Stop};
use crate::tree::Target;

/// Most ranges in one request.
const MAX_RANGES: usize = 1024;

/// Answers a LOCK.
pub(crate) fn handle(connection: &mut Connection, request: &mut Request<'_>, body: &mut Vec<u8>) -> Handled {
    let asked = lock::Request::parse(request.message)?;
    let named = connection.open(request, asked.file_id)?;
    let open = named.share();
    if asked.locks.len() > MAX_RANGES {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    let elements: Vec<LockElement> = asked.locks.iter().collect();
    let (index, number) = (asked.lock_sequence_index, asked.lock_sequence_number);
    let is_verified = is_sequenced(connection, &open)?;
    refuse_late(request, &open, (index, number))?;
    let engine = open.file().filter(|(_, file)| file.is_lasting()).map(|(engine, _)| Arc::clone(engine));
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
        unlock(&open, &elements, &note)?;
    } else {
        match lock(connection, request, (&open, &note, (index, number)), &elements) {
            // It was done between the look above and this.
            Err(Stop::Wait(Some((engine, ticket)))) if is_done() => {
                engine.cancel(ticket);
                return replayed(body);
            }
            locked => locked?,
        }
    }
    drop(note);
    if engine.is_none() {
        done(&open.locks);
    }
    if is_verified && !unlocks && LockSequences::has_place(index) {
        wake_repeated(&open, &elements);
    }
    lock::Response.write(body);
    match engine {
        Some(engine) => {
            // It may be taken back until it lasts.
            let changing = named.go_on();
            let undo = move || {
                take_back(&open, &elements, (index, number));
                drop(changing);
            };
            Err(persistent::when_lasting(&engine, tell, undo))
        }
        None => Ok(NtStatus::SUCCESS),
    }
}

/// Refuses a LOCK of which a second copy was refused before. A range that it was woken for goes to the next.
fn refuse_late(request: &Request<'_>, open: &Open, numbered: (u32, u8)) -> Result<(), Stop> {
    if !open.refused_locks.is_late(numbered, request.header.channel_sequence()) {
        return Ok(());
    }
    if let Some((engine, file)) = open.file().filter(|_| request.resumed) {
        engine.pass_turn(file);
    }
    Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE))
}

/// A LOCK was refused: if it was sent again after a channel was lost, its first copy takes nothing when it comes late.
fn note_refused(connection: &Connection, open: &Open, header: &Header, numbered: (u32, u8)) {
    // MS-SMB2 2.2.1.1: before 3.0 the field says something else.
    if connection.negotiated.as_ref().is_some_and(|it| it.protection.dialect.is_smb3()) {
        open.refused_locks.note(numbered, header.channel_sequence());
    }
}

/// A LOCK that waits is about to be taken back by its client.
pub(crate) fn note_cancelled(connection: &Connection, async_id: u64) {
    let Some(waiting) = connection.suspended.get(&async_id) else { return };
    let id = waiting.compound.related.file_id.filter(|_| waiting.header.command() == Command::Lock);
    let open = id.and_then(|id| connection.server.opens.get(id.volatile).filter(|open| open.id == id));
    if let (Some(open), Ok(asked)) = (open, lock::Request::parse(&waiting.rest)) {
        let numbered = (asked.lock_sequence_index, asked.lock_sequence_number);
        note_refused(connection, &open, &waiting.header, numbered);
    }
}

/// What was locked may have been asked for twice: who waits for the same looks again whether it is done.
fn wake_repeated(open: &Open, elements: &[LockElement]) {
    if let (Some((engine, file)), [element]) = (open.file(), elements) {
        engine.ask_again(file, element.offset, element.length);
    }
}

/// Releases what was locked and is not sure to be held after a restart, unless the client was told of it as it sent
/// this again.
fn take_back(open: &Open, elements: &[LockElement], (index, number): (u32, u8)) {
    if elements[0].flags.contains(Flags::UNLOCK) || !open.locks.take_back(index, number) {
        return;
    }
    let note = persistent::lock_note(open, |_| ());
    for element in elements {
        // The client may have released it already.
        let _ = unlock(open, &[LockElement { flags: Flags::UNLOCK, ..*element }], &note);
    }
}

/// Whether the sequence numbers of LOCK requests count: where one may be sent again.
// MS-SMB2 3.3.5.14
fn is_sequenced(connection: &Connection, open: &Open) -> Result<bool, Stop> {
    let negotiated = connection.negotiated()?;
    let dialect = negotiated.protection.dialect;
    let multichannel = dialect.is_smb3() && negotiated.capabilities.contains(Capabilities::MULTI_CHANNEL);
    Ok(multichannel || (dialect != Dialect::Smb202 && open.survival.lock().survives()))
}

// MS-SMB2 3.3.5.14.1
fn unlock(open: &Open, elements: &[LockElement], note: RangeNote<'_>) -> Result<(), Stop> {
    let (engine, file) = open.file().ok_or(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST))?;
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

// MS-SMB2 3.3.5.14.2
fn lock(
    connection: &mut Connection,
    request: &mut Request<'_>,
    (open, note, numbered): (&Open, RangeNote<'_>, (u32, u8)),
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
    match engine.lock_noting(&caller, file, open.lock_owner(), LockRule::Exact, &ranges, note) {
        Step::Done(()) => Ok(()),
        Step::Wait(ticket) => Err(Stop::Wait(Some((engine.clone(), ticket)))),
        Step::Refused(refusal) => {
            note_refused(connection, open, request.header, numbered);
            Err(refusal.into())
        }
    }
}
