//! Carries one COMPOUND from its slot to its results, whatever happens to connections and to the session
//! meanwhile.
//!
//! A request keeps its slot and its sequence number while it goes from one connection to the next, so that
//! the server finds an earlier copy in its reply cache (RFC 8881 2.10.6). A lost session is replaced, once
//! for each request. Its pending requests are sent again, because nobody can tell whether they were carried
//! out. The operations are written anew for each attempt, with the present stateids of the opens.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use nfs_wire::compound::CallWriter;
use nfs_wire::op::bind_conn_to_session::{self, FromClient};
use nfs_wire::op::sequence::StatusFlags;
use nfs_wire::op::{Args, OpNum, sequence};
use nfs_wire::types::StateId;
use nfs_wire::{NfsStat, op};

use super::ClientCore;
use crate::Error;
use crate::error::Result;
use crate::nfs::channels::{BoundConnection, Chosen};
use crate::nfs::compound_reply::{CompoundReply, Sequenced, result_of};
use crate::nfs::link::Operations;
use crate::nfs::opens::Open;
use crate::nfs::session::{Loss, NfsSession};
use crate::nfs::slots::Lease;
use crate::retry::{Backoff, answered};
use crate::transport::Message;

/// A COMPOUND without its SEQUENCE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) operations: Operations<'a>,
    /// The position of the first operation that must not be carried out twice. With one, the server should
    /// keep the reply.
    pub(crate) once: Option<usize>,
}

/// The outcome of one attempt in a session.
enum Attempt {
    Answered(CompoundReply),
    /// The session is lost, for this reason.
    SessionLost(NfsStat),
    /// The server has carried it out and forgotten the reply.
    Forgotten,
}

/// The most times that a request is sent with other stateids.
const ROUNDS: usize = 3;

impl ClientCore {
    /// Sends operations. Each may be carried out twice.
    ///
    /// # Errors
    /// The same as [`ClientCore::call`].
    pub(crate) async fn ask(&self, push: &(dyn Fn(&mut CallWriter) + Sync)) -> Result<CompoundReply> {
        self.call(Request { operations: Operations::of(push), once: None }).await
    }

    /// Does the same as [`ClientCore::ask`] for a step on the way to an export, which must be answered within
    /// [`Options::connect_timeout`](crate::nfs::Options).
    ///
    /// # Errors
    /// The same as [`ClientCore::call`], and [`Error::Late`].
    pub(crate) async fn take_step(
        &self,
        step: &'static str,
        push: &(dyn Fn(&mut CallWriter) + Sync),
    ) -> Result<CompoundReply> {
        let operations = Operations { step: Some(step), ..Operations::of(push) };
        self.call(Request { operations, once: None }).await
    }

    /// Sends operations. The one at position `at` must not be carried out twice.
    ///
    /// # Errors
    /// The same as [`ClientCore::call`].
    pub(crate) async fn change(
        &self,
        at: usize,
        push: &(dyn Fn(&mut CallWriter) + Sync),
    ) -> Result<CompoundReply> {
        self.call(Request { operations: Operations::of(push), once: Some(at) }).await
    }

    /// Sends a COMPOUND and waits for its results, whatever their status.
    ///
    /// # Errors
    /// The error that ended the last connection or the session, and the server's refusal of the call as a
    /// whole.
    pub(crate) async fn call(&self, request: Request<'_>) -> Result<CompoundReply> {
        let mut patience = Backoff::new(self.options.patience);
        let mut recovered = false;
        loop {
            let session = self.session()?;
            match self.attempt(&session, &request, &mut patience).await? {
                Attempt::Answered(answer) => {
                    if has_lost_state(&session, &answer) {
                        let recovered = self.recover(&session, Loss::State).await;
                        // If the operation was carried out, the next reply reports the restart again.
                        if names_void_state(&answer) {
                            recovered?;
                        }
                    }
                    match is_for_now(&request, &answer).then(|| patience.next()).flatten() {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return Ok(answer),
                    }
                }
                Attempt::SessionLost(status) if recovered => {
                    return Err(Error::Refused { operation: OpNum::Sequence, status });
                }
                Attempt::SessionLost(status) => {
                    recovered = true;
                    self.recover(&session, Loss::Session(status)).await?;
                }
                // RFC 8881 15.1.10.11
                Attempt::Forgotten if request.once.is_some() => {
                    let status = NfsStat::RetryUncachedRep;
                    return Err(Error::Refused { operation: OpNum::Sequence, status });
                }
                Attempt::Forgotten => {}
            }
        }
    }

    /// Does the same as [`ClientCore::call`], for operations with the stateids of `opens`
    /// ([`Open::argument`]). They are sent again if a restart of the server has replaced one of these
    /// stateids meanwhile, up to [`ROUNDS`] times.
    ///
    /// # Errors
    /// The same as [`ClientCore::call`], and [`Error::StateLost`].
    pub(crate) async fn call_on<const N: usize>(
        &self,
        opens: [&Open; N],
        request: Request<'_>,
    ) -> Result<CompoundReply> {
        let mut named = stateids(opens)?;
        let mut round = 1;
        loop {
            let answer = self.call(request).await?;
            if answer.status.is_ok() {
                return Ok(answer);
            }
            // If an open is lost, no other part of the reply matters.
            let now = stateids(opens)?;
            if !names_void_state(&answer) || now == named || round == ROUNDS {
                return Ok(answer);
            }
            (named, round) = (now, round + 1);
        }
    }

    /// Sends `operations` in `session` alone. The last of them must be answered within
    /// [`Options::connect_timeout`](crate::nfs::Options).
    ///
    /// # Errors
    /// The same as [`ClientCore::call`], also when the session is lost.
    pub(crate) async fn ask_in(
        &self,
        session: &Arc<NfsSession>,
        operations: &[Args<'_>],
    ) -> Result<CompoundReply> {
        let push = |writer: &mut CallWriter| {
            for operation in operations {
                writer.push(operation);
            }
        };
        let mut patience = Backoff::new(self.options.patience);
        let step = operations.last().and_then(|operation| operation.number().name());
        let request = Request { operations: Operations { step, ..Operations::of(&push) }, once: Some(0) };
        match self.attempt(session, &request, &mut patience).await? {
            Attempt::Answered(answer) => Ok(answer),
            Attempt::SessionLost(status) => Err(Error::Refused { operation: OpNum::Sequence, status }),
            Attempt::Forgotten => {
                Err(Error::Refused { operation: OpNum::Sequence, status: NfsStat::RetryUncachedRep })
            }
        }
    }

    /// Sends the request in a slot of `session`, over one connection after the other.
    async fn attempt(
        &self,
        session: &Arc<NfsSession>,
        request: &Request<'_>,
        patience: &mut Backoff,
    ) -> Result<Attempt> {
        let Ok(mut lease) = session.slots.take().await else {
            return Ok(Attempt::SessionLost(NfsStat::BadSession));
        };
        if lease.in_doubt {
            // RFC 8881 2.10.6.1 (exception: an empty request shows whether the number is used)
            let nothing = Operations::of(&|_| {});
            match self.exchange(session, &mut lease, nothing, false, patience).await? {
                Attempt::SessionLost(status) => return Ok(Attempt::SessionLost(status)),
                Attempt::Answered(_) | Attempt::Forgotten => lease.advance(),
            }
        }
        self.exchange(session, &mut lease, request.operations, request.once.is_some(), patience).await
    }

    async fn exchange(
        &self,
        session: &NfsSession,
        lease: &mut Lease,
        operations: Operations<'_>,
        keep: bool,
        patience: &mut Backoff,
    ) -> Result<Attempt> {
        let sequence = sequence::Args {
            sessionid: session.id,
            sequenceid: lease.sequence,
            slotid: lease.slot,
            highest_slotid: lease.highest,
            cachethis: keep,
        };
        let push = |writer: &mut CallWriter| {
            writer.push(&Args::Sequence(sequence));
            (operations.push)(writer);
        };
        let sequenced = Operations { push: &push, ..operations };
        let was_in_doubt = lease.in_doubt;
        loop {
            lease.sent();
            let (chosen, message) = self.deliver(sequenced).await?;
            let channel = &chosen.channel;
            match CompoundReply::read_sequenced(message)? {
                Sequenced::Done(sequence, mut answer) => {
                    self.take_notice(session, lease, &sequence, &mut answer)?;
                    // RFC 8881 2.10.6.1.3: the error may also be that of the operation after SEQUENCE.
                    return Ok(match answer.status {
                        NfsStat::RetryUncachedRep => Attempt::Forgotten,
                        _ => Attempt::Answered(answer),
                    });
                }
                // RFC 8881 18.46.3: the slot is unchanged.
                Sequenced::Refused(NfsStat::Delay) => match patience.next() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return refused(NfsStat::Delay),
                },
                Sequenced::Refused(NfsStat::ConnNotBoundToSession) => {
                    match self.bind(session, channel).await {
                        Err(error) if error.is_loss() => self.channels.lose(channel, &error),
                        done => done?,
                    }
                }
                Sequenced::Refused(NfsStat::RetryUncachedRep) => {
                    lease.consumed();
                    return Ok(Attempt::Forgotten);
                }
                // The earlier request with this number was a different one.
                Sequenced::Refused(NfsStat::SeqFalseRetry) if was_in_doubt => {
                    lease.consumed();
                    return Ok(Attempt::Forgotten);
                }
                // After the last three the two sides disagree on the requests. A new session solves that.
                Sequenced::Refused(
                    status @ (NfsStat::BadSession
                    | NfsStat::DeadSession
                    | NfsStat::StaleClientId
                    | NfsStat::BadSlot
                    | NfsStat::BadHighSlot
                    | NfsStat::SeqMisordered),
                ) => return Ok(Attempt::SessionLost(status)),
                Sequenced::Refused(status) => {
                    lease.refused();
                    return refused(status);
                }
            }
        }
    }

    /// Sends a call over one connection after the other, until there is a reply, or there has been none to
    /// any call for [`Options::patience`](crate::nfs::Options).
    pub(crate) async fn deliver(&self, operations: Operations<'_>) -> Result<(Chosen<'_>, Message)> {
        loop {
            let chosen = self.channels.choose(self.options.patience).await?;
            let reply = match chosen.channel.link.send(&self.caller, operations) {
                Ok(pending) => match operations.step {
                    Some(step) => answered(step, self.options.connect_timeout, pending).await,
                    None => pending.await,
                },
                Err(error) => Err(error),
            };
            match reply {
                Ok(message) => {
                    chosen.moved(operations.payload.map_or(0, Bytes::len).max(message.bytes().len()));
                    return Ok((chosen, message));
                }
                Err(error) => {
                    // Another connection leads to the same server, which is alive.
                    if matches!(error, Error::Late { .. }) {
                        return Err(error);
                    }
                    // A server that breaks off at a message of its own costs us that connection.
                    self.channels.lose(&chosen.channel, &error);
                    if !error.is_loss() || self.channels.fruitless_for() > self.options.patience {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Processes an accepted SEQUENCE.
    fn take_notice(
        &self,
        session: &NfsSession,
        lease: &mut Lease,
        sequence: &sequence::ResOk,
        answer: &mut CompoundReply,
    ) -> Result<()> {
        let same = (sequence.sessionid, sequence.slotid, sequence.sequenceid);
        if same != (session.id, lease.slot, lease.sequence) {
            return Err(Error::Protocol("a reply to another SEQUENCE"));
        }
        lease.consumed();
        session.slots.set_target(sequence.target_highest_slotid);
        self.note(sequence.status_flags);
        if !sequence.status_flags.contains(StatusFlags::RESTART_RECLAIM_NEEDED)
            && !session.is_reclaimed.load(Ordering::Relaxed)
        {
            session.is_reclaimed.store(true, Ordering::Relaxed);
        }
        (answer.flags, answer.instance) = (sequence.status_flags, session.instance);
        Ok(())
    }

    /// Binds a connection to the session, if the server does not do so by itself (RFC 8881 2.10.3.1).
    pub(crate) async fn bind(&self, session: &NfsSession, channel: &BoundConnection) -> Result<()> {
        let dir = if session.has_back_channel { FromClient::ForeOrBoth } else { FromClient::Fore };
        let args = bind_conn_to_session::Args { sessid: session.id, dir, use_conn_in_rdma_mode: false };
        let push = |writer: &mut CallWriter| {
            writer.push(&Args::BindConnToSession(args));
        };
        let pending = channel.link.send(&self.caller, Operations::of(&push))?;
        let bound = answered("BIND_CONN_TO_SESSION", self.options.connect_timeout, pending);
        let answer = CompoundReply::read(bound.await?)?;
        let bound: op::bind_conn_to_session::ResOk = result_of!(answer.results(), BindConnToSession)?;
        if bound.sessid == session.id { Ok(()) } else { Err(Error::Protocol("another session was bound")) }
    }
}

fn refused(status: NfsStat) -> Result<Attempt> {
    Err(Error::Refused { operation: OpNum::Sequence, status })
}

/// Whether the server has restarted and kept the session. It may report a restart for some time after all
/// opens are reclaimed, which costs no open. Only a report after the opposite report, or with a void stateid,
/// belongs to another restart (RFC 8881 18.46.3).
fn has_lost_state(session: &NfsSession, answer: &CompoundReply) -> bool {
    answer.flags.contains(StatusFlags::RESTART_RECLAIM_NEEDED)
        && (session.is_reclaimed.load(Ordering::Relaxed) || names_void_state(answer))
}

fn names_void_state(answer: &CompoundReply) -> bool {
    matches!(answer.status, NfsStat::BadStateId | NfsStat::StaleStateId)
}

/// The present stateids of `opens`.
fn stateids<const N: usize>(opens: [&Open; N]) -> Result<[StateId; N]> {
    let mut stateids = [StateId::INVALID; N];
    for (stateid, open) in stateids.iter_mut().zip(opens) {
        *stateid = open.stateid()?;
    }
    Ok(stateids)
}

/// Whether the request can be sent again: the server has asked for a later attempt, and has not carried out
/// the operation that must not be carried out twice.
fn is_for_now(request: &Request<'_>, answer: &CompoundReply) -> bool {
    let position = answer.count().saturating_sub(1);
    matches!(answer.status, NfsStat::Delay | NfsStat::Grace) && request.once.is_none_or(|at| position <= at)
}
