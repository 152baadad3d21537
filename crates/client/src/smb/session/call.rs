//! Carries one request of a session from the choice of a channel to its reply, whatever happens to channels
//! meanwhile (MS-SMB2 3.2.7.1).
//!
//! When a channel is lost, its unanswered requests go to another one. The server may have carried them out
//! already:
//!
//! * A CREATE has a CreateGuid, by which the server finds the open it has made.
//! * WRITE, SET_INFO and IOCTL are marked as replays. The server refuses a replay while the first copy is in
//!   progress, and refuses the first copy when it arrives after its replay.
//! * Every other command changes nothing when it is repeated, or its second reply says that it is done.
//!   Readers of such a reply check [`FrameReplies::replayed`].
//!
//! A frame that the credits of a connection do not cover goes as a [`Series`].

use std::sync::atomic::Ordering;
use std::time::Duration;

use smb_wire::{NtStatus, SmbCommand};

use super::series::Series;
use crate::Error;
use crate::error::Result;
use crate::retry::Backoff;
use crate::smb::buffer::Reply;
use crate::smb::channels::Chosen;
use crate::smb::link::{Envelope, FrameRequest};
use crate::smb::protection::Protection;
use crate::smb::session::state::SessionInner;

/// The time for which a server may refuse a replay because the original is still in progress. An open that
/// waits for a break may do so for 35 s (MS-SMB2 3.3.2.1). One that waits for an NFS client's delegation may
/// do so for its lease, which is 90 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// The replies to the requests of one frame.
pub(crate) struct FrameReplies<const N: usize> {
    /// The replies, whatever their status.
    pub(crate) replies: [Reply; N],
    /// Whether the server may have carried it out before, with a lost reply.
    pub(crate) replayed: bool,
}

/// The terms of the requests of a frame, whichever channel they take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestOptions {
    pub(crate) tree_id: u32,
    /// The least protection.
    pub(crate) at_least: Protection,
    /// Whether a request that the server may have seen is sent a second time.
    pub(crate) again: bool,
}

impl SessionInner {
    /// Sends one frame for the tree `tree_id`, with the session's protection or better, and waits for all
    /// replies.
    ///
    /// # Errors
    /// The error that ended the last channel, or the reason why the request cannot be sent.
    pub(crate) async fn call<const N: usize>(
        &self,
        tree_id: u32,
        at_least: Protection,
        parts: [FrameRequest<'_>; N],
    ) -> Result<FrameReplies<N>> {
        self.call_again(tree_id, at_least, parts, true).await
    }

    /// Does the same as [`SessionInner::call`]. Without `again`, a request that the server may have seen is
    /// not sent a second time, and fails with its channel.
    pub(crate) async fn call_again<const N: usize>(
        &self,
        tree_id: u32,
        at_least: Protection,
        parts: [FrameRequest<'_>; N],
        again: bool,
    ) -> Result<FrameReplies<N>> {
        let terms = RequestOptions { tree_id, at_least, again };
        let mut replayed = false;
        match self.carry(terms, parts, &mut replayed).await {
            Err(Error::Credits { granted, .. }) if granted > 0 => {
                let series = Series::new(self, terms, granted, replayed);
                // Boxed, to keep the future of the usual frame small.
                Box::pin(series.send(parts)).await
            }
            carried => carried.map(|replies| FrameReplies { replies, replayed }),
        }
    }

    /// Sends one frame, over one channel after the other if necessary, and waits for all replies. `replayed`
    /// is set when the server may have seen it on a lost channel.
    pub(crate) async fn carry<const N: usize>(
        &self,
        terms: RequestOptions,
        parts: [FrameRequest<'_>; N],
        replayed: &mut bool,
    ) -> Result<[Reply; N]> {
        let weight = parts.iter().map(|part| u64::from(part.payload) + HEADERS).sum();
        let mut renewed = false;
        let mut patience = Backoff::new(PATIENCE);
        loop {
            let renewals = self.renewals.load(Ordering::Relaxed);
            let mut chosen = self.channels.choose(weight)?;
            let mut posted = false;
            let error = match self.attempt(&chosen, terms, parts, *replayed, &mut posted).await {
                // The server has carried nothing out.
                Ok(replies) if !renewed && replies.first().is_some_and(is_expired) => {
                    drop(replies);
                    renewed = true;
                    self.renew(&chosen.channel, renewals).await?;
                    continue;
                }
                Ok(replies) => {
                    let for_now = self.channels_matter() && is_refused_for_now(&parts, &replies, *replayed);
                    let Some(pause) = (for_now && terms.again).then(|| patience.next()).flatten() else {
                        return Ok(replies);
                    };
                    drop((chosen, replies));
                    // MS-SMB2 3.2.5.12
                    *replayed = true;
                    tokio::time::sleep(pause).await;
                    continue;
                }
                Err(error) => error,
            };
            if let Error::Credits { .. } = error {
                chosen.uncount();
            }
            let others = error.is_loss() && self.channels.lose(&chosen.channel, &error);
            if !others || (posted && !terms.again) {
                return Err(error);
            }
            *replayed |= posted;
        }
    }

    /// Sends the frame on one channel. `posted` is set when the server may see it.
    async fn attempt<const N: usize>(
        &self,
        chosen: &Chosen<'_>,
        terms: RequestOptions,
        parts: [FrameRequest<'_>; N],
        is_replay: bool,
        posted: &mut bool,
    ) -> Result<[Reply; N]> {
        let channel = &chosen.channel;
        let envelope = Envelope {
            session_id: self.id,
            tree_id: terms.tree_id,
            protection: self.protect(terms.at_least),
            keys: Some(channel.keys.as_ref()),
            channel_sequence: chosen.sequence,
            is_replay,
        };
        let pending = channel.connection.link.send(envelope, parts, None).await?;
        *posted = true;
        let mut replies = [const { None }; N];
        for (reply, pending) in replies.iter_mut().zip(pending) {
            *reply = Some(pending.await?);
        }
        Ok(replies.map(|reply| reply.expect("every place was just filled")))
    }
}

/// The approximate size of the headers of a request and its reply, in bytes.
const HEADERS: u64 = 256;

/// Whether the server requires a new authentication before it carries anything out.
fn is_expired(reply: &Reply) -> bool {
    reply.status() == NtStatus::NETWORK_SESSION_EXPIRED
}

/// Whether the server refuses some of `parts` only temporarily, because the original is in progress.
fn is_refused_for_now<const N: usize>(
    parts: &[FrameRequest<'_>; N],
    replies: &[Reply; N],
    replayed: bool,
) -> bool {
    // The usual case, checked first.
    if replies.iter().all(|reply| reply.status() != NtStatus::FILE_NOT_AVAILABLE) {
        return false;
    }
    parts.iter().zip(replies).any(|(part, reply)| {
        let for_now = match part.command {
            // MS-SMB2 3.2.5.12
            SmbCommand::Write | SmbCommand::SetInfo | SmbCommand::Ioctl => true,
            // It is the final reply to a first CREATE.
            SmbCommand::Create => replayed,
            _ => false,
        };
        for_now && reply.status() == NtStatus::FILE_NOT_AVAILABLE
    })
}

impl<const N: usize> FrameReplies<N> {
    /// The replies, if each has a status of success.
    ///
    /// # Errors
    /// The first other status.
    pub(crate) fn success(self) -> Result<[Reply; N]> {
        match self.replies.iter().find(|reply| !reply.status().is_success()) {
            Some(refused) => Err(refused.refused()),
            None => Ok(self.replies),
        }
    }

    /// A success, also when the reply to a replay is `done`, which says that nothing is left to do.
    ///
    /// # Errors
    /// The first other status.
    pub(crate) fn success_or(self, done: NtStatus) -> Result<()> {
        let replayed = self.replayed;
        match self.success() {
            Err(Error::Status { status, .. }) if replayed && status == done => Ok(()),
            other => other.map(drop),
        }
    }
}
