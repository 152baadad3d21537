//! Cached 4 KiB READs and unstable WRITEs over NFSv4.1, with many in flight on one connection: the costs of
//! one in allocations, copies and system calls, counted like those of SMB in `hot_path.rs`. Also READDIR: the
//! allocations for one more name.
//!
//! It is the only test of its program, since the counters replace functions of the whole process.

mod counting;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use counting::{Expected, MeasuredRun, the_counters_count, undisturbed};
use nfs::connection::service::NfsService;
use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, Bitmap};
use nfs_wire::compound::{CallWriter, Reply, Target};
use nfs_wire::op::{
    Args, Res, create_session, destroy, exchange_id, filehandle, names, open, read, readdir, sequence, write,
};
use nfs_wire::rpc::record::MARK;
use nfs_wire::rpc::{self, Accepted, AuthSys, Credential, Message};
use nfs_wire::types::{ClientId, FileHandle, Identity, SessionId, StableHow, StateId, StateOwner};
use nfs_wire::xdr::List;
use volume::{Name, Volume};
use wire::Frame;

/// The number of requests in flight, each in its own slot. A whole batch of WRITEs fits into one receive
/// buffer.
const DEPTH: usize = 16;
/// The length of one READ or WRITE.
const LENGTH: usize = 4096;
const ROUNDS: usize = 300;
const WARM: usize = 30;
/// The directories to list, with their number of files.
const LISTED: [(&str, usize); 2] = [("few", 8), ("many", 400)];

/// A volume in memory with directories to list. Nothing in it is too recent to be cached.
fn listed() -> volume::memory::MemoryVolume {
    let memory = volume::memory::MemoryVolume::new(5);
    let root = memory.root().expect("a root");
    let name = |text: &str| Name::new(text.as_bytes()).expect("a name");
    for (directory, files) in LISTED {
        let made = root.create_directory(&name(directory), 0o755, None).expect("a directory");
        for file in 0..files {
            made.create_file(&name(&format!("file-{file:05}")), 0o644, None).expect("a file");
        }
    }
    memory
}

/// A share on `directory`, and one with directories to list, served by one worker on a port that the host
/// selects.
fn serve(directory: &Path) -> (net::Handle<NfsService>, SocketAddr) {
    let (root, beside) = (directory.join("share"), directory.join("beside"));
    std::fs::create_dir(&root).expect("the share's root");
    std::fs::write(root.join("file"), vec![0x5a; 2 * DEPTH * LENGTH]).expect("a file");
    let volume = volume_posix::PosixVolume::open(&root, &beside).expect("the directory can be served");
    let engine = |volume: Arc<dyn Volume>| share::Share::open(volume, share::Config::default());
    let server = nfs::Server::new(nfs::ServerConfig {
        name: b"server".to_vec(),
        handle_key: [7; 32],
        instance: 0x0123_4567_89ab_cdef,
        lease_time_s: 90,
        slots: DEPTH as u32,
        max_connections: 4,
        connections_per_client: 4,
        reply_memory: nfs::state::reply_memory::ReplyMemory::new(1 << 24),
    });
    // The user who runs the test has access to the file as its owner.
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let export = |name: &str, id, volume| nfs::Export {
        name: name.into(),
        id,
        engine: engine(volume).expect("the share opens"),
        read_only: false,
        squash: nfs::Squash::All,
        anonymous: own,
        clients: Vec::new(),
        secure: false,
        manage_gids: None,
    };
    server.set_exports([export("share", 1, Arc::new(volume)), export("listed", 2, Arc::new(listed()))]);
    let listeners = net::Listeners::bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).expect("a port");
    let config = net::Config { workers: 1, ..net::Config::default() };
    let handle = net::serve(listeners, Arc::new(NfsService(server)), config).expect("it serves");
    let address = handle.local_addresses()[0];
    (handle, address)
}

/// A client with an open file.
struct Client {
    socket: TcpStream,
    session: SessionId,
    /// The last sequence number of all slots, which are used in the same way.
    sequence: u32,
    handle: Vec<u8>,
    stateid: StateId,
}

/// A call with its record mark.
fn call(operations: &[Args<'_>]) -> Vec<u8> {
    let credential = Credential::Sys(AuthSys::new(b"host", 0, 0, &[]));
    let mut writer = CallWriter::begin(Frame::default(), Target::Server, 1, &credential, b"", 1);
    for operation in operations {
        writer.push(operation);
    }
    writer.finish().bytes().to_vec()
}

/// The body of the next reply.
fn answer(socket: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; MARK];
    socket.read_exact(&mut mark).expect("an answer");
    let mut message = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    socket.read_exact(&mut message).expect("a whole answer");
    match Message::parse(&message) {
        Ok(Message::Reply(rpc::RpcReply { outcome: Ok(Accepted::Success(body)), .. })) => body.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Sends a call, and passes the results of a successful one to `take`.
fn ask<T>(socket: &mut TcpStream, operations: &[Args<'_>], take: impl FnOnce(&[Res<'_>]) -> T) -> T {
    socket.write_all(&call(operations)).expect("the server takes a call");
    let body = answer(socket);
    let reply = Reply::parse(&body).expect("COMPOUND4res");
    assert_eq!(reply.status, NfsStat::Ok);
    take(&reply.results().map(|result| result.expect("a result")).collect::<Vec<_>>())
}

fn lookup(name: &str) -> Args<'_> {
    Args::Lookup(names::LookupArgs { objname: name.as_bytes() })
}

fn begin_session(clientid: ClientId, sequence: u32) -> Args<'static> {
    let attrs = create_session::ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: 1 << 20,
        maxresponsesize: 1 << 20,
        maxresponsesize_cached: 4096,
        maxoperations: 8,
        maxrequests: DEPTH as u32,
        rdma_ird: None,
    };
    Args::CreateSession(create_session::Args {
        clientid,
        sequence,
        flags: create_session::SessionFlags::empty(),
        fore_chan_attrs: attrs,
        back_chan_attrs: attrs,
        cb_program: 0x4000_0000,
        sec_parms: List::EMPTY,
    })
}

impl Client {
    fn log_on(address: SocketAddr) -> Client {
        let mut socket = TcpStream::connect(address).expect("a connection");
        socket.set_nodelay(true).expect("no delay");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a bound");
        let introduce = Args::ExchangeId(exchange_id::Args {
            clientowner: exchange_id::ClientOwner { verifier: [1; 8], ownerid: Identity(b"counting") },
            flags: exchange_id::ExchangeFlags::empty(),
            state_protect: exchange_id::StateProtectArgs::None,
            client_impl_id: None,
        });
        let (clientid, number) = ask(&mut socket, &[introduce], |results| match results {
            [Res::ExchangeId(Ok(known))] => (known.clientid, known.sequenceid),
            other => panic!("{other:?}"),
        });
        let session = ask(&mut socket, &[begin_session(clientid, number)], |results| match results {
            [Res::CreateSession(Ok(session))] => {
                assert_eq!(session.fore_chan_attrs.maxrequests as usize, DEPTH);
                session.sessionid
            }
            other => panic!("{other:?}"),
        });
        let stateid = StateId::ANONYMOUS;
        let mut client = Client { socket, session, sequence: 0, handle: Vec::new(), stateid };
        let complete = Args::ReclaimComplete(destroy::ReclaimCompleteArgs { one_fs: false });
        client.in_all_slots(&complete);
        client.open();
        client
    }

    fn slot(&self, slot: u32) -> Args<'static> {
        Args::Sequence(sequence::Args {
            sessionid: self.session,
            sequenceid: self.sequence,
            slotid: slot,
            highest_slotid: slot,
            cachethis: false,
        })
    }

    /// Uses every slot once: the first for `first`, and the others for nothing.
    fn in_all_slots(&mut self, first: &Args<'_>) {
        self.sequence += 1;
        for slot in 0..DEPTH as u32 {
            let sequence = self.slot(slot);
            let both = [sequence, *first];
            ask(&mut self.socket, if slot == 0 { &both[..] } else { &both[..1] }, |_| ());
        }
    }

    fn open(&mut self) {
        let opening = Args::Open(open::Args {
            seqid: 0,
            share_access: open::ShareAccess::BOTH | open::ShareAccess::WANT_NO_DELEG,
            share_deny: open::ShareDeny::empty(),
            owner: StateOwner { clientid: 0, owner: Identity(b"owner") },
            openhow: open::OpenHow::NoCreate,
            claim: open::Claim::Null(b"file"),
        });
        self.sequence += 1;
        let operations = [self.slot(0), Args::PutRootFh, lookup("share"), opening, Args::GetFh];
        (self.stateid, self.handle) = ask(&mut self.socket, &operations, |results| match results[3..] {
            [Res::Open(Ok(ref open)), Res::GetFh(Ok(ref handle))] => (open.stateid, handle.object.0.to_vec()),
            ref other => panic!("{other:?}"),
        });
        let sequences: Vec<_> = (1..DEPTH as u32).map(|slot| self.slot(slot)).collect();
        for sequence in sequences {
            ask(&mut self.socket, &[sequence], |_| ());
        }
    }

    /// Sends a call in the first slot, and uses the others for nothing.
    fn in_first_slot<T>(&mut self, operations: &[Args<'_>], take: impl FnOnce(&[Res<'_>]) -> T) -> T {
        self.sequence += 1;
        let all = [&[self.slot(0)], operations].concat();
        let taken = ask(&mut self.socket, &all, take);
        for slot in 1..DEPTH as u32 {
            let sequence = self.slot(slot);
            ask(&mut self.socket, &[sequence], |_| ());
        }
        taken
    }

    /// The handle of a directory to list.
    fn find(&mut self, name: &str) -> Vec<u8> {
        let path = [Args::PutRootFh, lookup("listed"), lookup(name), Args::GetFh];
        self.in_first_slot(&path, |results| {
            let Some(Res::GetFh(Ok(handle))) = results.last() else { panic!("{results:?}") };
            handle.object.0.to_vec()
        })
    }

    /// A batch with one request in every slot.
    fn batch(&mut self, operation: impl Fn(StateId, u64) -> Args<'static>) -> Vec<u8> {
        self.sequence += 1;
        let here = Args::PutFh(filehandle::PutArgs { object: FileHandle(&self.handle) });
        let calls = (0..DEPTH).map(|slot| {
            call(&[self.slot(slot as u32), here, operation(self.stateid, (slot * LENGTH) as u64)])
        });
        calls.collect::<Vec<_>>().concat()
    }

    /// Sends a batch and receives the answers.
    fn exchange(&mut self, batch: &[u8], answers: &mut [u8]) {
        self.socket.write_all(batch).expect("the server takes a batch");
        self.socket.read_exact(answers).expect("the answers");
    }
}

fn reading(stateid: StateId, offset: u64) -> Args<'static> {
    Args::Read(read::Args { stateid, offset, count: LENGTH as u32 })
}

fn writing(stateid: StateId, offset: u64) -> Args<'static> {
    static DATA: [u8; LENGTH] = [0x5a; LENGTH];
    Args::Write(write::Args { stateid, offset, stable: StableHow::Unstable, data: &DATA })
}

/// Repeats a batch, and checks the costs of one request: `from_file` is the number of bytes that it reads
/// from the file, and `most` is its maximum number of system calls.
fn measure(
    server: &net::Handle<NfsService>,
    client: &mut Client,
    name: &str,
    operation: fn(StateId, u64) -> Args<'static>,
    (from_file, most): (u64, f64),
) {
    // The form of one answer.
    let one = client.batch(operation);
    client.socket.write_all(&one).expect("the server takes a batch");
    let len = MARK + rpc::SUCCESS_HEADER + check(&answer(&mut client.socket));
    for _ in 1..DEPTH {
        check(&answer(&mut client.socket));
    }
    let mut answers = vec![0; DEPTH * len];
    let run = undisturbed(|| {
        let batches: Vec<_> = (0..WARM + ROUNDS).map(|_| client.batch(operation)).collect();
        let (warm, measured) = batches.split_at(WARM);
        warm.iter().for_each(|batch| client.exchange(batch, &mut answers));
        MeasuredRun::of(server, || measured.iter().for_each(|batch| client.exchange(batch, &mut answers)))
    });
    for answer in answers.chunks_exact(len) {
        check(&answer[MARK + rpc::SUCCESS_HEADER..]);
    }
    run.costs(&Expected { name, count: (ROUNDS * DEPTH) as u64, from_file, most });
}

/// The least number of allocations of listing a directory with `files` files, when its metadata is cached.
/// The attributes are those that Linux requests, including filehandles and owners.
fn list(server: &net::Handle<NfsService>, client: &mut Client, (name, files): (&str, usize)) -> u64 {
    let handle = client.find(name);
    let wanted = [
        AttrNum::Type,
        AttrNum::Change,
        AttrNum::Size,
        AttrNum::Fsid,
        AttrNum::RdattrError,
        AttrNum::Filehandle,
        AttrNum::Fileid,
        AttrNum::Mode,
        AttrNum::Numlinks,
        AttrNum::Owner,
        AttrNum::OwnerGroup,
        AttrNum::Rawdev,
        AttrNum::SpaceUsed,
        AttrNum::TimeAccess,
        AttrNum::TimeMetadata,
        AttrNum::TimeModify,
        AttrNum::MountedOnFileid,
    ];
    let attr_request = Bitmap::of(&wanted.map(AttrNum::get));
    let args =
        readdir::Args { cookie: 0, cookieverf: [0; 8], dircount: 1 << 18, maxcount: 1 << 18, attr_request };
    let operations = [Args::PutFh(filehandle::PutArgs { object: FileHandle(&handle) }), Args::ReadDir(args)];
    let mut least = u64::MAX;
    for _ in 0..WARM {
        let run = MeasuredRun::of(server, || {
            client.in_first_slot(&operations, |results| {
                let Some(Res::ReadDir(Ok(found))) = results.last() else { panic!("{results:?}") };
                assert!(found.eof);
                assert_eq!(
                    found.entries.iter().filter(|entry| entry.attrs.mask == attr_request).count(),
                    files
                );
            });
        });
        least = least.min(run.allocations());
    }
    least
}

/// Checks that all operations of a reply succeeded, and returns the length of its body.
fn check(body: &[u8]) -> usize {
    let reply = Reply::parse(body).expect("COMPOUND4res");
    assert_eq!(reply.status, NfsStat::Ok);
    match reply.results().last() {
        Some(Ok(Res::Read(Ok(read)))) => {
            assert!(read.data.len() == LENGTH && read.data.iter().all(|byte| *byte == 0x5a));
        }
        Some(Ok(Res::Write(Ok(written)))) => assert_eq!(written.count as usize, LENGTH),
        other => panic!("{other:?}"),
    }
    body.len()
}

/// A single test, so that nothing else runs at the same time.
#[test]
fn a_cached_read_and_a_write_cost_one_call_on_the_file_and_no_allocation() {
    the_counters_count();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (server, address) = serve(directory.path());
    let mut client = Client::log_on(address);
    measure(&server, &mut client, "READ", reading, (LENGTH as u64, 1.4));
    measure(&server, &mut client, "WRITE", writing, (0, 1.6));
    let [few, many] = LISTED.map(|directory| list(&server, &mut client, directory));
    println!("READDIR: {few} and {many} allocations");
    let more = (LISTED[1].1 - LISTED[0].1) as u64;
    // The buffers of a longer reply grow a few times.
    assert!(many < few + more / 8, "{few} and {many}: a name more takes no allocation");
    server.shutdown(Duration::from_secs(5));
}
