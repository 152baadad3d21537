//! The start and the end of a server: signals at any moment, and probes meanwhile.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use client::smb::OpenOptions;
use smb_wire::create::Disposition;
use testkit::program::{PATIENCE, ProgramDir};

use crate::LiveServer;

/// The status of an answer of the admin listener, and its text.
fn ask(at: SocketAddr, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n{headers}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn admin_address(server: &LiveServer) -> SocketAddr {
    let output = std::fs::read_to_string(server.program.path().join("output")).unwrap();
    let rest = output.split("admin      http://").nth(1).unwrap_or_else(|| panic!("no page in: {output}"));
    rest.split('/').next().unwrap().parse().unwrap()
}

/// A server that stops, while a client's request takes several seconds.
async fn stopping_server() -> (LiveServer, tokio::task::JoinHandle<()>) {
    let server = LiveServer::start_as("[server.testing]\nmetadata_delay_us = 1000000\n", |serve| serve);
    let deep = "a/".repeat(30);
    std::fs::create_dir_all(server.program.path().join("files").join(&deep)).unwrap();
    let files = server.log_on().await.connect("files").await.unwrap();
    let open = tokio::spawn(async move {
        // The second signal cuts it off.
        let _ = files.open(&format!("{deep}x"), &OpenOptions::file(Disposition::Create)).await;
    });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    server.server.signal("-TERM");
    server.server.hears("STOPPING=1");
    (server, open)
}

#[tokio::test]
async fn a_server_that_stops_says_so_to_probes_and_a_second_signal_ends_it_at_once() {
    let (mut server, open) = stopping_server().await;
    let at = admin_address(&server);
    let probe = tokio::task::spawn_blocking(move || ask(at, "/readyz", "")).await.unwrap();
    assert!(probe.starts_with("HTTP/1.1 503 "), "{probe}");
    let began = Instant::now();
    server.server.signal("-INT");
    let wait = move || (server.server.wait(), server);
    let (status, server) = tokio::task::spawn_blocking(wait).await.unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(began.elapsed().as_secs() < 3, "{:?}", began.elapsed());
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    assert!(log.contains("a second signal ended it"), "{log}");
    open.await.unwrap();
}

#[tokio::test]
async fn a_server_whose_state_directory_was_taken_away_ends_and_says_so() {
    let mut server = LiveServer::start();
    let session = server.log_on().await;
    let files = session.connect("files").await.unwrap();
    let lock = server.program.path().join("state/lock");
    std::fs::rename(&lock, lock.with_extension("old")).unwrap();
    let wait = move || (server.server.wait(), server);
    let (status, server) = tokio::task::spawn_blocking(wait).await.unwrap();
    assert_eq!(status.code(), Some(1));
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    assert!(log.contains("is lost, and this server ends: "), "{log}");
    assert!(files.open("file", &OpenOptions::file(Disposition::Create)).await.is_err());
}

#[test]
fn a_signal_ends_a_start_that_waits() {
    let program = ProgramDir::new();
    let fifo = Command::new("mkfifo").arg(program.path().join("trunkline.toml")).status().unwrap();
    assert!(fifo.success());
    for signal in ["-TERM", "-INT"] {
        let mut serve = program.trunkline("serve --config trunkline.toml");
        let mut serve =
            serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // It listens to signals before it reads the configuration, which never comes.
        let status = format!("/proc/{}/status", serve.id());
        let began = Instant::now();
        let hears = |text: &str| {
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
            u64::from_str_radix(caught.trim(), 16).is_ok_and(|mask| mask & 1 << 14 != 0 && mask & 2 != 0)
        };
        while !hears(&std::fs::read_to_string(&status).unwrap()) {
            assert!(began.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        let sent = Command::new("/bin/kill").args([signal, &serve.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(serve.wait().unwrap().code(), Some(0), "{signal}");
    }
    assert!(!program.path().join("state").exists());
}

#[tokio::test]
async fn a_refused_token_is_logged_with_its_sender_and_without_its_text() {
    let server = LiveServer::start();
    let at = admin_address(&server);
    let refused = move || {
        for _ in 0..20 {
            let answer = ask(at, "/api/v1/status", "Authorization: Bearer tl_secret-text\r\n");
            assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        }
    };
    tokio::task::spawn_blocking(refused).await.unwrap();
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("was refused")).collect();
    assert_eq!(lines.len(), 10, "{log}");
    assert!(lines.iter().all(|line| line.contains("127.0.0.1") && line.contains("not known")), "{log}");
    assert!(!log.contains("secret-text"));
}

/// Root changes the state of a server that runs as another user: all files stay that user's.
#[test]
fn what_root_changes_stays_its_owners() {
    use std::os::unix::fs::{MetadataExt, chown};
    const OWNER: u32 = 12_345;
    if !std::fs::metadata("/proc/self").unwrap().uid().eq(&0) {
        println!("skipped: it needs root");
        return;
    }
    let program = ProgramDir::new();
    let state = program.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::create_dir(program.path().join("docs")).unwrap();
    chown(&state, Some(OWNER), Some(OWNER)).unwrap();
    program.write("pw", "correct horse battery staple");
    program.run("user add ann --password-file pw").success();
    program.run("share create docs path=docs users=ann=full").success();
    program.run("token add ci --role read").success();
    for (path, _) in program.files().into_iter().filter(|(path, _)| path.starts_with(&state)) {
        let about = path.metadata().unwrap();
        assert_eq!((about.uid(), about.gid()), (OWNER, OWNER), "{}", path.display());
    }
}

/// A command that finds no state leaves nothing in that directory.
#[test]
fn a_downgrade_of_another_directory_leaves_nothing_there() {
    let program = ProgramDir::new();
    let other = program.path().join("other");
    std::fs::create_dir(&other).unwrap();
    for (directory, wanted) in [("other", "there is no state in"), ("missing", "there is no state in")] {
        let refused = program.run(&format!("state downgrade --state-dir {directory}")).code(2);
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(said.contains(wanted), "{said}");
    }
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
    std::fs::write(other.join("letter"), "x").unwrap();
    program.run("state downgrade --state-dir other").code(2);
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1);
}
