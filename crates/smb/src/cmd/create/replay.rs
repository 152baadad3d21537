//! CREATE that is sent again, since its answer may have been lost with a channel (MS-SMB2 3.3.5.9,
//! 3.3.5.9.10).
//!
//! A CREATE is known by its client and its CreateGuid: while it is under way, and as long as the Open it
//! made has not been used. Sent again as a replay it is answered from that Open, and changes nothing.

use std::sync::Arc;

use smb_wire::create::OplockLevel;
use smb_wire::header::Flags;
use smb_wire::{Guid, NtStatus};

use super::contexts::{self, Response};
use super::{Create, reconnect};
use crate::exchange::{Handled, Request, Stop};
use crate::state::Open;
use crate::state::durable::{Durable, Survival, Version};
use crate::state::index::{Claim, Known, Sent};
use crate::state::open::NO_SESSION;

/// The Open that is taken up again, if one is.
type TakenUp = Result<Option<Arc<Open>>, Stop>;

/// What is wrong with a CREATE that is sent again: the status, and a word for the log.
type Wrong = (NtStatus, &'static str);

/// How a CREATE goes on.
pub(super) enum Begun {
    /// It is carried out; the claim keeps its name until it is done.
    New(Option<Claim>),
    /// It was carried out before and made this.
    Replay(Arc<Open>),
}

/// Looks a CREATE up by its name.
pub(super) fn begin(create: Create<'_>, request: &mut Request<'_>) -> Result<Begun, Stop> {
    if let Some(claim) = request.claim.take() {
        return Ok(Begun::New(Some(claim)));
    }
    let Some(v2) = create.contexts.durability.request_v2 else { return Ok(Begun::New(None)) };
    let (session, server) = (create.session, &create.connection.server);
    let is_replay = request.header.flags().contains(Flags::REPLAY_OPERATION);
    let take_up = |request: &mut Request<'_>| match (is_replay, create.lasts) {
        // What could not be made to outlive the server was opened as one that does not.
        (true, true) => match create.take_up_persistent(request, v2.create_guid)? {
            None => create.take_up_durable(request, v2.create_guid),
            taken => Ok(taken),
        },
        (true, false) => create.take_up_durable(request, v2.create_guid),
        (false, _) => Ok(None),
    };
    if let Some(open) = take_up(request)? {
        return Ok(Begun::Replay(open));
    }
    let find = |volatile| server.opens.get(volatile).filter(|open| open.is_replayable());
    let sent = Sent { session: session.id, is_replay, sequence: request.header.channel_sequence() };
    match server.index.claim((session.client, v2.create_guid), sent, find) {
        // Its Open may have been used since it was looked for.
        Known::Claimed(claim) => match take_up(request)? {
            Some(open) => Ok(Begun::Replay(open)),
            None => Ok(Begun::New(Some(claim))),
        },
        // MS-SMB2 3.3.5.9.10
        Known::Made(_) | Known::UnderWay if !is_replay => {
            let why = "another of its client has its CreateGuid";
            Err(create.refuse(request, (NtStatus::DUPLICATE_OBJECTID, why)))
        }
        // A replay of it was quicker. No section knows that; it is a late request of a lost channel like those of
        // MS-SMB2 3.3.5.2.10, and would be done twice.
        Known::Late => {
            Err(create.refuse(request, (NtStatus::DUPLICATE_OBJECTID, "it came after a replay of it")))
        }
        // No section knows a CREATE that is under way; the client is told, as for other replays that come
        // too early (MS-SMB2 3.3.5.2.10), to try again.
        Known::UnderWay => Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE)),
        Known::Made(open) => {
            create.check_replay(&open).map_err(|wrong| create.refuse(request, wrong))?;
            Ok(Begun::Replay(open.share()))
        }
    }
}

impl Create<'_> {
    /// The persistent Open that this CREATE made before its session ended or the server was started anew: it is
    /// taken up again. None where it made none, or one that is answered from as of any other CREATE.
    // MS-SMB2 3.3.5.9 (exception: what has no session is looked for before the Opens of this client, since it would be
    // refused there)
    fn take_up_persistent(&self, request: &mut Request<'_>, create_guid: Guid) -> TakenUp {
        let replayed = self.made_before(create_guid);
        if replayed.is_some_and(|open| open.is_replayable() && open.session_id != NO_SESSION) {
            return Ok(None);
        }
        let server = &self.connection.server;
        let Some(found) = server.persistent_open(create_guid) else { return Ok(None) };
        let survival = found.survival.lock();
        // Another request may have been quicker.
        let Some(found) = reconnect::at(server, found.id.persistent) else { return Ok(None) };
        let (Some(made), Some((engine, _))) = (found.made.get(), found.file()) else {
            return Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE));
        };
        // Somebody has it. A client that does has used it, and so knows how its CREATE went, which would be done twice.
        let wrong = if found.session_id != NO_SESSION || !self.tree.leads_to(engine) {
            Some((NtStatus::FILE_NOT_AVAILABLE, "the handle that it made is in use"))
        } else if !survival.is_owned_by(self.session.sid()) {
            Some((NtStatus::ACCESS_DENIED, "the handle that it made is another user's"))
        } else if made.asked_for != super::asked_for(self.asked) {
            Some((NtStatus::CONTEXT_MISMATCH, "it asks for something else than at first"))
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(self.refuse(request, wrong));
        }
        self.connection.outlast(request, &found)?;
        self.take_up(request, &found, &survival).map(Some)
    }

    /// The same for a durable Open that nobody has used since: it waits for its client.
    // MS-SMB2 3.3.5.9 (exception: an Open without a session is not one of another session)
    fn take_up_durable(&self, request: &mut Request<'_>, create_guid: Guid) -> TakenUp {
        let waits = |open: &Arc<Open>| open.is_replayable() && open.session_id == NO_SESSION;
        let Some(found) = self.made_before(create_guid).filter(waits) else { return Ok(None) };
        let survival = found.survival.lock();
        // Another request may have been quicker.
        let found = reconnect::at(&self.connection.server, found.id.persistent).filter(waits);
        let leads_here = |open: &Arc<Open>| open.file().is_some_and(|(engine, _)| self.tree.leads_to(engine));
        let Some(found) = found.filter(leads_here) else { return Ok(None) };
        self.check_owner(&found, &survival).map_err(|wrong| self.refuse(request, wrong))?;
        self.take_up(request, &found, &survival).map(Some)
    }

    /// What the latest CREATE of this name has made.
    fn made_before(&self, create_guid: Guid) -> Option<Arc<Open>> {
        let server = &self.connection.server;
        Some(server.opens.get(server.index.by_create((self.session.client, create_guid))?)?.share())
    }

    /// Whether it is the user and the lease that a CREATE came with at first.
    // MS-SMB2 3.3.5.9
    fn check_owner(&self, open: &Open, survival: &Survival) -> Result<(), Wrong> {
        // An Open without a lease is not taken for one with a lease either, as Windows has it.
        let made = open.made.get().and_then(|made| made.lease);
        let same_lease = made.map(|lease| lease.key) == self.contexts.lease.map(|lease| lease.key);
        let is_same = survival.is_owned_by(self.session.sid()) && same_lease;
        is_same.then_some(()).ok_or((NtStatus::ACCESS_DENIED, "it has another user or lease than at first"))
    }

    // MS-SMB2 3.3.5.9
    fn check_replay(&self, open: &Open) -> Result<(), Wrong> {
        open.made.get().ok_or((NtStatus::FILE_NOT_AVAILABLE, "it is not done yet"))?;
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

    fn refuse(&self, request: &Request<'_>, (status, why): Wrong) -> Stop {
        let what = format!("CREATE refused: {why}");
        self.connection.complain(request.session_id, status, &what, request.now);
        Stop::Fail(status)
    }
}

/// Answers from the Open that was made, once what is said of it lasts.
pub(super) fn answer(create: Create<'_>, request: &mut Request<'_>, open: &Arc<Open>) -> Handled {
    let (engine, file) = open.file().ok_or(NtStatus::FILE_CLOSED)?;
    let made = open.made.get().ok_or(NtStatus::FILE_CLOSED)?;
    let granted = file.caching();
    let held = contexts::level(made.lease, granted);
    let oplock_level = match create.asked.requested_oplock_level {
        _ if made.lease.is_some() => held,
        // Who asks for less this time is answered so, and keeps what they have, as with Windows.
        less if rank(less) < rank(held) => less,
        _ => held,
    };
    // The Open is there, and a client that were told otherwise would leave it behind: it tries again, as while a CREATE
    // is under way.
    let info = engine.info(file).map_err(|_| NtStatus::FILE_NOT_AVAILABLE)?;
    let response = Response {
        info,
        action: made.action,
        oplock_level,
        lease: made.lease,
        granted,
        durable: durable(open, oplock_level, granted),
    };
    request.related.file_id = Some(open.id);
    let status = response.write(open, create.contexts, request.body)?;
    if !file.is_persistent() {
        return Ok(status);
    }
    let open = Arc::clone(open);
    Err(Stop::when_lasting(engine, move || open.promise.tell(), || ()))
}

/// What is said of the Open being durable: only that it is so by what is answered beside it.
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
