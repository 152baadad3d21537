//! CREATE_SESSION (RFC 8881 18.36).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::create_session::{Args, ChannelAttrs, ResOk, SessionFlags};

use share::ClientDetails;

use crate::compound::{OpResult, Run, Stop};
use crate::limits::{MAX_CACHED_REPLY, MAX_CHANNEL_MESSAGE, MAX_OPERATIONS, MAX_SLOTS, MIN_CHANNEL_MESSAGE};
use crate::state::callback::{CallbackCredentials, CallbackParams};
use crate::state::client::{Client, ExchangeIdRequest};
use crate::state::credentials::Principal;

/// The most characters of a client's machine name in the audit.
const MAX_MACHINE_SHOWN: usize = 64;
/// The flags that a client may send.
const TAKEN: SessionFlags =
    SessionFlags::PERSIST.union(SessionFlags::CONN_BACK_CHAN).union(SessionFlags::CONN_RDMA);

/// Creates a session, and confirms the client with its first one.
///
/// # Errors
/// NFS4ERR_STALE_CLIENTID, NFS4ERR_CLID_INUSE, NFS4ERR_SEQ_MISORDERED, NFS4ERR_INVAL, NFS4ERR_TOOSMALL,
/// NFS4ERR_NOSPC.
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    let client = match run.server.clients.get(args.clientid) {
        Some(client) => client,
        None => resume(run, args)?,
    };
    // RFC 8881 18.35.4: a client that does not confirm its record within a lease period is forgotten.
    if !client.is_confirmed() && client.silent_ns(run.now) > run.server.lease_ns() {
        return Err(NfsStat::StaleClientId.into());
    }
    let answer = {
        let mut creating = client.creating.lock();
        // RFC 8881 2.10.6.1.3.1: the same request by another user is no retry. The stored reply holds the
        // session ID, so only the client's own principal may have it.
        if client.principal != run.credentials.principal() {
            return Err(NfsStat::ClidInUse.into());
        }
        // RFC 8881 18.36.4: a slot of its own, with one reply.
        if args.sequence == creating.sequence
            && let Some(answer) = creating.answer
        {
            answer
        } else if args.sequence != creating.sequence.wrapping_add(1) {
            return Err(NfsStat::SeqMisordered.into());
        } else {
            // RFC 8881 18.36.4 (exception: as in Linux, a request that cannot be granted fails before it uses
            // its sequence ID, so that the client can send another one with the same sequence ID)
            check(args)?;
            // The client is recorded on stable storage before the reply confirms it.
            if !client.is_confirmed() && run.server.client_records.is_recording() {
                run.may_wait()?;
            }
            // The client's lease must not count as expired.
            client.heard(run.now);
            let answer = match make(run, &client, args) {
                // Clients whose lease has expired make room.
                Err(NfsStat::Delay | NfsStat::NoSpc) if run.server.end_expired(run.now) => {
                    make(run, &client, args)
                }
                other => other,
            };
            // A temporary failure does not use the sequence ID.
            if !matches!(answer, Err(NfsStat::Delay | NfsStat::NoSpc)) {
                (creating.sequence, creating.answer) = (args.sequence, Some(answer));
            }
            answer
        }
    };
    run.reply(OpNum::CreateSession, answer?)
}

/// Resumes a client from before the restart of the server, which uses its client ID of that time.
///
/// # Errors
/// NFS4ERR_STALE_CLIENTID if there is none; NFS4ERR_CLID_INUSE if it is another principal's.
fn resume(run: &Run, args: &Args<'_>) -> Result<Arc<Client>, Stop> {
    let known = run.server.grace.resumable(args.clientid).ok_or(NfsStat::StaleClientId)?;
    let principal = run.credentials.principal();
    if known.principal != principal {
        return Err(NfsStat::ClidInUse.into());
    }
    check(args)?;
    run.may_wait()?;
    let request = ExchangeIdRequest {
        owner: &known.owner,
        verifier: known.verifier,
        principal,
        address: run.connection.peer.remote.ip().to_canonical(),
        update: false,
        now: run.now,
    };
    let details = Arc::new(client_details(run, &request.principal, known.id));
    Ok(run.server.resume(&known, &request, args.sequence, &details)?)
}

/// Refuses parameters that no client gets.
// RFC 8881 18.36.3
fn check(args: &Args<'_>) -> Result<(), NfsStat> {
    if !TAKEN.contains(args.flags) {
        return Err(NfsStat::Inval);
    }
    let (fore, back) = (&args.fore_chan_attrs, &args.back_chan_attrs);
    let is_short = fore.maxrequestsize < MIN_CHANNEL_MESSAGE || fore.maxresponsesize < MIN_CHANNEL_MESSAGE;
    if is_short || fore.maxoperations == 0 || fore.maxrequests == 0 {
        return Err(NfsStat::TooSmall);
    }
    if back.maxrequestsize < 256 || back.maxresponsesize < 128 || back.maxoperations < 2 {
        return Err(NfsStat::TooSmall);
    }
    Ok(())
}

fn make(run: &mut Run, client: &Arc<Client>, args: &Args<'_>) -> Result<ResOk, NfsStat> {
    let (fore, back) = (fore_of(run, &args.fore_chan_attrs)?, back_of(&args.back_chan_attrs));
    // Without security parameters that the server supports there is no back channel.
    let credentials = CallbackCredentials::first_of(&args.sec_parms);
    let has_back = args.flags.contains(SessionFlags::CONN_BACK_CHAN) && credentials.is_some();
    let credentials = credentials.unwrap_or(CallbackCredentials::None);
    let calling = CallbackParams { program: args.cb_program, minor: run.minor, credentials };
    let memory = run.server.config().reply_memory.take(fore.maxrequests, fore.maxresponsesize_cached);
    let kept = memory.ok_or(NfsStat::NoSpc)?;
    let session = run
        .server
        .make_session(client, client_details(run, &client.principal, client.id), fore, back, calling, kept)
        .ok_or(NfsStat::Delay)?;
    if !client.is_confirmed()
        && let Err(why) = confirm(run, client)
    {
        run.server.end_session(&session);
        return Err(why);
    }
    client.heard(run.now);
    let user = client.principal.to_string();
    run.server.auditor.log_on((&user, Some(client.principal.parts().1)), &session.details, None);
    run.bind(&session, true, has_back);
    let flags = if has_back { SessionFlags::CONN_BACK_CHAN } else { SessionFlags::empty() };
    Ok(ResOk {
        sessionid: session.id,
        sequence: args.sequence,
        flags,
        fore_chan_attrs: fore,
        back_chan_attrs: back,
    })
}

/// The properties of the client for the audit.
fn client_details(run: &Run, principal: &Principal, id: u64) -> ClientDetails {
    let machine = String::from_utf8_lossy(principal.parts().2);
    ClientDetails {
        protocol: if run.minor == 1 { "NFSv4.1" } else { "NFSv4.2" },
        address: run.connection.peer.remote.ip().to_canonical(),
        machine: machine.chars().take(MAX_MACHINE_SHOWN).collect(),
        session: id,
        rendered: std::sync::OnceLock::new(),
    }
}

/// Confirms a client that has created its first session. If the client had restarted, its earlier state ends.
///
/// # Errors
/// NFS4ERR_STALE_CLIENTID if the client itself has ended.
fn confirm(run: &Run, client: &Arc<Client>) -> Result<(), NfsStat> {
    let before = run.server.clients.confirm(client)?;
    run.server.record_client(client);
    if let Some(before) = before {
        run.server.end_client(&before, run.now);
    }
    // The same for its state from before the restart of the server.
    if let Some(key) = run.server.grace.key_of(&client.owner).filter(|key| *key != client.key) {
        run.server.forget_clients([key], run.now);
    }
    Ok(())
}

/// The attributes of the fore channel, limited from those that the client asks for.
// RFC 8881 18.36.3
fn fore_of(run: &Run, asked: &ChannelAttrs) -> Result<ChannelAttrs, NfsStat> {
    let maxresponsesize_cached = asked.maxresponsesize_cached.min(MAX_CACHED_REPLY);
    let config = run.server.config();
    let slots = asked.maxrequests.min(config.slots.clamp(1, MAX_SLOTS));
    // RFC 8881 18.36.4: this is the status if there is no room for a reply.
    let slots = config.reply_memory.slots(slots, maxresponsesize_cached).ok_or(NfsStat::NoSpc)?;
    Ok(ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: asked.maxrequestsize.min(MAX_CHANNEL_MESSAGE),
        maxresponsesize: asked.maxresponsesize.min(MAX_CHANNEL_MESSAGE),
        maxresponsesize_cached,
        maxoperations: asked.maxoperations.min(MAX_OPERATIONS),
        maxrequests: slots,
        rdma_ird: None,
    })
}

/// The attributes of the back channel. A callback has few operations, and those are small.
fn back_of(asked: &ChannelAttrs) -> ChannelAttrs {
    ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: asked.maxrequestsize.min(4096),
        maxresponsesize: asked.maxresponsesize.min(4096),
        maxresponsesize_cached: 0,
        maxoperations: asked.maxoperations.min(8),
        maxrequests: asked.maxrequests.clamp(1, 16),
        rdma_ird: None,
    }
}
