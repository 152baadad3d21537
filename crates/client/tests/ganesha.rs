//! The NFS client against a foreign server: every operation once, and connections that are cut while it
//! works.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::Bytes;
use client::nfs::{Client, Creation, ExportDirectory, FileType, NfsStat, OpenOptions, Options, StableHow};
use testkit::ganesha::Ganesha;
use testkit::proxy::{Proxy, until};

async fn connected(address: SocketAddr, options: Options) -> (Client, ExportDirectory) {
    let client = Client::connect(address, options).await.unwrap();
    let directory = client.directory("/files").await.unwrap();
    (client, directory)
}

#[tokio::test]
async fn files_and_directories_are_made_written_read_listed_and_removed() {
    let Some(ganesha) = Ganesha::start("every operation of NFS") else { return };
    let (client, root) = connected(ganesha.address, Options { connections: 4, ..Options::default() }).await;
    root.make_directory("below", 0o755).await.unwrap();
    let taken = root.make_directory("below", 0o755).await.unwrap_err();
    assert_eq!(taken.nfs_status(), Some(NfsStat::Exist));
    let below = client.directory("/files//below/").await.unwrap();
    let file = below.open("file", &OpenOptions::write(Creation::Always(0o640))).await.unwrap();
    let content: Bytes = (0..3_000_001).map(|at: u32| (at % 253) as u8).collect::<Vec<u8>>().into();
    file.write_all(0, &content).await.unwrap();
    let written = file.write(5, &content.slice(5..8), StableHow::FileSync).await.unwrap();
    assert_eq!((written.count, written.committed), (3, StableHow::FileSync));
    assert_eq!(file.commit().await.unwrap(), written.verifier);
    let read = file.read(1_000_000, 1 << 20).await.unwrap();
    assert!(read.len() == 1 << 20 && *read == content[1_000_000..1_000_000 + (1 << 20)]);
    let end = file.read(3_000_000, 100).await.unwrap();
    assert_eq!((&*end, end.eof), (&content[3_000_000..], true));
    assert_eq!(file.stat().await.unwrap().size, 3_000_001);
    file.set_length(7).await.unwrap();
    file.close().await.unwrap();
    let on_disk = ganesha.files().join("below/file");
    assert_eq!(std::fs::read(on_disk).unwrap(), content[..7]);
    let put = OpenOptions { read: false, write: true, creation: Creation::Anew(0o600) };
    for number in 0..300 {
        let name = format!("name-{number}");
        below.put(&name, &put, &content.slice(..number)).await.unwrap();
        below.touch(&name, &OpenOptions::read()).await.unwrap();
    }
    let known = below.stat("name-299").await.unwrap();
    assert_eq!((known.kind, known.size, known.mode & 0o777), (FileType::Reg, 299, 0o600));
    let mut listed = below.list().await.unwrap();
    assert_eq!(listed.len(), 301);
    listed.retain(|it| it.name == b"name-123");
    assert_eq!(listed[0].attributes.size, 123);
    for entry in below.list().await.unwrap() {
        below.remove(std::str::from_utf8(&entry.name).unwrap()).await.unwrap();
    }
    root.remove("below").await.unwrap();
    let gone = root.stat("below").await.unwrap_err();
    assert_eq!(gone.nfs_status(), Some(NfsStat::NoEnt));
    assert!(client.connections().iter().all(|it| it.requests > 100), "{:?}", client.connections());
    client.close().await.unwrap();
}

#[tokio::test]
async fn neither_name_nor_byte_is_lost_or_done_twice_when_all_connections_are_cut() {
    let Some(ganesha) = Ganesha::start("NFS over cut connections") else { return };
    let way = Proxy::start(ganesha.address).await;
    let options = Options { connections: 4, reconnect_after: Duration::from_millis(5), ..Options::default() };
    let (client, directory) = connected(way.address, options).await;
    let over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> =
        (0..4).map(|number| tokio::spawn(work(directory.clone(), number, Arc::clone(&over)))).collect();
    for _ in 0..24 {
        until("all connections are back", || client.connections().len() == 4).await;
        let losses = client.losses();
        until("there is something to cut", || way.cut()).await;
        until("the loss is noticed", || client.losses() > losses).await;
    }
    over.store(true, Ordering::Relaxed);
    for worker in workers {
        assert!(worker.await.unwrap() > 0, "each has done something between the cuts");
    }
    assert_eq!(directory.list().await.unwrap(), []);
    // Ganesha knows the first 16 connections of a session, and ends it over none but those.
    if let Err(refused) = client.close().await {
        assert_eq!(refused.nfs_status(), Some(NfsStat::ConnNotBoundToSession));
    }
}

/// Makes, writes, reads and removes a file over and over. A step that was done twice is refused the second
/// time.
async fn work(directory: ExportDirectory, number: u64, over: Arc<AtomicBool>) -> u64 {
    let name = format!("file-{number}");
    let mut rounds = 0;
    while !over.load(Ordering::Relaxed) {
        let content = Bytes::from(vec![(rounds + number) as u8; 50_000]);
        let file = directory.open(&name, &OpenOptions::write(Creation::Always(0o600))).await.unwrap();
        file.write_all(0, &content).await.unwrap();
        assert!(*file.read(0, 100_000).await.unwrap() == content);
        file.close().await.unwrap();
        directory.remove(&name).await.unwrap();
        rounds += 1;
    }
    rounds
}

#[tokio::test]
async fn connections_are_added_and_given_up_while_the_others_work() {
    let Some(ganesha) = Ganesha::start("connections added and given up") else { return };
    let (client, root) = connected(ganesha.address, Options::default()).await;
    assert_eq!(client.widen(4).await.unwrap(), 4);
    let under_way: Vec<_> = (0..64)
        .map(|_| {
            let root = root.clone();
            tokio::spawn(async move { root.list().await })
        })
        .collect();
    tokio::task::yield_now().await;
    client.narrow(1);
    for listed in under_way {
        listed.await.unwrap().unwrap();
    }
    assert_eq!((client.connections().len(), client.losses()), (1, 0));
    assert_eq!(client.widen(2).await.unwrap(), 2);
    root.list().await.unwrap();
    client.close().await.unwrap();
}
