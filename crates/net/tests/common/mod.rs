//! A test service, and a plain blocking client for it. Each record is four bytes of length and a body. The
//! first byte of the body selects the action of the conversation.

#![allow(dead_code)]

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use net::{Config, Handle, Listeners};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use wire::endpoint::{Conversation, Mailbox, Output, Peer, RecordPrefix, Service};
use wire::{FileRange, Frame, Now, Source};

/// The longest time for anything before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// First bytes of a body.
pub mod ask {
    /// Send the body back.
    pub const ECHO: u8 = b'e';
    /// Send back as many bytes as the next four bytes (big-endian) say.
    pub const PRODUCE: u8 = b'p';
    /// Send the body back from a job.
    pub const JOB: u8 = b'j';
    /// Send the body back from a job that first waits for the gate.
    pub const BLOCKED_JOB: u8 = b'b';
    /// Run a job that panics.
    pub const BAD_JOB: u8 = b'q';
    /// Post an event to this conversation, then echo. The event answers after the echo.
    pub const EVENT: u8 = b'v';
    /// Panic.
    pub const PANIC: u8 = b'!';
    /// Ask for the placement key in the next byte, then echo.
    pub const PLACE: u8 = b'l';
    /// Echo, then close.
    pub const CLOSE: u8 = b'c';
    /// Wait for the next byte in milliseconds, then answer with the thread's name.
    pub const THREAD: u8 = b't';
    /// Work for the next byte in milliseconds, then answer with the thread's name.
    pub const WORK: u8 = b'w';
    /// Ask for a deadline after the milliseconds in the next byte. Answers when it has passed.
    pub const DEADLINE: u8 = b'd';
    /// Send back as many bytes as the four bytes after the next one say. Ask whether they have arrived after
    /// the milliseconds in the next byte, and send the result then.
    pub const RECEIPT: u8 = b'r';
    /// Answer with bytes from a piece of a file. A [`FileResidency`] and the number of bytes (big-endian)
    /// follow.
    pub const FILE: u8 = b'f';
    /// Begin an answer with room for a MiB, and leave it empty.
    pub const ROOMY: u8 = b'm';
    /// Have every other connection send this, then echo.
    pub const TELL: u8 = b'a';
    /// Answer with the number of calls of `before_batch`.
    pub const BATCHES: u8 = b'n';
}

/// The state of the file that a piece is sent of.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum FileResidency {
    /// Completely in memory.
    Whole,
    /// It ends in the middle of the piece.
    Half,
    /// It leaves memory as soon as the piece waits.
    Fading,
    /// It can neither be sent nor read.
    Unreadable,
}

/// A file in memory.
struct MemoryFile(OwnedFd, bool);

impl Source for MemoryFile {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn is_cached(&self, _at: u64, _len: usize) -> bool {
        self.1
    }
}

/// The byte of such a file at an offset.
pub fn file_byte(at: usize) -> u8 {
    (at as u8).wrapping_mul(7) ^ (at >> 12) as u8
}

/// Bytes of the file before the piece.
const BEFORE: usize = 1000;

fn piece(held: u8, len: usize) -> FileRange {
    let flags = if held == FileResidency::Unreadable as u8 { OFlags::WRONLY } else { OFlags::RDWR };
    let memory = rustix::fs::memfd_create("piece", MemfdFlags::CLOEXEC).expect("a file in memory");
    let size = if held == FileResidency::Half as u8 { len / 2 } else { len };
    let bytes: Vec<u8> = vec![9; BEFORE].into_iter().chain((0..size).map(file_byte)).collect();
    std::fs::File::from(memory.try_clone().expect("a descriptor")).write_all(&bytes).expect("room");
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let fd = rustix::fs::open(path, flags, Mode::empty()).expect("it opens again");
    FileRange { file: Arc::new(MemoryFile(fd, held != FileResidency::Fading as u8)), at: BEFORE as u64, len }
}

/// A gate that jobs wait for.
#[derive(Default)]
pub struct JobGate {
    open: Mutex<bool>,
    moved: Condvar,
}

impl JobGate {
    pub fn open(&self) {
        *self.open.lock().expect("no panic inside") = true;
        self.moved.notify_all();
    }

    fn pass(&self) {
        let mut open = self.open.lock().expect("no panic inside");
        while !*open {
            open = self.moved.wait(open).expect("no panic inside");
        }
    }
}

type Box_ = Arc<dyn Mailbox<Vec<u8>>>;

/// The test service. Tests read its counters.
#[derive(Default)]
pub struct Tricks {
    pub gate: Arc<JobGate>,
    pub accepted: AtomicUsize,
    pub closed: AtomicUsize,
    pub receipts: AtomicUsize,
    /// Events that were handled, by whether they were urgent.
    pub ordinary: AtomicUsize,
    pub urgent: AtomicUsize,
    pub batches: Arc<AtomicU64>,
    /// Messages that were handled, and how many had been when answers were last sent.
    pub promised: AtomicU64,
    pub kept: AtomicU64,
    pub refuse: AtomicBool,
    /// Whether clients count as unproved until they ask for a placement.
    pub doubts: AtomicBool,
    pub mailboxes: Mutex<Vec<Box_>>,
    this: Mutex<Option<Arc<Tricks>>>,
}

pub struct Talk {
    tricks: Arc<Tricks>,
    mailbox: Box_,
    deadline: Option<u64>,
    proved: bool,
}

impl Tricks {
    pub fn new() -> Arc<Tricks> {
        let tricks = Arc::new(Tricks::default());
        *tricks.this.lock().expect("no panic inside") = Some(Arc::clone(&tricks));
        tricks
    }
}

impl Service for Tricks {
    type Conversation = Talk;

    fn record(&self, prefix: [u8; 4]) -> RecordPrefix {
        let len = u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]) as usize;
        match prefix[0] {
            0 => RecordPrefix::Message(len),
            0x85 => RecordPrefix::Skip(len),
            _ => RecordPrefix::Hostile,
        }
    }

    fn accept(&self, _peer: Peer, mailbox: Box_, _now: Now) -> Option<Talk> {
        if self.refuse.load(SeqCst) {
            return None;
        }
        self.accepted.fetch_add(1, SeqCst);
        self.mailboxes.lock().expect("no panic inside").push(Arc::clone(&mailbox));
        let tricks = self.this.lock().expect("no panic inside").clone()?;
        let proved = !self.doubts.load(SeqCst);
        Some(Talk { tricks, mailbox, deadline: None, proved })
    }

    fn before_batch(&self, _now: Now) {
        self.batches.fetch_add(1, SeqCst);
    }
}

/// Queues `body` as one record.
fn reply(out: &mut Output<Vec<u8>>, body: &[u8]) {
    let mut frame: Frame = out.pool.take(body.len());
    frame.tail().extend_from_slice(body);
    finish(out, frame);
}

/// Queues the number of bytes in `len`.
fn produce(out: &mut Output<Vec<u8>>, len: &[u8]) {
    let len = u32::from_be_bytes([len[0], len[1], len[2], len[3]]) as usize;
    let mut frame = out.pool.take(len);
    frame.tail().extend((0..len).map(|at| at as u8));
    finish(out, frame);
}

/// Lets the time pass.
fn spend(ask: u8, time: Duration) {
    let until = Instant::now() + time;
    if ask == ask::THREAD && !time.is_zero() {
        // As in a call that waits for a disk: the thread gives up its processor.
        std::thread::sleep(time);
    }
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

fn finish(out: &mut Output<Vec<u8>>, mut frame: Frame) {
    let len = u32::try_from(frame.len()).expect("a test's reply is small enough");
    frame.prepend(4).copy_from_slice(&len.to_be_bytes());
    out.frames.push(frame);
}

impl Conversation for Talk {
    type Event = Vec<u8>;

    fn on_message(&mut self, message: &mut [u8], now: Now, out: &mut Output<Vec<u8>>) {
        let argument = message.get(1).copied().unwrap_or(0);
        self.tricks.promised.fetch_add(1, SeqCst);
        match message.first().copied().unwrap_or(ask::ECHO) {
            ask::PRODUCE => produce(out, &message[1..]),
            ask::RECEIPT => {
                produce(out, &message[2..]);
                out.ask_receipt(u64::from(argument), now.mono_ns + u64::from(argument) * 1_000_000);
            }
            ask::FILE => {
                let len = u32::from_be_bytes([message[2], message[3], message[4], message[5]]) as usize;
                let mut frame = out.pool.take(1);
                frame.tail().push(argument);
                frame.attach(piece(argument, len));
                finish(out, frame);
            }
            ask::JOB => {
                let body = message.to_vec();
                out.run(move || body);
            }
            ask::BLOCKED_JOB => {
                let (body, gate) = (message.to_vec(), Arc::clone(&self.tricks.gate));
                out.run(move || {
                    gate.pass();
                    body
                });
            }
            ask::BAD_JOB => out.run(|| panic!("a job panics on purpose")),
            ask::EVENT => {
                assert!(self.mailbox.post(b"event".to_vec()));
                reply(out, message);
            }
            ask::TELL => {
                let mailboxes = self.tricks.mailboxes.lock().expect("no panic inside");
                for other in mailboxes.iter().filter(|other| !Arc::ptr_eq(other, &self.mailbox)) {
                    other.post_ahead(message.to_vec());
                }
                reply(out, message);
            }
            ask::PANIC => panic!("a conversation panics on purpose"),
            ask::PLACE => {
                self.proved = true;
                out.placement = Some(u128::from(argument));
                reply(out, message);
            }
            ask::CLOSE => {
                reply(out, message);
                out.close = true;
            }
            ask::THREAD | ask::WORK => {
                spend(message[0], Duration::from_millis(u64::from(argument)));
                reply(out, std::thread::current().name().unwrap_or("?").as_bytes());
            }
            ask::DEADLINE => self.deadline = Some(now.mono_ns + u64::from(argument) * 1_000_000),
            ask::ROOMY => {
                let frame = out.pool.take(1 << 20);
                finish(out, frame);
            }
            ask::BATCHES => reply(out, &self.tricks.batches.load(SeqCst).to_be_bytes()),
            _ => reply(out, message),
        }
    }

    fn on_event(&mut self, event: Vec<u8>, _now: Now, out: &mut Output<Vec<u8>>) {
        let count = if self.is_urgent(&event) { &self.tricks.urgent } else { &self.tricks.ordinary };
        count.fetch_add(1, SeqCst);
        reply(out, &event);
    }

    fn is_urgent(&self, event: &Vec<u8>) -> bool {
        event.starts_with(b"urgent")
    }

    fn is_proved(&self) -> bool {
        self.proved
    }

    fn event_bytes(&self, event: &Vec<u8>) -> usize {
        event.capacity()
    }

    fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    fn on_deadline(&mut self, now: Now, out: &mut Output<Vec<u8>>) {
        assert!(self.deadline.take().is_some_and(|at| at <= now.mono_ns));
        reply(out, b"deadline");
    }

    fn on_receipt(&mut self, token: u64, arrived: bool, _now: Now, out: &mut Output<Vec<u8>>) {
        self.tricks.receipts.fetch_add(1, SeqCst);
        reply(out, &[token as u8, u8::from(arrived)]);
    }

    fn before_sending(&mut self) {
        self.tricks.kept.store(self.tricks.promised.load(SeqCst), SeqCst);
    }

    fn on_close(&mut self, _now: Now) {
        self.tricks.closed.fetch_add(1, SeqCst);
    }
}

/// Starts a server on a free port of 127.0.0.1.
pub fn start(tricks: &Arc<Tricks>, config: Config) -> (Handle<Tricks>, SocketAddr) {
    let listeners = Listeners::bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).expect("a free port");
    let address = listeners.local_addresses()[0];
    let handle = net::serve(listeners, Arc::clone(tricks), config).expect("it starts");
    (handle, address)
}

/// A configuration with this many workers.
pub fn workers(count: usize) -> Config {
    Config {
        workers: count,
        // Unoptimised code on a busy machine: a batch is slow only if the test makes it slow.
        slow_call: Duration::from_secs(1),
        ..Config::default()
    }
}

/// A blocking client.
pub struct Client(pub TcpStream);

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::with(TcpStream::connect(address).expect("it accepts"))
    }

    /// A client from another address of this host.
    pub fn connect_from(source: [u8; 4], address: SocketAddr) -> Client {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &SocketAddr::from((source, 0))).expect("an address of the loopback");
        connect(&socket, &address).expect("it accepts");
        Client::with(TcpStream::from(socket))
    }

    fn with(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time-out can be set");
        stream.set_nodelay(true).expect("no delay can be set");
        Client(stream)
    }

    pub fn send(&mut self, body: &[u8]) {
        self.0.write_all(&record(body)).expect("it takes the record");
    }

    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut prefix = [0; 4];
        self.0.read_exact(&mut prefix)?;
        let mut body = vec![0; u32::from_be_bytes(prefix) as usize];
        self.0.read_exact(&mut body)?;
        Ok(body)
    }

    pub fn ask(&mut self, body: &[u8]) -> Vec<u8> {
        self.send(body);
        self.receive().expect("an answer")
    }

    /// Whether the server has closed the connection (and does not merely send nothing).
    pub fn is_closed(&mut self) -> bool {
        match self.receive() {
            Ok(_) => false,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }
}

/// `body` with its prefix.
pub fn record(body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len()).expect("small enough").to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// A body of `len` bytes that asks for an echo.
pub fn echo_body(len: usize, seed: u8) -> Vec<u8> {
    let mut body: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect();
    if let Some(first) = body.first_mut() {
        *first = ask::ECHO;
    }
    body
}

/// Polls until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "{what}: not in time");
        std::thread::yield_now();
    }
}

/// A channel for results from threads.
pub fn results<T>() -> (Sender<T>, Receiver<T>) {
    channel()
}
