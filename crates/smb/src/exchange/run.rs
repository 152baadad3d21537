//! The way of a frame through its connection: [`Connection::receive`] opens the seal, [`Connection::run`] answers one request
//! after the other, [`Connection::finish`] signs and seals.

use std::sync::Arc;

use smb_wire::header::Packet;
use smb_wire::header::transform::{self, TransformHeader};
use smb_wire::{Command, Header, NtStatus};
use wire::{Now, Output};

use super::compound::Key;
use super::outcome::{Answered, Aside, Outcome};
use super::rest::{First, Rest};
use super::{Compound, Exchange, UnderWay};
use crate::admit::Refused;
use crate::connection::Connection;
use crate::dispatch::{self, Request};
use crate::event::Event;
use crate::recording::Sample;

/// What comes behind one request of a frame.
enum Then {
    /// The next one, or the end.
    Next,
    /// It is put aside.
    Aside(Aside),
    /// The end of the connection.
    Closed,
}

impl Connection {
    /// Answers one frame.
    pub(crate) fn receive(&mut self, frame: &mut [u8], now: Now, out: &mut Output<Event>) {
        match Packet::classify(frame) {
            Some(Packet::Smb2) => self.start(frame, None, now, out),
            Some(Packet::Transform) => match self.unseal(frame) {
                Some(session_id) => self.start(&mut frame[transform::SIZE..], Some(session_id), now, out),
                None => self.hang_up("a sealed frame that cannot be opened", out),
            },
            Some(Packet::Smb1) => crate::cmd::negotiate::from_smb1(self, frame, now, out),
            Some(Packet::Compressed) => self.hang_up("compression was not negotiated", out),
            None => self.hang_up("not an SMB message", out),
        }
    }

    /// Opens a sealed frame in place and says whose keys it took (MS-SMB2 3.3.5.2.1).
    fn unseal(&self, frame: &mut [u8]) -> Option<u64> {
        let (header, _) = TransformHeader::parse(frame).ok()?;
        let header = *header;
        // MS-SMB2 3.3.5.2.1.1
        if self.constrained {
            return None;
        }
        let channel = &self.channels[self.channel_of(header.session_id())?];
        let seal = channel.session.proved()?.seal.as_ref()?;
        let sealed = &mut frame[transform::SIZE..];
        seal.into.open(header.nonce(), header.associated_data(), sealed, header.signature()).ok()?;
        (Packet::classify(sealed) == Some(Packet::Smb2)).then_some(header.session_id())
    }

    fn start(&mut self, messages: &mut [u8], sealed_by: Option<u64>, now: Now, out: &mut Output<Event>) {
        let frame = out.pool.take(dispatch::expected_size(messages));
        let compound = Compound::new(frame, sealed_by);
        self.run(Exchange { compound, rest: Rest::new(messages), request: None }, now, out);
    }

    /// Answers the requests that are left one after the other; the first one may have been looked at before.
    pub(super) fn run(&mut self, mut exchange: Exchange<'_>, now: Now, out: &mut Output<Event>) {
        while !exchange.rest.bytes().is_empty() {
            match self.run_one(&mut exchange, now, out) {
                Then::Next => {}
                Then::Closed => return,
                Then::Aside(aside) => {
                    // They go before the answers so far, which may leave with the word that this one waits.
                    self.send_own_notices(now, out);
                    match self.put_aside(exchange, aside, out) {
                        Some(goes_on) => exchange = goes_on,
                        None => return,
                    }
                }
            }
        }
        self.send_own_notices(now, out);
        self.finish(exchange.compound, out);
    }

    /// Answers the first request that is left.
    fn run_one(&mut self, exchange: &mut Exchange<'_>, now: Now, out: &mut Output<Event>) -> Then {
        let left = exchange.rest.bytes().len();
        let Some(Ok(First { header, message, signature })) = exchange.rest.first() else {
            self.hang_up("a malformed header", out);
            return Then::Closed;
        };
        let len = message.len();
        let under_way = match &mut exchange.request {
            Some(resumed) => resumed,
            new => match self.admit(header, message, &signature, &exchange.compound, now) {
                Ok(signed) => new.insert(UnderWay::new(header, signed, len, now)),
                Err(Refused::Ignore) => {
                    exchange.rest.pass(len);
                    return Then::Next;
                }
                Err(Refused::Close(why)) => {
                    self.hang_up(why, out);
                    return Then::Closed;
                }
                Err(Refused::Answer { status, signed }) => {
                    let request = UnderWay::new(header, signed, len, now);
                    self.refuse(&mut exchange.compound, request, status);
                    exchange.rest.pass(len);
                    return Then::Next;
                }
            },
        };
        let compound = &mut exchange.compound;
        let mut request = Request::new(under_way, message, compound, (self.origin(), now));
        self.sample(&mut request);
        request.signature = signature;
        request.bare = len == left && !request.signed && !request.resumed && compound.is_bare();
        request.at = compound.begin();
        let outcome = dispatch::handle(self, &mut request, compound.frame.tail(), out);
        let Request { under_way, related, claim, attached, counted, sign_answer, .. } = request;
        // Of a CREATE that has ended nothing is left to the next.
        compound.claim = claim.filter(|_| matches!(outcome, Outcome::Aside(_)));
        compound.related = related;
        under_way.signed |= sign_answer && compound.sealed_by.is_none();
        match outcome {
            Outcome::Disconnect(why) => {
                self.hang_up(why, out);
                return Then::Closed;
            }
            Outcome::Aside(aside) => {
                if under_way.outstanding.is_none() {
                    under_way.outstanding = self.outstanding(counted, &under_way.header);
                }
                return Then::Aside(aside);
            }
            Outcome::Silent => {
                compound.abandon(under_way.at);
                self.note(&under_way.header, &mut under_way.course, NtStatus::SUCCESS, 0, false);
            }
            Outcome::Answered(answered) => {
                under_way.course.attached = attached.as_ref().map_or(0, |range| range.len);
                self.answer(compound, under_way, answered);
                compound.attach(attached);
            }
        }
        exchange.request = None;
        exchange.rest.pass(len);
        Then::Next
    }

    /// Refuses a request that is not looked at; the answer may be signed.
    fn refuse(&mut self, compound: &mut Compound, mut request: UnderWay, status: NtStatus) {
        if request.header.session_id() != u64::MAX {
            compound.related.session_id = request.header.session_id();
        }
        request.course.sample = self.desk.sample(1).map(Sample::unseen);
        request.at = compound.begin();
        self.answer(compound, &mut request, Err(status).into());
    }

    /// Completes the answer to a request, and counts it.
    pub(super) fn answer(&mut self, compound: &mut Compound, request: &mut UnderWay, answered: Answered) {
        let told = request.told();
        let UnderWay { header, signed, course, at, .. } = request;
        let at = *at;
        let status = match answered {
            Answered::Done(status) => status,
            Answered::Failed(status, data) => {
                compound.cut_body(at);
                dispatch::error_body(&data, self.negotiated.as_ref(), compound.frame.tail());
                status
            }
        };
        // A log-on that goes on is refused nothing.
        if status.is_error() && status != NtStatus::MORE_PROCESSING_REQUIRED {
            tracing::debug!(
                command = ?header.command(),
                %status,
                message = header.message_id(),
                session = header.session_id(),
                "refused"
            );
        }
        let mut response = Header::response_to(header, status);
        if header.command() == Command::SessionSetup || header.session_id() == u64::MAX {
            response.set_session_id(compound.related.session_id);
        }
        match told {
            Some(async_id) => response.set_async_id(async_id),
            None => {
                if header.command() == Command::TreeConnect || header.tree_id() == u32::MAX {
                    response.set_tree_id(compound.related.tree_id);
                }
                // MS-SMB2 3.3.4.1.2: what an interim response granted is not granted again.
                response.set_credits(self.window.grant(header.credits()));
            }
        }
        compound.related.any = true;
        compound.end(at, response, *signed);
        let len = compound.frame.len() - at + course.attached;
        if let Some(sample) = &mut course.sample {
            self.sample_answer(sample, header.command(), status, &compound.frame.bytes()[at..]);
        }
        self.note(header, course, status, len, told.is_some());
    }

    /// Signs, seals and queues the answers.
    pub(crate) fn finish(&mut self, mut compound: Compound, out: &mut Output<Event>) {
        if compound.is_empty() {
            return out.pool.give_back(compound.frame);
        }
        compound.write_headers(|header| self.key_for(header));
        self.note_preauth(&compound);
        let sealed_by = compound.sealed_by;
        let sealing = sealed_by.and_then(|id| self.channel_or_parting(id)).map(|channel| &*channel.session);
        if sealed_by.is_some() && sealing.is_none() {
            return self.hang_up("the keys that seal an answer are gone", out);
        }
        out.frames.push(compound.into_frame(sealing));
    }

    /// What an answer is signed with.
    fn key_for(&self, header: &Header) -> Option<Key<'_>> {
        // MS-SMB2 3.3.4.1.1
        let failed = header.command() == Command::SessionSetup && header.status() != NtStatus::SUCCESS;
        match self.channel_or_parting(header.session_id()) {
            Some(channel) if failed => Some(Key::Session(Arc::clone(&channel.session))),
            Some(channel) => Some(Key::Channel(&channel.signer)),
            // A session that is not carried here, and may be bound or is refused.
            None => self.server.session(header.session_id()).map(Key::Session),
        }
    }

    /// The first three messages of a connection and those of a log-on go into hashes (MS-SMB2 3.3.5.4,
    /// 3.3.5.5).
    fn note_preauth(&mut self, compound: &Compound) {
        let Ok(header) = Header::parse(compound.message()) else { return };
        match header.command() {
            Command::Negotiate => {
                self.preauth = auth::crypto::preauth_hash(&self.preauth, compound.message())
            }
            // What ends a log-on is no part of its keys.
            Command::SessionSetup if header.status() == NtStatus::MORE_PROCESSING_REQUIRED => {
                let id = header.session_id();
                if let Some(setup) = self.setups.iter_mut().find(|setup| setup.session.id == id) {
                    setup.preauth = auth::crypto::preauth_hash(&setup.preauth, compound.message());
                }
            }
            _ => {}
        }
    }
}
