//! Connection: carries bytes for the sessions bound to it (MS-SMB2 3.3.1.7).
//!
//! Start with [`Connection::on_message`](wire::Conversation::on_message) in [`crate::service`]; here is
//! what a connection knows, and the way of a frame through it: [`Connection::receive`] opens the seal,
//! [`Connection::run`] answers one request after the other, [`Connection::finish`] signs and seals. Which
//! requests are looked at at all is in `admit.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use auth::crypto::Signer;
use share::counts::Desk;
use share::{ClientKey, Origin, Waiter, Wake};
use smallvec::SmallVec;
use smb_wire::header::transform::{self, TransformHeader};
use smb_wire::header::{Chain, Packet};
use smb_wire::negotiate::{Capabilities, SecurityMode};
use smb_wire::{Command, Guid, Header, NtStatus, header};
use wire::{Mailbox, Now, Output, Peer};

use crate::account::Known;
use crate::admit::Refused;
use crate::announcing;
use crate::brake::Queued;
use crate::changing::Looking;
use crate::cmd::ioctl::torture::Controls;
use crate::cmd::lock;
use crate::cmd::session_setup::Setup;
use crate::compound::{Compound, Key};
use crate::config::ServerConfig;
use crate::counting::Course;
use crate::dispatch::{self, Request};
use crate::event::Event;
pub use crate::handle::Handle;
use crate::keys::Protection;
use crate::limits::{LOGON_TIME_NS, MAX_PARTING, MAX_WAITING, MAX_WAITING_BYTES, SMALL_WAITING};
use crate::notice::Unproved;
use crate::recording::Sample;
use crate::sequence::Outstanding;
use crate::server::Server;
use crate::session::Session;
use crate::suspend::{Handled, Stop, Suspended, Work};
use crate::waiting::Waiting;
use crate::window::Window;

/// What NEGOTIATE settled.
#[derive(Debug, Clone, Copy)]
pub struct Negotiated {
    /// Dialect, signing, cipher.
    pub protection: Protection,
    /// The client.
    pub client_guid: Guid,
    /// The client for the engine.
    pub client: ClientKey,
    /// What the client said it can do.
    pub client_capabilities: Capabilities,
    /// How the client said it signs.
    pub client_security: SecurityMode,
    /// What we said.
    pub capabilities: Capabilities,
    /// How we said that we sign.
    pub security: SecurityMode,
    /// Hash of the dialects that the client offered (ClientDialects of MS-SMB2 3.3.1.7), which it may offer by the thousand.
    pub offered: [u8; 64],
    /// Largest READ, WRITE and TRANSACT.
    pub max_io: u32,
    /// Whether the client speaks the POSIX extensions.
    pub posix: bool,
}

impl Negotiated {
    /// Whether requests may take more than one credit.
    pub fn multi_credit(&self) -> bool {
        self.capabilities.contains(Capabilities::LARGE_MTU)
    }
}

/// A session on this connection: a channel (MS-SMB2 3.3.1.14).
pub struct Channel {
    /// The session.
    pub session: Arc<Session>,
    /// Signs on this channel.
    pub signer: Signer,
}

/// One connection.
pub struct Connection {
    pub(crate) server: Arc<Server>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) negotiated: Option<Negotiated>,
    /// The client has sent an SMB1 NEGOTIATE that leads here (MS-SMB2 3.3.5.3.2).
    pub(crate) multi_protocol: bool,
    /// Nobody with a name has logged on here yet (ConstrainedConnection).
    pub(crate) constrained: bool,
    /// Its own client, and those of sessions that another client made and that are bound here.
    clients: SmallVec<[ClientKey; 1]>,
    /// Its account, where that is known since NEGOTIATE.
    pub(crate) account: Option<Known>,
    pub(crate) preauth: [u8; 64],
    /// Where its requests are counted.
    pub(crate) desk: Desk,
    pub(crate) window: Window,
    pub(crate) channels: Vec<Channel>,
    /// Channels of sessions that have ended, for answers that are still to be signed and sealed: those to requests
    /// that were under way, and the refusals of what the client sends before it knows.
    parting: Vec<Channel>,
    pub(crate) setups: Vec<Setup>,
    /// Tries of passwords that wait for their turn.
    pub(crate) turns: Vec<Queued>,
    pub(crate) suspended: Waiting,
    /// Those of them that nobody was told of, each with when that ends.
    pub(crate) silent: Vec<(u64, u64)>,
    /// How many of them are held by limits.
    pub(crate) held: usize,
    next_async: std::cell::Cell<u64>,
    pub(crate) deadline: Option<u64>,
    /// Notices whose arrival is not known.
    pub(crate) unproved: VecDeque<Unproved>,
    pub(crate) next_receipt: u64,
    /// What a test of the server has asked for.
    pub(crate) controls: Controls,
}

impl Connection {
    /// A connection that has just been accepted; none when there are too many.
    pub fn new(
        server: &Arc<Server>,
        peer: Peer,
        mailbox: Arc<dyn Mailbox<Event>>,
        now: Now,
    ) -> Option<Connection> {
        let desk = Desk::new(&server.counts);
        let visits = Arc::clone(desk.visits());
        let handle = Arc::new(Handle::new(server.next_connection(), peer, now, mailbox, visits));
        server.add_connection(&handle).then(|| Connection {
            server: Arc::clone(server),
            handle,
            negotiated: None,
            multi_protocol: false,
            constrained: true,
            clients: SmallVec::new(),
            account: None,
            preauth: [0; 64],
            desk,
            window: Window::new(server.config().max_credits),
            channels: Vec::new(),
            parting: Vec::new(),
            setups: Vec::new(),
            turns: Vec::new(),
            silent: Vec::new(),
            suspended: Waiting::default(),
            held: 0,
            next_async: std::cell::Cell::new(0),
            deadline: Some(now.mono_ns.saturating_add(LOGON_TIME_NS)),
            unproved: VecDeque::new(),
            next_receipt: 0,
            controls: Controls::default(),
        })
    }

    /// The settings that count here: the server's, and what its account demands besides, where that is known.
    pub(crate) fn settings(&self) -> Arc<ServerConfig> {
        let config = self.server.config();
        match &self.account {
            Some(known) => Arc::new(config.of_account(known)),
            None => Arc::clone(&config),
        }
    }

    /// Where the channel of a session is in the list.
    #[inline]
    pub(crate) fn channel_of(&self, session_id: u64) -> Option<usize> {
        self.channels.iter().position(|channel| channel.session.id == session_id)
    }

    /// A number for a request that may have to wait.
    pub(crate) fn new_async_id(&self) -> u64 {
        let id = self.next_async.get() + 1;
        self.next_async.set(id);
        id
    }

    /// What the engine is told of where its requests come from.
    pub(crate) fn origin(&self) -> Origin {
        Origin { connection: self.handle.id, is_itself: true }
    }

    /// How the engine wakes the request `async_id`.
    pub(crate) fn waiter(&self, async_id: u64) -> Waiter {
        Waiter { wake: Arc::clone(&self.handle) as Arc<dyn Wake>, token: async_id }
    }

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

    /// The client broke the protocol in a way that costs it the connection.
    pub(crate) fn hang_up(&self, why: &str, out: &mut Output<Event>) {
        tracing::info!(peer = %self.handle.peer.remote, why, "closing the connection");
        out.close = true;
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
        let signatures = take_signatures(messages);
        let frame = out.pool.take(dispatch::expected_size(messages));
        self.run(
            Compound::new(frame, sealed_by),
            messages,
            Start { resumed: None, signatures: &signatures },
            now,
            out,
        );
    }

    /// Answers the requests in `messages` one after the other.
    pub(crate) fn run(
        &mut self,
        mut compound: Compound,
        messages: &[u8],
        start: Start<'_>,
        now: Now,
        out: &mut Output<Event>,
    ) {
        let Start { mut resumed, signatures } = start;
        let mut left = signatures.iter();
        let mut rest = messages;
        for item in Chain::new(messages) {
            let Ok((header, message)) = item else { return self.hang_up("a malformed header", out) };
            let here = Rest { messages: rest, signatures: left.as_slice() };
            rest = &rest[message.len()..];
            let signature = left.next().copied().unwrap_or_default();
            let was = resumed.take();
            let admitted = match &was {
                Some(resumed) => Ok(resumed.signed),
                None => self.admit(header, message, &signature, &compound, now),
            };
            let signed = match admitted {
                Ok(signed) => signed,
                Err(Refused::Ignore) => continue,
                Err(Refused::Close(why)) => return self.hang_up(why, out),
                Err(Refused::Answer { status, signed }) => {
                    self.refuse(&mut compound, header, message.len(), (status, signed), now);
                    continue;
                }
            };
            let mut request =
                Request::new(header, message, &mut compound, (self.origin(), now), was.as_ref());
            self.sample(&mut request);
            request.signed = signed;
            request.signature = signature;
            request.bare = !signed && was.is_none() && rest.is_empty() && compound.is_bare();
            let at = compound.begin();
            let handled = dispatch::handle(self, &mut request, compound.frame.tail(), out);
            let (related, async_id, keeps) = (request.related, request.async_id, request.keeps);
            let (counted, attached, mut course) = (request.counted, request.attached, request.course);
            // Of a CREATE that has ended nothing is left to the next.
            compound.claim = request.claim.take().filter(|_| handled.as_ref().is_err_and(Stop::puts_aside));
            compound.related = related;
            let signed = signed || (request.sign_answer && compound.sealed_by.is_none());
            let announced = was.as_ref().is_some_and(|was| was.announced);
            match handled {
                Err(Stop::Disconnect(why)) => return self.hang_up(why, out),
                Err(Stop::Silent) => {
                    compound.abandon(at);
                    self.note(header, course, NtStatus::SUCCESS, 0, false);
                }
                Err(stop) if stop.puts_aside() => {
                    let async_id = async_id.unwrap_or_else(|| self.new_async_id());
                    let outstanding =
                        was.and_then(|was| was.outstanding).or_else(|| self.outstanding(counted, header));
                    let header = *header;
                    let pause = Pause { async_id, at, announced, signed, header, outstanding, course, keeps };
                    let behind = Rest { messages: rest, signatures: left.as_slice() };
                    return self.suspend(compound, stop, pause, [here, behind], now, out);
                }
                handled => {
                    let told = was.as_ref().filter(|was| was.announced).map(|was| was.async_id);
                    course.attached = attached.as_ref().map_or(0, |range| range.len);
                    self.answer_at(&mut compound, at, Answer { header, told, signed, course }, handled);
                    compound.attach(attached);
                }
            }
        }
        self.send_own_notices(now, out);
        self.finish(compound, out);
    }

    /// Refuses a request that is not looked at; the answer may be signed.
    fn refuse(
        &mut self,
        compound: &mut Compound,
        header: &Header,
        len: usize,
        (status, signed): (NtStatus, bool),
        now: Now,
    ) {
        if header.session_id() != u64::MAX {
            compound.related.session_id = header.session_id();
        }
        let mut course = Course::new(len, now);
        course.sample = self.desk.sample(1).map(Sample::unseen);
        let answer = Answer { header, told: None, signed, course };
        self.answer(compound, answer, Err(Stop::Fail(status)));
    }

    /// Appends an answer whose body has not been begun.
    fn answer(&mut self, compound: &mut Compound, answer: Answer<'_>, handled: Handled) {
        let at = compound.begin();
        self.answer_at(compound, at, answer, handled);
    }

    /// Completes the answer whose header stands at `at`, and counts it.
    pub(crate) fn answer_at(
        &mut self,
        compound: &mut Compound,
        at: usize,
        answer: Answer<'_>,
        handled: Handled,
    ) {
        let Answer { header, told, signed, mut course } = answer;
        let status = match handled {
            Ok(status) => status,
            Err(Stop::FailWith(status, data)) => {
                compound.cut_body(at);
                dispatch::error_body(&data, self.negotiated.as_ref(), compound.frame.tail());
                status
            }
            Err(Stop::Fail(status)) => {
                compound.cut_body(at);
                dispatch::error_body(&[], self.negotiated.as_ref(), compound.frame.tail());
                status
            }
            // The callers take these out before.
            Err(
                Stop::Wait(_)
                | Stop::Later(_)
                | Stop::Work(_)
                | Stop::Lasting(_)
                | Stop::Hold(_)
                | Stop::Answer(..)
                | Stop::Silent
                | Stop::Disconnect(_),
            ) => return compound.abandon(at),
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
        compound.end(at, response, signed);
        let len = compound.frame.len() - at + course.attached;
        if let Some(sample) = &mut course.sample {
            self.sample_answer(sample, header.command(), status, &compound.frame.bytes()[at..]);
        }
        self.note(header, course, status, len, told.is_some());
    }

    /// Puts a request aside until it is woken or its work is done.
    fn suspend(
        &mut self,
        mut compound: Compound,
        stop: Stop,
        pause: Pause,
        [here, behind]: [Rest<'_>; 2],
        now: Now,
        out: &mut Output<Event>,
    ) {
        if matches!(stop, Stop::Hold(_) | Stop::Answer(..)) {
            return self.hold(compound, stop, pause, [here, behind], now, out);
        }
        let Pause { async_id, at, mut announced, signed, header, mut outstanding, course, .. } = pause;
        let keeps = here.messages.len() + compound.frame.len();
        if let Some(status) = self.must_not_wait(&stop, header.command(), behind.messages.is_empty(), keeps) {
            if let Stop::Wait(Some((engine, ticket))) = stop {
                engine.cancel(ticket);
            }
            // A client that hears of it takes the first copy for refused too.
            lock::note_ended(self, &header, compound.related.file_id, here.messages);
            let refused = Err(Stop::Fail(status));
            let told = announced.then_some(async_id);
            compound.claim = None;
            self.answer_at(&mut compound, at, Answer { header: &header, told, signed, course }, refused);
            return self.run(compound, behind.messages, behind.start(), now, out);
        }
        let mut ticket = None;
        let mut rest = behind;
        let mut work = None;
        match stop {
            Stop::Wait(how) => {
                compound.abandon(at);
                if !announced && announcing::at_once(header.command(), behind.messages.is_empty()) {
                    announced = true;
                    compound = self.announce(compound, &header, async_id, signed, out);
                } else if !announced {
                    self.announce_later(async_id, course.arrived_ns);
                }
                (ticket, rest) = (how, here);
            }
            Stop::Later(place) => {
                compound.abandon(at);
                self.turns.push(place);
                rest = here;
            }
            Stop::Work(what) | Stop::Lasting(what) => {
                work = Some((what, std::mem::take(&mut compound.frame)))
            }
            _ => return,
        }
        out.pool.fit(&mut compound.frame);
        let waiting = Suspended {
            compound,
            at,
            header,
            rest: rest.messages.to_vec(),
            signatures: rest.signatures.to_vec(),
            announced,
            signed,
            ticket,
            working: work.is_some(),
            outstanding: if work.is_some() { None } else { outstanding.take() },
            course,
            held: None,
        };
        self.suspended.insert(async_id, waiting);
        if let Some((work, frame)) = work {
            self.have_done(async_id, work, frame, outstanding, out);
        }
    }

    /// Has work done on the blocking pool.
    fn have_done(
        &self,
        async_id: u64,
        work: Work,
        mut frame: wire::Frame,
        outstanding: Option<Outstanding>,
        out: &mut Output<Event>,
    ) {
        out.run(move || {
            let completion = work(frame.tail());
            // Its answer may be taken late, or never, by a channel that is lost: what it does is done.
            drop(outstanding);
            Event::JobDone { async_id, frame, completion }
        });
    }

    /// Why a request may not be put aside after all. `keeps` is how many bytes of its frame and of the
    /// answers so far it would hold.
    fn must_not_wait(&self, stop: &Stop, command: Command, is_last: bool, keeps: usize) -> Option<NtStatus> {
        // MS-SMB2 3.3.4.2: within a compound only what waits for a break may wait, as Windows has it.
        let may_last = matches!(command, Command::ChangeNotify | Command::Lock);
        match stop {
            // The transport bounds how much of that there is.
            Stop::Lasting(_) => None,
            _ if self.suspended.len() - self.held >= MAX_WAITING => Some(NtStatus::INSUFFICIENT_RESOURCES),
            // Small ones are bounded by their number.
            _ if keeps > SMALL_WAITING && keeps + self.waiting_bytes() > MAX_WAITING_BYTES => {
                Some(NtStatus::INSUFFICIENT_RESOURCES)
            }
            Stop::Wait(_) if may_last && !is_last => Some(NtStatus::INTERNAL_ERROR),
            _ => None,
        }
    }

    /// Whether a small request may be put aside, and a larger one most probably too.
    pub(crate) fn has_room_to_wait(&self) -> bool {
        self.suspended.len() - self.held < MAX_WAITING && self.waiting_bytes() < MAX_WAITING_BYTES / 2
    }

    /// Bytes that are kept for requests that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.suspended.bytes()
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

    /// The channel of a session, also of one that has ended while requests were under way.
    pub(crate) fn channel_or_parting(&self, session_id: u64) -> Option<&Channel> {
        let mut all = self.channels.iter().chain(&self.parting);
        all.find(|channel| channel.session.id == session_id)
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

    /// A wake-up for a request that waits.
    pub(crate) fn wake(&mut self, async_id: u64, now: Now, out: &mut Output<Event>) {
        if self.let_go(async_id, now, out) {
            return;
        }
        let waits = self.suspended.get(&async_id).is_some_and(|waiting| !waiting.working);
        if !waits {
            return;
        }
        if let Some(waiting) = self.suspended.remove(&async_id) {
            self.resume(async_id, waiting, now, out);
        }
    }

    /// Tries a request again that has waited.
    pub(crate) fn resume(&mut self, async_id: u64, waiting: Suspended, now: Now, out: &mut Output<Event>) {
        self.end_silence(async_id);
        let Suspended { compound, rest, signatures, announced, signed, outstanding, course, .. } = waiting;
        let resumed = Some(Resumed { async_id, announced, signed, outstanding, course });
        self.run(compound, &rest, Start { resumed, signatures: &signatures }, now, out);
    }

    /// Work on the blocking pool is done: its answer, and what follows in its frame.
    pub(crate) fn job_done(
        &mut self,
        async_id: u64,
        frame: wire::Frame,
        completion: crate::suspend::Completion,
        now: Now,
        out: &mut Output<Event>,
    ) {
        let Some(waiting) = self.suspended.remove(&async_id) else { return };
        let Suspended { mut compound, at, header, rest, signatures, announced, signed, course, .. } = waiting;
        compound.frame = frame;
        let told = announced.then_some(async_id);
        let answer = Answer { header: &header, told, signed, course };
        self.answer_at(&mut compound, at, answer, completion.map_err(Stop::Fail));
        self.run(compound, &rest, Start { resumed: None, signatures: &signatures }, now, out);
    }

    /// Takes a waiting request back and answers it (MS-SMB2 3.3.5.16).
    pub(crate) fn cancel(&mut self, async_id: u64, out: &mut Output<Event>) {
        match self.suspended.get(&async_id) {
            // Work that has begun is answered when it is done.
            // Nor is a CLOSE taken back: its client forgets the handle all the same.
            Some(waiting) if waiting.working || waiting.header.command() == Command::Close => {}
            Some(_) => {
                let Some(waiting) = self.suspended.remove(&async_id) else { return };
                self.held -= usize::from(waiting.held.is_some());
                self.turns.retain(|place| place.async_id != async_id);
                self.controls.wake(async_id);
                self.end_silence(async_id);
                if let Some((engine, ticket)) = waiting.ticket {
                    self.take_back(&engine, ticket, waiting.compound.related.file_id);
                }
                let mut compound = waiting.compound;
                if waiting.held.is_some() && compound.is_empty() {
                    compound.frame = out.pool.take(0);
                }
                let told = waiting.announced.then_some(async_id);
                let (header, signed, course) = (&waiting.header, waiting.signed, waiting.course);
                let status = Err(Stop::Fail(NtStatus::CANCELLED));
                self.answer(&mut compound, Answer { header, told, signed, course }, status);
                self.finish(compound, out);
            }
            None => {}
        }
    }

    /// The session has ended: nothing of it is kept here but the keys for what was asked before.
    pub(crate) fn forget_session(&mut self, session_id: u64) {
        self.parting.extend(self.channels.extract_if(.., |channel| channel.session.id == session_id));
        self.setups.retain(|setup| setup.session.id != session_id);
        self.part();
    }

    /// Lets go of the keys of sessions that ended longest ago, unless a request that waits needs them.
    fn part(&mut self) {
        let mut more = self.parting.len().saturating_sub(MAX_PARTING);
        let Connection { parting, suspended, .. } = self;
        parting.retain(|channel| {
            let id = channel.session.id;
            let is_needed = |waiting: &Suspended| waiting.compound.related.session_id == id;
            let keep = more == 0 || suspended.iter().any(|(_, waiting)| is_needed(waiting));
            more -= usize::from(!keep);
            keep
        });
    }

    /// Breaks for this client may come over this connection.
    pub(crate) fn join(&mut self, client: ClientKey) {
        if !self.clients.contains(&client) {
            self.clients.push(client);
            self.server.join_client(client, &self.handle);
        }
    }

    /// When the connection is to be called. While a log-on waits for its turn nothing else can be expected.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let logon = match self.turns.is_empty() {
            true => self.deadline,
            false => self.turns.iter().filter_map(|place| place.at_ns).min(),
        };
        logon.into_iter().chain(self.silence_ends()).min()
    }

    /// The connection is called: log-ons whose turn has come go on.
    pub(crate) fn take_turns(&mut self, now: Now, out: &mut Output<Event>) {
        let due = self.turns.iter().filter(|place| place.at_ns.is_some_and(|at_ns| at_ns <= now.mono_ns));
        let due: SmallVec<[u64; 1]> = due.map(|place| place.async_id).collect();
        for async_id in due {
            self.wake(async_id, now, out);
        }
    }

    /// A connection on which nobody is logged on must see a log-on in time, also after the last LOGOFF.
    pub(crate) fn expect_logon(&mut self, now: Now) {
        if self.channels.is_empty() {
            self.deadline = Some(now.mono_ns.saturating_add(LOGON_TIME_NS));
        }
    }

    /// Ends the connection's part in everything (MS-SMB2 3.3.7.1).
    pub(crate) fn closed(&mut self, now: Now) {
        self.let_go_of_waiting();
        self.turns.clear();
        self.server.remove_connection(self.handle.id);
        // A channel that was not bound yet is none of its session's.
        for setup in self.setups.drain(..).filter(|setup| !setup.binds()) {
            if setup.session.remove_channel(self.handle.id) {
                self.server.end_session(&setup.session, now.into());
            }
        }
        for Channel { session, .. } in self.channels.drain(..) {
            if session.remove_channel(self.handle.id) {
                self.server.end_session(&session, now.into());
            } else {
                session.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        for client in self.clients.drain(..) {
            self.server.leave_client(client, self.handle.id);
        }
        self.handle.way.end();
        // What may not have arrived goes to another connection.
        self.unproved.clear();
        drop(self.handle.own_notices.take());
    }
}

/// What an answer is made of besides how it went.
pub(crate) struct Answer<'h> {
    /// The request's header.
    pub header: &'h Header,
    /// The async id under which the client was told STATUS_PENDING.
    pub told: Option<u64>,
    /// Whether it is signed.
    pub signed: bool,
    /// What is counted.
    pub course: Course,
}

/// A request that was taken apart before.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub async_id: u64,
    pub announced: bool,
    pub signed: bool,
    pub outstanding: Option<Outstanding>,
    pub course: Course,
}

/// Where answering has stopped.
pub(crate) struct Pause {
    pub async_id: u64,
    pub at: usize,
    pub announced: bool,
    pub signed: bool,
    pub header: Header,
    pub outstanding: Option<Outstanding>,
    pub course: Course,
    /// The Open that it needs when it is held.
    pub keeps: Option<Looking>,
}

/// Where in a frame answering begins.
pub(crate) struct Start<'a> {
    /// The first request was looked at before and has waited.
    pub resumed: Option<Resumed>,
    /// The signatures that were taken out of the requests, one for each.
    pub signatures: &'a [[u8; 16]],
}

/// What is left of a frame from one request on.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    pub messages: &'a [u8],
    pub signatures: &'a [[u8; 16]],
}

impl<'a> Rest<'a> {
    fn start(self) -> Start<'a> {
        Start { resumed: None, signatures: self.signatures }
    }
}

/// Takes the signatures out of a frame's messages: they are made over messages whose field is zero
/// (MS-SMB2 3.1.4.1). A malformed chain ends early here, and is refused where it is walked.
fn take_signatures(frame: &mut [u8]) -> SmallVec<[[u8; 16]; 4]> {
    let mut found = SmallVec::new();
    let mut rest = frame;
    while let Ok(header) = Header::parse_mut(rest) {
        found.push(*header.signature());
        header.set_signature([0; 16]);
        let next = header.next_command() as usize;
        if next < header::SIZE || next >= rest.len() {
            break;
        }
        rest = &mut rest[next..];
    }
    found
}
