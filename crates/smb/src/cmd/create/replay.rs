//! Replays of a CREATE whose response may have been lost with a channel (MS-SMB2 3.3.5.9, 3.3.5.9.10).
//!
//! A CREATE is identified by its client and its CreateGuid while it is under way, and until its Open is
//! used. A replay is answered from that Open and changes nothing.

use std::sync::Arc;

use smb_wire::create::OplockLevel;
use smb_wire::header::Flags;
use smb_wire::{Guid, NtStatus};

use super::contexts::{self, Response};
use super::{Create, reconnect};
use crate::exchange::{Handled, Request, Stop};
use crate::state::Open;
use crate::state::durable::{Durable, Survival, Version};
use crate::state::index::{Claim, ClaimResult, CreateAttempt};
use crate::state::open::NO_SESSION;

/// The reconnected Open, if there is one.
type ReconnectResult = Result<Option<Arc<Open>>, Stop>;

/// The reason why a replay is refused: the status, and words for the log.
type ReplayRefusal = (NtStatus, &'static str);

/// The result of the check for a replay.
pub(super) enum ReplayCheck {
    /// It is a new CREATE. The claim keeps its key until it is done.
    New(Option<Claim>),
    /// It is a replay of the CREATE that made this Open.
    Replay(Arc<Open>),
}

/// Checks whether a CREATE is new or a replay.
pub(super) fn begin(create: Create<'_>, request: &mut Request<'_>) -> Result<ReplayCheck, Stop> {
    if let Some(claim) = request.claim.take() {
        return Ok(ReplayCheck::New(Some(claim)));
    }
    let Some(v2) = create.contexts.durability.request_v2 else { return Ok(ReplayCheck::New(None)) };
    let (session, server) = (create.session, &create.connection.server);
    server.restore_expected(None, Some(v2.create_guid))?;
    let is_replay = request.header.flags().contains(Flags::REPLAY_OPERATION);
    let take_up = |request: &mut Request<'_>| match (is_replay, create.lasts) {
        // An Open that could not be recorded was opened as a durable one.
        (true, true) => match create.take_up_persistent(request, v2.create_guid)? {
            None => create.take_up_durable(request, v2.create_guid),
            taken => Ok(taken),
        },
        (true, false) => create.take_up_durable(request, v2.create_guid),
        (false, _) => Ok(None),
    };
    if let Some(open) = take_up(request)? {
        return Ok(ReplayCheck::Replay(open));
    }
    let find = |volatile| server.opens.get(volatile).filter(|open| open.is_replayable());
    let sent = CreateAttempt { session: session.id, is_replay, sequence: request.header.channel_sequence() };
    match server.index.claim((session.client, v2.create_guid), sent, find) {
        // The Open may have been used since the first lookup.
        ClaimResult::Claimed(claim) => match take_up(request)? {
            Some(open) => Ok(ReplayCheck::Replay(open)),
            None => Ok(ReplayCheck::New(Some(claim))),
        },
        // MS-SMB2 3.3.5.9.10
        ClaimResult::Done(_) | ClaimResult::UnderWay if !is_replay => {
            let why = "another of its client has its CreateGuid";
            Err(create.refuse(request, (NtStatus::DUPLICATE_OBJECTID, why)))
        }
        // Its replay was carried out first. No section describes this. It is a late request of a lost
        // channel like those of MS-SMB2 3.3.5.2.10, and would be carried out twice.
        ClaimResult::Late => {
            Err(create.refuse(request, (NtStatus::DUPLICATE_OBJECTID, "it came after a replay of it")))
        }
        // No section describes a replay of a CREATE under way. The client is asked to try again, as for
        // other early replays (MS-SMB2 3.3.5.2.10).
        ClaimResult::UnderWay => Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE)),
        ClaimResult::Done(open) => {
            create.check_replay(&open).map_err(|wrong| create.refuse(request, wrong))?;
            Ok(ReplayCheck::Replay(open.share()))
        }
    }
}

impl Create<'_> {
    /// The persistent Open that this CREATE made before its session ended or the server restarted. The
    /// CREATE is reconnected to it. The result is `None` if it made none, or if the Open is answered like
    /// that of any CREATE.
    // MS-SMB2 3.3.5.9 (exception: an Open without a session is looked up before the Opens of this client,
    // since it would be refused there)
    fn take_up_persistent(&self, request: &mut Request<'_>, create_guid: Guid) -> ReconnectResult {
        let replayed = self.earlier_open(create_guid);
        if replayed.is_some_and(|open| open.is_replayable() && open.session_id != NO_SESSION) {
            return Ok(None);
        }
        let server = &self.connection.server;
        let Some(found) = server.persistent_open(create_guid) else { return Ok(None) };
        let survival = found.survival.lock();
        // Another request may have reconnected to it first.
        let Some(found) = reconnect::at(server, found.id.persistent) else { return Ok(None) };
        let (Some(record), Some((engine, _))) = (found.create_record.get(), found.file()) else {
            return Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE));
        };
        // A session has it. The client has used it there, and so has the result of its CREATE. The CREATE
        // would be carried out twice.
        let wrong = if found.session_id != NO_SESSION || !self.tree.leads_to(engine) {
            Some((NtStatus::FILE_NOT_AVAILABLE, "the handle that it made is in use"))
        } else if !survival.is_owned_by(self.session.sid()) {
            Some((NtStatus::ACCESS_DENIED, "the handle that it made is another user's"))
        } else if record.asked_for != super::asked_for(self.parsed) {
            Some((NtStatus::CONTEXT_MISMATCH, "it asks for something else than at first"))
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(self.refuse(request, wrong));
        }
        self.connection.await_changes(request, &found)?;
        self.take_up(request, &found, &survival).map(Some)
    }

    /// The durable Open that waits for its client and was not used since its CREATE. The CREATE is
    /// reconnected to it.
    // MS-SMB2 3.3.5.9 (exception: an Open without a session is not one of another session)
    fn take_up_durable(&self, request: &mut Request<'_>, create_guid: Guid) -> ReconnectResult {
        let waits = |open: &Arc<Open>| open.is_replayable() && open.session_id == NO_SESSION;
        let Some(found) = self.earlier_open(create_guid).filter(waits) else { return Ok(None) };
        let survival = found.survival.lock();
        // Another request may have reconnected to it first.
        let found = reconnect::at(&self.connection.server, found.id.persistent).filter(waits);
        let leads_here = |open: &Arc<Open>| open.file().is_some_and(|(engine, _)| self.tree.leads_to(engine));
        let Some(found) = found.filter(leads_here) else { return Ok(None) };
        self.check_owner(&found, &survival).map_err(|wrong| self.refuse(request, wrong))?;
        self.take_up(request, &found, &survival).map(Some)
    }

    /// The Open of the latest CREATE with this key.
    fn earlier_open(&self, create_guid: Guid) -> Option<Arc<Open>> {
        let server = &self.connection.server;
        Some(server.opens.get(server.index.by_create((self.session.client, create_guid))?)?.share())
    }

    /// Checks that user and lease are those of the original CREATE.
    // MS-SMB2 3.3.5.9
    fn check_owner(&self, open: &Open, survival: &Survival) -> Result<(), ReplayRefusal> {
        // An Open without a lease does not match one with a lease either, as in Windows.
        let record = open.create_record.get().and_then(|record| record.lease);
        let same_lease = record.map(|lease| lease.key) == self.contexts.lease.map(|lease| lease.key);
        let is_same = survival.is_owned_by(self.session.sid()) && same_lease;
        is_same.then_some(()).ok_or((NtStatus::ACCESS_DENIED, "it has another user or lease than at first"))
    }

    // MS-SMB2 3.3.5.9
    fn check_replay(&self, open: &Open) -> Result<(), ReplayRefusal> {
        open.create_record.get().ok_or((NtStatus::FILE_NOT_AVAILABLE, "it is not done yet"))?;
        let survival = open.survival.lock();
        self.check_owner(open, &survival)?;
        if open.session_id != self.session.id {
            return Err((NtStatus::DUPLICATE_OBJECTID, "what it made is another session's"));
        }
        if survival.is_persistent() && self.contexts.durability.request_v2.is_none_or(|v2| !v2.persistent) {
            return Err((NtStatus::INVALID_PARAMETER, "it does not ask for a persistent handle as at first"));
        }
        Ok(())
    }

    fn refuse(&self, request: &Request<'_>, (status, why): ReplayRefusal) -> Stop {
        let what = format!("CREATE refused: {why}");
        self.connection.log_refusal(request.session_id, status, &what, request.now);
        Stop::Fail(status)
    }
}

/// Answers from the existing Open, once its values are on stable storage.
pub(super) fn answer(create: Create<'_>, request: &mut Request<'_>, open: &Arc<Open>) -> Handled {
    let (engine, file) = open.file().ok_or(NtStatus::FILE_CLOSED)?;
    let record = open.create_record.get().ok_or(NtStatus::FILE_CLOSED)?;
    let granted = file.caching();
    let held = contexts::level(record.lease, granted);
    let oplock_level = match create.parsed.requested_oplock_level {
        _ if record.lease.is_some() => held,
        // A replay that asks for a lower level gets that level in the response and keeps the actual one, as
        // in Windows.
        less if rank(less) < rank(held) => less,
        _ => held,
    };
    // The Open exists, and a client that gets an error would leave it behind. It must try again, as while a
    // CREATE is under way.
    let info = engine.info(file).map_err(|_| NtStatus::FILE_NOT_AVAILABLE)?;
    let response = Response {
        info,
        action: record.action,
        oplock_level,
        lease: record.lease,
        granted,
        durable: durable(open, oplock_level, granted),
    };
    request.related.file_id = Some(open.id);
    let status = response.write(open, create.contexts, request.body)?;
    if !file.is_persistent() {
        return Ok(status);
    }
    let open = Arc::clone(open);
    Err(Stop::when_persistent(engine, move || open.promise.tell(), || ()))
}

/// The durability in the response. It must match the oplock level there.
// MS-SMB2 3.3.5.9.10
fn durable(open: &Open, level: OplockLevel, granted: Option<share::Grant>) -> Option<Durable> {
    let keeps = granted.is_some_and(|grant| grant.state.contains(share::Caching::HANDLE));
    let durable = open.survival.lock().durable?;
    let says = matches!(level, OplockLevel::Batch | OplockLevel::Lease) && keeps;
    ((says || durable.persistent) && durable.version == Version::Two).then_some(durable)
}

fn rank(level: OplockLevel) -> u8 {
    match level {
        OplockLevel::None | OplockLevel::Unknown(_) => 0,
        OplockLevel::LevelII => 1,
        OplockLevel::Exclusive => 2,
        OplockLevel::Batch | OplockLevel::Lease => 3,
    }
}
