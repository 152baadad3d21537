//! SEQUENCE (RFC 8881 18.46).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::sequence::{Args, ResOk, StatusFlags};

use crate::compound::{OpResult, Run, Serving, Stop};
use crate::state::session::Session;
use crate::state::slot::Admitted;

/// Finds the session and the slot of the COMPOUND.
///
/// # Errors
/// NFS4ERR_BADSESSION, NFS4ERR_BADSLOT, NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_TOO_MANY_OPS, NFS4ERR_REQ_TOO_BIG, and
/// the errors of [`crate::state::slot::Slot::admit`].
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    find(run, args)?;
    // Any operation may have to restore an open first.
    if run.session.as_ref().is_some_and(|session| session.client.is_resuming()) {
        run.may_wait()?;
    }
    let (admitted, client_ended, result) = admit(run, args)?;
    match admitted {
        Admitted::New => {
            run.serving =
                Some(Serving { slot: args.slotid, sequence: args.sequenceid, cache: args.cachethis });
            if client_ended {
                return Err(NfsStat::DeadSession.into());
            }
            run.reply(OpNum::Sequence, result)
        }
        Admitted::Retry(reply) => {
            run.replay = Some(reply);
            run.reply_status(OpNum::Sequence)
        }
        Admitted::Uncached => {
            run.reply(OpNum::Sequence, result)?;
            if run.is_last {
                return Ok(());
            }
            // RFC 8881 2.10.6.1.3: the next operation gets this status.
            let next = run.next_number.unwrap_or(OpNum::Unknown(0));
            run.writer.put_status(next, NfsStat::RetryUncachedRep);
            Err(Stop::Written(NfsStat::RetryUncachedRep))
        }
    }
}

/// Asks the slot. Returns its decision, whether the client has ended, and the result of SEQUENCE.
fn admit(run: &Run, args: &Args) -> Result<(Admitted, bool, ResOk), NfsStat> {
    let session = run.session.as_ref().ok_or(NfsStat::BadSession)?;
    // RFC 8881 18.46.3
    if args.slotid >= session.fore.maxrequests {
        return Err(NfsStat::BadSlot);
    }
    if args.highest_slotid < args.slotid || args.highest_slotid >= session.fore.maxrequests {
        return Err(NfsStat::BadHighSlot);
    }
    let slot = session.slots.get(args.slotid as usize).ok_or(NfsStat::BadSlot)?;
    if run.count > session.fore.maxoperations {
        return Err(NfsStat::TooManyOps);
    }
    if run.request_len > session.fore.maxrequestsize as usize {
        return Err(NfsStat::ReqTooBig);
    }
    session.client.heard(run.now);
    let admitted = slot.admit(args.sequenceid, run.mark)?;
    let result = ResOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: session.fore.maxrequests - 1,
        target_highest_slotid: session.fore.maxrequests - 1,
        status_flags: flags_of(run, session),
    };
    Ok((admitted, session.client.has_ended(), result))
}

/// Finds the session, which mostly is the one that the connection carried last. The first SEQUENCE for a
/// session binds the connection to its fore channel.
// RFC 8881 2.10.3.1
fn find(run: &mut Run, args: &Args) -> Result<(), NfsStat> {
    if run.session.as_ref().is_some_and(|session| session.id == args.sessionid && !session.has_ended()) {
        return Ok(());
    }
    let session = Arc::clone(&*run.server.session(&args.sessionid).ok_or(NfsStat::BadSession)?);
    run.bind(&session, true, false);
    run.session = Some(session);
    Ok(())
}

/// The status flags for the client.
fn flags_of(run: &Run, session: &Session) -> StatusFlags {
    let mut flags = StatusFlags::empty();
    if !session.has_back_channel() {
        flags |= StatusFlags::CB_PATH_DOWN_SESSION;
        flags.set(StatusFlags::CB_PATH_DOWN, !session.client.has_back_channel());
    }
    flags.set(StatusFlags::BACKCHANNEL_FAULT, session.calls.is_faulty());
    let has_revoked = session.client.revoked.load(std::sync::atomic::Ordering::Relaxed) > 0;
    flags.set(StatusFlags::RECALLABLE_STATE_REVOKED, has_revoked);
    flags.set(StatusFlags::ADMIN_STATE_REVOKED, session.client.has_admin_revoked());
    // RFC 8881 18.46.3: until the client reports the end of its reclaims.
    if run.server.grace.is_on() {
        let may_claim = run.server.grace.may_claim(session.client.key);
        flags.set(StatusFlags::RESTART_RECLAIM_NEEDED, may_claim);
    }
    flags
}
