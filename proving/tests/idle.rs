//! What an idle client costs: a connection with an authenticated session, a tree and an open file that has
//! been read, in memory of the server's process.
//!
//! The server is the program itself as a process of its own, so that both ends' descriptors suffice and only
//! its memory is counted. A thousand clients in the quick form; ten thousand with `TRUNKLINE_FULL=1`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use proving::raw::{RawClient, Who};
use smb_wire::Guid;

/// Bytes that one idle client may cost.
const BOUND: usize = 32 * 1024;
/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program, built as this test was.
fn program() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "trunkline", "--bin", "trunkline"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo runs").success(), "the program does not build");
    // This test is TARGET/PROFILE/deps/idle-HASH.
    let here = std::env::current_exe().expect("this program has a path");
    let profile = here.parent().and_then(Path::parent).expect("a directory of a profile");
    profile.join("trunkline")
}

/// A server that runs; killed when dropped.
struct Running {
    child: Child,
    address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Serves `directory/files` to the user anna.
    fn start(directory: &Path) -> Running {
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("a file");
        std::fs::create_dir(directory.join("files")).expect("the share's root");
        write("files/file", &"x".repeat(4096));
        write("password", "s3cret");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(directory.join("password"), private).expect("its mode");
        write(
            "trunkline.toml",
            "[server]\nlisten = [\"127.0.0.1\"]\nsmb_port = 0\nstate_dir = \"state\"\ndiscovery = false\n\
             log_level = \"warn\"\nmax_connections = 20000\n\
             [[user]]\nname = \"anna\"\npassword_file = \"password\"\n\
             [share.files]\npath = \"files\"\nusers = { anna = \"read\" }\n",
        );
        let notify = directory.join("notify");
        let notices = UnixDatagram::bind(&notify).expect("a socket for notices");
        notices.set_read_timeout(Some(PATIENCE)).expect("a bound on waiting");
        let output = directory.join("output");
        let child = Command::new(program())
            .args(["serve", "--config", "trunkline.toml"])
            .current_dir(directory)
            .env("NOTIFY_SOCKET", notify)
            .stdin(Stdio::null())
            .stdout(File::create(&output).expect("a file"))
            .spawn()
            .expect("the program starts");
        let mut running = Running { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) };
        let mut notice = [0; 512];
        loop {
            let length = notices.recv(&mut notice).expect("the server is ready in time");
            if String::from_utf8_lossy(&notice[..length]).lines().any(|line| line == "READY=1") {
                break;
            }
        }
        running.address.set_port(port(&output));
        running
    }

    /// Resident bytes of the server.
    fn resident(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.id());
        let status = BufReader::new(File::open(path).expect("procfs"));
        let line = status.lines().map_while(Result::ok).find(|line| line.starts_with("VmRSS:"));
        let line = line.expect("a line about memory");
        let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok());
        kib.expect("a number") * 1024
    }
}

/// The port, from the line that says how to connect.
fn port(output: &Path) -> u16 {
    let text = std::fs::read_to_string(output).expect("what the server printed");
    let port = text.split(" -p ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    port.unwrap_or_else(|| panic!("no port in: {text}"))
}

/// A client of a machine of its own that has read a file and leaves it open.
fn idle_client(server: &Running, number: usize) -> RawClient {
    let guid = Guid((number as u128 + 1).to_be_bytes());
    let who = Who { user: "anna", password: "s3cret", guid, signs: true };
    let mut client = RawClient::log_on(server.address, &who, "files").expect("the client logs on");
    let file = client.open("file").expect("the file opens");
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
    let server = Running::start(directory.path());
    // What everybody shares is not what one more client costs.
    let _warm: Vec<_> = (0..50).map(|number| idle_client(&server, count + number)).collect();
    let before = server.resident();
    let clients: Vec<_> = (0..count).map(|number| idle_client(&server, number)).collect();
    let each = server.resident().saturating_sub(before) / clients.len();
    println!("{each} bytes for each of {count} idle sessions");
    assert!(each < BOUND, "{each} bytes for each of {count} idle sessions");
}
