//! Clients that disappear without closing their files, and a server with few descriptors.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use client::Bytes;
use client::nfs::{Client, Creation};
use client::smb::{Connection, Credentials, OpenOptions, Options, Session};
use smb_wire::create::Disposition;

use super::LiveServer;

/// The number of the server's descriptors.
const LIMIT: &str = "--nofile=300";
/// The number of files that each client leaves open.
const LEFT: usize = 255;
/// The maximum duration of an operation that must not wait.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Starts a server with few descriptors, whose share has persistent opens, which are never closed for others.
fn start() -> LiveServer {
    LiveServer::start_as("continuously_available = true\n", |serve| {
        let mut command = Command::new("prlimit");
        command.arg(LIMIT).arg(serve.get_program()).args(serve.get_args());
        command.env_clear().envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(serve.get_current_dir().expect("it has one"));
        command
    })
}

/// Whether the server may open files by handle. Prints a message if it may not.
fn opens_by_handle() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if !is_root {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED clients that vanish: files are opened by handle as root");
    }
    is_root
}

/// Runs an operation that must not wait.
async fn at_once<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(AT_ONCE, work).await.unwrap_or_else(|_| panic!("{what} waits"))
}

/// Opens and creates files over NFS and SMB, as other clients do, each over its own connections.
async fn others_work(server: &LiveServer, round: usize) {
    for number in 0..8 {
        let name = format!("other-{round}-{number}");
        at_once("NFS", async {
            let client = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
            let files = client.directory("/files").await.unwrap();
            let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
            let file = files.open(&name, &how).await.unwrap();
            file.write_all(0, &Bytes::from_static(b"nfs")).await.unwrap();
            file.close().await.unwrap();
            files.open("left-0", &client::nfs::OpenOptions::read()).await.unwrap().close().await.unwrap();
            client.close().await.unwrap();
        })
        .await;
        at_once("SMB", async {
            let session = server.log_on().await;
            let tree = session.connect("files").await.unwrap();
            let file = tree.open(&name, &OpenOptions::file(Disposition::Open)).await.unwrap();
            assert_eq!(&file.read(0, 9).await.unwrap()[..], b"nfs");
            file.close().await.unwrap();
            session.log_off().await.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn an_nfs_client_that_vanishes_with_many_files_open_is_in_nobodys_way() {
    if !opens_by_handle() {
        return;
    }
    let server = start();
    let gone = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
    let files = gone.directory("/files").await.unwrap();
    let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
    let mut left = Vec::new();
    for at in 0..LEFT {
        let file = files.open(&format!("left-{at}"), &how).await.unwrap();
        file.write_all(0, &Bytes::from(at.to_string().into_bytes())).await.unwrap();
        left.push(file);
    }
    others_work(&server, 0).await;
    // The client was only silent, and its state is unchanged.
    for (at, file) in left.iter().enumerate() {
        let data = file.read(0, 9).await.unwrap();
        assert_eq!(&data[..], at.to_string().as_bytes());
        file.write_all(0, &Bytes::from_static(b"back")).await.unwrap();
    }
    others_work(&server, 1).await;
    let closed = server.json("status").await["transport"]["descriptors"]["idle_closed"].as_u64();
    assert!(closed > Some(0), "{closed:?}");
    // All readers see the data that it wrote.
    for at in 0..LEFT {
        let data = std::fs::read(server.program.path().join(format!("files/left-{at}"))).unwrap();
        assert!(data.starts_with(b"back"), "{at}: {data:?}");
    }
}

#[tokio::test]
async fn an_smb_client_that_vanishes_with_persistent_opens_is_in_nobodys_way_and_finds_them_again() {
    if !opens_by_handle() {
        return;
    }
    let server = start();
    // The server recognizes the returning client by these options.
    let options = Options::default();
    let log_on = || async {
        let connection = Connection::connect(server.smb, "localhost", &options).await.unwrap();
        Session::log_on(&connection, &Credentials::new("anna", "s3cret"), false).await.unwrap()
    };
    let session = log_on().await;
    let tree = session.connect("files").await.unwrap();
    let how = OpenOptions::file(Disposition::OpenIf);
    let mut left = Vec::new();
    for at in 0..LEFT {
        let (file, lasting) = tree.open_persistent(&format!("left-{at}"), &how).await.unwrap();
        file.write(0, at.to_string().as_bytes()).await.unwrap();
        file.lock(0, 1).await.unwrap();
        left.push(lasting);
    }
    drop((tree, session));
    others_work(&server, 0).await;
    let session = log_on().await;
    let tree = session.connect("files").await.unwrap();
    let mut files = Vec::new();
    for (at, lasting) in left.iter().enumerate() {
        let file = tree.reconnect(lasting).await.unwrap();
        assert_eq!(&file.read(0, 9).await.unwrap()[..], at.to_string().as_bytes());
        file.unlock(0, 1).await.unwrap();
        files.push(file);
    }
    others_work(&server, 1).await;
}
