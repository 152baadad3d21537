//! A server in this process, over a volume in memory, and clients that speak to it in whole messages.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfs::connection::event::Event;
use nfs::connection::service::NfsService;
use nfs::{Export, Server, ServerConfig, Squash};
use nfs_wire::NfsStat;
use nfs_wire::attr::Fattr;
use nfs_wire::compound::{CallWriter, Reply, Target};
use nfs_wire::op::{Args, Res, close, create_session, destroy, exchange_id, filehandle, open, sequence};
use nfs_wire::rpc::record::MARK;
use nfs_wire::rpc::{self, Accepted, AuthSys, Credential, Message};
use nfs_wire::types::*;
use nfs_wire::xdr::List;
use volume::Volume;
use volume::journal::MemoryJournal;
use volume::memory::MemoryVolume;
use wire::endpoint::Service;
use wire::{Conversation, Frame, Mailbox, Now, Output, Peer};

/// The lease time of the server in seconds.
pub const LEASE_S: u32 = 30;
/// Connections that it lets one client have.
pub const CONNECTIONS: usize = 16;
/// Bytes for the replies that its slots keep.
const REPLY_BYTES: usize = 1 << 24;
/// The name of its one export.
pub const EXPORT: &[u8] = b"share";

/// The server and its time.
pub struct World {
    /// The server.
    pub server: Arc<Server>,
    /// The engine of its share.
    pub engine: Arc<share::Share>,
    /// What the share lies on.
    pub memory: MemoryVolume,
    /// The time.
    pub now: Now,
    /// Where a server that keeps its clients does that; none: it forgets them.
    kept: Option<Kept>,
    instance: u64,
}

/// What outlives a server.
#[derive(Clone)]
pub struct Kept {
    /// What clients have open.
    pub opens: Arc<MemoryJournal>,
    /// Who they are.
    pub roll: Arc<MemoryJournal>,
    boot: u8,
}

impl World {
    /// With one empty share.
    pub fn new() -> World {
        World::with_memory(REPLY_BYTES)
    }

    /// With so many bytes for the replies that slots keep.
    pub fn with_memory(memory: usize) -> World {
        let reply_bytes = memory;
        let memory = MemoryVolume::new(3);
        memory.root().expect("a root").set_mode(0o777).expect("a mode");
        let now = Now { mono_ns: 1_000_000_000, wall_ns: 1_700_000_000_000_000_000 };
        World::start(memory, reply_bytes, None, 0x0123_4567_89ab_cdef, now)
    }

    /// Whose share has this size in bytes.
    pub fn sized(quota: u64) -> World {
        let World { memory, now, instance, .. } = World::new();
        let volume = volume::MeteredVolume::new(Arc::new(memory.clone()), Some(quota), None);
        World::start_on(Arc::new(volume), memory, REPLY_BYTES, None, instance, now)
    }

    /// Whose volume counts the calls on it.
    pub fn counted() -> (World, Arc<volume::faulty::Plan>) {
        let World { memory, now, instance, .. } = World::new();
        let volume = volume::faulty::FaultyVolume::new(Arc::new(memory.clone()));
        let plan = Arc::clone(volume.plan());
        (World::start_on(Arc::new(volume), memory, REPLY_BYTES, None, instance, now), plan)
    }

    /// Whose share is on this volume.
    pub fn on(volume: Arc<dyn Volume>) -> World {
        let World { memory, now, instance, .. } = World::new();
        World::start_on(volume, memory, REPLY_BYTES, None, instance, now)
    }

    /// Around a server that somebody else has made, and its engine.
    pub fn around(server: Arc<Server>, engine: Arc<share::Share>, now: Now) -> World {
        let instance = server.config().instance;
        World { server, engine, memory: MemoryVolume::new(9), now, kept: None, instance }
    }

    /// A server that keeps its clients over a restart.
    pub fn lasting() -> World {
        let World { memory, now, instance, .. } = World::new();
        let (opens, roll) = (Arc::default(), Arc::default());
        World::start(memory, REPLY_BYTES, Some(Kept { opens, roll, boot: 1 }), instance, now)
    }

    /// The same server after it was killed and started again a second later.
    pub fn restarted(&self) -> World {
        let now = self.now.plus(Duration::from_secs(1));
        World::start(self.memory.clone(), REPLY_BYTES, self.kept.clone(), self.instance + 1_000_000_000, now)
    }

    /// The same after its host was, too.
    pub fn on_a_new_host(mut self) -> World {
        if let Some(kept) = &mut self.kept {
            kept.boot += 1;
        }
        self.restarted()
    }

    /// What is kept over a restart.
    pub fn kept(&self) -> &Kept {
        self.kept.as_ref().expect("a server that keeps its clients")
    }

    fn start(memory: MemoryVolume, reply_bytes: usize, kept: Option<Kept>, instance: u64, now: Now) -> World {
        World::start_on(Arc::new(memory.clone()), memory, reply_bytes, kept, instance, now)
    }

    fn start_on(
        volume: Arc<dyn Volume>,
        memory: MemoryVolume,
        reply_bytes: usize,
        kept: Option<Kept>,
        instance: u64,
        now: Now,
    ) -> World {
        let reply_memory = nfs::state::reply_memory::ReplyMemory::new(reply_bytes);
        let config = share::Config {
            name: "share".into(),
            whole_break_timeout_ns: u64::from(LEASE_S) * 1_000_000_000,
            ..share::Config::default()
        };
        let engine = share::Share::open(volume, config).expect("the share opens");
        let server = Server::new(ServerConfig {
            name: b"server".to_vec(),
            handle_key: [7; 32],
            instance,
            lease_time_s: LEASE_S,
            slots: 64,
            max_connections: 100,
            connections_per_client: CONNECTIONS,
            reply_memory,
        });
        let mut restored = Vec::new();
        if let Some(Kept { opens, roll, boot }) = &kept {
            let records = opens.records();
            restored = engine.keep_opens(opens.clone(), &records, &|_| None, now).expect("opens");
            let records = roll.records();
            server.keep_clients(roll.clone(), &records, &[*boot], now).expect("clients");
        }
        server.set_exports([Export {
            name: "share".into(),
            id: 1,
            engine: Arc::clone(&engine),
            read_only: false,
            squash: Squash::None,
            anonymous: (65_534, 65_534),
            clients: Vec::new(),
            secure: false,
        }]);
        server.restore(&engine, restored, now);
        World { server, engine, memory, now, kept, instance }
    }

    /// Lets time pass.
    pub fn pass(&mut self, seconds: u64) {
        self.now = self.now.plus(Duration::from_secs(seconds));
        self.server.tick(self.now);
    }

    /// A new connection.
    pub fn connect(&self) -> Wire {
        self.connect_from("192.0.2.2:700")
    }

    /// A new connection from this address and port.
    pub fn connect_from(&self, remote: &str) -> Wire {
        let posted = Arc::new(Posted::default());
        let peer = Peer {
            local: "192.0.2.1:2049".parse().expect("an address"),
            remote: remote.parse().expect("an address"),
        };
        let service = NfsService(Arc::clone(&self.server));
        let connection = service.accept(peer, posted.clone(), self.now).expect("room for a connection");
        let (out, now) = (Output::default(), self.now);
        Wire { service, connection, posted, out, xid: 0, uid: 0, gid: 0, is_nobody: false, uncopied: 0, now }
    }
}

/// Events on their way to a connection.
#[derive(Default)]
struct Posted(Mutex<Vec<Event>>);

impl Mailbox<Event> for Posted {
    fn post(&self, event: Event) -> bool {
        self.0.lock().expect("nobody panicked").push(event);
        true
    }
}

/// One connection, seen from the client.
pub struct Wire {
    service: NfsService,
    connection: <NfsService as Service>::Conversation,
    posted: Arc<Posted>,
    out: Output<Event>,
    xid: u32,
    /// Who speaks.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// Nobody speaks.
    pub is_nobody: bool,
    /// Answers that ended with a piece of a file.
    pub uncopied: usize,
    /// The time.
    pub now: Now,
}

impl Wire {
    /// Sends a message without its record mark and gives what comes back, also without it.
    pub fn send(&mut self, message: &[u8]) -> Vec<u8> {
        let mut answers = self.deliver(message);
        assert!(!self.is_closed(), "the server closed the connection");
        assert_eq!(answers.len(), 1, "one answer");
        answers.remove(0)
    }

    /// Whether the server wants the connection closed.
    pub fn is_closed(&self) -> bool {
        self.out.close
    }

    /// Hands any message to the server and gives what comes back, whatever that is.
    pub fn deliver(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        self.hand(message);
        self.work()
    }

    /// Hands a message to the server, of which nothing is done that must wait for the device.
    pub fn hand(&mut self, message: &[u8]) {
        self.service.before_batch(self.now);
        self.connection.on_message(&mut message.to_vec(), self.now, &mut self.out);
    }

    /// How long a message may be now, and whether one that is longer is taken when it begins so.
    pub fn takes(&self, head: &[u8]) -> (usize, bool) {
        (self.connection.max_message(), self.connection.vouches_for(head))
    }

    /// A COMPOUND without its record mark.
    pub fn written(&mut self, minor: u32, operations: &[Args<'_>]) -> Vec<u8> {
        self.message(minor, operations)
    }

    /// The same for a COMPOUND as root.
    pub fn begin(&mut self, minor: u32, operations: &[Args<'_>]) {
        let message = self.message(minor, operations);
        self.hand(&message);
    }

    /// What waits for the device is given up before it began, as when a connection is lost; or ends in a panic.
    pub fn give_up(&mut self, panics: bool) {
        let jobs = std::mem::take(&mut self.out.jobs);
        assert!(!jobs.is_empty(), "something waits");
        let drops = std::panic::AssertUnwindSafe(move || {
            let _jobs = jobs;
            if panics {
                std::panic::resume_unwind(Box::new("a job panics"));
            }
        });
        assert_eq!(std::panic::catch_unwind(drops).is_err(), panics);
    }

    /// Where the connection is to be, as the transport is told.
    pub fn placement(&self) -> Option<u128> {
        self.out.placement
    }

    /// Takes what was posted to the connection.
    pub fn collect(&mut self) {
        let posted = std::mem::take(&mut *self.posted.0.lock().expect("nobody panicked"));
        for event in posted {
            self.connection.on_event(event, self.now, &mut self.out);
        }
    }

    /// Does what waits for the device; gives what the server has to say by then.
    pub fn work(&mut self) -> Vec<Vec<u8>> {
        // Jobs run here, one after the other.
        while !self.out.jobs.is_empty() {
            for job in std::mem::take(&mut self.out.jobs) {
                let event = (job.0)();
                self.connection.on_event(event, self.now, &mut self.out);
            }
            let posted = std::mem::take(&mut *self.posted.0.lock().expect("nobody panicked"));
            for event in posted {
                self.connection.on_event(event, self.now, &mut self.out);
            }
        }
        self.connection.before_sending();
        let frames = std::mem::take(&mut self.out.frames);
        self.uncopied += frames.iter().filter(|frame| frame.attached().is_some()).count();
        let message = |frame: &Frame| {
            let mut bytes = frame.bytes()[MARK..].to_vec();
            bytes.resize(frame.len() - MARK, 0);
            bytes
        };
        frames.iter().map(message).collect()
    }

    /// What the server calls the client for, without record marks.
    pub fn called(&mut self) -> Vec<Vec<u8>> {
        let posted = std::mem::take(&mut *self.posted.0.lock().expect("nobody panicked"));
        for event in posted {
            self.connection.on_event(event, self.now, &mut self.out);
        }
        self.out.frames.drain(..).map(|frame| frame.bytes()[MARK..].to_vec()).collect()
    }

    /// Answers one of those calls; the server has nothing to say to that.
    pub fn reply(&mut self, message: &[u8]) {
        self.connection.on_message(&mut message.to_vec(), self.now, &mut self.out);
        assert!(self.out.frames.is_empty() && !self.out.close);
    }

    /// What waits for the device, for the time after this connection: what it comes to reaches nobody.
    pub fn take_jobs(&mut self) -> impl FnOnce() + use<> {
        let jobs = std::mem::take(&mut self.out.jobs);
        move || jobs.into_iter().for_each(|job| drop((job.0)()))
    }

    /// The connection is lost.
    pub fn lose(mut self) {
        self.connection.on_close(self.now);
    }

    fn message(&mut self, minor: u32, operations: &[Args<'_>]) -> Vec<u8> {
        self.xid += 1;
        let credential = match self.is_nobody {
            true => Credential::None,
            false => Credential::Sys(AuthSys::new(b"host", self.uid, self.gid, &[])),
        };
        let mut writer =
            CallWriter::begin(Frame::default(), Target::Server, self.xid, &credential, b"", minor);
        operations.iter().for_each(|operation| {
            writer.push(operation);
        });
        writer.finish().bytes()[MARK..].to_vec()
    }

    /// Sends a COMPOUND, as root unless said otherwise.
    pub fn call(&mut self, minor: u32, operations: &[Args<'_>]) -> Answer {
        let message = self.message(minor, operations);
        let answer = self.send(&message);
        match Message::parse(&answer) {
            Ok(Message::Reply(rpc::RpcReply { xid, outcome: Ok(Accepted::Success(body)), .. })) => {
                assert_eq!(xid, self.xid);
                Answer(body.to_vec())
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The answer to a COMPOUND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer(pub Vec<u8>);

impl Answer {
    /// That of the COMPOUND.
    pub fn status(&self) -> NfsStat {
        Reply::parse(&self.0).expect("COMPOUND4res").status
    }

    /// All results.
    pub fn results(&self) -> Vec<Res<'_>> {
        let reply = Reply::parse(&self.0).expect("COMPOUND4res");
        reply.results().map(|result| result.expect("a result")).collect()
    }

    /// The last result.
    pub fn last(&self) -> Res<'_> {
        self.results().pop().expect("a result")
    }

    /// The answer, of which everything went well.
    pub fn ok(self) -> Answer {
        assert_eq!(self.status(), NfsStat::Ok, "{:?}", self.results());
        self
    }
}

/// A client with a session.
pub struct Client {
    /// As the server knows it.
    pub clientid: ClientId,
    /// Its session.
    pub session: SessionId,
    /// Its minor version.
    pub minor: u32,
    /// The last number of each slot.
    pub sequences: Vec<u32>,
}

/// Bounds that every server grants.
pub const CHANNEL: create_session::ChannelAttrs = create_session::ChannelAttrs {
    headerpadsize: 0,
    maxrequestsize: 1 << 20,
    maxresponsesize: 1 << 20,
    maxresponsesize_cached: 4096,
    maxoperations: 16,
    maxrequests: 16,
    rdma_ird: None,
};

/// EXCHANGE_ID for a client of this name.
pub fn introduce(name: &[u8]) -> Args<'_> {
    Args::ExchangeId(exchange_id::Args {
        clientowner: exchange_id::ClientOwner { verifier: [1; 8], ownerid: Identity(name) },
        flags: exchange_id::ExchangeFlags::empty(),
        state_protect: exchange_id::StateProtectArgs::None,
        client_impl_id: None,
    })
}

/// CREATE_SESSION with these bounds for the fore channel.
pub fn begin_session(
    clientid: ClientId,
    sequence: u32,
    fore_chan_attrs: create_session::ChannelAttrs,
) -> Args<'static> {
    Args::CreateSession(create_session::Args {
        clientid,
        sequence,
        flags: create_session::SessionFlags::empty(),
        fore_chan_attrs,
        back_chan_attrs: CHANNEL,
        cb_program: 0x4000_0000,
        sec_parms: List::EMPTY,
    })
}

impl Client {
    /// A client that has reclaimed what it wanted.
    pub fn new(wire: &mut Wire, name: &[u8], minor: u32) -> Client {
        let mut client = Client::before_reclaim(wire, name, minor);
        let complete = Args::ReclaimComplete(destroy::ReclaimCompleteArgs { one_fs: false });
        client.run(wire, &[complete]).ok();
        client
    }

    /// A client that has a session and nothing else.
    pub fn before_reclaim(wire: &mut Wire, name: &[u8], minor: u32) -> Client {
        let introduced = wire.call(minor, &[introduce(name)]).ok();
        let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
        let begun = wire.call(minor, &[begin_session(known.clientid, known.sequenceid, CHANNEL)]).ok();
        let Res::CreateSession(Ok(session)) = begun.last() else { panic!("{begun:?}") };
        let slots = session.fore_chan_attrs.maxrequests as usize;
        Client { clientid: known.clientid, session: session.sessionid, minor, sequences: vec![0; slots] }
    }

    /// The SEQUENCE of the next request of a slot.
    pub fn sequence(&mut self, slot: u32, cachethis: bool) -> Args<'static> {
        let sequence = &mut self.sequences[slot as usize];
        *sequence = sequence.wrapping_add(1);
        Args::Sequence(sequence::Args {
            sessionid: self.session,
            sequenceid: *sequence,
            slotid: slot,
            highest_slotid: slot,
            cachethis,
        })
    }

    /// Runs operations in the first slot.
    pub fn run(&mut self, wire: &mut Wire, operations: &[Args<'_>]) -> Answer {
        let all = [&[self.sequence(0, false)][..], operations].concat();
        wire.call(self.minor, &all)
    }

    /// Makes a file in the export's root and gives its handle and the open's stateid.
    pub fn create(&mut self, wire: &mut Wire, name: &[u8]) -> (Vec<u8>, StateId) {
        let how = open::OpenHow::Create(open::CreateHow::Guarded(Fattr::default()));
        let made = self.run(wire, &[Args::PutRootFh, lookup(EXPORT), opening(how, name), Args::GetFh]).ok();
        let results = made.results();
        let (Res::Open(Ok(open)), Res::GetFh(Ok(handle))) = (results[3], results[4]) else {
            panic!("{results:?}")
        };
        (handle.object.0.to_vec(), open.stateid)
    }

    /// Runs operations on a file.
    pub fn on(&mut self, wire: &mut Wire, handle: &[u8], operations: &[Args<'_>]) -> Answer {
        let all = [&[put(handle)][..], operations].concat();
        self.run(wire, &all)
    }
}

/// PUTFH.
pub fn put(handle: &[u8]) -> Args<'_> {
    Args::PutFh(filehandle::PutArgs { object: FileHandle(handle) })
}

/// LOOKUP.
pub fn lookup(objname: &[u8]) -> Args<'_> {
    Args::Lookup(nfs_wire::op::names::LookupArgs { objname })
}

/// OPEN for reading and writing of a name in the current directory.
pub fn opening<'a>(openhow: open::OpenHow<'a>, name: &'a [u8]) -> Args<'a> {
    Args::Open(open::Args {
        seqid: 0,
        share_access: open::ShareAccess::BOTH,
        share_deny: open::ShareDeny::empty(),
        owner: StateOwner { clientid: 0, owner: Identity(b"owner") },
        openhow,
        claim: open::Claim::Null(name),
    })
}

/// CLOSE.
pub fn closing(open_stateid: StateId) -> Args<'static> {
    Args::Close(close::Args { seqid: 0, open_stateid })
}

/// WRITE.
pub fn writing(stateid: StateId, offset: u64, data: &[u8]) -> Args<'_> {
    Args::Write(nfs_wire::op::write::Args { stateid, offset, stable: StableHow::Unstable, data })
}

/// READ.
pub fn reading(stateid: StateId, offset: u64, count: u32) -> Args<'static> {
    Args::Read(nfs_wire::op::read::Args { stateid, offset, count })
}
