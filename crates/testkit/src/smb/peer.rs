//! A connection, and the client at its other end.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use auth::{GmacNonce, Signer};
use smb::Connection;
use smb::keys::Seal;
use smb::state::Event;
use smb_wire::header::transform::{self, TransformHeader};
use smb_wire::header::{Chain, Flags, Packet};
use smb_wire::{FileId, Header, NtStatus, SmbCommand};
use wire::endpoint::Receipt;
use wire::{Conversation, Mailbox, Now, Output};

use super::{Clock, SmbTestServer};

/// Queued events for a connection.
struct Mail {
    events: Mutex<VecDeque<Event>>,
    is_open: AtomicBool,
    /// The number of events that were posted ahead of other answers.
    ahead: AtomicUsize,
}

impl Mailbox<Event> for Mail {
    fn post(&self, event: Event) -> bool {
        let open = self.is_open.load(Ordering::Relaxed);
        if open {
            self.events.lock().expect("no test panics with it held").push_back(event);
        }
        open
    }

    fn post_ahead(&self, event: Event) -> bool {
        self.ahead.fetch_add(1, Ordering::Relaxed);
        self.post(event)
    }
}

/// A message from the server.
#[derive(Debug, Clone)]
pub struct ReceivedMessage {
    /// The header.
    pub header: Header,
    /// The message from its header on. Its signature has been checked and removed.
    pub message: Vec<u8>,
    /// Whether it was encrypted.
    pub is_sealed: bool,
    /// Whether it was signed.
    pub is_signed: bool,
    /// The number of the frame in which it came.
    pub frame: usize,
}

impl ReceivedMessage {
    /// The status in the header.
    pub fn status(&self) -> NtStatus {
        self.header.status()
    }

    /// The message in its original form, with its signature.
    pub fn signed_message(&self) -> Vec<u8> {
        let mut message = self.message.clone();
        Header::parse_mut(&mut message).expect("a whole header").set_signature(*self.header.signature());
        message
    }

    /// The FileId of a successful CREATE.
    pub fn file_id(&self) -> FileId {
        assert_eq!(self.status(), NtStatus::SUCCESS);
        smb_wire::create::Response::parse(&self.message).expect("a CREATE response").file_id
    }

    /// The data of a successful READ.
    pub fn data(&self) -> &[u8] {
        assert_eq!(self.status(), NtStatus::SUCCESS);
        smb_wire::read::Response::parse(&self.message).expect("a READ response").data
    }
}

/// The client's keys of one session.
#[derive(Clone)]
pub struct Keys {
    /// The signing key of this channel.
    pub signer: Rc<Signer>,
    /// The signing key of the session, which binds channels.
    pub session: Rc<Signer>,
    /// The encryption keys of the session, from the client's view.
    pub seal: Option<Rc<Seal>>,
    /// Whether requests are signed.
    pub signs: bool,
    /// Whether requests are encrypted.
    pub seals: bool,
}

/// A connection and its client.
pub struct Peer {
    connection: Connection,
    mail: Arc<Mail>,
    out: Output<Event>,
    clock: Clock,
    answers: VecDeque<ReceivedMessage>,
    frames: usize,
    /// The receipts that the connection requested from the transport.
    receipts: Vec<Receipt>,
    /// The number of answers that ended with a range of a file.
    pub uncopied: usize,
    /// The nonces of the encrypted frames that were received.
    pub nonces: Vec<[u8; 16]>,
    /// Whether the server asked to close the connection.
    pub is_closed: bool,
    has_ended: bool,
    /// Jobs wait until [`Peer::run_jobs`].
    pub holds_jobs: bool,
    /// Events wait until this is false again.
    pub holds_events: bool,
    /// The MessageId of the next request.
    pub next_id: u64,
    /// The SessionId of the next request.
    pub session_id: u64,
    /// The TreeId of the next request.
    pub tree_id: u32,
    /// The hash over NEGOTIATE, with which the hash of each log-on begins.
    pub preauth: [u8; 64],
    /// The keys by SessionId.
    pub keys: HashMap<u64, Keys>,
}

impl Peer {
    /// A new connection to the server.
    pub fn connect(world: &SmbTestServer) -> Peer {
        Peer::try_connect(world).expect("the server takes a further connection")
    }

    /// A new connection. None if the server has too many.
    pub fn try_connect(world: &SmbTestServer) -> Option<Peer> {
        Peer::try_connect_from(world, Ipv4Addr::LOCALHOST.into())
    }

    /// A new connection from another address.
    pub fn try_connect_from(world: &SmbTestServer, from: IpAddr) -> Option<Peer> {
        let mail = Arc::new(Mail {
            events: Mutex::default(),
            is_open: AtomicBool::new(true),
            ahead: AtomicUsize::new(0),
        });
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 445));
        let peer = wire::Peer { local, remote: SocketAddr::from((from, 50_000)) };
        let mailbox = Arc::clone(&mail) as Arc<dyn Mailbox<Event>>;
        let connection = Connection::new(&world.server, peer, mailbox, world.clock.read())?;
        Some(Peer {
            connection,
            mail,
            out: Output::default(),
            clock: world.clock.clone(),
            answers: VecDeque::new(),
            frames: 0,
            receipts: Vec::new(),
            uncopied: 0,
            nonces: Vec::new(),
            is_closed: false,
            has_ended: false,
            holds_jobs: false,
            holds_events: false,
            next_id: 0,
            session_id: 0,
            tree_id: 0,
            preauth: [0; 64],
            keys: HashMap::new(),
        })
    }

    /// The number of events that were posted ahead of other answers.
    pub fn told_ahead(&self) -> usize {
        self.mail.ahead.load(Ordering::Relaxed)
    }

    /// The transfer of large reads: copied or not.
    pub fn transfer(&self) -> &wire::Transfer {
        self.connection.transfer().expect("a server's connection has a choice")
    }

    /// The current time.
    pub fn now(&self) -> Now {
        self.clock.read()
    }

    // Sending ---------------------------------------------------------------------------------------

    /// A header for this session and tree with the next message id. It charges the credits that `payload`
    /// bytes need, and requests many.
    pub fn header_for(&mut self, command: SmbCommand, payload: usize) -> Header {
        let charge = (payload.saturating_sub(1) / 65536 + 1) as u16;
        let mut header = Header::request(command, self.next_id);
        self.next_id += u64::from(charge);
        header.set_credit_charge(charge);
        header.set_credits(charge.max(64));
        header.set_session_id(self.session_id);
        header.set_tree_id(self.tree_id);
        header
    }

    /// The header of the next request, with a charge of one credit.
    pub fn header(&mut self, command: SmbCommand) -> Header {
        self.header_for(command, 0)
    }

    /// A whole message without protection.
    pub fn message(&mut self, command: SmbCommand, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        whole(&self.header(command), body)
    }

    /// Signs a message in place.
    pub fn sign(&self, message: &mut [u8]) {
        sign_with(&self.keys[&self.session_id].signer, message);
    }

    /// Chains messages into one compound, with the messages after the first marked as related if
    /// `is_related`, and protects it as the session requires.
    pub fn compound(&self, mut messages: Vec<Vec<u8>>, is_related: bool) -> Vec<u8> {
        let last = messages.len() - 1;
        for (index, message) in messages.iter_mut().enumerate() {
            if index < last {
                message.resize(message.len().next_multiple_of(8), 0);
            }
            let length = message.len() as u32;
            let header = Header::parse_mut(message).expect("a whole header");
            header.set_next_command(if index < last { length } else { 0 });
            if is_related && index > 0 {
                header.set_flags(header.flags() | Flags::RELATED_OPERATIONS);
            }
            if self.signs() {
                self.sign(message);
            }
        }
        self.sealed_if_wished(messages.concat())
    }

    fn signs(&self) -> bool {
        self.keys.get(&self.session_id).is_some_and(|keys| keys.signs && !keys.seals)
    }

    fn sealed_if_wished(&self, frame: Vec<u8>) -> Vec<u8> {
        let seals = self.keys.get(&self.session_id).is_some_and(|keys| keys.seals);
        if seals { self.seal(&frame, self.session_id) } else { frame }
    }

    /// Encrypts a frame with the keys of this session. `named` is the SessionId in its header.
    pub fn seal(&self, frame: &[u8], named: u64) -> Vec<u8> {
        let seal = self.keys[&self.session_id].seal.as_ref().expect("sealing was agreed on");
        let mut header = TransformHeader::new(named, frame.len() as u32);
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.now().mono_ns.to_le_bytes());
        header.set_nonce(nonce);
        let mut sealed = vec![0; transform::SIZE];
        sealed.extend_from_slice(frame);
        let tag = seal.out.seal(&nonce, header.associated_data(), &mut sealed[transform::SIZE..]);
        header.set_signature(tag);
        header.write(sealed.first_chunk_mut().expect("room for the header"));
        sealed
    }

    /// Protects one message as the session requires, and delivers it. Returns its message id.
    pub fn send(&mut self, message: Vec<u8>) -> u64 {
        let id = Header::parse(&message).expect("a whole header").message_id();
        let frame = self.compound(vec![message], false);
        self.deliver(frame);
        id
    }

    /// Sends a request and returns its message id.
    pub fn start(&mut self, command: SmbCommand, body: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let message = self.message(command, body);
        self.send(message)
    }

    /// Sends a request and waits for its answer, which must come without the action of another client.
    pub fn call(&mut self, command: SmbCommand, body: impl FnOnce(&mut Vec<u8>)) -> ReceivedMessage {
        let id = self.start(command, body);
        self.answer(id).unwrap_or_else(|| panic!("no answer to {command:?}; closed: {}", self.is_closed))
    }

    /// Sends a request and returns the status of its answer.
    pub fn status(&mut self, command: SmbCommand, body: impl FnOnce(&mut Vec<u8>)) -> NtStatus {
        self.call(command, body).status()
    }

    /// Delivers a frame without change.
    pub fn deliver(&mut self, mut frame: Vec<u8>) {
        assert!(!self.is_closed, "the connection was closed before");
        let now = self.now();
        self.connection.on_message(&mut frame, now, &mut self.out);
        self.turn();
    }

    // Receiving -------------------------------------------------------------------------------------

    /// The next answer to message `id`, if it has arrived.
    pub fn answer(&mut self, id: u64) -> Option<ReceivedMessage> {
        self.turn();
        let at = self.answers.iter().position(|answer| answer.header.message_id() == id)?;
        self.answers.remove(at)
    }

    /// The next message of any kind.
    #[expect(clippy::should_implement_trait, reason = "more may come after none")]
    pub fn next(&mut self) -> Option<ReceivedMessage> {
        self.turn();
        self.answers.pop_front()
    }

    /// The next unsolicited message.
    pub fn notice(&mut self) -> Option<ReceivedMessage> {
        self.answer(u64::MAX)
    }

    /// Delivers events and runs jobs until nothing is left to do.
    pub fn turn(&mut self) {
        if self.has_ended {
            return;
        }
        loop {
            self.take_frames();
            let next = || self.mail.events.lock().expect("no test panics with it held").pop_front();
            let event = if self.holds_events { None } else { next() };
            let event = match event {
                Some(event) => event,
                None if self.out.jobs.is_empty() || self.holds_jobs => break,
                None => {
                    // As in the transport, the result comes after the events that the job itself posted.
                    let done = (self.out.jobs.remove(0).0)();
                    self.mail.events.lock().expect("no test panics with it held").push_back(done);
                    continue;
                }
            };
            let now = self.now();
            self.connection.on_event(event, now, &mut self.out);
        }
    }

    /// Answers the receipts that are due: `arrived` says whether the sent data has arrived.
    pub fn answer_receipts(&mut self, arrived: bool) {
        self.turn();
        let now = self.now();
        let due: Vec<Receipt> =
            self.receipts.extract_if(.., |receipt| receipt.at_ns <= now.mono_ns).collect();
        for receipt in due {
            self.connection.on_receipt(receipt.token, arrived, now, &mut self.out);
        }
        self.turn();
    }

    /// The held jobs, to be run after this connection has ended. Their results are dropped.
    pub fn take_jobs(&mut self) -> impl FnOnce() + use<> {
        let jobs = std::mem::take(&mut self.out.jobs);
        move || jobs.into_iter().for_each(|job| drop((job.0)()))
    }

    /// Runs the held jobs, and returns their results instead of delivering them.
    pub fn run_jobs_unheard(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.out.jobs).into_iter().map(|job| (job.0)()).collect()
    }

    /// Whether the next queued event is delivered even while the client reads no replies.
    pub fn next_is_urgent(&self) -> Option<bool> {
        let events = self.mail.events.lock().expect("no test panics with it held");
        events.front().map(|event| self.connection.is_urgent(event))
    }

    /// Runs the held jobs.
    pub fn run_jobs(&mut self) {
        self.holds_jobs = false;
        self.turn();
    }

    /// Runs the held jobs, each on its own thread.
    pub fn run_jobs_elsewhere(&mut self) {
        for job in std::mem::take(&mut self.out.jobs) {
            let done = std::thread::scope(|threads| threads.spawn(job.0).join()).expect("no job panics");
            self.mail.events.lock().expect("no test panics with it held").push_back(done);
        }
        self.run_jobs();
    }

    /// The number of held jobs.
    pub fn held_jobs(&self) -> usize {
        self.out.jobs.len()
    }

    /// Runs one of the held jobs.
    pub fn run_job(&mut self, at: usize) {
        let event = (self.out.jobs.remove(at).0)();
        let now = self.now();
        self.connection.on_event(event, now, &mut self.out);
        self.turn();
    }

    /// The maximum size of a message now.
    pub fn max_message(&self) -> usize {
        self.connection.max_message()
    }

    /// Signals the connection's deadline, if it has passed.
    pub fn pass_deadline(&mut self) {
        let now = self.now();
        if self.connection.deadline().is_some_and(|deadline| deadline <= now.mono_ns) {
            self.connection.on_deadline(now, &mut self.out);
        }
        self.turn();
    }

    /// The connection's deadline.
    pub fn deadline(&self) -> Option<u64> {
        self.connection.deadline()
    }

    /// A closure that delivers a frame on another thread. The answers are available afterwards.
    pub fn delivery(&mut self, mut frame: Vec<u8>) -> impl FnOnce() + Send + use<'_> {
        let now = self.now();
        let Peer { connection, out, .. } = self;
        move || connection.on_message(&mut frame, now, out)
    }

    fn take_frames(&mut self) {
        for frame in std::mem::take(&mut self.out.frames) {
            let mut bytes = frame.bytes().to_vec();
            if let Some(range) = frame.attached() {
                self.uncopied += 1;
                let before = bytes.len();
                bytes.resize(before + range.len, 0);
                let read = rustix::io::pread(range.file.fd(), &mut bytes[before..], range.at);
                assert_eq!(read, Ok(range.len), "nobody has cut the file");
            }
            self.out.pool.give_back(frame);
            let (prefix, bytes) = bytes.split_at(4);
            assert_eq!(prefix, (bytes.len() as u32).to_be_bytes(), "the transport's prefix");
            self.read_frame(bytes);
        }
        self.receipts.append(&mut self.out.receipts);
        self.is_closed |= self.out.close;
    }

    fn read_frame(&mut self, bytes: &[u8]) {
        self.frames += 1;
        let mut plain = bytes.to_vec();
        let mut is_sealed = false;
        if Packet::classify(bytes) == Some(Packet::Transform) {
            let (header, sealed) = TransformHeader::parse(bytes).expect("a whole transform header");
            let keys = self.keys.get(&header.session_id()).expect("a session of this client");
            plain = sealed.to_vec();
            let seal = keys.seal.as_ref().expect("sealing was agreed on");
            self.nonces.push(*header.nonce());
            seal.into
                .open(header.nonce(), header.associated_data(), &mut plain, header.signature())
                .expect("the seal is whole");
            is_sealed = true;
        }
        for part in Chain::new(&plain) {
            let (header, message) = part.expect("the server's compounds are well formed");
            assert!(header.is_response());
            let mut message = message.to_vec();
            Header::parse_mut(&mut message).expect("a whole header").set_signature([0; 16]);
            let is_signed = header.is_signed();
            if is_signed && let Some(keys) = self.keys.get(&header.session_id()) {
                let nonce = GmacNonce::response(header.message_id());
                // MS-SMB2 3.2.5.1.3
                let is_early =
                    header.command() == SmbCommand::SessionSetup && header.status() != NtStatus::SUCCESS;
                let signer = if is_early { &keys.session } else { &keys.signer };
                let valid = signer.verify(&message, nonce, header.signature()).is_ok();
                assert!(valid, "a wrong signature on {:?}", header.command());
            }
            let frame = self.frames;
            self.answers.push_back(ReceivedMessage { header: *header, message, is_sealed, is_signed, frame });
        }
    }

    /// Loses the transport, as if the cable had been pulled.
    pub fn hang_up(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.mail.is_open.store(false, Ordering::Relaxed);
            let now = self.now();
            self.connection.on_close(now);
            // As in the transport, undelivered events are dropped after the connection was told.
            drop(std::mem::take(&mut *self.mail.events.lock().expect("no test panics with it held")));
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Signs a message in place with this key.
pub fn sign_with(signer: &Signer, message: &mut [u8]) {
    let header = Header::parse_mut(message).expect("a whole header");
    header.set_flags(header.flags() | Flags::SIGNED);
    header.set_signature([0; 16]);
    let header = *header;
    let nonce = GmacNonce::request(header.message_id(), header.command() == SmbCommand::Cancel);
    let signature = signer.sign(message, nonce);
    Header::parse_mut(message).expect("a whole header").set_signature(signature);
}

/// A header followed by the body that `body` writes.
pub fn whole(header: &Header, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = Vec::new();
    header.push(&mut message);
    body(&mut message);
    message
}
