//! The memory of the server's process for an idle client: a connection with an authenticated session, a tree
//! connect, and an open file that has been read.
//!
//! The server runs as a process, so that there are enough descriptors for both ends and only its memory is
//! counted. The quick form has a thousand clients. With `TRUNKLINE_FULL=1` there are ten thousand.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use proving::raw::{RawClient, RawClientIdentity};
use proving::server_process::ServerProcess;
use smb_wire::Guid;
use smb_wire::create::Access;

/// The maximum number of bytes for one idle client.
const BOUND: usize = 32 * 1024;

/// Serves `directory/files`.
fn serve(directory: &Path) -> ServerProcess {
    std::fs::create_dir(directory.join("files")).expect("the share's root");
    std::fs::write(directory.join("files/file"), "x".repeat(4096)).expect("a file");
    ServerProcess::start(directory, "[share.files]\npath = \"files\"\nusers = { anna = \"read\" }\n")
}

/// The resident memory of the server, in bytes.
fn resident(server: &ServerProcess) -> usize {
    let path = format!("/proc/{}/status", server.child.id());
    let status = BufReader::new(File::open(path).expect("procfs"));
    let line = status.lines().map_while(Result::ok).find(|line| line.starts_with("VmRSS:"));
    let line = line.expect("a line about memory");
    let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok());
    kib.expect("a number") * 1024
}

/// A client with its own ClientGuid that has read a file and leaves it open.
fn idle_client(server: &ServerProcess, number: usize) -> RawClient {
    let guid = Guid((number as u128 + 1).to_be_bytes());
    let who = RawClientIdentity { user: "anna", password: "s3cret", guid, signs: true };
    let mut client = RawClient::log_on(server.smb, &who, "files").expect("the client logs on");
    let file = client.open("file", Access::FILE_GENERIC_READ).expect("the file opens");
    let mut request = Vec::new();
    client.push_read(&mut request, file, 0, 4096);
    client.send_batch(&request).expect("the server takes a request");
    let mut answer = vec![0; 4 + 64 + smb_wire::read::RESPONSE_FIXED + 4096];
    client.receive_into(&mut answer).expect("an answer");
    assert!(answer.ends_with(&[b'x'; 4096]) && client.is_signed_well(&mut answer[4..]));
    client
}

#[test]
fn an_idle_session_costs_less_than_32_kib() {
    let is_full = std::env::var_os("TRUNKLINE_FULL").is_some_and(|value| value == "1");
    let count = if is_full { 10_000 } else { 1000 };
    let limit = net::raise_descriptor_limit();
    assert!(limit > count as u64 + 100, "the host allows only {limit} descriptors");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = serve(directory.path());
    // Memory that all clients share is not a cost of one more client.
    let _warm: Vec<_> = (0..50).map(|number| idle_client(&server, count + number)).collect();
    let before = resident(&server);
    let clients: Vec<_> = (0..count).map(|number| idle_client(&server, number)).collect();
    let each = resident(&server).saturating_sub(before) / clients.len();
    println!("{each} bytes for each of {count} idle sessions");
    assert!(each < BOUND, "{each} bytes for each of {count} idle sessions");
}
