//! Replies: [`Connection::answer`] completes the reply to a request, [`Connection::finish`] signs, seals and
//! queues the replies of a frame.

use std::sync::Arc;

use smb_wire::error::{self, ErrorId};
use smb_wire::negotiate::Dialect;
use smb_wire::{Header, NtStatus, SmbCommand};
use wire::Output;

use super::Connection;
use crate::exchange::compound::SigningKey;
use crate::exchange::transaction::Sample;
use crate::exchange::{Compound, ReplyContent, RequestState};
use crate::state::Event;

impl Connection {
    /// Refuses a request that was not admitted. The reply may be signed.
    pub(crate) fn refuse(&mut self, compound: &mut Compound, mut request: RequestState, status: NtStatus) {
        if request.header.session_id() != u64::MAX {
            compound.related.session_id = request.header.session_id();
        }
        request.transaction.sample = self.desk.sample(1).map(Sample::unseen);
        request.at = compound.begin();
        self.answer(compound, &mut request, Err(status).into());
    }

    /// Completes the reply to a request and counts it.
    pub(crate) fn answer(
        &mut self,
        compound: &mut Compound,
        request: &mut RequestState,
        answered: ReplyContent,
    ) {
        let pending_id = request.pending_id();
        let RequestState { header, signed, transaction, at, .. } = request;
        let at = *at;
        let status = match answered {
            ReplyContent::Done(status) => status,
            ReplyContent::Failed(status, data) => {
                compound.cut_body(at);
                self.error_body(&data, compound.frame.tail());
                status
            }
        };
        // A log-on that goes on is not a refusal.
        if status.is_error() && status != NtStatus::MORE_PROCESSING_REQUIRED {
            let (command, message, session) = (header.command(), header.message_id(), header.session_id());
            tracing::debug!(?command, %status, message, session, "refused");
        }
        let mut response = Header::response_to(header, status);
        if header.command() == SmbCommand::SessionSetup || header.session_id() == u64::MAX {
            response.set_session_id(compound.related.session_id);
        }
        match pending_id {
            Some(async_id) => response.set_async_id(async_id),
            None => {
                if header.command() == SmbCommand::TreeConnect || header.tree_id() == u32::MAX {
                    response.set_tree_id(compound.related.tree_id);
                }
                // MS-SMB2 3.3.4.1.2: the interim response has granted the credits already.
                response.set_credits(self.window.grant(header.credits()));
            }
        }
        compound.related.any = true;
        compound.end(at, response, *signed);
        let len = compound.frame.len() - at + transaction.attached;
        if let Some(sample) = transaction.sample.as_mut().filter(|_| header.command() == SmbCommand::Create)
            && !status.is_error()
        {
            self.sample_create(sample, &compound.frame.bytes()[at..]);
        }
        self.note(request, status, len);
    }

    /// Signs, seals and queues the replies.
    pub(crate) fn finish(&mut self, mut compound: Compound, out: &mut Output<Event>) {
        if compound.is_empty() {
            return out.pool.give_back(compound.frame);
        }
        compound.write_headers(|header| self.key_for(header));
        self.note_preauth(&compound);
        let sealed_by = compound.sealed_by;
        let sealing = sealed_by.and_then(|id| self.channel_or_parting(id)).map(|channel| &*channel.session);
        if sealed_by.is_some() && sealing.is_none() {
            let peer = self.handle.peer.remote;
            tracing::info!(%peer, "closing the connection: the keys that seal an answer are gone");
            out.close = true;
            return;
        }
        out.frames.push(compound.into_frame(sealing));
    }

    /// The key that signs a reply.
    fn key_for(&self, header: &Header) -> Option<SigningKey<'_>> {
        // MS-SMB2 3.3.4.1.1
        let failed = header.command() == SmbCommand::SessionSetup && header.status() != NtStatus::SUCCESS;
        match self.channel_or_parting(header.session_id()) {
            Some(channel) if failed => Some(SigningKey::Session(Arc::clone(&channel.session))),
            Some(channel) => Some(SigningKey::Channel(&channel.signer)),
            // A session that is not carried here. It may be bound or refused.
            None => self.server.session(header.session_id()).map(SigningKey::Session),
        }
    }

    /// Adds a message to the pre-authentication hashes: the first messages of a connection and those of a
    /// log-on (MS-SMB2 3.3.5.4, 3.3.5.5).
    fn note_preauth(&mut self, compound: &Compound) {
        let Ok(header) = Header::parse(compound.frame.bytes()) else { return };
        match header.command() {
            SmbCommand::Negotiate => {
                self.preauth = auth::crypto::preauth_hash(&self.preauth, compound.frame.bytes())
            }
            // The final response of a log-on is not part of its keys.
            SmbCommand::SessionSetup if header.status() == NtStatus::MORE_PROCESSING_REQUIRED => {
                let id = header.session_id();
                if let Some(setup) = self.setups.iter_mut().find(|setup| setup.session.id == id) {
                    setup.preauth = auth::crypto::preauth_hash(&setup.preauth, compound.frame.bytes());
                }
            }
            _ => {}
        }
    }

    /// Appends the body of an error with its data (MS-SMB2 2.2.2).
    pub(super) fn error_body(&self, data: &[u8], out: &mut Vec<u8>) {
        if data.is_empty() {
            return out.extend_from_slice(&error::EMPTY);
        }
        let is_311 =
            self.negotiated.is_some_and(|negotiated| negotiated.protection.dialect == Dialect::Smb311);
        error::Response::write_with(out, is_311, ErrorId::Default, |out| out.extend_from_slice(data));
    }
}
