//! The project's own NFS client while the server restarts: its opens stay, or are known to be lost.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::nfs::{Client, Creation, ExportFile, NfsStat, OpenOptions, Options, StableHow};
use client::{Bytes, Error};
use tokio::net::{TcpListener, TcpStream};

use crate::LiveServer;

/// An address that forwards connections to the server's current port.
struct PortForwarder {
    address: SocketAddr,
    leads_to: Arc<Mutex<SocketAddr>>,
}

impl PortForwarder {
    async fn to(server: &LiveServer) -> PortForwarder {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let leads_to = Arc::new(Mutex::new(server.nfs));
        let target = Arc::clone(&leads_to);
        tokio::spawn(async move {
            while let Ok((mut inner, _)) = listener.accept().await {
                let target = *target.lock().unwrap();
                tokio::spawn(async move {
                    if let Ok(mut outer) = TcpStream::connect(target).await {
                        // Both connections are closed after any end.
                        let _ = tokio::io::copy_bidirectional(&mut inner, &mut outer).await;
                    }
                });
            }
        });
        PortForwarder { address, leads_to }
    }

    fn lead_to(&self, server: &LiveServer) {
        *self.leads_to.lock().unwrap() = server.nfs;
    }

    /// A client behind the forwarder, with two connections.
    async fn client(&self) -> Client {
        let reconnect_after = Duration::from_millis(1);
        let options = Options { connections: 2, reconnect_after, ..Options::default() };
        Client::connect(self.address, options).await.unwrap()
    }
}

async fn made(client: &Client, name: &str) -> ExportFile {
    let files = client.directory("/files").await.unwrap();
    files.open(name, &OpenOptions::write(Creation::IfMissing(0o644))).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_written_over_nfs_stay_open_over_restarts() {
    let mut server = LiveServer::start();
    let way = PortForwarder::to(&server).await;
    let client = way.client().await;
    let (ends, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..3 {
        let file = made(&client, &format!("file-{number}")).await;
        let (ends, written) = (Arc::clone(&ends), Arc::clone(&written));
        tasks.spawn(async move {
            let mut count = 0u64;
            while !ends.load(Ordering::Relaxed) {
                let data = Bytes::copy_from_slice(&count.to_be_bytes());
                let done = file.write(count % 64 * 8, &data, StableHow::FileSync).await.unwrap();
                assert_eq!(done.count, 8);
                assert_eq!(*file.read(count % 64 * 8, 8).await.unwrap(), *data);
                count += 1;
                written.fetch_add(1, Ordering::Relaxed);
            }
            file.close().await.unwrap();
        });
    }
    for _ in 0..2 {
        let before = written.load(Ordering::Relaxed);
        let goes_on = || written.load(Ordering::Relaxed) >= before + 30;
        is_soon(goes_on).await;
        server.restart();
        way.lead_to(&server);
    }
    let before = written.load(Ordering::Relaxed);
    is_soon(|| written.load(Ordering::Relaxed) >= before + 30).await;
    ends.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    client.close().await.unwrap();
}

/// Waits until `done`, which must happen.
async fn is_soon(done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < testkit::program::PATIENCE, "it does not happen");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_file_that_the_restarted_server_has_no_record_of_is_lost() {
    let mut server = LiveServer::start();
    let way = PortForwarder::to(&server).await;
    let client = way.client().await;
    let file = made(&client, "file").await;
    let data = Bytes::from_static(b"data");
    file.write(0, &data, StableHow::FileSync).await.unwrap();
    let state = server.program.path().join("state");
    server.restart_after(|| {
        for entry in std::fs::read_dir(&state).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with("nfs-clients.") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    });
    way.lead_to(&server);
    for lost in [file.write(0, &data, StableHow::FileSync).await.map(drop), file.close().await] {
        assert!(matches!(lost, Err(Error::StateLost { status: NfsStat::NoGrace })), "{lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_to_nfs_goes_on_over_a_restart() {
    let mut server = LiveServer::start();
    let way = PortForwarder::to(&server).await;
    let content: Vec<u8> = (0..12u32 << 20).map(|at| (at % 251) as u8).collect();
    let [source, files] = ["source", "files"].map(|name| server.program.path().join(name));
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("film"), &content).unwrap();
    let program = Arc::clone(&server.program);
    let line = format!("copy source nfs://{}/files --rate 3m", way.address);
    let copying = tokio::task::spawn_blocking(move || program.trunkline(&line).output().unwrap());
    // An unfinished file has another name.
    let has_begun = || {
        let mut found = std::fs::read_dir(&files).unwrap().map(Result::unwrap);
        found.any(|entry| entry.metadata().is_ok_and(|it| it.len() > 1 << 20))
    };
    is_soon(has_begun).await;
    assert!(!files.join("film").exists());
    server.restart();
    way.lead_to(&server);
    let output = copying.await.unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    // Files were copied, and none failed.
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(std::fs::read(files.join("film")).unwrap() == content);
    let names: Vec<_> = std::fs::read_dir(&files).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["film"]);
}
