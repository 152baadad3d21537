//! A cached 4 KiB READ at queue depth 32: no allocation, one copy of the data, few system calls. Also WRITEs
//! of 1 MiB: the server never asks the host to acknowledge one at once.
//!
//! The whole stack runs in this process: a directory of the host, the engine, the SMB server, and the
//! transport with one worker. These are counted on the worker's thread only:
//!
//! * allocations, by the global allocator of this program;
//! * bytes copied in user space, by the `memcpy` and `memmove` of this program: all copies of the program's
//!   own code in pieces of 2 KiB and more go through them;
//! * system calls: those of the transport by its own counters (recv, sendmsg, epoll_wait), and reads of files
//!   by the host's counters of the thread (`syscr` in /proc/PID/task/TID/io).
//!
//! It is the only test of its program, since it replaces these functions for the whole process.

mod counting;

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use counting::{Expected, MeasuredRun, the_counters_count, undisturbed};
use proving::raw::{RawClient, RawClientIdentity};
use smb_wire::create::Access;
use smb_wire::{FileId, Guid, NtStatus, read, write};
use testkit::smb::{server_config, share_config, user};

/// The number of requests in flight.
const DEPTH: usize = 32;
/// The length of one READ.
const LENGTH: u32 = 4096;
const ROUNDS: usize = 300;
const WARM: usize = 30;
/// The length of the answer to one READ: prefix, header, fixed fields, data.
const ANSWER: usize = 4 + 64 + read::RESPONSE_FIXED + LENGTH as usize;
/// The length of one large WRITE.
const LARGE: u32 = 1 << 20;
const LARGE_WRITES: usize = 200;

/// A share on `directory`, served by one worker on a port that the host selects.
fn serve(directory: &Path) -> (net::Handle<smb::service::SmbService>, SocketAddr) {
    let (root, beside) = (directory.join("share"), directory.join("beside"));
    std::fs::create_dir(&root).expect("the share's root");
    std::fs::write(root.join("file"), vec![0x5a; DEPTH * LENGTH as usize]).expect("a file");
    let large = root.join("large");
    std::fs::write(&large, []).expect("a file");
    std::fs::set_permissions(&large, Permissions::from_mode(0o666)).expect("anyone may write to it");
    let volume = volume_posix::PosixVolume::open(&root, &beside).expect("the directory can be served");
    let engine = share::Share::open(Arc::new(volume), share::Config::default()).expect("the share opens");
    let server = smb::Server::new(server_config(), net::now());
    server.set_users([user("anna", "s3cret", 1001)]);
    server.set_shares([share_config(&engine)]);
    let listeners = net::Listeners::bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).expect("a port");
    let config = net::Config { workers: 1, ..net::Config::default() };
    let handle =
        net::serve(listeners, Arc::new(smb::service::SmbService(server)), config).expect("it serves");
    let address = handle.local_addresses()[0];
    (handle, address)
}

/// A batch with a READ of each block.
fn batch(client: &mut RawClient, file: FileId) -> Vec<u8> {
    let mut batch = Vec::new();
    for block in 0..DEPTH as u64 {
        client.push_read(&mut batch, file, block * u64::from(LENGTH), LENGTH);
    }
    batch
}

/// Sends `batch` and receives its answers.
fn exchange(client: &mut RawClient, batch: &[u8], answers: &mut [u8]) {
    client.send_batch(batch).expect("the server takes a batch");
    client.receive_into(answers).expect("the answers");
}

/// Reads the same 32 blocks repeatedly on one connection, and checks the costs of one READ.
fn measure(server: &net::Handle<smb::service::SmbService>, address: SocketAddr, signs: bool) {
    let guid = Guid([2 + u8::from(signs); 16]);
    let who = RawClientIdentity { user: "anna", password: "s3cret", guid, signs };
    let mut client = RawClient::log_on(address, &who, "files").expect("the client logs on");
    let file = client.open("file", Access::FILE_GENERIC_READ).expect("the file opens");
    let mut answers = vec![0; DEPTH * ANSWER];
    let run = undisturbed(|| {
        let batches: Vec<_> = (0..WARM + ROUNDS).map(|_| batch(&mut client, file)).collect();
        let (warm, measured) = batches.split_at(WARM);
        warm.iter().for_each(|batch| exchange(&mut client, batch, &mut answers));
        check(&client, &mut answers, signs);
        let run = MeasuredRun::of(server, || {
            measured.iter().for_each(|batch| exchange(&mut client, batch, &mut answers))
        });
        check(&client, &mut answers, signs);
        run
    });
    let name = if signs { "signed READ" } else { "READ" };
    let count = (ROUNDS * DEPTH) as u64;
    run.costs(&Expected { name, count, from_file: u64::from(LENGTH), most: 1.2 });
}

/// Checks that the answers have the expected data, in any order.
fn check(client: &RawClient, answers: &mut [u8], signs: bool) {
    for answer in answers.chunks_exact_mut(ANSWER) {
        let message = &mut answer[4..];
        assert!(!signs || client.is_signed_well(message));
        let header = smb_wire::Header::parse(message).expect("a header");
        assert_eq!(header.status(), NtStatus::SUCCESS);
        let data = read::Response::parse(message).expect("a READ response").data;
        assert!(data.len() == LENGTH as usize && data.iter().all(|&byte| byte == 0x5a));
    }
}

/// Writes 1 MiB with each of many requests, one after the other. Each is sent with one call and arrives in
/// many pieces. The server has the host acknowledge none of them at once (TCP_QUICKACK): only a client whose
/// first piece is small waits for that.
fn write_without_acknowledging(server: &net::Handle<smb::service::SmbService>, address: SocketAddr) {
    let who = RawClientIdentity { user: "anna", password: "s3cret", guid: Guid([4; 16]), signs: false };
    let mut client = RawClient::log_on(address, &who, "files").expect("the client logs on");
    let file = client.open("large", Access::WRITE_DATA).expect("the file opens");
    let data = vec![0x5a; LARGE as usize];
    let mut answer = [0; 4 + 64 + write::RESPONSE_FIXED];
    let before = server.totals();
    for _ in 0..LARGE_WRITES {
        let mut request = Vec::new();
        client.push_write(&mut request, file, 0, &data);
        exchange(&mut client, &request, &mut answer);
        let message = &answer[4..];
        assert_eq!(smb_wire::Header::parse(message).expect("a header").status(), NtStatus::SUCCESS);
        assert_eq!(write::Response::parse(message).expect("a WRITE response").count, LARGE);
    }
    let after = server.totals();
    assert_eq!(after.records - before.records, LARGE_WRITES as u64);
    let in_pieces = after.recv_calls - before.recv_calls;
    assert!(in_pieces > LARGE_WRITES as u64, "{in_pieces} calls received {LARGE_WRITES} WRITEs of 1 MiB");
    assert_eq!(after.ack_calls, before.ack_calls, "calls that acknowledge {LARGE_WRITES} WRITEs of 1 MiB");
}

/// A single test, so that nothing else runs at the same time.
#[test]
fn a_cached_read_costs_one_copy_and_a_large_write_no_acknowledgement() {
    the_counters_count();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (server, address) = serve(directory.path());
    measure(&server, address, false);
    measure(&server, address, true);
    write_without_acknowledging(&server, address);
    server.shutdown(Duration::from_secs(5));
}
