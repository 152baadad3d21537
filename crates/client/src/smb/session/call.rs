//! One request of a session from the choice of a channel to its reply, whatever happens to channels meanwhile
//! (MS-SMB2 3.2.7.1).
//!
//! When a channel is lost, its unanswered requests go to another one. The server may have done them already:
//!
//! * CREATE carries a CreateGuid by which the server finds the open it has made.
//! * WRITE, SET_INFO and IOCTL are marked as replays. The server refuses them while the first one is still being
//!   worked on, and refuses the first one when it comes after its replay.
//! * Everything else changes nothing when it is done twice, or says on the second time that it is done. Who
//!   reads such an answer is told by [`Answer::replayed`].
//!
//! A frame that the credits of a connection do not pay for goes as a [`Series`].

use std::sync::atomic::Ordering;
use std::time::Duration;

use smb_wire::{NtStatus, SmbCommand};

use super::series::Series;
use crate::Error;
use crate::error::Result;
use crate::patience::Patience;
use crate::smb::buffer::Reply;
use crate::smb::channels::Chosen;
use crate::smb::link::{Envelope, Part};
use crate::smb::protection::Protection;
use crate::smb::session::inner::SessionInner;

/// How long a server may go on refusing a replay because what it repeats is still being worked on: an open that waits for
/// a break does for 35 s (MS-SMB2 3.3.2.1), and for an NFS client's delegation as long as its lease, which is 90 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// What came of the requests of one frame.
pub(crate) struct Answer<const N: usize> {
    /// The replies, whatever their status.
    pub(crate) replies: [Reply; N],
    /// Whether the server may have done it before, with a reply that was lost.
    pub(crate) replayed: bool,
}

/// The terms on which the requests of a frame go, whichever channel they take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) tree_id: u32,
    /// How they are protected at least.
    pub(crate) at_least: Protection,
    /// Whether what the server may have seen is sent a second time.
    pub(crate) again: bool,
}

impl SessionInner {
    /// Sends one frame for the tree `tree_id`, protected as the session demands or better, and waits for all
    /// replies.
    ///
    /// # Errors
    /// What ended the last channel, or why the request cannot be sent.
    pub(crate) async fn call<const N: usize>(
        &self,
        tree_id: u32,
        at_least: Protection,
        parts: [Part<'_>; N],
    ) -> Result<Answer<N>> {
        self.call_again(tree_id, at_least, parts, true).await
    }

    /// As [`SessionInner::call`]; what the server may have seen is sent a second time only with `again`, and is lost
    /// with its channel without it.
    pub(crate) async fn call_again<const N: usize>(
        &self,
        tree_id: u32,
        at_least: Protection,
        parts: [Part<'_>; N],
        again: bool,
    ) -> Result<Answer<N>> {
        let terms = Terms { tree_id, at_least, again };
        let mut replayed = false;
        match self.carry(terms, parts, &mut replayed).await {
            Err(Error::Credits { granted, .. }) if granted > 0 => {
                let series = Series::new(self, terms, granted, replayed);
                // Boxed, so that the future of a frame that is paid for is not the larger for it.
                Box::pin(series.send(parts)).await
            }
            carried => carried.map(|replies| Answer { replies, replayed }),
        }
    }

    /// Sends one frame, over one channel after the other if need be, and waits for all replies. `replayed` is, or becomes,
    /// true when the server may have seen it on a channel that is lost.
    pub(crate) async fn carry<const N: usize>(
        &self,
        terms: Terms,
        parts: [Part<'_>; N],
        replayed: &mut bool,
    ) -> Result<[Reply; N]> {
        let weight = parts.iter().map(|part| u64::from(part.payload) + HEADERS).sum();
        let mut renewed = false;
        let mut patience = Patience::new(PATIENCE);
        loop {
            let renewals = self.renewals.load(Ordering::Relaxed);
            let mut chosen = self.channels.choose(weight)?;
            let mut posted = false;
            let error = match self.attempt(&chosen, terms, parts, *replayed, &mut posted).await {
                // Nothing was done.
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

    /// Sends the frame on one channel. `posted` becomes true when the server may get to see it.
    async fn attempt<const N: usize>(
        &self,
        chosen: &Chosen<'_>,
        terms: Terms,
        parts: [Part<'_>; N],
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

/// Roughly what the headers of a request and its reply weigh, in bytes.
const HEADERS: u64 = 256;

/// Whether the server wants to know again who we are before it does anything.
fn is_expired(reply: &Reply) -> bool {
    reply.status() == NtStatus::NETWORK_SESSION_EXPIRED
}

/// Whether the server refuses some of `parts` only for now, because it still works on what they repeat.
fn is_refused_for_now<const N: usize>(parts: &[Part<'_>; N], replies: &[Reply; N], replayed: bool) -> bool {
    // The usual case, before anything else is looked at.
    if replies.iter().all(|reply| reply.status() != NtStatus::FILE_NOT_AVAILABLE) {
        return false;
    }
    parts.iter().zip(replies).any(|(part, reply)| {
        let for_now = match part.command {
            // MS-SMB2 3.2.5.12
            SmbCommand::Write | SmbCommand::SetInfo | SmbCommand::Ioctl => true,
            // For a first CREATE it is the final answer.
            SmbCommand::Create => replayed,
            _ => false,
        };
        for_now && reply.status() == NtStatus::FILE_NOT_AVAILABLE
    })
}

impl<const N: usize> Answer<N> {
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

    /// Success also when the answer to a replay is `done`, which says that there is nothing left to do.
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
