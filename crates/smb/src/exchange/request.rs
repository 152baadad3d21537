//! One request at its command.

use std::sync::Arc;

use share::{Caller, Cause, ClientKey, Identity, Origin, Waiter};
use smb_wire::{FileId, NtStatus};
use wire::{FileRange, Now};

use super::compound::{Compound, Related};
use super::outcome::Stop;
use super::under_way::UnderWay;
use crate::state::index::Claim;

/// One request on its way to its command.
pub struct Request<'m> {
    /// What its exchange knows of it, whether it is put aside or not.
    pub under_way: &'m mut UnderWay,
    /// The whole message from its header on, with the signature field zero.
    pub message: &'m [u8],
    /// Where the body of its answer is appended.
    pub body: &'m mut Vec<u8>,
    /// The signature that was taken out.
    pub signature: [u8; 16],
    /// Its session, with what a related request inherits.
    pub session_id: u64,
    /// Its tree, with what a related request inherits.
    pub tree_id: u32,
    /// Where its session is among the connection's channels.
    pub channel: Option<usize>,
    /// Whether it came sealed.
    pub sealed: bool,
    /// What a request behind it may inherit.
    pub related: Related,
    /// The Open on which it counts, by its volatile id; under the request's ChannelSequence.
    pub counted: Option<u64>,
    /// The answer is signed although the request was not (a log-on's last answer).
    pub sign_answer: bool,
    /// Whether the answer is all that its frame holds, and neither signed nor sealed.
    pub bare: bool,
    /// What a bare answer ends with.
    pub attached: Option<FileRange>,
    /// What it has begun, if it is a CREATE that has waited or is about to.
    pub claim: Option<Claim>,
    /// The connection, for the engine.
    pub origin: Origin,
    /// The time.
    pub now: Now,
}

impl std::ops::Deref for Request<'_> {
    type Target = UnderWay;

    #[inline]
    fn deref(&self) -> &UnderWay {
        self.under_way
    }
}

impl std::ops::DerefMut for Request<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut UnderWay {
        self.under_way
    }
}

impl<'m> Request<'m> {
    /// A request behind those that `compound` has answered, which makes room for its answer.
    pub(crate) fn new(
        under_way: &'m mut UnderWay,
        message: &'m [u8],
        compound: &'m mut Compound,
        origin: Origin,
        now: Now,
    ) -> Request<'m> {
        let (mut related, header) = (compound.related, &under_way.header);
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
        under_way.at = compound.begin();
        Request {
            under_way,
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

    /// When it is asked for, and over which connection.
    pub(crate) fn cause(&self) -> Cause {
        Cause { now: self.now, origin: Some(self.origin) }
    }

    /// Who asks the engine for it; without `waiter` it waits for nothing.
    pub(crate) fn caller<'a>(
        &self,
        identity: &'a Arc<Identity>,
        client: ClientKey,
        waiter: Option<&'a Waiter>,
    ) -> Caller<'a> {
        Caller { identity, client, waiter, now: self.now, origin: Some(self.origin) }
    }

    /// The FileId of a request, with what a related one inherits (MS-SMB2 3.3.5.2.7.2).
    ///
    /// # Errors
    /// The status with which the request before failed to make one.
    pub fn file_id(&self, id: FileId) -> Result<FileId, Stop> {
        // Clients set all of it (3.2.4.1.4); one half says as much, since no Open has such an id.
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
