//! An NFS server in this process on a volume in memory, and clients that exchange whole messages with it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfs::connection::event::Event;
use nfs::connection::service::NfsService;
use nfs::state::client_records::RecordStorage;
use nfs::{Export, Server, ServerConfig, Squash};
use nfs_wire::NfsStat;
use nfs_wire::attr::Fattr;
use nfs_wire::compound::{CallWriter, Reply, Target};
use nfs_wire::op::{Args, Res, close, create_session, destroy, exchange_id, filehandle, open, sequence};
use nfs_wire::rpc::record::MARK;
use nfs_wire::rpc::{self, Accepted, AuthSys, Credential, Message};
use nfs_wire::types::*;
use nfs_wire::xdr::List;
use share::{ClientKey, OpenRestorer, Restored, UserFailure};
use volume::Volume;
use volume::faulty::{FaultPlan, FaultyVolume};
use volume::journal::{MemoryJournal, MemoryMark};
use volume::memory::MemoryVolume;
use volume::security::Sid;
use wire::endpoint::Service;
use wire::{Conversation, Frame, Mailbox, Now, Output, Peer};

/// The lease time of the server in seconds.
pub const LEASE_S: u32 = 30;
/// The number of connections that one client may have.
pub const CONNECTIONS: usize = 16;
/// The size of the reply cache in bytes.
const REPLY_BYTES: usize = 1 << 24;
/// The name of the only export.
pub const EXPORT: &[u8] = b"share";

/// The server and its clock.
pub struct NfsTestServer {
    /// The server.
    pub server: Arc<Server>,
    /// The engine of the share.
    pub engine: Arc<share::Share>,
    /// The volume of the share.
    pub memory: MemoryVolume,
    /// The current time.
    pub now: Now,
    /// The stable storage. None for a server that does not survive a restart.
    stable: Option<NfsStableStorage>,
    instance: u64,
}

/// The stable storage of a server.
#[derive(Clone)]
pub struct NfsStableStorage {
    /// The opens of clients.
    pub opens: Arc<MemoryJournal>,
    /// The client records.
    pub client_records: Arc<MemoryJournal>,
    /// The mark beside it.
    pub client_mark: Arc<MemoryMark>,
    boot: u8,
}

impl NfsTestServer {
    /// A server with one empty share.
    pub fn new() -> NfsTestServer {
        NfsTestServer::with_memory(REPLY_BYTES)
    }

    /// A server with a reply cache of `memory` bytes.
    pub fn with_memory(memory: usize) -> NfsTestServer {
        let reply_bytes = memory;
        let memory = MemoryVolume::new(3);
        memory.root().expect("a root").set_mode(0o777).expect("a mode");
        let now = Now { mono_ns: 1_000_000_000, wall_ns: 1_700_000_000_000_000_000 };
        NfsTestServer::start(memory, reply_bytes, None, 0x0123_4567_89ab_cdef, now)
    }

    /// A server whose share has this size in bytes.
    pub fn sized(quota: u64) -> NfsTestServer {
        let NfsTestServer { memory, now, instance, .. } = NfsTestServer::new();
        let volume = volume::MeteredVolume::new(Arc::new(memory.clone()), Some(quota), None);
        NfsTestServer::start_on(Arc::new(volume), memory, REPLY_BYTES, None, instance, now)
    }

    /// A server whose volume counts calls.
    pub fn counted() -> (NfsTestServer, Arc<FaultPlan>) {
        let NfsTestServer { memory, now, instance, .. } = NfsTestServer::new();
        let volume = FaultyVolume::new(Arc::new(memory.clone()));
        let plan = Arc::clone(volume.plan());
        (NfsTestServer::start_on(Arc::new(volume), memory, REPLY_BYTES, None, instance, now), plan)
    }

    /// A server whose share is on this volume.
    pub fn on(volume: Arc<dyn Volume>) -> NfsTestServer {
        let NfsTestServer { memory, now, instance, .. } = NfsTestServer::new();
        NfsTestServer::start_on(volume, memory, REPLY_BYTES, None, instance, now)
    }

    /// A wrapper of an existing server and its engine.
    pub fn around(server: Arc<Server>, engine: Arc<share::Share>, now: Now) -> NfsTestServer {
        let instance = server.config().instance;
        NfsTestServer { server, engine, memory: MemoryVolume::new(9), now, stable: None, instance }
    }

    /// A server with stable storage.
    pub fn with_stable_storage() -> NfsTestServer {
        let NfsTestServer { memory, now, instance, .. } = NfsTestServer::new();
        let (opens, client_records, client_mark) = (Arc::default(), Arc::default(), Arc::default());
        NfsTestServer::start(
            memory,
            REPLY_BYTES,
            Some(NfsStableStorage { opens, client_records, client_mark, boot: 1 }),
            instance,
            now,
        )
    }

    /// The same server, after it was killed and started again a second later.
    pub fn restarted(&self) -> NfsTestServer {
        let now = self.now.plus(Duration::from_secs(1));
        NfsTestServer::start(
            self.memory.clone(),
            REPLY_BYTES,
            self.stable.clone(),
            self.instance + 1_000_000_000,
            now,
        )
    }

    /// Like [`NfsTestServer::restarted`], with a plan that counts the calls of the volume from the start on.
    pub fn restarted_counting(&self) -> (NfsTestServer, Arc<FaultPlan>) {
        let volume = FaultyVolume::new(Arc::new(self.memory.clone()));
        let (plan, now) = (Arc::clone(volume.plan()), self.now.plus(Duration::from_secs(1)));
        let (memory, stable, instance) =
            (self.memory.clone(), self.stable.clone(), self.instance + 1_000_000_000);
        let server = NfsTestServer::start_on(Arc::new(volume), memory, REPLY_BYTES, stable, instance, now);
        (server, plan)
    }

    /// The same server, after its host was restarted too.
    pub fn on_a_new_host(mut self) -> NfsTestServer {
        if let Some(stable) = &mut self.stable {
            stable.boot += 1;
        }
        self.restarted()
    }

    /// The stable storage.
    pub fn stable_storage(&self) -> &NfsStableStorage {
        self.stable.as_ref().expect("a server that keeps its clients")
    }

    fn start(
        memory: MemoryVolume,
        reply_bytes: usize,
        stable: Option<NfsStableStorage>,
        instance: u64,
        now: Now,
    ) -> NfsTestServer {
        NfsTestServer::start_on(Arc::new(memory.clone()), memory, reply_bytes, stable, instance, now)
    }

    fn start_on(
        volume: Arc<dyn Volume>,
        memory: MemoryVolume,
        reply_bytes: usize,
        stable: Option<NfsStableStorage>,
        instance: u64,
        now: Now,
    ) -> NfsTestServer {
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
        if let Some(NfsStableStorage { opens, client_records, client_mark, boot }) = &stable {
            let records = opens.records();
            let unrestored = engine.begin_restoring(opens.clone(), &records, now).expect("opens");
            engine.restore_for(Arc::new(TestRestorer {
                server: Arc::clone(&server),
                engine: Arc::clone(&engine),
                now,
            }));
            let records = client_records.records();
            let storage = RecordStorage { journal: client_records.clone(), mark: client_mark.clone() };
            server.keep_clients(storage, &records, &[*boot], now).expect("clients");
            server.expect_opens(&engine, &unrestored);
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
            manage_gids: None,
        }]);
        NfsTestServer { server, engine, memory, now, stable, instance }
    }

    /// Advances the clock.
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

/// Takes restored opens over for a server. No thread restores them in the background, so requests do.
struct TestRestorer {
    server: Arc<Server>,
    engine: Arc<share::Share>,
    now: Now,
}

impl OpenRestorer for TestRestorer {
    fn user(&self, _sid: &Sid) -> Result<Arc<share::Identity>, UserFailure> {
        Err(UserFailure::Gone)
    }

    fn take(&self, restored: Restored) {
        self.server.restore_open(&self.engine, restored, self.now);
    }

    fn lose(&self, client: ClientKey, note: &[u8]) {
        self.server.lose_open(client, note);
    }
}

/// Queued events for a connection.
#[derive(Default)]
struct Posted(Mutex<Vec<Event>>);

impl Mailbox<Event> for Posted {
    fn post(&self, event: Event) -> bool {
        self.0.lock().expect("nobody panicked").push(event);
        true
    }
}

/// A connection, as the client sees it.
pub struct Wire {
    service: NfsService,
    connection: <NfsService as Service>::Conversation,
    posted: Arc<Posted>,
    out: Output<Event>,
    xid: u32,
    /// The user id in the credential.
    pub uid: u32,
    /// The group id in the credential.
    pub gid: u32,
    /// Calls have no credential (AUTH_NONE).
    pub is_nobody: bool,
    /// The number of replies that ended with a range of a file.
    pub uncopied: usize,
    /// The current time.
    pub now: Now,
}

impl Wire {
    /// Sends a message without its record mark, and returns the reply without it.
    pub fn send(&mut self, message: &[u8]) -> Vec<u8> {
        let mut answers = self.deliver(message);
        assert!(!self.is_closed(), "the server closed the connection");
        assert_eq!(answers.len(), 1, "one answer");
        answers.remove(0)
    }

    /// Whether the server asked to close the connection.
    pub fn is_closed(&self) -> bool {
        self.out.close
    }

    /// Passes any message to the server and returns all replies.
    pub fn deliver(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        self.hand(message);
        self.work()
    }

    /// Passes a message to the server, without running the jobs that it starts.
    pub fn hand(&mut self, message: &[u8]) {
        self.service.before_batch(self.now);
        self.connection.on_message(&mut message.to_vec(), self.now, &mut self.out);
    }

    /// The maximum size of a message now, and whether a larger one with this beginning is accepted.
    pub fn takes(&self, head: &[u8]) -> (usize, bool) {
        (self.connection.max_message(), self.connection.vouches_for(head))
    }

    /// An encoded COMPOUND without its record mark.
    pub fn written(&mut self, minor: u32, operations: &[Args<'_>]) -> Vec<u8> {
        self.message(minor, operations)
    }

    /// Passes a COMPOUND to the server, without running the jobs that it starts.
    pub fn begin(&mut self, minor: u32, operations: &[Args<'_>]) {
        let message = self.message(minor, operations);
        self.hand(&message);
    }

    /// Drops the pending jobs before they run, as when a connection is lost, with or without a panic.
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

    /// The worker on which the connection should be, as the transport is told.
    pub fn placement(&self) -> Option<u128> {
        self.out.placement
    }

    /// Delivers the queued events to the connection.
    pub fn collect(&mut self) {
        let posted = std::mem::take(&mut *self.posted.0.lock().expect("nobody panicked"));
        for event in posted {
            self.connection.on_event(event, self.now, &mut self.out);
        }
    }

    /// Runs all pending jobs, and returns the server's replies.
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

    /// The server's calls to the client, without record marks.
    pub fn called(&mut self) -> Vec<Vec<u8>> {
        let posted = std::mem::take(&mut *self.posted.0.lock().expect("nobody panicked"));
        for event in posted {
            self.connection.on_event(event, self.now, &mut self.out);
        }
        self.out.frames.drain(..).map(|frame| frame.bytes()[MARK..].to_vec()).collect()
    }

    /// Replies to one of those calls. The server sends nothing in return.
    pub fn reply(&mut self, message: &[u8]) {
        self.connection.on_message(&mut message.to_vec(), self.now, &mut self.out);
        assert!(self.out.frames.is_empty() && !self.out.close);
    }

    /// The pending jobs, to be run after this connection has ended. Their results are dropped.
    pub fn take_jobs(&mut self) -> impl FnOnce() + use<> {
        let jobs = std::mem::take(&mut self.out.jobs);
        move || jobs.into_iter().for_each(|job| drop((job.0)()))
    }

    /// Loses the connection.
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

    /// Sends a COMPOUND, as root by default.
    pub fn call(&mut self, minor: u32, operations: &[Args<'_>]) -> ReceivedCompound {
        let message = self.message(minor, operations);
        let answer = self.send(&message);
        match Message::parse(&answer) {
            Ok(Message::Reply(rpc::RpcReply { xid, outcome: Ok(Accepted::Success(body)), .. })) => {
                assert_eq!(xid, self.xid);
                ReceivedCompound(body.to_vec())
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The reply to a COMPOUND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedCompound(pub Vec<u8>);

impl ReceivedCompound {
    /// The status of the COMPOUND.
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

    /// Checks that all operations succeeded.
    pub fn ok(self) -> ReceivedCompound {
        assert_eq!(self.status(), NfsStat::Ok, "{:?}", self.results());
        self
    }
}

/// A client with a session.
pub struct Client {
    /// The client ID.
    pub clientid: ClientId,
    /// The session.
    pub session: SessionId,
    /// The minor version.
    pub minor: u32,
    /// The last sequence number of each slot.
    pub sequences: Vec<u32>,
}

/// Channel attributes that every server grants.
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
    /// A client that has finished its reclaims.
    pub fn new(wire: &mut Wire, name: &[u8], minor: u32) -> Client {
        let mut client = Client::before_reclaim(wire, name, minor);
        let complete = Args::ReclaimComplete(destroy::ReclaimCompleteArgs { one_fs: false });
        client.run(wire, &[complete]).ok();
        client
    }

    /// A client with a session and no other state.
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
    pub fn run(&mut self, wire: &mut Wire, operations: &[Args<'_>]) -> ReceivedCompound {
        let all = [&[self.sequence(0, false)][..], operations].concat();
        wire.call(self.minor, &all)
    }

    /// Creates a file in the export's root. Returns its handle and the open's stateid.
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
    pub fn on(&mut self, wire: &mut Wire, handle: &[u8], operations: &[Args<'_>]) -> ReceivedCompound {
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
