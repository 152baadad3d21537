//! A request as its command gets it.

use std::sync::Arc;

use share::{Caller, Cause, ClientKey, Identity, Origin, Waiter};
use smb_wire::{FileId, NtStatus};
use wire::{FileRange, Now};

use super::compound::{Compound, Related};
use super::outcome::Stop;
use super::request_state::RequestState;
use crate::state::index::Claim;

/// A request as its command gets it.
pub struct Request<'m> {
    /// The state of the request that outlives a wait.
    pub state: &'m mut RequestState,
    /// The whole message from its header on, with a zero signature field.
    pub message: &'m [u8],
    /// The buffer for the body of its reply.
    pub body: &'m mut Vec<u8>,
    /// The signature of the message.
    pub signature: [u8; 16],
    /// Its session id, including an inherited one.
    pub session_id: u64,
    /// Its tree id, including an inherited one.
    pub tree_id: u32,
    /// The index of its session among the connection's channels.
    pub channel: Option<usize>,
    /// Whether it was sealed.
    pub sealed: bool,
    /// The values that the next request may inherit.
    pub related: Related,
    /// The volatile id of the Open that counts it, under the request's ChannelSequence.
    pub counted: Option<u64>,
    /// The reply is signed although the request was not (the final reply of a log-on).
    pub sign_answer: bool,
    /// Whether its reply is alone in the frame, and neither signed nor sealed.
    pub bare: bool,
    /// The piece of a file at the end of a bare reply.
    pub attached: Option<FileRange>,
    /// The claim of a CREATE that has waited or may have to.
    pub claim: Option<Claim>,
    /// The connection as origin, for the engine.
    pub origin: Origin,
    /// The time.
    pub now: Now,
}

impl std::ops::Deref for Request<'_> {
    type Target = RequestState;

    #[inline]
    fn deref(&self) -> &RequestState {
        self.state
    }
}

impl std::ops::DerefMut for Request<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut RequestState {
        self.state
    }
}

impl<'m> Request<'m> {
    /// The request after those that `compound` has answered. It makes space for its reply.
    pub(crate) fn new(
        state: &'m mut RequestState,
        message: &'m [u8],
        compound: &'m mut Compound,
        origin: Origin,
        now: Now,
    ) -> Request<'m> {
        let (mut related, header) = (compound.related, &state.header);
        let (mut session_id, mut tree_id) = (header.session_id(), header.tree_id());
        if header.is_related() && related.any {
            // MS-SMB2 3.3.5.2.7.2
            if session_id == u64::MAX {
                session_id = related.session_id;
            }
            if tree_id == u32::MAX {
                tree_id = related.tree_id;
            }
        } else {
            related = Related { any: related.any, ..Related::default() };
        }
        (related.session_id, related.tree_id) = (session_id, tree_id);
        state.at = compound.begin();
        Request {
            state,
            message,
            signature: [0; 16],
            session_id,
            tree_id,
            channel: None,
            sealed: compound.sealed_by.is_some(),
            related,
            counted: None,
            sign_answer: false,
            bare: false,
            attached: None,
            claim: compound.claim.take(),
            body: compound.frame.tail(),
            origin,
            now,
        }
    }

    /// The time and the connection of the request.
    pub(crate) fn cause(&self) -> Cause {
        Cause { now: self.now, origin: Some(self.origin) }
    }

    /// The caller for the engine. Without `waiter` the engine does not wait.
    pub(crate) fn caller<'a>(
        &self,
        identity: &'a Arc<Identity>,
        client: ClientKey,
        waiter: Option<&'a Waiter>,
    ) -> Caller<'a> {
        Caller { identity, client, waiter, now: self.now, origin: Some(self.origin), details: None }
    }

    /// The FileId of a request, including an inherited one (MS-SMB2 3.3.5.2.7.2).
    ///
    /// # Errors
    /// The status with which the previous request failed to create an Open.
    pub fn file_id(&self, id: FileId) -> Result<FileId, Stop> {
        // Clients set both halves (3.2.4.1.4). One half is as clear, since no Open has such an id.
        let inherits = id.is_related() || id.persistent == u64::MAX || id.volatile == u64::MAX;
        if !(self.header.is_related() && inherits) {
            return Ok(id);
        }
        match (self.related.file_id, self.related.failed) {
            (Some(inherited), _) => Ok(inherited),
            (None, Some(status)) => Err(Stop::Fail(status)),
            (None, None) => Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
        }
    }
}
